"""What PTX says an instruction gives, in exact Python arithmetic: integers and fractions."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from fractions import Fraction


def signed(x: int, bits: int) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: significand bits without the hidden one, exponent bits."""

    mant: int
    exp: int
    nan: int
    largest: int  # code of the largest finite number
    infinite: bool = True

    @property
    def bits(self) -> int:
        return 1 + self.mant + self.exp

    @property
    def bias(self) -> int:
        return (1 << (self.exp - 1)) - 1

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)


def _ieee(mant: int, exp: int, nan: int) -> Format:
    return Format(mant, exp, nan, (((1 << exp) - 1) << mant) - 1)


FORMATS = {
    "f16": _ieee(10, 5, 0x7FFF),
    "bf16": _ieee(7, 8, 0x7FFF),
    "f32": _ieee(23, 8, 0x7FFFFFFF),
    "f64": _ieee(52, 11, 0x7FF8000000000000),
    "e5m2": _ieee(2, 5, 0x7F),
    "e4m3": Format(3, 4, 0x7F, 0x7E, infinite=False),
    "e2m1": Format(1, 2, 0x7, 0x7, infinite=False),
    "e2m3": Format(3, 2, 0x1F, 0x1F, infinite=False),
    "e3m2": Format(2, 3, 0x1F, 0x1F, infinite=False),
}
NAN = "nan"


def decode(bits: int, name: str) -> Fraction | float | str:
    """An exact Fraction, +-math.inf, or NAN. Zeros lose their sign: see `negative`."""
    f = FORMATS[name]
    code = bits & (f.sign - 1)
    sign = -1 if bits & f.sign else 1
    if code > f.largest:
        return sign * math.inf if f.infinite and code == f.largest + 1 else NAN
    e, m = code >> f.mant, code & ((1 << f.mant) - 1)
    unit = Fraction(2) ** (max(e, 1) - f.bias - f.mant)
    return sign * (m + (1 << f.mant if e else 0)) * unit


def negative(bits: int, name: str) -> bool:
    return bool(bits & FORMATS[name].sign)


def encode(value, name: str, mode: str = "rn", minus_zero: bool = False, satfinite=False) -> int:
    """Round an exact value to a format's raw bits."""
    f = FORMATS[name]
    if value == NAN:
        return f.nan
    if value in (math.inf, -math.inf):
        code = f.largest if satfinite or not f.infinite else f.largest + 1
        return code | (f.sign if value < 0 else 0)
    if value == 0:
        return f.sign if minus_zero else 0
    sign, size = (f.sign, -value) if value < 0 else (0, value)
    exponent = math.floor(math.log2(size.numerator) - math.log2(size.denominator))
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while size < Fraction(2) ** exponent:
        exponent -= 1
    unit = max(exponent, 1 - f.bias) - f.mant
    scaled = size / Fraction(2) ** unit
    whole, rest = int(scaled), scaled - int(scaled)
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1),
        "rna": rest >= Fraction(1, 2),
        "rz": False,
        "rm": bool(rest) and bool(sign),
        "rp": bool(rest) and not sign,
    }[mode]
    code = ((unit - (1 - f.bias - f.mant)) << f.mant) + whole + int(up)
    if code > f.largest:
        toward = mode == "rz" or (mode == "rm" and not sign) or (mode == "rp" and sign)
        code = f.largest if toward or satfinite or not f.infinite else f.largest + 1
    return code | sign


INTEGER_EDGES = {
    8: [0, 1, 0x7F, 0x80, 0xFF],
    16: [0, 1, 2, 5, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF],
    32: [0, 1, 2, 3, 7, 31, 32, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xDEADBEEF,
         0xFFFFFFFE, 0xFFFFFFFF],
    64: [0, 1, 2, 3, 63, 64, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000,
         0x8000000000000001, 0x123456789ABCDEF0, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF],
    1: [0, 1],
}  # fmt: skip


def flush(bits: int, name: str) -> int:
    f = FORMATS[name]
    return bits if bits & (((1 << f.exp) - 1) << f.mant) else bits & f.sign


def is_nan(bits: int, name: str) -> bool:
    return decode(bits, name) == NAN


def same_float(got: int, want: int, name: str) -> bool:
    """Equal bits, or both NaN."""
    return got == want or (is_nan(got, name) and is_nan(want, name))


def edges(name: str, extra: int = 6) -> list[int]:
    """Zeros, ones, subnormals, the largest, infinities, NaN, ties, and some random bits."""
    f = FORMATS[name]
    one, least = f.bias << f.mant, 1 << f.mant
    codes = [0, 1, least - 1, least, one, one + 1, one | 1 << (f.mant - 1), one - 1, f.largest,
             f.largest + 1, one + (2 << f.mant), one - (f.mant + 1 << f.mant)]  # fmt: skip
    source = random.Random(name)
    codes += [source.getrandbits(f.bits - 1) for _ in range(extra)]
    # near one another in size, so that sums and products round
    codes += [one + source.getrandbits(f.mant + 1) for _ in range(extra)]
    signs = [c | (f.sign if source.random() < 0.5 else 0) for c in codes]
    return list(dict.fromkeys([*codes[:10], *(c | f.sign for c in codes[:10]), *signs[10:], f.nan]))


def saturated(x, kind):
    value = decode(x, kind)
    if value == NAN or negative(x, kind):
        return 0
    return encode(min(value, 1), kind) if value != math.inf else encode(1, kind)


def rectified(x, kind):
    return FORMATS[kind].nan if is_nan(x, kind) else 0 if negative(x, kind) else x


def arithmetic(operation: str, a: int, b: int, c: int, name: str, mode: str = "rn") -> int:
    """a op b, or a * b + c, rounded once; raw bits in and out."""
    x, y, z = (decode(v, name) for v in (a, b, c))
    if operation == "sub":
        return arithmetic("add", a, b ^ FORMATS[name].sign, c, name, mode)
    if operation == "mul":
        value, minus = _times(x, y), negative(a, name) != negative(b, name)
    elif operation == "div":
        value, minus = _over(x, y, a, b, name), negative(a, name) != negative(b, name)
    elif operation == "add":
        value, minus = _plus(x, y), _zero_sign(negative(a, name), negative(b, name), mode)
    else:
        product_minus = negative(a, name) != negative(b, name)
        value = _plus(_times(x, y), z)
        minus = _zero_sign(product_minus, negative(c, name), mode)
    return encode(value, name, mode, minus)


def _zero_sign(first: bool, second: bool, mode: str) -> bool:
    """The sign of an exact zero sum: both negative, or rounding down an exact cancellation."""
    return first if first == second else mode == "rm"


def _times(x, y):
    if NAN in (x, y):
        return NAN
    if math.inf in (x, y) or -math.inf in (x, y):
        return NAN if x == 0 or y == 0 else (math.inf if (x > 0) == (y > 0) else -math.inf)
    return x * y


def _plus(x, y):
    if NAN in (x, y):
        return NAN
    if isinstance(x, float) and isinstance(y, float):
        return x if x == y else NAN
    return x if isinstance(x, float) else y if isinstance(y, float) else x + y


def _over(x, y, a, b, name):
    if NAN in (x, y) or (x == 0 and y == 0) or (isinstance(x, float) and isinstance(y, float)):
        return NAN
    minus = negative(a, name) != negative(b, name)
    if isinstance(x, float) or y == 0:
        return -math.inf if minus else math.inf
    return Fraction(0) if isinstance(y, float) else x / y
