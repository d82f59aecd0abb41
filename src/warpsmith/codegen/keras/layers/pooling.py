"""Pooling over windows, over whole axes, and adaptive; padding counts in neither kind of pool."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import call
from . import Builder, Call, Tensor, lowers
from .convolution import back, channels_last, padding_of, patches

_1_TO_3 = ("1D", "2D", "3D")


def _names(*stems: str) -> list[str]:
    return [stem + rank for stem in stems for rank in _1_TO_3]


@lowers(*_names("MaxPooling"))
def max_pool(b: Builder, layer: Any, c: Call) -> Tensor:
    seen = _windows(b, layer, c.x, -np.inf)
    rank = len(layer.pool_size)
    return back(b.reduce("max", seen, range(rank + 1, 2 * rank + 1), keep=False), layer.data_format)


@lowers(*_names("AveragePooling"))
def average_pool(b: Builder, layer: Any, c: Call) -> Tensor:
    """The sum over a window, by how many of its elements are real."""
    seen = _windows(b, layer, c.x, 0.0)
    rank = len(layer.pool_size)
    total = b.reduce("add", seen, range(rank + 1, 2 * rank + 1), keep=False)
    spatial = channels_last(c.x, layer.data_format).shape[:rank]
    counts = b.constant(_counts(layer, spatial)[..., None])
    return back(b.map(lambda v, n: v / n, total, counts), layer.data_format)


def _windows(b: Builder, layer: Any, x: Tensor, value: float) -> Tensor:
    ones = (1,) * len(layer.pool_size)
    return patches(
        b, channels_last(x, layer.data_format), layer.padding, layer.pool_size, layer.strides, ones, value
    )  # fmt: skip


def _counts(layer: Any, spatial) -> np.ndarray:
    """Real elements in each window."""
    total = np.ones(())
    for n, size, stride in zip(spatial, layer.pool_size, layer.strides):
        before, after = padding_of(layer.padding, n, size, stride, 1)
        starts = np.arange((before + n + after - size) // stride + 1) * stride - before
        inside = np.minimum(starts + size, n) - np.maximum(starts, 0)
        total = total[..., None] * inside
    return total


@lowers(*_names("GlobalMaxPooling"))
def global_max(b: Builder, layer: Any, c: Call) -> Tensor:
    return b.reduce("max", c.x, _spatial(layer, c.x), keep=layer.keepdims)


@lowers(*_names("GlobalAveragePooling"))
def global_average(b: Builder, layer: Any, c: Call) -> Tensor:
    axes, mask = _spatial(layer, c.x), c.get(1, "mask")
    if mask is None:
        count = float(np.prod([c.x.shape[a] for a in axes]))
        return b.reduce("add", c.x, axes, keep=layer.keepdims, finish=lambda acc: acc / count)
    mask = mask.expand(1 - axes[0])
    some = b.reduce(
        "add", c.x, axes, keep=layer.keepdims, others=[mask],
        body=lambda v, m: call("select", call("ne", m, 0.0), v, 0.0),
    )  # fmt: skip
    steps = b.reduce("add", mask, axes, keep=layer.keepdims)
    return b.map(lambda v, n: v / n, some, steps)


def _spatial(layer: Any, x: Tensor) -> list[int]:
    return [
        a
        for a in range(x.rank)
        if a != (0 if layer.data_format == "channels_first" else x.rank - 1)
    ]


@lowers(*_names("AdaptiveAveragePooling"))
def adaptive_average(b: Builder, layer: Any, c: Call) -> Tensor:
    """Output i covers ⌊i n / m⌋ up to ⌈(i + 1) n / m⌉: a product with one matrix an axis."""
    x = channels_last(c.x, layer.data_format)
    for axis, m in enumerate(layer.output_size):
        weights = np.zeros((m, x.shape[axis]))
        for i in range(m):
            first, last = _span(i, x.shape[axis], m)
            weights[i, first:last] = 1.0 / (last - first)
        letters = "abcd"[: x.rank]
        spec = f"{letters},z{letters[axis]}->{letters.replace(letters[axis], 'z')}"
        x = b.einsum(spec, x, b.constant(weights))
    return back(x, layer.data_format)


@lowers(*_names("AdaptiveMaxPooling"))
def adaptive_max(b: Builder, layer: Any, c: Call) -> Tensor:
    x = channels_last(c.x, layer.data_format)
    for axis, m in enumerate(layer.output_size):
        shape = list(x.shape)
        shape[axis] = m
        out = b.buffer(shape)
        for i in range(m):
            first, last = _span(i, x.shape[axis], m)
            b.copy(
                b.reduce("max", x.slice(axis, first, last - first), [axis]), out.slice(axis, i, 1)
            )
        x = out
    return back(x, layer.data_format)


def _span(i: int, n: int, m: int) -> tuple[int, int]:
    return i * n // m, -(-(i + 1) * n // m)
