"""Convolutions: plain, grouped, dilated, causal, depthwise, separable, transposed; 1-D to 3-D.

Padding follows TensorFlow: "same" gives ⌈n / stride⌉ outputs with the odd zero at the end,
"causal" puts all (k - 1) · dilation zeros in front. Kernels are (spatial…, in / groups, out).
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import numpy as np

from . import Builder, Call, Tensor, lowers, weights_of
from .activation import activate
from .core import kernel_of


def same_padding(n: int, size: int, stride: int, dilation: int) -> tuple[int, int]:
    """Zeros before and after.

    >>> same_padding(5, 2, 2, 1), same_padding(4, 3, 1, 1)
    ((0, 1), (1, 1))
    """
    total = max((-(-n // stride) - 1) * stride + (size - 1) * dilation + 1 - n, 0)
    return total // 2, total - total // 2


def padding_of(kind: str, n: int, size: int, stride: int, dilation: int) -> tuple[int, int]:
    if kind == "causal":
        return (size - 1) * dilation, 0
    return same_padding(n, size, stride, dilation) if kind == "same" else (0, 0)


def channels_last(x: Tensor, data_format: str) -> Tensor:
    return x.move(0, x.rank - 1) if data_format == "channels_first" else x


def back(x: Tensor, data_format: str) -> Tensor:
    return x.move(x.rank - 1, 0) if data_format == "channels_first" else x


def patches(b: Builder, x: Tensor, kind: str, sizes, strides, dilations, value=0.0) -> Tensor:
    """Windows over the spatial axes of x (spatial…, channels): (positions…, channels, offsets…)."""
    axes = range(len(sizes))
    pads = {
        a: padding_of(kind, x.shape[a], sizes[a], strides[a], dilations[a]) for a in axes
    }  # fmt: skip
    return b.pad(x, pads, value).windows(axes, sizes, strides, dilations)


def convolve(
    b: Builder, x: Tensor, kernel: np.ndarray, bias: np.ndarray | None, *, kind: str, strides,
    dilations, groups: int = 1,
) -> Tensor:  # fmt: skip
    """x (spatial…, in) with kernel (spatial…, in / groups, out)."""
    rank = kernel.ndim - 2
    sizes, out = kernel.shape[:rank], kernel.shape[-1]
    space, inner = "xyz"[:rank], "uvw"[:rank]
    seen = patches(b, x, kind, sizes, strides, dilations).split(
        rank, (groups, x.shape[rank] // groups)
    )
    weights = b.constant(kernel).split(rank + 1, (groups, out // groups))
    y = b.einsum(
        f"{space}gi{inner},{inner}igo->{space}go", seen, weights,
        bias=None if bias is None else b.constant(bias.reshape(groups, out // groups)),
    )  # fmt: skip
    return b.reshape(y, (*y.shape[:rank], out))


def _finish(b: Builder, layer: Any, y: Tensor, c: Call) -> Tensor:
    return activate(b, layer, back(y, layer.data_format), layer.activation)


@lowers("Conv1D", "Conv2D", "Conv3D")
def convolution(b: Builder, layer: Any, c: Call) -> Tensor:
    y = convolve(
        b, channels_last(c.x, layer.data_format), kernel_of(layer),
        weights_of(layer.bias) if layer.use_bias else None, kind=layer.padding,
        strides=layer.strides, dilations=layer.dilation_rate, groups=layer.groups,
    )  # fmt: skip
    return _finish(b, layer, y, c)


def depthwise(
    b: Builder,
    x: Tensor,
    kernel: np.ndarray,
    bias: np.ndarray | None,
    *,
    kind: str,
    strides,
    dilations,
) -> Tensor:
    """Kernel (spatial…, channels, multiplier); output channel c · multiplier + m."""
    rank = kernel.ndim - 2
    channels, multiplier = kernel.shape[-2:]
    space, inner = "xyz"[:rank], "uvw"[:rank]
    seen = patches(b, x, kind, kernel.shape[:rank], strides, dilations)
    y = b.einsum(
        f"{space}c{inner},{inner}cm->{space}cm", seen, b.constant(kernel),
        bias=None if bias is None else b.constant(bias.reshape(channels, multiplier)),
    )  # fmt: skip
    return b.reshape(y, (*y.shape[:rank], channels * multiplier))


@lowers("DepthwiseConv1D", "DepthwiseConv2D")
def depthwise_layer(b: Builder, layer: Any, c: Call) -> Tensor:
    y = depthwise(
        b, channels_last(c.x, layer.data_format), weights_of(layer.kernel),
        weights_of(layer.bias) if layer.use_bias else None, kind=layer.padding,
        strides=layer.strides, dilations=layer.dilation_rate,
    )  # fmt: skip
    return _finish(b, layer, y, c)


@lowers("SeparableConv1D", "SeparableConv2D")
def separable(b: Builder, layer: Any, c: Call) -> Tensor:
    """Depthwise without a bias, then 1×1 with it."""
    middle = depthwise(
        b, channels_last(c.x, layer.data_format), weights_of(layer.depthwise_kernel), None,
        kind=layer.padding, strides=layer.strides, dilations=layer.dilation_rate,
    )  # fmt: skip
    ones = (1,) * (middle.rank - 1)
    y = convolve(
        b, middle, weights_of(layer.pointwise_kernel), weights_of(layer.bias) if layer.use_bias else None,
        kind="valid", strides=ones, dilations=ones,
    )  # fmt: skip
    return _finish(b, layer, y, c)


@lowers("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose")
def transposed(b: Builder, layer: Any, c: Call) -> Tensor:
    """Each input adds its kernel (spatial…, out, in) at position · stride; then the edges are cut."""
    x = channels_last(c.x, layer.data_format)
    kernel = weights_of(layer.kernel)
    rank = kernel.ndim - 2
    sizes, strides, dilations = kernel.shape[:rank], layer.strides, layer.dilation_rate
    reach = [(k - 1) * d + 1 for k, d in zip(sizes, dilations)]
    whole = [(n - 1) * s + r for n, s, r in zip(x.shape, strides, reach)]
    full = b.fill(b.buffer((*whole, kernel.shape[-2])), 0.0)
    inputs, inner = "xyz"[:rank], "uvw"[:rank]
    target = full.windows(range(rank), reach, strides, [1] * rank)
    steps = [target.strides[rank + 1 + a] * dilations[a] for a in range(rank)]
    places = Tensor(
        full.buffer, (*x.shape[:rank], *sizes, kernel.shape[-2]),
        (*target.strides[:rank], *steps, full.strides[-1]),
    )  # fmt: skip
    b.scatter(f"{inputs}i,{inner}oi->{inputs}{inner}o", x, b.constant(kernel), places)
    wanted = [layer.compute_output_shape((None, *c.x.shape))[1:]]
    shape = wanted[0][1:] if layer.data_format == "channels_first" else wanted[0][:-1]
    edges = {}
    for a in range(rank):
        before = -_cut_before(layer, a, reach[a], strides[a])
        edges[a] = (before, shape[a] - whole[a] - before)
    y = b.pad(full, edges)
    if layer.use_bias:
        y = b.map(lambda v, w: v + w, y, b.constant(weights_of(layer.bias)))
    return _finish(b, layer, y, c)


def _cut_before(layer: Any, axis: int, reach: int, stride: int) -> int:
    """Rows of the whole result that lie before the first one of the output."""
    if layer.padding == "valid":
        return 0
    extra = layer.output_padding
    extra = extra if extra is None or isinstance(extra, int) else extra[axis]
    total = stride + reach - 2 if extra is None else reach + reach % 2 - 2 + extra
    return reach - 1 - min(total // 2 + total % 2, reach - 1)
