"""The small language between a captured model and kernel text: values over named axes, and regions.

Every dimension of a tensor is a product of *axes*, so that a view only regroups axes and a permute
only reorders them: neither needs a kernel. A pointwise operation unifies the axes of its operands;
a reduction removes some.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Size = Any  # an int, or a sympy expression over the symbols of the input shapes
Dims = tuple[tuple["Axis", ...], ...]  # of a tensor: each dimension is a product of axes, () is 1

_serial = itertools.count()


class Axis:
    """One index variable. It may turn out to be another axis, or the product of several."""

    def __init__(self, size: Size):
        self.size, self.number = size, next(_serial)
        self.parts: tuple[Axis, ...] = ()

    def leaves(self) -> tuple[Axis, ...]:
        """The axes that this one stands for now, outermost first."""
        if not self.parts:
            return (self,)
        return tuple(leaf for part in self.parts for leaf in part.leaves())

    def __repr__(self) -> str:
        return f"a{self.number}[{self.size}]"


class Conflict(Exception):
    """Two uses of a value need different axes: the value must be stored first."""


def leaves(axes: Iterable[Axis]) -> tuple[Axis, ...]:
    return tuple(leaf for axis in axes for leaf in axis.leaves())


def flat(dims: Dims) -> tuple[Axis, ...]:
    """All axes of a tensor in memory order."""
    return leaves(axis for group in dims for axis in group)


def product(sizes: Iterable[Size]) -> Size:
    result: Size = 1
    for size in sizes:
        result = result * size
    return result


def quotient(size: Size, by: Size) -> Size | None:
    """size / by where that is a whole number for all values of the symbols, else None."""
    if isinstance(size, int) and isinstance(by, int):
        return size // by if by and size % by == 0 else None
    ratio = size / by
    return ratio if ratio.as_numer_denom()[1] == 1 else None


def unify(one: tuple[Axis, ...], two: tuple[Axis, ...], values: Iterable[Value]) -> None:
    """Make two groups of axes the same, by splitting the coarser. Raises Conflict if that fails."""
    left, right = list(leaves(one)), list(leaves(two))
    if len(left) == len(right) == 1 and left[0] is not right[0]:
        stand_for(right[0], (left[0],), values)
        return
    while left and right:
        a, b = left.pop(0), right.pop(0)
        if a is b:
            continue
        if a.size == b.size:
            stand_for(b, (a,), values)
        elif (rest := quotient(a.size, b.size)) is not None:
            left.insert(0, split(a, b.size, rest)[1])
            right.insert(0, b)
            left.insert(0, a.parts[0])
        elif (rest := quotient(b.size, a.size)) is not None:
            right.insert(0, split(b, a.size, rest)[1])
            left.insert(0, a)
            right.insert(0, b.parts[0])
        elif not right:  # equal as a whole, even where the expressions do not show it
            stand_for(b, (a, *left), values)
            return
        elif not left:
            stand_for(a, (b, *right), values)
            return
        else:
            raise Conflict
    if left or right:
        raise Conflict


def stand_for(axis: Axis, parts: tuple[Axis, ...], values: Iterable[Value]) -> None:
    """Replace an axis by others. Raises Conflict if some value varies over both."""
    if any(axis in v.axes and not v.axes.isdisjoint(parts) for v in values):
        raise Conflict
    axis.parts = parts


def split(axis: Axis, outer: Size, inner: Size) -> tuple[Axis, ...]:
    axis.parts = (Axis(outer), Axis(inner))
    return axis.parts


def regroup(dims: Dims, shape: Iterable[Size]) -> Dims:
    """The axes of a contiguous reshape. Raises Conflict where a new dimension cuts across axes."""
    todo, result = list(flat(dims)), []
    for want in shape:
        group: list[Axis] = []
        while want != 1:
            if not todo:
                raise Conflict
            axis = todo.pop(0)
            if (rest := quotient(want, axis.size)) is not None:
                group.append(axis)
                want = rest
            elif (rest := quotient(axis.size, want)) is not None:
                outer, inner = split(axis, want, rest)
                group.append(outer)
                todo.insert(0, inner)
                want = 1
            else:
                raise Conflict
        result.append(tuple(group))
    if todo:
        raise Conflict
    return tuple(result)


@dataclass(eq=False)
class Buffer:
    """A tensor in memory: an input, a parameter, or something that a step of the plan wrote.

    source: host expression of an input ("inputs[0]", "state['weight']"); empty for computed ones.
    scalar: a number among the inputs, passed to kernels by value.
    """

    name: str
    shape: tuple[Size, ...]
    dtype: str
    source: str = ""
    scalar: bool = False
    region: Region | None = None  # who writes it; None for inputs
    step: Any = None  # the torch call that writes it
    dims: Dims = ()  # of a computed buffer: its layout in axes of the region that writes it
    view: str = ""  # a host-side view of another buffer: "x[:, 1:]"
    base: Buffer | None = None
    strided: bool = False  # a view that may not be contiguous: kernels get its strides

    def __repr__(self) -> str:
        return f"<{self.name} {self.dtype} {self.shape}>"

    @property
    def depth(self) -> int:
        """How many steps must have run before it can be read."""
        if self.base is not None:
            return self.base.depth
        if self.region is not None:
            return self.region.depth + 1
        return self.step.depth + 1 if self.step is not None else 0


@dataclass(eq=False)
class Value:
    """One node: op over args. `axes` are the axes it varies over.

    op: "load", "const", "size", "iota", "reduce", "contract", or a name in `expressions.OPS`.
    detail: load: (Buffer, dims). const: the number. size: the expression. iota: the axes it counts,
    as one number. reduce: (kind, axes). contract: (dims of a, dims of b).
    compute: the dtype in which the operation is carried out.
    """

    op: str
    args: tuple[Value, ...] = ()
    dtype: str = "float32"
    detail: Any = None
    over: tuple[Axis, ...] = ()
    region: Region | None = None  # the reduction it lives with; None: pointwise over loads
    name: str = ""
    compute: str = ""
    node: Any = None  # of torch.fx, for its line
    number: int = field(default_factory=lambda: next(_serial))

    def __repr__(self) -> str:
        return f"{self.name or self.op}#{self.number}"

    @property
    def axes(self) -> frozenset[Axis]:
        return frozenset(leaves(self.over))

    @property
    def depth(self) -> int:
        if self.op == "load":
            return self.detail[0].depth
        return max((a.depth for a in self.args), default=0)


@dataclass(eq=False)
class Ref:
    """A value seen as a tensor: which axes make up which dimension."""

    value: Value
    dims: Dims

    @property
    def shape(self) -> tuple[Size, ...]:
        return tuple(product(a.size for a in leaves(group)) for group in self.dims)


@dataclass(eq=False)
class Region:
    """What becomes one kernel: values over one space of rows (`outer`) and columns (`inner`).

    kind: "pointwise" (no inner axes), "rows" (reductions over inner), "contract" (a matrix product).
    stores: (value, dims, buffer) to be written. traced_columns: at the main case; 0 if not known.
    """

    kind: str
    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...] = ()
    depth: int = 0
    stores: list[tuple[Value, Dims, Buffer]] = field(default_factory=list)
    traced_columns: int = 0

    @property
    def rows(self) -> frozenset[Axis]:
        return frozenset(leaves(self.outer))

    @property
    def columns(self) -> frozenset[Axis]:
        return frozenset(leaves(self.inner))

    def values(self) -> list[Value]:
        """All values that the stores need, operands before users."""
        return ancestors([value for value, _, _ in self.stores])


def ancestors(roots: Iterable[Value]) -> list[Value]:
    """The roots and all that they are made of, each once, operands before users."""
    seen: dict[Value, None] = {}

    def visit(value: Value) -> None:
        if value in seen:
            return
        for argument in value.args:
            visit(argument)
        seen[value] = None

    for root in roots:
        visit(root)
    return list(seen)


@dataclass(eq=False)
class TorchCall:
    """An operation that no region covers, left to torch (a hybrid candidate).

    arguments, keywords: as fx has them, with Buffers in place of nodes and host text in `Text`.
    """

    target: str  # "torch.ops.aten.convolution.default"
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    outputs: list[Buffer]
    node: Any = None

    @property
    def depth(self) -> int:
        return max((b.depth for b in buffers_in((self.arguments, self.keywords))), default=0)


@dataclass(frozen=True)
class Text:
    """Host code that stands for a size."""

    code: str


def buffers_in(value: Any) -> Iterator[Buffer]:
    if isinstance(value, Buffer):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from buffers_in(item)
    elif isinstance(value, dict):
        yield from buffers_in(list(value.values()))
