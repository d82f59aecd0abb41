"""Control flow, barriers and hints: what moves or stops lanes without computing."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from ..program import ALIGNED, SPIN
from ..ptx import ir
from .registry import runtime, unsupported

if TYPE_CHECKING:
    from ..emit import Emitter

_HINTS = (
    "griddepcontrol", "setmaxnreg", "prefetch", "prefetchu", "discard",
    "applypriority", "pmevent",
)  # fmt: skip
"""Instructions without effect here: memory is sequentially consistent, caches do not exist."""


@runtime(*_HINTS)
def hint(e: Emitter, ins: ir.Instruction) -> None:
    e.op(ins, "vg_op_nop")


@runtime("membar", "fence")
def fence(e: Emitter, ins: ir.Instruction) -> None:
    """Memory is sequentially consistent here: fences matter to the sanitizer alone."""
    proxy = ins.has("proxy", "proxy::async")
    plain = not proxy and not ins.has("mbarrier_init")
    e.op(ins, "vg_op_fence" if plain or ins.has("async") else "vg_op_nop", imm=int(proxy))


@runtime("bra")
def bra(e: Emitter, ins: ir.Instruction) -> None:
    target = ins.operands[0]
    if not isinstance(target, ir.Symbol):
        raise unsupported(ins, "a branch to a register")
    handler = "vg_op_bra_if" if ins.guard else "vg_op_bra"
    e.op(ins, handler, aux=target.name, flags=SPIN if e.spin else 0)


@runtime("brx")
def brx(e: Emitter, ins: ir.Instruction) -> None:
    index, table = ins.operands
    if not isinstance(index, ir.Register) or not isinstance(table, ir.Symbol):
        raise unsupported(ins, "brx.idx takes a register and a table")
    if ins.guard:
        raise unsupported(ins, "a guarded brx.idx")
    targets = e.function.branch_targets.get(table.name)
    if targets is None:
        raise unsupported(ins, f"no .branchtargets {table.name!r}")
    e.op(ins, "vg_op_brx", [e.in_register(ins, index)], more=[len(targets), *targets])


@runtime("exit")
def exit_(e: Emitter, ins: ir.Instruction) -> None:
    e.op(ins, "vg_op_exit")


@runtime("ret")
def ret(e: Emitter, ins: ir.Instruction) -> None:
    e.op(ins, "vg_op_exit" if e.function.entry else "vg_op_ret")


@runtime("trap", "brkpt")
def trap(e: Emitter, ins: ir.Instruction) -> None:
    e.op(ins, "vg_op_trap")


@runtime("nanosleep")
def nanosleep(e: Emitter, ins: ir.Instruction) -> None:
    kinds: list[int] = []
    e.op(ins, "vg_op_sleep", [e.data(ins, ins.operands[0], 32, kinds)], kinds=_bits(kinds))


@runtime("bar", "barrier")
def barrier(e: Emitter, ins: ir.Instruction) -> None:
    if ins.has("cluster"):
        return cluster_barrier(e, ins)
    if ins.has("warp"):
        kinds: list[int] = []
        member = e.data(ins, ins.operands[0], 32, kinds)
        e.op(ins, "vg_op_warp_sync", [member], kinds=_bits(kinds))
        return None
    if ins.has("red"):
        return _reduction(e, ins)
    kinds = []
    a = [e.data(ins, item, 32, kinds) for item in ins.operands]
    if len(a) < 2:
        a.append(e.constants.lanes(32, 0))
        kinds.append(1)
    aligned = ins.opcode == "bar" or ins.has("aligned")
    handler = "vg_op_bar_arrive" if ins.has("arrive") else "vg_op_bar_sync"
    e.op(ins, handler, a, kinds=_bits(kinds), flags=ALIGNED if aligned else 0)
    return None


def _reduction(e: Emitter, ins: ir.Instruction) -> None:
    """bar.red.{and,or,popc} d, id{, n}, {!}p: arrive with the predicate, then read the result."""
    if ins.guard:
        raise unsupported(ins, "a guarded barrier reduction")
    result, *middle, predicate = ins.operands
    negated = isinstance(predicate, ir.Negated)
    predicate = predicate.operand if isinstance(predicate, ir.Negated) else predicate
    kinds: list[int] = []
    a = [e.data(ins, item, 32, kinds) for item in middle]
    if len(a) < 2:
        a.append(e.constants.lanes(32, 0))
        kinds.append(1)
    a.append(e.data(ins, predicate, 32, kinds))
    operation = next(i for i, m in enumerate(("and", "or", "popc")) if ins.has(m))
    flags = ALIGNED if ins.opcode == "bar" or ins.has("aligned") else 0
    e.op(ins, "vg_op_bar_red", [*a, int(negated)], kinds=_bits(kinds), imm=operation, flags=flags)
    if not isinstance(result, ir.Register):
        raise unsupported(ins, "the result must be a register")
    target = e.frame.register(result)
    e.op(ins, "vg_op_bar_result", [a[0], 0, target], kinds=kinds[0], imm=operation)


def cluster_barrier(e: Emitter, ins: ir.Instruction) -> None:
    """barrier.cluster.arrive / wait."""
    handler = "vg_op_cluster_arrive" if ins.has("arrive") else "vg_op_cluster_wait"
    e.op(ins, handler)


def _bits(kinds: list[int]) -> int:
    return sum(k << i for i, k in enumerate(kinds))


@runtime("alloca")
def alloca(e: Emitter, ins: ir.Instruction) -> None:
    """alloca.type ptr, size{, alignment}: memory of the function's own stack until it returns."""
    target, size, *rest = ins.operands
    kinds: list[int] = [0]
    align = rest[0].value if rest and isinstance(rest[0], ir.Immediate) else 16
    _stack(e, ins, "vg_op_alloca", target, size, kinds, align)


@runtime("stacksave", "stackrestore")
def stack(e: Emitter, ins: ir.Instruction) -> None:
    register = ins.operands[0]
    _stack(e, ins, f"vg_op_{ins.opcode}", register, register, [0], 0)


def _stack(e: Emitter, ins: ir.Instruction, handler: str, target: ir.Operand, source: ir.Operand,
           kinds: list[int], align: int) -> None:  # fmt: skip
    if not isinstance(target, ir.Register):
        raise unsupported(ins, "a register was expected")
    width = target.lane_bits
    a = [e.frame.register(target), e.data(ins, source, width, kinds), align, width // 8]
    e.op(ins, handler, a, kinds=_bits(kinds))
