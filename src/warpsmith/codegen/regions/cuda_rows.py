"""Write a row program as a CUDA C++ file."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
from .expressions import BYTES, CTYPES, REDUCTIONS
from .ir import Region, Value
from .kernel import Kernel, grid_text, render, used_arguments
from .layout import Layout
from .writer import (
    Argument,
    Program,
    arguments_of,
    extents,
    helper_names,
    needs_statement,
    register_dtype,
)


def rows(
    region: Region, name: str, rung: str, parameters: Mapping[str, Any], about: dict[str, Any]
) -> Kernel:
    """A row program. `rung` is the mapping: "thread", "warp", "block", "vector", "cached", "online",
    "tile" (columns far apart in memory), or "split" (two stages)."""
    layout = prepare(region, one_pass=rung == "online")
    extra = extents(layout)
    arguments = arguments_of(layout, extra)
    vector = widest_vector(layout) if rung in ("vector", "cached", "online") else 1
    mapping = {"vector": "block", "cached": "block", "online": "block"}.get(rung, rung)
    program = Program(layout)
    cached = rung == "cached"
    taken = {a.name for a in arguments} | RESERVED
    sections = sections_of(layout, program, taken, vector > 1, cached=False, extra=extra)
    kept = (
        sections_of(layout, program, taken, vector > 1, cached=True, extra=extra)
        if cached
        else None
    )
    checks = vector_checks(layout, Body(layout, set(), True)) if vector > 1 else ""
    arguments = used_arguments(arguments, [*sections.text(), checks])
    context = {
        "name": name,
        "about": about,
        "headers": headers_of(layout),
        "helpers": sorted(set(helper_names(layout)) | reducer_helpers(program)),
        "reducers": reducer_names(program),
        "limits": sorted({CTYPES[r.compute] for r in program.reduces}),
        "mapping": mapping,
        "block": parameters["block"],
        "width": parameters.get("width", 32),
        "items": parameters.get("items", 1),
        "vector": vector,
        "streaming": sections,
        "kept": kept,
        "parameters": parameter_list(arguments),
        "names": ", ".join(a.name for a in arguments),
        "checks": checks,
    }
    if rung == "split":
        return _split(layout, program, arguments, context, parameters, name, extra)
    block, per_block = parameters["block"], 1
    launch = str(block)
    if mapping == "thread":
        per_block = block
    elif mapping == "warp":
        per_block = block // 32
        launch = f"(32, {per_block})"
    elif mapping == "tile":
        per_block = parameters["width"]
        launch = f"({per_block}, {block // per_block})"
    grid = grid_text("rows", per_block, parameters)
    return Kernel(name, render("rows.cu.j2", **context), tuple(arguments), grid, launch)


def reducer_names(program: Program) -> list[str]:
    return sorted({REDUCTIONS[r.detail[0]].struct for r in program.reduces})


def reducer_helpers(program: Program) -> set[str]:
    kinds = {r.detail[0] for r in program.reduces}
    return {
        h for k, h in (("max", "nan_max"), ("min", "nan_min"), ("online", "nan_max")) if k in kinds
    }


def struct_of(reduce: Value) -> str:
    """The C++ type that a reduction accumulates in: `Sum<float>`."""
    return f"{REDUCTIONS[reduce.detail[0]].struct}<{CTYPES[reduce.compute]}>"


def result_type(reduce: Value) -> str:
    if reduce.detail[0] in ("welford", "online"):
        return struct_of(reduce)
    return CTYPES[register_dtype(reduce)]


@dataclass
class Pass:
    """One phase: what stands before its loop, in it, and after it.

    before: row-level statements. states: (struct, name) to declare. loads: pack declarations. lines:
    statements of one element. totals: (state, the statement that takes its result).
    """

    before: list[str]
    states: list[tuple[str, str]]
    coordinates: list[str]
    packs: list[str]
    declared: list[str]
    lines: list[str]
    written: list[str]
    totals: list[tuple[str, str]]


@dataclass
class Sections:
    """The passes of a row program, then what is written once a row."""

    row_coordinates: list[str]
    caches: list[tuple[str, str]]  # (type, name)
    passes: list[Pass]
    after: list[str]
    row_stores: list[str]

    def text(self) -> list[str]:
        """All statements, in no order that matters."""
        each = [p.before + p.coordinates + p.packs + p.lines + p.written for p in self.passes]
        return [
            *self.row_coordinates,
            *self.after,
            *self.row_stores,
            *(line for p in each for line in p),
        ]


def sections_of(
    layout: Layout,
    program: Program,
    taken: set[str],
    vector: bool,
    cached: bool,
    extra: dict[str, Any],
) -> Sections:
    """The text of a row program, pass by pass. With `cached`, each column tensor is read once."""
    body = (
        CachedBody(layout, taken, vector, extra) if cached else Body(layout, taken, vector, extra)
    )
    outside = program.outside()
    passes: list[Pass] = []
    ready: set[Value] = set()

    def before(level: int) -> list[str]:
        due = [
            v
            for v in outside
            if v not in ready and program.levels[v] <= level and needs_statement(v)
        ]
        ready.update(due)
        return [body.statement(v) for v in due if v.op != "reduce"]

    for phase in range(program.phases):
        head = before(phase)
        reduces = program.reduced_in(phase)
        inside = program.inside([r.args[0] for r in reduces])
        states = [(struct_of(r), body.names.fresh(f"{r.name or 'total'}_state")) for r in reduces]
        lines = [body.statement(v) for v in inside if needs_statement(v)]
        for reduce, (_, state) in zip(reduces, states):
            given = body.operand_text(reduce.args[0], reduce.compute)
            where = (
                ", col" + (" + v" if vector else "") if reduce.detail[0].startswith("arg") else ""
            )
            lines.append(f"{state}.add({given}{where});")
        packs = body.pack_loads(inside)
        totals = []
        for reduce, (_, state) in zip(reduces, states):
            form = REDUCTIONS[reduce.detail[0]].result.format(state)
            name = body.names.of(reduce, reduce.name or reduce.detail[0])
            totals.append((state, f"const {result_type(reduce)} {name} = {form};"))
            ready.add(reduce)
        coordinates = unravel(layout.cols, "col", body.used)
        passes.append(Pass(head, states, coordinates, packs, [], lines, [], totals))
        body.end_pass(inside)
    head = before(program.phases)
    if program.full_stores:
        inside = program.inside([v for v, _ in program.full_stores])
        lines = [body.statement(v) for v in inside if needs_statement(v)]
        lines += [body.stored(v, o) for v, o in program.full_stores]
        declared, written = body.pack_stores(program.full_stores)
        packs = body.pack_loads(inside)
        coordinates = unravel(layout.cols, "col", body.used)
        passes.append(Pass(head, [], coordinates, packs, declared, lines, written, []))
        head = []
    row_stores = [body.stored(v, o) for v, o in program.row_stores]
    caches = body.caches if isinstance(body, CachedBody) else []
    return Sections(unravel(layout.rows, "row", body.used), caches, passes, head, row_stores)


class CachedBody(Body):
    """A body that keeps what it reads of a row in registers from the first pass on."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.kept: set[Value] = set()
        self.caches: list[tuple[str, str]] = []

    def keeps(self, value: Value) -> bool:
        used = self.layout.uses(self.layout.loads[value])
        return any(i in self.layout.cols for i in used) and (
            not self.layout.rows or any(i in self.layout.rows for i in used)
        )

    def loaded(self, value: Value) -> str:
        if not self.keeps(value):
            return super().loaded(value)
        name = f"{value.detail[0].name}_kept"
        slot = f"{name}[item * V + v]" if self.vector else f"{name}[item]"
        if value in self.kept:
            return slot
        cache = (CTYPES[register_dtype(value)], name)
        if cache not in self.caches:
            self.caches.append(cache)
        return f"{slot} = {super().loaded(value)}"

    def pack_loads(self, values: list[Value]) -> list[str]:
        return super().pack_loads([v for v in values if v not in self.kept])

    def end_pass(self, inside: list[Value]) -> None:
        self.kept.update(v for v in inside if v.op == "load" and self.keeps(v))


def state_bytes(reduce: Value) -> int:
    """Size of a reduction's struct in memory."""
    kind = reduce.detail[0]
    if kind in ("argmax", "argmin"):
        return 16
    fields = len(REDUCTIONS[kind].fields)
    return fields * BYTES[reduce.compute]


def _split(
    layout: Layout,
    program: Program,
    arguments: list[Argument],
    context: dict[str, Any],
    parameters: Mapping[str, Any],
    name: str,
    extra: dict[str, Any],
) -> Kernel:
    """Two stages: blocks reduce chunks of the columns, then a warp merges the chunks of each row."""
    block, width = parameters["block"], parameters.get("width", 32)
    tiled = not layout.coalesced_cols
    chunk = parameters["chunk"]
    bytes_each = [state_bytes(r) for r in program.reduced_in(0)]
    text = render("split.cu.j2", tiled=tiled, chunk=chunk, bytes_each=bytes_each, **context)
    offsets = " + ".join(f"-(-rows * splits * {b} // 16) * 16" for b in bytes_each)
    setup = (f"splits = max(1, -(-cols // {chunk}))",)
    per_block = width if tiled else 1
    first = Kernel(
        f"{name}_partial",
        text,
        tuple(arguments),
        f"blocks(rows, {per_block}) * splits",
        f"({width}, {block // width})" if tiled else str(block),
        setup,
        scratch=offsets,
    )
    second = Kernel(f"{name}_merge", "", tuple(arguments), "blocks(rows, 4)", "(32, 4)")
    return Kernel(**{**first.__dict__, "second": second})
