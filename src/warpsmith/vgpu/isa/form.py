"""Name the parts of an ALU instruction, and hold the table from opcode to rule.

A rule turns one instruction into C: `rule(form, args)` takes the source operands as C expressions
of their raw unsigned bits and gives the destination's raw bits, or one expression for each
destination (`p|q`). Arguments are free of side effects, so a rule may repeat them.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from warpsmith.errors import UnsupportedInstruction

_TYPE = re.compile(r"(pred|[bsu](8|16|32|64|128)|[su](16|32)x2|[su]4|f(16|32)x2|f(16|32|64)|bf16(x2)?"
                   r"|tf32|e4m3(x2|x4)?|e5m2(x2|x4)?|e2m1(x2|x4)?|e2m3(x2|x4)?|e3m2(x2|x4)?|ue8m0x2|b4|b1)$")  # fmt: skip

Result = str | tuple[str, ...]
Rule = Callable[["Form", list[str]], Result]


@dataclass(frozen=True, slots=True)
class Form:
    """One instruction's opcode and modifiers, with where it stands for a refusal's message."""

    base: str
    mods: tuple[str, ...]
    types: tuple[str, ...]
    text: str
    line: int = 0
    source: str = ""
    destinations: int = 1

    @classmethod
    def parse(cls, opcode: str, line: int = 0, source: str = "", destinations: int = 1) -> Form:
        """Split a full opcode.

        >>> Form.parse("cvt.rn.f16x2.f32").types
        ('f16x2', 'f32')
        """
        base, *rest = opcode.split(".")
        types = tuple(m for m in rest if _TYPE.match(m))
        mods = tuple(m for m in rest if not _TYPE.match(m))
        return cls(base, mods, types, opcode, line, source, destinations)

    @property
    def type(self) -> str:
        """The last type, which is the one operation types are named by."""
        return self.types[-1] if self.types else self.refuse("it has no type")

    @property
    def width(self) -> int:
        """Bits of the operation's type."""
        return width(self.type)

    @property
    def signed(self) -> bool:
        """Whether the operation's type is a signed integer."""
        return self.type.startswith("s")

    def has(self, *mods: str) -> bool:
        """Whether any of the modifiers is there."""
        return any(m in self.mods for m in mods)

    def one_of(self, choices: Iterable[str], default: str = "") -> str:
        """The first modifier among the choices, else the default."""
        return next((m for m in self.mods if m in choices), default)

    def refuse(self, why: str):
        """Raise UnsupportedInstruction for this instruction."""
        raise UnsupportedInstruction(self.text, self.line, self.source, why)


def width(name: str) -> int:
    """Bits of a register that holds a value of a PTX type.

    >>> width("f16x2"), width("u64"), width("bf16")
    (32, 64, 16)
    """
    special = {"pred": 1, "bf16": 16, "bf16x2": 32, "tf32": 32, "f16x2": 32, "f32x2": 64}
    special |= {"u16x2": 32, "s16x2": 32, "ue8m0x2": 16, "e2m1x2": 8, "e2m1x4": 16}
    small = re.match(r"e[2345]m[123](x[24])?$", name)
    if name in special:
        return special[name]
    if small:
        return {None: 8, "x2": 16, "x4": 32}[small[1]]
    return int(re.sub(r"\D", "", name))


RULES: dict[str, tuple[Rule, frozenset[str], frozenset[str]]] = {}


def alu(*bases: str, types: str, mods: str = "") -> Callable[[Rule], Rule]:
    """Register a rule for some opcodes with the types and modifiers that it understands."""

    def register(rule: Rule) -> Rule:
        for base in bases:
            RULES[base] = (rule, frozenset(types.split()), frozenset(mods.split()))
        return rule

    return register


def apply(form: Form, args: list[str]) -> Result:
    """The C expression(s) of one ALU instruction.

    Raises UnsupportedInstruction for an opcode, type or modifier that no rule takes.
    """
    if form.base not in RULES:
        form.refuse("no such ALU operation")
    rule, types, mods = RULES[form.base]
    strange = [t for t in form.types if t not in types] + [m for m in form.mods if m not in mods]
    if strange:
        form.refuse(f"'.{strange[0]}' is not one of its known forms")
    return rule(form, args)


# --- pieces that the families share ---

INTEGERS = "u16 s16 u32 s32 u64 s64"


def unsigned(bits: int, x: str) -> str:
    """Cast to the unsigned C type of a width (at least 8)."""
    return f"(u{bits})({x})"


def signed(bits: int, x: str) -> str:
    """Reinterpret raw bits as the signed C type of a width."""
    return f"(s{bits})({x})"


def typed(name: str, x: str) -> str:
    """Reinterpret raw bits as the C integer of a PTX integer type."""
    return signed(width(name), x) if name.startswith("s") else unsigned(width(name), x)


def halves(x: str) -> tuple[str, str]:
    """The low and high 16 bits of a 32-bit value."""
    return f"((u32)({x}) & 0xffffu)", f"((u32)({x}) >> 16)"


def words(x: str) -> tuple[str, str]:
    """The low and high 32 bits of a 64-bit value."""
    return f"(u32)({x})", f"(u32)((u64)({x}) >> 32)"
