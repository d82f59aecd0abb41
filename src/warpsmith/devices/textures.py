"""Textures and surfaces as kernel arguments: CUDA arrays for CUDA tensors, copies for CPU tensors."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from ..errors import LaunchError
from ..vgpu.textures import (
    ADDRESSING,
    Extent,
    Kind,
    Sampling,
    Surface,
    Texture,
    check_levels,
    kind_of,
)

_FORMATS = {
    "uint8": 0x01, "uint16": 0x02, "uint32": 0x03, "int8": 0x08, "int16": 0x09, "int32": 0x0A,
    "float16": 0x10, "float32": 0x20,
}  # fmt: skip
"""CUarray_format."""
_LAYERED, _SURFACE, _CUBE, _GATHER = 0x01, 0x02, 0x04, 0x08
_READ_AS_INTEGER, _NORMALIZED, _SRGB = 0x01, 0x02, 0x10


class TextureArgument:
    """A texture or surface with the values that its tensor had; pass it where a kernel takes a
    `cudaTextureObject_t` or `cudaSurfaceObject_t`."""

    def __init__(self, tensors: Sequence[Any], kind: Kind, sampling: Sampling | None):
        self.tensors, self.kind, self.sampling = tuple(tensors), kind, sampling
        names = [_dtype(t) for t in tensors]
        self.extents = check_levels(kind, [tuple(t.shape) for t in tensors], names)
        self.dtype = names[0]
        if sampling is not None:
            sampling.check(kind, self.dtype)
        for tensor in tensors:
            if not _contiguous(tensor):
                raise LaunchError(f"a texture takes a contiguous tensor; this one of shape "
                                  f"{tuple(tensor.shape)} is not. Pass .contiguous()")  # fmt: skip
        make = _OnCuda if self.is_cuda else _OnVirtual
        self._there: _OnCuda | _OnVirtual = make(self)
        self.update()

    def __repr__(self) -> str:
        name = "texture" if self.sampling else "surface"
        return f"{name}(<{self.dtype} {tuple(self.tensors[0].shape)}>, kind={self.kind!r})"

    @property
    def device(self) -> Any:
        """The tensor's, so that launches find where they run."""
        return getattr(self.tensors[0], "device", None)

    @property
    def is_cuda(self) -> bool:
        return bool(getattr(self.tensors[0], "is_cuda", False))

    def get_device(self) -> int:
        return int(self.tensors[0].get_device())

    @property
    def texture_handle(self) -> int:
        """What the kernel's parameter holds."""
        return self._there.handle

    def update(self) -> None:
        """Take over what the tensor holds now (on the current stream)."""
        self._there.copy(to_tensor=False)

    def store(self) -> None:
        """Write what kernels wrote through a surface back into its tensor (on the current stream)."""
        if self.sampling is not None:
            raise LaunchError("a texture cannot be written: make a surface(...) of the tensor")
        self._there.copy(to_tensor=True)


def texture(
    tensor: Any | Sequence[Any], kind: Kind | None = None, *, filter: str = "nearest",
    address: str | Sequence[str] = "clamp", normalized: bool = False, read: str = "element",
    border: Sequence[float] = (), srgb: bool = False, mip_filter: str = "nearest",
    mip_bias: float = 0.0, mip_range: tuple[float, float] = (0.0, float("inf")),
) -> TextureArgument:  # fmt: skip
    """A texture of a tensor (PyTorch CPU or CUDA, or NumPy), to pass to a kernel.

    The tensor's values are copied, as into a CUDA array; `update()` copies them anew. kind, shape
    and all options mean what they mean for `warpsmith.vgpu.Texture`; kernels read it by `tex2D<float>`
    and its kin, `tex1Dfetch` from kind "1d".
    Raises ShapeError, DtypeError, UnknownName or UsageError for what CUDA does not take.
    """
    levels: list[Any] = [tensor] if hasattr(tensor, "dtype") else list(tensor)
    sampling = Sampling.of(filter, address, normalized, read, border, srgb, mip_filter, mip_bias,
                           mip_range)  # fmt: skip
    return TextureArgument(levels, kind or kind_of(levels[0].shape), sampling)


def surface(tensor: Any, kind: Kind | None = None) -> TextureArgument:
    """A surface of a tensor, to pass to a kernel that reads and writes it (`surf2Dwrite`, …).

    The values are copied, as into a CUDA array; after the launch `store()` writes them back.
    """
    return TextureArgument([tensor], kind or kind_of(tensor.shape), None)


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _contiguous(tensor: Any) -> bool:
    if hasattr(tensor, "is_contiguous"):
        return bool(tensor.is_contiguous())
    return bool(tensor.flags.c_contiguous)


def _numpy(tensor: Any) -> Any:
    """The tensor's own memory as an array."""
    return tensor.detach().numpy() if hasattr(tensor, "data_ptr") else tensor


class _OnVirtual:
    """Copies in host memory, described for the virtual GPU."""

    def __init__(self, argument: TextureArgument):
        import numpy as np

        self.sources = [_numpy(t) for t in argument.tensors]
        self.copies = [np.empty_like(a) for a in self.sources]
        self.object: Texture | Surface
        if argument.sampling is None:
            self.object = Surface(self.copies[0], argument.kind)
        else:
            self.object = Texture.sampled(self.copies, argument.kind, argument.sampling)

    @property
    def handle(self) -> int:
        return self.object.handle

    def copy(self, *, to_tensor: bool) -> None:
        for mine, theirs in zip(self.copies, self.sources):
            (theirs if to_tensor else mine)[...] = mine if to_tensor else theirs


class _OnCuda:
    """CUDA arrays, one per level, with a texture or surface object; freed with this object.

    Source: CUDA driver API, cuMipmappedArrayCreate, cuTexObjectCreate, cuSurfObjectCreate.
    """

    def __init__(self, argument: TextureArgument):
        from .cuda import _Current, gpu_at

        self.argument, self.gpu = argument, gpu_at(argument.get_device())
        driver = self.gpu.driver
        self.linear = argument.kind == "1d" and argument.sampling is not None
        with _Current(self.gpu):
            self.array = None if self.linear else self._array()
            resource = self._resource()
            if argument.sampling is None:
                made = self.gpu._call("cuSurfObjectCreate", resource)
            else:
                how = sampling_descriptor(driver, argument.sampling, argument.dtype)
                made = self.gpu._call("cuTexObjectCreate", resource, how, None)
        self.handle = int(made)
        destroy = "cuSurfObjectDestroy" if argument.sampling is None else "cuTexObjectDestroy"
        weakref.finalize(self, _release, self.gpu, destroy, made, self.array)

    def _array(self) -> Any:
        a = self.argument
        description = array_descriptor(self.gpu.driver, a.kind, a.extents[0], a.dtype,
                                       a.sampling is None)  # fmt: skip
        return self.gpu._call("cuMipmappedArrayCreate", description, len(a.tensors))

    def _level(self, number: int) -> Any:
        return self.gpu._call("cuMipmappedArrayGetLevel", self.array, number)

    def _resource(self) -> Any:
        driver, a = self.gpu.driver, self.argument
        resource, kinds = driver.CUDA_RESOURCE_DESC(), driver.CUresourcetype
        if self.linear:
            resource.resType = kinds.CU_RESOURCE_TYPE_LINEAR
            linear = resource.res.linear
            linear.devPtr = a.tensors[0].data_ptr()
            linear.format = driver.CUarray_format(_FORMATS[a.dtype])
            linear.numChannels = a.extents[0].channels
            linear.sizeInBytes = a.tensors[0].numel() * a.tensors[0].element_size()
        elif len(a.tensors) > 1:
            resource.resType = kinds.CU_RESOURCE_TYPE_MIPMAPPED_ARRAY
            resource.res.mipmap.hMipmappedArray = self.array
        else:
            resource.resType = kinds.CU_RESOURCE_TYPE_ARRAY
            resource.res.array.hArray = self._level(0)
        return resource

    def copy(self, *, to_tensor: bool) -> None:
        from .cuda import _Current

        if self.linear:  # the texture is the tensor's own memory
            return
        with _Current(self.gpu):
            for i, (tensor, size) in enumerate(zip(self.argument.tensors, self.argument.extents)):
                copy = copy_descriptor(self.gpu.driver, self.argument.kind, tensor, size,
                                       self._level(i), to_tensor)  # fmt: skip
                self.gpu._call("cuMemcpy3DAsync", copy, self.gpu.stream())


def _release(gpu: Any, destroy: str, made: Any, array: Any) -> None:
    if gpu.lost:
        return
    from .cuda import _Current

    with _Current(gpu):
        getattr(gpu.driver, destroy)(made)
        if array is not None:
            gpu.driver.cuMipmappedArrayDestroy(array)


def array_descriptor(driver: Any, kind: str, size: Extent, dtype: str, surface: bool) -> Any:
    """CUDA_ARRAY3D_DESCRIPTOR of a kind: unused axes are 0, layers and faces count as depth."""
    layered, cube = kind.startswith("a"), kind.endswith("cube")
    description = driver.CUDA_ARRAY3D_DESCRIPTOR()
    description.Width = size.width
    description.Height = 0 if kind.endswith("1d") else size.height
    description.Depth = size.layers * (6 if cube else 1) if layered or cube else 0
    if kind == "3d":
        description.Depth = size.depth
    description.Format = driver.CUarray_format(_FORMATS[dtype])
    description.NumChannels = size.channels
    gather = kind == "2d" and not surface
    description.Flags = _LAYERED * layered | _CUBE * cube | _SURFACE * surface | _GATHER * gather
    return description


def sampling_descriptor(driver: Any, sampling: Sampling, dtype: str) -> Any:
    """CUDA_TEXTURE_DESC."""
    how = driver.CUDA_TEXTURE_DESC()
    how.addressMode = [driver.CUaddress_mode(ADDRESSING_CODES[m]) for m in sampling.address]
    how.filterMode = driver.CUfilter_mode(int(sampling.filter == "linear"))
    how.mipmapFilterMode = driver.CUfilter_mode(int(sampling.mip_filter == "linear"))
    integer = not sampling.floats(dtype)
    how.flags = (
        _READ_AS_INTEGER * integer | _NORMALIZED * sampling.normalized | _SRGB * sampling.srgb
    )
    how.mipmapLevelBias = sampling.mip_bias
    how.minMipmapLevelClamp, how.maxMipmapLevelClamp = (
        sampling.mip_range[0],
        min(sampling.mip_range[1], 1000.0),
    )
    how.borderColor = [float(x) for x in (*sampling.border, 0, 0, 0, 0)[:4]]
    return how


ADDRESSING_CODES = dict(zip(ADDRESSING, (0, 2, 1, 3)))
"""CUaddress_mode: wrap 0, clamp 1, mirror 2, border 3."""


def copy_descriptor(
    driver: Any, kind: str, tensor: Any, size: Extent, array: Any, to_tensor: bool
) -> Any:
    """CUDA_MEMCPY3D between a contiguous tensor and an array."""
    copy, kinds = driver.CUDA_MEMCPY3D(), driver.CUmemorytype
    row = size.width * size.channels * tensor.element_size()
    faces = 6 if kind.endswith("cube") else 1
    memory, far = ("dst", "src") if to_tensor else ("src", "dst")
    setattr(copy, f"{memory}MemoryType", kinds.CU_MEMORYTYPE_DEVICE)
    setattr(copy, f"{memory}Device", tensor.data_ptr())
    setattr(copy, f"{memory}Pitch", row)
    setattr(copy, f"{memory}Height", size.height)
    setattr(copy, f"{far}MemoryType", kinds.CU_MEMORYTYPE_ARRAY)
    setattr(copy, f"{far}Array", array)
    copy.WidthInBytes, copy.Height = row, size.height
    copy.Depth = size.depth * size.layers * faces
    return copy
