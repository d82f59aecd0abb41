"""Activations: the functions of keras.activations, and the layers that wrap them."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..errors import refuse
from ..ir import E, call
from . import Builder, Call, Tensor, axis_of, lowers, weights_of

# ------------------------------------------------------------------------- element by element


def sigmoid(x: E) -> E:
    """1 / (1 + e^-x); e^-x overflows to infinity, and 1 / infinity is the right 0."""
    return 1.0 / (1.0 + call("exp", -x))


def softplus(x: E) -> E:
    """log(1 + e^x), which neither overflows nor loses small values."""
    return call("max", x, 0.0) + call("log1p", call("exp", -call("abs", x)))


def elu(x: E, alpha: float = 1.0) -> E:
    return call("select", call("lt", 0.0, x), x, alpha * call("expm1", call("min", x, 0.0)))


def celu(x: E, alpha: float = 1.0) -> E:
    return call("max", x, 0.0) + alpha * call("expm1", call("min", x, 0.0) / alpha)


def selu(x: E) -> E:
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


def gelu(x: E, approximate: bool = False) -> E:
    if not approximate:
        return x * (0.5 * (1.0 + call("erf", x * (1.0 / math.sqrt(2.0)))))
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1.0 + call("tanh", inner))


def leaky_relu(x: E, negative_slope: float = 0.2) -> E:
    return call("select", call("lt", 0.0, x), x, negative_slope * x)


def relu(x: E, negative_slope: float = 0.0, max_value=None, threshold: float = 0.0) -> E:
    """The piecewise line of keras.activations.relu, with all three options."""
    if negative_slope and max_value is None and not threshold:
        return leaky_relu(x, negative_slope)
    y = call("select", call("lt", threshold, x), x, 0.0) if threshold else call("max", x, 0.0)
    if max_value is not None:
        y = call("min", y, float(max_value))
    if negative_slope:
        y = y - negative_slope * call("max", threshold - x if threshold else -x, 0.0)
    return y


def clip(x: E, low: float, high: float) -> E:
    return call("min", call("max", x, low), high)


def hard_sigmoid(x: E) -> E:
    """relu6(x + 3) / 6; Keras 2 had 0.2 x + 0.5."""
    return clip(x / 6.0 + 0.5, 0.0, 1.0)


def hard_shrink(x: E, threshold: float = 0.5) -> E:
    return call("select", call("lt", threshold, call("abs", x)), x, 0.0)


def soft_shrink(x: E, threshold: float = 0.5) -> E:
    return call("max", x - threshold, 0.0) + call("min", x + threshold, 0.0)


def sparse_plus(x: E) -> E:
    curve = 0.25 * (x + 1.0) * (x + 1.0)
    return call("select", call("le", x, -1.0), 0.0, call("select", call("lt", x, 1.0), curve, x))


def threshold(x: E, threshold: float, default_value: float) -> E:
    return call("select", call("lt", threshold, x), x, default_value)


ELEMENTWISE: dict[str, Callable[..., E]] = {
    "linear": lambda x: x,
    "relu": relu,
    "relu6": lambda x: clip(x, 0.0, 6.0),
    "leaky_relu": leaky_relu,
    "elu": elu,
    "celu": celu,
    "selu": selu,
    "gelu": gelu,
    "sigmoid": sigmoid,
    "hard_sigmoid": hard_sigmoid,
    "sparse_sigmoid": lambda x: clip(0.5 * (x + 1.0), 0.0, 1.0),
    "log_sigmoid": lambda x: -softplus(-x),
    "tanh": lambda x: call("tanh", x),
    "hard_tanh": lambda x: clip(x, -1.0, 1.0),
    "tanh_shrink": lambda x: x - call("tanh", x),
    "silu": lambda x: x * sigmoid(x),
    "hard_silu": lambda x: x * hard_sigmoid(x),
    "mish": lambda x: x * call("tanh", softplus(x)),
    "softplus": softplus,
    "softsign": lambda x: x / (1.0 + call("abs", x)),
    "squareplus": lambda x, b=4.0: 0.5 * (x + call("sqrt", x * x + b)),
    "sparse_plus": sparse_plus,
    "exponential": lambda x: call("exp", x),
    "hard_shrink": hard_shrink,
    "soft_shrink": soft_shrink,
    "threshold": threshold,
}

# ------------------------------------------------------------------------- along an axis


def log_softmax(b: Builder, x: Tensor, axis: int) -> Tensor:
    top = b.reduce("max", x, [axis])
    total = b.reduce("add", x, [axis], body=lambda v, m: call("exp", v - m), others=[top])
    return b.map(lambda v, m, s: v - m - call("log", s), x, top, total)


def sparsemax(b: Builder, x: Tensor, axis: int) -> Tensor:
    """Martins and Astudillo (2016), without a sort: a value is in the support when
    1 + value · (how many are as large) exceeds their sum."""
    mine, others = x.expand(axis + 1), x.expand(axis)
    pair = [*x.shape[: axis + 1], x.shape[axis], *x.shape[axis + 1 :]]
    mine, others = mine.broadcast(pair), others.broadcast(pair)
    as_large = lambda o, m: call("select", call("le", m, o), 1.0, 0.0)  # noqa: E731
    sum_large = lambda o, m: call("select", call("le", m, o), o, 0.0)  # noqa: E731
    count = b.reduce("add", others, [axis + 1], body=as_large, others=[mine]).squeeze(axis + 1)
    total = b.reduce("add", others, [axis + 1], body=sum_large, others=[mine]).squeeze(axis + 1)
    inside = b.map(
        lambda v, n, s: call("select", call("lt", s, 1.0 + v * n), 1.0, 0.0), x, count, total
    )
    size = b.reduce("add", inside, [axis])
    mass = b.reduce("add", x, [axis], body=lambda v, i: v * i, others=[inside])
    return b.map(lambda v, s, n: call("max", v - (s - 1.0) / n, 0.0), x, mass, size)


def glu(b: Builder, x: Tensor, axis: int) -> Tensor:
    half = x.shape[axis] // 2
    first, second = x.slice(axis, 0, half), x.slice(axis, half, half)
    return b.map(lambda v, g: v * sigmoid(g), first, second)


ALONG: dict[str, Callable[[Builder, Tensor, int], Tensor]] = {
    "softmax": lambda b, x, axis: b.softmax(x, [axis]),
    "log_softmax": log_softmax,
    "sparsemax": sparsemax,
    "glu": glu,
}


def activate(b: Builder, layer: Any, x: Tensor, activation: Any) -> Tensor:
    """An activation as Keras holds it: None, a function of keras.activations, or a layer."""
    if activation is None:
        return x
    name = name_of(layer, activation)
    if name == "linear":
        return x
    if name in ELEMENTWISE:
        return b.map(ELEMENTWISE[name], x)
    if name in ALONG:
        return ALONG[name](b, x, x.rank - 1)
    return LAYERS[name](b, activation, Call([x]))


def name_of(layer: Any, activation: Any) -> str:
    """The key of ELEMENTWISE, ALONG or LAYERS. Refuses what is not Keras's own."""
    import keras

    if isinstance(activation, keras.layers.Layer):
        if type(activation).__name__ in LAYERS and type(activation).__module__.startswith("keras."):
            return type(activation).__name__
    else:
        name = getattr(activation, "__name__", str(activation))
        if getattr(keras.activations, name, None) is activation and name in {
            **ELEMENTWISE,
            **ALONG,
        }:
            return name
    raise refuse(layer, f"the activation {activation!r}", "one of keras.activations, by its name")


def elementwise(layer: Any, activation: Any) -> Callable[[E], E]:
    """An activation as a function of one value, for the gates of recurrent cells."""
    name = "linear" if activation is None else name_of(layer, activation)
    if name not in ELEMENTWISE:
        raise refuse(layer, f"the activation {name} inside a cell", "an elementwise activation")
    return ELEMENTWISE[name]


# ---------------------------------------------------------------------------------- layers


@lowers("Activation")
def activation_layer(b: Builder, layer: Any, c: Call) -> Tensor:
    return activate(b, layer, c.x, layer.activation).masked(c.x.mask)


@lowers("ReLU")
def relu_layer(b: Builder, layer: Any, c: Call) -> Tensor:
    slope, top, start = (
        _number(v) for v in (layer.negative_slope, layer.max_value, layer.threshold)
    )
    return b.map(lambda x: relu(x, slope or 0.0, top, start or 0.0), c.x).masked(c.x.mask)


@lowers("LeakyReLU")
def leaky_layer(b: Builder, layer: Any, c: Call) -> Tensor:
    return b.map(lambda x: leaky_relu(x, _number(layer.negative_slope)), c.x).masked(c.x.mask)


@lowers("ELU")
def elu_layer(b: Builder, layer: Any, c: Call) -> Tensor:
    return b.map(lambda x: elu(x, _number(layer.alpha)), c.x).masked(c.x.mask)


@lowers("PReLU")
def prelu_layer(b: Builder, layer: Any, c: Call) -> Tensor:
    alpha = b.constant(weights_of(layer.alpha))
    # max(x, 0) - alpha max(-x, 0), as Keras writes it
    bend = lambda x, a: call("max", x, 0.0) - a * call("max", -x, 0.0)  # noqa: E731
    return b.map(bend, c.x, alpha).masked(c.x.mask)


@lowers("Softmax")
def softmax_layer(b: Builder, layer: Any, c: Call) -> Tensor:
    x, mask = c.x, c.get(1, "mask")
    axes = layer.axis if isinstance(layer.axis, (list, tuple)) else [layer.axis]
    if mask is not None:
        x = b.map(lambda v, m: call("select", call("lt", 0.5, m), v, LARGE_NEGATIVE), x, mask)
    y = b.softmax(x, [axis_of(a, x.rank) for a in axes])
    if mask is not None:
        y = b.map(lambda v, m: call("select", call("lt", 0.5, m), v, 0.0), y, mask)
    return y.masked(c.x.mask)


LARGE_NEGATIVE = -1e9  # what Keras writes for masked scores
LAYERS = {
    "ReLU": relu_layer, "LeakyReLU": leaky_layer, "ELU": elu_layer, "PReLU": prelu_layer,
    "Softmax": softmax_layer, "Activation": activation_layer,
}  # fmt: skip


def _number(value: Any) -> Any:
    return None if value is None else float(value)
