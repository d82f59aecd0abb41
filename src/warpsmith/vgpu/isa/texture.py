"""Texture fetches, gathers, surface accesses and their queries: PTX ISA, "Texture Instructions"."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..program import SINK
from ..ptx import ir
from .memory import ATOMICS, TYPES, items_of
from .registry import runtime, unsupported

if TYPE_CHECKING:
    from ..emit import Emitter

GEOMETRIES = ("1d", "2d", "3d", "a1d", "a2d", "cube", "acube")
"""VgGeometry in order; PTX's names."""
_COORDINATES = {"1d": 1, "2d": 2, "3d": 3, "a1d": 2, "a2d": 3, "cube": 3, "acube": 4}
_MODES = ("", "level", "grad", "gather")
_COMPONENTS = ("r", "g", "b", "a")
_OUTSIDE = ("trap", "clamp", "zero")
_QUERIES = (
    "width", "height", "depth", "array_size", "num_mipmap_levels", "num_samples",
    "normalized_coords", "force_unnormalized_coords", "filter_mode", "addr_mode_0", "addr_mode_1",
    "addr_mode_2", "channel_data_type", "channel_order", "memory_layout",
)  # fmt: skip
_BITS = {"b8": "u8", "b16": "u16", "b32": "u32", "b64": "u64"}
_FETCHED = ("u32", "s32", "f32", "f16", "f16x2", "b32")
_HANDLE, _DATA, _COORD, _LOD, _SHIFT, _RESIDENT, _SLOTS = 0, 1, 5, 9, 15, 18, 19
_NO_GEOMETRY = _SLOTS  # queries take every kind
_FORMATTED = 4


@dataclass
class _Fetch:
    """The description of one fetch: the words of rt/texture.h."""

    e: Emitter
    ins: ir.Instruction
    geometry: int = _NO_GEOMETRY
    type: str = "u32"
    floats: bool = False
    mode: int = 0
    extra: int = 0
    count: int = 1
    slots: list[int] = field(default_factory=lambda: [SINK] * _SLOTS)
    fixed: int = 0
    lane_bytes: int = 4
    reference: int = 0

    def put(self, slot: int, items: Sequence[ir.Operand], bits: int) -> None:
        for i, item in enumerate(items):
            kinds: list[int] = []
            self.slots[slot + i] = self.e.data(self.ins, item, bits, kinds)
            self.fixed |= kinds[0] << slot + i

    def data(self, operand: ir.Operand, bits: int) -> None:
        items = items_of(operand)
        if len(items) > 4:
            raise unsupported(self.ins, "more than 4 elements")
        widths = {i.lane_bits for i in items if isinstance(i, ir.Register)}
        if len(widths) > 1:
            raise unsupported(self.ins, "elements of several widths")
        width = widths.pop() if widths else max(16, bits)
        self.lane_bytes, self.count = width // 8, len(items)
        self.put(_DATA, items, width)

    def handle(self, address: ir.Operand) -> None:
        """The texture's handle: a register, or a module's own reference, which holds a handle."""
        if not isinstance(address, ir.Address) or address.offset:
            raise unsupported(self.ins, "a texture's name or handle was expected")
        if isinstance(address.base, ir.Symbol):
            lanes, flags = self.e.symbol_lanes(self.ins, address.base.name)
            self.slots[_HANDLE], self.fixed = lanes, self.fixed | int(bool(flags))
            self.reference = 1
        else:
            self.put(_HANDLE, [address.base], 64)

    def place(self, operand: ir.Operand) -> None:
        """`[handle, coordinates]`, after `geometry` is known."""
        if not isinstance(operand, ir.Tuple) or len(operand.items) != 2:
            raise unsupported(self.ins, "separate samplers are not there: one texture handle")
        self.handle(operand.items[0])
        coordinates = items_of(operand.items[1])
        needed = _COORDINATES[GEOMETRIES[self.geometry]]
        if len(coordinates) < needed:
            raise unsupported(self.ins, f"{len(coordinates)} coordinates, not {needed}")
        self.put(_COORD, coordinates[:needed], 32)

    def emit(self, handler: str, aux: int = 0) -> None:
        words = [self.geometry, TYPES.index(self.type), int(self.floats), self.mode, self.extra,
                 self.count, self.lane_bytes, self.fixed, *self.slots]  # fmt: skip
        self.e.op(self.ins, handler, more=words, kinds=self.reference, aux=aux)


def _geometry(ins: ir.Instruction) -> int:
    found = next((m for m in ins.modifiers if m in GEOMETRIES), None)
    if found is None:
        raise unsupported(ins, f"one of {', '.join(GEOMETRIES)} is needed")
    return GEOMETRIES.index(found)


@runtime("tex")
def tex(e: Emitter, ins: ir.Instruction) -> None:
    """tex{.base|.level|.grad}.geom.v4.type.{s32,f32} d{|p}, [handle, c]{, lod|dx, dy}{, shift}."""
    fetch = _fetch(e, ins, ins.types[:-1], ins.types[-1])
    mode = next((m for m in _MODES[1:3] if ins.has(m)), "")
    fetch.mode = _MODES.index(mode)
    rest = list(ins.operands[2:])
    if mode:
        fetch.put(_LOD, items_of(rest.pop(0))[:3], 32)
    if mode == "grad":
        if GEOMETRIES[fetch.geometry].endswith("cube"):
            raise unsupported(ins, "gradients of a cube")
        fetch.put(_LOD + 3, items_of(rest.pop(0))[:3], 32)
    _shift(fetch, rest)
    fetch.emit("vg_op_tex")


def _fetch(e: Emitter, ins: ir.Instruction, types: Sequence[str], coordinate: str) -> _Fetch:
    """What tex and tld4 have in common: results and place."""
    if not types or types[-1] not in _FETCHED or coordinate not in ("s32", "f32"):
        raise unsupported(ins, "these types")
    fetch = _Fetch(e, ins, _geometry(ins), _BITS.get(types[-1], types[-1]), coordinate == "f32")
    if fetch.geometry >= GEOMETRIES.index("cube") and not fetch.floats:
        raise unsupported(ins, "integer coordinates of a cube")
    target = ins.operands[0]
    if isinstance(target, ir.Pair):
        fetch.put(_RESIDENT, [target.second], 32)
        target = target.first
    fetch.data(target, ir.TYPE_BITS[types[-1]])
    fetch.place(ins.operands[1])
    return fetch


def _shift(fetch: _Fetch, rest: list[ir.Operand]) -> None:
    if len(rest) > 1 or (rest and not isinstance(rest[0], ir.Vector)):
        raise unsupported(fetch.ins, "comparisons with a depth are not there")
    if rest:
        fetch.put(_SHIFT, items_of(rest[0])[:3], 32)


@runtime("tld4")
def gather(e: Emitter, ins: ir.Instruction) -> None:
    """tld4.{r,g,b,a}.geom.v4.type.f32 d{|p}, [handle, c]{, shift}."""
    fetch = _fetch(e, ins, ins.types[:-1], ins.types[-1])
    fetch.mode = _MODES.index("gather")
    fetch.extra = _COMPONENTS.index(next(m for m in ins.modifiers if m in _COMPONENTS))
    _shift(fetch, list(ins.operands[2:]))
    fetch.emit("vg_op_tex")


@runtime("txq", "suq")
def query(e: Emitter, ins: ir.Instruction) -> None:
    name = next((m for m in ins.modifiers if m in _QUERIES), None)
    if name is None:
        raise unsupported(ins, f"one of {', '.join(_QUERIES)} is needed")
    fetch = _Fetch(e, ins, extra=_QUERIES.index(name), mode=2 if ins.opcode == "txq" else 0)
    fetch.put(_DATA, ins.operands[:1], 32)
    fetch.handle(ins.operands[1])
    fetch.put(_LOD, ins.operands[2:3], 32)
    fetch.emit("vg_op_texture_query")


def _surface(e: Emitter, ins: ir.Instruction, data: ir.Operand, place: ir.Operand) -> _Fetch:
    kind = ins.types[-1]
    outside = next((m for m in _OUTSIDE if ins.has(m)), "trap")
    formatted = _FORMATTED if ins.has("p") else 0
    if _BITS.get(kind, kind) not in TYPES:
        raise unsupported(ins, "this type")
    fetch = _Fetch(e, ins, _geometry(ins), _BITS.get(kind, kind),
                   mode=_OUTSIDE.index(outside) | formatted)  # fmt: skip
    fetch.data(data, ir.TYPE_BITS[kind])
    fetch.place(place)
    return fetch


@runtime("suld")
def surface_load(e: Emitter, ins: ir.Instruction) -> None:
    if not ins.has("b"):
        raise unsupported(ins, "formatted loads left the language with PTX 3")
    _surface(e, ins, ins.operands[0], ins.operands[1]).emit("vg_op_surface_load")


@runtime("sust")
def surface_store(e: Emitter, ins: ir.Instruction) -> None:
    fetch = _surface(e, ins, ins.operands[1], ins.operands[0])
    if ins.has("p") and fetch.type not in ("u32", "s32", "f32"):
        raise unsupported(ins, "formatted stores take .b32")
    fetch.emit("vg_op_surface_store")


@runtime("sured")
def surface_reduce(e: Emitter, ins: ir.Instruction) -> None:
    fetch = _surface(e, ins, ins.operands[1], ins.operands[0])
    operation = next((m for m in ins.modifiers if m in ATOMICS[:5]), None)
    if operation is None or ir.TYPE_BITS[ins.types[-1]] < 32 or fetch.count > 1:
        raise unsupported(ins, "this reduction")
    fetch.extra = ATOMICS.index(operation)
    fetch.emit("vg_op_surface_reduce")


@runtime("istypep")
def istypep(e: Emitter, ins: ir.Instruction) -> None:
    fetch = _Fetch(e, ins)
    fetch.put(_DATA, ins.operands[:1], 32)
    source = ins.operands[1]
    fetch.put(_HANDLE, [source], 64)
    fetch.emit("vg_op_istypep", aux=1 if ins.has("texref") else 2 if ins.has("surfref") else 0)
