"""cvt between every pair of types against exact fractions and Python integers."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from isa_harness import Library, op, product
from isa_oracle import (
    FORMATS,
    NAN,
    decode,
    edges,
    encode,
    flush,
    is_nan,
    negative,
    rectified,
    same_float,
    saturated,
    signed,
)

pytestmark = pytest.mark.plain

INTEGERS = [f"{s}{b}" for s in "us" for b in (8, 16, 32, 64)]
ROUNDINGS = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
MODES = ("rn", "rz", "rm", "rp")


def bits_of(kind: str) -> int:
    return FORMATS[kind].bits if kind in FORMATS else int(kind[1:])


def limits(kind):
    bits = bits_of(kind)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def whole_edges(kind):
    bits = bits_of(kind)
    top, near = (1 << bits) - 1, 1 << bits - 1
    numbers = {0, 1, 2, 3, 127, 128, 255, near - 1, near, near + 1, top, top - 1, top - 127}
    for power in (8, 11, 12, 16, 24, 25, 31, 32, 53, 54, 62, 63):  # around ties of the formats
        for off in (-1, 0, 1, 1 << max(power - 9, 0), (1 << max(power - 9, 0)) + 1):
            numbers.add((1 << power) + off)
    numbers |= {65519, 65520, 65521, 65535, 2047, 2049, 4097, 4099, (1 << 40) + (1 << 28) + 1}
    return sorted(n & top for n in numbers if n <= top)


def float_edges(kind):
    """Halves, integers about the limits of each integer type, and the format's own edges."""
    numbers = [0.5, 1.5, 2.5, 0.49999997, 0.75, 1.0, 126.5, 127.5, 128.0, 255.5, 256.0, 32767.5,
               65535.5, 2.0**31 - 1, 2.0**31, 2.0**32 - 1, 2.0**32, 2.0**53 - 1, 2.0**63, 2.0**64,
               1e30, 448.0, 464.0, 480.0, 57344.0, 61440.0, 65519.0, 65520.0, 2.0**-25, 2.0**-24,
               1 + 2.0**-11, 1 + 2.0**-8, 1 + 3 * 2.0**-9, 1 + 2.0**-24]  # fmt: skip
    codes = [encode(Fraction(s * n), kind) for n in numbers for s in (1, -1)]
    return list(dict.fromkeys(codes + edges(kind)))


CASES: dict[str, tuple] = {}


def case(name, sources, result, oracle, values, kind=None):
    item = op(name, sources, str(result))
    CASES[name] = (item, values, oracle, kind)


def to_integer(source, target, rounding, ftz=False):
    def oracle(x):
        value = decode(flush(x, source) if ftz else x, source)
        low, high = limits(target)
        if value == NAN:
            wide = source == "f64" or bits_of(target) == 64
            return 1 << (bits_of(target) - 1) if wide else 0
        if abs(value) == math.inf:
            return high if value > 0 else low
        return min(max(ROUNDINGS[rounding](value), low), high)

    return oracle


def float_to_float(source, target, mode="rn", ftz=False, sat=False, relu=False, satfinite=False):
    def oracle(x):
        x = flush(x, source) if ftz and source == "f32" else x
        value = decode(x, source)
        if source == target:
            got = x
        else:
            got = encode(value, target, mode, negative(x, source), satfinite)
        got = flush(got, target) if ftz and target == "f32" else got
        got = saturated(got, target) if sat else got
        return rectified(got, target) if relu else got

    return oracle


def integral(source, target, rounding):
    def oracle(x):
        value = decode(x, source)
        if value == NAN or abs(value) == math.inf:
            return encode(value, target)
        return encode(Fraction(ROUNDINGS[rounding](value)), target, "rn", negative(x, source))

    return oracle


for source in INTEGERS:
    v, b = whole_edges(source), bits_of(source)

    def number(x, source=source):
        return signed(x, bits_of(source)) if source[0] == "s" else x

    for target in INTEGERS:
        t = bits_of(target)
        low, high = limits(target)
        case(f"cvt.{target}.{source}", b, t, number, [v])
        case(f"cvt.sat.{target}.{source}", b, t,
             lambda x, n=number, lo=low, hi=high: min(max(n(x), lo), hi), [v])  # fmt: skip
    for target in ("f16", "bf16", "f32", "f64"):
        for mode in MODES:
            case(f"cvt.{mode}.{target}.{source}", b, bits_of(target),
                 lambda x, n=number, t=target, m=mode: encode(Fraction(n(x)), t, m), [v], target)  # fmt: skip
FLOATS = ("f16", "bf16", "f32", "f64")
for source in FLOATS:
    v, b = float_edges(source), bits_of(source)
    for target in INTEGERS:
        for rounding in ROUNDINGS:
            case(f"cvt.{rounding}.{target}.{source}", b, bits_of(target),
                 to_integer(source, target, rounding), [v])  # fmt: skip
    for target in FLOATS:
        t = bits_of(target)
        narrowing = t < b or (t == b and source != target)
        for mode in MODES if narrowing else ("",):
            dot = f".{mode}" if mode else ""
            case(f"cvt{dot}.{target}.{source}", b, t,
                 float_to_float(source, target, mode or "rn"), [v], target)  # fmt: skip
        case(f"cvt.{'rn.' if narrowing else ''}sat.{target}.{source}", b, t,
             float_to_float(source, target, sat=True), [v], target)  # fmt: skip
    for rounding in ROUNDINGS:
        case(
            f"cvt.{rounding}.{source}.{source}",
            b,
            b,
            integral(source, source, rounding),
            [v],
            source,
        )
for target in ("f16", "bf16"):
    v = [float_edges("f32")]
    case(f"cvt.rn.relu.{target}.f32", 32, 16, float_to_float("f32", target, relu=True), v, target)
    case(f"cvt.rn.satfinite.{target}.f32", 32, 16,
         float_to_float("f32", target, satfinite=True), v, target)  # fmt: skip
case("cvt.ftz.f32.f32", 32, 32, float_to_float("f32", "f32", ftz=True), [float_edges("f32")], "f32")
case(
    "cvt.rn.ftz.f32.f64",
    64,
    32,
    float_to_float("f64", "f32", ftz=True),
    [float_edges("f64")],
    "f32",
)
case("cvt.ftz.f64.f32", 32, 64, float_to_float("f32", "f64", ftz=True), [float_edges("f32")], "f64")
case("cvt.rzi.ftz.s32.f32", 32, 32, to_integer("f32", "s32", "rzi", ftz=True), [float_edges("f32")])


def tf32(mode, relu=False, satfinite=False):
    """As an H200 does: `.rna` cuts a NaN, the others make it canonical; `.satfinite` lowers infinity."""

    def oracle(x):
        value = decode(x, "f32")
        if value == NAN:
            x = x & ~0x1FFF if mode == "rna" else 0x7FFFE000
        elif abs(value) != math.inf:
            step = 1 << 13
            size = x & 0x7FFFFFFF
            low = size & ~(step - 1)
            rest = Fraction(size - low, step)
            up = {"rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low & step),
                  "rna": rest >= Fraction(1, 2), "rz": False}[mode]  # fmt: skip
            x = low + step * int(bool(up)) | x & 1 << 31
        if satfinite and x >> 23 & 255 == 255:
            x -= 0x2000
        return 0 if relu and x >> 31 else x

    return oracle


for mode in ("rna", "rn", "rz"):
    case(f"cvt.{mode}.tf32.f32", 32, 32, tf32(mode), [float_edges("f32")], "f32")
case("cvt.rn.relu.tf32.f32", 32, 32, tf32("rn", relu=True), [float_edges("f32")], "f32")
case("cvt.rna.satfinite.tf32.f32", 32, 32, tf32("rna", satfinite=True), [float_edges("f32")], "f32")

PACKED: dict[str, tuple] = {}  # name -> (op, part format, oracle of one part, source columns)
for half in ("f16", "bf16"):
    for mods, options in (("rn", {}), ("rz", {"mode": "rz"}), ("rn.relu", {"relu": True}),
                          ("rn.satfinite", {"satfinite": True})):  # fmt: skip
        PACKED[f"cvt.{mods}.{half}x2.f32"] = (
            op(f"cvt.{mods}.{half}x2.f32", "32 32", "32"),
            half,
            float_to_float("f32", half, **options),
        )
for small in ("e4m3", "e5m2", "e2m1", "e2m3", "e3m2"):
    for relu in (False, True):
        name = f"cvt.rn.satfinite{'.relu' * relu}.{small}x2.f32"

        def narrowed(x, small=small, relu=relu):
            value = decode(x, "f32")
            if relu and value != NAN and negative(x, "f32"):
                return 0
            return encode(value, small, "rn", negative(x, "f32"), satfinite=True)

        PACKED[name] = (op(name, "32 32", "8" if small == "e2m1" else "16"), small, narrowed)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    ops = [c[0] for c in (*CASES.values(), *PACKED.values())] + EXTRA
    return Library(ops, tmp_path_factory.mktemp("isa"), "convert")


EXTRA = [op(f"cvt.rn.f16x2.{s}x2", "8" if s == "e2m1" else "16", "32")
         for s in ("e4m3", "e5m2", "e2m1", "e2m3", "e3m2")]  # fmt: skip
EXTRA += [op("cvt.rn.satfinite.e4m3x2.f16x2", "32", "16"), op("cvt.rn.satfinite.e5m2x2.f16x2", "32", "16"),
          op("cvt.pack.sat.u16.s32", "32 32", "32"), op("cvt.pack.sat.s16.s32", "32 32", "32"),
          op("cvt.pack.sat.u8.s32.b32", "32 32 32", "32"), op("cvt.pack.sat.s8.s32.b32", "32 32 32", "32"),
          op("cvt.rn.bf16x2.ue8m0x2", "16", "32"), op("cvt.rp.satfinite.ue8m0x2.f32", "32 32", "16"),
          op("cvt.rz.satfinite.ue8m0x2.f32", "32 32", "16")]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_matches_exact_values(library, name):
    item, values, oracle, kind = CASES[name]
    column = np.array(values[0], np.uint64)
    got = library(name, column)[0]
    mask = (1 << item.results[0]) - 1
    for x, result in zip(values[0], got):
        want, result = oracle(x) & mask, int(result)
        equal = same_float(result, want, kind) if kind else result == want
        assert equal, (name, hex(x), hex(result), hex(want))


@pytest.mark.parametrize("name", PACKED)
def test_packs_take_the_first_operand_high(library, name):
    _, part, oracle = PACKED[name]
    values = float_edges("f32")
    high, low = np.array(values, np.uint64), np.array(values[::-1], np.uint64)
    got = library(name, high, low)[0]
    bits = 4 if part == "e2m1" else max(FORMATS[part].bits, 8)
    for a, b, result in zip(high, low, got):
        for shift, x in ((bits, a), (0, b)):
            piece, want = int(result) >> shift & ((1 << bits) - 1), oracle(int(x))
            assert same_float(piece, want, part), (name, hex(int(x)), hex(piece), hex(want))


@pytest.mark.parametrize("small", ["e4m3", "e5m2", "e2m1", "e2m3", "e3m2"])
def test_small_floats_widen_exactly(library, small):
    bits = 4 if small == "e2m1" else 8
    codes = range(1 << FORMATS[small].bits)
    packed = np.array([c | (c ^ 1) << bits for c in codes], np.uint64)
    got = library(f"cvt.rn.f16x2.{small}x2", packed)[0]
    for c, result in zip(codes, got):
        for shift, code in ((0, c), (16, c ^ 1)):
            want = encode(decode(code, small), "f16", "rn", negative(code, small))
            assert same_float(int(result) >> shift & 0xFFFF, want, "f16"), (small, hex(code))


@pytest.mark.parametrize("small", ["e4m3", "e5m2"])
def test_small_floats_from_halves(library, small):
    values = float_edges("f16")
    columns = np.array([v | w << 16 for v, w in zip(values, values[::-1])], np.uint64)
    got = library(f"cvt.rn.satfinite.{small}x2.f16x2", columns)[0]
    for v, w, result in zip(values, values[::-1], got):
        for shift, x in ((0, v), (8, w)):
            want = encode(decode(x, "f16"), small, "rn", negative(x, "f16"), satfinite=True)
            assert same_float(int(result) >> shift & 255, want, small), (small, hex(x))


@pytest.mark.parametrize("kind", ["e4m3", "e5m2", "e2m1", "e2m3", "e3m2", "f16", "bf16"])
def test_ties_between_neighbors_go_to_even(library, kind):
    """The middle of every two neighbors, and the f32 on either side of it."""
    step = 1 if FORMATS[kind].bits < 16 else 37
    middles = [
        (decode(c, kind) + decode(c + 1, kind)) / 2 for c in range(0, FORMATS[kind].largest, step)
    ]
    codes = [encode(x, "f32") + d for x in middles for d in (-1, 0, 1)]
    column = np.array(codes + [c | 1 << 31 for c in codes], np.uint64)
    name = f"cvt.rn.{kind}x2.f32" if kind in ("f16", "bf16") else f"cvt.rn.satfinite.{kind}x2.f32"
    got = library(name, column, column)[0]
    part = {4: 15, 6: 255, 8: 255, 16: 0xFFFF}[FORMATS[kind].bits]
    for x, result in zip(column, got):
        want = encode(
            decode(int(x), "f32"), kind, "rn", negative(int(x), "f32"), satfinite=part < 256
        )
        assert int(result) & part == want, (kind, hex(int(x)))


@pytest.mark.parametrize("kind", ["u16", "s16", "u8", "s8"])
def test_integer_packs_saturate(library, kind):
    values = [
        0,
        1,
        127,
        128,
        255,
        256,
        32767,
        32768,
        65535,
        65536,
        0x7FFFFFFF,
        0x80000000,
        0xFFFFFFFF,
    ]
    bits, (low, high) = bits_of(kind), limits(kind)
    narrow = bits == 8
    columns = product(values, values, *([[0, 0xABCD1234]] if narrow else []))
    got = library(f"cvt.pack.sat.{kind}.s32{'.b32' if narrow else ''}", *columns)[0]
    for row, result in enumerate(got):
        a, b = (min(max(signed(int(c[row]), 32), low), high) & (1 << bits) - 1 for c in columns[:2])
        upper = int(columns[2][row]) << 16 if narrow else 0
        assert int(result) == (upper | a << bits | b) & 0xFFFFFFFF


def test_scales_are_powers_of_two(library):
    codes = np.arange(256, dtype=np.uint64)
    got = library("cvt.rn.bf16x2.ue8m0x2", codes)[0]
    for code, result in enumerate(got):
        low = decode(int(result) & 0xFFFF, "bf16")
        assert low == (NAN if code == 255 else Fraction(2) ** (code - 127))
    values = [1.0, 1.5, 2.0, 3.0, 0.75, 2.0**-126, 1e38]
    bits = np.array(values, np.float32).view(np.uint32).astype(np.uint64)
    up, down = (library(f"cvt.{m}.satfinite.ue8m0x2.f32", bits, bits)[0] for m in ("rp", "rz"))
    for x, high, low in zip(values, up, down):
        assert int(low) & 255 == math.floor(math.log2(x)) + 127
        assert int(high) >> 8 == math.ceil(math.log2(x)) + 127


def test_nan_becomes_the_canonical_nan(library):
    assert int(library("cvt.rn.f16.f32", np.array([0xFFC12345], np.uint64))[0][0]) == 0x7FFF
    assert int(library("cvt.rn.bf16.f32", np.array([0xFFC12345], np.uint64))[0][0]) == 0x7FFF
    assert is_nan(int(library("cvt.f32.f16", np.array([0x7E00], np.uint64))[0][0]), "f32")
