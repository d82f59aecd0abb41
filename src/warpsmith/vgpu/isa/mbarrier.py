"""mbarrier objects, and addresses within a cluster."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ptx import ir
from .memory import bits
from .registry import runtime, unsupported

if TYPE_CHECKING:
    from ..emit import Emitter

_CHANGES = ("init", "inval", "arrive", "arrive_drop", "arrive_expect", "drop_expect", "expect_tx", "complete_tx",
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
    if ins.has("expect_tx") and change in ("arrive", "arrive_drop"):
        change = "arrive_expect" if change == "arrive" else "drop_expect"
    if change is None or ins.modifiers[0] in ("try_cancel",):
        raise unsupported(ins, "this mbarrier operation")
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


@runtime("getctarank")
def getctarank(e: Emitter, ins: ir.Instruction) -> None:
    target, source = ins.operands
    width = 32 if "u32" in ins.types else 64
    if isinstance(source, ir.Symbol) and source.name in e.shared.offsets:
        source = ir.Immediate(e.shared.offsets[source.name] + source.offset)
    kinds: list[int] = []
    a = [e.data(ins, target, 32, kinds), e.data(ins, source, width, kinds)]
    e.op(ins, "vg_op_getctarank", a, kinds=bits(kinds), aux=width // 8, imm=int(_how(ins) == 2))
