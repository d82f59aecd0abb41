"""Scalar video instructions against the manual's pseudo-code, over edge values."""
# SPDX-License-Identifier: Apache-2.0

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from launching import Bench

pytestmark = pytest.mark.virtual

EDGES = [0, 1, 2, 7, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x12345678, 0x7FFFFFFF,
         0x80000000, 0x80FF7F01, 0xFFFFFFFF]  # fmt: skip
TRIPLES = np.array(
    [*itertools.product(EDGES, EDGES, (0, 5, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0))], np.uint32
)


def kernel(line):
    return f""".version 9.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n) {{
.reg .pred %p0; .reg .b32 %r<9>; .reg .b64 %d<9>;
ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out]; ld.param.u32 %r8, [n];
mov.u32 %r4, %ctaid.x; mov.u32 %r5, %tid.x; mad.lo.u32 %r4, %r4, 128, %r5;
setp.ge.u32 %p0, %r4, %r8; @%p0 ret;
mad.wide.u32 %d0, %r4, 12, %d0; mad.wide.u32 %d1, %r4, 4, %d1;
ld.global.u32 %r1, [%d0]; ld.global.u32 %r2, [%d0+4]; ld.global.u32 %r3, [%d0+8];
mov.u32 %r0, 99;
{line}
st.global.u32 [%d1], %r0;
ret;
}}"""


def run(line):
    out = np.zeros(len(TRIPLES), np.uint32)
    Bench(kernel(line)).right("k", (-(-len(out) // 128),), (128,), TRIPLES, out, len(out))
    return out


def signed(x, bits):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def pick(x, part, kind):
    """partSelectSignExtend of the manual."""
    if part:
        bits, at = (8, 8 * int(part[1])) if part[0] == "b" else (16, 16 * int(part[1]))
        x = x >> at & (1 << bits) - 1
        return signed(x, bits) if kind == "s32" else x
    return signed(x, 32) if kind == "s32" else x


def clamp(t, bits, is_signed):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    return min(max(t, low), high)


COMPARE = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
           "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}  # fmt: skip
FIRST = {
    "vadd": lambda a, b, m: a + b, "vsub": lambda a, b, m: a - b, "vabsdiff": lambda a, b, m: abs(a - b),
    "vmin": lambda a, b, m: min(a, b), "vmax": lambda a, b, m: max(a, b),
    "vshl": lambda a, b, m: a << (b & 31 if "wrap" in m else min(b, 32)),
    "vshr": lambda a, b, m: a >> (b & 31 if "wrap" in m else min(b, 32)),
    "vset": lambda a, b, m: int(next(f for n, f in COMPARE.items() if n in m)(a, b)),
}  # fmt: skip


def expected(op, mods, a, b, c, parts):
    """optSaturate, optMerge and optSecondaryOp of the manual, one triple."""
    kinds = [m for m in mods if m in ("u32", "s32")]
    d, x, y = kinds if len(kinds) == 3 else ("u32", *kinds)
    t = FIRST[op](pick(a, parts[1], x), pick(b, parts[2], y), mods)
    bits = {"": 32, "b": 8, "h": 16}[parts[0][:1]]
    if "sat" in mods:
        t = clamp(t, bits, d == "s32")
    if parts[0]:
        at = bits * int(parts[0][1])
        mask = (1 << bits) - 1 << at
        return (t << at & mask) | (c & ~mask)
    first = signed(t, 32) if d == "s32" else t & 0xFFFFFFFF
    second = signed(c, 32) if d == "s32" else c
    for name, combine in (("add", int.__add__), ("min", min), ("max", max)):
        if name in mods:
            t = combine(first, second)
    return t & 0xFFFFFFFF


CASES = [
    ("vadd", "u32.u32.u32", ("", "", ""), False), ("vadd", "s32.s32.s32.sat", ("", "", ""), False),
    ("vadd", "s32.u32.s32.sat", ("", "b3", "h1"), False), ("vadd", "u32.s32.s32.sat", ("b1", "h0", "b2"), True),
    ("vsub", "u32.u32.u32.sat", ("", "", ""), False), ("vsub", "s32.u32.u32.max", ("", "b3", "b1"), True),
    ("vabsdiff", "u32.u32.u32.add", ("", "b0", "b1"), True), ("vabsdiff", "s32.s32.s32", ("", "h1", "h0"), False),
    ("vmin", "s32.s32.s32", ("", "", "h0"), False), ("vmin", "s32.s32.u32.min", ("", "", ""), True),
    ("vmax", "u32.u32.u32.max", ("", "", ""), True), ("vmax", "u32.s32.u32", ("h1", "b0", ""), True),
    ("vshl", "u32.u32.u32.clamp", ("", "", ""), False), ("vshl", "s32.s32.u32.sat.wrap", ("", "b1", "b0"), False),
    ("vshr", "u32.u32.u32.clamp", ("", "", ""), False), ("vshr", "s32.s32.u32.wrap.add", ("", "h1", ""), True),
    ("vset", "u32.u32.lt", ("", "b0", ""), False), ("vset", "s32.s32.ge.max", ("", "", ""), True),
    ("vset", "s32.u32.ne", ("b3", "h1", "h0"), True),
]  # fmt: skip


@pytest.mark.parametrize(("op", "mods", "parts", "merged"), CASES)
def test_scalar(op, mods, parts, merged):
    operands = [r + (f".{p}" if p else "") for r, p in zip(("%r0", "%r1", "%r2"), parts)]
    line = f"{op}.{mods} {', '.join(operands)}{', %r3' if merged else ''};"
    want = [expected(op, mods.split("."), *(int(v) for v in t), parts) for t in TRIPLES]
    np.testing.assert_array_equal(run(line), np.array(want, np.uint32), err_msg=line)


MADS = [
    ("u32.u32.u32", "", "", (0, 0, 0)), ("s32.s32.s32", "h0", "h1", (0, 0, 0)), ("s32.s32.u32", "b3", "", (0, 0, 0)),
    ("u32.u32.u32.sat.shr7", "b0", "h1", (0, 0, 0)), ("s32.s32.s32.sat.shr15", "h1", "h1", (0, 0, 0)),
    ("u32.u32.u32.po", "h0", "h0", (0, 0, 0)), ("s32.s32.s32", "h0", "h0", (1, 0, 0)), ("s32.s32.s32.sat", "h0", "", (0, 0, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("mods", "x", "y", "minus"), MADS)
def test_mad(mods, x, y, minus):
    def text(register, part, negative):
        return "-" * negative + register + (f".{part}" if part else "")

    operands = [text(*o) for o in zip(("%r1", "%r2", "%r3"), (x, y, ""), minus)]
    _, p, q = mods.split(".")[:3]
    is_signed = "s32" in (p, q) or any(minus)
    want = []
    for a, b, c in TRIPLES.tolist():
        t = pick(a, x, p) * pick(b, y, q) * (-1) ** (minus[0] ^ minus[1])
        t += (signed(c, 32) if is_signed else c) * (-1) ** minus[2] + ("po" in mods)
        t >>= 7 if "shr7" in mods else 15 if "shr15" in mods else 0
        want.append((clamp(t, 32, is_signed) if "sat" in mods else t) & 0xFFFFFFFF)
    line = f"vmad.{mods} %r0, {', '.join(operands)};"
    np.testing.assert_array_equal(run(line), np.array(want, np.uint32), err_msg=line)


@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("mods", ["u32.u32.lt", "s32.s32.ge", "s32.u32.ne", "u32.u32.eq.add"])
def test_set_of_parts(lanes, mods):
    p, q, name = mods.split(".")[:3]
    letter, bits, want = "h" if lanes == 2 else "b", 32 // lanes, []
    for a, b, c in TRIPLES.tolist():
        r = [
            int(COMPARE[name](pick(a, f"{letter}{i}", p), pick(b, f"{letter}{i}", q)))
            for i in range(lanes)
        ]
        packed = sum(v << i * bits for i, v in enumerate(r))
        want.append((c + sum(r)) & 0xFFFFFFFF if "add" in mods else packed)
    np.testing.assert_array_equal(
        run(f"vset{lanes}.{mods} %r0, %r1, %r2, %r3;"), np.array(want, np.uint32)
    )
