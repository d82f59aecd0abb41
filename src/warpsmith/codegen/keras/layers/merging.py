"""Layers of several inputs: add, multiply, …, concatenate and dot."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from functools import reduce
from typing import Any

from ..errors import refuse
from ..ir import call
from . import Builder, Call, Tensor, axis_of, lowers

_FOLD = {
    "Add": lambda x, y: x + y,
    "Subtract": lambda x, y: x - y,
    "Multiply": lambda x, y: x * y,
    "Average": lambda x, y: x + y,
    "Maximum": lambda x, y: call("max", x, y),
    "Minimum": lambda x, y: call("min", x, y),
}


@lowers(*_FOLD)
def merge(b: Builder, layer: Any, c: Call) -> Tensor:
    fold, tensors = _FOLD[type(layer).__name__], same_rank(c.x)
    scale = 1.0 / len(tensors) if type(layer).__name__ == "Average" else None

    def body(*values):
        total = reduce(fold, values)
        return total / float(len(tensors)) if scale else total

    return b.map(body, *tensors).masked(any_mask(b, c.x))


def same_rank(tensors: list[Tensor]) -> list[Tensor]:
    """Smaller ranks get axes after the batch, as Keras expands them."""
    rank = max(t.rank for t in tensors)
    out = []
    for t in tensors:
        while t.rank < rank:
            t = t.expand(0)
        out.append(t)
    return out


def any_mask(b: Builder, tensors: list[Tensor]) -> Tensor | None:
    """A step counts where it does in any input; none where one input has no mask."""
    masks = [t.mask for t in tensors if t.mask is not None]
    if len(masks) < len(tensors):
        return None
    return b.map(lambda *m: reduce(lambda x, y: call("max", x, y), m), *masks)


@lowers("Concatenate")
def concatenate(b: Builder, layer: Any, c: Call) -> Tensor:
    axis = axis_of(layer.axis, c.x[0].rank)
    if axis < 0:
        raise refuse(layer, "concatenation along the batch", "an axis after the batch")
    out = b.concatenate(c.x, axis)
    masks = [t.mask for t in c.x]
    if all(m is None for m in masks):
        return out
    if axis >= out.rank - 1:
        return out.masked(any_mask(b, c.x))
    ones = [b.fill(b.buffer(t.shape[:-1]), 1.0) if t.mask is None else t.mask for t in c.x]
    return out.masked(b.concatenate(ones, axis))


@lowers("Dot")
def dot(b: Builder, layer: Any, c: Call) -> Tensor:
    """Σ over one axis of each; all other axes follow in order."""
    left, right = c.x
    axes = layer.axes if isinstance(layer.axes, (list, tuple)) else (layer.axes, layer.axes)
    i, j = axis_of(axes[0], left.rank), axis_of(axes[1], right.rank)
    if layer.normalize:
        left, right = unit(b, left, i), unit(b, right, j)
    a = [chr(97 + k) for k in range(left.rank)]
    z = [chr(110 + k) for k in range(right.rank)]
    z[j] = a[i]
    result = [x for k, x in enumerate(a) if k != i] + [x for k, x in enumerate(z) if k != j]
    out = b.einsum(f"{''.join(a)},{''.join(z)}->{''.join(result)}", left, right)
    return out if out.rank else b.reshape(out, (1,))


def unit(b: Builder, x: Tensor, axis: int) -> Tensor:
    """x over the root of its sum of squares, which counts 1e-12 at least."""
    squares = b.reduce("add", x, [axis], body=lambda v: v * v)
    return b.map(lambda v, s: v / call("sqrt", call("max", s, 1e-12)), x, squares)
