"""Name the parts of an ALU instruction, and hold the table from opcode to rule.

The families (integer, bits, floating, half, convert, compare, video) register their rules here by
opcode and last type; each opcode's rule in the registry looks its family up. Arguments are free of
side effects, so a rule may repeat them; an immediate is 64 bits wide, so a rule casts.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from warpsmith.errors import NameClash

from ..ptx.ir import Instruction
from . import registry

_TYPE = re.compile(r"(pred|[bsu](8|16|32|64|128)|[su](16|32)x2|[su][24]|f(16|32)x2|f(16|32|64)|bf16(x2)?"
                   r"|tf32|e4m3(x2|x4)?|e5m2(x2|x4)?|e2m1(x2|x4)?|e2m3(x2|x4)?|e3m2(x2|x4)?|ue8m0x2|b4|b1)$")  # fmt: skip

Result = str | tuple[str, ...]
Rule = Callable[["Form", list[str]], Result]
R = TypeVar("R", bound=Rule)


@dataclass(frozen=True, slots=True)
class Form:
    """One instruction's opcode, with its modifiers sorted into types and the rest."""

    base: str
    mods: tuple[str, ...]
    types: tuple[str, ...]
    ins: Instruction

    @classmethod
    def of(cls, ins: Instruction) -> Form:
        types = tuple(m for m in ins.modifiers if _TYPE.match(m))
        return cls(ins.opcode, tuple(m for m in ins.modifiers if m not in types), types, ins)

    def but(self, **changes) -> Form:
        """The same instruction with another base, mods or types, to hand to another rule."""
        return replace(self, **changes)

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

    def expect(self, args: list[str], least: int, most: int | None = None) -> None:
        """Refuse the instruction when it has not so many source operands."""
        if not least <= len(args) <= (most or least):
            self.refuse(f"it has {len(args)} source operands, not {least}")

    def refuse(self, why: str) -> Any:
        """Raise UnsupportedInstruction for this instruction."""
        raise registry.unsupported(self.ins, why)


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


@dataclass(frozen=True, slots=True)
class Entry:
    """A rule with the modifiers and the further types that it understands."""

    rule: Rule
    mods: frozenset[str]
    also: frozenset[str]


RULES: dict[tuple[str, str], Entry] = {}

# opcode -> fewest and most source operands; three where it is not named
_ONE = ["abs", "neg", "not", "cnot", "clz", "popc", "brev", "bfind", "testp", "rcp", "sqrt", "rsqrt",
        "sin", "cos", "ex2", "lg2", "tanh"]  # fmt: skip
_TWO = ["add", "sub", "mul", "mul24", "div", "rem", "and", "or", "xor", "shl", "shr", "copysign",
        "bmsk", "szext"]  # fmt: skip
_SOURCES = {
    **dict.fromkeys(_ONE, (1, 1)),
    **dict.fromkeys(_TWO, (2, 2)),
    **dict.fromkeys(["setp", "set", "min", "max"], (2, 3)),
    "cvt": (1, 3),
    "bfi": (4, 4),
    "madc": (4, 4),
    "lop3": (4, 5),
}


def alu(
    bases: str, types: str, mods: str = "", also: str = "", constant: tuple[int, ...] = ()
) -> Callable[[R], R]:
    """Register a rule for opcodes whose last type is one of `types`.

    `mods` are the modifiers and `also` the other types that it takes; everything else is refused.
    """

    def register(rule: R) -> R:
        entry = Entry(rule, frozenset(mods.split()), frozenset(also.split()))
        for base in bases.split():
            if base not in registry.ALU:
                registry.alu(base, constant=constant)(emit)
            for name in types.split():
                if (base, name) in RULES:
                    raise NameClash(
                        f"two rules for {base}.{name}: {RULES[base, name].rule}, {rule}"
                    )
                RULES[base, name] = entry
        return rule

    return register


def emit(ins: Instruction, args: list[str]) -> Result:
    """The C expression(s) of one ALU instruction, by the rule for its opcode and last type.

    Raises UnsupportedInstruction for an opcode, type or modifier that no rule takes.
    """
    form = Form.of(ins)
    entry = RULES.get((form.base, form.type))
    if entry is None:
        return form.refuse(f"no '{form.base}' on '.{form.type}'")
    strange = [t for t in form.types[:-1] if t not in entry.also]
    strange += [m for m in form.mods if m not in entry.mods]
    if strange:
        form.refuse(f"'.{strange[0]}' is not one of its known forms")
    form.expect(args, *_SOURCES.get(form.base, (3, 3)))
    return entry.rule(form, args)


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
