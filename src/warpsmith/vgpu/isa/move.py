"""`mov`: copy a register, or pack and unpack vectors of smaller ones."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from ..ptx.ir import TYPE_BITS, Instruction, Vector
from .registry import alu, unsupported


@alu("mov")
def mov(ins: Instruction, args: list[str]) -> str | tuple[str, ...]:
    """`mov d, a` · `mov d, {a, b}`: the first item is the lowest · `mov {a, b}, d`."""
    bits = TYPE_BITS[ins.types[-1]]
    target, source = ins.operands
    if isinstance(target, Vector):
        return _unpack(ins, len(target.items), bits, args)
    if not isinstance(source, Vector):
        return f"(uint{max(bits, 32) if bits == 1 else bits}_t)({args[0]})"
    part = bits // len(args)
    if bits > 64:
        raise unsupported(ins, "packing 128 bits")
    shifted = (f"(uint{bits}_t)(uint{part}_t)({arg}) << {i * part}" for i, arg in enumerate(args))
    return f"(uint{bits}_t)({' | '.join(shifted)})"


def _unpack(ins: Instruction, count: int, bits: int, args: list[str]) -> tuple[str, ...]:
    """Parts of a value, or element by element when the source is a vector too."""
    if len(args) == count:
        return tuple(args)
    part = bits // count
    if bits > 64:
        raise unsupported(ins, "unpacking 128 bits")
    return tuple(f"(uint{part}_t)(({args[0]}) >> {i * part})" for i in range(count))
