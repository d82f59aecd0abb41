"""setp and set on every type against Python comparisons, and what the rules refuse."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest
from isa_harness import Library, instruction, op, product
from isa_oracle import FORMATS, NAN, decode, edges, flush, signed
from isa_oracle import INTEGER_EDGES as EDGES

from warpsmith.errors import UnsupportedInstruction
from warpsmith.vgpu.isa import registry

pytestmark = pytest.mark.plain

ORDER = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
JOIN = {"and": lambda p, q: p & q, "or": lambda p, q: p | q, "xor": lambda p, q: p ^ q}


def integers(comparison, kind):
    bits = int(kind[1:])

    def oracle(a, b):
        if kind[0] == "s":
            a, b = signed(a, bits), signed(b, bits)
        return int(ORDER[UNSIGNED.get(comparison, comparison)](a, b))

    return oracle


def floats(comparison, kind, ftz=False):
    def oracle(a, b):
        x, y = (decode(flush(v, kind) if ftz else v, kind) for v in (a, b))
        unordered = NAN in (x, y)
        if comparison in ("num", "nan"):
            return int(unordered == (comparison == "nan"))
        if unordered:
            return int(comparison.endswith("u"))
        return int(ORDER[comparison.removesuffix("u") if comparison != "neu" else "ne"](x, y))

    return oracle


CASES: dict[str, tuple] = {}
KINDS = [f"{s}{b}" for s in "usb" for b in (16, 32, 64)]
for kind in KINDS:
    bits = kind[1:]
    names = {"u": [*ORDER, *UNSIGNED], "s": list(ORDER), "b": ["eq", "ne"]}[kind[0]]
    for comparison in names:
        CASES[f"setp.{comparison}.{kind}"] = (
            op(f"setp.{comparison}.{kind}", f"{bits} {bits}", "1"),
            (EDGES[int(bits)],) * 2, integers(comparison, kind))  # fmt: skip
COMPARISONS = [*ORDER, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
for kind in ("f32", "f64", "f16", "bf16"):
    bits = FORMATS[kind].bits
    for comparison in COMPARISONS:
        name = f"setp.{comparison}.{kind}"
        values = (edges(kind),) * 2
        CASES[name] = (op(name, f"{bits} {bits}", "1"), values, floats(comparison, kind))
        if kind in ("f32", "f16"):
            name = f"setp.{comparison}.ftz.{kind}"
            CASES[name] = (op(name, f"{bits} {bits}", "1"), values, floats(comparison, kind, True))

JOINED = {f"setp.lt.{j}.{k}": (op(f"setp.lt.{j}.{k}", f"{b} {b} 1", "1 1"), j, o, v)
          for j in JOIN
          for k, b, o, v in (("s32", 32, integers("lt", "s32"), EDGES[32]),
                             ("f32", 32, floats("lt", "f32"), edges("f32")))}  # fmt: skip
TRUE = {"u32": 0xFFFFFFFF, "s32": 0xFFFFFFFF, "f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80, "u16": 0xFFFF}  # fmt: skip
SETS = {f"set.gt.{t}.{k}": (op(f"set.gt.{t}.{k}", f"{b} {b}", "16" if t.endswith("16") else "32"), o, v, TRUE[t])
        for t in TRUE
        for k, b, o, v in (("s32", 32, integers("gt", "s32"), EDGES[32]),
                           ("f32", 32, floats("gt", "f32"), edges("f32")),
                           ("f16", 16, floats("gt", "f16"), edges("f16")))}  # fmt: skip
PAIRS = [op(f"setp.{c}.{k}", "32 32", "1 1") for c in ("lt", "neu") for k in ("f16x2", "bf16x2")]
SET_PAIRS = [op(f"set.ge.{t}.{k}", "32 32", "32") for k in ("f16x2", "bf16x2") for t in (k, "u32")]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    ops = [c[0] for c in (*CASES.values(), *JOINED.values(), *SETS.values())]
    return Library([*ops, *PAIRS, *SET_PAIRS], tmp_path_factory.mktemp("isa"), "compare")


@pytest.mark.parametrize("name", CASES)
def test_compares(library, name):
    _, values, oracle = CASES[name]
    columns = product(*values)
    for a, b, got in zip(*columns, library(name, *columns)[0]):
        assert int(got) == oracle(int(a), int(b)), (name, hex(int(a)), hex(int(b)))


@pytest.mark.parametrize("name", JOINED)
def test_joins_a_predicate_and_gives_the_opposite(library, name):
    _, join, oracle, values = JOINED[name]
    columns = product(values, values, [0, 1])
    first, second = library(name, *columns)
    for a, b, c, p, q in zip(*columns, first, second):
        true = oracle(int(a), int(b))
        assert int(p) == JOIN[join](true, int(c))
        assert int(q) == JOIN[join](1 - true, int(c))


@pytest.mark.parametrize("name", SETS)
def test_set_gives_a_number(library, name):
    _, oracle, values, true = SETS[name]
    columns = product(values, values)
    for a, b, got in zip(*columns, library(name, *columns)[0]):
        assert int(got) == (true if oracle(int(a), int(b)) else 0)


@pytest.mark.parametrize("name", [o.name for o in (*PAIRS, *SET_PAIRS)])
def test_packed_halves_compare_by_themselves(library, name):
    _, comparison, *_, kind = name.split(".")
    half = kind.removesuffix("x2")
    values = edges(half)
    words = [v | w << 16 for v, w in zip(values, values[5:] + values[:5])]
    columns = product(words, words)
    got = library(name, *columns)
    oracle = floats(comparison, half)
    true = 0xFFFF if ".u32." in name else TRUE[half]
    for row, (a, b) in enumerate(zip(*columns)):
        want = [oracle(int(a) >> s & 0xFFFF, int(b) >> s & 0xFFFF) for s in (0, 16)]
        if name.startswith("setp"):
            assert [int(r[row]) for r in got] == want
        else:
            assert int(got[0][row]) == want[0] * true | want[1] * true << 16


SOURCES = {"ex2.f64": ["a"], "prmt.b32.zzz": ["a", "b", "c"]}


@pytest.mark.parametrize("name", [
    "add.rn.ftz.e4m3", "add.wide.s32", "mul.wide.u64", "setp.lo.f32", "setp.equ.s32", "cvt.rs.f16x2.f32",
    "ex2.f64", "min.sat.f32", "prmt.b32.zzz", "add.sat.u32",
])  # fmt: skip
def test_unknown_forms_are_refused_by_name(name):
    rule = registry.ALU[name.split(".")[0]]
    with pytest.raises(UnsupportedInstruction) as caught:
        rule.emit(instruction(name), SOURCES.get(name, ["a", "b"]))
    assert name in str(caught.value)
    assert caught.value.line == 7


@pytest.mark.parametrize(("name", "count"), [("add.f32", 1), ("add.f32", 3), ("fma.rn.f32", 2),
                                             ("bfi.b32", 3), ("setp.lt.f32", 4), ("abs.s32", 2)])  # fmt: skip
def test_a_wrong_number_of_sources_is_refused(name, count):
    rule = registry.ALU[name.split(".")[0]]
    with pytest.raises(UnsupportedInstruction, match="source operands"):
        rule.emit(instruction(name), ["a"] * count)
