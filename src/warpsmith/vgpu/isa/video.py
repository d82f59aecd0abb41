"""Video instructions: on two halves or four bytes of a word, or on one selected part of it."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from ..ptx.ir import Instruction, Part
from . import registry
from .form import Form, alu

_OPERATIONS = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax")


@alu(" ".join(f"{o}{n}" for o in _OPERATIONS for n in (2, 4)),
     types="u32 s32", also="u32 s32", mods="sat add")  # fmt: skip
def video(form: Form, a: list[str]) -> str:
    """`vabsdiff4.u32.u32.u32.add d, a, b, c`: `.add` sums the parts onto c, else c is not used."""
    if len(form.types) != 3:
        form.refuse("it names three types: destination, a, b")
    target, x, y = form.types
    signs = [f"W_SIGNED_{n}" for n, t in (("D", target), ("A", x), ("B", y)) if t == "s32"]
    extra = [n for n, m in (("W_SATURATE", "sat"), ("W_ACCUMULATE", "add")) if form.has(m)]
    flags = " | ".join(signs + extra) or "0"
    name, lanes = form.base[:-1], form.base[-1]
    return f"w_video(W_{name.upper()}, {lanes}, {flags}, {a[0]}, {a[1]}, {a[2]})"


_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_SCALAR = ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset")
_SECOND = ("", "add", "min", "max")
_PARTS = ("", "b0", "b1", "b2", "b3", "h0", "h1")


def _flags(types: tuple[str, ...], names: str, ins: Instruction) -> str:
    signs = [f"W_SIGNED_{n}" for n, t in zip(names, types) if t == "s32"]
    extra = [n for n, m in (("W_SATURATE", "sat"), ("W_ACCUMULATE", "add")) if ins.has(m)]
    return " | ".join(signs + extra) or "0"


def _refuse_but(ins: Instruction, count: int, *known: str) -> None:
    """Refuse other modifiers, and types other than `count` of u32 and s32."""
    strange = [m for m in ins.modifiers if m not in ("u32", "s32", *known)]
    if strange or len(ins.types) != count:
        raise registry.unsupported(ins, f"'.{(*strange, 'type')[0]}' is not one of its known forms")


def _comparison(ins: Instruction) -> int:
    found = next((i for i, m in enumerate(_COMPARISONS) if ins.has(m)), None)
    if found is None:
        raise registry.unsupported(ins, f"one of {', '.join(_COMPARISONS)} is needed")
    return found


def _part(ins: Instruction, index: int) -> int:
    item = ins.operands[index]
    return _PARTS.index(item.selector) if isinstance(item, Part) else 0


@registry.alu("vset2", "vset4")
def simd_set(ins: Instruction, a: list[str]) -> str:
    """`vset4.u32.s32.lt{.add} d, a, b, c`: 1 in each part where the comparison holds."""
    _refuse_but(ins, 2, "add", *_COMPARISONS)
    return (f"w_set_video({_comparison(ins)}, {ins.opcode[-1]}, {_flags(ins.types, 'AB', ins)}, "
            f"{a[0]}, {a[1]}, {a[2]})")  # fmt: skip


@registry.alu(*_SCALAR)
def scalar(ins: Instruction, a: list[str]) -> str:
    """`vadd.d.a.b{.sat} d{.part}, a{.part}, b{.part}{, c}`, with `.add`, `.min` or `.max` onto c."""
    is_set = ins.opcode == "vset"
    _refuse_but(ins, 2 if is_set else 3, "sat", *_SECOND[1:], *_COMPARISONS, "clamp", "wrap")
    how = _comparison(ins) if is_set else int(ins.has("wrap"))
    second = next((i for i, m in enumerate(_SECOND) if i and ins.has(m)), 0)
    parts = _part(ins, 1) | _part(ins, 2) << 4 | _part(ins, 0) << 8
    if len(a) != 3 and (second or parts >> 8 or len(a) != 2):
        raise registry.unsupported(ins, f"it has {len(a)} source operands")
    flags = _flags(ins.types, "AB" if is_set else "DAB", ins)
    c = a[2] if len(a) == 3 else "0"
    return (f"w_scalar_video({_SCALAR.index(ins.opcode)}, {how}, {flags}, {parts}, {second}, "
            f"{a[0]}, {a[1]}, {c})")  # fmt: skip


@registry.alu("vmad")
def scalar_mad(ins: Instruction, a: list[str]) -> str:
    """`vmad.d.a.b{.sat}{.shr7|.shr15|.po} d, {-}a{.part}, {-}b{.part}, {-}c`."""
    _refuse_but(ins, 3, "sat", "shr7", "shr15", "po")
    negative = [isinstance(o, Part) and o.negative for o in ins.operands[1:]]
    how = int(ins.has("po")) | (negative[0] ^ negative[1]) << 1 | negative[2] << 2
    shift = 7 if ins.has("shr7") else 15 if ins.has("shr15") else 0
    parts = _part(ins, 1) | _part(ins, 2) << 4
    return f"w_video_mad({how}, {shift}, {_flags(ins.types, 'DAB', ins)}, {parts}, {a[0]}, {a[1]}, {a[2]})"
