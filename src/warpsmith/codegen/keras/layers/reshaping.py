"""Flatten, Reshape, Permute, padding, cropping, repeating and up-sampling."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import refuse
from . import Builder, Call, Tensor, lowers
from .convolution import back, channels_last


@lowers("Flatten")
def flatten(b: Builder, layer: Any, c: Call) -> Tensor:
    """Row-major; channels_first data are put channels-last before."""
    x = c.x.move(0, c.x.rank - 1) if layer.data_format == "channels_first" and c.x.rank > 1 else c.x
    return b.reshape(x, (x.size,))


@lowers("Reshape")
def reshape(b: Builder, layer: Any, c: Call) -> Tensor:
    shape = [int(n) for n in layer.target_shape]
    if -1 in shape:
        shape[shape.index(-1)] = c.x.size // -math.prod(shape)
    return b.reshape(c.x, shape)


@lowers("Permute")
def permute(b: Builder, layer: Any, c: Call) -> Tensor:
    return c.x.permute([d - 1 for d in layer.dims])


@lowers("RepeatVector")
def repeat_vector(b: Builder, layer: Any, c: Call) -> Tensor:
    return c.x.expand(0).broadcast((layer.n, *c.x.shape))


def _pairs(value: Any, rank: int) -> list[tuple[int, int]]:
    pairs = [value] if rank == 1 and not isinstance(value[0], (tuple, list)) else value
    return [(int(before), int(after)) for before, after in pairs]


@lowers("ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D")
def zero_padding(b: Builder, layer: Any, c: Call) -> Tensor:
    x = channels_last(c.x, layer.data_format)
    pairs = _pairs(layer.padding, x.rank - 1)
    return back(b.pad(x, dict(enumerate(pairs))), layer.data_format)


@lowers("Cropping1D", "Cropping2D", "Cropping3D")
def cropping(b: Builder, layer: Any, c: Call) -> Tensor:
    data_format = getattr(layer, "data_format", "channels_last") or "channels_last"
    x = channels_last(c.x, data_format)
    for axis, (before, after) in enumerate(_pairs(layer.cropping, x.rank - 1)):
        x = x.slice(axis, before, x.shape[axis] - before - after)
    return back(x, data_format)


@lowers("UpSampling1D", "UpSampling2D", "UpSampling3D")
def up_sampling(b: Builder, layer: Any, c: Call) -> Tensor:
    data_format = getattr(layer, "data_format", "channels_last") or "channels_last"
    sizes = layer.size if isinstance(layer.size, (tuple, list)) else (layer.size,)
    x = channels_last(c.x, data_format)
    how = getattr(layer, "interpolation", "nearest")
    if how == "nearest":
        return back(repeat(b, x, sizes), data_format)
    if how != "bilinear":
        raise refuse(layer, f"interpolation={how!r}", "interpolation='nearest' or 'bilinear'")
    for axis, size in enumerate(sizes):
        letters = "abcd"[: x.rank]
        spec = f"{letters},z{letters[axis]}->{letters.replace(letters[axis], 'z')}"
        x = b.einsum(spec, x, b.constant(bilinear(x.shape[axis], size)))
    return back(x, data_format)


def repeat(b: Builder, x: Tensor, sizes) -> Tensor:
    """Every element `size` times along its axis."""
    wide, shape = x, []
    for axis in reversed(range(len(sizes))):
        wide = wide.expand(axis + 1)
    for axis, n in enumerate(x.shape):
        shape += [n, sizes[axis]] if axis < len(sizes) else [n]
    return b.reshape(
        b.copy(wide.broadcast(shape)), [n * s for n, s in zip(x.shape, (*sizes, 1, 1, 1))]
    )


def bilinear(n: int, factor: int) -> np.ndarray:
    """Weights (n · factor, n) of a linear interpolation between centers of half pixels."""
    at = np.clip((np.arange(n * factor) + 0.5) / factor - 0.5, 0.0, n - 1.0)
    low = np.minimum(np.floor(at).astype(int), n - 1)
    high = np.minimum(low + 1, n - 1)
    weights = np.zeros((n * factor, n))
    rows = np.arange(n * factor)
    np.add.at(weights, (rows, low), 1.0 - (at - low))
    np.add.at(weights, (rows, high), at - low)
    return weights
