"""Comparisons: setp, and set, which gives a number instead of a predicate."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from ..ptx.ir import Pair
from .bits import LOGIC
from .floating import FLOATS, PACKED, flush, load
from .form import Form, Result, alu, halves, typed, unsigned, width

_ORDERED = {"eq": "==", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
_COMPARISONS = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan"
_INTEGERS = "b16 b32 b64 u16 u32 u64 s16 s32 s64"
_MODS = f"{_COMPARISONS} and or xor ftz"


def compare(form: Form, name: str, x: str, y: str) -> str:
    """A C condition, 0 or 1, for the instruction's comparison of two operands of a type."""
    operation = form.one_of(_COMPARISONS.split())
    if name in FLOATS:
        if operation in _UNSIGNED:
            form.refuse(f"'.{operation}' does not compare floats")
        return _compare_floats(operation, *(load(name, flush(form, name, v)) for v in (x, y)))
    kind = f"u{width(name)}" if operation in _UNSIGNED else name
    operation = _UNSIGNED.get(operation, operation)
    symbol = "!=" if operation == "ne" else _ORDERED.get(operation)
    if symbol is None:
        form.refuse(f"'.{operation}' does not compare integers")
    return f"({typed(kind, x)} {symbol} {typed(kind, y)})"


def _compare_floats(operation: str, x: str, y: str) -> str:
    """Ordered comparisons are false where a NaN is, the `u` ones true; `ne` is ordered."""
    if operation in _ORDERED:
        return f"({x} {_ORDERED[operation]} {y})"
    if operation == "ne":
        return f"(({x} < {y}) | ({x} > {y}))"
    if operation in ("num", "nan"):
        unordered = f"(({x} != {x}) | ({y} != {y}))"
        return unordered if operation == "nan" else f"(!{unordered})"
    if operation == "equ":
        return f"(!(({x} < {y}) | ({x} > {y})))"
    if operation == "neu":
        return f"(!({x} == {y}))"
    return f"(!({x} {_ORDERED[_OPPOSITE[operation[:2]]]} {y}))"


def _combined(form: Form, condition: str, a: list[str]) -> str:
    """The condition joined with the predicate operand, where there is one."""
    logic = form.one_of(LOGIC)
    return f"(u32)({condition} {LOGIC[logic]} ({a[2]}))" if logic else f"(u32){condition}"


@alu("setp", types=f"{_INTEGERS} f32 f64 f16 bf16", mods=_MODS)
def setp(form: Form, a: list[str]) -> Result:
    condition = compare(form, form.type, a[0], a[1])
    value = _combined(form, condition, a)
    if not isinstance(form.ins.operands[0], Pair):
        return value
    return value, _combined(form, f"(!{condition})", a)


@alu("setp", types="f16x2 bf16x2", mods=_MODS)
def setp_packed(form: Form, a: list[str]) -> Result:
    """p takes the low halves' comparison, q the high ones'."""
    low, high = zip(*map(halves, a[:2]))
    results = tuple(
        _combined(form, compare(form, PACKED[form.type], *part), a) for part in (low, high)
    )
    return results if isinstance(form.ins.operands[0], Pair) else results[0]


# what `set` gives for true, by destination type
_TRUE = {"u16": "0xffffu", "s16": "0xffffu", "u32": "0xffffffffu", "s32": "0xffffffffu",
         "f32": "0x3f800000u", "f16": "0x3c00u", "bf16": "0x3f80u"}  # fmt: skip


@alu("set", types=f"{_INTEGERS} f32 f64 f16 bf16", also=" ".join(_TRUE), mods=_MODS)
def set_number(form: Form, a: list[str]) -> str:
    condition = _combined(form, compare(form, form.type, a[0], a[1]), a)
    target = form.types[0]
    return unsigned(width(target), f"{condition} ? {_TRUE[target]} : 0")


@alu("set", types="f16x2 bf16x2", also="f16x2 bf16x2 u32 s32", mods=_MODS)
def set_packed(form: Form, a: list[str]) -> str:
    """A 32-bit integer destination takes 0xffff in each half that holds."""
    true = _TRUE[PACKED.get(form.types[0], "u16")]
    low, high = zip(*map(halves, a[:2]))
    parts = (_combined(form, compare(form, PACKED[form.type], *part), a) for part in (low, high))
    return "w_pack16({}, {})".format(*(f"({p} ? {true} : 0)" for p in parts))
