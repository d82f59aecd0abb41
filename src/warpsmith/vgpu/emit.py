"""The emitter: turns instructions of one kernel into ops, registers into frame offsets."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import hashlib

from warpsmith.errors import UnsupportedInstruction

from .fixed import LANES, Constants, FixedLanes, Known, definitions
from .isa import registry
from .program import (
    ADDRESS_32,
    ADDRESS_FIXED,
    COUNTED,
    GUARDED,
    NEGATED,
    SINK,
    SPECIALS,
    Access,
    Op,
)
from .ptx import ir

HEAD_BYTES = 64
FUNCTION_BASE = 0x7E00_0000_0000_0000  # addresses of functions: numbers no pointer has


class SharedLayout:
    """Offsets of shared variables in the block's window, in the order of first use."""

    def __init__(self) -> None:
        self.offsets: dict[str, int] = {}
        self.size = 0
        self.dynamic_align = 16
        self.dynamic: set[str] = set()

    def place(self, variables: list[ir.Variable]) -> None:
        """Lay out static variables, then let all unsized ones start where those end."""
        for variable in variables:
            if variable.count == 0:
                self.dynamic.add(variable.name)
                self.dynamic_align = max(self.dynamic_align, variable.alignment)
                continue
            self.size += -self.size % variable.alignment
            self.offsets[variable.name] = self.size
            self.size += variable.bytes
        for name in self.dynamic:
            self.offsets[name] = self.dynamic_offset

    @property
    def dynamic_offset(self) -> int:
        return self.size + -self.size % self.dynamic_align


class Frame:
    """Where a function's registers and parameters lie in its register frame."""

    def __init__(self, function: ir.Function):
        self.function = function
        self.size = HEAD_BYTES
        self.registers: dict[str, int] = {}
        self.parameters: dict[str, int] = {}
        self.locals: dict[str, int] = {}
        self.local_bytes = 0
        for variable in function.variables.values():
            if variable.space == "local":
                self.local_bytes += -self.local_bytes % variable.alignment
                self.locals[variable.name] = self.local_bytes
                self.local_bytes += variable.bytes
        own = {p.name for p in function.parameters} if function.entry else set()
        self.place_parameters(
            [v for v in function.variables.values() if v.space == "param" and v.name not in own]
        )

    def place_parameters(self, variables: list[ir.Variable]) -> None:
        for variable in variables:
            if variable.name not in self.parameters:
                self.parameters[variable.name] = self.take(variable.bytes)

    def take(self, lane_bytes: int) -> int:
        offset = self.size
        self.size += lane_bytes * LANES
        self.size += -self.size % 64
        return offset

    def register(self, register: ir.Register) -> int:
        offset = self.registers.get(register.name)
        if offset is None:
            offset = self.registers[register.name] = self.take(register.lane_bits // 8)
        return offset


class Emitter:
    """Ops of one function of a kernel, appended to the kernel's list."""

    def __init__(self, module: ir.Module, function: ir.Function, constants: Constants,
                 shared: SharedLayout, ops: list[Op], handlers: dict[str, str],
                 functions: dict[str, int]):  # fmt: skip
        self.module, self.function, self.constants = module, function, constants
        self.shared, self.ops, self.handlers, self.functions = shared, ops, handlers, functions
        self.frame = Frame(function)
        self.later = 0  # instructions of the basic block after the one being emitted
        self.spin = False  # the branch being emitted closes a loop that may wait
        self.alone: set[int] = set()  # ids of waits that are all there is of their loop
        self.definitions = definitions(function)
        self.known: dict[str, Known] = {}  # registers whose value never changes
        self.kernel_parameters: dict[str, int] = {}
        offset = 0
        for parameter in function.parameters if function.entry else ():
            offset += -offset % parameter.alignment
            self.kernel_parameters[parameter.name] = offset
            offset += parameter.bytes
        self.param_bytes = offset

    # ------------------------------------------------------------------------------- ops

    def op(self, ins: ir.Instruction, handler: str, a: list[int] | None = None, **fields) -> Op:
        """Append an op for an instruction, with its guard."""
        op = Op(handler, a or [], site=ins.index, **fields)
        if ins.guard:
            op.guard = self.frame.register(ins.guard.register)
            op.flags |= GUARDED | COUNTED | (NEGATED if ins.guard.negated else 0)
        if op.access:
            op.access.site = ins.index
        self.ops.append(op)
        return op

    def handler(self, text: str) -> str:
        """The symbol of a handler with this C body (`NAME` stands for the symbol)."""
        symbol = "h_" + hashlib.sha256(text.encode()).hexdigest()[:20]
        self.handlers[symbol] = text
        return symbol

    # -------------------------------------------------------------------------- operands

    def temporary(self, bits: int) -> int:
        """Offset of a fresh register."""
        return self.frame.take(bits // 8)

    def never_changes(self, ins: ir.Instruction, target: ir.Operand, value: Known) -> bool:
        """Note that `ins` gives its target a value that is the same all through the kernel, so that no
        op is needed for it. False when the target is written elsewhere too, under a guard, or when an
        instruction before this one in the text, and so already emitted, reads it from its register."""
        if not isinstance(target, ir.Register) or ins.guard or target.bits == 1:
            return False
        if self.definitions.get(target.name) != 1 or target.name in self.frame.registers:
            return False
        self.known[target.name] = value
        return True

    def known_value(self, item: ir.Operand) -> Known | None:
        """What an operand always is: an immediate, or the offset of constant lanes."""
        if isinstance(item, ir.Register):
            return self.known.get(item.name)
        if isinstance(item, ir.Immediate):
            return item
        if isinstance(item, ir.Special) and (name := item.name[1:]) in SPECIALS:
            return FixedLanes(self.constants.special(name), 32)
        return None

    def in_register(self, ins: ir.Instruction, item: ir.Register) -> int:
        """Offset of the register in the frame, for handlers that take no constant lanes."""
        if item.name in self.known:
            from .handlers import alu_handler

            copy = ir.Register(f"{item.name}@copy{len(self.ops)}", item.type)
            alu_handler(self, ins, [copy], [item], lambda args: args[0])
            return self.frame.register(copy)
        return self.frame.register(item)

    def negated(self, ins: ir.Instruction, item: ir.Negated) -> ir.Register:
        """A fresh predicate that holds `!p`, for handlers that read lanes as they are."""
        from .handlers import alu_handler

        copy = ir.Register(f"!@{len(self.ops)}", "pred")
        unguarded = dataclasses.replace(
            ins, guard=None
        )  # the instruction's own op counts its lanes
        alu_handler(self, unguarded, [copy], [item], lambda args: args[0])
        return copy

    def data(self, ins: ir.Instruction, item: ir.Operand, bits: int, kinds: list[int]) -> int:
        """Offset of a data operand's lanes for a runtime handler; appends 0 (regs) or 1 (fixed)."""
        if isinstance(item, ir.Negated):
            item = self.negated(ins, item)
        known = self.known_value(item)
        if isinstance(known, FixedLanes):
            kinds.append(1)
            return known.offset
        if known is not None:
            bits = item.lane_bits if isinstance(item, ir.Register) else bits
            item = known
        if isinstance(item, ir.Register):
            kinds.append(0)
            return self.frame.register(item)
        if isinstance(item, ir.Sink):
            kinds.append(0)
            return SINK
        kinds.append(1)
        if isinstance(item, ir.Immediate):
            return self.constants.lanes(bits, immediate_bits(item, bits))
        raise registry.unsupported(ins, f"operand {item} here")

    def address(self, ins: ir.Instruction, item: ir.Operand) -> tuple[int, int, int]:
        """(offset of the address lanes, flags, constant to add) of an Address operand."""
        if not isinstance(item, ir.Address):
            raise registry.unsupported(ins, "an address was expected")
        base = item.base
        known = self.known_value(base)
        if isinstance(known, FixedLanes):
            return (
                known.offset,
                ADDRESS_FIXED | (ADDRESS_32 if known.bits == 32 else 0),
                item.offset,
            )
        if known is not None:
            base = known
        if isinstance(base, ir.Register):
            flags = ADDRESS_32 if base.bits == 32 else 0
            return self.frame.register(base), flags, item.offset
        if isinstance(base, ir.Immediate):
            return self.constants.lanes(64, base.value), ADDRESS_FIXED, item.offset
        return *self.symbol_lanes(ins, base.name), item.offset

    def symbol_lanes(self, ins: ir.Instruction, name: str) -> tuple[int, int]:
        """(offset, flags) of 64-bit lanes that hold the address of a variable in its own space."""
        if name in self.frame.locals:
            lanes = self.temporary(64)
            self.op(ins, "vg_op_address", [lanes, 1, 8], imm=self.frame.locals[name])
            return lanes, 0
        if name in self.kernel_parameters:
            lanes = self.temporary(64)
            self.op(ins, "vg_op_address", [lanes, 0, 8], imm=self.kernel_parameters[name])
            return lanes, 0
        if name in self.shared.offsets:
            return self.constants.lanes(64, self.shared.offsets[name]), ADDRESS_FIXED
        variable = self.module.variables.get(name)
        if variable is not None and variable.space in ("global", "const"):
            return self.constants.symbol(name, 0), ADDRESS_FIXED
        if (number := self.function_address(name)) is not None:
            return self.constants.lanes(64, number), ADDRESS_FIXED
        raise registry.unsupported(ins, f"the address of {name!r}")

    def function_address(self, name: str) -> int | None:
        name = self.module.aliases.get(name, name)
        return self.functions.get(name)

    def access(self, space: int, type_name: str, items: list[ir.Operand], offset: int) -> Access:
        """The access description of a load or store of registers `items`."""
        widths = {i.lane_bits // 8 for i in items if isinstance(i, ir.Register)}
        bytes_ = ir.TYPE_BITS[type_name] // 8
        reg_bytes = widths.pop() if widths else max(2, bytes_)
        signed = int(type_name[0] == "s")
        return Access(space, bytes_, len(items), reg_bytes, signed, offset=offset)


def immediate_bits(item: ir.Immediate, bits: int) -> int:
    """The raw bits of an immediate in an operand of `bits`; f64 literals narrow to f32."""
    import struct

    if item.kind == "f64" and bits == 32:
        value = struct.unpack("<d", struct.pack("<Q", item.value))[0]
        return struct.unpack("<I", struct.pack("<f", value))[0]
    return item.value & (1 << bits) - 1


def refuse(ins: ir.Instruction, why: str = "") -> UnsupportedInstruction:
    return registry.unsupported(ins, why)
