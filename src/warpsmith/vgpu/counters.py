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

from .classify import ACCESSES, FLOPS, KINDS, PIPES, Classes, classify
from .lines import Detail, Line, by_line, by_ptx_line
from .metrics import METRICS
from .ptx.ir import Instruction


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """What the cache model estimates of a launch that starts with cold caches. Nothing is exact."""

    l1_sectors: int = 0  # sectors of loads and stores that asked L1
    l1_hit_sectors: int = 0
    l2_read_sectors: int = 0
    l2_read_hit_sectors: int = 0
    l2_write_sectors: int = 0  # atomics among them
    l2_write_hit_sectors: int = 0
    dram_read_bytes: int = 0
    dram_write_bytes: int = 0  # written back during the launch
    l2_dirty_bytes: int = 0  # still in L2 when it ends
    early_replays: int = 0  # times that the trace was full before the wave was

    def __add__(self, other: CacheCounts) -> CacheCounts:
        names = [f.name for f in fields(self)]
        return CacheCounts(**{n: getattr(self, n) + getattr(other, n) for n in names})

    @property
    def l1_hit_rate(self) -> float:
        return self.l1_hit_sectors / max(self.l1_sectors, 1)

    @property
    def l2_hit_rate(self) -> float:
        hits = self.l2_read_hit_sectors + self.l2_write_hit_sectors
        return hits / max(self.l2_read_sectors + self.l2_write_sectors, 1)

    def as_dict(self) -> dict[str, float]:
        """Under the names of the profiler's quantities that they estimate."""
        return {
            "l1tex__t_sector_hit_rate.pct": 100 * self.l1_hit_rate,
            "lts__t_sectors_srcunit_tex_hit_rate.pct": 100 * self.l2_hit_rate,
            "l1tex__m_xbar2l1tex_read_sectors.sum": self.l2_read_sectors,
            "l1tex__m_l1tex2xbar_write_sectors.sum": self.l2_write_sectors,
            "dram__bytes_read.sum": self.dram_read_bytes,
            "dram__bytes_write.sum": self.dram_write_bytes,
            "l2_dirty_bytes_at_end": self.l2_dirty_bytes,
        }


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
    mma_instructions: int = 0  # warp level
    kinds: Mapping[str, int] = field(default_factory=dict)  # thread-level, by classify.KINDS

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
    global_atomic_ideal_sectors: int = 0
    global_reduction_requests: int = 0  # of the atomics: those whose old value nobody reads
    global_reduction_sectors: int = 0
    unique_bytes_read: int = 0
    unique_bytes_written: int = 0

    shared_load_requests: int = 0  # ldmatrix among them
    ldmatrix_requests: int = 0
    shared_load_wavefronts: int = 0
    shared_load_ideal_wavefronts: int = 0
    shared_store_requests: int = 0
    shared_store_wavefronts: int = 0
    shared_store_ideal_wavefronts: int = 0
    shared_atomic_requests: int = 0
    shared_atomic_wavefronts: int = 0
    shared_atomic_ideal_wavefronts: int = 0
    shared_atomic_threads: int = 0
    shared_atomic_conflicts: int = 0

    local_load_requests: int = 0
    local_load_sectors: int = 0
    local_store_requests: int = 0
    local_store_sectors: int = 0
    local_bytes: int = 0

    async_copy_requests: int = 0  # cp.async and bulk copies, global to shared
    async_copy_bytes: int = 0
    async_copy_sectors: int = 0
    async_copy_ideal_sectors: int = 0
    async_copy_wavefronts: int = 0  # of the writes to shared memory
    async_copy_ideal_wavefronts: int = 0
    bulk_load_requests: int = 0  # of them bulk copies, those of tensor maps (TMA) included
    bulk_load_bytes: int = 0
    bulk_load_sectors: int = 0
    bulk_store_requests: int = 0
    bulk_store_bytes: int = 0
    bulk_store_sectors: int = 0
    wgmma_operand_bytes: int = 0  # shared memory that wgmma reads
    branches: int = 0
    divergent_branches: int = 0
    barriers: int = 0  # warp-level arrivals at a block barrier

    sites: tuple[Site, ...] = ()
    cache: CacheCounts | None = None  # only of launches with a cache model
    detail: tuple[Detail, ...] = field(default=(), repr=False, compare=False)

    @property
    def flops(self) -> int:
        """Additions and multiplications, an FMA as two, tensor operations included."""
        scalar = sum(FLOPS.get(name, 0) * count for name, count in self.operations.items())
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
        """Wavefronts of shared memory beyond those that a conflict-free layout needs."""
        return self.shared_wavefronts - self.shared_ideal_wavefronts

    @property
    def shared_wavefronts(self) -> int:
        """Of loads, stores, atomics, and cp.async's writes."""
        plain = self.shared_load_wavefronts + self.shared_store_wavefronts
        return plain + self.shared_atomic_wavefronts + self.async_copy_wavefronts

    @property
    def shared_ideal_wavefronts(self) -> int:
        plain = self.shared_load_ideal_wavefronts + self.shared_store_ideal_wavefronts
        return plain + self.shared_atomic_ideal_wavefronts + self.async_copy_ideal_wavefronts

    @property
    def cp_async_requests(self) -> int:
        return self.async_copy_requests - self.bulk_load_requests - self.bulk_store_requests

    @property
    def cp_async_sectors(self) -> int:
        return self.async_copy_sectors - self.bulk_load_sectors - self.bulk_store_sectors

    @property
    def global_fetch_requests(self) -> int:
        """Atomics whose old value is used."""
        return self.global_atomic_requests - self.global_reduction_requests

    @property
    def global_fetch_sectors(self) -> int:
        return self.global_atomic_sectors - self.global_reduction_sectors

    @property
    def global_sectors(self) -> int:
        return self.global_load_sectors + self.global_store_sectors

    @property
    def global_ideal_sectors(self) -> int:
        return self.global_load_ideal_sectors + self.global_store_ideal_sectors

    @property
    def uniform_branches_percent(self) -> float:
        """Branches whose active threads all went the same way, in percent; 100 without branches."""
        return 100 * (1 - self.divergent_branches / self.branches) if self.branches else 100.0

    @property
    def cache_estimates(self) -> Mapping[str, float]:
        return self.cache.as_dict() if self.cache else {}

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
        """Flat names and numbers, Nsight Compute's names where they mean the same; see metrics.py."""
        flat: dict[str, float] = {}
        for metric in METRICS:
            value = getattr(self, metric.attribute)
            if isinstance(value, Mapping):
                flat |= {metric.key.format(name): number for name, number in value.items()}
            else:
                flat[metric.key] = value
        return flat

    def by_line(self) -> tuple[Line, ...]:
        """What each source line did, in the order of files and lines; see `lines.Line`.

        Inlined code counts at the innermost line of the kernel's own file.
        """
        return by_line(self.detail)

    def by_ptx_line(self) -> tuple[Line, ...]:
        """What each line of the PTX text did."""
        return by_ptx_line(self.detail)

    def rows(self) -> list[dict[str, Any]]:
        """by_line as plain rows: for json, csv.DictWriter or pandas.DataFrame."""
        return [line.as_dict() for line in self.by_line()]


def _join(one: Any, two: Any) -> Any:
    if isinstance(one, int):
        return one + two
    if one is None or two is None or isinstance(one, CacheCounts):
        return one + two if one and two else None
    if isinstance(one, Mapping):
        return {key: one.get(key, 0) + two.get(key, 0) for key in one | two}
    if not all(isinstance(item, Site) for item in one + two):
        return one + two
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
    cache: CacheCounts | None = None,
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
        mma_instructions=int(warps[classes.mma].sum()),
        kinds={name: int(active[classes.kinds == i].sum()) for i, name in enumerate(KINDS)},
        wgmma_operand_bytes=int(classes.operand_bytes @ active / 32),
        cache=cache,
        detail=(Detail(instructions, classes, _resolved(classes, sites), warps, active, sites),),
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
_LOCAL = {"requests": "requests", "sectors": "sectors"}
_BULK = _LOCAL | {"bytes": "bytes"}
_FIELDS = {
    "global_load": _GLOBAL,
    "global_store": _GLOBAL,
    "global_atomic": {
        "requests": "requests",
        "sectors": "sectors",
        "ideal_sectors": "sectors_ideal",
        "conflicts": "conflicts",
    },
    "shared_load": _SHARED,
    "shared_store": _SHARED,
    "shared_atomic": _SHARED | {"conflicts": "conflicts"},
    "local_load": _LOCAL,
    "local_store": _LOCAL,
    "async_copy": _GLOBAL | {"wavefronts": "wavefronts", "ideal_wavefronts": "wavefronts_ideal"},
    "bulk_load": _BULK,
    "bulk_store": _BULK,
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
    found["ldmatrix_requests"] = int(sites["requests"][classes.ldmatrix].sum())
    bulk = sites[np.isin(kinds, [ACCESSES.index("bulk_load"), ACCESSES.index("bulk_store")])]
    for name, column in _GLOBAL.items():  # asynchronous copies are both kinds
        found[f"async_copy_{name}"] += int(bulk[column].sum())
    reductions = sites[(kinds == ACCESSES.index("global_atomic")) & classes.reductions]
    found["global_reduction_requests"] = int(reductions["requests"].sum())
    found["global_reduction_sectors"] = int(reductions["sectors"].sum())
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
