"""Integers of 64, 128 and 256 bits against Python's: what C++ makes of them, and PTX carry chains."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import random
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from compile import cuda
from isa_oracle import signed
from launching import Bench

pytestmark = pytest.mark.virtual
ROWS = 512


def edges(bits: int) -> list[int]:
    """Raw bits of small and large numbers of both signs, powers of two and their neighbors."""
    top = 1 << bits - 1
    near = [1 << k for k in (16, 31, 32, 33, 63, 64, 65, 95, 96, 127) if k < bits]
    values = [0, 1, 2, 3, 7, 10, top, top - 1, top + 1, top // 3]
    values += [p + d for p in near for d in (-1, 0, 1)]
    values += [-v for v in values]
    return list(dict.fromkeys(v % (1 << bits) for v in values))


def pairs(bits: int) -> list[tuple[int, int]]:
    """Edge values with edge values, then random numbers of every length."""
    source = random.Random(bits)
    found = [(source.choice(edges(bits)), source.choice(edges(bits))) for _ in range(ROWS // 2)]
    length = lambda: source.getrandbits(source.randint(1, bits))  # noqa: E731
    return found + [(length(), length()) for _ in range(ROWS - len(found))]


def words(values: list[int], bits: int, count: int) -> list[np.ndarray]:
    """Words of the numbers, the lowest first."""
    kind = {32: np.uint32, 64: np.uint64}[bits]
    return [np.array([v >> bits * i & (1 << bits) - 1 for v in values], kind) for i in range(count)]


def joined(columns: list[np.ndarray], bits: int) -> list[int]:
    return [sum(int(w) << bits * i for i, w in enumerate(row)) for row in zip(*columns)]


def quotient(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


OPERATIONS = {
    "a+b": lambda a, b: a + b,
    "a-b": lambda a, b: a - b,
    "a*b": lambda a, b: a * b,
    "a/b": quotient,
    "a%b": lambda a, b: a - b * quotient(a, b),
    "a/3": lambda a, b: quotient(a, 3),
    "a/10": lambda a, b: quotient(a, 10),
    "a%1000000007": lambda a, b: a - 1000000007 * quotient(a, 1000000007),
    "a<b": lambda a, b: a < b,
    "-a": lambda a, b: -a,
    "a>>(b&63)": lambda a, b: a >> (b & 63),
    "a<<(b&63)": lambda a, b: a << (b & 63),
}
SIGNED_ONLY = {"a/-7": lambda a, b: quotient(a, -7)}
TYPES = {"s64": "long long", "u64": "unsigned long long", "s128": "__int128",
         "u128": "unsigned __int128"}  # fmt: skip
CASES = {f"{kind} {text}": (kind, text, function) for kind in TYPES for text, function in
         (OPERATIONS | (SIGNED_ONLY if kind[0] == "s" else {})).items()}  # fmt: skip


def kernel_text(number: int, kind: str, expression: str) -> str:
    t = TYPES[kind]
    join = lambda x: f"({t})(((unsigned __int128){x}h[i] << 64) | {x}l[i])"  # noqa: E731
    return (
        f'extern "C" __global__ void k{number}(u64* rl, u64* rh, const u64* al, const u64* ah, '
        "const u64* bl, const u64* bh) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"  {t} a = {join('a')}, b = {join('b')}, r = {expression};\n"
        "  rl[i] = (u64)r; rh[i] = (u64)((unsigned __int128)r >> 64); }\n"
    )


@cache
def bench() -> Bench:
    texts = [kernel_text(i, kind, text) for i, (kind, text, _) in enumerate(CASES.values())]
    source = "typedef unsigned long long u64;\n" + "".join(texts)
    return Bench(cuda(source, "sm_80", "--device-int128"))


@pytest.mark.parametrize("name", CASES)
def test_arithmetic_of_cuda(name):
    pytest.importorskip("cuda.bindings.nvrtc")
    kind, _, function = CASES[name]
    bits = int(kind[1:])
    read = (lambda x: signed(x, bits)) if kind[0] == "s" else (lambda x: x)
    given = [(a, b or 1) for a, b in pairs(bits)]  # a division by zero means nothing
    given = [(a, b) if (read(a), read(b)) != (-(1 << bits - 1), -1) else (a, 1) for a, b in given]
    columns = [w for side in zip(*given) for w in words(list(side), 64, 2)]
    low, high = np.zeros(ROWS, np.uint64), np.zeros(ROWS, np.uint64)
    bench().right(f"k{list(CASES).index(name)}", (ROWS // 128,), (128,), low, high, *columns)
    for (a, b), got in zip(given, joined([low, high], 64)):
        want = int(function(read(a), read(b)))
        assert got % (1 << bits) == want % (1 << bits), (hex(a), hex(b))


# ------------------------------------------------------------------------------- chains of PTX

# four words a0 a1 b0 b1 … in, results d0 … out; T is the type, W its bits, Z a word's bytes
CHAIN = """.version 8.6
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {
.reg .b64 %p<4>; .reg .b32 %t<5>; .reg .bW a<4>, b<4>, d<9>, z;
mov.u32 %t1, %tid.x; mov.u32 %t2, %ctaid.x; mad.lo.u32 %t1, %t2, 128, %t1;
ld.param.u64 %p1, [in]; ld.param.u64 %p2, [out];
mad.wide.u32 %p1, %t1, IN, %p1; mad.wide.u32 %p2, %t1, OUT, %p2;
mov.bW z, 0;
LOADS
BODY
STORES
ret; }
"""
SUM = """add.cc.T d0, a0, b0; addc.cc.T d1, a1, b1; addc.cc.T d2, a2, b2; addc.cc.T d3, a3, b3;
addc.T d4, z, z;"""
DIFFERENCE = """sub.cc.T d0, a0, b0; subc.cc.T d1, a1, b1; subc.cc.T d2, a2, b2;
subc.cc.T d3, a3, b3; subc.T d4, z, z;"""
# as NVRTC's 128-bit division does: a borrow read by addc is a missing carry
COMPARED = DIFFERENCE.replace("subc.T d4", "addc.T d4")
PRODUCT = """mul.lo.T d0, a0, b0; mul.hi.T d1, a0, b0; mov.bW d2, z; mov.bW d3, z;
mad.lo.cc.T d1, a0, b1, d1; madc.hi.cc.T d2, a0, b1, d2; addc.T d3, d3, z;
mad.lo.cc.T d1, a1, b0, d1; madc.hi.cc.T d2, a1, b0, d2; addc.T d3, d3, z;
mad.lo.cc.T d2, a1, b1, d2; madc.hi.T d3, a1, b1, d3; mov.bW d4, z;"""
# (a - b) with b added back where it was too much: sub, addc and add.cc in one chain
RESTORED = """sub.cc.T d0, a0, b0; subc.cc.T d1, a1, b1; subc.cc.T d2, a2, b2; subc.cc.T d3, a3, b3;
addc.T d4, z, z; sub.T d5, d4, 1;
and.bW d6, b0, d5; add.cc.T d0, d0, d6; and.bW d6, b1, d5; addc.cc.T d1, d1, d6;
and.bW d6, b2, d5; addc.cc.T d2, d2, d6; and.bW d6, b3, d5; addc.cc.T d3, d3, d6; mov.bW d4, z;"""


def half(x: int, bits: int) -> int:
    return x & (1 << 2 * bits) - 1


CHAINS = {
    "sum": (SUM, lambda a, b, n: a + b),
    "difference": (DIFFERENCE, lambda a, b, n: (a - b) % (1 << 5 * n)),
    "compared": (COMPARED, lambda a, b, n: (a - b) % (1 << 4 * n) | (a >= b) << 4 * n),
    "product": (PRODUCT, lambda a, b, n: half(a, n) * half(b, n)),
    "restored": (RESTORED, lambda a, b, n: a - b if a >= b else a),
}


def chain_text(body: str, kind: str) -> str:
    bits = int(kind[1:])
    size = bits // 8
    loads = [f"ld.global.bW {x}{i}, [%p1+{(4 * k + i) * size}];"
             for k, x in enumerate("ab") for i in range(4)]  # fmt: skip
    stores = [f"st.global.bW [%p2+{i * size}], d{i};" for i in range(5)]
    text = CHAIN.replace("LOADS", " ".join(loads)).replace("BODY", body)
    text = text.replace("STORES", " ".join(stores)).replace("IN,", f"{8 * size},")
    return (
        text.replace("OUT,", f"{5 * size},").replace("bW", f"b{bits}").replace(".T ", f".{kind} ")
    )


# the partial products of a chain are unsigned
CHAIN_CASES = [(name, kind) for name in CHAINS for kind in ("u32", "u64", "s32", "s64")
               if kind[0] == "u" or name != "product"]  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), CHAIN_CASES)
def test_carry_chains(name, kind):
    body, function = CHAINS[name]
    bits = int(kind[1:])
    given = pairs(4 * bits)
    a, b = (words(list(side), bits, 4) for side in zip(*given))
    table = np.ascontiguousarray(np.stack([*a, *b], axis=1))
    out = np.zeros((ROWS, 5), table.dtype)
    Bench(chain_text(body, kind)).right("k", (ROWS // 128,), (128,), table, out)
    for (x, y), got in zip(given, joined(list(out.T), bits)):
        assert got == function(x, y, bits), (hex(x), hex(y))
