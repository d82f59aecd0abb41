"""What a launch did, counted exactly: instructions, operations, sectors, wavefronts, divergence.

Counts are of the PTX that ran. Where Nsight Compute computes the same quantity from addresses or
executed operations, `as_dict` uses its name; ptxas may still delete, hoist or merge accesses, so
the two can differ on one kernel. PTX instruction counts keep names of their own: they are no SASS
counts.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

PIPES = ("int", "fp32", "fp64", "fp16", "sfu", "tensor", "memory", "control")


@dataclass(frozen=True, slots=True)
class Site:
    """The accesses of one PTX instruction, added over the launch."""

    ptx_line: int
    source: str  # "transpose.cu:12"
    operation: str  # "ld.global", "st.shared", "atom.global", …
    requests: int = 0  # warp-level, with at least one active lane
    threads: int = 0
    transactions: int = 0  # 32-byte sectors; wavefronts for shared memory
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
    warp_instructions: int = 0
    pipe_instructions: Mapping[str, int] = field(default_factory=dict)  # warp-level, by PIPES
    operations: Mapping[str, int] = field(default_factory=dict)  # thread-level: "ffma", "dadd", …
    tensor_flops: Mapping[str, int] = field(default_factory=dict)  # by input type: "bf16", …

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
