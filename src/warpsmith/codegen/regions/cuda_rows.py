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

# rung -> who works on a row; the other rungs are named after that
MAPPINGS = {"vector": "block", "cached": "block", "online": "block", "cached_warp": "warp"}
KEPT = ("cached", "cached_warp")


def rows(
    region: Region, name: str, rung: str, parameters: Mapping[str, Any], about: dict[str, Any]
) -> Kernel:
    """A row program. `rung` is the mapping: "thread", "warp", "block", "vector", "cached",
    "cached_warp", "online", "tile" (columns far apart in memory), or "split" (two stages)."""
    layout = prepare(region, one_pass=rung == "online")
    extra = extents(layout)
    arguments = arguments_of(layout, extra)
    vector = widest_vector(layout) if rung in ("vector", "online", *KEPT) else 1
    mapping = MAPPINGS.get(rung, rung)
    program = Program(layout)
    taken = {a.name for a in arguments} | RESERVED
    sections = sections_of(Body(layout, taken, vector > 1, extra), program)
    reduces = program.reduces
    kept = None
    if rung in KEPT:
        held = prepare(region, kept=True)
        held_program = Program(held)
        kept = sections_of(CachedBody(held, taken, vector > 1, extents(held)), held_program)
        reduces = [*reduces, *held_program.reduces]
    checks = vector_checks(layout, Body(layout, set(), True)) if vector > 1 else ""
    text = [*sections.text(), *(kept.text() if kept else []), checks]
    arguments = used_arguments(arguments, text)
    threads = 32 * parameters["warps"] if rung == "cached_warp" else parameters["block"]
    context = {
        "name": name,
        "about": about,
        "headers": headers_of(layout),
        "helpers": sorted(set(helper_names(layout)) | reducer_helpers(reduces)),
        "reducers": reducer_names(reduces),
        "limits": sorted({CTYPES[r.compute] for r in reduces}),
        "mapping": mapping,
        "block": threads,
        "width": parameters.get("width", 32),
        "items": parameters.get("items", parameters.get("packs", 1)),
        "vector": vector,
        "streaming": sections,
        "kept": kept,
        "parameters": parameter_list(arguments),
        "names": ", ".join(a.name for a in arguments),
        "checks": checks,
    }
    if rung == "split":
        return _split(layout, program, arguments, context, parameters, name)
    per_block, launch = 1, str(threads)
    if mapping == "thread":
        per_block = threads
    elif mapping == "warp":
        per_block = threads // 32
        launch = f"(32, {per_block})"
    elif mapping == "tile":
        per_block = parameters["width"]
        launch = f"({per_block}, {threads // per_block})"
    grid = grid_text("rows", per_block, parameters)
    return Kernel(name, render("rows.cu.j2", **context), tuple(arguments), grid, launch)


def reducer_names(reduces: list[Value]) -> list[str]:
    return sorted({REDUCTIONS[r.detail[0]].struct for r in reduces})


def reducer_helpers(reduces: list[Value]) -> set[str]:
    kinds = {r.detail[0] for r in reduces}
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

    before: row-level statements. states: (struct, name) to declare. packs: declarations of packs that
    are read. declared: of packs that are filled. lines: statements of one element. written: what is
    done with filled packs. totals: (state, its number among the row's totals, the statement that
    takes its result).
    """

    before: list[str]
    states: list[tuple[str, str]]
    coordinates: list[str]
    packs: list[str]
    declared: list[str]
    lines: list[str]
    written: list[str]
    totals: list[tuple[str, int, str]]


@dataclass
class Sections:
    """The passes of a row program, then what is written once a row.

    reading: where the row is kept, the pass that reads it. caches: (type, name) of what is kept.
    """

    row_coordinates: list[str]
    caches: list[tuple[str, str]]
    reading: Pass | None
    passes: list[Pass]
    after: list[str]
    row_stores: list[str]

    def text(self) -> list[str]:
        """All statements, in no order that matters."""
        passes = [self.reading, *self.passes] if self.reading else self.passes
        each = [p.before + p.coordinates + p.packs + p.lines + p.written for p in passes]
        return [
            *self.row_coordinates,
            *self.after,
            *self.row_stores,
            *(line for p in each for line in p),
        ]

    @property
    def lone_total(self) -> bool:
        """Whether a row has one total, so that no other total's barrier stands between two rows'."""
        return sum(len(p.totals) for p in self.passes) == 1


def sections_of(body: Body, program: Program) -> Sections:
    """The text of a row program, pass by pass."""
    layout = body.layout
    caches, reading = body.keep() if isinstance(body, CachedBody) else ([], None)
    outside = program.outside()
    passes: list[Pass] = []
    ready: set[Value] = set()
    slots = 0

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
        declared, written = [], []
        for reduce, (_, state) in zip(reduces, states):
            given = body.operand_text(reduce.args[0], reduce.compute)
            if body.vector and reduce.detail[0] == "welford":
                pack = body.names.fresh(f"{reduce.name or 'total'}_values")
                declared.append(f"{CTYPES[reduce.compute]} {pack}[V];")
                lines.append(f"{pack}[v] = {given};")
                written.append(f"{state}.add_pack({pack});")
                continue
            place = ", col" + (" + v" if body.vector else "")
            where = place if reduce.detail[0].startswith("arg") else ""
            lines.append(f"{state}.add({given}{where});")
        packs = body.pack_loads(inside)
        totals = []
        for reduce, (_, state) in zip(reduces, states):
            form = REDUCTIONS[reduce.detail[0]].result.format(state)
            name = body.names.of(reduce, reduce.name or reduce.detail[0])
            totals.append((state, slots, f"const {result_type(reduce)} {name} = {form};"))
            slots += 1
            ready.add(reduce)
        coordinates = unravel(layout.cols, "col", body.used)
        passes.append(Pass(head, states, coordinates, packs, declared, lines, written, totals))
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
    row_coordinates = unravel(layout.rows, "row", body.used)
    return Sections(row_coordinates, caches, reading, passes, head, row_stores)


class CachedBody(Body):
    """A body that reads what varies along a row into registers before its first pass.

    All loads are then in flight before the first one is waited for.
    """

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.slots: dict[Value, str] = {}  # what is kept -> where

    def keeps(self, value: Value) -> bool:
        used = self.layout.uses(self.layout.loads[value])
        return any(i in self.layout.cols for i in used) and (
            not self.layout.rows or any(i in self.layout.rows for i in used)
        )

    def keep(self) -> tuple[list[tuple[str, str]], Pass | None]:
        """The arrays to declare as (type, name), and the pass that fills them; None for no array."""
        held = [v for v in self.layout.loads if self.keeps(v)]
        if not held:
            return [], None
        names = [self.names.fresh(f"{v.detail[0].name}_kept") for v in held]
        place = "item * V + v" if self.vector else "item"
        slots = {v: f"{name}[{place}]" for v, name in zip(held, names)}
        lines = [f"{slot} = {self.loaded(v)};" for v, slot in slots.items()]
        packs = self.pack_loads(held)
        coordinates = unravel(self.layout.cols, "col", self.used)
        self.slots = slots
        caches = [(CTYPES[register_dtype(v)], name) for v, name in zip(held, names)]
        return caches, Pass([], [], coordinates, packs, [], lines, [], [])

    def loaded(self, value: Value) -> str:
        return self.slots.get(value) or super().loaded(value)

    def pack_loads(self, values: list[Value]) -> list[str]:
        return super().pack_loads([v for v in values if v not in self.slots])


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
