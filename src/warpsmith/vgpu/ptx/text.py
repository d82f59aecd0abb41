"""Write instructions and operands back as PTX, for messages."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from . import ir


def show(ins: ir.Instruction) -> str:
    """The instruction on one line, without the semicolon."""
    guard = f"@{'!' if ins.guard.negated else ''}{ins.guard.register.name} " if ins.guard else ""
    operands = ", ".join(operand(o) for o in ins.operands)
    return f"{guard}{ins.name} {operands}".strip()


def operand(item: ir.Operand) -> str:
    """One operand, as PTX spells it (shadowed registers show their renamed name)."""
    match item:
        case ir.Register(name=name) | ir.Special(name=name):
            return name
        case ir.Immediate(value=value, kind="int"):
            return str(value - (1 << 64) if value >> 63 else value)
        case ir.Immediate(value=value, kind="f32"):
            return f"0f{value:08X}"
        case ir.Immediate(value=value):
            return f"0d{value:016X}"
        case ir.Symbol(name=name, offset=offset):
            return name + _plus(offset)
        case ir.Address(base=base, offset=offset):
            return f"[{operand(base)}{_plus(offset)}]"
        case ir.Vector(items=items):
            return "{" + ", ".join(map(operand, items)) + "}"
        case ir.Tuple(items=items):
            return "(" + ", ".join(map(operand, items)) + ")"
        case ir.Pair(first=first, second=second):
            return f"{operand(first)}|{operand(second)}"
        case ir.Part(register=register, selector=selector, negative=negative):
            return "-" * negative + register.name + (f".{selector}" if selector else "")
        case ir.Negated(operand=inner):
            return "!" + operand(inner)
        case _:
            return "_"


def _plus(offset: int) -> str:
    return f"{offset:+d}" if offset else ""
