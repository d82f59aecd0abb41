"""Memory instructions: loads, stores, atomics, asynchronous copies, address conversions."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ..analysis import RESERVED, RESERVED_BYTES
from ..fixed import FixedLanes
from ..program import ADDRESS_32, SINK, SPECIALS, Access, ParameterLanes
from ..ptx import ir
from .registry import runtime, unsupported

if TYPE_CHECKING:
    from ..emit import Emitter

SPACES = {"global": 1, "shared": 2, "local": 3, "const": 4, "param": 5}
ATOMICS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
TYPES = (
    "u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64",
    "f16", "bf16", "f16x2", "bf16x2", "f32", "f64", "b128",
)  # fmt: skip
"""VgType in order."""
_STRONG = {"volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio"}
_ORDERS = {"acquire": 2, "release": 4, "acq_rel": 6, "sc": 6}  # bits of rt/check.h
_PLAIN = {"b8": "u8", "b16": "u16", "b32": "u32", "b64": "u64"}
_ALL = 0xFFFF_FFFF


def space_of(ins: ir.Instruction) -> int:
    """VgSpace of a load, store or atomic: 0 when the instruction names none (generic)."""
    for modifier in ins.modifiers:
        if (space := SPACES.get(modifier.split(":")[0])) is not None:
            return space
    return 0


def order_of(ins: ir.Instruction) -> int:
    """VgAccess.flags: whether the access is strong, acquires, releases."""
    found = [m for m in ins.modifiers if m in _STRONG]
    return sum({_ORDERS.get(m, 0) for m in found}) | 1 if found else 0


def address_of(e: Emitter, ins: ir.Instruction, item: ir.Operand) -> tuple[int, int, int, int]:
    """(space, lanes, flags, offset) of a load's, store's or atomic's address. Addresses in the shared
    memory of a cluster become generic ones."""
    space = space_of(ins)
    lanes, flags, offset = e.address(ins, item)
    if not ins.has("shared::cluster"):
        return space, lanes, flags, offset
    wide = e.temporary(64)
    e.op(ins, "vg_op_cluster_address", [wide, lanes], flags=flags, imm=offset & (1 << 64) - 1)
    return 0, wide, 0, 0


def items_of(operand: ir.Operand) -> list[ir.Operand]:
    return list(operand.items) if isinstance(operand, ir.Vector) else [operand]


def bits(kinds: list[int]) -> int:
    return sum(k << i for i, k in enumerate(kinds))


def _is_call_parameter(e: Emitter, address: ir.Operand) -> bool:
    return (
        isinstance(address, ir.Address)
        and isinstance(address.base, ir.Symbol)
        and address.base.name in e.frame.parameters
    )


@runtime("ld", "ldu")
def load(e: Emitter, ins: ir.Instruction) -> None:
    target, address = ins.operands[:2]
    items, space = items_of(target), space_of(ins)
    kinds: list[int] = []
    if space == SPACES["param"] and isinstance(address, ir.Address):
        base = address.base
        if isinstance(base, ir.Symbol) and base.name in e.kernel_parameters:
            _load_kernel_parameter(e, ins, e.kernel_parameters[base.name] + address.offset)
            return
        if isinstance(base, ir.Symbol):
            data = _data_of(e, ins, items, kinds)
            _frame_access(e, ins, "vg_op_load_frame", data, items, address, kinds)
            return
    data = _data_of(e, ins, items, kinds)
    space, lanes, flags, offset = address_of(e, ins, address)
    access = e.access(space, ins.types[-1], items, offset)
    access.flags = order_of(ins)
    handler = "vg_op_load_word" if _is_word(ins, access, flags, data) else "vg_op_load"
    e.op(ins, handler, data, aux=lanes, flags=flags, access=access)


def _is_word(ins: ir.Instruction, access: Access, flags: int, data: list[int]) -> bool:
    """Whether rt/word.c has a shorter way: one 32-bit word a lane at 64-bit addresses, unguarded."""
    one = access.count == 1 and access.bytes == access.reg_bytes == 4 and data[0] != SINK
    known = access.space in (SPACES["shared"], SPACES["global"])
    return one and known and not ins.guard and not flags & ADDRESS_32


def _data_of(e: Emitter, ins: ir.Instruction, items: list, kinds: list[int]) -> list[int]:
    data = [e.data(ins, item, 32, kinds) for item in items]
    if len(data) > 8:
        raise unsupported(ins, "more than 8 elements")
    return data


def _load_kernel_parameter(e: Emitter, ins: ir.Instruction, offset: int) -> None:
    """No op where the launch can fill the lanes; asked before the target gets a register."""
    target = ins.operands[0]
    if _known_parameter(e, ins, target, offset):
        return
    items = items_of(target)
    e.op(ins, "vg_op_load_param", _data_of(e, ins, items, []),
         access=e.access(SPACES["param"], ins.types[-1], items, offset))  # fmt: skip


def _known_parameter(e: Emitter, ins: ir.Instruction, target: ir.Operand, offset: int) -> bool:
    """A parameter is the same for all threads: its lanes can be filled once per launch."""
    if not isinstance(target, ir.Register) or e.definitions.get(target.name) != 1:
        return False
    type_name, width = ins.types[-1], target.lane_bits
    lanes = ParameterLanes(offset, ir.TYPE_BITS[type_name] // 8, width // 8, type_name[0] == "s")
    return width <= 64 and e.never_changes(
        ins, target, FixedLanes(e.constants.parameter(lanes), width)
    )


@runtime("st")
def store(e: Emitter, ins: ir.Instruction) -> None:
    if ins.has("async", "bulk"):
        from .bulk import fill, remote

        return fill(e, ins) if ins.has("bulk") else remote(e, ins)
    address, value = ins.operands[:2]
    items, space = items_of(value), space_of(ins)
    kinds: list[int] = []
    width = max(16, ir.TYPE_BITS[ins.types[-1]])
    registers = [i.lane_bits for i in items if isinstance(i, ir.Register)]
    data = [e.data(ins, item, registers[0] if registers else width, kinds) for item in items]
    if space == SPACES["param"]:
        if not _is_call_parameter(e, address):
            raise unsupported(ins, "a store to a parameter that is not a call's")
        _frame_access(e, ins, "vg_op_store_frame", data, items, address, kinds)
        return
    space, lanes, flags, offset = address_of(e, ins, address)
    access = e.access(space, ins.types[-1], items, offset)
    access.flags = order_of(ins)
    handler = "vg_op_store_word" if _is_word(ins, access, flags, data) else "vg_op_store"
    e.op(ins, handler, data, aux=lanes, flags=flags, kinds=bits(kinds), access=access)


def _frame_access(
    e: Emitter, ins: ir.Instruction, handler: str, data: list[int], items: list,
    address: ir.Operand, kinds: list[int],
) -> None:  # fmt: skip
    """ld.param and st.param of a call's or a function's own parameters."""
    if not isinstance(address, ir.Address) or not isinstance(address.base, ir.Symbol):
        raise unsupported(ins, "a parameter address in a register")
    name = address.base.name
    if name not in e.frame.parameters:
        raise unsupported(ins, f"unknown parameter {name!r}")
    variable = e.function.variables[name]
    a = [*data, *[SINK] * (7 - len(data)), variable.bytes]
    e.op(ins, handler, a, aux=e.frame.parameters[name], kinds=bits(kinds),
         access=e.access(SPACES["param"], ins.types[-1], items, address.offset))  # fmt: skip


@runtime("atom", "red")
def atomic(e: Emitter, ins: ir.Instruction) -> None:
    if ins.opcode == "red" and ins.has("async"):
        from .bulk import remote

        return remote(e, ins)
    result: ir.Operand = ir.Sink()
    operands = list(ins.operands)
    if ins.opcode == "atom":
        result = operands.pop(0)
    address, *values = operands
    operation = next((m for m in ins.modifiers if m in ATOMICS), None)
    type_name = _PLAIN.get(ins.types[-1], ins.types[-1])
    if operation is None or type_name not in TYPES:
        raise unsupported(ins, "this atomic operation or type")
    vector = isinstance(values[0], ir.Vector)
    if not vector and operation != "cas":
        values = values[:1]  # a cache policy may follow
    if vector:
        values = items_of(values[0])
    space, lanes, flags, offset = address_of(e, ins, address)
    width = max(16, ir.TYPE_BITS[ins.types[-1]])
    kinds: list[int] = []
    access = e.access(space, ins.types[-1], values[:1], offset)
    access.count = len(values) if vector else 1
    access.atomic, access.type = ATOMICS.index(operation), TYPES.index(type_name)
    access.reg_bytes, access.flags = width // 8, order_of(ins)
    if vector:
        _vector_atomic(e, ins, result, values, access, lanes, flags)
        return
    data = [e.data(ins, item, width, kinds) for item in (result, *values[:2])]
    data += [SINK] * (3 - len(data))
    e.op(ins, "vg_op_atomic", data, kinds=bits(kinds), aux=lanes, flags=flags, access=access)


def _vector_atomic(e: Emitter, ins, result, values, access, lanes: int, flags: int) -> None:
    width = access.reg_bytes * 8
    if len(values) > 4:  # atomic by element, so that halves will do
        olds = items_of(result) if not isinstance(result, ir.Sink) else []
        upper = dataclasses.replace(
            access, offset=access.offset + 4 * access.bytes, count=len(values) - 4
        )
        access.count = 4
        for part, cut in ((access, slice(0, 4)), (upper, slice(4, None))):
            _vector_atomic(e, ins, ir.Vector(tuple(olds[cut])) if olds else result, values[cut], part,
                           lanes, flags)  # fmt: skip
        return
    kinds: list[int] = []
    data = [e.data(ins, item, width, kinds) for item in values]
    data += [SINK] * (4 - len(data))
    olds = [] if isinstance(result, ir.Sink) else items_of(result)
    data += [e.data(ins, item, width, []) for item in olds]
    data += [SINK] * (8 - len(data))
    e.op(ins, "vg_op_atomic_vector", data, kinds=bits(kinds), aux=lanes, flags=flags, access=access)


# ------------------------------------------------------------------------------------- cp.async


@runtime("cp")
def copy(e: Emitter, ins: ir.Instruction) -> None:
    if ins.has("commit_group") and not ins.has("bulk"):
        e.op(ins, "vg_op_async_commit")
    elif ins.has("wait_all"):
        e.op(ins, "vg_op_async_wait", imm=_ALL)
    elif ins.has("wait_group") and not ins.has("bulk"):
        e.op(ins, "vg_op_async_wait", imm=_number(ins, ins.operands[0]))
    elif ins.has("mbarrier"):
        _arrive_when_copied(e, ins)
    elif ins.has("bulk"):
        from .bulk import bulk_copy

        bulk_copy(e, ins)
    elif ins.modifiers[:1] == ("async",) and ins.has("ca", "cg"):
        _async_copy(e, ins)
    else:
        raise unsupported(ins, "this form of cp.async")


def _arrive_when_copied(e: Emitter, ins: ir.Instruction) -> None:
    """cp.async.mbarrier.arrive: the copies complete now. Without .noinc the arrival was added to the
    expected ones first, so that nothing changes."""
    from .mbarrier import change_barrier

    count = ir.Immediate(1 if ins.has("noinc") else 0)
    change_barrier(e, ins, "async_arrive", ins.operands[0], ir.Sink(), count)


def _number(ins: ir.Instruction, item: ir.Operand) -> int:
    if not isinstance(item, ir.Immediate):
        raise unsupported(ins, "a number was expected")
    return item.value


def _async_copy(e: Emitter, ins: ir.Instruction) -> None:
    target, source, size, *rest = ins.operands
    shared, flags, offset = e.address(ins, target)
    far, far_flags, far_offset = e.address(ins, source)
    kinds, a = [0, 1 if far_flags else 0], [shared, far]
    if ins.has("cache_hint"):
        rest = rest[:-1]
    source_size: ir.Operand = ir.Sink()
    ignore: ir.Operand = ir.Sink()
    for item in rest:
        predicate = item.operand if isinstance(item, ir.Negated) else item
        if isinstance(predicate, ir.Register) and predicate.type == "pred":
            ignore = item
        else:
            source_size = item
    a += [e.data(ins, source_size, 32, kinds), e.data(ins, ignore, 32, kinds)]
    access = e.access(SPACES["shared"], "b8", [], offset)
    access.bytes, access.count, access.reg_bytes = _number(ins, size), 1, 4
    e.op(ins, "vg_op_async_copy", a, flags=flags, kinds=bits(kinds), access=access,
         aux=far_offset & 0xFFFF_FFFF)  # fmt: skip


# ------------------------------------------------------------------------- addresses as values


@runtime("cvta")
def cvta(e: Emitter, ins: ir.Instruction) -> None:
    target, source = ins.operands
    if not isinstance(target, ir.Register):
        raise unsupported(ins, "the result must be a register")
    if space_of(ins) in (SPACES["global"], SPACES["const"], SPACES["param"]):
        _same_address(e, ins, target, source)
        return
    kinds: list[int] = [0]
    further = 0
    if isinstance(source, ir.Symbol):
        lanes, fixed = e.symbol_lanes(ins, source.name)
        kinds.append(1 if fixed else 0)
        further = source.offset
        source_bytes = 8
    else:
        lanes = e.data(ins, source, 64, kinds)
        source_bytes = source.lane_bits // 8 if isinstance(source, ir.Register) else 8
    a = [
        e.frame.register(target),
        lanes,
        target.lane_bits // 8,
        source_bytes,
        further & 0xFFFF_FFFF,
    ]
    e.op(ins, "vg_op_cvta", a, kinds=bits(kinds), imm=space_of(ins), aux=int(ins.has("to")))


def _same_address(e: Emitter, ins: ir.Instruction, target: ir.Register, source) -> None:
    """Global, const and param addresses are generic addresses already."""
    from ..handlers import alu_handler

    if isinstance(source, ir.Symbol):
        move_symbol(e, ins, target, source)
        return
    known = e.known_value(source)
    if known is None or not e.never_changes(ins, target, known):
        alu_handler(e, ins, [target], [source], lambda args: f"(uint64_t)({args[0]})")


@runtime("isspacep")
def isspacep(e: Emitter, ins: ir.Instruction) -> None:
    target, source = ins.operands
    constants = any(v.space == "const" for v in e.module.variables.values())
    if space_of(ins) == SPACES["const"] and constants:
        raise unsupported(ins, "constant memory is not told apart from global memory")
    kinds: list[int] = []
    a = [e.data(ins, target, 32, kinds), e.data(ins, source, 64, kinds)]
    e.op(ins, "vg_op_isspacep", a, kinds=bits(kinds), imm=space_of(ins))


@runtime("createpolicy")
def createpolicy(e: Emitter, ins: ir.Instruction) -> None:
    """Cache policies do nothing here; the register gets 0."""
    target = ins.operands[0]
    if isinstance(target, ir.Register):
        move_constant(e, ins, target, 0)


def move_constant(e: Emitter, ins: ir.Instruction, target: ir.Register, value: int) -> None:
    from ..handlers import alu_handler

    item = ir.Immediate(value)
    if not e.never_changes(ins, target, item):
        alu_handler(e, ins, [target], [item], lambda args: args[0])


CLOCKS = {"clock": 0, "clock64": 0, "globaltimer": 0, "clock_hi": 32, "globaltimer_lo": 0,
          "globaltimer_hi": 32}  # fmt: skip


def move_special(e: Emitter, ins: ir.Instruction, target: ir.Register, name: str) -> bool:
    """`mov` from a special register that is no lane array; False when `name` is one."""
    if name in SPECIALS:
        return False
    if name in CLOCKS:
        a = [e.frame.register(target), target.lane_bits // 8]
        e.op(ins, "vg_op_clock", a, aux=CLOCKS[name], imm=e.later)
        return True
    if name.startswith("reserved_smem_offset"):
        end = RESERVED_BYTES if name.endswith(("_end", "_cap")) else 0
        move_constant(e, ins, target, e.shared.offsets[RESERVED] + end)
        return True
    raise unsupported(ins, f"special register %{name}")


def move_symbol(e: Emitter, ins: ir.Instruction, target: ir.Register, source: ir.Symbol) -> None:
    """`mov` of the address of a variable or function, in the variable's own space."""
    from ..handlers import copy_lanes

    name, offset = source.name, source.offset
    bases = ((e.frame.locals, 1), (e.kernel_parameters, 0))
    for table, base in bases:
        if name in table:
            a = [e.frame.register(target), base, target.lane_bits // 8]
            e.op(ins, "vg_op_address", a, imm=(table[name] + offset) & (1 << 64) - 1)
            return
    if name in e.shared.offsets:
        move_constant(e, ins, target, e.shared.offsets[name] + offset)
        return
    variable = e.module.variables.get(name)
    if variable is not None and variable.space in ("global", "const"):
        lanes = FixedLanes(e.constants.symbol(name, offset), 64)
        if not e.never_changes(ins, target, lanes):
            copy_lanes(e, ins, target, lanes.offset, 64)
        return
    if (number := e.function_address(name)) is not None:
        move_constant(e, ins, target, number)
        return
    raise unsupported(ins, f"the address of {name!r}")
