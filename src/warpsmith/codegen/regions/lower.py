"""Turn the captured graph into values over axes, and cut it into regions while doing so.

The cutting rule: a reduction, and everything computed from it over the same rows and columns, is one
region. Where a later operation does not fit (other axes, another reduction), the region's results
are cut at the row-level values (the small ones: a maximum, a mean), which are stored; what lies
between them and the later operation is computed again there from what was loaded.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import keyword
from typing import Any

from .capture import Captured
from .expressions import CTYPES, compute_dtype, functions
from .ir import (
    Axis,
    Buffer,
    Conflict,
    Dims,
    Ref,
    Region,
    Size,
    TorchCall,
    Value,
    flat,
    leaves,
    regroup,
    unify,
)


class Unmatched(Exception):
    """An operation that no region covers; `node` is the fx node, the message says why."""

    def __init__(self, node: Any, why: str = ""):
        self.node, self.why = node, why
        super().__init__(f"{node.target}{': ' + why if why else ''}")


class Lowering:
    """The state of one walk over a graph."""

    def __init__(self, captured: Captured):
        self.captured = captured
        self.known: dict[Any, Any] = {}  # fx node -> Ref, Size, or tuple of Refs
        self.values: list[Value] = []
        self.regions: list[Region] = []
        self.calls: list[TorchCall] = []
        self.stored: dict[Value, Buffer] = {}
        self.demoted: dict[Value, Value] = {}
        self.unmatched: list[tuple[Any, str]] = []
        self.names: set[str] = set()

    # values

    def make(self, op: str, args: tuple[Value, ...] = (), **fields: Any) -> Value:
        value = Value(op, args, **fields)
        self.values.append(value)
        return value

    def name(self, wish: str) -> str:
        """A name nobody has: the wish, or the wish and a number."""
        wish = wish.strip("_") or "value"
        taken, number = wish, 1
        while taken in self.names or taken in RESERVED:
            number += 1
            taken = f"{wish}_{number}"
        self.names.add(taken)
        return taken

    def load(self, buffer: Buffer) -> Ref:
        """Read a buffer with axes of its own."""
        dims = tuple(() if s == 1 else (Axis(s),) for s in buffer.shape)
        over = tuple(axis for group in dims for axis in group)
        value = self.make(
            "load", dtype=buffer.dtype, detail=(buffer, dims), over=over, name=buffer.name
        )
        return Ref(value, dims)

    def constant(self, number: Any, dtype: str) -> Ref:
        return Ref(self.make("const", dtype=dtype, detail=number), ())

    # storing

    def store(self, ref: Ref) -> Buffer:
        """The buffer that holds a value, in the layout of its first request."""
        value = ref.value
        if value.op == "load" and direct(ref):
            return value.detail[0]
        value = self.spread(ref)
        if value in self.stored:
            return self.stored[value]
        buffer = Buffer(self.name(value.name or value.op), ref.shape, value.dtype, dims=ref.dims)
        buffer.region = self.region_of(value)
        buffer.region.stores.append((value, ref.dims, buffer))
        self.stored[value] = buffer
        return buffer

    def spread(self, ref: Ref) -> Value:
        """The value, varying over every axis of its tensor: an expanded one becomes a node of its own."""
        value = ref.value
        if set(flat(ref.dims)) <= value.axes:
            return value
        return self.copied(value, flat(ref.dims))

    def copied(self, value: Value, over: tuple[Axis, ...]) -> Value:
        """A node of its own with the same content, over these axes."""
        region = value.region
        if region is not None and not set(over) <= region.rows | region.columns:
            value, region = self.demote(value), None
        compute = compute_dtype(value.dtype)
        copy = self.make(
            "cast", (value,), dtype=value.dtype, over=over, compute=compute, name=value.name
        )
        copy.region = region
        return copy

    def output(self, ref: Ref) -> Buffer:
        """The buffer of a result: in exactly this order of dimensions, and never an input itself."""
        buffer = self.store(ref)
        same = not buffer.source and (ref.value.op == "load" or same_dims(buffer.dims, ref.dims))
        return buffer if same else self.store(Ref(self.copied(ref.value, flat(ref.dims)), ref.dims))

    def host_view(self, ref: Ref, index: str, shape: tuple[Size, ...]) -> Ref:
        """A slice, taken by torch on the tensor in memory; kernels get its strides."""
        base = self.store(ref)
        if ref.value.op != "load" and not same_dims(base.dims, ref.dims):
            base = self.store(Ref(self.copied(ref.value, flat(ref.dims)), ref.dims))
        view = Buffer(
            self.name(f"{base.name}_part"),
            shape,
            base.dtype,
            view=f"{base.name}{index}",
            base=base,
            strided=True,
        )
        return self.load(view)

    def region_of(self, value: Value) -> Region:
        """The region that computes a value; a pointwise region of its own space if it has none."""
        if value.region is not None:
            return value.region
        for region in self.regions:
            same = region.kind == "pointwise" and region.rows == value.axes
            if same and region.depth == value.depth:
                return region
        region = Region("pointwise", value.over, depth=value.depth)
        self.regions.append(region)
        return region

    def reload(self, ref: Ref) -> Ref:
        """The same tensor read from memory: with axes of its own and no region."""
        if ref.value.op == "load":
            buffer, held = ref.value.detail
        else:
            buffer = self.store(ref)
            held = buffer.dims
        again = self.load(buffer)
        return Ref(again.value, regroup_like(held, again.dims, ref.dims))

    def demote(self, value: Value) -> Value:
        """The value computed from stored row-level results instead of inside its region."""
        if value.region is None:
            return value
        if value in self.demoted:
            return self.demoted[value]
        if value.axes <= value.region.rows:
            dims = tuple((a,) for a in ordered(value.axes, value.region))
            buffer = self.store(Ref(value, dims))
            held = buffer.dims or dims
            result = self.make(
                "load",
                dtype=buffer.dtype,
                detail=(buffer, held),
                over=dims_axes(held),
                name=buffer.name,
            )
        else:
            arguments = tuple(self.demote(a) for a in value.args)
            result = self.make(
                value.op,
                arguments,
                dtype=value.dtype,
                detail=value.detail,
                over=value.over,
                name=value.name,
                compute=value.compute,
                node=value.node,
            )
        self.demoted[value] = result
        return result

    # combining

    def pointwise(self, op: str, refs: list[Ref], dtype: str, compute: str, node: Any) -> Ref:
        """op over broadcast operands. Operands that need two sets of axes at once are stored first."""
        refs = list(refs)
        for _ in range(len(refs) + 1):
            try:
                dims = self.broadcast(refs)
                break
            except Conflict as conflict:
                index = conflict.args[0] if conflict.args else len(refs) - 1
                refs[index] = self.reload(refs[index])
        else:
            raise Unmatched(node, "its operands cannot share one index space")
        values = self.same_region([r.value for r in refs], flat(dims))
        over = flat(dims)
        value = self.make(
            op,
            tuple(values),
            dtype=dtype,
            over=over,
            compute=compute,
            node=node,
            name=node_name(node),
        )
        value.region = next((v.region for v in values if v.region is not None), None)
        return Ref(value, dims)

    def broadcast(self, refs: list[Ref]) -> Dims:
        rank = max((len(r.dims) for r in refs), default=0)
        result: list[tuple[Axis, ...]] = []
        for position in range(-rank, 0):
            group: tuple[Axis, ...] = ()
            for index, ref in enumerate(refs):
                if len(ref.dims) < -position or not (own := leaves(ref.dims[position])):
                    continue
                if not group:
                    group = own
                    continue
                try:
                    unify(group, own, self.values)
                except Conflict:
                    raise Conflict(index) from None
                group = leaves(group)
            result.append(group)
        dims = tuple(leaves(g) for g in result)
        everything = [a for g in dims for a in g]
        if len(set(everything)) < len(everything):
            raise Conflict(self._repeated(refs))
        return dims

    def _repeated(self, refs: list[Ref]) -> int:
        """The last operand that is not a fresh load: storing it gives it axes of its own."""
        for index in reversed(range(len(refs))):
            if refs[index].value.op != "const" and refs[index].value.axes:
                return index
        return len(refs) - 1

    def same_region(self, values: list[Value], axes: tuple[Axis, ...]) -> list[Value]:
        """Operands that may be computed together: at most one region, and it fits the axes."""
        regions = list(dict.fromkeys(v.region for v in values if v.region is not None))
        if not regions:
            return values
        keep = max(regions, key=self.regions.index)
        others = [v for v in values if v.region is not keep]
        fits = set(axes) <= keep.rows | keep.columns
        if fits:
            lowered = [self.demote(v) for v in others]
            depth = max((v.depth for v in lowered), default=0)
            fits = self.deepen(keep, depth)
        if not fits:
            return [self.demote(v) for v in values]
        return [v if v.region is keep else self.demote(v) for v in values]

    def deepen(self, region: Region, depth: int) -> bool:
        """Let a region wait for inputs of that depth; False if somebody already reads its results."""
        if depth <= region.depth:
            return True
        if region.stores:
            return False
        region.depth = depth
        return True

    def reduce(
        self, kind: str, ref: Ref, dims: list[int], keep: bool, dtype: str, compute: str, node: Any
    ) -> Ref:
        """Reduce over dimensions. Joins the region of its operand if rows and columns are the same."""
        gone = {d % len(ref.dims) for d in dims} if ref.dims else set()
        columns = frozenset(a for d in gone for a in leaves(ref.dims[d]))
        kept = tuple(
            () if i in gone else g for i, g in enumerate(ref.dims) if keep or i not in gone
        )
        if not columns:
            raise Unmatched(node, "a reduction over dimensions of size 1")
        value = ref.value
        rows = tuple(a for d, g in enumerate(ref.dims) if d not in gone for a in leaves(g))
        if not columns <= value.axes:  # a broadcast operand: count every repetition
            value = self.copied(value, flat(ref.dims))
        region = value.region
        if region is not None and (
            region.kind != "rows" or region.columns != columns or region.rows != frozenset(rows)
        ):
            value = self.demote(value)
            region = None
        if region is None:
            inner = tuple(a for d in sorted(gone) for a in leaves(ref.dims[d]))
            region = self.rows_region(rows, inner, value.depth)
        result = self.make(
            "reduce",
            (value,),
            dtype=dtype,
            detail=(kind, tuple(columns)),
            over=tuple(a for g in kept for a in leaves(g)),
            compute=compute,
            node=node,
            name=node_name(node),
        )
        result.region = region
        return Ref(result, kept)

    def rows_region(self, rows: tuple[Axis, ...], columns: tuple[Axis, ...], depth: int) -> Region:
        for region in self.regions:
            same = region.kind == "rows" and region.columns == frozenset(columns)
            if same and region.rows == frozenset(rows) and self.deepen(region, depth):
                return region
        region = Region("rows", rows, columns, depth)
        self.regions.append(region)
        return region

    def contract(self, a: Ref, b: Ref, node: Any, dtype: str) -> Ref:
        """A (batched) matrix product over the last dimension of a and the last but one of b."""
        left, right = self.reload(a), self.reload(b)
        unify(left.dims[-1], right.dims[-2], self.values)
        for one, two in zip(left.dims[:-2], right.dims[:-2]):
            unify(one, two, self.values)
        dims = tuple(leaves(g) for g in (*left.dims[:-1], right.dims[-1]))
        inner = leaves(left.dims[-1])
        if len(set(flat(dims)) | set(inner)) < len(flat(dims)) + len(inner) or not inner:
            raise Unmatched(node, "a matrix product with a dimension of size 1 or a repeated one")
        depth = max(left.value.depth, right.value.depth)
        region = Region("contract", flat(dims), inner, depth)
        self.regions.append(region)
        value = self.make(
            "contract",
            (left.value, right.value),
            dtype=dtype,
            detail=(left.dims, right.dims),
            over=flat(dims),
            compute=compute_dtype(dtype),
            node=node,
            name=node_name(node),
        )
        value.region = region
        return Ref(value, dims)


# words that generated code uses itself
RESERVED = functions() | set(keyword.kwlist) | {"inputs", "state", "run", "torch", "ws", "triton", "tl", "libdevice", "blocks", "bits", "out", "scratch", "kernel", "row", "rows", "col", "cols", "k", "depth", "batch", "batches", "lane", "thread", "threads", "v", "V", "item", "first", "step", "active", "chunk", "begin", "end", "total", "totals", "tile", "tiles", "warp", "group", "pair", "twice", "left", "right", "start", "mask", "row_mask", "col_mask", "pid", "across", "down", "outer", "height", "element", "packs", "packed", "pack", "piece", "from", "inside", "value", "corner", "splits", "free", "auto", "bool", "char", "const", "double", "float", "int", "long", "short", "signed", "unsigned", "struct", "template", "this", "typename", "void", "volatile", "register", "union", "enum", "class", "delete", "new", "operator", "private", "public", "protected", "static", "switch", "case", "default", "do", "goto", "namespace", "using", "virtual", "friend", "inline", "extern", "typedef", "sizeof", "max", "min", "sum", "half", "half2", "div", "pow"}  # fmt: skip


def node_name(node: Any) -> str:
    return getattr(node, "name", "") or ""


def direct(ref: Ref) -> bool:
    """Whether the tensor is just its buffer: same dimensions in the same order."""
    return same_dims(ref.value.detail[1], ref.dims)


def dims_axes(dims: Dims) -> tuple[Axis, ...]:
    return tuple(axis for group in dims for axis in group)


def ordered(axes: frozenset[Axis], region: Region) -> list[Axis]:
    return [a for a in leaves(region.outer) if a in axes]


def regroup_like(held: Dims, fresh: Dims, wanted: Dims) -> Dims:
    """`wanted`, which regroups the axes of `held`, over the axes of `fresh` instead."""
    old = flat(held)
    regroup(fresh, [a.size for a in old])  # split the fresh axes as the old ones are
    renamed = dict(zip(old, flat(fresh)))
    for axis in flat(wanted):
        renamed.setdefault(axis, Axis(axis.size))  # an expanded one: in no memory
    return tuple(tuple(renamed[a] for a in leaves(group)) for group in wanted)


def same_dims(one: Dims, two: Dims) -> bool:
    return len(one) == len(two) and all(leaves(a) == leaves(b) for a, b in zip(one, two))


# what an fx argument is


def size_of(value: Any) -> Size:
    """A plain number or a sympy expression."""
    expr = getattr(getattr(value, "node", None), "expr", None)
    if expr is None:
        return value
    return int(expr) if expr.is_Integer else expr


def shape_of(node: Any) -> tuple[Size, ...]:
    return tuple(size_of(s) for s in node.meta["val"].shape)


def dtype_of(node: Any) -> str:
    name = str(node.meta["val"].dtype).removeprefix("torch.")
    if name not in CTYPES:
        raise Unmatched(node, f"dtype {name}")
    return name
