"""Textures and surfaces on NumPy arrays: what a kernel's texture and surface handles stand for."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes as c
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from warpsmith.errors import DtypeError, ShapeError, ToolchainError, UnknownName, UsageError

from . import build

KINDS = ("1d", "2d", "3d", "a1d", "a2d", "cube", "acube")
"""The geometries by PTX's names, in the order of VgGeometry: a is layered."""
_AXES = {
    "1d": "W", "2d": "HW", "3d": "DHW", "a1d": "LW", "a2d": "LHW", "cube": "6NN", "acube": "L6NN",
}  # fmt: skip
_FORMATS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float16", "float32")
ADDRESSING = ("wrap", "mirror", "clamp", "border")
FILTERS = ("nearest", "linear")
READS = ("element", "normalized")
LEVELS = 16
_LOCK = threading.Lock()

Kind = Literal["1d", "2d", "3d", "a1d", "a2d", "cube", "acube"]


class VgLevel(c.Structure):
    _fields_ = [
        ("data", c.c_void_p), ("width", c.c_uint32), ("height", c.c_uint32), ("depth", c.c_uint32),
        ("reserved", c.c_uint32), ("row", c.c_uint64), ("slice", c.c_uint64), ("layer", c.c_uint64),
    ]  # fmt: skip


class VgTexture(c.Structure):
    _fields_ = [
        ("geometry", c.c_uint32), ("format", c.c_uint32), ("channels", c.c_uint32),
        ("texel_bytes", c.c_uint32), ("addressing", c.c_uint32 * 3), ("linear", c.c_uint32),
        ("normalized", c.c_uint32), ("scaled", c.c_uint32), ("srgb", c.c_uint32),
        ("mip_linear", c.c_uint32), ("levels", c.c_uint32), ("layers", c.c_uint32),
        ("sampled", c.c_uint32), ("writable", c.c_uint32), ("border", c.c_uint32 * 4),
        ("bias", c.c_float), ("least_level", c.c_float), ("most_level", c.c_float),
        ("reserved", c.c_float), ("level", VgLevel * LEVELS),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a texture is read: the fields of a CUDA texture descriptor. Texture says what they mean."""

    filter: str
    address: tuple[str, str, str]
    normalized: bool
    read: str
    border: tuple[float, ...]
    srgb: bool
    mip_filter: str
    mip_bias: float
    mip_range: tuple[float, float]

    @classmethod
    def of(cls, filter: str, address: str | Sequence[str], normalized: bool, read: str,
           border: Sequence[float], srgb: bool, mip_filter: str, mip_bias: float,
           mip_range: tuple[float, float]) -> Sampling:  # fmt: skip
        """As written, with one address mode meaning all axes. Raises UnknownName for odd words."""
        modes = (address,) * 3 if isinstance(address, str) else (*address, "clamp", "clamp")
        for what, name, known in (("filter", filter, FILTERS), ("filter", mip_filter, FILTERS),
                                  ("read", read, READS), *(("address", m, ADDRESSING) for m in modes)):  # fmt: skip
            _index(what, name, known)
        x, y, z = modes[:3]
        return cls(filter, (x, y, z), normalized, read, tuple(border), srgb, mip_filter, mip_bias,
                   mip_range)  # fmt: skip

    def check(self, kind: str, dtype: str) -> None:
        """Raise UsageError for what CUDA refuses, or would quietly change."""
        if self.read == "normalized" and dtype not in _FORMATS[:4]:
            raise UsageError(f"read='normalized' takes 8- and 16-bit integers, not {dtype}.")
        if self.srgb and (dtype != "uint8" or self.read != "normalized"):
            raise UsageError(f"srgb=True takes uint8 with read='normalized', not {dtype}.")
        if "linear" in (self.filter, self.mip_filter) and not self.floats(dtype):
            raise UsageError(
                f"a linear filter needs floats, not {dtype}: pass read='normalized' or convert."
            )
        if not self.normalized and {"wrap", "mirror"} & set(self.address):
            raise UsageError("address 'wrap' and 'mirror' need normalized=True (CUDA would clamp).")
        if kind.endswith("cube") and not self.normalized:
            raise UsageError("a cube is read by direction: pass normalized=True.")
        if len(self.border) > 4:
            raise UsageError(f"border has up to 4 numbers, got {len(self.border)}.")

    def floats(self, dtype: str) -> bool:
        """Whether a fetch gives floats."""
        return self.read == "normalized" or dtype.startswith("float")

    def fill(self, raw: VgTexture, dtype: str) -> None:
        """Write these into the runtime's description."""
        raw.addressing[:] = [ADDRESSING.index(m) for m in self.address]
        raw.linear, raw.mip_linear = FILTERS.index(self.filter), FILTERS.index(self.mip_filter)
        raw.scaled, raw.normalized = READS.index(self.read), int(self.normalized)
        raw.srgb, raw.sampled = int(self.srgb), 1
        raw.bias, (raw.least_level, raw.most_level) = self.mip_bias, self.mip_range
        color = [*self.border, *[0] * (4 - len(self.border))]
        if self.floats(dtype):
            color = [int(x) for x in np.array(color, np.float32).view(np.uint32)]
        raw.border[:] = [int(x) & 0xFFFF_FFFF for x in color]


class _Described:
    """A description that kernels reach through a handle; the handle dies with the object."""

    kind: str
    arrays: tuple[np.ndarray, ...]

    def _open(self, raw: VgTexture) -> None:
        library = build.runtime()
        library.vg_texture_size.restype = library.vg_texture_open.restype = c.c_uint64
        if library.vg_texture_size() != c.sizeof(VgTexture):
            raise ToolchainError("rt/texture.h and vgpu/textures.py disagree about VgTexture")
        with _LOCK:
            self._handle = int(library.vg_texture_open(c.byref(raw)))
        if not self._handle:
            raise UsageError("65536 textures and surfaces are open: close some, or let them go.")
        self.close = weakref.finalize(self, _closed, raw, self._handle)

    @property
    def handle(self) -> int:
        """What the kernel's parameter holds; UsageError after `close()`."""
        if not self.close.alive:
            raise UsageError(f"{self!r} is closed: make a new one.")
        return self._handle

    def __index__(self) -> int:
        return self.handle

    def __repr__(self) -> str:
        first = self.arrays[0]
        return f"{type(self).__name__}({self.kind!r}, {first.dtype} {first.shape})"


def _closed(raw: VgTexture, handle: int) -> None:
    with _LOCK:
        build.runtime().vg_texture_close(c.c_uint64(handle))


class Texture(_Described):
    """A texture object: `array` is read by tex.* through its handle, filtered as a GPU would.

    array: C-contiguous, used in place; shape by kind, `[channels]` of 1, 2 or 4 at the end or not
    there: "1d" (W), "2d" (H, W), "3d" (D, H, W), "a1d" (layers, W), "a2d" (layers, H, W), "cube"
    (6, N, N), "acube" (layers, 6, N, N). A list of arrays is a mipmap chain, largest first; each
    next one has half the size, rounded down, at least 1.
    dtype: uint8, int8, uint16, int16, uint32, int32, float16, float32.
    filter: "nearest" or "linear". address: "clamp", "wrap", "mirror", "border", or one for each
    axis x, y, z. normalized: coordinates of [0, 1) instead of texels; wrap and mirror need them.
    read: "element", or "normalized": 8- and 16-bit integers become floats of [0, 1] or [-1, 1].
    border: the color outside, up to 4 numbers. srgb: 8-bit colors are sRGB (not their alpha).
    mip_filter, mip_bias, mip_range: how levels of detail are chosen.

    Filtering follows the CUDA C++ Programming Guide, "Texture Fetching": weights have 8 bits of
    fraction. Raises ShapeError, DtypeError, UnknownName or UsageError for what CUDA does not take.
    """

    def __init__(
        self, array: np.ndarray | Sequence[np.ndarray], kind: Kind | None = None, *,
        filter: str = "nearest", address: str | Sequence[str] = "clamp",
        normalized: bool = False, read: str = "element", border: Sequence[float] = (),
        srgb: bool = False, mip_filter: str = "nearest", mip_bias: float = 0.0,
        mip_range: tuple[float, float] = (0.0, float("inf")),
    ):  # fmt: skip
        levels = (array,) if isinstance(array, np.ndarray) else tuple(array)
        sampling = Sampling.of(filter, address, normalized, read, border, srgb, mip_filter, mip_bias,
                               mip_range)  # fmt: skip
        self._make(levels, kind or kind_of(levels[0].shape), sampling)

    @classmethod
    def sampled(cls, levels: Sequence[np.ndarray], kind: Kind, sampling: Sampling) -> Texture:
        """A texture with its options in one piece."""
        made = cls.__new__(cls)
        made._make(tuple(levels), kind, sampling)
        return made

    def _make(self, levels: tuple[np.ndarray, ...], kind: Kind, sampling: Sampling) -> None:
        self.kind, self.arrays, self.sampling = kind, levels, sampling
        raw = describe(kind, levels)
        sampling.check(kind, levels[0].dtype.name)
        sampling.fill(raw, levels[0].dtype.name)
        self._open(raw)


class Surface(_Described):
    """A surface object: suld, sust and sured reach `array` in place, unfiltered; x is in bytes.

    array: as for Texture, writable, one level.
    """

    def __init__(self, array: np.ndarray, kind: Kind | None = None):
        self.kind, self.arrays = kind or kind_of(array.shape), (array,)
        raw = describe(self.kind, self.arrays)
        if not array.flags.writeable:
            raise UsageError("a surface needs an array that can be written; this one is read-only.")
        raw.writable = 1
        self._open(raw)


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of a texture in texels: 1 along axes that its kind has not; a cube's faces apart."""

    width: int
    height: int
    depth: int
    layers: int
    channels: int


def extent(kind: str, shape: Sequence[int]) -> Extent:
    """What an array's shape means for a kind. Raises ShapeError where it means nothing."""
    _index("kind", kind, KINDS)
    axes, shape = _AXES[kind], tuple(shape)
    extra = len(shape) - len(axes)
    channels = shape[-1] if extra == 1 else 1
    sizes = dict(zip(axes, shape))
    cube = "6" not in axes or (sizes.get("6") == 6 and shape[len(axes) - 1] == shape[len(axes) - 2])
    if extra not in (0, 1) or channels not in (1, 2, 4) or not cube or 0 in shape:
        wanted = ", ".join(
            {"W": "width", "H": "height", "D": "depth", "L": "layers"}.get(a, a) for a in axes
        )
        raise ShapeError(f"a {kind!r} texture takes an array ({wanted}) or ({wanted}, channels) with "
                         f"1, 2 or 4 channels; got shape {shape}.")  # fmt: skip
    side = sizes.get("N", 1)
    return Extent(sizes.get("W", side), sizes.get("H", side), sizes.get("D", 1), sizes.get("L", 1),
                  channels)  # fmt: skip


def kind_of(shape: Sequence[int]) -> Kind:
    """The plain kind of an array whose last axis is no channels."""
    kinds: tuple[Kind, ...] = ("1d", "2d", "3d")
    if 1 <= len(shape) <= 3:
        return kinds[len(shape) - 1]
    raise ShapeError(f"an array of shape {tuple(shape)} needs its kind named: one of {KINDS}.")


def check_levels(kind: str, shapes: Sequence[Sequence[int]], dtypes: Sequence[str]) -> list[Extent]:
    """The extents of a mipmap chain; ShapeError, DtypeError or UsageError where it is none."""
    if not 1 <= len(shapes) <= LEVELS:
        raise UsageError(f"a texture has 1 to {LEVELS} levels, got {len(shapes)}.")
    if dtypes[0] not in _FORMATS:
        raise DtypeError(f"a texture of {dtypes[0]} is not possible: expected one of "
                         f"{', '.join(_FORMATS)}. Convert it, for example to float32.")  # fmt: skip
    found = [extent(kind, shape) for shape in shapes]
    first = found[0]
    for i, (level, dtype) in enumerate(zip(found, dtypes)):
        width, height, depth = (max(1, n >> i) for n in (first.width, first.height, first.depth))
        wanted = Extent(width, height, depth, first.layers, first.channels)
        if level != wanted or dtype != dtypes[0]:
            raise ShapeError(f"level {i} is {dtype} {tuple(shapes[i])}; expected {dtypes[0]} with "
                             f"{wanted}: half of each size at every level.")  # fmt: skip
    return found


def describe(kind: str, levels: Sequence[np.ndarray]) -> VgTexture:
    """Shape, format and memory of a texture's levels, checked."""
    extents = check_levels(kind, [a.shape for a in levels], [a.dtype.name for a in levels])
    first, array = extents[0], levels[0]
    texel = first.channels * array.itemsize
    raw = VgTexture(geometry=KINDS.index(kind), format=_FORMATS.index(array.dtype.name),
                    channels=first.channels, texel_bytes=texel, levels=len(levels),
                    most_level=float("inf"), layers=first.layers)  # fmt: skip
    raw.addressing[:] = [ADDRESSING.index("clamp")] * 3
    for i, (level, size) in enumerate(zip(levels, extents)):
        if not level.flags.c_contiguous:
            raise UsageError(f"the array of shape {level.shape} is not C-contiguous and would have to "
                             "be copied: pass np.ascontiguousarray(array).")  # fmt: skip
        row = size.width * texel
        raw.level[i] = VgLevel(
            data=level.ctypes.data, width=size.width, height=size.height, depth=size.depth, row=row,
            slice=row * size.height, layer=row * size.height * size.depth,
        )  # fmt: skip
    return raw


def _index(what: str, name: str, known: Sequence[str]) -> int:
    if name not in known:
        raise UnknownName(what, str(name), known)
    return known.index(name)
