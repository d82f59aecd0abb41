"""Dense, EinsumDense, Embedding, Masking, and what is the identity in inference."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ir
from ..errors import refuse
from ..ir import call
from . import Builder, Call, Tensor, lowers, weights_of
from .activation import activate

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def product(b: Builder, x: Tensor, kernel: np.ndarray, bias: np.ndarray | None) -> Tensor:
    """x (…, in) times kernel (in, out), plus bias (out)."""
    lead = LETTERS[: x.rank - 1]
    return b.einsum(
        f"{lead}y,yz->{lead}z",
        x,
        b.constant(kernel),
        bias=None if bias is None else b.constant(bias),
    )


@lowers("Dense")
def dense(b: Builder, layer: Any, c: Call) -> Tensor:
    y = product(b, c.x, kernel_of(layer), weights_of(layer.bias) if layer.use_bias else None)
    return activate(b, layer, y, layer.activation).masked(c.x.mask)


def kernel_of(layer: Any) -> np.ndarray:
    """The kernel as it multiplies, with a LoRA adapter added; quantized ones are refused."""
    if getattr(layer, "quantization_mode", None):
        raise refuse(layer, f"quantization {layer.quantization_mode!r}", "the float model")
    return weights_of(layer.kernel)


@lowers("EinsumDense")
def einsum_dense(b: Builder, layer: Any, c: Call) -> Tensor:
    """The equation names the batch too; an ellipsis stands for the axes it leaves out."""
    names, result = layer.equation.replace(" ", "").split("->")
    left, right = names.split(",")
    left, result = _without_batch(layer, left, result, c.x.rank)
    bias = weights_of(layer.bias) if layer.bias is not None else None
    out_rank = len(result)
    if bias is not None:
        bias = (
            bias.reshape((1,) * (out_rank - bias.ndim) + bias.shape)
            if bias.ndim <= out_rank
            else bias[0]
        )
    y = b.einsum(
        f"{left},{right}->{result}", c.x, b.constant(kernel_of(layer)),
        bias=None if bias is None else b.constant(bias),
    )  # fmt: skip
    return activate(b, layer, y, layer.activation).masked(c.x.mask)


def _without_batch(layer: Any, left: str, result: str, rank: int) -> tuple[str, str]:
    """Letters of input and result, batch removed and the ellipsis spelled out."""
    if "..." in left:
        free = [c for c in LETTERS.upper() if c not in left + result]
        fill = "".join(free[: rank + 1 - (len(left) - 3)])
        left, result = left.replace("...", fill), result.replace("...", fill)
    if not left or left[0] != result[0]:
        raise refuse(
            layer, f"the equation {layer.equation!r}", "an equation that keeps the batch first"
        )
    return left[1:], result[1:]


@lowers("Embedding")
def embedding(b: Builder, layer: Any, c: Call) -> Tensor:
    """Row int(x) of the table; NaN for an index outside it."""
    if getattr(layer, "quantization_mode", None):
        raise refuse(layer, f"quantization {layer.quantization_mode!r}", "the float model")
    table = b.constant(weights_of(layer.embeddings))
    rows, width = table.shape
    out = b.buffer((*c.x.shape, width))
    lanes = c.x.expand(c.x.rank)
    b.map(lambda i, t: ir.at(1, i, width, rows), lanes, table.index(0, 0), out=out)
    if not layer.mask_zero:
        return out
    return out.masked(b.map(lambda i: call("select", call("ne", i, 0.0), 1.0, 0.0), c.x))


@lowers("Masking")
def masking(b: Builder, layer: Any, c: Call) -> Tensor:
    """A step counts when any of its features differs from mask_value; others become 0."""
    differs = lambda v: call("select", call("ne", v, float(layer.mask_value)), 1.0, 0.0)  # noqa: E731
    mask = b.reduce("max", c.x, [-1], body=differs)
    return b.map(lambda v, m: v * m, c.x, mask).masked(mask.squeeze(mask.rank - 1))


@lowers(
    "Dropout", "AlphaDropout", "GaussianDropout", "GaussianNoise", "SpatialDropout1D",
    "SpatialDropout2D", "SpatialDropout3D", "ActivityRegularization", "Identity",
)  # fmt: skip
def identity(b: Builder, layer: Any, c: Call) -> Tensor:
    """Nothing happens in inference."""
    return c.x
