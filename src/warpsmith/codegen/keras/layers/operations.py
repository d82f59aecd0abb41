"""Operations of keras.ops that appear in functional models: arithmetic, reshapes, slices, sums."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import refuse
from ..ir import E, call
from . import Builder, Call, Tensor, axis_of, lowers
from .activation import ALONG, ELEMENTWISE, threshold

_BINARY = {
    "Add": lambda x, y: x + y,
    "Subtract": lambda x, y: x - y,
    "Multiply": lambda x, y: x * y,
    "Divide": lambda x, y: x / y,
    "TrueDivide": lambda x, y: x / y,
    "Maximum": lambda x, y: call("max", x, y),
    "Minimum": lambda x, y: call("min", x, y),
    "Power": lambda x, y: call("pow", x, y),
}
_UNARY = {
    "Negative": lambda x: -x,
    "Absolute": lambda x: call("abs", x),
    "Abs": lambda x: call("abs", x),
    "Square": lambda x: x * x,
    "Sqrt": lambda x: call("sqrt", x),
    "Rsqrt": lambda x: 1.0 / call("sqrt", x),
    "Reciprocal": lambda x: 1.0 / x,
    "Exp": lambda x: call("exp", x),
    "Expm1": lambda x: call("expm1", x),
    "Log": lambda x: call("log", x),
    "Log1p": lambda x: call("log1p", x),
    "Sin": lambda x: call("sin", x),
    "Cos": lambda x: call("cos", x),
    "Tanh": lambda x: call("tanh", x),
    "Erf": lambda x: call("erf", x),
    "Floor": lambda x: call("floor", x),
}
_REDUCED = {"Sum": "add", "Mean": "add", "Max": "max", "Min": "min"}


def _operand(b: Builder, value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else b.constant(np.asarray(value, np.float64))


@lowers(*(f"ops.{name}" for name in _BINARY))
def binary(b: Builder, op: Any, c: Call) -> Tensor:
    x, y = (_operand(b, c.get(i, name)) for i, name in enumerate(("x1", "x2")))
    return b.map(_BINARY[type(op).__name__], x, y)


@lowers(*(f"ops.{name}" for name in _UNARY))
def unary(b: Builder, op: Any, c: Call) -> Tensor:
    return b.map(_UNARY[type(op).__name__], c.x)


_ACTIVATIONS = {
    "Relu": "relu", "Relu6": "relu6", "Sigmoid": "sigmoid", "Softplus": "softplus",
    "Softsign": "softsign", "Silu": "silu", "LogSigmoid": "log_sigmoid", "HardSigmoid": "hard_sigmoid",
    "HardSilu": "hard_silu", "HardTanh": "hard_tanh", "TanhShrink": "tanh_shrink", "Selu": "selu",
    "SparsePlus": "sparse_plus", "SparseSigmoid": "sparse_sigmoid",
}  # fmt: skip


@lowers(*(f"ops.{name}" for name in _ACTIVATIONS))
def activation(b: Builder, op: Any, c: Call) -> Tensor:
    return b.map(ELEMENTWISE[_ACTIVATIONS[type(op).__name__]], c.x)


_WITH_OPTIONS = {
    "LeakyRelu": ("leaky_relu", ("negative_slope",)), "Elu": ("elu", ("alpha",)),
    "Celu": ("celu", ("alpha",)), "Gelu": ("gelu", ("approximate",)),
    "SoftShrink": ("soft_shrink", ("threshold",)), "HardShrink": ("hard_shrink", ("threshold",)),
    "Squareplus": ("squareplus", ("b",)),
}  # fmt: skip


@lowers(*(f"ops.{name}" for name in _WITH_OPTIONS))
def activation_with_options(b: Builder, op: Any, c: Call) -> Tensor:
    name, options = _WITH_OPTIONS[type(op).__name__]
    values = [getattr(op, option) for option in options]
    return b.map(lambda x: ELEMENTWISE[name](x, *values), c.x)


@lowers("ops.Threshold")
def threshold_op(b: Builder, op: Any, c: Call) -> Tensor:
    return b.map(lambda x: threshold(x, op.threshold, op.default_value), c.x)


@lowers("ops.Softmax", "ops.LogSoftmax", "ops.Sparsemax", "ops.Glu")
def along(b: Builder, op: Any, c: Call) -> Tensor:
    name = {
        "Softmax": "softmax",
        "LogSoftmax": "log_softmax",
        "Sparsemax": "sparsemax",
        "Glu": "glu",
    }
    return ALONG[name[type(op).__name__]](b, c.x, axis_of(op.axis, c.x.rank))


@lowers(*(f"ops.{name}" for name in _REDUCED))
def reduction(b: Builder, op: Any, c: Call) -> Tensor:
    axes = op.axis
    if axes is None:
        raise refuse(op, "a reduction over the batch", "axis=… without 0")
    axes = [axis_of(a, c.x.rank) for a in (axes if isinstance(axes, (list, tuple)) else [axes])]
    if any(a < 0 for a in axes):
        raise refuse(op, "a reduction over the batch", "an axis after the batch")
    count = float(np.prod([c.x.shape[a] for a in axes]))
    mean = type(op).__name__ == "Mean"

    def finish(acc: E) -> E:
        return acc / count if mean else acc

    return b.reduce(_REDUCED[type(op).__name__], c.x, axes, keep=op.keepdims, finish=finish)


@lowers("ops.Reshape")
def reshape(b: Builder, op: Any, c: Call) -> Tensor:
    shape = [int(n) if n is not None else -1 for n in op.newshape[1:]]
    if -1 in shape:
        shape[shape.index(-1)] = c.x.size // -int(np.prod(shape))
    return b.reshape(c.x, shape)


@lowers("ops.Transpose")
def transpose(b: Builder, op: Any, c: Call) -> Tensor:
    if op.axes is None or op.axes[0] != 0:
        raise refuse(op, "a transposition that moves the batch", "axes that begin with 0")
    return c.x.permute([a - 1 for a in op.axes[1:]])


@lowers("ops.Concatenate")
def concatenate(b: Builder, op: Any, c: Call) -> Tensor:
    axis = axis_of(op.axis, c.x[0].rank)
    if axis < 0:
        raise refuse(op, "concatenation along the batch", "an axis after the batch")
    return b.concatenate([_operand(b, t) for t in c.x], axis)


@lowers("ops.ExpandDims")
def expand_dims(b: Builder, op: Any, c: Call) -> Tensor:
    return c.x.expand(axis_of(op.axis, c.x.rank + 1))


@lowers("ops.Squeeze")
def squeeze(b: Builder, op: Any, c: Call) -> Tensor:
    axes = op.axis if isinstance(op.axis, (list, tuple)) else [op.axis]
    if op.axis is None:
        raise refuse(op, "squeeze without axes", "axis=…")
    x = c.x
    for axis in sorted((axis_of(a, c.x.rank) for a in axes), reverse=True):
        x = x.squeeze(axis)
    return x


@lowers("ops.GetItem")
def get_item(b: Builder, op: Any, c: Call) -> Tensor:
    """Basic slices; the batch stays whole."""
    key = c.get(1, "key")
    key = key if isinstance(key, tuple) else (key,)
    if Ellipsis in key:
        at = key.index(Ellipsis)
        key = (*key[:at], *(slice(None),) * (c.x.rank + 1 - len(key) + 1), *key[at + 1 :])
    if key[0] != slice(None):
        raise refuse(op, f"the index {key}, which cuts the batch", "':' for the batch")
    x, axis = c.x, 0
    for part in key[1:]:
        if isinstance(part, slice):
            start, stop, step = part.indices(x.shape[axis])
            x = x.slice(axis, start, len(range(start, stop, step)), step)
            axis += 1
        elif isinstance(part, (int, np.integer)):
            x = x.index(axis, int(part) % x.shape[axis])
        else:
            raise refuse(op, f"the index {part!r}", "numbers and slices")
    return x


@lowers("ops.Matmul")
def matmul(b: Builder, op: Any, c: Call) -> Tensor:
    x, y = (_operand(b, c.get(i, name)) for i, name in enumerate(("x1", "x2")))
    lead = "abcd"[: max(x.rank, y.rank) - 2]
    left, right = lead[len(lead) - x.rank + 2 :], lead[len(lead) - y.rank + 2 :]
    return b.einsum(f"{left}xy,{right}yz->{lead}xz", x, y)


# ------------------------------------------------- truth values: masks are tensors of 0 and 1

_COMPARE = {
    "Equal": lambda x, y: call("eq", x, y),
    "NotEqual": lambda x, y: call("ne", x, y),
    "Less": lambda x, y: call("lt", x, y),
    "LessEqual": lambda x, y: call("le", x, y),
    "Greater": lambda x, y: call("lt", y, x),
    "GreaterEqual": lambda x, y: call("le", y, x),
    "LogicalAnd": lambda x, y: call("and", call("ne", x, 0.0), call("ne", y, 0.0)),
    "LogicalOr": lambda x, y: call("or", call("ne", x, 0.0), call("ne", y, 0.0)),
}


@lowers(*(f"ops.{name}" for name in _COMPARE))
def compare(b: Builder, op: Any, c: Call) -> Tensor:
    x, y = (_operand(b, c.get(i, name)) for i, name in enumerate(("x1", "x2")))
    truth = _COMPARE[type(op).__name__]
    return b.map(lambda p, q: call("select", truth(p, q), 1.0, 0.0), x, y)


@lowers("ops.LogicalNot")
def logical_not(b: Builder, op: Any, c: Call) -> Tensor:
    return b.map(lambda x: call("select", call("ne", x, 0.0), 0.0, 1.0), c.x)


@lowers("ops.Any", "ops.All")
def any_all(b: Builder, op: Any, c: Call) -> Tensor:
    axes = op.axis if isinstance(op.axis, (list, tuple)) else [op.axis]
    axes = [axis_of(a, c.x.rank) for a in axes]
    truth = lambda x: call("select", call("ne", x, 0.0), 1.0, 0.0)  # noqa: E731
    combine = "max" if type(op).__name__ == "Any" else "min"
    return b.reduce(combine, c.x, axes, keep=op.keepdims, body=truth)


@lowers("ops.Where")
def where(b: Builder, op: Any, c: Call) -> Tensor:
    parts = [_operand(b, c.get(i, name)) for i, name in enumerate(("condition", "x1", "x2"))]
    return b.map(lambda m, x, y: call("select", call("ne", m, 0.0), x, y), *parts)


@lowers("ops.Cast")
def cast(b: Builder, op: Any, c: Call) -> Tensor:
    """Numbers stay; to bool they become 0 and 1, to integers they lose their fraction."""
    dtype = str(op.dtype)
    if dtype == "bool":
        return b.map(lambda x: call("select", call("ne", x, 0.0), 1.0, 0.0), c.x)
    if dtype.startswith(("int", "uint")):
        trunc = lambda x: call("select", call("lt", x, 0.0), -call("floor", -x), call("floor", x))  # noqa: E731
        return b.map(trunc, c.x)
    return c.x


@lowers("ops.ZerosLike", "ops.OnesLike")
def like(b: Builder, op: Any, c: Call) -> Tensor:
    return b.fill(b.buffer(c.x.shape), float(type(op).__name__ == "OnesLike"))


@lowers("ops.Flip")
def flip(b: Builder, op: Any, c: Call) -> Tensor:
    x = c.x
    for axis in op.axis if isinstance(op.axis, (list, tuple)) else [op.axis]:
        x = x.flip(axis_of(axis, x.rank))
    return x


@lowers("ops.Clip")
def clip_op(b: Builder, op: Any, c: Call) -> Tensor:
    low, high = float(op.x_min), float(op.x_max)
    return b.map(lambda x: call("min", call("max", x, low), high), c.x)


@lowers("ops.Stack")
def stack(b: Builder, op: Any, c: Call) -> Tensor:
    axis = axis_of(op.axis, c.x[0].rank + 1)
    return b.concatenate([t.expand(axis) for t in c.x], axis)
