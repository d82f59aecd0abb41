"""tcgen05 of sm_100: tensor memory, and matrix products into it (PTX ISA, section tcgen05)."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from ..ptx.ir import Address, Instruction, Vector
from .registry import Operands, collective, unsupported

_SHAPES = {"32x32b": (0, 1), "16x64b": (1, 1), "16x128b": (2, 2), "16x256b": (3, 4), "16x32bx2": (4, 1)}  # fmt: skip
"""Shape -> its number in rt/collective.h, registers of a lane for .x1."""
_COPIES = {"128x256b": (128, 2), "4x256b": (4, 2), "128x128b": (128, 1), "64x128b": (64, 1),
           "32x128b": (32, 1)}  # fmt: skip
"""Shape -> rows, 16-byte pieces of a row."""
_NARROW = {"b6x16_p32": 6, "b4x16_p64": 4}
_SPREAD = {"64x128b": ("warpx2::02_13", "warpx2::01_23"), "32x128b": ("warpx4",)}
_KINDS = {"f16": "F16", "tf32": "TF32", "f8f6f4": "F8", "i8": "I8", "mxf8f6f4": "F8", "mxf4": "F4",
          "mxf4nvf4": "F4"}  # fmt: skip
_BLOCKS = {
    "mxf8f6f4": {"": 32, "scale_vec::1X": 32, "block32": 32},
    "mxf4": {"": 32, "scale_vec::2X": 32, "block32": 32},
    "mxf4nvf4": {"scale_vec::2X": 32, "block32": 32, "scale_vec::4X": 16, "block16": 16},
}
"""Kind -> how the instruction says it -> elements that share a scale."""
_GROUPS = ("cta_group::1", "cta_group::2")
_NOTHING = ("wait::ld", "wait::st", "fence::before_thread_sync", "fence::after_thread_sync")


def _only(ins: Instruction, *known: str) -> None:
    for modifier in ins.modifiers[1:]:
        if modifier not in known and not modifier.startswith("collector::"):
            raise unsupported(ins, f"'.{modifier}' is not one of its known forms")


def _pair(ins: Instruction) -> int:
    return int(ins.has("cta_group::2"))


def _first(operands: Operands, index: int, bits: int = 32) -> str:
    """The value of an operand or an address in the first active lane."""
    if isinstance(operands.raw(index), Address):
        return f"(uint32_t)({operands.address(index)})[first]"
    return f"({operands.lanes(index, bits)})[first]"


_LEAD = "const int first = __builtin_ctz(mask); "


@collective("tcgen05")
def tcgen05(ins: Instruction, operands: Operands) -> str:
    """Everything takes effect at issue, so waits and fences have nothing to wait for."""
    name = ins.modifiers[0]
    if name in _NOTHING:
        return "(void)w;"
    if name not in _RULES:
        raise unsupported(ins, "this tcgen05 operation")
    return _RULES[name](ins, operands)


def _alloc(ins: Instruction, operands: Operands) -> str:
    _only(ins, "sync", "aligned", "b32", "shared::cta", *_GROUPS)
    space = "VG_SHARED" if ins.has("shared::cta") else "VG_GENERIC"
    columns = _first(operands, 1)
    return (
        f"{_LEAD} const uint32_t columns = {columns};\n"
        f"  switch (vg_tmem_alloc(w, site, {space}, {operands.address(0)}, columns)) {{\n"
        "    case VG_TENSOR_FULL: return vg_park(o, w);\n"
        "    case VG_TENSOR_FAULT: return NULL;\n    default: break;\n  }"
    )


def _dealloc(ins: Instruction, operands: Operands) -> str:
    _only(ins, "sync", "aligned", "b32", *_GROUPS)
    values = f"{_first(operands, 0)}, {_first(operands, 1)}"
    return f"{_LEAD} if (vg_tmem_dealloc(w, site, {values})) return NULL;"


def _relinquish(ins: Instruction, operands: Operands) -> str:
    _only(ins, "sync", "aligned", *_GROUPS)
    return "vg_tmem_relinquish(w);"


def _move(ins: Instruction, operands: Operands) -> str:
    """ld and st: registers of the warp and its quarter of the lanes."""
    loads = ins.modifiers[0] == "ld"
    packing = "pack::16b" if loads else "unpack::16b"
    repeats = next((m for m in ins.modifiers if m[0] == "x" and m[1:].isdigit()), "x1")
    shape = next((m for m in ins.modifiers if m in _SHAPES), None)
    if shape is None:
        raise unsupported(ins, f"one of the shapes {', '.join(_SHAPES)} is needed")
    _only(ins, "sync", "aligned", "b32", packing, repeats, shape)
    number, each = _SHAPES[shape]
    split = shape == "16x32bx2"
    data, address = (0, 1) if loads else (1 + split, 0)
    count = each * int(repeats[1:])
    if count > 128 or operands.width(data) != count:
        raise unsupported(ins, f"{operands.width(data)} registers, not {count}")
    half = operands.constant(2 if loads else 1) if split else 0
    form = f"static const VgTensorShape form = {{{number}, {count}, {int(ins.has(packing))}}};"
    values = f"{_first(operands, address)}, {half}, {operands.vector(data, 32)}"
    function = f"vg_tmem_{'load' if loads else 'store'}"
    return f"{_LEAD} {form} if ({function}(w, site, &form, mask, {values})) return NULL;"


def _each(statements: str) -> str:
    """Every active thread issues the instruction."""
    return (
        "for (uint32_t rest = mask; rest; rest &= rest - 1) {\n"
        f"    const int first = __builtin_ctz(rest); {statements}\n  }}"
    )


def _cp(ins: Instruction, operands: Operands) -> str:
    shape = next((m for m in ins.modifiers if m in _COPIES), None)
    if shape is None:
        raise unsupported(ins, f"one of the shapes {', '.join(_COPIES)} is needed")
    spread = next((m for m in ins.modifiers if m in _SPREAD.get(shape, ())), None)
    if shape in _SPREAD and spread is None:
        raise unsupported(ins, f"'.{shape}' needs one of .{', .'.join(_SPREAD[shape])}")
    _only(ins, shape, spread or shape, "b8x16", *_NARROW, *_GROUPS)
    bits = next((b for m, b in _NARROW.items() if ins.has(m)), 0)
    rows, chunks = _COPIES[shape]
    form = f"{{{_pair(ins)}, {rows}, {chunks}, {int(spread == 'warpx2::02_13')}, {bits}}}"
    values = f"{_first(operands, 0)}, {_first(operands, 1, 64)}"
    return f"static const VgTensorCopy form = {form}; " + _each(
        f"if (vg_tmem_copy(w, site, &form, (uint32_t)first, {values})) return NULL;"
    )


def _shift(ins: Instruction, operands: Operands) -> str:
    _only(ins, "down", *_GROUPS)
    values = f"(uint32_t)first, {_pair(ins)}, {_first(operands, 0)}"
    return _each(f"if (vg_tmem_shift(w, site, {values})) return NULL;")


def _commit(ins: Instruction, operands: Operands) -> str:
    _only(ins, "mbarrier::arrive::one", "shared::cluster", "b64", "multicast::cluster", *_GROUPS)
    many, generic = ins.has("multicast::cluster"), not ins.has("shared::cluster")
    blocks = f"({operands.lanes(1, 16)})[first]" if many else "0"
    return _each(
        f"const uint64_t barrier = ({operands.address(0)})[first]; "
        f"if (vg_tmem_commit(w, site, (uint32_t)first, barrier, {int(generic)}, {int(many)}, "
        f"{blocks})) return NULL;"
    )


def _mma(ins: Instruction, operands: Operands) -> str:
    kind = next((m[6:] for m in ins.modifiers if m.startswith("kind::")), "")
    if kind not in _KINDS:
        raise unsupported(ins, f"one of the kinds {', '.join(_KINDS)} is needed")
    block = _block(ins, kind)
    _only(ins, f"kind::{kind}", "block_scale", "ws", *_BLOCKS.get(kind, ()), *_GROUPS)
    in_tensor = isinstance(operands.raw(1), Address)
    fields = {"d": _first(operands, 0), "a": _first(operands, 1, 64), "b": _first(operands, 2, 64),
              "descriptor": _first(operands, 3)}  # fmt: skip
    rest = list(range(4, len(operands)))
    disabled = rest.pop(0) if isinstance(operands.raw(rest[0]), Vector) else None
    if block:
        fields |= {"scale_a": _first(operands, rest.pop(0)), "scale_b": _first(operands, rest.pop(0))}  # fmt: skip
    fields["enable"] = _first(operands, rest.pop(0))
    if rest and not ins.has("ws"):
        fields["scale_d"] = str(operands.constant(rest.pop(0)))
    if rest:
        raise unsupported(ins, "its last operand")
    form = f"{{VG_TENSOR_{_KINDS[kind]}, {_pair(ins)}, {int(in_tensor)}, {block}, {int(ins.has('ws'))}}}"
    lines = ["VgTensorOperands t = {0};"] + [f"t.{name} = {text};" for name, text in fields.items()]
    lines += _disabled(operands, disabled)
    lines.append("if (vg_tmem_mma(w, site, &form, (uint32_t)first, &t)) return NULL;")
    return f"static const VgTensorMma form = {form}; " + _each("\n    ".join(lines))


def _block(ins: Instruction, kind: str) -> int:
    """Elements that share a scale; 0 for kinds without scales."""
    if (kind in _BLOCKS) != ins.has("block_scale"):
        raise unsupported(ins, f"'.kind::{kind}' {'needs' if kind in _BLOCKS else 'has no'} .block_scale")  # fmt: skip
    if kind not in _BLOCKS:
        return 0
    said = next((m for m in ins.modifiers if m in _BLOCKS[kind]), "")
    if said not in _BLOCKS[kind]:
        raise unsupported(ins, "it must say how many elements share a scale")
    return _BLOCKS[kind][said]


def _disabled(operands: Operands, index: int | None) -> list[str]:
    if index is None:
        return []
    count = operands.width(index)
    return [
        f"uint32_t *const *words = {operands.vector(index, 32)};",
        "uint32_t disabled[8] = {0};",
        f"for (int i = 0; i < {count}; i++) disabled[i] = words[i][first];",
        "t.disabled = disabled;",
    ]


_RULES = {
    "alloc": _alloc, "dealloc": _dealloc, "relinquish_alloc_permit": _relinquish, "ld": _move,
    "st": _move, "cp": _cp, "shift": _shift, "commit": _commit, "mma": _mma,
}  # fmt: skip
