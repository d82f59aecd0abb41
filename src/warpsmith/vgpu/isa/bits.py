"""Bit operations: logic, shifts, fields, counts, byte permutes."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from .form import Form, Result, alu, typed, unsigned, width

LOGIC = {"and": "&", "or": "|", "xor": "^"}


@alu("and or xor", types="b16 b32 b64")
def logic(form: Form, a: list[str]) -> str:
    return unsigned(form.width, f"({a[0]}) {LOGIC[form.base]} ({a[1]})")


@alu("and or xor", types="pred")
def logic_predicate(form: Form, a: list[str]) -> str:
    return f"(u32)(({a[0]}) {LOGIC[form.base]} ({a[1]}))"


@alu("not", types="b16 b32 b64")
def complement(form: Form, a: list[str]) -> str:
    return unsigned(form.width, f"~({a[0]})")


@alu("not", types="pred")
def complement_predicate(form: Form, a: list[str]) -> str:
    return f"(u32)(({a[0]}) ^ 1u)"


@alu("cnot", types="b16 b32 b64")
def logical_not(form: Form, a: list[str]) -> str:
    return unsigned(form.width, f"{unsigned(form.width, a[0])} == 0")


@alu("shl", types="b16 b32 b64")
def shift_left(form: Form, a: list[str]) -> str:
    return unsigned(form.width, f"w_shl{max(form.width, 32)}({a[0]}, {a[1]})")


@alu("shr", types="b16 b32 b64 u16 u32 u64 s16 s32 s64")
def shift_right(form: Form, a: list[str]) -> str:
    sign = "s" if form.signed else "u"
    value = f"(u32)(s32)(s16)({a[0]})" if form.type == "s16" else a[0]
    return unsigned(form.width, f"w_shr_{sign}{max(form.width, 32)}({value}, {a[1]})")


@alu("shf", types="b32", mods="l r clamp wrap")
def funnel(form: Form, a: list[str]) -> str:
    """Shift the pair b:a; left keeps the high word, right the low one."""
    amount = f"({a[2]} & 31)" if form.has("wrap") else f"({a[2]} > 32 ? 32 : {a[2]})"
    return f"w_funnel({a[0]}, {a[1]}, {f'32 - {amount}' if form.has('l') else amount})"


def lut_terms(lut: int) -> list[int]:
    """The algebraic normal form of a 3-input truth table: bit sets of a=4, b=2, c=1 to XOR.

    >>> lut_terms(0xF0 ^ 0xCC ^ 0xAA)
    [1, 2, 4]
    """
    row = [lut >> i & 1 for i in range(8)]
    for bit in (1, 2, 4):
        row = [row[i] ^ (row[i ^ bit] if i & bit else 0) for i in range(8)]
    return [i for i in range(8) if row[i]]


@alu("lop3", types="b32", mods="or and", constant=(3,))
def lop3(form: Form, a: list[str]) -> Result:
    """Any logic of three words. With `.or` or `.and`: also a predicate (value != 0) op q."""
    lut = int(a[3].rstrip("uUlL"), 0)
    names = {4: a[0], 2: a[1], 1: a[2]}
    terms = ["(" + " & ".join(f"({names[b]})" for b in (4, 2, 1) if t & b) + ")" if t else "~0u"
             for t in lut_terms(lut)]  # fmt: skip
    value = unsigned(32, " ^ ".join(terms) or "0")
    if not form.mods:
        return value
    return value, f"(({value} != 0) {LOGIC[form.mods[0]]} ({a[4]}))"


@alu("clz popc", types="b32 b64")
def count(form: Form, a: list[str]) -> str:
    return f"w_{form.base}{form.width}({a[0]})"


@alu("brev", types="b32 b64")
def reverse(form: Form, a: list[str]) -> str:
    return f"w_brev{form.width}({a[0]})"


@alu("bfind", types="u32 s32 u64 s64", mods="shiftamt")
def find(form: Form, a: list[str]) -> str:
    """The position of the top significant bit, or with `.shiftamt` the shift that gets it there."""
    found = f"w_bfind_{form.type}({a[0]})"
    if not form.has("shiftamt"):
        return found
    return f"({found} == ~0u ? ~0u : {form.width - 1} - {found})"


@alu("fns", types="b32")
def find_nth(form: Form, a: list[str]) -> str:
    return f"w_fns({a[0]}, {a[1]}, {a[2]})"


@alu("bfe", types="u32 s32 u64 s64")
def extract(form: Form, a: list[str]) -> str:
    return f"w_bfe_{form.type}({a[0]}, {a[1]}, {a[2]})"


@alu("bfi", types="b32 b64")
def insert(form: Form, a: list[str]) -> str:
    return f"w_bfi{form.width}({a[0]}, {a[1]}, {a[2]}, {a[3]})"


@alu("bmsk", types="b32", mods="clamp wrap")
def mask(form: Form, a: list[str]) -> str:
    """Ones from bit a, b bits long."""
    pos, length = (f"({v} & 31)" if form.has("wrap") else f"(u32)({v})" for v in a[:2])
    return f"w_shl32(w_mask32({length}), {pos})"


@alu("szext", types="u32 s32", mods="clamp wrap")
def extend(form: Form, a: list[str]) -> str:
    """Sign- or zero-extend the low b bits."""
    length = f"({a[1]} & 31)" if form.has("wrap") else f"({a[1]})"
    return (
        f"w_szext_s32({a[0]}, {length})" if form.signed else f"((u32)({a[0]}) & w_mask32({length}))"
    )


# selectors of the byte-permute modes, by the two low bits of the third operand
_PERMUTE_MODES = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}


@alu("prmt", types="b32", mods=" ".join(_PERMUTE_MODES))
def permute(form: Form, a: list[str]) -> str:
    mode = form.one_of(_PERMUTE_MODES)
    if not mode:
        return f"w_prmt({a[0]}, {a[1]}, {a[2]})"
    s = _PERMUTE_MODES[mode]
    k = f"({a[2]} & 3)"
    chosen = f"({k} == 0 ? {s[0]}u : {k} == 1 ? {s[1]}u : {k} == 2 ? {s[2]}u : {s[3]}u)"
    return f"w_prmt({a[0]}, {a[1]}, {chosen})"


@alu("selp", types="b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64 f16 bf16")
def select(form: Form, a: list[str]) -> str:
    return unsigned(form.width, f"({a[2]}) ? {a[0]} : {a[1]}")


_SELECTED = "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64"


@alu("slct", types="s32 f32", also=_SELECTED, mods="ftz")
def select_by_sign(form: Form, a: list[str]) -> str:
    """a where c >= 0, else b; a NaN chooses b."""
    c = a[2]
    if form.type == "f32":
        c = f"w_ftz_f32({c})" if form.has("ftz") else c
        condition = f"w_f32({c}) >= 0.f"
    else:
        condition = f"{typed('s32', c)} >= 0"
    return unsigned(width(form.types[0]), f"{condition} ? {a[0]} : {a[1]}")
