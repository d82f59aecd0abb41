"""The copy engine: bulk and tensor copies, their reductions and groups, remote stores, tensor maps."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from ..fixed import FixedLanes
from ..program import ADDRESS_32, ADDRESS_FIXED, SINK
from ..ptx import ir
from .memory import _PLAIN, ATOMICS, TYPES, items_of
from .registry import runtime, unsupported

if TYPE_CHECKING:
    from ..emit import Emitter

Slot = tuple[int, int, int]
"""Lanes, how to read them, what to add: Slot of rt/bulk.c."""

_FIXED, _WIDE, _SHARED, _SHORT = 1, 2, 4, 8
_NONE: Slot = (SINK, 0, 0)
_COPY, _REDUCE, _PREFETCH, _VALUE = range(4)
_TILE, _IM2COL, _GATHER4 = range(3)
_NO_ATOMIC = 0xFF
_WALKS = {
    "tile": _TILE, "im2col": _IM2COL, "im2col_no_offs": _IM2COL,
    "tile::gather4": _GATHER4, "tile::scatter4": _GATHER4,
}  # fmt: skip
_BULK_MODIFIERS = {
    "async", "reduce", "bulk", "tensor", "prefetch", "L2", "global", "shared::cta", "shared::cluster",
    "mbarrier::complete_tx::bytes", "bulk_group", "multicast::cluster", "L2::cache_hint", "cp_mask",
    "cta_group::1", "noftz", "relaxed", "cluster", "gpu", *(f"{n}d" for n in range(1, 6)), *_WALKS,
}  # fmt: skip
_REDUCTIONS = {
    "add": ("f16", "bf16", "u32", "s32", "u64", "s64", "f32", "f64"),
    "min": ("f16", "bf16", "u32", "s32", "u64", "s64"),
    "max": ("f16", "bf16", "u32", "s32", "u64", "s64"),
    "inc": ("u32",), "dec": ("u32",),
    "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64"),
}  # fmt: skip

_SHARED_REDUCTIONS = {
    "add": ("u32", "s32", "u64"), "min": ("u32", "s32"), "max": ("u32", "s32"), "inc": ("u32",),
    "dec": ("u32",), "and": ("b32",), "or": ("b32",), "xor": ("b32",),
}  # fmt: skip
"""Those of shared memory: red.async, and bulk reductions to shared::cluster."""


def _address(e: Emitter, ins: ir.Instruction, item: ir.Operand, shared: bool) -> Slot:
    lanes, flags, offset = e.address(ins, item)
    how = _FIXED if flags & ADDRESS_FIXED else 0
    how |= 0 if flags & ADDRESS_32 else _WIDE
    return lanes, how | (_SHARED if shared else 0), offset & 0xFFFF_FFFF


def _data(e: Emitter, ins: ir.Instruction, item: ir.Operand, width: int = 32) -> Slot:
    kinds: list[int] = []
    at = e.data(ins, item, width, kinds)
    known = e.known_value(item)
    if isinstance(known, FixedLanes):
        width = known.bits
    elif isinstance(item, ir.Register):
        width = item.lane_bits
    return at, kinds[0] * _FIXED | {16: _SHORT, 64: _WIDE}.get(width, 0), 0


class _Form:
    """Fills VgOp.more of one instruction, as struct Form of rt/bulk.c reads it."""

    def __init__(self, e: Emitter, ins: ir.Instruction):
        self.e, self.ins = e, ins
        self.kind, self.dimensions, self.walk = _COPY, 0, _TILE
        self.atomic, self.type, self.value_bytes = _NO_ATOMIC, 0, 0
        self.to_shared = self.from_shared = False
        self.to = self.source = self.bytes = self.barrier = self.multicast = self.byte_mask = _NONE
        self.at: list[Slot] = []
        self.offset: list[Slot] = []

    def op(self) -> None:
        words = [self.kind, self.dimensions, self.walk, self.atomic, self.type, int(self.to_shared),
                 int(self.from_shared), self.value_bytes]  # fmt: skip
        slots = [self.to, self.source, self.bytes, self.barrier, self.multicast, self.byte_mask]
        slots += self.at + [_NONE] * (5 - len(self.at))
        slots += self.offset + [_NONE] * (3 - len(self.offset))
        for slot in slots:
            words += slot
        self.e.op(self.ins, "vg_op_bulk", more=words)


def bulk_copy(e: Emitter, ins: ir.Instruction) -> None:
    """cp{.reduce}.async.bulk{.prefetch}{.tensor}, and the bulk groups."""
    if ins.has("commit_group"):
        e.op(ins, "vg_op_bulk_commit")
        return
    if ins.has("wait_group"):
        pending = ins.operands[0]
        if not isinstance(pending, ir.Immediate):
            raise unsupported(ins, "a number was expected")
        e.op(ins, "vg_op_bulk_wait", imm=pending.value)
        return
    known = _BULK_MODIFIERS | (
        set(_REDUCTIONS) | set(TYPES) | set(_PLAIN) if ins.has("reduce") else set()
    )
    for modifier in ins.modifiers:
        if modifier not in known:
            raise unsupported(ins, f"'.{modifier}' is not one of the forms of sm_90's bulk copies")
    form = _Form(e, ins)
    operands = list(ins.operands)
    if ins.has("L2::cache_hint"):
        operands.pop(-2 if ins.has("cp_mask") else -1)
    if ins.has("prefetch"):
        _prefetch(form, operands)
    else:
        _transfer(form, operands)
    form.op()


def _spaces(ins: ir.Instruction) -> tuple[str, str]:
    found = [m for m in ins.modifiers if m in ("global", "shared::cta", "shared::cluster")]
    if len(found) != 2:
        raise unsupported(ins, "it must name the spaces of destination and source")
    return found[0], found[1]


def _transfer(form: _Form, operands: list[ir.Operand]) -> None:
    e, ins = form.e, form.ins
    target, source = _spaces(ins)
    form.to_shared, form.from_shared = target != "global", source != "global"
    if form.to_shared and not ins.has("mbarrier::complete_tx::bytes"):
        raise unsupported(ins, "a copy to shared memory completes on an mbarrier")
    if ins.has("reduce"):
        _reduction(form)
    to, origin, *rest = operands
    if ins.has("tensor"):
        tensor, plain = (to, origin) if target == "global" else (origin, to)
        slot = _tensor(form, tensor)
        shared = _address(e, ins, plain, True)
        form.to, form.source = (slot, shared) if target == "global" else (shared, slot)
    else:
        form.to = _address(e, ins, to, form.to_shared)
        form.source = _address(e, ins, origin, form.from_shared)
        form.bytes = _data(e, ins, rest.pop(0))
    if form.to_shared:
        form.barrier = _address(e, ins, rest.pop(0), True)
    if form.walk == _IM2COL and form.to_shared:
        _offsets(form, rest)
    if ins.has("multicast::cluster"):
        form.multicast = _data(e, ins, rest.pop(0), 16)
    if ins.has("cp_mask"):
        form.byte_mask = _data(e, ins, rest.pop(0), 16)
    if rest:
        raise unsupported(ins, f"{len(rest)} operands too many")


def _prefetch(form: _Form, operands: list[ir.Operand]) -> None:
    form.kind = _PREFETCH
    if not form.ins.has("tensor"):
        form.source = _address(form.e, form.ins, operands[0], False)
        form.bytes = _data(form.e, form.ins, operands[1])
        return
    form.source = _tensor(form, operands[0])
    if form.walk == _IM2COL:
        _offsets(form, operands[1:])


def _tensor(form: _Form, item: ir.Operand) -> Slot:
    """The address of the map; notes dimensions, mode and coordinates."""
    e, ins = form.e, form.ins
    form.dimensions = next((n for n in range(1, 6) if ins.has(f"{n}d")), 0)
    form.walk = next((_WALKS[m] for m in ins.modifiers if m in _WALKS), _TILE)
    if not isinstance(item, ir.Tuple) or len(item.items) != 2 or not form.dimensions:
        raise unsupported(ins, "a tensor copy takes [map, {coordinates}] and .1d to .5d")
    coordinates = items_of(item.items[1])
    wanted = 5 if form.walk == _GATHER4 else form.dimensions
    if len(coordinates) != wanted:
        raise unsupported(ins, f"{len(coordinates)} coordinates, not {wanted}")
    if form.walk == _IM2COL and form.dimensions < 3:
        raise unsupported(ins, "im2col takes 3 to 5 dimensions")
    form.at = [_data(e, ins, c) for c in coordinates]
    return _address(e, ins, item.items[0], False)


def _offsets(form: _Form, rest: list[ir.Operand]) -> None:
    if form.ins.has("im2col_no_offs"):
        return
    offsets = items_of(rest.pop(0)) if rest else []
    if len(offsets) != form.dimensions - 2:
        raise unsupported(form.ins, f"{len(offsets)} im2col offsets, not {form.dimensions - 2}")
    form.offset = [_data(form.e, form.ins, o, 16) for o in offsets]


def _operation(ins: ir.Instruction) -> str:
    operation = next((m for m in ins.modifiers if m in _REDUCTIONS), None)
    if operation is None:
        raise unsupported(ins, f"one of {', '.join(_REDUCTIONS)} is needed")
    return operation


def _reduction(form: _Form) -> None:
    ins = form.ins
    operation = _operation(ins)
    form.kind, form.atomic = _REDUCE, ATOMICS.index(operation)
    if ins.has("tensor"):  # the type is the map's
        return
    name = next((m for m in ins.modifiers if m in TYPES or m in _PLAIN), "")
    table = _SHARED_REDUCTIONS if form.to_shared else _REDUCTIONS
    if name not in table[operation]:
        raise unsupported(ins, f"no bulk reduction '.{operation}' of '.{name}'")
    form.type = TYPES.index(_PLAIN.get(name, name))


def remote(e: Emitter, ins: ir.Instruction) -> None:
    """st.async and red.async: a value for another block's shared memory, complete on its mbarrier."""
    if not ins.has("mbarrier::complete_tx::bytes"):
        raise unsupported(ins, "only the forms that complete on an mbarrier are there")
    form = _Form(e, ins)
    form.kind, form.to_shared = _VALUE, True
    address, value, barrier = ins.operands
    items, name = items_of(value), ins.types[-1]
    if ins.opcode == "red":
        operation = _operation(ins)
        if name not in _SHARED_REDUCTIONS[operation] or len(items) != 1:
            raise unsupported(ins, f"no red.async '.{operation}' of '.{name}'")
        form.atomic, form.type = ATOMICS.index(operation), TYPES.index(_PLAIN.get(name, name))
    width = ir.TYPE_BITS[name]
    form.value_bytes = width // 8
    if width not in (32, 64) or form.value_bytes * len(items) > 16:
        raise unsupported(ins, "it takes up to 16 bytes of 32- or 64-bit elements")
    form.to, form.barrier = _address(e, ins, address, True), _address(e, ins, barrier, True)
    form.bytes = _data(e, ins, ir.Immediate(form.value_bytes * len(items)))
    form.at = [_data(e, ins, item, width) for item in items]
    form.op()


def fill(e: Emitter, ins: ir.Instruction) -> None:
    """st.bulk: zeros over a span of the block's shared memory."""
    address, size, value = ins.operands
    if not isinstance(value, ir.Immediate) or value.value:
        raise unsupported(ins, "st.bulk writes zeros")
    lanes, flags, offset = e.address(ins, address)
    kinds = [0]
    a = [lanes, offset & 0xFFFF_FFFF, e.data(ins, size, 64, kinds)]
    wide = int(not isinstance(size, ir.Register) or size.lane_bits == 64)
    e.op(ins, "vg_op_bulk_fill", [*a, wide], kinds=kinds[1] << 2, flags=flags,
         aux=2 if ins.has("shared::cta", "shared") else 0)  # fmt: skip


# ---------------------------------------------------------------------------------- tensor maps

FIELDS = (
    "global_address", "rank", "box_dim", "global_dim", "global_stride", "element_stride", "elemtype",
    "interleave_layout", "swizzle_mode", "swizzle_atomicity", "fill_mode",
)  # fmt: skip
"""The fields of tensormap.replace, in the order of rt/tensormap.c."""
_INDEXED = {"box_dim": 5, "global_dim": 5, "global_stride": 4, "element_stride": 5}


@runtime("tensormap")
def tensormap(e: Emitter, ins: ir.Instruction) -> None:
    if ins.has("cp_fenceproxy"):
        to, source, size = ins.operands
        if not isinstance(size, ir.Immediate) or size.value != 128:
            raise unsupported(ins, "it copies 128 bytes")
        words = [*_address(e, ins, to, False), *_address(e, ins, source, True)]
        e.op(ins, "vg_op_tensormap_copy", more=words)
        return
    field = next((f for f in FIELDS if ins.has(f)), None)
    if not ins.has("replace") or field is None:
        raise unsupported(ins, "this field or operation of tensor maps")
    address, *middle, value = ins.operands
    index = 0
    if field in _INDEXED:
        item = middle[0]
        if not isinstance(item, ir.Immediate) or not 0 <= item.value < _INDEXED[field]:
            raise unsupported(ins, f"the dimension must be a number below {_INDEXED[field]}")
        index = item.value
    words = [FIELDS.index(field), index, *_address(e, ins, address, ins.has("shared::cta")),
             *_data(e, ins, value, 64 if ins.has("b64") else 32)]  # fmt: skip
    e.op(ins, "vg_op_tensormap_replace", more=words)


@runtime("multimem")
def multimem(e: Emitter, ins: ir.Instruction) -> None:
    raise unsupported(ins, "its address stands for the memory of several GPUs (a multicast object of "
                           "the driver), and the virtual GPU is one GPU")  # fmt: skip
