"""Where each tensor of a region lies: merge axes into as few index variables as its tensors allow."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass, field

from .ir import Axis, Buffer, Dims, Region, Size, Value, flat, leaves, product


@dataclass(eq=False)
class Index:
    """One index variable of a kernel: a run of axes that are adjacent in every tensor.

    name: of its coordinate ("row", "row_1", "col"). size_name: of its extent ("rows", "row_size_1").
    """

    axes: tuple[Axis, ...]
    name: str = ""
    size_name: str = ""

    @property
    def size(self) -> Size:
        return product(a.size for a in self.axes)


@dataclass(eq=False)
class Operand:
    """A tensor as a region reads or writes it. `order`: its axes in memory order, outermost first."""

    buffer: Buffer
    order: tuple[Axis, ...]
    dims: Dims
    value: Value | None = None  # the load; None for a store

    def follows(self, one: Axis, two: Axis) -> bool:
        """Whether stepping over both axes is stepping over one run of memory, or over nothing."""
        if one not in self.order and two not in self.order:
            return True
        if one not in self.order or two not in self.order:
            return False
        place = self.order.index(one)
        if place + 1 >= len(self.order) or self.order[place + 1] is not two:
            return False
        return not self.buffer.strided or any(
            one in leaves(group) and two in leaves(group) for group in self.dims
        )


@dataclass(eq=False)
class Space:
    """One dimension of a kernel's index space. name: of its coordinate. total: of its extent."""

    name: str
    total: str
    indices: list[Index]

    @property
    def size(self) -> Size:
        return product(i.size for i in self.indices)


@dataclass(eq=False)
class Layout:
    """The index variables of a region and its tensors.

    spaces: rows; or rows and cols; or batches, rows, cols and depth for a matrix product.
    """

    spaces: list[Space]
    loads: dict[Value, Operand]
    stores: list[tuple[Value, Operand]]
    values: list[Value] = field(default_factory=list)
    linear: bool = True  # whether a kernel has one running coordinate for each space

    def space(self, total: str) -> Space | None:
        return next((s for s in self.spaces if s.total == total), None)

    @property
    def rows(self) -> list[Index]:
        space = self.space("rows")
        return space.indices if space else []

    @property
    def cols(self) -> list[Index]:
        space = self.space("cols")
        return space.indices if space else []

    def index_of(self, axis: Axis) -> Index:
        return next(i for s in self.spaces for i in s.indices if axis in i.axes)

    def operands(self) -> list[Operand]:
        return [*self.loads.values(), *(o for _, o in self.stores)]

    def uses(self, operand: Operand) -> list[Index]:
        """The index variables that move within an operand, in memory order."""
        return list(dict.fromkeys(self.index_of(a) for a in operand.order))

    def stride(self, operand: Operand, index: Index) -> list[str]:
        """Factors of an operand's stride along an index: size names, or the name of a stride
        argument. Empty: 1. Only for indices that the operand uses."""
        order = self.uses(operand)
        if not operand.buffer.strided:
            return [i.size_name for i in order[order.index(index) + 1 :]]
        for place, group in enumerate(operand.dims):
            held = [i for i in order if i.axes[-1] in leaves(group)]
            if index in held:
                inner = [i.size_name for i in held[held.index(index) + 1 :]]
                return [*inner, f"{operand.buffer.name}_stride_{place}"]
        raise AssertionError(f"{index.name} does not move within {operand.buffer.name}")

    def contiguous_along(self, operand: Operand, index: Index) -> bool:
        """Whether neighbors along the index are neighbors in memory."""
        return index in self.uses(operand) and not self.stride(operand, index)

    @property
    def coalesced_cols(self) -> bool:
        """Whether columns, not rows, are adjacent in the largest tensor."""
        main = main_operand(self)
        return main is None or not main.order or self.index_of(main.order[-1]) in self.cols


def main_operand(layout: Layout) -> Operand | None:
    """The tensor with the most axes: what the traffic is made of."""
    return max(layout.operands(), key=lambda o: len(layout.uses(o)), default=None)


def layout_of(region: Region, values: list[Value]) -> Layout:
    """Index variables for a region whose (simplified) values are given."""
    loads = {
        v: Operand(v.detail[0], flat(v.detail[1]), v.detail[1], v) for v in values if v.op == "load"
    }
    stores = [(v, Operand(b, flat(dims), dims)) for v, dims, b in region.stores]
    operands = [*loads.values(), *(o for _, o in stores)]
    main = max((o for o in operands), key=lambda o: len(o.order))
    counted = [v for v in values if v.op == "iota"]
    fixed = any(v.op == "reduce" and v.detail[0].startswith("arg") for v in values)
    runs = [Operand(Buffer("iota", (), "int64"), leaves(v.detail), (v.detail,)) for v in counted]
    spaces = []
    for name, total, axes in _spaces(region, values, main, fixed):
        indices = _merge(axes, [*operands, *runs])
        _name(indices, name, total)
        spaces.append(Space(name, total, indices))
    return Layout(spaces, loads, stores, values)


def _spaces(
    region: Region, values: list[Value], main: Operand, fixed: bool
) -> list[tuple[str, str, tuple[Axis, ...]]]:
    """Name of the coordinate, name of the extent and axes of each dimension of the index space."""
    outer, inner = leaves(region.outer), leaves(region.inner)
    if region.kind == "pointwise":
        return [("row", "rows", outer)]
    if region.kind == "rows":
        cols = inner if fixed else _like(inner, main)
        return [("row", "rows", _like(outer, main)), ("col", "cols", cols)]
    left, right = next(v for v in values if v.op == "contract").detail
    rows, cols = leaves(left[-2]), leaves(right[-1])
    batches = tuple(a for a in outer if a not in rows and a not in cols)
    return [
        ("batch", "batches", batches),
        ("row", "rows", rows),
        ("col", "cols", cols),
        ("k", "depth", inner),
    ]


def _like(axes: tuple[Axis, ...], main: Operand) -> tuple[Axis, ...]:
    """Axes in the memory order of the main operand; those that it lacks come first."""
    return tuple(sorted(axes, key=lambda a: main.order.index(a) if a in main.order else -1))


def _merge(axes: tuple[Axis, ...], operands: list[Operand]) -> list[Index]:
    groups: list[list[Axis]] = []
    for axis in axes:
        if groups and all(o.follows(groups[-1][-1], axis) for o in operands):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return [Index(tuple(g)) for g in groups]


def _name(indices: list[Index], name: str, total: str) -> None:
    for place, index in enumerate(indices):
        alone = len(indices) == 1
        index.name = name if alone else f"{name}_{place}"
        index.size_name = total if alone else f"{name}_size_{place}"
