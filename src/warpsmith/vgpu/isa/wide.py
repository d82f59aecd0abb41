"""128-bit registers, and clusterlaunchcontrol, which answers in one (sm_100)."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ptx import ir
from .memory import bits, items_of
from .registry import ALU, Operands, collective, runtime, unsupported

if TYPE_CHECKING:
    from ..emit import Emitter

_WORDS = {"is_canceled": (0, 1), "get_first_ctaid": (1, 3), "get_first_ctaid::x": (1, 1),
          "get_first_ctaid::y": (2, 1), "get_first_ctaid::z": (3, 1)}  # fmt: skip
"""What a query asks -> first word of the answer, number of words."""


@runtime("mov")
def mov(e: Emitter, ins: ir.Instruction) -> None:
    """`mov.b128` copies, packs and unpacks; every other `mov` is a rule of its own."""
    from ..handlers import emit_alu

    if ins.types[-1] != "b128":
        emit_alu(e, ins, ALU["mov"])
        return
    target, source = ins.operands
    packs = not isinstance(target, ir.Vector)
    whole, parts = (target, items_of(source)) if packs else (source, items_of(target))
    if len(parts) not in (1, 2, 4) or not isinstance(whole, ir.Register):
        raise unsupported(ins, "128 bits are one register, two of 64 or four of 32 bits")
    kinds: list[int] = []
    a = [e.data(ins, whole, 128, kinds)]
    a += [e.data(ins, part, 128 // len(parts), kinds) for part in parts]
    e.op(ins, "vg_op_pack128" if packs else "vg_op_unpack128", a, kinds=bits(kinds),
         aux=16 // len(parts), imm=len(parts))  # fmt: skip


@collective("clusterlaunchcontrol")
def try_cancel(ins: ir.Instruction, operands: Operands) -> str:
    """Take a cluster of the grid that has not been launched yet, for this one to do its work."""
    shared, all_ = int(ins.has("shared::cta")), int(ins.has("multicast::cluster::all"))
    addresses = (f"({operands.address(i)})[l] + base" for i in (0, 1))
    return (
        "for (uint32_t rest = mask; rest; rest &= rest - 1) {\n"
        f"    const int l = __builtin_ctz(rest);\n"
        f"    const uint64_t base = {shared} ? (uint64_t)(uintptr_t)w->block->shared : 0;\n"
        f"    const uint64_t at = {next(addresses)};\n    const uint64_t barrier = {next(addresses)};\n"
        f"    if (vg_try_cancel(w, site, (uint32_t)l, at, barrier, {all_})) return NULL;\n  }}"
    )


@runtime("clusterlaunchcontrol")
def clusterlaunchcontrol(e: Emitter, ins: ir.Instruction) -> None:
    from ..handlers import emit_collective
    from .registry import COLLECTIVES

    if ins.has("try_cancel"):
        emit_collective(e, ins, COLLECTIVES["clusterlaunchcontrol"])
        return
    asked = next((m for m in ins.modifiers if m in _WORDS), None)
    if asked is None:
        raise unsupported(ins, "this clusterlaunchcontrol operation")
    target, source = ins.operands
    word, count = _WORDS[asked]
    kinds: list[int] = []
    a = [e.data(ins, source, 128, kinds)]
    a += [e.data(ins, item, 32, kinds) for item in items_of(target)[:count]]
    e.op(ins, "vg_op_query_cancel", a, kinds=bits(kinds), aux=count, imm=word)
