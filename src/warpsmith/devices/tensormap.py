"""A tensor seen through TMA as a kernel argument: for CPU tensors the virtual GPU's map, for CUDA
tensors the driver's."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ..errors import DeviceError, DtypeError, LaunchError
from ..vgpu.tensormap import ALIASES, FILLS, SWIZZLES, TYPES, Im2col, TensorMap

_L2_PROMOTIONS = (0, 64, 128, 256)


class TensorMapArgument:
    """A tensor and how TMA sees it; pass it where a kernel takes a `CUtensorMap` by value."""

    __slots__ = ("l2_promotion", "map", "tensor")

    def __init__(self, tensor: Any, map: TensorMap, l2_promotion: int = 0):
        self.tensor, self.map, self.l2_promotion = tensor, map, l2_promotion

    def __repr__(self) -> str:
        return f"tensor_map(<{self.map.dtype} {self.map.sizes[::-1]}>, box={self.map.box[::-1]})"

    @property
    def device(self) -> Any:
        """The tensor's, so that launches find where they run."""
        return getattr(self.tensor, "device", None)

    @property
    def is_cuda(self) -> bool:
        return bool(getattr(self.tensor, "is_cuda", False))

    def get_device(self) -> int:
        return int(self.tensor.get_device())

    @property
    def box_bytes(self) -> int:
        """Bytes of shared memory that one copy fills."""
        return self.map.box_bytes

    def encode_cuda(self) -> bytes:
        """The driver's 128 bytes. Raises DeviceError with the driver's word where it refuses."""
        from cuda.bindings import driver

        map = self.map
        integer = {8: driver.cuuint64_t, 4: driver.cuuint32_t}
        common = (
            getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{map.dtype.upper()}"),
            map.rank,
            self.tensor.data_ptr(),
            [integer[8](s) for s in map.sizes],
            [integer[8](s) for s in map.strides],
        )
        steps = [integer[4](s) for s in map.element_strides]
        layout = (
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            driver.CUtensorMapSwizzle(SWIZZLES.index(map.swizzle)),
            driver.CUtensorMapL2promotion(_L2_PROMOTIONS.index(self.l2_promotion)),
            driver.CUtensorMapFloatOOBfill(FILLS.index(map.fill)),
        )
        if map.im2col:
            walk = map.im2col
            status, found = driver.cuTensorMapEncodeIm2col(
                *common,
                list(walk.lower),
                list(walk.upper),
                walk.channels,
                walk.pixels,
                steps,
                *layout,
            )
        else:
            box = [integer[4](b) for b in map.box]
            status, found = driver.cuTensorMapEncodeTiled(*common, box, steps, *layout)
        if int(status):
            raise DeviceError(f"{self!r}: the driver refuses the tensor map: {status.name}.")
        return ctypes.string_at(found.getPtr(), 128)


def tensor_map(
    tensor: Any, box: Sequence[int] = (), *, swizzle: int = 0, fill: str = "zero",
    element_strides: Sequence[int] = (), dtype: str = "", l2_promotion: int = 0,
    im2col: Im2col | None = None,
) -> TensorMapArgument:  # fmt: skip
    """A kernel argument for `const __grid_constant__ CUtensorMap`: the tensor, copied in tiles by TMA.

    tensor: PyTorch (CPU or CUDA) or NumPy, of 1 to 5 axes, its last axis contiguous, the strides of
    the others multiples of 16 bytes. box: elements of a tile along each axis, in the tensor's order.
    swizzle: 0, 32, 64 or 128 bytes. fill: "zero" or "nan" outside of the tensor. element_strides: of
    each axis, 1 to 8. dtype: another element type of the same size, as "tfloat32". l2_promotion: 0,
    64, 128 or 256 bytes, a hint for the GPU. im2col: pixels of a convolution instead of a box.

    Raises LaunchError or DtypeError for what TMA cannot copy.
    Source: CUDA driver API, cuTensorMapEncodeTiled (which lists axes innermost first).
    """
    if l2_promotion not in _L2_PROMOTIONS:
        raise LaunchError(
            f"l2_promotion is {l2_promotion}, expected one of {_L2_PROMOTIONS} bytes."
        )
    shape = tuple(int(s) for s in tensor.shape)
    item, strides = _strides(tensor)
    if strides and strides[-1] != item:
        raise LaunchError(
            f"the last axis of a tensor map must be contiguous; its stride is {strides[-1] // item} "
            "elements. Pass the transposed view, or .contiguous()"
        )
    if not im2col and len(box) != len(shape):
        raise LaunchError(f"box {tuple(box)} has {len(box)} numbers, the tensor {len(shape)} axes.")
    found = TensorMap(
        dtype or _dtype(tensor), shape[::-1], strides[-2::-1] if len(strides) > 1 else (),
        tuple(box)[::-1], tuple(element_strides)[::-1], swizzle, fill, im2col,
    )  # fmt: skip
    if found.element_bytes != item:
        raise DtypeError(f"dtype {dtype!r} has {found.element_bytes} bytes, the tensor's {item}.")
    return TensorMapArgument(tensor, found, l2_promotion)


def _strides(tensor: Any) -> tuple[int, tuple[int, ...]]:
    """(bytes of an element, bytes from one index of each axis to the next)."""
    if hasattr(tensor, "data_ptr"):
        item = int(tensor.element_size())
        return item, tuple(item * int(s) for s in tensor.stride())
    return int(tensor.itemsize), tuple(int(s) for s in tensor.strides)


def _dtype(tensor: Any) -> str:
    name = str(tensor.dtype).removeprefix("torch.")
    name = ALIASES.get(name, name)
    if name not in TYPES:
        raise DtypeError(f"TMA has no element type for {name}: pass a view, as x.view(torch.uint8)")
    return name
