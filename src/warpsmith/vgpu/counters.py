"""What a launch did, counted exactly: instructions, operations, sectors, wavefronts, divergence.

Counts are of the PTX that ran. Where Nsight Compute computes the same quantity from addresses or
executed operations, `as_dict` uses its name; ptxas may still delete, hoist or merge accesses, so
the two can differ on one kernel. PTX instruction counts keep names of their own: they are no SASS
counts.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import PurePath
from typing import Any

import numpy as np

from .classify import ACCESSES, PIPES, Classes, classify
from .ptx.ir import Instruction


@dataclass(frozen=True, slots=True)
class Site:
    """The accesses of one PTX instruction, or the divergence of a branch, added over the launch."""

    ptx_line: int
    source: str  # "transpose.cu:12"
    operation: str  # "global_load", "shared_store", "branch", …: see classify.ACCESSES
    requests: int = 0  # warp-level, with at least one active lane
    threads: int = 0
    transactions: int = 0  # sectors; wavefronts for shared memory; divergent ones for branches
    ideal_transactions: int = 0

    @property
    def excess(self) -> int:
        return self.transactions - self.ideal_transactions

    def __add__(self, other: Site) -> Site:
        return Site(
            self.ptx_line,
            self.source,
            self.operation,
            self.requests + other.requests,
            self.threads + other.threads,
            self.transactions + other.transactions,
            self.ideal_transactions + other.ideal_transactions,
        )


@dataclass(frozen=True, slots=True)
class Counters:
    """Everything one launch (or several, added with `+`) did.

    Requests are warp-level accesses with at least one active lane. A sector is 32 bytes; ideal
    sectors are ⌈distinct bytes / 32⌉. A wavefront is one pass over the 32 banks of shared memory.
    `unique_bytes_*` count distinct 32-byte sectors of registered memory: what DRAM must move at
    least when the caches start cold.
    """

    launches: int = 1
    blocks: int = 0
    warps: int = 0
    threads: int = 0

    thread_instructions: int = 0
    thread_instructions_pred_on: int = 0  # of them with a true guard
    warp_instructions: int = 0
    pipe_instructions: Mapping[str, int] = field(default_factory=dict)  # warp-level, by PIPES
    operations: Mapping[str, int] = field(default_factory=dict)  # thread-level: "ffma", "dadd", …
    tensor_flops: Mapping[str, int] = field(default_factory=dict)  # by input type: "bf16", …
    warpgroup_mma_flops: int = 0  # of them in wgmma

    global_load_requests: int = 0
    global_load_sectors: int = 0
    global_load_ideal_sectors: int = 0
    global_load_bytes: int = 0
    global_store_requests: int = 0
    global_store_sectors: int = 0
    global_store_ideal_sectors: int = 0
    global_store_bytes: int = 0
    global_atomic_requests: int = 0
    global_atomic_sectors: int = 0
    global_atomic_threads: int = 0
    global_atomic_conflicts: int = 0  # lanes that share their address with an earlier lane
    unique_bytes_read: int = 0
    unique_bytes_written: int = 0

    shared_load_requests: int = 0
    shared_load_wavefronts: int = 0
    shared_load_ideal_wavefronts: int = 0
    shared_store_requests: int = 0
    shared_store_wavefronts: int = 0
    shared_store_ideal_wavefronts: int = 0
    shared_atomic_requests: int = 0
    shared_atomic_wavefronts: int = 0
    shared_atomic_threads: int = 0
    shared_atomic_conflicts: int = 0

    local_load_requests: int = 0
    local_store_requests: int = 0
    local_bytes: int = 0

    async_copy_requests: int = 0  # cp.async and bulk copies, global to shared
    async_copy_bytes: int = 0
    async_copy_sectors: int = 0
    async_copy_ideal_sectors: int = 0
    async_copy_wavefronts: int = 0  # of the writes to shared memory
    branches: int = 0
    divergent_branches: int = 0
    barriers: int = 0  # warp-level arrivals at a block barrier

    sites: tuple[Site, ...] = ()

    @property
    def flops(self) -> int:
        """Additions and multiplications, an FMA as two, tensor operations included."""
        scalar = sum(_FLOPS.get(name, 0) * count for name, count in self.operations.items())
        return scalar + sum(self.tensor_flops.values())

    @property
    def sectors_per_load(self) -> float:
        """Sectors per global load request: 4 is coalesced float32, 32 is scattered."""
        return self.global_load_sectors / max(self.global_load_requests, 1)

    @property
    def sectors_per_store(self) -> float:
        return self.global_store_sectors / max(self.global_store_requests, 1)

    @property
    def bank_conflicts(self) -> int:
        """Wavefronts of shared loads and stores beyond those a conflict-free layout needs."""
        return (
            self.shared_load_wavefronts
            + self.shared_store_wavefronts
            - self.shared_load_ideal_wavefronts
            - self.shared_store_ideal_wavefronts
        )

    @property
    def active_threads(self) -> float:
        """Mean active threads of an executed warp instruction: 32 without divergence."""
        return self.thread_instructions / max(self.warp_instructions, 1)

    def __add__(self, other: Counters) -> Counters:
        """The two together. Unique bytes add up, as they do for launches with cold caches."""
        return Counters(
            **{f.name: _join(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        )

    def as_dict(self) -> dict[str, float]:
        """Flat names and numbers, Nsight Compute's names where they mean the same."""
        flat: dict[str, float] = {
            _NCU_NAMES.get(f.name, f.name): value
            for f in fields(self)
            if isinstance(value := getattr(self, f.name), int)
        }
        flat |= {
            f"pipe_{pipe}_warp_instructions": self.pipe_instructions.get(pipe, 0) for pipe in PIPES
        }
        flat |= {_sass_name(name): count for name, count in self.operations.items()}
        flat |= {f"tensor_flops_{kind}": count for kind, count in self.tensor_flops.items()}
        flat["memory_l2_theoretical_sectors_global"] = (
            self.global_load_sectors + self.global_store_sectors
        )
        flat["memory_l2_theoretical_sectors_global_ideal"] = (
            self.global_load_ideal_sectors + self.global_store_ideal_sectors
        )
        flat["memory_l1_wavefronts_shared"] = (
            self.shared_load_wavefronts + self.shared_store_wavefronts
        )
        flat["memory_l1_wavefronts_shared_ideal"] = (
            self.shared_load_ideal_wavefronts + self.shared_store_ideal_wavefronts
        )
        return flat


_NCU_NAMES = {
    "blocks": "launch__grid_size",
    "threads": "launch__thread_count",
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_load_requests": "smsp__sass_inst_executed_op_shared_ld.sum",
    "shared_store_requests": "smsp__sass_inst_executed_op_shared_st.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
}

# operation: floating-point operations of one thread (packed types do two lanes)
_FLOPS = {
    "fadd": 1, "fmul": 1, "ffma": 2,
    "dadd": 1, "dmul": 1, "dfma": 2,
    "hadd": 1, "hmul": 1, "hfma": 2,
    "hadd2": 2, "hmul2": 2, "hfma2": 4,
    "fadd2": 2, "fmul2": 2, "ffma2": 4,
}  # fmt: skip


def _sass_name(operation: str) -> str:
    """Nsight Compute's name; packed operations ("hfma2", "ffma2") continue its pattern."""
    return f"smsp__sass_thread_inst_executed_op_{operation}_pred_on.sum"


def _join(one: Any, two: Any) -> Any:
    if isinstance(one, int):
        return one + two
    if isinstance(one, Mapping):
        return {key: one.get(key, 0) + two.get(key, 0) for key in one | two}
    sites: dict[tuple, Site] = {}
    for site in one + two:
        key = (site.ptx_line, site.source, site.operation)
        sites[key] = sites[key] + site if key in sites else site
    return tuple(sites.values())


# -------------------------------------------------------------------- from a launch's own records

_CLASSES: dict[int, tuple[Sequence[Instruction], Classes]] = {}
_CLASSES_KEPT = 256


def _classes_of(instructions: Sequence[Instruction]) -> Classes:
    """Classified once per translated kernel; the kept reference makes the id a safe key."""
    kept = _CLASSES.get(id(instructions))
    if kept is None or kept[0] is not instructions:
        if len(_CLASSES) >= _CLASSES_KEPT:
            _CLASSES.clear()
        _CLASSES[id(instructions)] = kept = (instructions, classify(instructions))
    return kept[1]


def collect(
    instructions: Sequence[Instruction],
    warps: np.ndarray,
    threads: np.ndarray,
    sites: np.ndarray,
    grid: Sequence[int],
    block: Sequence[int],
    *,
    unique_bytes: tuple[int, int] = (0, 0),
) -> Counters:
    """The counters of a launch.

    instructions: of the translated kernel. warps, threads: how many entered the basic block of each
    instruction. sites: one record per instruction with the fields of VgSite in rt/vgpu.h.
    """
    classes = _classes_of(instructions)
    blocks, block_threads = int(np.prod(grid)), int(np.prod(block))
    active = np.where(classes.guarded, sites["threads"], threads).astype(np.int64)
    warps = warps.astype(np.int64)
    return Counters(
        launches=1,
        blocks=blocks,
        warps=blocks * -(-block_threads // 32),
        threads=blocks * block_threads,
        thread_instructions=int(threads.sum()),
        thread_instructions_pred_on=int(active.sum()),
        warp_instructions=int(warps.sum()),
        pipe_instructions={
            pipe: int(warps[classes.pipes == i].sum()) for i, pipe in enumerate(PIPES)
        },
        operations={name: int(active[where].sum()) for name, where in classes.operations.items()},
        tensor_flops={kind: int(flops @ active / 32) for kind, flops in classes.tensor.items()},
        warpgroup_mma_flops=int(classes.warpgroup @ active / 32),
        unique_bytes_read=unique_bytes[0],
        unique_bytes_written=unique_bytes[1],
        sites=_site_table(instructions, classes, warps, active, sites),
        **_memory(classes, sites, warps),
    )


# what a class of accesses gives: counter -> field of VgSite
_GLOBAL = {
    "requests": "requests",
    "sectors": "sectors",
    "ideal_sectors": "sectors_ideal",
    "bytes": "bytes",
}
_SHARED = {
    "requests": "requests",
    "wavefronts": "wavefronts",
    "ideal_wavefronts": "wavefronts_ideal",
}
_FIELDS = {
    "global_load": _GLOBAL,
    "global_store": _GLOBAL,
    "global_atomic": {"requests": "requests", "sectors": "sectors", "conflicts": "conflicts"},
    "shared_load": _SHARED,
    "shared_store": _SHARED,
    "shared_atomic": {"requests": "requests", "wavefronts": "wavefronts", "conflicts": "conflicts"},
    "local_load": {"requests": "requests"},
    "local_store": {"requests": "requests"},
    "async_copy": _GLOBAL | {"wavefronts": "wavefronts"},
}


def _memory(classes: Classes, sites: np.ndarray, warps: np.ndarray) -> dict[str, int]:
    kinds = _resolved(classes, sites)
    found: dict[str, int] = {}
    for kind, columns in _FIELDS.items():
        rows = sites[kinds == ACCESSES.index(kind)]
        found |= {f"{kind}_{name}": int(rows[column].sum()) for name, column in columns.items()}
    for space in ("global", "shared"):
        rows = sites[kinds == ACCESSES.index(f"{space}_atomic")]
        found[f"{space}_atomic_threads"] = int(rows["threads"].sum())
    local = [ACCESSES.index("local_load"), ACCESSES.index("local_store")]
    found["local_bytes"] = int(sites["bytes"][np.isin(kinds, local)].sum())
    found["branches"] = int(warps[kinds == ACCESSES.index("branch")].sum())
    found["divergent_branches"] = int(sites["divergent"].sum())
    found["barriers"] = int(warps[kinds == ACCESSES.index("barrier")].sum())
    return found


def _resolved(classes: Classes, sites: np.ndarray) -> np.ndarray:
    """Generic accesses become global ones, or shared ones where they only met shared memory."""
    kinds = classes.accesses.copy()
    only_shared = (sites["sectors"] == 0) & (sites["wavefronts"] > 0)
    for verb in ("load", "store", "atomic"):
        generic = kinds == ACCESSES.index(f"generic_{verb}")
        kinds[generic & only_shared] = ACCESSES.index(f"shared_{verb}")
        kinds[generic & ~only_shared] = ACCESSES.index(f"global_{verb}")
    return kinds


def _site_table(
    instructions: Sequence[Instruction],
    classes: Classes,
    warps: np.ndarray,
    active: np.ndarray,
    sites: np.ndarray,
) -> tuple[Site, ...]:
    kinds = _resolved(classes, sites)
    rows = np.flatnonzero((sites["requests"] > 0) | (sites["divergent"] > 0))
    return tuple(
        _site(instructions[int(i)], ACCESSES[kinds[i]], warps[i], active[i], sites[i]) for i in rows
    )


def _site(ins: Instruction, kind: str, warps: int, active: int, row: np.ndarray) -> Site:
    source = f"{PurePath(ins.source.file).name}:{ins.source.line}" if ins.source else ""
    if kind == "branch":
        return Site(ins.line, source, kind, int(warps), int(active), int(row["divergent"]), 0)
    column = "wavefronts" if kind.startswith("shared") else "sectors"
    return Site(
        ins.line, source, kind, int(row["requests"]), int(active),
        int(row[column]), int(row[f"{column}_ideal"]),
    )  # fmt: skip
