"""Integer and bit instructions over edge values against Python integers."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from functools import partial

import pytest
from isa_harness import Library, op, product
from isa_oracle import INTEGER_EDGES as EDGES
from isa_oracle import signed

pytestmark = pytest.mark.plain

SHIFTS = [0, 1, 5, 16, 31, 32, 33, 63, 64, 65, 255, 256, 0xFFFFFFFF]
FEW32 = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678]

# name -> (Op, columns of values, oracle over raw bits)
CASES: dict[str, tuple] = {}


def case(name, sources, results, oracle, *values, literals=()):
    item = op(name, sources, results, *literals)
    given = values or tuple(EDGES[b] for b in item.sources if b)
    CASES[name] = (item, given, oracle)


def mask(x, bits):
    return x & ((1 << bits) - 1)


def value(x, kind):
    bits = int(kind[1:])
    return signed(x, bits) if kind[0] == "s" else mask(x, bits)


def truncated(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def quotient(kind, a, b):
    x, y = value(a, kind), value(b, kind)
    return -1 if y == 0 else truncated(x, y)


def remainder(kind, a, b):
    x, y = value(a, kind), value(b, kind)
    return -1 if y == 0 else x - y * truncated(x, y)


def clamp(x, low, high):
    return min(max(x, low), high)


for bits in (16, 32, 64):
    for sign in "us":
        k = f"{sign}{bits}"
        two, three, one = f"{bits} {bits}", f"{bits} {bits} {bits}", f"{bits}"
        case(f"add.{k}", two, one, lambda a, b: a + b)
        case(f"sub.{k}", two, one, lambda a, b: a - b)
        case(f"mul.lo.{k}", two, one, lambda a, b: a * b)
        case(f"mul.hi.{k}", two, one, lambda a, b, k=k, n=bits: value(a, k) * value(b, k) >> n)
        small = (EDGES[bits][::2], EDGES[bits][1::2], EDGES[bits][::3])
        case(f"mad.lo.{k}", three, one, lambda a, b, c: a * b + c, *small)
        case(f"mad.hi.{k}", three, one,
             lambda a, b, c, k=k, n=bits: (value(a, k) * value(b, k) >> n) + c, *small)  # fmt: skip
        if bits < 64:
            w = 2 * bits
            case(f"mul.wide.{k}", two, f"{w}", lambda a, b, k=k: value(a, k) * value(b, k))
            case(f"mad.wide.{k}", f"{bits} {bits} {w}", f"{w}",
                 lambda a, b, c, k=k: value(a, k) * value(b, k) + c,
                 EDGES[bits][::2], EDGES[bits][1::2], EDGES[w][::2])  # fmt: skip
        case(f"div.{k}", two, one, lambda a, b, k=k: quotient(k, a, b))
        case(f"rem.{k}", two, one, lambda a, b, k=k: remainder(k, a, b))
        case(f"min.{k}", two, one, lambda a, b, k=k: min(value(a, k), value(b, k)))
        case(f"max.{k}", two, one, lambda a, b, k=k: max(value(a, k), value(b, k)))
        case(f"sad.{k}", three, one,
             lambda a, b, c, k=k: c + abs(value(a, k) - value(b, k)), *small)  # fmt: skip
        case(f"shr.{k}", f"{bits} 32", one,
             lambda a, n, k=k: value(a, k) >> min(n, 64), EDGES[bits], SHIFTS)  # fmt: skip
    s = f"s{bits}"
    case(f"neg.{s}", one, one, lambda a: -a)
    case(f"abs.{s}", one, one, lambda a, s=s: abs(value(a, s)))
    b = f"b{bits}"
    case(f"and.{b}", two, one, lambda x, y: x & y)
    case(f"or.{b}", two, one, lambda x, y: x | y)
    case(f"xor.{b}", two, one, lambda x, y: x ^ y)
    case(f"not.{b}", one, one, lambda x: ~x)
    case(f"cnot.{b}", one, one, lambda x: int(x == 0))
    case(f"selp.{b}", f"{bits} {bits} 1", one, lambda x, y, p: x if p else y)
    case(f"shl.{b}", f"{bits} 32", one, lambda x, n: x << min(n, 64), EDGES[bits], SHIFTS)
case("shr.b32", "32 32", "32", lambda a, n: a >> min(n, 64), EDGES[32], SHIFTS)
for name, fn in (
    ("and", lambda x, y: x & y),
    ("or", lambda x, y: x | y),
    ("xor", lambda x, y: x ^ y),
):
    case(f"{name}.pred", "1 1", "1", fn)
case("not.pred", "1", "1", lambda x: 1 - x)
case("min.relu.s32", "32 32", "32", lambda a, b: max(0, min(signed(a, 32), signed(b, 32))))

LOW, HIGH = -(1 << 31), (1 << 31) - 1
case("add.sat.s32", "32 32", "32", lambda a, b: clamp(signed(a, 32) + signed(b, 32), LOW, HIGH))
case("sub.sat.s32", "32 32", "32", lambda a, b: clamp(signed(a, 32) - signed(b, 32), LOW, HIGH))
case("mad.hi.sat.s32", "32 32 32", "32",
     lambda a, b, c: clamp((signed(a, 32) * signed(b, 32) >> 32) + signed(c, 32), LOW, HIGH),
     EDGES[32], FEW32, FEW32)  # fmt: skip
for part, shift in (("lo", 0), ("hi", 16)):
    for k in ("u32", "s32"):
        v = (lambda x: signed(x, 24)) if k == "s32" else (lambda x: x & 0xFFFFFF)
        case(f"mul24.{part}.{k}", "32 32", "32", lambda a, b, v=v, n=shift: v(a) * v(b) >> n)
        case(f"mad24.{part}.{k}", "32 32 32", "32",
             lambda a, b, c, v=v, n=shift: (v(a) * v(b) >> n) + c, EDGES[32], FEW32, FEW32)  # fmt: skip


def pair(fn, kind):
    def both(a, b):
        parts = [mask(fn(value(a >> s, kind), value(b >> s, kind)), 16) for s in (0, 16)]
        return parts[0] | parts[1] << 16

    return both


HALVES = [0, 0x00010001, 0x7FFF8000, 0xFFFF0001, 0x80007FFF, 0x12348765]
for k in ("u16", "s16"):
    for name, fn in (("add", lambda x, y: x + y), ("min", min), ("max", max)):
        case(f"{name}.{k}x2", "32 32", "32", pair(fn, k), HALVES, HALVES)


def sum_and_flag(*terms, bits):
    """A sum and the adder's carry out; a subtraction adds the complement, as the hardware does."""
    total = sum(terms)
    return total, total >> bits


# a - b is a + ~b + 1, and subc's flag takes the place of the 1: set means that nothing was borrowed
for k in ("u32", "s32", "u64", "s64"):
    bits = int(k[1:])
    one, two, full = f"{bits} {bits}", f"{bits} {bits} 1", (1 << bits) - 1
    total = partial(sum_and_flag, bits=bits)
    case(f"add.cc.{k}", one, f"{bits} 1", total)
    case(f"addc.cc.{k}", two, f"{bits} 1", total)
    case(f"addc.{k}", two, f"{bits}", lambda a, b, c: a + b + c)
    case(f"sub.cc.{k}", one, f"{bits} 1", lambda a, b, f=full, t=total: t(a, b ^ f, 1))
    case(f"subc.cc.{k}", two, f"{bits} 1", lambda a, b, c, f=full, t=total: t(a, b ^ f, c))
    case(f"subc.{k}", two, f"{bits}", lambda a, b, c: a - b - 1 + c)
    vals = (EDGES[bits][::2], EDGES[bits][1::2], EDGES[bits][::3])
    for part in ("lo", "hi"):

        def product_part(a, b, part=part, n=bits, k=k):
            exact = value(a, k) * value(b, k)
            return mask(exact if part == "lo" else exact >> n, n)

        three = f"{bits} {bits} {bits}"
        case(f"mad.{part}.cc.{k}", three, f"{bits} 1",
             lambda a, b, c, f=product_part, t=total: t(f(a, b), c), *vals)  # fmt: skip
        case(f"madc.{part}.cc.{k}", f"{three} 1", f"{bits} 1",
             lambda a, b, c, p, f=product_part, t=total: t(f(a, b), c, p), *vals, [0, 1])  # fmt: skip
        case(f"madc.{part}.{k}", f"{three} 1", f"{bits}",
             lambda a, b, c, p, f=product_part: f(a, b) + c + p, *vals, [0, 1])  # fmt: skip

# --- bits ---
WORDS = [0, 1, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFF, 0x00010000, 0xA5A5F00D]
LONGS = [0, 1, 1 << 63, (1 << 64) - 1, (1 << 63) - 1, 1 << 32, 0xA5A5F00D12345678]
for bits, values in ((32, WORDS), (64, LONGS)):
    one, b = f"{bits}", f"b{bits}"
    case(f"clz.{b}", one, "32", lambda x, n=bits: n - x.bit_length(), values)
    case(f"popc.{b}", one, "32", lambda x: x.bit_count(), values)
    case(f"brev.{b}", one, one, lambda x, n=bits: int(f"{x:0{n}b}"[::-1], 2), values)
    positions = [0, 1, 7, 16, 31, 32, 33, 63, 64, 255, 256]

    def field(x, pos, length, n, is_signed):
        if n == 32:
            pos, length = pos & 255, length & 255
        if not length:
            return 0
        top = x >> min(pos + length - 1, n - 1) & 1
        cells = [(x >> (pos + i) & 1 if pos + i < n else (top if is_signed else 0))
                 if i < length else (top if is_signed else 0) for i in range(n)]  # fmt: skip
        return sum(c << i for i, c in enumerate(cells))

    def inserted(a, x, pos, length, n):
        if n == 32:
            pos, length = pos & 255, length & 255
        for i in range(min(length, max(0, n - pos))):
            x = x & ~(1 << (pos + i)) | (a >> i & 1) << (pos + i)
        return x

    for sign in "us":
        k = f"{sign}{bits}"
        case(f"bfe.{k}", f"{bits} 32 32", one,
             lambda x, p, c, n=bits, s=sign: field(x, p, c, n, s == "s"), values, positions, positions)  # fmt: skip

        def top_bit(x, n=bits, s=sign):
            x = ~x & ((1 << n) - 1) if s == "s" and x >> (n - 1) else x
            return x.bit_length() - 1

        case(f"bfind.{k}", one, "32", top_bit, values)
        case(f"bfind.shiftamt.{k}", one, "32",
             lambda x, f=top_bit, n=bits: -1 if f(x) < 0 else n - 1 - f(x), values)  # fmt: skip
    case(f"bfi.{b}", f"{bits} {bits} 32 32", one,
         lambda a, x, p, c, n=bits: inserted(a, x, p, c, n), values[:5], values[3:], positions, positions)  # fmt: skip

for side in "lr":
    for wrap in ("wrap", "clamp"):

        def shifted(a, b, n, side=side, wrap=wrap):
            n = n & 31 if wrap == "wrap" else min(n, 32)
            wide = b << 32 | a
            return wide << n >> 32 if side == "l" else wide >> n

        case(f"shf.{side}.{wrap}.b32", "32 32 32", "32", shifted, WORDS, WORDS, SHIFTS)

for wrap in ("wrap", "clamp"):

    def ones(a, b, wrap=wrap):
        a, b = (a & 31, b & 31) if wrap == "wrap" else (a, b)
        return ((1 << min(b, 64)) - 1) << min(a, 64)

    case(f"bmsk.{wrap}.b32", "32 32", "32", ones, SHIFTS, SHIFTS)
    for k in ("u32", "s32"):

        def extended(a, n, k=k, wrap=wrap):
            n = n & 31 if wrap == "wrap" else min(n, 32)
            return 0 if n == 0 else signed(a, n) if k == "s32" else mask(a, n)

        case(f"szext.{wrap}.{k}", "32 32", "32", extended, WORDS, SHIFTS)


def permuted(a, b, selector):
    pool = [(b << 32 | a) >> (8 * i) & 255 for i in range(8)]
    result = 0
    for i in range(4):
        s = selector >> (4 * i) & 15
        byte = pool[s & 7]
        result |= ((0xFF if byte >> 7 else 0) if s & 8 else byte) << (8 * i)
    return result


case("prmt.b32", "32 32 32", "32", permuted, WORDS, WORDS,
     [0x3210, 0x7654, 0x5410, 0x7632, 0x0123, 0x8888, 0xFEDC, 0xBA98, 0x10000])  # fmt: skip
BYTES = (0x03020100, 0x07060504)
PERMUTES = {  # the manual's table, by selector
    "f4e": ["3210", "4321", "5432", "6543"],
    "b4e": ["5670", "6701", "7012", "0123"],
    "rc8": ["0000", "1111", "2222", "3333"],
    "ecl": ["3210", "3211", "3222", "3333"],
    "ecr": ["0000", "1110", "2210", "3210"],
    "rc16": ["1010", "3232", "1010", "3232"],
}
for mode, rows in PERMUTES.items():
    case(f"prmt.b32.{mode}", "32 32 32", "32",
         lambda a, b, s, rows=rows: int("".join("0" + d for d in rows[s & 3]), 16),
         [BYTES[0]], [BYTES[1]], [0, 1, 2, 3, 4])  # fmt: skip


def dot4(a, b, c, ka, kb):
    pick = lambda x, i, k: value(x >> 8 * i, f"{k}8")  # noqa: E731
    return c + sum(pick(a, i, ka) * pick(b, i, kb) for i in range(4))


for ka in "us":
    for kb in "us":
        case(f"dp4a.{ka}32.{kb}32", "32 32 32", "32",
             lambda a, b, c, ka=ka, kb=kb: dot4(a, b, c, ka, kb), WORDS, WORDS, FEW32)  # fmt: skip
        for part in ("lo", "hi"):

            def dot2(a, b, c, ka=ka, kb=kb, first=2 * (part == "hi")):
                return c + sum(value(a >> 16 * i, f"{ka}16") * value(b >> 8 * (i + first), f"{kb}8")
                               for i in range(2))  # fmt: skip

            case(f"dp2a.{part}.{ka}32.{kb}32", "32 32 32", "32", dot2, WORDS, WORDS, FEW32)


def nth_set(m, base, offset):
    """The manual's pseudo-code; it defines bases up to 31 alone."""
    offset = signed(offset, 32)
    if offset == -(1 << 31):  # its magnitude is no int; an H200 gives 0
        return 0
    if offset == 0:
        return base if m >> base & 1 else -1
    position, count, step = base, abs(offset) - 1, 1 if offset > 0 else -1
    while 0 <= position < 32:
        if m >> position & 1:
            if count == 0:
                return position
            count -= 1
        position += step
    return -1


OFFSETS = [0, 1, 2, 3, 9, 16, 31, 32, 33, 0x7FFFFFFF]
case("fns.b32", "32 32 32", "32", nth_set, WORDS, list(range(32)),
     list(dict.fromkeys(-n * sign % 2**32 for n in (*OFFSETS, 1 << 31) for sign in (-1, 1))))  # fmt: skip


def slct(a, b, c):
    return a if signed(c, 32) >= 0 else b


case("slct.b64.s32", "64 64 32", "64", slct, EDGES[64], EDGES[64][:3], EDGES[32])


def video(fn, lanes, kind, a, b, c, saturate=False, add=False):
    bits, total, packed = 32 // lanes, c, 0
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind == "s" else (0, (1 << bits) - 1)
    for i in range(lanes):
        r = fn(*(value(x >> i * bits, f"{kind}{bits}") for x in (a, b)))
        r = clamp(r, low, high) if saturate else r
        total += r
        packed |= mask(r, bits) << i * bits
    return total if add else packed


VIDEO = {"vadd": lambda x, y: x + y, "vsub": lambda x, y: x - y, "vmin": min, "vmax": max,
         "vabsdiff": lambda x, y: abs(x - y)}  # fmt: skip
for name, fn in VIDEO.items():
    for lanes in (2, 4):
        for k in "us":
            full = f"{name}{lanes}.{k}32.{k}32.{k}32"
            case(full, "32 32 32", "32",
                 lambda a, b, c, fn=fn, n=lanes, k=k: video(fn, n, k, a, b, c), WORDS, WORDS, FEW32[:3])  # fmt: skip
            case(f"{full}.sat", "32 32 32", "32",
                 lambda a, b, c, fn=fn, n=lanes, k=k: video(fn, n, k, a, b, c, saturate=True),
                 WORDS, WORDS, [0])  # fmt: skip
            case(f"{full}.add", "32 32 32", "32",
                 lambda a, b, c, fn=fn, n=lanes, k=k: video(fn, n, k, a, b, c, add=True),
                 WORDS, WORDS, FEW32[:3])  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return Library([c[0] for c in CASES.values()], tmp_path_factory.mktemp("isa"), "integer")


@pytest.mark.parametrize("name", CASES)
def test_matches_integers(library, name):
    item, values, oracle = CASES[name]
    columns = product(*values)
    got = library(name, *columns)
    for row in range(len(columns[0])):
        operands = [int(c[row]) for c in columns]
        want = oracle(*operands)
        want = want if isinstance(want, tuple) else (want,)
        for result, expected, bits in zip(got, want, item.results):
            assert int(result[row]) == mask(expected, bits), (name, [hex(x) for x in operands])


LUTS = [0x00, 0xFF, 0x80, 0xFE, 0x96, 0xE8, 0xCA, 0xF8, 0x6A, 0x01, 0x3C, 0xB1]


@pytest.fixture(scope="module")
def lut_libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lut")
    return {lut: Library([op("lop3.b32", "32 32 32 0", "32", lut)], folder, f"lut{lut}")
            for lut in LUTS}  # fmt: skip


@pytest.mark.parametrize("lut", LUTS)
def test_lop3_is_its_truth_table(lut_libraries, lut):
    got = lut_libraries[lut]("lop3.b32", *product([0xF0], [0xCC], [0xAA]))
    assert int(got[0][0]) & 0xFF == lut
