"""The C structures of rt/vgpu.h as ctypes structures and numpy types, checked against the runtime."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes as c
from functools import cache

import numpy as np

from warpsmith.errors import ToolchainError

from .memory import ALLOCATION
from .program import SPECIALS

OP = np.dtype([
    ("run", np.uint64), ("extra", np.uint64), ("guard", np.uint32), ("flags", np.uint16),
    ("kinds", np.uint16), ("site", np.uint32), ("aux", np.uint32), ("a", np.uint32, 8),
])  # fmt: skip
ACCESS = np.dtype([
    ("site", np.uint32), ("space", np.uint8), ("bytes", np.uint8), ("count", np.uint8),
    ("reg_bytes", np.uint8), ("is_signed", np.uint8), ("atomic", np.uint8), ("type", np.uint8),
    ("flags", np.uint8), ("reserved", np.uint32), ("offset", np.int64),
])  # fmt: skip
SITE = np.dtype([(name, np.uint64) for name in (
    "requests", "threads", "sectors", "sectors_ideal", "wavefronts", "wavefronts_ideal", "bytes",
    "divergent", "conflicts",
)])  # fmt: skip
BLOCK = np.dtype([("warps", np.uint64), ("threads", np.uint64)])


class VgFault(c.Structure):
    _fields_ = [
        ("kind", c.c_uint32), ("site", c.c_uint32), ("space", c.c_uint32), ("is_store", c.c_uint32),
        ("bytes", c.c_uint32), ("lane", c.c_uint32), ("warp", c.c_uint32), ("lanes", c.c_uint32),
        ("block", c.c_uint32 * 3), ("thread", c.c_uint32 * 3), ("address", c.c_uint64),
        ("limit", c.c_uint64), ("text", c.c_char * 512),
    ]  # fmt: skip


class VgParty(c.Structure):
    _fields_ = [
        ("site", c.c_uint32), ("deed", c.c_uint32), ("warp", c.c_uint32), ("lane", c.c_uint32),
        ("block", c.c_uint32 * 3), ("thread", c.c_uint32 * 3),
    ]  # fmt: skip


class VgFinding(c.Structure):
    _fields_ = [
        ("kind", c.c_uint32), ("severity", c.c_uint32), ("who", VgParty), ("other", VgParty),
        ("space", c.c_uint32), ("bytes", c.c_uint32), ("lanes", c.c_uint32), ("hint", c.c_uint32),
        ("address", c.c_uint64), ("limit", c.c_uint64), ("count", c.c_uint64),
    ]  # fmt: skip


class VgLaunch(c.Structure):
    _fields_ = [
        ("ops", c.c_void_p), ("grid", c.c_uint32 * 3), ("block", c.c_uint32 * 3),
        ("cluster", c.c_uint32 * 3), ("threads_per_block", c.c_uint32),
        ("warps_per_block", c.c_uint32), ("block_count", c.c_uint32), ("site_count", c.c_uint32),
        ("frame_bytes", c.c_uint64), ("stack_bytes", c.c_uint64), ("fixed_bytes", c.c_uint64),
        ("local_bytes", c.c_uint64), ("frame_local_bytes", c.c_uint64),
        ("dynamic_shared_bytes", c.c_uint64), ("shared_bytes", c.c_uint64),
        ("params", c.c_void_p), ("param_bytes", c.c_uint64), ("fixed_image", c.c_void_p),
        ("table", c.c_void_p), ("table_count", c.c_uint32), ("counting", c.c_uint32),
        ("parallel", c.c_uint32), ("cooperative", c.c_uint32), ("schedule", c.c_uint32),
        ("resident_blocks", c.c_uint32), ("seed", c.c_uint64), ("max_instructions", c.c_uint64),
        ("max_seconds", c.c_double), ("grid_workspace", c.c_void_p), ("heap", c.c_void_p), ("heap_bytes", c.c_uint64),
        ("heap_used", c.c_void_p), ("cache", c.c_void_p), ("special", c.c_uint32 * len(SPECIALS)),
        ("checks", c.c_uint32), ("max_findings", c.c_uint32),
    ]  # fmt: skip


class VgCache(c.Structure):
    """Of rt/cache.h."""

    _fields_ = [
        ("l2_bytes", c.c_uint64), ("trace_entries", c.c_uint64), ("hints", c.c_void_p),
        ("sms", c.c_uint32), ("blocks_per_sm", c.c_uint32), ("l1_bytes", c.c_uint32),
        ("sample_shift", c.c_uint32), ("fetch_sectors", c.c_uint32), ("cluster_blocks", c.c_uint32),
        ("l1_sectors", c.c_uint64), ("l1_hits", c.c_uint64), ("l2_reads", c.c_uint64),
        ("l2_read_hits", c.c_uint64), ("l2_writes", c.c_uint64), ("l2_write_hits", c.c_uint64),
        ("dram_reads", c.c_uint64), ("dram_writes", c.c_uint64), ("dirty", c.c_uint64),
        ("early", c.c_uint64), ("failed", c.c_uint64), ("state", c.c_void_p),
    ]  # fmt: skip


class VgAllocation(c.Structure):
    _fields_ = [
        ("begin", c.c_uint64), ("end", c.c_uint64), ("readonly", c.c_uint32), ("id", c.c_uint32),
        ("seen_read", c.c_void_p), ("seen_written", c.c_void_p), ("fresh", c.c_uint64),
    ]  # fmt: skip


class VgWorker(c.Structure):
    _fields_ = [
        ("launch", c.POINTER(VgLaunch)), ("sites", c.c_void_p), ("blocks", c.c_void_p),
        ("resident", c.c_void_p), ("first_block", c.c_uint64), ("last_block", c.c_uint64),
        ("instructions", c.c_uint64), ("last", VgAllocation * 2), ("memory", c.c_void_p),
        ("cluster_shared", c.c_void_p), ("cluster_stride", c.c_uint64),
        ("patterns", c.c_void_p), ("printed", c.c_void_p), ("printed_bytes", c.c_uint64),
        ("printed_room", c.c_uint64), ("clock", c.c_uint64), ("random", c.c_uint64),
        ("early_collectives", c.c_uint64), ("cluster_arrived", c.c_uint64),
        ("cluster_phase", c.c_uint64), ("next_block", c.c_uint64), ("stop", c.c_int), ("started", c.c_double),
        ("fault", VgFault), ("bulk", c.c_void_p), ("check", c.c_void_p), ("findings", c.c_void_p),
        ("finding_count", c.c_uint32), ("unchecked", c.c_uint32),
    ]  # fmt: skip


@cache
def check(library: c.CDLL) -> None:
    """Raise when the compiled runtime lays its structures out differently."""
    theirs = (c.c_uint64 * 9)()
    library.vg_sizes(theirs)
    ours = (OP.itemsize, ACCESS.itemsize, ALLOCATION.itemsize, SITE.itemsize, BLOCK.itemsize,
            c.sizeof(VgFault), c.sizeof(VgLaunch), c.sizeof(VgWorker), c.sizeof(VgFinding))  # fmt: skip
    library.vg_cache_size.restype = c.c_uint64
    both = (*theirs, library.vg_cache_size()), (*ours, c.sizeof(VgCache))
    if both[0] != both[1]:
        raise ToolchainError(f"rt/vgpu.h and vgpu/layout.py disagree: {both[0]} and {both[1]}")
