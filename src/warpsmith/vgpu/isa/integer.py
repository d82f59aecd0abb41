"""Integer arithmetic: add to rem, 24-bit products, carry chains, dot products."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from .form import INTEGERS, Form, Result, alu, halves, signed, typed, unsigned

_SIGN = {"add": "+", "sub": "-", "mul": "*"}
_PAIRS = "u16x2 s16x2"


@alu("add sub", types=INTEGERS + " b32 b64", mods="sat cc")
def add(form: Form, a: list[str]) -> Result:
    if form.has("cc"):
        return carry_sum(form, a)
    if form.has("sat"):
        if form.type != "s32":
            form.refuse("'.sat' is for s32")
        return f"w_{form.base}_sat_s32({a[0]}, {a[1]})"
    bits = form.width
    return unsigned(bits, f"{unsigned(bits, a[0])} {_SIGN[form.base]} {unsigned(bits, a[1])}")


def _per_half(form: Form, args: list[str], operate) -> str:
    """Apply a 16-bit operation to both halves of the operands."""
    low, high = zip(*map(halves, args))
    return f"w_pack16({operate(form, list(low))}, {operate(form, list(high))})"


@alu("add sub", types=_PAIRS)
def add_pair(form: Form, a: list[str]) -> str:
    return _per_half(form, a, lambda f, x: f"({x[0]} {_SIGN[f.base]} {x[1]})")


def _product(form: Form, a: str, b: str) -> str:
    """The `.lo`, `.hi` or `.wide` product of two operands, as raw bits."""
    bits, part = form.width, form.one_of(("lo", "hi", "wide"), "lo")
    if part == "lo":
        wide = max(bits, 32)  # u16 * u16 as int would overflow
        return unsigned(bits, f"{unsigned(wide, a)} * {unsigned(wide, b)}")
    if part == "hi" and bits > 16:
        return f"w_mulhi_{form.type}({a}, {b})"
    if bits == 64:
        return form.refuse("'.wide' is for 16 and 32 bits")
    double = f"u{2 * bits}"
    exact = f"({double})((s64){typed(form.type, a)} * (s64){typed(form.type, b)})"
    if not form.signed:
        exact = f"({double})((u64){typed(form.type, a)} * {typed(form.type, b)})"
    return exact if part == "wide" else unsigned(bits, f"{exact} >> {bits}")


@alu("mul", types=INTEGERS, mods="lo hi wide")
def mul(form: Form, a: list[str]) -> str:
    return _product(form, a[0], a[1])


@alu("mad", types=INTEGERS, mods="lo hi wide sat cc")
def mad(form: Form, a: list[str]) -> Result:
    if form.has("cc"):
        return carry_product(form, a)
    product = _product(form, a[0], a[1])
    if form.has("sat"):
        if form.type != "s32" or not form.has("hi"):
            form.refuse("'.sat' is for mad.hi.s32")
        return f"w_add_sat_s32({product}, {a[2]})"
    bits = form.width * (2 if form.has("wide") else 1)
    return unsigned(bits, f"{product} + {unsigned(bits, a[2])}")


@alu("mul24 mad24", types="u32 s32", mods="lo hi sat")
def mul24(form: Form, a: list[str]) -> str:
    """The product of the low 24 bits has 48 bits: `.lo` is bits 31..0, `.hi` bits 47..16."""
    x, y = (f"w_sext24({v})" if form.signed else f"({v} & 0xffffffu)" for v in a[:2])
    wide = f"(u64)((s64)(s32){x} * (s32){y})" if form.signed else f"(u64){x} * {y}"
    product = unsigned(32, f"({wide}) >> 16" if form.has("hi") else wide)
    if form.base == "mul24":
        return product
    if form.has("sat"):
        return f"w_add_sat_s32({product}, {a[2]})"
    return unsigned(32, f"{product} + {a[2]}")


@alu("div rem", types=INTEGERS)
def div(form: Form, a: list[str]) -> str:
    bits, sign = form.width, form.type[0]
    x, y = a[:2]
    if bits == 16 and sign == "s":
        x, y = (f"(u32)(s32){signed(16, v)}" for v in (x, y))
    return unsigned(bits, f"w_{form.base}_{sign}{max(bits, 32)}({x}, {y})")


@alu("min max", types=INTEGERS, mods="relu")
def minimum(form: Form, a: list[str]) -> str:
    less = "<" if form.base == "min" else ">"
    x, y = (typed(form.type, v) for v in a[:2])
    best = f"({x} {less} {y} ? {a[0]} : {a[1]})"
    if form.has("relu"):
        best = f"({typed(form.type, best)} > 0 ? {best} : 0)"
    return unsigned(form.width, best)


@alu("min max", types=_PAIRS, mods="relu")
def minimum_pair(form: Form, a: list[str]) -> str:
    return _per_half(form.but(types=(form.type[:-2],)), a, minimum)


@alu("abs neg", types="s16 s32 s64")
def absolute(form: Form, a: list[str]) -> str:
    bits = form.width
    negated = unsigned(bits, f"0 - {unsigned(bits, a[0])}")
    if form.base == "neg":
        return negated
    return unsigned(bits, f"{signed(bits, a[0])} < 0 ? {negated} : {unsigned(bits, a[0])}")


@alu("sad", types=INTEGERS)
def sad(form: Form, a: list[str]) -> str:
    """c + |a - b|."""
    bits = form.width
    x, y = (unsigned(bits, v) for v in a[:2])
    less = f"{typed(form.type, a[0])} < {typed(form.type, a[1])}"
    return unsigned(bits, f"{unsigned(bits, a[2])} + ({less} ? {y} - {x} : {x} - {y})")


@alu("addc subc", types="u32 s32 b32 u64 s64 b64", mods="cc")
def carry_sum(form: Form, a: list[str]) -> Result:
    """Sums with a carry flag, the last argument of addc and subc and the last result with `.cc`.

    The flag is the carry out of an adder that computes a - b as a + ~b + 1: after a subtraction it
    is set when nothing was borrowed, and subc gives a + ~b + flag. The PTX manual's "a - (b + CF)"
    says the same of pure chains; NVRTC's 128-bit division reads a subtraction's flag with addc,
    and ptxas makes the same machine code of subc after add.cc and after sub.cc.
    """
    bits, minus = form.width, form.base.startswith("sub")
    x, y = (unsigned(bits, v) for v in a[:2])
    if minus:
        y = unsigned(bits, f"~{y}")
    flag = f"(u{bits})({a[2]})" if form.base.endswith("c") else str(int(minus))
    value = unsigned(bits, f"{x} + {y} + {flag}")
    if not form.has("cc"):
        return value
    return value, f"(u32)(({value} < {x}) | (({value} == {x}) & ({flag} != 0)))"


@alu("madc", types="u32 s32 u64 s64", mods="lo hi cc")
def carry_product(form: Form, a: list[str]) -> Result:
    """a * b + c with the flag of the addition; the last argument of madc is the incoming flag."""
    base = "addc" if form.base == "madc" else "add"
    return carry_sum(form.but(base=base), [f"({_product(form, a[0], a[1])})", *a[2:]])


@alu("dp4a", types="u32 s32", also="u32 s32")
def dot4(form: Form, a: list[str]) -> str:
    """c + the dot product of four bytes; each operand has its own signedness."""
    kinds = [t[0] for t in (form.types[0], form.types[-1])]

    def byte(kind: str, x: str, i: int) -> str:
        return f"(s32)({kind}8)((u32)({x}) >> {8 * i})"

    terms = [f"{byte(kinds[0], a[0], i)} * {byte(kinds[1], a[1], i)}" for i in range(4)]
    return f"((u32)({a[2]}) + (u32)({' + '.join(terms)}))"


@alu("dp2a", types="u32 s32", also="u32 s32", mods="lo hi")
def dot2(form: Form, a: list[str]) -> str:
    """c + the dot product of two 16-bit values with two bytes of the low or high half of b."""
    kinds, first = [t[0] for t in (form.types[0], form.types[-1])], 2 * form.has("hi")
    terms = [
        f"(s64)({kinds[0]}16)((u32)({a[0]}) >> {16 * i})"
        f" * ({kinds[1]}8)((u32)({a[1]}) >> {8 * (i + first)})"
        for i in range(2)
    ]
    return f"((u32)({a[2]}) + (u32)({' + '.join(terms)}))"
