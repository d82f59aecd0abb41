"""A translated kernel as plain data: ops, handlers to compile, constants, and what to relocate."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass, field

from .ptx.ir import Instruction

SINK = 0xFFFF_FFFF
GUARDED, NEGATED, ADDRESS_FIXED, ADDRESS_32, SPIN, ALIGNED, COUNTED = (1 << i for i in range(7))

SPECIALS = (
    "tid.x", "tid.y", "tid.z", "ntid.x", "ntid.y", "ntid.z",
    "ctaid.x", "ctaid.y", "ctaid.z", "nctaid.x", "nctaid.y", "nctaid.z",
    "laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid",
    "lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt",
    "clusterid.x", "clusterid.y", "clusterid.z",
    "nclusterid.x", "nclusterid.y", "nclusterid.z",
    "cluster_ctaid.x", "cluster_ctaid.y", "cluster_ctaid.z",
    "cluster_nctaid.x", "cluster_nctaid.y", "cluster_nctaid.z",
    "cluster_ctarank", "cluster_nctarank", "is_explicit_cluster",
    "total_smem_size", "dynamic_smem_size", "aggr_smem_size", "envreg1", "envreg2",
)  # fmt: skip
"""Special registers that are lane arrays, in the order of VgSpecial in rt/vgpu.h."""


@dataclass(slots=True)
class Access:
    """The fields of VgAccess."""

    space: int
    bytes: int
    count: int = 1
    reg_bytes: int = 4
    is_signed: int = 0
    atomic: int = 0
    type: int = 0
    offset: int = 0
    site: int = 0
    flags: int = 0  # VG_STRONG, VG_ACQUIRE, VG_RELEASE


@dataclass(slots=True)
class Op:
    """The fields of VgOp; `handler` is a symbol of the runtime or of `Program.handlers`."""

    handler: str
    a: list[int] = field(default_factory=list)
    guard: int = 0
    flags: int = 0
    kinds: int = 0
    site: int = 0
    aux: int | str = 0  # a string is a block label, resolved at the end
    imm: int = 0
    access: Access | None = None
    more: list[int | str] | None = None


@dataclass(slots=True)
class Relocation:
    """32 equal uint64 lanes at `fixed_offset` become the address of `symbol` + addend."""

    fixed_offset: int
    symbol: str
    addend: int


@dataclass(frozen=True, slots=True)
class ParameterLanes:
    """32 equal lanes of `reg_bytes` that hold a kernel parameter, extended from `bytes`."""

    param_offset: int
    bytes: int
    reg_bytes: int
    is_signed: bool


@dataclass(slots=True)
class Program:
    """What one kernel needs to run; everything here can be pickled."""

    kernel: str
    ops: list[Op]
    handlers: dict[str, str]  # symbol -> C text
    instructions: list[Instruction]
    instruction_blocks: list[int]  # basic block of each instruction
    block_count: int
    fixed_image: bytes
    relocations: list[Relocation]
    parameter_lanes: dict[ParameterLanes, int]  # -> fixed offset
    special_offsets: dict[str, int]
    frame_bytes: int
    stack_bytes: int
    frame_local_bytes: int
    local_bytes: int
    static_shared_bytes: int
    dynamic_shared_offset: int
    param_bytes: int
    functions: dict[str, int] = field(default_factory=dict)  # function -> its address as a number
    uses_grid_sync: bool = False
    shared_variables: dict[str, tuple[int, int]] = field(
        default_factory=dict
    )  # offset, bytes (0: dynamic)
