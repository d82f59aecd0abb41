"""Know which memory a kernel may touch: the allocation table, and buffers aligned as on a GPU."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from warpsmith.errors import UsageError

ALIGNMENT_BYTES = 256  # of cudaMalloc; less alignment changes the sectors of an access
GUARD_BYTES = 4096  # so that one past the end of a tensor is nobody's memory
SECTOR_BYTES = 32
_FREED_KEPT = 4096

# mirrors VgAllocation in rt/vgpu.h
ALLOCATION = np.dtype(
    [
        ("begin", np.uint64),
        ("end", np.uint64),
        ("readonly", np.uint32),
        ("id", np.uint32),
        ("seen_read", np.uint64),
        ("seen_written", np.uint64),
        ("fresh", np.uint64),
    ]
)


@dataclass(frozen=True, slots=True)
class Allocation:
    """A span of host memory that a kernel may use. `element_bytes` 0: not a typed tensor.

    initialized False: reading what no kernel of a launch has written first is a finding.
    """

    address: int
    nbytes: int
    name: str
    readonly: bool = False
    element_bytes: int = 0
    initialized: bool = True

    @property
    def end(self) -> int:
        return self.address + self.nbytes

    def gap(self, address: int) -> int:
        """Bytes between `address` and this allocation; 0 inside it."""
        return max(self.address - address, address - self.end + 1, 0)


class AllocationTable:
    """The rows that the C runtime searches, sorted and disjoint. Keep it alive during the launch.

    With `counting`, each row has bitmaps of the 32-byte sectors that were read and written.
    """

    def __init__(self, spans: Iterable[tuple[int, int, bool, bool]], counting: bool):
        spans = list(spans)
        self.rows = np.zeros(len(spans), ALLOCATION)
        self._read: list[np.ndarray] = []
        self._written: list[np.ndarray] = []
        for i, (begin, end, readonly, fresh) in enumerate(spans):
            self.rows[i] = (begin, end, readonly, i, 0, 0, fresh)
            if counting:
                self._track(i, begin, end)

    def _track(self, row: int, begin: int, end: int) -> None:
        sectors = (end - 1) // SECTOR_BYTES - begin // SECTOR_BYTES + 1
        for name, kept in (("seen_read", self._read), ("seen_written", self._written)):
            kept.append(np.zeros(-(-sectors // 64), np.uint64))
            self.rows[name][row] = kept[-1].ctypes.data

    @property
    def address(self) -> int:
        """Of the first row, for VgLaunch.table. Never 0: an empty table checks, and allows nothing."""
        return int(self.rows.ctypes.data)

    @property
    def count(self) -> int:
        return len(self.rows)

    def unique_bytes(self, scale: float = 1.0) -> tuple[int, int]:
        """Bytes of the distinct sectors read and written so far; (0, 0) without counting.

        scale: of the whole grid to the blocks that ran; no span grows past its end.
        """
        whole = self.rows["end"] - self.rows["begin"]
        return (
            _touched(self._read, whole, scale),
            _touched(self._written, whole, scale),
        )


def _touched(bitmaps: Iterable[np.ndarray], whole: np.ndarray, scale: float) -> int:
    total = 0
    for words, nbytes in zip(bitmaps, whole):
        touched = SECTOR_BYTES * int.from_bytes(words.tobytes(), "little").bit_count()
        total += touched if scale == 1 else min(round(touched * scale), int(nbytes))
    return total


class Memory:
    """The allocations of one device, by address."""

    def __init__(self) -> None:
        self._allocations: list[Allocation] = []  # sorted by address, then by size, largest first
        self._freed: list[Allocation] = []  # what was here before, the newest last

    def register(
        self,
        address: int,
        nbytes: int,
        name: str,
        readonly: bool = False,
        *,
        element_bytes: int = 0,
        initialized: bool = True,
    ) -> Allocation:
        """Allow [address, address + nbytes). Overlapping allocations (views) are allowed together.

        Raises UsageError for a negative size or the null address.
        """
        if nbytes < 0 or address <= 0:
            raise UsageError(
                f"cannot register {name!r} at address {address} with {nbytes} bytes: "
                "expected a positive address and a size of 0 or more."
            )
        allocation = Allocation(address, nbytes, name, readonly, element_bytes, initialized)
        insort(self._allocations, allocation, key=lambda a: (a.address, -a.nbytes))
        return allocation

    def forget(self, address: int) -> None:
        """Take back every allocation that starts at `address`; UsageError when there is none. What was
        freed is remembered, so that a use after it can be told by name."""
        kept = [a for a in self._allocations if a.address != address]
        if len(kept) == len(self._allocations):
            raise UsageError(f"no allocation starts at address {address:#x}.")
        self._freed += [a for a in self._allocations if a.address == address]
        del self._freed[:-_FREED_KEPT]
        self._allocations = kept

    def freed(self, address: int) -> Allocation | None:
        """What was at `address` last, where now there is nothing."""
        if self.lookup(address) is not None:
            return None
        return next((a for a in reversed(self._freed) if not a.gap(address)), None)

    def copy(self) -> Memory:
        """The same allocations, to add to."""
        other = Memory()
        other._allocations, other._freed = list(self._allocations), list(self._freed)
        return other

    def __len__(self) -> int:
        return len(self._allocations)

    def lookup(self, address: int) -> Allocation | None:
        """The smallest allocation that holds `address`."""
        holders = [a for a in self._before(address) if address < a.end]
        return min(holders, key=lambda a: a.nbytes, default=None)

    def nearest(self, address: int) -> Allocation | None:
        """The allocation with the smallest gap to `address`, of two the one that ends before it."""
        return min(
            self._allocations, key=lambda a: (a.gap(address), a.address > address), default=None
        )

    def _before(self, address: int) -> list[Allocation]:
        return self._allocations[
            : bisect_right(self._allocations, address, key=lambda a: a.address)
        ]

    def table(self, counting: bool = False) -> AllocationTable:
        """The rows for a launch: overlapping allocations merged, read-only if all of them are."""
        spans: list[tuple[int, int, bool, bool]] = []
        for a in self._allocations:
            if not a.nbytes:
                continue
            if spans and a.address < spans[-1][1]:
                begin, end, readonly, fresh = spans.pop()
                spans.append((begin, max(end, a.end), readonly and a.readonly,
                              fresh and not a.initialized))  # fmt: skip
            else:
                spans.append((a.address, a.end, a.readonly, not a.initialized))
        return AllocationTable(spans, counting)


def empty(nbytes: int) -> np.ndarray:
    """Uninitialized bytes, aligned to 256 as cudaMalloc's, with nobody's memory on both sides."""
    raw = np.empty(nbytes + 2 * GUARD_BYTES + ALIGNMENT_BYTES, np.uint8)
    start = -(raw.ctypes.data + GUARD_BYTES) % ALIGNMENT_BYTES + GUARD_BYTES
    return raw[start : start + nbytes]


def copy_of(array: np.ndarray) -> np.ndarray:
    """A C-contiguous copy of `array` in memory from `empty`."""
    buffer = empty(array.nbytes).view(array.dtype).reshape(array.shape)
    buffer[...] = array
    return buffer
