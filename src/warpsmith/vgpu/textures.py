"""Textures and surfaces on NumPy arrays: what a kernel's texture and surface handles stand for."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes as c
import threading
import weakref
from collections.abc import Sequence
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
_LEVELS = 16
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
        ("reserved", c.c_float), ("level", VgLevel * _LEVELS),
    ]  # fmt: skip


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
        self.kind, self.arrays = kind or _kind_of(levels[0]), levels
        raw = describe(self.kind, levels)
        modes = (address,) * 3 if isinstance(address, str) else (*address, "clamp", "clamp")[:3]
        raw.addressing[:] = [_index("address", m, ADDRESSING) for m in modes]
        raw.linear = _index("filter", filter, FILTERS)
        raw.mip_linear = _index("filter", mip_filter, FILTERS)
        raw.scaled, raw.normalized = _index("read", read, READS), int(normalized)
        raw.srgb, raw.sampled = int(srgb), 1
        raw.bias, (raw.least_level, raw.most_level) = mip_bias, mip_range
        self.filter, self.address, self.normalized = filter, modes, normalized
        self.read, self.border, self.srgb = read, tuple(border), srgb
        self.mip_filter, self.mip_bias, self.mip_range = mip_filter, mip_bias, mip_range
        _check_sampling(self, levels[0].dtype.name)
        raw.border[:] = _border(self.border, levels[0].dtype.name, read)
        self._open(raw)


class Surface(_Described):
    """A surface object: suld, sust and sured reach `array` in place, unfiltered; x is in bytes.

    array: as for Texture, writable, one level.
    """

    def __init__(self, array: np.ndarray, kind: Kind | None = None):
        self.kind, self.arrays = kind or _kind_of(array), (array,)
        raw = describe(self.kind, self.arrays)
        if not array.flags.writeable:
            raise UsageError("a surface needs an array that can be written; this one is read-only.")
        raw.writable = 1
        self._open(raw)


def describe(kind: str, levels: Sequence[np.ndarray]) -> VgTexture:
    """Shape, format and memory of a texture's levels, checked."""
    _index("kind", kind, KINDS)
    first = levels[0]
    if first.dtype.name not in _FORMATS:
        raise DtypeError(f"a texture of {first.dtype} is not possible: expected one of "
                         f"{', '.join(_FORMATS)}. Convert with array.astype(np.float32).")  # fmt: skip
    if not 1 <= len(levels) <= _LEVELS:
        raise UsageError(f"a texture has 1 to {_LEVELS} levels, got {len(levels)}.")
    shape, channels = _shape(kind, first)
    raw = VgTexture(geometry=KINDS.index(kind), format=_FORMATS.index(first.dtype.name),
                    channels=channels, texel_bytes=channels * first.itemsize, levels=len(levels),
                    most_level=float("inf"), layers=shape[0] if _AXES[kind][0] == "L" else 1)  # fmt: skip
    raw.addressing[:] = [ADDRESSING.index("clamp")] * 3
    for i, level in enumerate(levels):
        raw.level[i] = _level(kind, level, first, i, raw.texel_bytes)
    return raw


def _kind_of(array: np.ndarray) -> Kind:
    """The plain kind of an array whose last axis is no channels."""
    kinds: tuple[Kind, ...] = ("1d", "2d", "3d")
    if 1 <= array.ndim <= 3:
        return kinds[array.ndim - 1]
    raise ShapeError(f"an array of shape {array.shape} needs its kind named: one of {KINDS}.")


def _shape(kind: str, array: np.ndarray) -> tuple[tuple[int, ...], int]:
    """The shape without channels, and the channels."""
    axes = _AXES[kind]
    extra = array.ndim - len(axes)
    channels = array.shape[-1] if extra == 1 else 1
    shape = array.shape[: len(axes)]
    faces = 6 if "6" in axes and extra in (0, 1) and shape[axes.index("6")] != 6 else 0
    square = "NN" in axes and extra in (0, 1) and shape[-1] != shape[-2]
    if extra not in (0, 1) or channels not in (1, 2, 4) or faces or square or not array.size:
        wanted = ", ".join(
            {"W": "width", "H": "height", "D": "depth", "L": "layers"}.get(a, a) for a in axes
        )
        raise ShapeError(f"a {kind!r} texture takes an array ({wanted}) or ({wanted}, channels) with "
                         f"1, 2 or 4 channels; got shape {array.shape}.")  # fmt: skip
    if not array.flags.c_contiguous:
        raise UsageError(f"the array of shape {array.shape} is not C-contiguous and would have to be "
                         "copied: pass np.ascontiguousarray(array).")  # fmt: skip
    return shape, channels


def _level(kind: str, array: np.ndarray, first: np.ndarray, number: int, texel: int) -> VgLevel:
    shape, expected = _shape(kind, array)[0], _shape(kind, first)[0]
    fixed = [i for i, a in enumerate(_AXES[kind]) if a in "L6"]
    wanted = tuple(n if i in fixed else max(1, n >> number) for i, n in enumerate(expected))
    if shape != wanted or array.dtype != first.dtype or array.ndim != first.ndim:
        raise ShapeError(f"level {number} is {array.dtype} {array.shape}; expected {first.dtype} "
                         f"{wanted}: half of each size at every level.")  # fmt: skip
    sizes = [*[n for i, n in enumerate(shape) if i not in fixed][::-1], 1, 1]
    width, height, depth = sizes[:3]
    row = width * texel
    return VgLevel(data=array.ctypes.data, width=width, height=height, depth=depth, row=row,
                   slice=row * height, layer=row * height * depth)  # fmt: skip


def _index(what: str, name: str, known: Sequence[str]) -> int:
    if name not in known:
        raise UnknownName(what, str(name), known)
    return known.index(name)


def _check_sampling(texture: Texture, dtype: str) -> None:
    """What CUDA refuses, or would quietly change."""
    small = dtype in _FORMATS[:4]
    if texture.read == "normalized" and not small:
        raise UsageError(f"read='normalized' takes 8- and 16-bit integers, not {dtype}.")
    if texture.srgb and (dtype != "uint8" or texture.read != "normalized"):
        raise UsageError(f"srgb=True takes uint8 with read='normalized', not {dtype}.")
    floats = texture.read == "normalized" or dtype.startswith("float")
    if "linear" in (texture.filter, texture.mip_filter) and not floats:
        raise UsageError(
            f"a linear filter needs floats, not {dtype}: pass read='normalized' or convert."
        )
    if not texture.normalized and {"wrap", "mirror"} & set(texture.address):
        raise UsageError("address 'wrap' and 'mirror' need normalized=True (CUDA would clamp).")
    if texture.kind.endswith("cube") and not texture.normalized:
        raise UsageError("a cube is read by direction: pass normalized=True.")


def _border(color: Sequence[float], dtype: str, read: str) -> list[int]:
    """The border's channels as the 32 bits that a fetch of this texture gives."""
    if len(color) > 4:
        raise UsageError(f"border has up to 4 numbers, got {len(color)}.")
    padded = [*color, *[0] * (4 - len(color))]
    if dtype.startswith("float") or read == "normalized":
        return [int(x) for x in np.array(padded, np.float32).view(np.uint32)]
    return [int(x) & 0xFFFF_FFFF for x in padded]
