"""Floating-point instructions over edge values against exact fractions."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import numpy as np
import pytest
from isa_harness import Library, op, product
from isa_oracle import (
    FORMATS,
    arithmetic,
    decode,
    edges,
    encode,
    flush,
    is_nan,
    negative,
    rectified,
    same_float,
    saturated,
)

pytestmark = pytest.mark.plain

MODES = ("rn", "rz", "rm", "rp")


CASES: dict[str, tuple] = {}


def case(name, kind, count, oracle, values=None):
    bits = FORMATS[kind].bits
    item = op(name, " ".join([str(bits)] * count), str(bits))
    CASES[name] = (item, values or [edges(kind)] * count, oracle, kind)


def exact(operation, kind, mode="rn", ftz=False, sat=False, relu=False):
    def oracle(a, b=0, c=0):
        a, b, c = (flush(v, kind) if ftz else v for v in (a, b, c))
        result = arithmetic(operation, a, b, c, kind, mode)
        if (
            ftz
            and flush(arithmetic(operation, a, b, c, kind, "rz"), kind) & ~FORMATS[kind].sign == 0
        ):
            result = flush(result, kind) & FORMATS[kind].sign  # subnormal before it is rounded
        result = flush(result, kind) if ftz else result
        result = saturated(result, kind) if sat else result
        return rectified(result, kind) if relu else result

    return oracle


FEW = {k: edges(k, 4)[::2] + edges(k, 4)[-6:] for k in ("f16", "bf16", "f32", "f64")}
for kind in ("f32", "f64"):
    for mode in MODES:
        for name in ("add", "sub", "mul"):
            case(f"{name}.{mode}.{kind}", kind, 2, exact(name, kind, mode))
        case(f"div.{mode}.{kind}", kind, 2, exact("div", kind, mode))
        case(f"fma.{mode}.{kind}", kind, 3, exact("fma", kind, mode), [FEW[kind]] * 3)
for name in ("add", "sub", "mul"):
    case(f"{name}.f32", "f32", 2, exact(name, "f32"))
    case(f"{name}.ftz.f32", "f32", 2, exact(name, "f32", ftz=True))
    case(f"{name}.rn.sat.f32", "f32", 2, exact(name, "f32", sat=True))
    case(f"{name}.rn.ftz.sat.f32", "f32", 2, exact(name, "f32", ftz=True, sat=True))
    for kind in ("f16", "bf16"):
        case(f"{name}.{kind}", kind, 2, exact(name, kind))
        case(f"{name}.rn.{kind}", kind, 2, exact(name, kind))
    case(f"{name}.ftz.sat.f16", "f16", 2, exact(name, "f16", ftz=True, sat=True))
case("mad.rn.f32", "f32", 3, exact("fma", "f32"), [FEW["f32"]] * 3)
case("fma.rn.ftz.sat.f32", "f32", 3, exact("fma", "f32", ftz=True, sat=True), [FEW["f32"]] * 3)
for kind in ("f16", "bf16"):
    case(f"fma.rn.{kind}", kind, 3, exact("fma", kind))
    case(f"fma.rn.relu.{kind}", kind, 3, exact("fma", kind, relu=True), [FEW[kind]] * 3)
case("fma.rn.ftz.f16", "f16", 3, exact("fma", "f16", ftz=True), [FEW["f16"]] * 3)
case("fma.rn.sat.f16", "f16", 3, exact("fma", "f16", sat=True), [FEW["f16"]] * 3)


def chosen(name, kind, nan_wins=False, xorsign=False, ftz=False):
    """min and max with -0 < +0; a NaN loses unless `.NaN`."""
    f = FORMATS[kind]

    def order(x):
        return (decode(x, kind), not negative(x, kind))

    def oracle(a, b):
        if ftz:
            a, b = flush(a, kind), flush(b, kind)
        sign = (a ^ b) & f.sign if xorsign else 0
        if xorsign:
            a, b = a & ~f.sign, b & ~f.sign
        lost = [v for v in (a, b) if not is_nan(v, kind)]
        if not lost or (nan_wins and len(lost) < 2):
            return f.nan
        pick = min if name == "min" else max
        return pick(lost, key=order) | sign

    return oracle


for kind in ("f32", "f64", "f16", "bf16"):
    f = FORMATS[kind]
    for name in ("min", "max"):
        case(f"{name}.{kind}", kind, 2, chosen(name, kind))
        if kind != "f64":
            case(f"{name}.NaN.{kind}", kind, 2, chosen(name, kind, nan_wins=True))
            case(f"{name}.xorsign.abs.{kind}", kind, 2, chosen(name, kind, xorsign=True))
        if kind in ("f16", "f32"):
            case(f"{name}.ftz.{kind}", kind, 2, chosen(name, kind, ftz=True))
    case(f"neg.{kind}", kind, 1, lambda a, f=f: a ^ f.sign)
    case(f"abs.{kind}", kind, 1, lambda a, f=f: a & ~f.sign)
for kind in ("f32", "f64"):
    f = FORMATS[kind]
    case(f"copysign.{kind}", kind, 2, lambda a, b, f=f: a & f.sign | b & ~f.sign)
case("neg.ftz.f32", "f32", 1, lambda a: flush(a, "f32") ^ 1 << 31)
case("abs.ftz.f32", "f32", 1, lambda a: flush(a, "f32") & ~(1 << 31))


def packed(kind, oracle, parts):
    bits = FORMATS[kind].bits

    def both(*operands):
        results = [oracle(*(v >> s & (1 << bits) - 1 for v in operands)) for s in (0, bits)]
        return results[0] | results[1] << bits

    return [v | w << bits for v, w in zip(parts, parts[3:] + parts[:3])], both


PACKED: dict[str, tuple] = {}
for kind, full in (("f16", "f16x2"), ("bf16", "bf16x2"), ("f32", "f32x2")):
    for name, oracle, count in [
        *((n, exact(n, kind), 2) for n in ("add", "sub", "mul")),
        ("fma.rn", exact("fma", kind), 3),
        *((n, chosen(n, kind), 2) for n in ("min", "max") if kind != "f32"),
    ]:
        values, both = packed(kind, oracle, FEW[kind])
        width = 2 * FORMATS[kind].bits
        item = op(f"{name}.{full}", " ".join([str(width)] * count), str(width))
        PACKED[item.name] = (item, [values] * count, both, kind)

TESTP = {
    "finite": lambda v, x, k: v != "nan" and abs(v) != math.inf,
    "infinite": lambda v, x, k: v != "nan" and abs(v) == math.inf,
    "number": lambda v, x, k: v != "nan",
    "notanumber": lambda v, x, k: v == "nan",
    "normal": lambda v, x, k: v != "nan" and abs(v) != math.inf and flush(x, k) == x,  # zeros too
    "subnormal": lambda v, x, k: v != "nan" and v != 0 and flush(x, k) != x,
}
TESTP_OPS = [op(f"testp.{t}.{k}", str(FORMATS[k].bits), "1") for t in TESTP for k in ("f32", "f64")]
ROOTS = [op(f"{name}.{mode}.{kind}", str(FORMATS[kind].bits), str(FORMATS[kind].bits))
         for name in ("sqrt", "rcp") for mode in MODES for kind in ("f32", "f64")]  # fmt: skip
APPROXIMATE = {
    # name -> (reference, bound on the relative error, values)
    "rcp.approx.f32": (lambda x: 1 / x, 2**-23, "any"),
    "sqrt.approx.f32": (np.sqrt, 2**-23, "positive"),
    "rsqrt.approx.f32": (lambda x: 1 / np.sqrt(x), 2**-22.9, "positive"),
    "ex2.approx.f32": (np.exp2, 2**-22, "exponent"),  # 2 ulp
    "lg2.approx.f32": (np.log2, 2**-22, "logarithm"),
    "tanh.approx.f32": (np.tanh, 2**-11, "small"),
    "div.full.f32": (None, 2**-22, "any"),
    "div.approx.f32": (None, 2**-22, "any"),
    "rsqrt.approx.f64": (lambda x: 1 / np.sqrt(x), 2**-50, "positive"),
    "rcp.approx.ftz.f64": (lambda x: 1 / x, 2**-19, "any"),
}


def _kind(name):
    return name.rsplit(".", 1)[1]


APPROXIMATE_OPS = [
    op(n, " ".join([str(FORMATS[_kind(n)].bits)] * (2 if n[:3] == "div" else 1)),
       str(FORMATS[_kind(n)].bits))
    for n in (*APPROXIMATE, "sin.approx.f32", "cos.approx.f32", "ex2.approx.ftz.f32",
              "ex2.approx.f16", "tanh.approx.f16", "ex2.approx.ftz.bf16", "tanh.approx.bf16")
]  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    ops = [c[0] for c in (*CASES.values(), *PACKED.values())]
    return Library([*ops, *TESTP_OPS, *ROOTS, *APPROXIMATE_OPS],
                   tmp_path_factory.mktemp("isa"), "floating")  # fmt: skip


@pytest.mark.parametrize("name", [*CASES, *PACKED])
def test_matches_fractions(library, name):
    item, values, oracle, kind = CASES.get(name) or PACKED[name]
    columns = product(*values)
    got = library(name, *columns)[0]
    bits = FORMATS[kind].bits
    for row in range(len(columns[0])):
        operands = [int(c[row]) for c in columns]
        want, result = oracle(*operands), int(got[row])
        for shift in range(0, item.results[0], bits):
            part = (1 << bits) - 1
            assert same_float(result >> shift & part, want >> shift & part, kind), (
                name, [hex(x) for x in operands], hex(result), hex(want))  # fmt: skip


@pytest.mark.parametrize("name", [o.name for o in TESTP_OPS])
def test_testp(library, name):
    _, test, kind = name.split(".")
    values = edges(kind)
    got = library(name, np.array(values, np.uint64))[0]
    for x, result in zip(values, got):
        assert int(result) == int(TESTP[test](decode(x, kind), x, kind)), (name, hex(x))


@pytest.mark.parametrize("name", [o.name for o in ROOTS])
def test_directed_roots_bracket_the_truth(library, name):
    """The result is the float next to the exact value on the side that the mode names."""
    base, mode, kind = name.split(".")
    values = [x for x in edges(kind, 20) if decode(x, kind) != "nan"]
    got = library(name, np.array(values, np.uint64))[0]
    for x, result in zip(values, got):
        value = decode(x, kind)
        if base == "rcp":
            want = arithmetic("div", encode(1, kind), x, 0, kind, mode)
            assert int(result) == want, (name, hex(x))
        elif value > 0 and value != math.inf:
            up, down = (decode(int(result) + d, kind) for d in (1, -1))
            root = decode(int(result), kind)
            if mode == "rn":
                assert (root + down) ** 2 / 4 <= value <= (root + up) ** 2 / 4, (name, hex(x))
            elif mode == "rp":
                assert down**2 < value <= root**2, (name, hex(x))
            else:
                assert root**2 <= value < up**2, (name, hex(x))


def f32_bits(x):
    return np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)


def values_of(region, kind):
    rng = np.random.default_rng(7)
    n = 20000
    spread = {
        "any": np.exp2(rng.uniform(-120, 120, n)) * rng.choice([-1, 1], n),
        "positive": np.exp2(rng.uniform(-125, 127, n)),
        "exponent": rng.uniform(-125, 127, n),
        "logarithm": np.concatenate([np.exp2(rng.uniform(-148, -1, n)), rng.uniform(2, 1e30, n)]),
        "small": np.concatenate([rng.uniform(-6, 6, n), np.exp2(rng.uniform(-100, 0, n))]),
    }[region]
    return spread.astype(np.float32 if kind == "f32" else np.float64)


def as_bits(x):
    return x.view(np.uint32 if x.dtype == np.float32 else np.uint64).astype(np.uint64)


def as_floats(bits, kind):
    if kind == "f32":
        return bits.astype(np.uint32).view(np.float32).astype(np.float64)
    return bits.view(np.float64)


@pytest.mark.parametrize("name", APPROXIMATE)
def test_approximations_keep_the_documented_bound(library, name):
    reference, bound, region = APPROXIMATE[name]
    kind = _kind(name)
    x = values_of(region, kind)
    if reference is None:
        y = x[::-1].copy()
        want = x.astype(np.float64) / y.astype(np.float64)
        use = (np.abs(want) > 2.0**-126) & (np.abs(want) < 2.0**127)
        got = as_floats(library(name, as_bits(x), as_bits(y))[0], kind)
        got, want = got[use], want[use]
    else:
        want = reference(x.astype(np.float64))
        got = as_floats(library(name, as_bits(x))[0], kind)
    error = np.abs(got - want) / np.abs(want)
    assert error.max() <= bound, (name, x[error.argmax()], error.max(), bound)


def test_lg2_near_one_keeps_its_absolute_bound(library):
    x = np.linspace(0.5, 2, 20001).astype(np.float32)
    got = as_floats(library("lg2.approx.f32", as_bits(x))[0], "f32")
    assert np.abs(got - np.log2(x.astype(np.float64))).max() <= 2**-22


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sine_and_cosine_keep_their_absolute_bound(library, name):
    x = np.linspace(-np.pi, np.pi, 40001).astype(np.float32)
    far = np.linspace(-1000, 1000, 20001).astype(np.float32)
    for values in (x, far):
        got = as_floats(library(f"{name}.approx.f32", as_bits(values))[0], "f32")
        error = np.abs(got - getattr(np, name)(values.astype(np.float64)))
        assert error.max() <= 2**-20.5, (values[error.argmax()], error.max())


INF, NAN = math.inf, math.nan
SPECIAL = {
    "rcp.approx.f32": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, -0.0), (NAN, NAN)],
    "sqrt.approx.f32": [(-1.0, NAN), (-0.0, -0.0), (0.0, 0.0), (INF, INF), (NAN, NAN)],
    "rsqrt.approx.f32": [(-1.0, NAN), (-0.0, -INF), (0.0, INF), (INF, 0.0), (NAN, NAN)],
    "ex2.approx.f32": [(-INF, 0.0), (-0.0, 1.0), (0.0, 1.0), (INF, INF), (NAN, NAN), (3.0, 8.0),
                       (-149.0, 2.0**-149), (-151.0, 0.0), (128.0, INF), (127.0, 2.0**127)],
    "ex2.approx.ftz.f32": [(-149.0, 0.0), (-126.0, 2.0**-126), (1e-42, 1.0)],
    "lg2.approx.f32": [(0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (NAN, NAN), (1.0, 0.0),
                       (2.0**-149, -149.0), (-INF, NAN), (8.0, 3.0)],
    "sin.approx.f32": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cos.approx.f32": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "tanh.approx.f32": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN)],
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values_of_the_manual(library, name):
    for x, want in SPECIAL[name]:
        got = int(library(name, f32_bits([x]))[0][0])
        assert same_float(got, int(f32_bits([want])[0]), "f32"), (name, x, want, hex(got))


def test_approximate_division_by_huge_gives_zero(library):
    """2**126 < |b| < 2**128 gives 0, or NaN where a is infinite."""
    a, b = f32_bits([3.0, -3.0, INF, 3.0]), f32_bits([2.0**127, 2.0**127, 2.0**127, 2.0**126])
    got = as_floats(library("div.approx.f32", a, b)[0], "f32")
    assert got[0] == got[1] == 0
    assert np.isnan(got[2])
    assert got[3] > 0


@pytest.mark.parametrize("name", ["ex2.approx.f16", "tanh.approx.f16", "tanh.approx.bf16",
                                  "ex2.approx.ftz.bf16"])  # fmt: skip
def test_half_precision_functions(library, name):
    """Every finite value: the f32 function's result, rounded, within the manual's error."""
    kind = _kind(name)
    f = FORMATS[kind]
    codes = [c | s for c in range(0, f.largest + 1, 7) for s in (0, f.sign)]
    got = library(name, np.array(codes, np.uint64))[0]
    function = math.tanh if name.startswith("tanh") else lambda x: 2.0**x if x < 1000 else INF
    bound = {"f16": 2**-9.9, "bf16": 2**-7}[kind]
    for code, result in zip(codes, got):
        want = function(float(decode(code, kind)))
        if 2.0**-14 < abs(want) < 65000:
            assert abs(float(decode(int(result), kind)) / want - 1) <= bound, (name, hex(code))
