"""Write a matrix product with its epilogue as a CUDA C++ file."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .cuda import RESERVED, Body, headers_of, parameter_list, prepare, unravel
from .expressions import BYTES, CTYPES
from .ir import Region, Value
from .kernel import Kernel, render, used_arguments
from .layout import Layout, Operand
from .writer import arguments_of, extents, helper_names, needs_statement, offset, register_dtype

TAKEN = RESERVED | {"k", "batch", "total", "depth", "batches", "tile", "warp", "group", "pair"}


@dataclass
class Side:
    """One factor of the product as a template needs it.

    at: its element at (batch, row or col, k), coordinates taken apart by `coordinates`. along: the
    coordinate whose neighbors are neighbors in memory ("row", "col", "k"), or "" if none is.
    step: text of the stride of the other coordinate. base: offset of the batch.
    """

    name: str
    ctype: str
    at: str
    coordinates: list[str]
    along: str
    step: str
    base: str
    simple: bool


def product_of(layout: Layout) -> Value:
    return next(v for v in layout.values if v.op == "contract")


def side(layout: Layout, value: Value, far: str) -> Side:
    """far: "row" for the left factor, "col" for the right one."""
    operand = layout.loads[value]
    used: set[str] = set()
    text = offset(layout, operand, used)
    coordinates = _taken_apart(layout, used)
    space = {s.name: s for s in layout.spaces}
    simple = all(len(space[n].indices) == 1 for n in (far, "k"))
    along, step, base = "", "", "0"
    if simple:
        k, other = space["k"].indices[0], space[far].indices[0]
        if layout.contiguous_along(operand, k):
            along, step = "k", _stride_text(layout, operand, other)
        elif layout.contiguous_along(operand, other):
            along, step = far, _stride_text(layout, operand, k)
        terms = [t for t in text.split(" + ") if t.startswith("batch")]
        base = " + ".join(terms) or "0"
    buffer = operand.buffer
    return Side(
        buffer.name,
        CTYPES[buffer.dtype],
        f"{buffer.name}[{text}]",
        coordinates,
        along,
        step,
        base,
        bool(along),
    )


def _stride_text(layout: Layout, operand: Operand, index: Any) -> str:
    return " * ".join(layout.stride(operand, index)) or "1"


def _taken_apart(layout: Layout, used: set[str]) -> list[str]:
    return [line for s in layout.spaces for line in unravel(s.indices, s.name, used)]


def product(
    region: Region, name: str, rung: str, parameters: Mapping[str, Any], about: dict[str, Any]
) -> Kernel:
    """rung: "naive", "shared", "registers" or "tensor"."""
    layout = prepare(region)
    extra = extents(layout)
    arguments = arguments_of(layout, extra)
    total = product_of(layout)
    body = Body(layout, {a.name for a in arguments} | TAKEN, False, extra)
    body.names.given[total] = "total"
    factors = set(total.args)
    later = [v for v in layout.values if v.op not in ("contract",) and v not in factors]
    reused = {a for v in later for a in v.args} & factors
    lines = [
        body.statement(v)
        for v in layout.values
        if (v in later or v in reused) and needs_statement(v)
    ]
    lines += [body.stored(v, o) for v, o in layout.stores]
    coordinates = [
        line for line in _taken_apart(layout, body.used) if not line.startswith("const Index k_")
    ]
    left, right = side(layout, total.args[0], "row"), side(layout, total.args[1], "col")
    batch = list(dict.fromkeys(
        line for line in (*left.coordinates, *right.coordinates, *coordinates) if line.startswith("const Index batch_")
    ))  # fmt: skip
    if rung in ("registers", "tensor"):
        coordinates = [line for line in coordinates if line not in batch]
        left.coordinates = [line for line in left.coordinates if line not in batch]
        right.coordinates = [line for line in right.coordinates if line not in batch]
    spoken = [
        *batch,
        *lines,
        *coordinates,
        left.at,
        right.at,
        *left.coordinates,
        *right.coordinates,
    ]
    arguments = used_arguments(arguments, spoken)
    text = render(
        f"product_{rung}.cu.j2",
        name=name,
        about=about,
        headers=headers_of(layout),
        helpers=helper_names(layout),
        vector=pack_width(layout) if rung in ("registers", "tensor") else 1,
        left=left,
        right=right,
        ctype=CTYPES[register_dtype(total)],
        lines=lines,
        coordinates=coordinates,
        batch=batch,
        parameters=parameter_list(arguments),
        names=", ".join(a.name for a in arguments),
        mma="bf16" if layout.loads[total.args[0]].buffer.dtype == "bfloat16" else "f16",
        p=parameters,
    )
    return Kernel(name, text, tuple(arguments), *shape_of(rung, parameters))


def shape_of(rung: str, p: Mapping[str, Any]) -> tuple[str, str]:
    """Grid and block of a rung, as host text."""
    if rung == "naive":
        return f"blocks(batches * rows * cols, {p['block']})", str(p["block"])
    if rung == "shared":
        tile = p["tile"]
        return f"batches * blocks(rows, {tile}) * blocks(cols, {tile})", f"({tile}, {tile})"
    grid = f"batches * blocks(rows, {p['tile_rows']}) * blocks(cols, {p['tile_cols']})"
    if rung == "registers":
        threads = p["tile_rows"] * p["tile_cols"] // (p["each_rows"] * p["each_cols"])
        return grid, str(threads)
    return grid, str(32 * p["warps_rows"] * p["warps_cols"])


def pack_width(layout: Layout) -> int:
    """Elements of the factors in 16 bytes."""
    total = product_of(layout)
    return 16 // max(BYTES[layout.loads[a].buffer.dtype] for a in total.args)


def fits_tensor_cores(layout: Layout) -> bool:
    """Two factors of one 16-bit type."""
    dtypes = {layout.loads[a].buffer.dtype for a in product_of(layout).args}
    return dtypes in ({"float16"}, {"bfloat16"})
