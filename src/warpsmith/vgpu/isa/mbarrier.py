"""mbarrier objects, bulk copies that complete on them, and addresses within a cluster."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from ..program import SINK
from ..ptx import ir
from .memory import _number, bits
from .registry import runtime, unsupported

if TYPE_CHECKING:
    from ..emit import Emitter

_CHANGES = ("init", "inval", "arrive", "arrive_drop", "arrive_expect", "expect_tx", "complete_tx",
            "async_arrive")  # fmt: skip
"""What an op can do with a barrier, in the order of rt/mbarrier.c."""


def _how(ins: ir.Instruction) -> int:
    """How rt/mbarrier.c reads the address: 0 generic, 2 an offset in shared memory of the cluster."""
    return 2 if any(m.startswith("shared") for m in ins.modifiers) else 0


@runtime("mbarrier")
def mbarrier(e: Emitter, ins: ir.Instruction) -> None:
    if ins.has("test_wait", "try_wait"):
        return _test(e, ins)
    if ins.has("pending_count"):
        kinds: list[int] = []
        a = [e.data(ins, item, 64, kinds) for item in ins.operands]
        e.op(ins, "vg_op_mbarrier_pending", a, kinds=bits(kinds))
        return None
    change = next((c for c in _CHANGES if ins.has(c)), None)
    if change is None or ins.modifiers[0] in ("try_cancel",):
        raise unsupported(ins, "this mbarrier operation")
    if ins.has("arrive") and ins.has("expect_tx"):
        change = "arrive_expect"
    operands = list(ins.operands)
    result: ir.Operand = ir.Sink()
    if not isinstance(operands[0], ir.Address):
        result = operands.pop(0)
    value = operands[1] if len(operands) > 1 else ir.Immediate(1)
    return change_barrier(e, ins, change, operands[0], result, value)


def change_barrier(e: Emitter, ins: ir.Instruction, change: str, address: ir.Operand,
                   result: ir.Operand, value: ir.Operand) -> None:  # fmt: skip
    """Append the op that changes the barrier at `address`."""
    lanes, flags, offset = e.address(ins, address)
    kinds = [0, 0]
    a = [lanes, offset & 0xFFFF_FFFF, e.data(ins, result, 64, kinds), e.data(ins, value, 32, kinds)]
    e.op(ins, "vg_op_mbarrier", a, kinds=bits(kinds), flags=flags, aux=_how(ins),
         imm=_CHANGES.index(change))  # fmt: skip


def _test(e: Emitter, ins: ir.Instruction) -> None:
    target, address, wanted = ins.operands[:3]
    parity = ins.has("parity")
    lanes, flags, offset = e.address(ins, address)
    kinds = [0, 0]
    a = [lanes, offset & 0xFFFF_FFFF, e.data(ins, target, 32, kinds),
         e.data(ins, wanted, 32 if parity else 64, kinds), int(id(ins) in e.alone)]  # fmt: skip
    e.op(ins, "vg_op_mbarrier_test", a, kinds=bits(kinds), flags=flags, aux=_how(ins),
         imm=int(parity))  # fmt: skip


def bulk_copy(e: Emitter, ins: ir.Instruction) -> None:
    """cp.async.bulk.dst.src: whole spans between global and shared memory."""
    if ins.has("tensor", "multicast::cluster", "cp_mask") or "reduce" in ins.modifiers:
        raise unsupported(ins, "this bulk copy")
    if ins.has("commit_group"):
        e.op(ins, "vg_op_bulk_commit")
        return
    if ins.has("wait_group"):
        e.op(ins, "vg_op_bulk_wait", imm=_number(ins, ins.operands[0]))
        return
    if ins.has("prefetch"):
        e.op(ins, "vg_op_nop")
        return
    spaces = [m for m in ins.modifiers if m.split(":")[0] in ("shared", "global")]
    operands = list(ins.operands)
    if ins.has("L2::cache_hint"):
        operands.pop()
    kinds: list[int] = []
    target, source, barrier = (_bulk_address(e, ins, o) for o in
                               (operands[0], operands[1], operands[3] if len(operands) > 3 else None))  # fmt: skip
    how = sum(
        (2 if s.startswith("shared") else 0) << 2 * i | wide << 8 + i
        for i, (s, wide) in enumerate(
            ((spaces[0], target[3]), (spaces[1], source[3]), ("shared", barrier[3]))
        )
    )
    size = e.data(ins, operands[2], 32, kinds)
    a = [target[0], target[1], source[0], size, barrier[0], source[1], barrier[1]]
    packed = target[2] | source[2] << 2 | kinds[0] << 3 | barrier[2] << 4
    e.op(ins, "vg_op_bulk_copy", a, kinds=packed, imm=how)


def _bulk_address(e: Emitter, ins: ir.Instruction, item: ir.Operand | None) -> tuple:
    """(lanes, offset, fixed, whether lanes have 64 bits) of an address operand."""
    from ..program import ADDRESS_32, ADDRESS_FIXED

    if item is None:
        return SINK, 0, 0, 0
    lanes, flags, offset = e.address(ins, item)
    return (
        lanes,
        offset & 0xFFFF_FFFF,
        int(bool(flags & ADDRESS_FIXED)),
        int(not flags & ADDRESS_32),
    )


@runtime("mapa")
def mapa(e: Emitter, ins: ir.Instruction) -> None:
    target, source, rank = ins.operands
    if not isinstance(target, ir.Register):
        raise unsupported(ins, "the result must be a register")
    kinds: list[int] = []
    width = target.lane_bits
    if isinstance(source, ir.Symbol) and source.name in e.shared.offsets:
        source = ir.Immediate(e.shared.offsets[source.name] + source.offset)
    a = [e.data(ins, target, width, kinds), e.data(ins, source, width, kinds),
         e.data(ins, rank, 32, kinds)]  # fmt: skip
    e.op(ins, "vg_op_mapa", a, kinds=bits(kinds), aux=width // 8, imm=int(_how(ins) == 2))
