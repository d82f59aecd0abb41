"""Normalizations and rescaling; statistics that are weights become one multiply and add."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import refuse
from ..ir import E, call
from . import Builder, Call, Tensor, axis_of, lowers, weights_of


def affine(b: Builder, x: Tensor, scale: np.ndarray, shift: np.ndarray) -> Tensor:
    """x · scale + shift, both broadcast."""
    return b.map(lambda v, s, t: v * s + t, x, b.constant(scale), b.constant(shift))


@lowers("BatchNormalization")
def batch_normalization(b: Builder, layer: Any, c: Call) -> Tensor:
    mean, variance = weights_of(layer.moving_mean), weights_of(layer.moving_variance)
    scale = 1.0 / np.sqrt(variance + layer.epsilon)
    if layer.scale:
        scale = scale * weights_of(layer.gamma)
    shift = -mean * scale
    if layer.center:
        shift = shift + weights_of(layer.beta)
    shape = [1] * c.x.rank
    shape[axis_of(layer.axis, c.x.rank)] = -1
    return affine(b, c.x, scale.reshape(shape), shift.reshape(shape)).masked(c.x.mask)


def standardize(b: Builder, x: Tensor, axes, epsilon: float) -> Tensor:
    """(x - mean) / √(variance + epsilon); the variance is of the centered values."""
    count = float(math.prod(x.shape[a] for a in axes))
    mean = b.reduce("add", x, axes, finish=lambda acc: acc / count)
    centered = b.map(lambda v, m: v - m, x, mean)
    deviation = b.reduce(
        "add", centered, axes, body=lambda v: v * v,
        finish=lambda acc: call("sqrt", acc / count + epsilon),
    )  # fmt: skip
    return b.map(lambda v, d: v / d, centered, deviation)


def _scaled(b: Builder, x: Tensor, gamma, beta, shape) -> Tensor:
    """Gains and shifts that are weights, where there are any."""
    if gamma is not None:
        x = b.map(lambda v, g: v * g, x, b.constant(gamma.reshape(shape)))
    if beta is not None:
        x = b.map(lambda v, o: v + o, x, b.constant(beta.reshape(shape)))
    return x


@lowers("LayerNormalization")
def layer_normalization(b: Builder, layer: Any, c: Call) -> Tensor:
    if getattr(layer, "rms_scaling", False):
        raise refuse(layer, "rms_scaling=True", "RMSNormalization")
    axes = _axes(layer.axis, c.x.rank)
    shape = [n if a in axes else 1 for a, n in enumerate(c.x.shape)]
    gamma = weights_of(layer.gamma) if layer.scale else None
    beta = weights_of(layer.beta) if layer.center else None
    return _scaled(b, standardize(b, c.x, axes, layer.epsilon), gamma, beta, shape).masked(c.x.mask)


@lowers("RMSNormalization")
def rms_normalization(b: Builder, layer: Any, c: Call) -> Tensor:
    axes = _axes(layer.axis, c.x.rank)
    count = float(math.prod(c.x.shape[a] for a in axes))
    root = b.reduce(
        "add", c.x, axes, body=lambda v: v * v,
        finish=lambda acc: call("sqrt", acc / count + layer.epsilon),
    )  # fmt: skip
    y = b.map(lambda v, r: v / r, c.x, root)
    shape = [n if a in axes else 1 for a, n in enumerate(c.x.shape)]
    return _scaled(b, y, weights_of(layer.scale), None, shape).masked(c.x.mask)


@lowers("GroupNormalization")
def group_normalization(b: Builder, layer: Any, c: Call) -> Tensor:
    axis = axis_of(layer.axis, c.x.rank)
    x = c.x.split(axis, (layer.groups, c.x.shape[axis] // layer.groups))
    y = standardize(b, x, [a for a in range(x.rank) if a != axis], layer.epsilon)
    y = b.reshape(y, c.x.shape)
    shape = [n if a == axis else 1 for a, n in enumerate(c.x.shape)]
    gamma = weights_of(layer.gamma) if layer.scale else None
    beta = weights_of(layer.beta) if layer.center else None
    return _scaled(b, y, gamma, beta, shape).masked(c.x.mask)


@lowers("UnitNormalization")
def unit_normalization(b: Builder, layer: Any, c: Call) -> Tensor:
    axes = _axes(layer.axis, c.x.rank)

    def inverse(total: E) -> E:
        return call("min", 1.0 / call("sqrt", total), 1e12)

    scale = b.reduce("add", c.x, axes, body=lambda v: v * v, finish=inverse)
    return b.map(lambda v, s: v * s, c.x, scale).masked(c.x.mask)


@lowers("Normalization")
def normalization(b: Builder, layer: Any, c: Call) -> Tensor:
    """(x - mean) / max(√variance, 1e-7), or its inverse."""
    mean, variance = _statistics(layer.mean), _statistics(layer.variance)
    root = np.maximum(np.sqrt(variance), 1e-7)
    if layer.invert:
        return affine(b, c.x, root, mean)
    return b.map(lambda v, m, r: (v - m) / r, c.x, b.constant(mean), b.constant(root))


def _statistics(value: Any) -> np.ndarray:
    array = weights_of(value)
    return array[0] if array.ndim and array.shape[0] == 1 else array  # without the batch


@lowers("Rescaling")
def rescaling(b: Builder, layer: Any, c: Call) -> Tensor:
    scale, offset = np.asarray(layer.scale, np.float64), np.asarray(layer.offset, np.float64)
    return affine(b, c.x, scale, offset).masked(c.x.mask)


@lowers("SpectralNormalization")
def spectral_normalization(b: Builder, layer: Any, c: Call) -> Any:
    """In inference the wrapped layer with the weights it has."""
    from . import LOWER

    return LOWER[type(layer.layer).__name__](b, layer.layer, c)


def _axes(axis: Any, rank: int) -> list[int]:
    return [axis_of(a, rank) for a in (axis if isinstance(axis, (list, tuple)) else [axis])]
