"""What PTX says, as plain data: modules, functions, instructions and operands."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_BITS = {
    "pred": 1, "b1": 1, "b8": 8, "u8": 8, "s8": 8, "e4m3": 8, "e5m2": 8, "ue8m0": 8,
    "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "e4m3x2": 16, "e5m2x2": 16,
    "b32": 32, "u32": 32, "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "tf32": 32,
    "u16x2": 32, "s16x2": 32, "u8x4": 32, "s8x4": 32, "ue8m0x2": 16,
    "b64": 64, "u64": 64, "s64": 64, "f64": 64, "f32x2": 64,
    "b128": 128, "texref": 64, "surfref": 64, "samplerref": 64,
}  # fmt: skip
"""Type modifier -> width in bits; a modifier of an instruction is a type when it is a key here."""


@dataclass(frozen=True, slots=True)
class Source:
    """A place in the user's own source, from a `.loc` directive."""

    file: str
    line: int
    column: int = 0
    inlined: tuple[str, ...] = field(default=(), compare=False)
    """The chain of places "file:line" that the compiler inlined, from the instruction's own outward."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register; `name` is unique within its function (shadowed names are renamed)."""

    name: str
    type: str  # as declared: "pred", "b16", "f32", …

    @property
    def bits(self) -> int:
        return TYPE_BITS[self.type]

    @property
    def lane_bits(self) -> int:
        """Width of one lane in storage: predicates 32, .b8 16, the rest their own."""
        return {1: 32, 8: 16}.get(self.bits, self.bits)


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal. `value` are raw unsigned bits: 64-bit two's complement for integers, IEEE bits of
    the literal's own width for floats ("f32" for 0f…, "f64" for 0d… and decimal literals)."""

    value: int
    kind: str = "int"  # "int", "f32", "f64"


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a variable, function or parameter, used as a value."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as `%tid.x` or `%laneid`."""

    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`; base is a Register, a Symbol, or an Immediate."""

    base: Register | Symbol | Immediate
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, c, d}`; items may be Sink, Register, Immediate or nested vectors."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`d|p`: two destinations."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p` as a source operand."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Part:
    """`%r1.h0` or `-%r1` of a video instruction: a byte or half of a register, or its negative."""

    register: Register
    selector: str = ""  # "b0" … "b3", "h0", "h1"
    negative: bool = False


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a result nobody wants."""


@dataclass(frozen=True, slots=True)
class Tuple:
    """`(a, b)`: arguments of a call."""

    items: tuple[Operand, ...]


Operand = (
    Register
    | Immediate
    | Symbol
    | Special
    | Address
    | Vector
    | Pair
    | Negated
    | Part
    | Sink
    | Tuple
)


@dataclass(frozen=True, slots=True)
class Guard:
    """`@p` or `@!p`."""

    register: Register
    negated: bool = False


@dataclass(slots=True)
class Instruction:
    """One PTX instruction: `@guard opcode.modifiers operands;`."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None = None
    line: int = 0  # in the PTX text, from 1
    source: Source | None = None
    index: int = -1  # the instruction's number in its translated program: its counter row
    _types: tuple[str, ...] | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The full spelling without operands: `mad.wide.s32`."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def types(self) -> tuple[str, ...]:
        """The type modifiers in order: ("f32", "u8") for `cvt.rn.f32.u8`."""
        if self._types is None:
            self._types = tuple(m for m in self.modifiers if m in TYPE_BITS)
        return self._types

    def has(self, *modifiers: str) -> bool:
        """Whether any of the modifiers is there."""
        return any(m in self.modifiers for m in modifiers)

    def __str__(self) -> str:
        from .text import show

        return show(self)


@dataclass(slots=True)
class Label:
    """A branch target in a function's body, between instructions."""

    name: str


@dataclass(slots=True)
class Variable:
    """A declared variable: module or function scope, parameters too."""

    name: str
    space: str  # "global", "const", "shared", "local", "param"
    type: str
    count: int = 1  # elements; 0 for an unsized (dynamic shared) array
    align: int = 0  # bytes; 0 means the type's own
    initializer: list[int | float | Symbol | str] = field(default_factory=list)
    external: bool = False
    pointer: bool = False  # `.ptr` parameters

    @property
    def bytes(self) -> int:
        return TYPE_BITS[self.type] // 8 * self.count

    @property
    def alignment(self) -> int:
        return self.align or max(1, TYPE_BITS[self.type] // 8)


@dataclass(slots=True)
class Function:
    """A kernel (`entry`) or a device function."""

    name: str
    entry: bool
    parameters: list[Variable]
    results: list[Variable]
    body: list[Instruction | Label]
    variables: dict[str, Variable]  # shared, local and param variables declared inside
    branch_targets: dict[str, list[str]] = field(default_factory=dict)  # .branchtargets
    prototypes: dict[str, tuple[list[Variable], list[Variable]]] = field(default_factory=dict)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)  # maxntid, reqntid, …
    defined: bool = True
    line: int = 0
    register_count: int = 0


@dataclass(slots=True)
class Module:
    """A PTX file."""

    version: str
    target: str
    address_size: int
    functions: dict[str, Function]
    variables: dict[str, Variable]
    files: dict[int, str]
    aliases: dict[str, str] = field(default_factory=dict)
    local: set[str] = field(default_factory=set)  # names without linkage
    weak: set[str] = field(default_factory=set)  # .weak and .common

    def defines(self, name: str) -> bool:
        """Whether the module has a body or memory of this name."""
        function, variable = self.functions.get(name), self.variables.get(name)
        return bool(function and function.defined) or bool(variable and not variable.external)


@dataclass(slots=True)
class Block:
    """A basic block: straight-line instructions, one entry, one exit."""

    index: int
    instructions: list[Instruction]
    label: str | None = None
    successors: list[int] = field(default_factory=list)
