"""Write values as CUDA C++ statements: what all kinds of CUDA kernels share."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

from .expressions import (
    BYTES,
    CTYPES,
    HEADERS,
    OPS,
    cuda_literal,
    functions,
    is_float,
)
from .ir import Region, Value, leaves
from .layout import Index, Layout, Operand, layout_of
from .simplify import merged, online, two_passes
from .writer import (
    Argument,
    Names,
    linear_count,
    offset,
    register_dtype,
    size_name_of,
    store_name,
)

INFINITY = (cuda_literal(float("inf"), "float32"), cuda_literal(float("inf"), "float64"))

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


def prepare(region: Region, one_pass: bool = False, kept: bool = False) -> Layout:
    """Simplified values of a region and where its tensors lie.

    one_pass: softmax by its running pair. kept: rows stay in registers, so variances take two passes.
    """
    tidy = merged(region)
    if kept:
        tidy = merged(two_passes(tidy))
    if one_pass:
        tidy = online(tidy) or tidy
        tidy = merged(tidy)
    return layout_of(tidy, tidy.values())


def widest_vector(layout: Layout) -> int:
    """Elements in a 16-byte access of the widest tensor that runs along the inner index; 1 if none."""
    inner = (layout.cols or layout.rows)[-1] if (layout.cols or layout.rows) else None
    if inner is None or any(_counts_across(v, inner) for v in layout.values):
        return 1
    sizes = [BYTES[o.buffer.dtype] for o in layout.operands() if layout.contiguous_along(o, inner)]
    whole = all(
        inner not in layout.uses(o) or layout.contiguous_along(o, inner) for o in layout.operands()
    )
    return 16 // max(sizes) if sizes and whole else 1


def _counts_across(value: Value, inner: Index) -> bool:
    """Whether a counter moves along the inner index by more than 1 a step."""
    if value.op != "iota" or not set(inner.axes) & set(leaves(value.detail)):
        return False
    return leaves(value.detail)[-1] is not inner.axes[-1]


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
