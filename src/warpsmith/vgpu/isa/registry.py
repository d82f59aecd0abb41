"""Where instruction rules are found: one table for ALU instructions, one for collectives.

**ALU rules** compute each lane by itself:

    @alu("selp")
    def selp(ins: Instruction, args: list[str]) -> str: ...

`args` are C expressions of the source operands (destinations are not among them), vectors
flattened, `!p` already applied. An argument's C type is the *storage* type of its operand: predicate
`uint32_t` 0 or 1, .b8/.b16 `uint16_t`, .b32 `uint32_t`, .b64 `uint64_t`; an immediate is a
`uint64_t` (integers in two's complement, 0f… and 0d… as their bits; a decimal float literal or
0d… where the instruction's type is f32 has been converted to f32 bits already). Cast to the operand
type first. Opcodes of the carry chain (addc, subc, madc) get the carry (`uint32_t` 0 or 1) as one
more argument at the end.

The result is a C expression, or a tuple of them for several results: `p|q`, vectors (`mov {a,b}, c`),
and with `.cc` the carry as one more result at the end. A result's C type must be exactly as wide as
the PTX destination type, unsigned, or signed where PTX sign-extends into a wider register; the
translator stores it with a plain C conversion to the register's type. Predicates are 0 or 1.

The expressions run in a `for (lane < 32)` loop that the C compiler should vectorise: no calls but the
`static inline` helpers of rt/lane.h, no branches that can be a select, and no trap whatever the bits
(inactive lanes are computed too): division by zero and INT_MIN / -1 included.

`constant=(i, …)` names the sources that, when immediate, are wanted as C literals because the text of
the expression depends on their value (the table of lop3): `args[i]` is then a decimal literal.
Everything else is a run-time value, so that one compiled handler serves all kernels.

**Collective rules** act on whole lane arrays:

    @collective("shfl", member=-1)
    def shfl(ins: Instruction, operands: Operands) -> str: ...

They return C statements, in which `w` is the `VgWarp *`, `mask` the active lanes (never 0), `site` the
instruction number, and operands are asked for by number (see Operands). The statements normally
call one function of rt/collective.c, declared in rt/collective.h. `return NULL;` after a fault.
`member` is the operand number of the member mask (negative counts from the end) or None for the
whole warp; for instructions with `.sync` the translator makes the group wait until all live member
lanes have arrived, before the statements run.

A rule raises `unsupported(ins, why)` for a form it does not have. One rule serves every type and
modifier of its opcode.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from warpsmith.errors import NameClash, UnsupportedInstruction

from ..ptx.ir import Instruction, Operand


class Operands(Protocol):
    """The operands of a collective instruction, as C expressions."""

    def __len__(self) -> int: ...

    def raw(self, index: int) -> Operand:
        """The operand as parsed (to test for Vector, Pair, Sink, Immediate, …)."""
        ...

    def lanes(self, index: int, bits: int) -> str:
        """`uint{bits}_t *` to 32 lanes. A Pair gives its first part; a Sink gives `NULL`; an
        immediate becomes 32 equal lanes. Predicates have 32 bits."""
        ...

    def second(self, index: int) -> str:
        """`uint32_t *` of the second part of a Pair (`d|p`); `NULL` when there is none."""
        ...

    def vector(self, index: int, bits: int) -> str:
        """A C array expression `(uint{bits}_t *const[]){…}` of a Vector's items (of the operand
        itself when it is no vector)."""
        ...

    def width(self, index: int) -> int:
        """The number of items of a Vector, 1 otherwise."""
        ...

    def address(self, index: int) -> str:
        """`const uint64_t *` to 32 lane addresses of an Address operand, offset added."""
        ...

    def constant(self, index: int) -> int:
        """The value of an immediate operand, for a rule whose text depends on it."""
        ...


AluResult = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AluRule:
    opcode: str
    emit: Callable[[Instruction, list[str]], AluResult]
    constant: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectiveRule:
    opcode: str
    emit: Callable[[Instruction, Operands], str]
    member: int | None = None


ALU: dict[str, AluRule] = {}
COLLECTIVES: dict[str, CollectiveRule] = {}


def alu(*opcodes: str, constant: tuple[int, ...] = ()) -> Callable:
    """Register an ALU rule for the opcodes."""

    def register(emit: Callable[[Instruction, list[str]], AluResult]) -> Callable:
        for opcode in opcodes:
            _new(ALU, opcode)
            ALU[opcode] = AluRule(opcode, emit, constant)
        return emit

    return register


def collective(*opcodes: str, member: int | None = None) -> Callable:
    """Register a collective rule for the opcodes."""

    def register(emit: Callable[[Instruction, Operands], str]) -> Callable:
        for opcode in opcodes:
            _new(COLLECTIVES, opcode)
            COLLECTIVES[opcode] = CollectiveRule(opcode, emit, member)
        return emit

    return register


def unsupported(ins: Instruction, why: str = "") -> UnsupportedInstruction:
    """The error to raise for an instruction that has no rule here."""
    return UnsupportedInstruction(str(ins), ins.line, str(ins.source or ""), why)


def _new(table: dict, opcode: str) -> None:
    if opcode in table:
        raise NameClash(f"two rules claim the opcode {opcode!r}: {table[opcode].emit} is there")


RUNTIME: dict[str, Callable] = {}
"""opcode -> `emit(emitter, ins)`: instructions that the precompiled runtime has handlers for."""


def runtime(*opcodes: str) -> Callable:
    """Register a rule that emits ops of the runtime (control, memory, calls)."""

    def register(emit: Callable) -> Callable:
        for opcode in opcodes:
            if opcode in RUNTIME:
                raise NameClash(f"two runtime rules claim the opcode {opcode!r}")
            RUNTIME[opcode] = emit
        return emit

    return register
