"""Matrix products: mma, wgmma and wmma, with the fragment sizes of every shape and type."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from dataclasses import dataclass

from ..ptx.ir import Instruction
from . import block_scale
from .registry import Operands, collective, unsupported

ELEMENT_BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4,
    "b1": 1, "f32": 32, "s32": 32, "f64": 64,
}  # fmt: skip
# operand type -> accumulator types
_ACCUMULATORS = {
    "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "e4m3": ("f16", "f32"),
    "e5m2": ("f16", "f32"), "s8": ("s32",), "u8": ("s32",), "s4": ("s32",), "u4": ("s32",),
    "b1": ("s32",), "f64": ("f64",),
}  # fmt: skip
MMA_SHAPES = {
    "f16": ((16, 8, 8), (16, 8, 16)), "bf16": ((16, 8, 8), (16, 8, 16)),
    "tf32": ((16, 8, 4), (16, 8, 8)), "e4m3": ((16, 8, 16), (16, 8, 32)),
    "e5m2": ((16, 8, 16), (16, 8, 32)), "s8": ((8, 8, 16), (16, 8, 16), (16, 8, 32)),
    "u8": ((8, 8, 16), (16, 8, 16), (16, 8, 32)), "s4": ((8, 8, 32), (16, 8, 32), (16, 8, 64)),
    "u4": ((8, 8, 32), (16, 8, 32), (16, 8, 64)),
    "b1": ((8, 8, 128), (16, 8, 128), (16, 8, 256)),
    "f64": ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)),
}  # fmt: skip
SPARSE_SHAPES = {
    **dict.fromkeys(("f16", "bf16"), ((16, 8, 16), (16, 8, 32))), "tf32": ((16, 8, 8), (16, 8, 16)),
    **dict.fromkeys(("e4m3", "e5m2"), ((16, 8, 64),)),
    **dict.fromkeys(("s8", "u8"), ((16, 8, 32), (16, 8, 64))),
    **dict.fromkeys(("s4", "u4"), ((16, 8, 64), (16, 8, 128))),
}  # fmt: skip
_SAME_FAMILY = ({"e4m3", "e5m2"}, {"s8", "u8"}, {"s4", "u4"})


@dataclass(frozen=True, slots=True)
class Product:
    """The shape and the element types of D = A B + C."""

    m: int
    n: int
    k: int
    d: str
    a: str
    b: str
    c: str

    @property
    def flops(self) -> int:
        """2 m n k: of the whole product, not of one lane."""
        return 2 * self.m * self.n * self.k

    def c_text(self, flags: str = "0") -> str:
        """The product as a C initializer of VgMma."""
        names = ", ".join(f"VG_E_{t.upper()}" for t in (self.a, self.b, self.c, self.d))
        return f"{{{self.m}, {self.n}, {self.k}, {names}, {flags}}}"


def product_of(ins: Instruction) -> Product:
    """The product of an mma, wgmma or wmma.mma instruction.

    Raises UnsupportedInstruction where the modifiers name no shape or too few types.
    """
    shape = next((m for m in ins.modifiers if re.fullmatch(r"m\d+n\d+k\d+", m)), None)
    types = [m for m in ins.modifiers if m in ELEMENT_BITS]
    if shape is None:
        raise unsupported(ins, "it names no shape")
    m, n, k = map(int, re.findall(r"\d+", shape))
    if ins.opcode == "wgmma" and len(types) == 3:  # D is C
        types.append(types[0])
    if ins.opcode == "wmma" and len(types) == 2:  # f16 operands are not named
        types = [types[0], "f16", "f16", types[1]]
    if len(types) != 4:
        raise unsupported(ins, "it must name the types of D, A, B and C")
    return Product(m, n, k, *types)


def _check_types(ins: Instruction, p: Product) -> None:
    mixed = p.a != p.b and not any({p.a, p.b} <= family for family in _SAME_FAMILY)
    sums = _ACCUMULATORS.get(p.a, ())
    if mixed or p.c not in sums or p.d not in sums:
        raise unsupported(ins, f"no product of {p.a} and {p.b} with {p.c} gives {p.d}")


def _flags(ins: Instruction) -> str:
    flags = [name for name, here in (("VG_MMA_SATURATE", ins.has("satfinite")),
                                     ("VG_MMA_AND", ins.has("and"))) if here]  # fmt: skip
    return " | ".join(flags) or "0"


def _registers(rows: int, columns: int, name: str) -> int:
    """Registers of a fragment: 32-bit ones, 64-bit ones for f64."""
    return rows * columns * ELEMENT_BITS[name] // 32 // (64 if name == "f64" else 32)


def _expect(ins: Instruction, operands: Operands, counts: dict[int, int]) -> None:
    for index, count in counts.items():
        if operands.width(index) != count:
            raise unsupported(
                ins, f"operand {index + 1} has {operands.width(index)} registers, not {count}"
            )


@collective("mma")
def mma(ins: Instruction, operands: Operands) -> str:
    if block_scale.is_kind(ins):
        return block_scale.product(ins, operands)
    p = product_of(ins)
    _check_types(ins, p)
    if ins.has("sp", "sp::ordered_metadata"):
        return _sparse(ins, operands, p)
    if (p.m, p.n, p.k) == (8, 8, 4) and p.a == "f16":
        return _volta(ins, operands, p)
    if (p.m, p.n, p.k) not in MMA_SHAPES[p.a] or not ins.has("row") or not ins.has("col"):
        raise unsupported(
            ins, f"no m{p.m}n{p.n}k{p.k} with row-major A and column-major B of {p.a}"
        )
    counts = [_registers(p.m, p.n, p.d), _registers(p.m, p.k, p.a), _registers(p.k, p.n, p.b),
              _registers(p.m, p.n, p.c)]  # fmt: skip
    _expect(ins, operands, dict(enumerate(counts)))
    bits, suffix = (64, "_f64") if p.a == "f64" else (32, "")
    arrays = ", ".join(operands.vector(i, bits) for i in range(4))
    shape = f"static const VgMma shape = {p.c_text(_flags(ins))};"
    return f"{shape} vg_mma{suffix}(&shape, mask, {arrays});"


def _volta(ins: Instruction, operands: Operands, p: Product) -> str:
    """m8n8k4 of f16: four products in a warp, each operand in either layout."""
    layouts = [m for m in ins.modifiers if m in ("row", "col")]
    if len(layouts) != 2:
        raise unsupported(ins, "it must name the layouts of A and B")
    _expect(ins, operands, {0: 4 if p.d == "f16" else 8, 1: 2, 2: 2, 3: 4 if p.c == "f16" else 8})
    arrays = ", ".join(operands.vector(i, 32) for i in range(4))
    turned = f"{int(layouts[0] == 'col')}, {int(layouts[1] == 'row')}"
    return (
        f"static const VgMma shape = {p.c_text()}; vg_mma_volta(&shape, {turned}, mask, {arrays});"
    )


def selector_of(ins: Instruction, name: str, k: int, selector: int) -> int:
    """The sparsity selector, checked: it names a lane of a quad, a pair of lanes, or nothing."""
    bits = ELEMENT_BITS[name]
    row_bits = 4 * k // (2 if bits == 32 else 8 if bits == 4 else 4)
    choices = {16: 4, 32: 2, 64: 1}[row_bits]
    if not 0 <= selector < choices:
        raise unsupported(
            ins, f"the sparsity selector is {selector}, allowed are 0 to {choices - 1}"
        )
    return selector


def _sparse(ins: Instruction, operands: Operands, p: Product) -> str:
    if (
        (p.m, p.n, p.k) not in SPARSE_SHAPES.get(p.a, ())
        or not ins.has("row")
        or not ins.has("col")
    ):
        raise unsupported(
            ins, f"no sparse m{p.m}n{p.n}k{p.k} with row-major A and column-major B of {p.a}"
        )
    counts = [_registers(p.m, p.n, p.d), _registers(p.m, p.k // 2, p.a), _registers(p.k, p.n, p.b),
              _registers(p.m, p.n, p.c)]  # fmt: skip
    _expect(ins, operands, dict(enumerate(counts)))
    selector = selector_of(ins, p.a, p.k, operands.constant(5))
    arrays = ", ".join(operands.vector(i, 32) for i in range(4))
    shape = f"static const VgMma shape = {p.c_text(_flags(ins))};"
    return f"{shape} vg_mma_sparse(&shape, mask, {arrays}, {operands.lanes(4, 32)}, {selector});"


# ---------------------------------------------------------------------------------------- wgmma

_WGMMA_K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32,
            "b1": 256}  # fmt: skip
_HINTS = ("fence", "commit_group", "wait_group")


@collective("wgmma")
def wgmma(ins: Instruction, operands: Operands) -> str:
    """The product is computed at issue, so the fences and groups have nothing to wait for."""
    if ins.has("commit_group"):
        return "if (w->worker->check) vg_check_product_commit(w);"
    if ins.has("wait_group"):
        return f"if (w->worker->check) vg_check_product_wait(w, {operands.constant(0)});"
    if ins.has(*_HINTS):
        return "(void)w;"
    p = product_of(ins)
    _check_types(ins, p)
    sparse = ins.has("sp")
    if p.m != 64 or not _is_width(p) or _WGMMA_K.get(p.a, 0) * (2 if sparse else 1) != p.k:
        raise unsupported(ins, f"no {'sparse ' if sparse else ''}m{p.m}n{p.n}k{p.k} of {p.a}")
    if p.a == "b1" and (sparse or not ins.has("and")):
        raise unsupported(ins, "bits are multiplied by .and.popc, and not sparse")
    in_registers = operands.width(1) > 1
    _expect(ins, operands, {0: _registers(p.m // 4, p.n, p.d)} | ({1: 4} if in_registers else {}))
    a = f"{operands.vector(1, 32)}, NULL" if in_registers else f"NULL, {operands.lanes(1, 64)}"
    first = 5 if sparse else 3
    b, scale_d = operands.lanes(2, 64), operands.lanes(first, 32)
    immediates = [operands.constant(i) for i in range(first + 1, len(operands))]
    shape = f"static const VgWgmma shape = {_wgmma_text(ins, p, immediates, in_registers)};"
    arguments = f"w, site, &shape, mask, {operands.vector(0, 32)}, {a}, {b}, {scale_d}"
    if not sparse:
        return f"{shape} if (vg_wgmma({arguments})) return NULL;"
    selector = selector_of(ins, p.a, p.k, operands.constant(4))
    return f"{shape} if (vg_wgmma_sparse({arguments}, {operands.lanes(3, 32)}, {selector})) return NULL;"


def _is_width(p: Product) -> bool:
    """n in steps of 8 to 256; integers and bits in steps of 16 above 32, as they have no 40 or 56."""
    if not 8 <= p.n <= 256 or p.n % 8:
        return False
    return ELEMENT_BITS[p.a] >= 16 or p.a in ("e4m3", "e5m2") or p.n <= 32 or p.n % 16 == 0


def _wgmma_text(ins: Instruction, p: Product, immediates: list[int], in_registers: bool) -> str:
    """C initializer of VgWgmma: scales of A and B, then which operands are transposed."""
    scales, transposes = [_sign(x) for x in immediates[:2]] or [1, 1], immediates[2:]
    if in_registers:
        transposes = [0, *transposes]
    a, b = (*transposes, 0, 0)[:2]
    if (a or b) and ELEMENT_BITS[p.a] != 16:
        raise unsupported(ins, "only 16-bit operands can be transposed")
    return f"{{{p.c_text(_flags(ins))}, {scales[0]}, {scales[1]}, {a}, {b}}}"


def _sign(immediate: int) -> int:
    return -1 if immediate >> 63 else 1


# ----------------------------------------------------------------------------------------- wmma

WMMA_SHAPES = {
    "f16": ((16, 16, 16), (32, 8, 16), (8, 32, 16)), "bf16": ((16, 16, 16), (32, 8, 16), (8, 32, 16)),
    "s8": ((16, 16, 16), (32, 8, 16), (8, 32, 16)), "u8": ((16, 16, 16), (32, 8, 16), (8, 32, 16)),
    "tf32": ((16, 16, 8),), "f64": ((8, 8, 4),),
}  # fmt: skip
NARROW_SHAPES = {"s4": ((8, 8, 32),), "u4": ((8, 8, 32),), "b1": ((8, 8, 128),)}
_SPACES = {"global": "VG_GLOBAL", "shared": "VG_SHARED", "shared::cta": "VG_SHARED"}


def _lane_bits(name: str) -> int:
    return 64 if name == "f64" else 32


def _wmma_matrix(ins: Instruction, operands: Operands, registers: int) -> tuple[str, str, int]:
    """(C initializer of VgWmma, operand's vector, index of the address) of a load or a store."""
    part = "d" if ins.has("d") else next((x for x in "abc" if ins.has(x)), None)
    shape = next((m for m in ins.modifiers if re.fullmatch(r"m\d+n\d+k\d+", m)), None)
    name = next((m for m in ins.modifiers if m in ELEMENT_BITS), None)
    if part is None or shape is None or name is None:
        raise unsupported(ins, "it must name a matrix, a shape and a type")
    if ELEMENT_BITS[name] < 8:
        raise unsupported(ins, "elements below a byte are not there")
    m, n, k = map(int, re.findall(r"\d+", shape))
    rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}[part]
    space = next((c for s, c in _SPACES.items() if ins.has(s)), "VG_GENERIC")
    count = operands.width(registers)
    _expect_fragment(ins, count, _registers(rows, columns, name))
    text = f"{{{rows}, {columns}, VG_E_{name.upper()}, {int(ins.has('col'))}, {space}, {count}}}"
    vector = operands.vector(registers, _lane_bits(name))
    return f"static const VgWmma shape = {text};", f"(void *const *){vector}", 1 - registers


def _expect_fragment(ins: Instruction, count: int, needed: int) -> None:
    """A fragment holds its matrix once or, in some shapes of f16, several times."""
    if count < needed or count % needed:
        raise unsupported(ins, f"a fragment of {count} registers, not {needed}")


def _narrow_load(ins: Instruction, operands: Operands, name: str) -> str:
    """wmma.load of 4- or 1-bit elements: rows of A and columns of B lie in 16 bytes."""
    part, layout, shape = ("a", "row", "m8n8k") if ins.has("a") else ("b", "col", "m8n8k")
    if (
        not ins.has(part)
        or not ins.has(layout)
        or not ins.has(f"{shape}{128 // ELEMENT_BITS[name]}")
    ):
        raise unsupported(ins, "A must be row-major and B column-major, of m8n8k32 or m8n8k128")
    _expect(ins, operands, {0: 1})
    space = next((c for s, c in _SPACES.items() if ins.has(s)), "VG_GENERIC")
    stride = operands.lanes(2, 32) if len(operands) > 2 else "NULL"
    register = f"({operands.vector(0, 32)})[0]"
    arguments = (
        f"w, site, {space}, {ELEMENT_BITS[name]}, mask, {register}, {operands.address(1)}, {stride}"
    )
    return f"if (vg_wmma_narrow_load({arguments})) return NULL;"


def _narrow(ins: Instruction, operands: Operands, p: Product) -> str:
    _expect(ins, operands, {0: 2, 1: 1, 2: 1, 3: 2})
    if p.a == "b1" and not ins.has("popc"):
        raise unsupported(ins, "bits are multiplied by .xor.popc or .and.popc")
    d, a, b, c = (operands.vector(i, 32) for i in range(4))
    shape = f"static const VgMma shape = {p.c_text(_flags(ins))};"
    return f"{shape} vg_wmma_narrow(&shape, mask, {d}, ({a})[0], ({b})[0], {c});"


@collective("wmma")
def wmma(ins: Instruction, operands: Operands) -> str:
    narrow = next((m for m in ins.modifiers if m in ("s4", "u4", "b1")), None)
    if ins.has("load") and narrow:
        return _narrow_load(ins, operands, narrow)
    if ins.has("load"):
        return _wmma_memory(ins, operands, 0, "vg_wmma_load")
    if ins.has("store"):
        return _wmma_memory(ins, operands, 1, "vg_wmma_store")
    p = product_of(ins)
    _check_types(ins, p)
    if (p.m, p.n, p.k) not in (WMMA_SHAPES | NARROW_SHAPES).get(p.a, ()):
        raise unsupported(ins, f"no m{p.m}n{p.n}k{p.k} of {p.a}")
    if narrow:
        return _narrow(ins, operands, p)
    sizes = ((p.m, p.n, p.d), (p.m, p.k, p.a), (p.k, p.n, p.b), (p.m, p.n, p.c))
    for i, size in enumerate(sizes):
        _expect_fragment(ins, operands.width(i), _registers(*size))
    counts = ", ".join(str(operands.width(i)) for i in range(4))
    arrays = ", ".join(
        f"(void *const *){operands.vector(i, _lane_bits(t))}"
        for i, t in enumerate((p.d, p.a, p.b, p.c))
    )
    shape = f"static const VgMma shape = {p.c_text(_flags(ins))};"
    widths = f"static const uint8_t sizes[4] = {{{counts}}};"
    return f"{shape} {widths} vg_wmma_mma(&shape, sizes, mask, {arrays});"


def _wmma_memory(ins: Instruction, operands: Operands, registers: int, function: str) -> str:
    shape, vector, address = _wmma_matrix(ins, operands, registers)
    stride = operands.lanes(2, 32) if len(operands) > 2 else "NULL"
    arguments = f"w, site, &shape, mask, {vector}, {operands.address(address)}, {stride}"
    return f"{shape} if ({function}({arguments})) return NULL;"
