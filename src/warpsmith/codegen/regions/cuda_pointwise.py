"""Write a pointwise region as a CUDA C++ file, with or without transposed operands."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cuda import (
    RESERVED,
    Body,
    headers_of,
    parameter_list,
    prepare,
    unravel,
    vector_checks,
    widest_vector,
)
from .expressions import CTYPES
from .ir import Region, Value
from .kernel import Kernel, grid_text, render, used_arguments
from .layout import Index, Layout, Operand
from .writer import arguments_of, extents, helper_names, needs_statement, offset, register_dtype


def pointwise(
    region: Region, name: str, rung: int, parameters: Mapping[str, Any], about: dict[str, Any]
) -> Kernel:
    """A chain of pointwise operations. Rungs: 1 naive, 2 grid stride, 3 packs of 16 bytes."""
    layout = prepare(region)
    extra = extents(layout)
    arguments = arguments_of(layout, extra)
    vector = rung >= 3
    body = Body(layout, {a.name for a in arguments} | RESERVED, vector, extra)
    declared, written = body.pack_stores(layout.stores)
    packs = body.pack_loads(layout.values)
    lines = [body.statement(v) for v in layout.values if needs_statement(v)]
    lines += [body.stored(v, o) for v, o in layout.stores]
    coordinates = unravel(layout.rows, "row", body.used)
    checks = vector_checks(layout, body) if vector else ""
    spoken = [*coordinates, *declared, *packs, *lines, *written, checks]
    arguments = used_arguments(arguments, spoken)
    text = render(
        "pointwise.cu.j2",
        name=name,
        about=about,
        headers=headers_of(layout),
        helpers=helper_names(layout),
        reducers=[],
        rung=rung,
        block=parameters["block"],
        vector=widest_vector(layout) if vector else 1,
        whole=len(layout.rows) == 1,
        inner=layout.rows[-1].size_name if layout.rows else "rows",
        parameters=parameter_list(arguments),
        names=", ".join(a.name for a in arguments),
        coordinates=coordinates,
        declared=declared,
        packs=packs,
        lines=lines,
        written=written,
        checks=checks,
    )
    block = parameters["block"]
    per_thread = {1: 1, 2: 1, 3: widest_vector(layout)}[rung] * parameters.get("unroll", 1)
    grid = grid_text("rows", block * per_thread, parameters)
    return Kernel(name, text, tuple(arguments), grid, str(block))


def crossing(layout: Layout) -> Index | None:
    """The index along which some tensor of a pointwise region is contiguous instead of the last."""
    if len(layout.rows) < 2 or any(
        not layout.contiguous_along(o, layout.rows[-1]) for _, o in layout.stores
    ):
        return None
    for operand in layout.loads.values():
        for index in layout.rows[:-1]:
            if layout.contiguous_along(operand, index) and layout.rows[-1] in layout.uses(operand):
                return index
    return None


class CrossedBody(Body):
    """A body that finds its transposed operands in shared tiles."""

    def __init__(self, layout: Layout, taken: set[str], extra: dict[str, Any], index: Index):
        super().__init__(layout, taken, False, extra)
        self.index = index

    def crosses(self, operand: Operand) -> bool:
        return self.layout.contiguous_along(operand, self.index) and self.inner in self.layout.uses(
            operand
        )

    def loaded(self, value: Value) -> str:
        operand = self.layout.loads[value]
        if not self.crosses(operand):
            return super().loaded(value)
        tile = f"{operand.buffer.name}_tile[threadIdx.x][threadIdx.y + down]"
        return self._cast(tile, CTYPES[operand.buffer.dtype], CTYPES[register_dtype(value)])


def transpose(
    region: Region, name: str, parameters: Mapping[str, Any], about: dict[str, Any]
) -> Kernel:
    """A pointwise region with transposed operands, which pass through padded tiles."""
    layout = prepare(region)
    layout.linear = False
    extra = extents(layout)
    arguments = arguments_of(layout, extra)
    across = crossing(layout)
    assert across is not None, "only for a region with a transposed operand"
    taken = {a.name for a in arguments} | RESERVED | {"down", "outer", "tiles", "tile"}
    body = CrossedBody(layout, taken, extra, across)
    lines = [body.statement(v) for v in layout.values if needs_statement(v)]
    lines += [body.stored(v, o) for v, o in layout.stores]
    crossed = {o.buffer.name: o for o in layout.loads.values() if body.crosses(o)}
    tiles = [(CTYPES[o.buffer.dtype], n, offset(layout, o, body.used)) for n, o in crossed.items()]
    last = layout.rows[-1]
    others = [i for i in layout.rows if i not in (across, last)]
    body.used.update(i.name for i in others)
    coordinates = unravel(others, "outer", body.used) if len(others) > 1 else [
        f"const Index {i.name} = outer;" for i in others
    ]  # fmt: skip
    arguments = used_arguments(
        arguments, [*lines, *coordinates, *(t[2] for t in tiles), across.size_name, last.size_name]
    )
    text = render(
        "transpose.cu.j2",
        name=name,
        about=about,
        headers=headers_of(layout),
        helpers=helper_names(layout),
        vector=1,
        tile=parameters["tile"],
        depth=parameters["depth"],
        across=across,
        last=last,
        outer=bool(others),
        tiles=tiles,
        coordinates=coordinates,
        lines=lines,
        parameters=parameter_list(arguments),
    )
    tile = parameters["tile"]
    whole = f"blocks({across.size_name}, {tile}) * blocks({last.size_name}, {tile})"
    grid = f"rows // ({across.size_name} * {last.size_name}) * {whole}" if others else whole
    return Kernel(name, text, tuple(arguments), grid, f"({tile}, {parameters['depth']})")
