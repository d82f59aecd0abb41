"""Write a region as a Triton kernel: the same values and layouts as in `cuda`, over blocks."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cuda import RESERVED, prepare
from .cuda_product import product_of
from .expressions import COMPARISONS, OPS, TRITON_TYPES, is_float, triton_literal
from .ir import Region, Value
from .kernel import Kernel, grid_text, render, used_arguments
from .layout import Index, Layout, Operand
from .writer import (
    Argument,
    Names,
    Program,
    arguments_of,
    extents,
    linear_count,
    needs_statement,
    offset,
    register_dtype,
    size_name_of,
    store_name,
)

TAKEN = RESERVED | {
    "tl",
    "triton",
    "libdevice",
    "mask",
    "row_mask",
    "col_mask",
    "BLOCK",
    "ROWS",
    "start",
    "pid",
}
TAKEN |= {
    "torch",
    "ws",
    "blocks",
    "run",
    "inputs",
    "state",
    "range",
    "DEPTH",
    "total",
    "k",
    "batch",
    "left",
    "right",
}


class Body:
    """Statements of one Triton kernel. mask_of: which mask guards a tensor, by the spaces it uses."""

    def __init__(
        self,
        layout: Layout,
        taken: set[str],
        extra: dict[str, Any],
        masks: Mapping[frozenset[str], str],
    ):
        self.layout, self.extra, self.masks = layout, extra, masks
        self.names = Names(taken)
        self.used: set[str] = set()
        self.many = len(layout.stores) > 1

    def operand_text(self, value: Value, dtype: str) -> str:
        if value.op == "const":
            text = triton_literal(value.detail, dtype)
            return f"({text})" if text.startswith("-") else text
        if value.op == "size":
            name = size_name_of(self.layout, value.detail, self.extra)
            # a size of 1 is a Python int inside the kernel, which has no .to
            return f"tl.cast({name}, {TRITON_TYPES[dtype]})" if is_float(dtype) else name
        if value.op == "iota":
            text = linear_count(self.layout, value, self.used)
            return f"({text}).to({TRITON_TYPES[dtype]})" if dtype != "int64" else f"({text})"
        held, name = register_dtype(value), self.names.given[value]
        if held == dtype or (value.op == "reduce" and value.detail[0] in ("welford", "online")):
            return name
        return f"({name} != 0)" if dtype == "bool" else f"{name}.to({TRITON_TYPES[dtype]})"

    def expression(self, value: Value) -> str:
        if value.op == "cast":
            return self.operand_text(value.args[0], register_dtype(value))
        form = OPS[value.op].triton
        operands = [self.operand_text(a, self._wanted(value, k)) for k, a in enumerate(value.args)]
        if value.op in ("maximum", "minimum") and not is_float(value.compute):
            form = form.partition(", propagate")[0] + ")"
        if value.op == "sqrt" and value.compute == "float64":
            form = "tl.sqrt({0})"
        if value.op == "logical_not":
            form = "{0} == 0"
        text = form.format(*operands)
        if value.op == "sign":
            text = f"({text}).to({TRITON_TYPES[value.compute]})"
        return text

    def _wanted(self, value: Value, place: int) -> str:
        boolean = value.op == "where" and place == 0
        return (
            "bool"
            if boolean or value.op in ("logical_and", "logical_or", "logical_xor")
            else value.compute
        )

    def statement(self, value: Value) -> str:
        if value.op == "load":
            name = self.names.of(value, f"{value.detail[0].name}_value")
            return f"{name} = {self.loaded(value)}"
        text = self.expression(value)
        name = self.names.of(value, value.name.strip("_") or value.op)
        return f"{name} = {text}"

    def loaded(self, value: Value) -> str:
        operand = self.layout.loads[value]
        held, wanted = operand.buffer.dtype, register_dtype(value)
        if operand.buffer.scalar:
            return f"tl.cast({operand.buffer.name}, {TRITON_TYPES[wanted]})"
        at = offset(self.layout, operand, self.used)
        mask = self.mask(operand)
        text = (
            f"tl.load({operand.buffer.name} + {at}{mask})"
            if at != "0"
            else f"tl.load({operand.buffer.name})"
        )
        return text if held == wanted else f"{text}.to({TRITON_TYPES[wanted]})"

    def mask(self, operand: Operand, store: bool = False) -> str:
        spaces = {
            s.name
            for s in self.layout.spaces
            if any(i in s.indices for i in self.layout.uses(operand))
        }
        mask = self.masks.get(frozenset(spaces), "")
        return f", mask={mask}" + ("" if store else ", other=0") if mask else ""

    def stored(self, value: Value, operand: Operand) -> str:
        text = self.operand_text(value, register_dtype(value))
        name = store_name(operand, self.many)
        at = offset(self.layout, operand, self.used)
        mask = self.mask(operand, store=True)
        if at == "0":
            return f"tl.store({name} + row * 0, {text}{mask or ', mask=row_mask'})"
        return f"tl.store({name} + {at}, {text}{mask})"


def unravel(indices: list[Index], linear: str, used: set[str]) -> list[str]:
    """Statements that take a linear index apart into the coordinates that are used."""
    if len(indices) < 2 or not any(i.name in used for i in indices):
        return []
    lines, rest = [], linear
    for place in range(len(indices) - 1, -1, -1):
        index = indices[place]
        text = rest if place == 0 else f"{rest} % {index.size_name}"
        if index.name in used:
            lines.append(f"{index.name} = {text}")
        rest = f"{rest} // {index.size_name}"
    return lines


def parameter_names(arguments: list[Argument]) -> str:
    return ", ".join(a.name for a in arguments)


def pointwise(
    region: Region, name: str, parameters: Mapping[str, Any], about: dict[str, Any]
) -> Kernel:
    """A chain of pointwise operations over one block of elements."""
    layout = prepare(region)
    extra = extents(layout)
    arguments = arguments_of(layout, extra)
    body = Body(layout, {a.name for a in arguments} | TAKEN, extra, {frozenset({"row"}): "mask"})
    lines = [body.statement(v) for v in layout.values if needs_statement(v)]
    lines += [body.stored(v, o).replace("mask=row_mask", "mask=mask") for v, o in layout.stores]
    coordinates = unravel(layout.rows, "row", body.used)
    arguments = used_arguments(arguments, [*lines, *coordinates])
    text = render(
        "pointwise_triton.py.j2",
        name=name,
        about=about,
        parameters=parameter_names(arguments),
        lines=[*coordinates, *lines],
    )
    options = {"BLOCK": parameters["block"], "num_warps": parameters["num_warps"]}
    return Kernel(
        name,
        text,
        tuple(arguments),
        f"(blocks(rows, {parameters['block']}),)",
        "",
        parameters=options,
    )


# how a reduction's state starts and takes one value `v` of a block under a mask; see the templates
# for how two states merge
STATES: dict[str, tuple[tuple[str, str], ...]] = {
    "sum": (("total", "0"),),
    "prod": (("total", "1"),),
    "max": (("total", "{least}"),),
    "min": (("total", "{greatest}"),),
    "any": (("total", "0"),),
    "all": (("total", "1"),),
    "argmax": (("best", "{least}"), ("index", "0x7FFFFFFFFFFFFFFF")),
    "argmin": (("best", "{greatest}"), ("index", "0x7FFFFFFFFFFFFFFF")),
    "welford": (("mean", "0"), ("m2", "0"), ("count", "0")),
    "online": (("maximum", "float('-inf')"), ("total", "0")),
}
UPDATES: dict[str, tuple[str, ...]] = {
    "sum": ("{s}_total += tl.where(mask, {v}, 0)",),
    "prod": ("{s}_total *= tl.where(mask, {v}, 1)",),
    "max": ("{s}_total = larger({s}_total, tl.where(mask, {v}, {least}))",),
    "min": ("{s}_total = smaller({s}_total, tl.where(mask, {v}, {greatest}))",),
    "any": ("{s}_total |= tl.where(mask, {v}, 0).to(tl.int32)",),
    "all": ("{s}_total &= tl.where(mask, {v}, 1).to(tl.int32)",),
    "argmax": (
        "{s}_best, {s}_index = larger_place({s}_best, {s}_index, tl.where(mask, {v}, {least}), "
        "tl.where(mask, col, 0x7FFFFFFFFFFFFFFF))",
    ),
    "argmin": (
        "{s}_best, {s}_index = smaller_place({s}_best, {s}_index, tl.where(mask, {v}, {greatest}), "
        "tl.where(mask, col, 0x7FFFFFFFFFFFFFFF))",
    ),
    "welford": (
        "{s}_count += tl.where(mask, 1.0, 0.0)",
        "{s}_delta = tl.where(mask, {v} - {s}_mean, 0.0)",
        "{s}_mean += {s}_delta / tl.maximum({s}_count, 1.0)",
        "{s}_m2 += {s}_delta * tl.where(mask, {v} - {s}_mean, 0.0)",
    ),
    "online": (
        "{s}_top = larger({s}_maximum, tl.where(mask, {v}, float('-inf')))",
        "{s}_total *= tl.where({s}_maximum == {s}_top, 1.0, tl.exp({s}_maximum - {s}_top))",
        "{s}_total += tl.where(mask & ({v} != float('-inf')), tl.exp({v} - {s}_top), 0.0)",
        "{s}_maximum = {s}_top",
    ),
}
MERGES = {
    "sum": "plus",
    "prod": "times",
    "max": "larger",
    "min": "smaller",
    "any": "either",
    "all": "both",
    "argmax": "larger_place",
    "argmin": "smaller_place",
    "welford": "merged_moments",
    "online": "merged_softmax",
}
NEEDED = {"merged_softmax": ("larger",), "larger_place": (), "smaller_place": ()}
FIELDS = {"argmax": "index", "argmin": "index"}


def bounds(dtype: str) -> dict[str, str]:
    """Texts of a dtype's least and greatest values."""
    if is_float(dtype):
        return {"least": "float('-inf')", "greatest": "float('inf')"}
    bits = {"int64": 64, "int32": 32, "int16": 16, "int8": 8}.get(dtype)
    if bits is None:
        return {"least": "0", "greatest": "1" if dtype == "bool" else "255"}
    return {"least": f"-{hex(2 ** (bits - 1))}", "greatest": hex(2 ** (bits - 1) - 1)}


def rows(
    region: Region, name: str, rung: str, parameters: Mapping[str, Any], about: dict[str, Any]
) -> Kernel:
    """A row program. rung: "loop" (columns in blocks), "online", or "whole" (a row in one block,
    kept in registers, with the loop behind it for rows that are too long)."""
    layout = prepare(region, one_pass=rung == "online")
    extra = extents(layout)
    arguments = arguments_of(layout, extra)
    program = Program(layout)
    loop = _row_passes(layout, program, arguments, extra, keep=False)
    whole = _row_passes(layout, program, arguments, extra, keep=True) if rung == "whole" else None
    arguments = used_arguments(
        arguments, [line for p in loop["passes"] for line in p.all()] + loop["text"]
    )
    text = render(
        "rows_triton.py.j2",
        name=name,
        about=about,
        parameters=parameter_names(arguments),
        merges=_merges(program),
        loop=loop,
        whole=whole,
    )
    options = {
        "ROWS": parameters["rows"],
        "BLOCK": parameters["block"],
        "num_warps": parameters["num_warps"],
    }
    grid = f"({grid_text('rows', parameters['rows'], {})},)"
    if rung != "whole":
        return Kernel(name, text, tuple(arguments), grid, "", parameters=options)
    widest = parameters["widest"]
    options["BLOCK"] = "BLOCK"
    setup = (
        "BLOCK = max(16, 1 << (cols - 1).bit_length())  # the whole row, if that is not too much",
        f"kernel = {name} if BLOCK <= {widest} else {name}_long",
        f"BLOCK = min(BLOCK, {widest})",
    )
    return Kernel(name, text, tuple(arguments), grid, "kernel", setup, parameters=options)


class Pass:
    """One pass over the columns; lists of statements."""

    def __init__(
        self,
        before: list[str],
        starts: list[str],
        coordinates: list[str],
        lines: list[str],
        after: list[str],
    ):
        self.before, self.starts, self.coordinates = before, starts, coordinates
        self.lines, self.after = lines, after

    def all(self) -> list[str]:
        return [*self.before, *self.starts, *self.coordinates, *self.lines, *self.after]


def _row_passes(
    layout: Layout, program: Program, arguments: list[Argument], extra: dict[str, Any], keep: bool
) -> dict[str, Any]:
    """The passes of a row program. keep: the row is one block, so what is known stays known."""
    masks = {
        frozenset({"row", "col"}): "mask",
        frozenset({"col"}): "col_mask",
        frozenset({"row"}): "row_mask",
    }
    body = Body(layout, {a.name for a in arguments} | TAKEN, extra, masks)
    outside = program.outside()
    ready: set[Value] = set()
    passes: list[Pass] = []

    def before(level: int) -> list[str]:
        due = [
            v
            for v in outside
            if v not in ready and program.levels[v] <= level and needs_statement(v)
        ]
        ready.update(due)
        return [body.statement(v) for v in due if v.op != "reduce"]

    def inside(roots: list[Value]) -> list[str]:
        wanted = [
            v for v in program.inside(roots) if needs_statement(v) and not (keep and v in ready)
        ]
        if keep:
            ready.update(wanted)
        return [body.statement(v) for v in wanted]

    for phase in range(program.phases):
        head = before(phase)
        reduces = program.reduced_in(phase)
        lines = inside([r.args[0] for r in reduces])
        starts, after = [], []
        for reduce in reduces:
            kind = reduce.detail[0]
            state = body.names.of(reduce, reduce.name or kind)
            limits = bounds(reduce.compute)
            given = body.operand_text(reduce.args[0], reduce.compute)
            for part, start in STATES[kind]:
                dtype = (
                    "tl.int64"
                    if part == "index"
                    else "tl.int32"
                    if kind in ("any", "all")
                    else TRITON_TYPES[reduce.compute]
                )
                starts.append(
                    f"{state}_{part} = tl.full([ROWS, BLOCK], {start.format(**limits)}, {dtype})"
                )
            lines += [u.format(s=state, v=given, **limits) for u in UPDATES[kind]]
            after += _merged(state, reduce)
            ready.add(reduce)
        passes.append(Pass(head, starts, unravel(layout.cols, "col", body.used), lines, after))
    head = before(program.phases)
    if program.full_stores:
        lines = inside([v for v, _ in program.full_stores])
        lines += [body.stored(v, o) for v, o in program.full_stores]
        passes.append(Pass(head, [], unravel(layout.cols, "col", body.used), lines, []))
        head = []
    stores = [body.stored(v, o) for v, o in program.row_stores]
    rows_apart = unravel(layout.rows, "row", body.used)
    return {
        "passes": passes,
        "coordinates": rows_apart,
        "after": [*head, *stores],
        "text": [*rows_apart, *head, *stores],
    }


def _merged(state: str, reduce: Value) -> list[str]:
    """Statements that merge a block's states along the columns."""
    kind = reduce.detail[0]
    parts = [f"{state}_{part}" for part, _ in STATES[kind]]
    given = parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
    lines = [f"{', '.join(parts)} = tl.reduce({given}, 1, {MERGES[kind]}, keep_dims=True)"]
    if kind in ("welford", "online"):
        return lines
    result = f"{state}_{FIELDS.get(kind, 'total')}"
    if kind in ("any", "all"):
        return [*lines, f"{state} = {result} != 0"]
    wanted = TRITON_TYPES[register_dtype(reduce)]
    cast = (
        ""
        if kind.startswith("arg") or reduce.compute == register_dtype(reduce)
        else f".to({wanted})"
    )
    return [*lines, f"{state} = {result}{cast}"]


def _merges(program: Program) -> list[str]:
    """Names of the merging functions that a row program uses."""
    names = {MERGES[r.detail[0]] for r in program.reduces}
    return sorted(names | {n for name in names for n in NEEDED.get(name, ())})


def product(
    region: Region, name: str, parameters: Mapping[str, Any], about: dict[str, Any]
) -> Kernel:
    """A matrix product by `tl.dot` in full precision, with its epilogue."""
    layout = prepare(region)
    extra = extents(layout)
    arguments = arguments_of(layout, extra)
    total = product_of(layout)
    masks = {
        frozenset({"row", "col"}): "mask",
        frozenset({"row"}): "row < rows",
        frozenset({"col"}): "col < cols",
    }
    masks |= {k | {"batch"}: v for k, v in masks.items()}
    body = Body(layout, {a.name for a in arguments} | TAKEN, extra, masks)
    body.names.given[total] = "total"
    factors = set(total.args)
    later = [v for v in layout.values if v.op != "contract" and v not in factors]
    later += [a for v in later for a in v.args if a in factors]
    lines = [body.statement(v) for v in layout.values if v in set(later) and needs_statement(v)]
    lines += [body.stored(v, o) for v, o in layout.stores]
    left, right = (layout.loads[a] for a in total.args)
    used: set[str] = set()
    places = (offset(layout, left, used), offset(layout, right, used))
    spaces = {s.name: s.indices for s in layout.spaces}
    apart = {n: unravel(i, n, used | body.used) for n, i in spaces.items()}
    spoken = [*lines, *places, *(line for group in apart.values() for line in group)]
    arguments = used_arguments(arguments, spoken)
    dtype = left.buffer.dtype
    text = render(
        "product_triton.py.j2",
        name=name,
        about=about,
        parameters=parameter_names(arguments),
        left=(left.buffer.name, places[0]),
        right=(right.buffer.name, places[1]),
        accumulate=TRITON_TYPES[register_dtype(total)],
        same=dtype == right.buffer.dtype,
        exact=dtype in ("float32", "float64"),
        apart=apart,
        lines=lines,
    )
    p = parameters
    options = {
        "ROWS": p["rows"],
        "COLS": p["cols"],
        "DEPTH": p["depth"],
        "num_warps": p["num_warps"],
        "num_stages": p["num_stages"],
    }
    grid = f"(batches * blocks(rows, {p['rows']}) * blocks(cols, {p['cols']}),)"
    return Kernel(name, text, tuple(arguments), grid, "", parameters=options)


__all__ = ["COMPARISONS", "pointwise", "product", "rows"]
