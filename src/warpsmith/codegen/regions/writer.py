"""Write a region's values as statements: what both languages share."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .expressions import OPS, compute_dtype
from .ir import Size, Value, ancestors, leaves
from .layout import Index, Layout, Operand


@dataclass(frozen=True)
class Argument:
    """One kernel argument. kind: "load", "store", "scalar", "size", "number" (made of sizes,
    but not whole) or "stride".

    host: what the host passes: a Buffer's name, or for sizes the expression itself.
    """

    kind: str
    name: str
    dtype: str = "int64"
    host: Any = None


class Names:
    """Unique names for local variables, nearest to the wished ones."""

    def __init__(self, taken: set[str]):
        self.taken = set(taken)
        self.given: dict[Value, str] = {}

    def of(self, value: Value, wish: str) -> str:
        if value not in self.given:
            self.given[value] = self.fresh(wish)
        return self.given[value]

    def fresh(self, wish: str) -> str:
        name, number = wish, 1
        while name in self.taken:
            number += 1
            name = f"{wish}_{number}"
        self.taken.add(name)
        return name


class Program:
    """A region in the order in which it runs: phases of one pass over the columns each.

    Phase p can use what phases before p have reduced. Row-level values are computed once a row.
    """

    def __init__(self, layout: Layout):
        self.layout = layout
        self.columns = frozenset(a for i in layout.cols for a in i.axes)
        self.levels: dict[Value, int] = {}
        for value in layout.values:
            below = max((self.levels[a] for a in value.args), default=0)
            self.levels[value] = below + (value.op == "reduce")
        self.reduces = [v for v in layout.values if v.op == "reduce"]
        self.phases = max((self.levels[r] for r in self.reduces), default=0)
        self.full_stores = [(v, o) for v, o in layout.stores if self.is_full(v, o)]
        self.row_stores = [(v, o) for v, o in layout.stores if not self.is_full(v, o)]

    def is_full(self, value: Value, operand: Operand | None = None) -> bool:
        axes = set(value.axes) | set(operand.order if operand else ())
        return bool(axes & self.columns)

    def reduced_in(self, phase: int) -> list[Value]:
        return [r for r in self.reduces if self.levels[r] == phase + 1]

    def inside(self, roots: list[Value]) -> list[Value]:
        """What a pass must compute at each column to know the roots; reductions are known."""
        needed = set()
        todo = list(roots)
        while todo:
            value = todo.pop()
            if value in needed or not self.is_full(value):
                continue
            needed.add(value)
            todo.extend(value.args)
        return [v for v in self.layout.values if v in needed]

    def outside(self) -> list[Value]:
        """Row-level values that are computed outside the passes, in order."""
        wanted = [v for v, _ in self.row_stores]
        for value in self.layout.values:
            if self.is_full(value) or value.op == "reduce":
                wanted.extend(a for a in value.args if not self.is_full(a))
        wanted.extend(v for v, _ in self.full_stores if not self.is_full(v))
        return [v for v in ancestors(wanted) if not self.is_full(v)]


INLINE = ("const", "size", "iota")


def needs_statement(value: Value) -> bool:
    return value.op not in INLINE


def register_dtype(value: Value) -> str:
    """The dtype a value has in a register."""
    return compute_dtype(value.dtype)


def arguments_of(layout: Layout, extra_sizes: dict[str, Size]) -> list[Argument]:
    """All arguments of a region's kernel, tensors first."""
    result: list[Argument] = []
    buffers = list(dict.fromkeys(o.buffer for o in layout.loads.values()))
    result += [Argument("load", b.name, b.dtype, b) for b in buffers if not b.scalar]
    many = len(layout.stores) > 1
    for _, operand in layout.stores:
        name = store_name(operand, many)
        result.append(Argument("store", name, operand.buffer.dtype, operand.buffer))
    result += [Argument("scalar", b.name, "float64", b) for b in buffers if b.scalar]
    sizes: dict[str, Size] = {}
    for space in layout.spaces:
        sizes[space.total] = space.size
        sizes |= {i.size_name: i.size for i in space.indices}
    sizes |= extra_sizes
    result += [Argument(_size_kind(s), name, _size_dtype(s), s) for name, s in sizes.items()]
    for buffer in buffers:
        if buffer.strided:
            for place in range(len(buffer.shape)):
                if buffer.shape[place] != 1:
                    name = f"{buffer.name}_stride_{place}"
                    result.append(Argument("stride", name, "int64", (buffer, place)))
    return result


def _size_kind(size: Size) -> str:
    return "size" if isinstance(size, int) or size.is_integer else "number"


def _size_dtype(size: Size) -> str:
    return "int64" if _size_kind(size) == "size" else "float64"


def store_name(operand: Operand, many: bool) -> str:
    return f"out_{operand.buffer.name}" if many else "out"


def extents(layout: Layout) -> dict[str, Size]:
    """Sizes that values use as numbers and that are no index variable's: name -> expression."""
    known = {str(s.size) for s in layout.spaces}
    found: dict[str, Size] = {}
    for value in layout.values:
        if value.op == "size" and str(value.detail) not in known:
            known.add(str(value.detail))
            found[f"extent_{len(found)}"] = value.detail
    return found


def size_name_of(layout: Layout, size: Size, extra: dict[str, Size]) -> str:
    """The name under which a kernel knows a size."""
    named = {space.total: space.size for space in reversed(layout.spaces)} | extra
    return next(name for name, known in named.items() if str(known) == str(size))


def offset(layout: Layout, operand: Operand, used: set[str]) -> str:
    """The element offset of an operand, in coordinates and size names; notes the coordinates used."""
    terms: list[str] = []
    order = layout.uses(operand)
    for space in layout.spaces:
        group, name = space.indices, space.name
        mine = [i for i in order if i in group]
        if not mine:
            continue
        whole = layout.linear and not operand.buffer.strided and _whole(group, mine, order)
        if whole:
            terms.append(_term(name, layout.stride(operand, mine[-1])))
            used.add(name)
            continue
        for index in mine:
            terms.append(_term(index.name, layout.stride(operand, index)))
            used.add(index.name)
    return " + ".join(terms) or "0"


def _whole(group: list[Index], mine: list[Index], order: list[Index]) -> bool:
    """Whether an operand runs through all indices of the group as one."""
    start = order.index(mine[0])
    return mine == group and order[start : start + len(mine)] == mine


def _term(coordinate: str, factors: list[str]) -> str:
    return " * ".join([coordinate, *factors])


def linear_count(layout: Layout, value: Value, used: set[str]) -> str:
    """A counter over some axes as an expression of coordinates."""
    indices = list(dict.fromkeys(layout.index_of(a) for a in leaves(value.detail)))
    for space in layout.spaces:
        if layout.linear and indices == space.indices:
            used.add(space.name)
            return space.name
    terms = []
    for place, index in enumerate(indices):
        used.add(index.name)
        terms.append(_term(index.name, [i.size_name for i in indices[place + 1 :]]))
    return " + ".join(terms)


def helper_names(layout: Layout) -> list[str]:
    """Device functions that the values call."""
    names = [OPS[v.op].helper for v in layout.values if v.op in OPS and OPS[v.op].helper]
    floats = {v.op for v in layout.values if register_dtype(v).startswith("float")}
    return sorted({n for n in names if n} if floats else set())
