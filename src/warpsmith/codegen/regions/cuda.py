"""Write a region as a CUDA C++ file: pointwise chains and row programs."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from .expressions import (
    BYTES,
    CTYPES,
    HEADERS,
    OPS,
    REDUCTIONS,
    cuda_literal,
    functions,
    is_float,
)
from .ir import Region, Value, leaves
from .layout import Index, Layout, Operand, layout_of
from .simplify import merged, online
from .writer import (
    Argument,
    Names,
    Program,
    arguments_of,
    extents,
    helper_names,
    linear_count,
    needs_statement,
    offset,
    register_dtype,
    size_name_of,
    store_name,
)


@dataclass(frozen=True)
class Kernel:
    """A written kernel: its text, its entry points and how the host launches it.

    grid, block: Python text over the sizes' names. The kernel is a template over its index type.
    """

    name: str
    text: str
    arguments: tuple[Argument, ...]
    grid: str
    block: str
    setup: tuple[str, ...] = ()  # host lines before the launch
    scratch: str = ""  # bytes of a scratch tensor that comes last among the arguments
    second: Kernel | None = None  # a further kernel that runs after it
    parameters: Mapping[str, Any] | None = None


INFINITY = (cuda_literal(float("inf"), "float32"), cuda_literal(float("inf"), "float64"))


@cache
def templates() -> Any:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader(__name__.rpartition(".")[0], "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )


def render(template: str, **context: Any) -> str:
    """A template's text, without runs of blank lines and with long lines folded."""
    text = templates().get_template(template).render(**context)
    blank = 2 if template.endswith(".py.j2") else 1
    text = re.sub(rf"\n{{{blank + 2},}}", "\n" * (blank + 1), text).strip()
    return "\n".join(_fold(line) for line in text.split("\n")) + "\n"


def _fold(line: str) -> str:
    """A line of at most 100 characters, continued with an indent (comments as comments)."""
    if len(line) <= 100 or '"' in line:
        return line
    comment = "//" if line.startswith("//") else "#" if line.startswith("# ") else ""
    separator = " · " if comment and " · " in line else ", "
    if separator not in line:
        return line
    indent = f"{comment}   " if comment else " " * (len(line) - len(line.lstrip()) + 4)
    opened = 0 if comment else line.find("(") + 1  # fold inside brackets only
    if not opened and not comment:
        return line
    first, *parts = line[opened:].split(separator)
    lines, current = [], line[:opened] + first
    for part in parts:
        if len(current) + len(part) + len(separator) > 99:
            lines.append(current + separator.rstrip())
            current = indent + part
        else:
            current = f"{current}{separator}{part}"
    return "\n".join([*lines, current])


TOTALS = {"batches", "rows", "cols", "depth"}


def used_arguments(arguments: list[Argument], lines: list[str]) -> list[Argument]:
    """Arguments without the sizes that no line speaks of."""
    words = set(re.findall(r"\w+", "\n".join(lines)))
    return [a for a in arguments if a.kind not in ("size", "number") or a.name in words | TOTALS]


class Body:
    """Statements of one kernel in CUDA C++."""

    def __init__(
        self,
        layout: Layout,
        taken: set[str],
        vector: bool = False,
        extra: dict[str, Any] | None = None,
    ):
        self.layout, self.extra = layout, extra or {}
        self.names = Names(taken)
        self.used: set[str] = set()
        self.vector = vector
        self.many = len(layout.stores) > 1

    def end_pass(self, inside: list[Value]) -> None:
        """Called after each pass over the columns."""

    def counter(self, value: Value) -> str:
        """What an iota counts, at the element in hand."""
        text = linear_count(self.layout, value, self.used)
        moves = self.vector and self.inner.axes[-1] in leaves(value.detail)
        return f"({text} + v)" if moves else text

    def operand_text(self, value: Value, dtype: str) -> str:
        """A value as an operand of the given compute dtype."""
        if value.op == "const":
            return self._bracket(cuda_literal(value.detail, dtype))
        if value.op == "size":
            held = "Index" if value.dtype == "int64" else "double"
            return self._cast(
                size_name_of(self.layout, value.detail, self.extra), held, CTYPES[dtype]
            )
        if value.op == "iota":
            return self._cast(self.counter(value), "Index", CTYPES[dtype])
        held = register_dtype(value)
        name = self.names.given[value]
        if held == dtype or (value.op == "reduce" and value.detail[0] in ("welford", "online")):
            return name
        return f"{name} != 0" if dtype == "bool" else self._cast(name, CTYPES[held], CTYPES[dtype])

    def _bracket(self, text: str) -> str:
        return f"({text})" if text.startswith("-") else text

    def _cast(self, text: str, held: str, wanted: str) -> str:
        return text if held == wanted else f"static_cast<{wanted}>({text})"

    def expression(self, value: Value) -> str:
        if value.op == "cast":
            return self.operand_text(value.args[0], register_dtype(value))
        op = OPS[value.op]
        operands = [self.operand_text(a, self._wanted(value, k)) for k, a in enumerate(value.args)]
        form = op.integer if op.integer and not is_float(value.compute) else op.cuda
        suffix = "" if value.compute == "float64" else "f"
        if value.op == "logical_not" and value.compute != "bool":
            return f"{operands[0]} == 0"
        return form.format(*operands, f=suffix, inf=INFINITY[value.compute == "float64"])

    def _wanted(self, value: Value, place: int) -> str:
        """The dtype in which an operand is wanted."""
        if value.op == "where" and place == 0:
            return "bool"
        if value.op in ("logical_and", "logical_or", "logical_xor"):
            return "bool"
        return value.compute

    def statement(self, value: Value) -> str:
        """One declaration: `const float shifted = x_value - maximum;`."""
        ctype = CTYPES[register_dtype(value)]
        if value.op == "load":
            name = self.names.of(value, f"{value.detail[0].name}_value")
            return f"const {ctype} {name} = {self.loaded(value)};"
        text = self.expression(value)
        name = self.names.of(value, value.name.strip("_") or value.op)
        return f"const {ctype} {name} = {text};"

    def loaded(self, value: Value) -> str:
        operand = self.layout.loads[value]
        buffer = operand.buffer
        held, wanted = CTYPES[buffer.dtype], CTYPES[register_dtype(value)]
        if buffer.scalar:
            return f"static_cast<{wanted}>({buffer.name})"
        if self.packed(operand):
            return self._cast(f"{buffer.name}_pack.at[v]", held, wanted)
        return self._cast(f"{buffer.name}[{offset(self.layout, operand, self.used)}]", held, wanted)

    def packed(self, operand: Operand) -> bool:
        return self.vector and self.layout.contiguous_along(operand, self.inner)

    @property
    def inner(self) -> Index:
        return (self.layout.cols or self.layout.rows)[-1]

    def stored(self, value: Value, operand: Operand) -> str:
        name = store_name(operand, self.many)
        text = self.operand_text(value, register_dtype(value))
        held, wanted = CTYPES[register_dtype(value)], CTYPES[operand.buffer.dtype]
        if self.packed(operand):
            return f"{name}_pack.at[v] = {self._cast(text, held, wanted)};"
        return (
            f"{name}[{offset(self.layout, operand, self.used)}] = {self._cast(text, held, wanted)};"
        )

    def pack_loads(self, values: list[Value]) -> list[str]:
        """Declarations of the packs that the given values read."""
        lines = []
        for value in values:
            operand = self.layout.loads.get(value)
            if operand is not None and self.packed(operand):
                at = f"{operand.buffer.name} + {offset(self.layout, operand, self.used)}"
                ctype = CTYPES[operand.buffer.dtype]
                lines.append(
                    f"const Pack<{ctype}, V> {operand.buffer.name}_pack = load_pack<V>({at});"
                )
        return list(dict.fromkeys(lines))

    def pack_stores(self, stores: list[tuple[Value, Operand]]) -> tuple[list[str], list[str]]:
        """Declarations of the packs to be written, and the lines that write them."""
        declared, written = [], []
        for _, operand in stores:
            if self.packed(operand):
                name = store_name(operand, self.many)
                declared.append(f"Pack<{CTYPES[operand.buffer.dtype]}, V> {name}_pack;")
                at = f"{name} + {offset(self.layout, operand, self.used)}"
                written.append(f"store_pack({at}, {name}_pack);")
        return declared, written


def unravel(indices: list[Index], linear: str, used: set[str]) -> list[str]:
    """Statements that take a linear index apart into the coordinates that are used."""
    if len(indices) < 2 or not any(i.name in used for i in indices):
        return []
    lines, rest = [], linear
    for place in range(len(indices) - 1, -1, -1):
        index = indices[place]
        if place == 0:
            text = rest
        else:
            text = f"{_group(rest)} % {index.size_name}"
        if index.name in used:
            lines.append(f"const Index {index.name} = {text};")
        rest = f"{_group(rest)} / {index.size_name}"
    return lines


def _group(text: str) -> str:
    return f"({text})" if " % " in text else text


def parameter_list(arguments: list[Argument]) -> str:
    """The parameters of a kernel, pointers restricted."""
    forms = {
        "load": "const {ctype}* __restrict__ {name}",
        "store": "{ctype}* __restrict__ {name}",
        "scalar": "{ctype} {name}",
        "number": "{ctype} {name}",
        "size": "Index {name}",
        "stride": "Index {name}",
    }
    return ", ".join(forms[a.kind].format(ctype=CTYPES[a.dtype], name=a.name) for a in arguments)


def headers_of(layout: Layout) -> list[str]:
    dtypes = {o.buffer.dtype for o in layout.operands()}
    return sorted({HEADERS[d] for d in dtypes if d in HEADERS})


def prepare(region: Region, one_pass: bool = False) -> Layout:
    """Simplified values of a region and where its tensors lie."""
    tidy = merged(region)
    if one_pass:
        tidy = online(tidy) or tidy
        tidy = merged(tidy)
    return layout_of(tidy, tidy.values())


def widest_vector(layout: Layout) -> int:
    """Elements in a 16-byte access of the widest tensor that runs along the inner index; 1 if none."""
    inner = (layout.cols or layout.rows)[-1] if (layout.cols or layout.rows) else None
    if inner is None or (layout.cols and len(layout.cols) > 1):
        return 1
    sizes = [BYTES[o.buffer.dtype] for o in layout.operands() if layout.contiguous_along(o, inner)]
    whole = all(
        inner not in layout.uses(o) or layout.contiguous_along(o, inner) for o in layout.operands()
    )
    return 16 // max(sizes) if sizes and whole else 1


def vector_checks(layout: Layout, body: Body) -> str:
    """The run-time condition under which packs may be used: alignment and whole rows."""
    checks = []
    many = len(layout.stores) > 1
    packed = [o for o in layout.operands() if body.packed(o)]
    for operand in packed:
        stored = any(o is operand for _, o in layout.stores)
        name = store_name(operand, many) if stored else operand.buffer.name
        checks.append(f"aligned<V>({name})")
        for stride in {
            s for i in layout.uses(operand) for s in layout.stride(operand, i) if "stride" in s
        }:
            checks.append(f"{stride} % V == 0")
    inner = (layout.cols or layout.rows)[-1]
    alone = len(layout.rows) == 1 and not layout.cols
    if not alone:
        checks.insert(0, f"{inner.size_name} % V == 0")
    return " && ".join(dict.fromkeys(checks))


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


MAX_BLOCKS = 2**31 - 1


def grid_text(count: str, each: int, parameters: Mapping[str, Any]) -> str:
    """Host text of a one-dimensional grid: 'blocks(rows, 256)', with a cap where one is asked for."""
    most = parameters.get("max_blocks", MAX_BLOCKS)
    return f"blocks({count}, {each})" if most == MAX_BLOCKS else f"blocks({count}, {each}, {most})"


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


RESERVED = functions()
RESERVED |= {
    "float",
    "double",
    "int",
    "bool",
    "long",
    "short",
    "char",
    "const",
    "min",
    "max",
    "free",
}
RESERVED |= {
    "row",
    "rows",
    "col",
    "cols",
    "lane",
    "v",
    "item",
    "first",
    "step",
    "active",
    "scratch",
    "chunk",
    "begin",
    "end",
    "state",
}


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
