"""The cache model's numbers, hints and results: estimated hit rates and DRAM bytes of one launch.

What it takes for granted, and no GPU promises:

- Blocks run in waves of SMs × blocks per SM, in the order of their numbers; block b of a wave sits on
  SM b mod SMs. All warps of a wave take turns, one request at a time.
- Caches are cold when the launch starts, have 128-byte lines with 32-byte sectors and 16 ways, drop
  the least recently used line, and choose sets by a hash that is not the hardware's.
- L1 is what the SM's unified memory leaves beside the shared memory of the resident blocks. Stores go
  through it and leave their line there; a store hits where its line is, a load where its sector is.
- Each SM has an L1; L2 is one cache. Nothing merges the requests of different SMs on their way to it,
  as Hopper does: L2 reads are the sectors that SMs ask for.
- Instruction fetches, constants, page tables and ECC take no room.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsmith.errors import UsageError

from .counters import CacheCounts
from .layout import VgCache
from .ptx.ir import Instruction

PAST_L1, NO_ALLOCATE, EVICT_FIRST, NO_L1, NONE = 1, 2, 4, 8, 16  # as in rt/cache.h

_HINTS = {
    "cg": PAST_L1, "cv": PAST_L1, "volatile": PAST_L1, "relaxed": PAST_L1, "acquire": PAST_L1,
    "mmio": PAST_L1, "L1::no_allocate": NO_ALLOCATE, "cs": EVICT_FIRST, "lu": EVICT_FIRST,
    "L1::evict_first": EVICT_FIRST, "L2::evict_first": EVICT_FIRST, "evict_first": EVICT_FIRST,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CacheModel:
    """The caches of one target, as plain numbers.

    l1_bytes: per SM, what shared memory leaves. l2_bytes: of the whole part. blocks_per_sm: resident
    blocks of this kernel. sample: follow one line in so many (a power of two), in caches that much
    smaller; results are scaled up. fetch_bytes: what L2 asks of DRAM at once. trace_bytes: memory
    for the accesses of a wave; where they need more, less than a wave runs together.
    """

    sms: int
    blocks_per_sm: int
    l1_bytes: int
    l2_bytes: int
    sample: int = 1
    fetch_bytes: int = 64
    trace_bytes: int = 128 << 20

    def __post_init__(self) -> None:
        if min(self.sms, self.blocks_per_sm, self.l2_bytes) < 1 or self.l1_bytes < 0:
            raise UsageError(f"{self}: expected at least one SM, one block and some L2.")
        if self.sample < 1 or self.sample & (self.sample - 1):
            raise UsageError(f"sample={self.sample}: expected a power of two, 1 for every line.")
        if self.fetch_bytes not in (32, 64, 128):
            raise UsageError(f"fetch_bytes={self.fetch_bytes}: expected 32, 64 or 128.")


class CacheRun:
    """The model during one launch. Keep it alive until `results`."""

    def __init__(self, model: CacheModel, instructions: Sequence[Instruction], cluster: int):
        self.model = model
        self.hints = np.array([hint(ins) for ins in instructions] or [0], np.uint8)
        self.record = VgCache(
            l2_bytes=model.l2_bytes, trace_entries=max(model.trace_bytes // 8, 1024),
            hints=self.hints.ctypes.data, sms=model.sms, blocks_per_sm=model.blocks_per_sm,
            l1_bytes=model.l1_bytes, sample_shift=model.sample.bit_length() - 1,
            fetch_sectors=model.fetch_bytes // 32, cluster_blocks=cluster,
        )  # fmt: skip

    @property
    def address(self) -> int:
        return ctypes.addressof(self.record)

    def results(self, library: Any) -> CacheCounts:
        """Replay the rest and read the estimates. Raises MemoryError where the model had no room."""
        library.vg_cache_close(ctypes.byref(self.record))
        got, scale = self.record, self.model.sample
        if got.failed:
            raise MemoryError("no memory for the cache model: give it a larger sample")
        return CacheCounts(
            l1_sectors=got.l1_sectors * scale, l1_hit_sectors=got.l1_hits * scale,
            l2_read_sectors=got.l2_reads * scale, l2_read_hit_sectors=got.l2_read_hits * scale,
            l2_write_sectors=got.l2_writes * scale, l2_write_hit_sectors=got.l2_write_hits * scale,
            dram_read_bytes=32 * got.dram_reads * scale,
            dram_write_bytes=32 * got.dram_writes * scale, l2_dirty_bytes=32 * got.dirty * scale,
            early_replays=got.early,
        )  # fmt: skip


def hint(ins: Instruction) -> int:
    """How an instruction treats the caches, from its modifiers."""
    if ins.opcode in ("ld", "ldu") and ins.has("const", "param"):
        return NONE
    if ins.opcode == "cp":
        return 0 if ins.has("ca") else NO_L1
    found = 0
    for modifier in ins.modifiers:
        found |= _HINTS.get(modifier, 0)
    return found
