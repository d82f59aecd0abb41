"""Tensor maps for TMA: what a CUtensorMap says, checked by the driver's rules, in the runtime's bytes."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.errors import DtypeError, LaunchError, UnknownName

TYPES = (
    "uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float32_ftz",
    "float64", "bfloat16", "tfloat32", "tfloat32_ftz",
)  # fmt: skip
"""Element types, in the order of their codes in tensormap.replace (PTX ISA)."""
_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4)
ALIASES = {
    "int8": "uint8", "bool": "uint8", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8",
    "int16": "uint16",
}  # fmt: skip
"""Types that TMA moves as another one of their size."""
SWIZZLES = (0, 32, 64, 128)
FILLS = ("zero", "nan")
_MAGIC = 0x50414D54
_FORMAT = struct.Struct("<Q4Q5I5I5B7B3h3hHHH2xI12x")
assert _FORMAT.size == 128


@dataclass(frozen=True, slots=True)
class Im2col:
    """The pixels of one im2col copy. lower, upper: corners of the pixels' box, innermost spatial
    dimension first, as offsets from the first and the last pixel; channels and pixels: of one copy."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int


@dataclass(frozen=True, slots=True)
class TensorMap:
    """What a CUtensorMap says; dimensions innermost first, as in cuTensorMapEncodeTiled.

    dtype: one of TYPES. sizes: elements of each dimension. strides: bytes between indices of
    dimensions 1 …, multiples of 16. box: elements of a tile, 1 to 256 each. element_strides: 1 to 8.
    swizzle: 0, 32, 64 or 128 bytes, no less than a row of the box. fill: "zero" or "nan" for elements
    outside of the tensor. im2col: instead of the box.

    Raises LaunchError, DtypeError or UnknownName for what the driver would refuse too.
    Source: CUDA driver API, cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col.
    """

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    swizzle: int = 0
    fill: str = "zero"
    im2col: Im2col | None = None

    def __post_init__(self) -> None:
        if self.dtype not in TYPES:
            raise DtypeError(
                f"a tensor map has no element type {self.dtype!r}: {', '.join(TYPES)}."
            )
        if self.fill not in FILLS:
            raise UnknownName("fill", self.fill, FILLS)
        if self.swizzle not in SWIZZLES:
            raise LaunchError(f"swizzle is {self.swizzle}, expected one of 0, 32, 64, 128 bytes.")
        if not self.element_strides:
            object.__setattr__(self, "element_strides", (1,) * self.rank)
        self._check_lengths()
        self._check_numbers()
        self._check_row()

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def element_bytes(self) -> int:
        return _BYTES[TYPES.index(self.dtype)]

    @property
    def box_bytes(self) -> int:
        """Shared memory that one copy fills: what its mbarrier has to expect."""
        if self.im2col:
            return self.im2col.channels * self.im2col.pixels * self.element_bytes
        total = self.element_bytes * self.box[0]
        for size, step in zip(self.box[1:], self.element_strides[1:]):
            total *= -(-size // step)
        return total

    def encode(self, address: int) -> bytes:
        """The 128 bytes of VgTensorMap for a tensor at a host address, a multiple of 16."""
        if address % 16:
            raise LaunchError(
                f"a tensor map's address is {address:#x}, not a multiple of 16 bytes."
            )
        walk = self.im2col or Im2col((), (), 0, 0)
        return _FORMAT.pack(
            address, *_padded(self.strides, 4), *_padded(self.sizes, 5), *_padded(self.box, 5),
            *_padded(self.element_strides, 5), self.rank, TYPES.index(self.dtype), 0,
            SWIZZLES.index(self.swizzle), FILLS.index(self.fill), int(self.im2col is not None), 0,
            *_padded(walk.lower, 3), *_padded(walk.upper, 3), walk.channels, walk.pixels, 0, _MAGIC,
        )  # fmt: skip

    def _check_lengths(self) -> None:
        if not 1 <= self.rank <= 5:
            raise LaunchError(f"a tensor map has 1 to 5 dimensions, got {self.rank}.")
        wanted = {"strides": self.rank - 1, "element_strides": self.rank}
        wanted |= {} if self.im2col else {"box": self.rank}
        for name, count in wanted.items():
            if len(getattr(self, name)) != count:
                raise LaunchError(
                    f"{name} has {len(getattr(self, name))} numbers, expected {count}."
                )
        if self.im2col and self.rank < 3:
            raise LaunchError(f"im2col takes 3 to 5 dimensions, got {self.rank}.")
        for corner in (self.im2col.lower, self.im2col.upper) if self.im2col else ():
            if len(corner) != self.rank - 2:
                raise LaunchError(
                    f"corner {corner} has not {self.rank - 2} numbers, one a spatial dimension."
                )

    def _check_numbers(self) -> None:
        _between("sizes", self.sizes, 1, (1 << 32) - 1)
        _between("strides", self.strides, 0, (1 << 40) - 1)
        _between("box", self.box, 1, 256)
        _between("element_strides", self.element_strides, 1, 8)
        odd = [s for s in self.strides if s % 16]
        if odd:
            raise LaunchError(
                f"strides are {self.strides} bytes; TMA takes multiples of 16. Pad the rows."
            )
        if self.im2col:
            _between("channels", (self.im2col.channels,), 1, 256)
            _between("pixels", (self.im2col.pixels,), 1, 1024)
            limit = 1 << {3: 15, 4: 7, 5: 4}[self.rank]
            _between("corners", self.im2col.lower + self.im2col.upper, -limit, limit - 1)

    def _check_row(self) -> None:
        inner = self.im2col.channels if self.im2col else self.box[0]
        row = inner * self.element_bytes
        if row % 16:
            raise LaunchError(
                f"a row of the box has {row} bytes ({inner} elements); TMA takes multiples of 16."
            )
        if self.swizzle and row > self.swizzle:
            raise LaunchError(
                f"a row of the box has {row} bytes, more than the swizzle of {self.swizzle}. "
                f"Take a box of at most {self.swizzle // self.element_bytes} elements there."
            )


def _between(name: str, values: Sequence[int], low: int, high: int) -> None:
    if any(not low <= v <= high for v in values):
        raise LaunchError(
            f"{name} of a tensor map are {tuple(values)}, allowed are {low} to {high}."
        )


def _padded(values: Sequence[int], count: int) -> list[int]:
    return [*values, *[0] * (count - len(values))]
