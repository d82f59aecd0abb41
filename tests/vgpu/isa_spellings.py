"""Every spelling of PTX's scalar arithmetic, by rule: operation × types × modifiers, with operands.

A `Spelling` is one instruction (or a chain that shares a carry flag) as PTX text over %s0, %s1, … with
the types that its sources' values are taken from. Operand kinds beyond PTX types: `shift`, a shift
amount; `byte`, a position or length in bits; `lane`, 0 to 31; `pred`.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

BITS = {"pred": 1, "shift": 32, "byte": 32, "lane": 32, "f16": 16, "bf16": 16,
        "f32": 32, "tf32": 32, "f64": 64, "f16x2": 32, "bf16x2": 32, "f32x2": 64, "u16x2": 32,
        "s16x2": 32, "e4m3x2": 16, "e5m2x2": 16, "e2m3x2": 16, "e3m2x2": 16, "ue8m0x2": 16,
        "e2m1x2": 16, "e4m3x4": 32, "e5m2x4": 32, "e2m3x4": 32, "e3m2x4": 32, "e2m1x4": 16,
        **{f"{s}{n}": max(n, 16) for s in "bus" for n in (8, 16, 32, 64)}}  # fmt: skip
"""Bits of the register that holds an operand of a type."""


@dataclass(frozen=True)
class Spelling:
    name: str
    sources: tuple[str, ...]
    results: tuple[str, ...]
    arch: int = 70  # the first architecture that has it; 100 means sm_100a
    text: str = ""  # PTX over %s0…, %d0…; the plain instruction when empty
    approximate: bool = False

    @property
    def body(self) -> str:
        plain = [f"%s{i}" for i in range(len(self.sources))]
        return self.text or f"{self.name} {', '.join(['%d0', *plain])};"


def _s(name: str, sources: str, results: str, arch: int = 70, text: str = "", **more) -> Spelling:
    return Spelling(name, tuple(sources.split()), tuple(results.split()), arch, text, **more)


def _dots(*groups: str) -> list[str]:
    """Every choice of one modifier of each group, `-` for none: `_dots("rn rz", "- ftz")`."""
    rows = itertools.product(*(g.split() for g in groups))
    return ["".join(f".{m}" for m in row if m != "-") for row in rows]


INTEGERS = ["u16", "s16", "u32", "s32", "u64", "s64"]
ALL_INTEGERS = ["u8", "s8", *INTEGERS]
ROUNDED = "rn rz rm rp"


def integers() -> Iterator[Spelling]:
    for t in INTEGERS:
        for op in ("add", "sub", "min", "max", "div", "rem", "mul.lo", "mul.hi"):
            yield _s(f"{op}.{t}", f"{t} {t}", t)
        for op in ("mad.lo", "mad.hi", "sad"):
            yield _s(f"{op}.{t}", f"{t} {t} {t}", t)
        if t[1:] != "64":
            wide = t[0] + str(2 * int(t[1:]))
            yield _s(f"mul.wide.{t}", f"{t} {t}", wide)
            yield _s(f"mad.wide.{t}", f"{t} {t} {wide}", wide)
        if t[0] == "s":
            yield from (_s(f"{op}.{t}", t, t) for op in ("abs", "neg"))
    for t in ("u16x2", "s16x2"):
        yield from (_s(f"{op}.{t}", f"{t} {t}", t, 90) for op in ("add", "min", "max"))
    for t in ("s16x2", "s32"):
        yield from (_s(f"{op}.relu.{t}", f"{t} {t}", t, 90) for op in ("min", "max"))
    yield from (_s(f"{op}.sat.s32", "s32 s32", "s32") for op in ("add", "sub"))
    yield _s("mad.hi.sat.s32", "s32 s32 s32", "s32")
    for t in ("u32", "s32"):
        for part in ("lo", "hi"):
            yield _s(f"mul24.{part}.{t}", f"{t} {t}", t)
            yield _s(f"mad24.{part}.{t}", f"{t} {t} {t}", t)
        for other in ("u32", "s32"):
            yield _s(f"dp4a.{t}.{other}", f"{t} {other} s32", "s32")
            for part in ("lo", "hi"):
                yield _s(f"dp2a.{part}.{t}.{other}", f"{t} {other} s32", "s32")
    yield _s("mad24.hi.sat.s32", "s32 s32 s32", "s32")


def carries() -> Iterator[Spelling]:
    """Chains: the flag is set by one instruction and read by the next ones."""
    for t in ("u32", "s32", "u64", "s64"):
        for first, then in itertools.product(("add", "sub"), ("addc", "subc")):
            text = f"{first}.cc.{t} %d0, %s0, %s1; {then}.cc.{t} %d1, %s2, %s3; addc.{t} %d2, 0, 0;"
            yield _s(f"{first}.cc.{t}+{then}.cc", f"{t} {t} {t} {t}", f"{t} {t} {t}", text=text)
        for a, b in itertools.product(("lo", "hi"), ("lo", "hi")):
            text = (f"mad.{a}.cc.{t} %d0, %s0, %s1, %s2; madc.{b}.cc.{t} %d1, %s0, %s1, %s3;"
                    f"madc.{b}.{t} %d2, %s2, %s3, 0; subc.{t} %d2, %d2, %s1;")  # fmt: skip
            yield _s(f"mad.{a}.cc.{t}+madc.{b}.cc", f"{t} {t} {t} {t}", f"{t} {t} {t}", text=text)


def bit_operations() -> Iterator[Spelling]:
    for b in ("b16", "b32", "b64"):
        yield from (_s(f"{op}.{b}", f"{b} {b}", b) for op in ("and", "or", "xor"))
        yield from (_s(f"{op}.{b}", b, b) for op in ("not", "cnot"))
        yield _s(f"shl.{b}", f"{b} shift", b)
    yield from (_s(f"{op}.pred", "pred pred", "pred") for op in ("and", "or", "xor"))
    yield _s("not.pred", "pred", "pred")
    for t in ["b16", "b32", "b64", *INTEGERS]:
        yield _s(f"shr.{t}", f"{t} shift", t)
    for side, wrap in itertools.product("lr", ("clamp", "wrap")):
        yield _s(f"shf.{side}.{wrap}.b32", "b32 b32 shift", "b32")
    for lut in (0x00, 0x80, 0x96, 0xE8, 0xCA, 0xF8, 0x6A, 0x01, 0x3C, 0xB1, 0xFE, 0xFF):
        yield _s(
            f"lop3.b32 {lut:#x}", "b32 b32 b32", "b32", text=f"lop3.b32 %d0, %s0, %s1, %s2, {lut};"
        )
        for op in ("or", "and"):
            text = f"lop3.{op}.b32 %d0|%d1, %s0, %s1, %s2, {lut}, %s3;"
            yield _s(f"lop3.{op}.b32 {lut:#x}", "b32 b32 b32 pred", "b32 pred", 80, text)
    for n in ("32", "64"):
        yield from (_s(f"{op}.b{n}", f"b{n}", "b32") for op in ("popc", "clz"))
        yield _s(f"brev.b{n}", f"b{n}", f"b{n}")
        yield _s(f"bfi.b{n}", f"b{n} b{n} byte byte", f"b{n}")
        for t in (f"u{n}", f"s{n}"):
            yield from (_s(f"bfind{m}.{t}", t, "u32") for m in ("", ".shiftamt"))
            yield _s(f"bfe.{t}", f"{t} byte byte", t)
    for wrap in ("clamp", "wrap"):
        yield _s(f"bmsk.{wrap}.b32", "shift shift", "b32")
        yield from (_s(f"szext.{wrap}.{t}", f"{t} shift", t) for t in ("u32", "s32"))
    yield _s("fns.b32", "b32 lane s32", "b32")
    for mode in _dots("- f4e b4e rc8 ecl ecr rc16"):
        yield _s(f"prmt.b32{mode}", "b32 b32 b32", "b32")


def floats() -> Iterator[Spelling]:
    for op, mods in itertools.product(
        ("add", "sub", "mul"), _dots(f"- {ROUNDED}", "- ftz", "- sat")
    ):
        yield _s(f"{op}{mods}.f32", "f32 f32", "f32")
    for op, mods in itertools.product(("add", "sub", "mul"), _dots(f"- {ROUNDED}")):
        yield _s(f"{op}{mods}.f64", "f64 f64", "f64")
    for mods in _dots(ROUNDED, "- ftz", "- sat"):
        yield _s(f"fma{mods}.f32", "f32 f32 f32", "f32")
        yield _s(f"mad{mods}.f32", "f32 f32 f32", "f32")
    for m in _dots(ROUNDED):
        yield from (_s(f"{op}{m}.f64", "f64 f64 f64", "f64") for op in ("fma", "mad"))
        yield _s(f"div{m}.f64", "f64 f64", "f64")
        yield from (_s(f"{op}{m}.f64", "f64", "f64") for op in ("rcp", "sqrt"))
    for mods in _dots(ROUNDED, "- ftz"):
        yield _s(f"div{mods}.f32", "f32 f32", "f32")
        yield from (_s(f"{op}{mods}.f32", "f32", "f32") for op in ("rcp", "sqrt"))
    for ftz in _dots("- ftz"):
        yield from (_s(f"{op}{ftz}.f32", "f32", "f32") for op in ("abs", "neg"))
        for op in ("div.approx", "div.full"):
            yield _s(f"{op}{ftz}.f32", "f32 f32", "f32", approximate=True)
        for op in ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2"):
            yield _s(f"{op}.approx{ftz}.f32", "f32", "f32", approximate=True)
    yield _s("tanh.approx.f32", "f32", "f32", 75, approximate=True)
    yield from (_s(f"{op}.f64", "f64", "f64") for op in ("abs", "neg"))
    for name in ("rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64", "rsqrt.approx.f64"):
        yield _s(name, "f64", "f64", approximate=True)
    for op in ("min", "max"):
        yield from (_s(f"{op}{m}.f32", "f32 f32", "f32", 80 if "NaN" in m else 70)
                    for m in _dots("- ftz", "- NaN"))  # fmt: skip
        yield from (
            _s(f"{op}{m}.xorsign.abs.f32", "f32 f32", "f32", 86) for m in _dots("- ftz", "- NaN")
        )
        yield from (_s(f"{op}{m}.f32 3", "f32 f32 f32", "f32", 100, f"{op}{m}.f32 %d0, %s0, %s1, %s2;")
                    for m in _dots("- ftz", "- NaN", "- abs"))  # fmt: skip
        yield _s(f"{op}.f64", "f64 f64", "f64")
    for t in ("f32", "f64"):
        yield _s(f"copysign.{t}", f"{t} {t}", t)
        for test in ["finite", "infinite", "number", "notanumber", "normal", "subnormal"]:
            yield _s(f"testp.{test}.{t}", t, "pred")
    for op, mods in itertools.product(("add", "sub", "mul"), _dots(f"- {ROUNDED}", "- ftz")):
        yield _s(f"{op}{mods}.f32x2", "f32x2 f32x2", "f32x2", 100)
    yield from (
        _s(f"fma{m}.f32x2", "f32x2 f32x2 f32x2", "f32x2", 100) for m in _dots(ROUNDED, "- ftz")
    )
    for half, mods in itertools.product(("f16", "bf16"), _dots(f"- {ROUNDED}", "- sat")):
        yield from (
            _s(f"{op}{mods}.f32.{half}", f"{half} f32", "f32", 100) for op in ("add", "sub")
        )
    for half, mods in itertools.product(("f16", "bf16"), _dots(ROUNDED, "- sat")):
        yield _s(f"fma{mods}.f32.{half}", f"{half} {half} f32", "f32", 100)


def halves() -> Iterator[Spelling]:
    for t in ("f16", "f16x2"):
        for op, m in itertools.product(("add", "sub", "mul"), _dots("- rn", "- ftz", "- sat")):
            yield _s(f"{op}{m}.{t}", f"{t} {t}", t)
        yield from (_s(f"fma.rn{m}.{t}", f"{t} {t} {t}", t) for m in _dots("- ftz", "- sat"))
        yield from (_s(f"fma.rn{m}.relu.{t}", f"{t} {t} {t}", t, 80) for m in _dots("- ftz"))
        yield from (_s(f"{op}{m}.{t}", t, t) for op in ("neg", "abs") for m in _dots("- ftz"))
        yield _s(f"ex2.approx.{t}", t, t, 75, approximate=True)
    for t in ("bf16", "bf16x2"):
        for op, m in itertools.product(("add", "sub", "mul"), _dots("- rn")):
            yield _s(f"{op}{m}.{t}", f"{t} {t}", t, 90)
        yield from (_s(f"fma.rn{m}.{t}", f"{t} {t} {t}", t, 80) for m in _dots("- relu"))
        yield from (_s(f"{op}.{t}", t, t, 80) for op in ("neg", "abs"))
        yield _s(f"ex2.approx.ftz.{t}", t, t, 90, approximate=True)
    for t in ("f16", "f16x2", "bf16", "bf16x2"):
        yield _s(f"tanh.approx.{t}", t, t, 90 if "b" in t else 75, approximate=True)
        yield from (_s(f"fma.rn.oob{m}.{t}", f"{t} {t} {t}", t, 90) for m in _dots("- relu"))
        for op, nan in itertools.product(("min", "max"), _dots("- NaN")):
            for ftz in _dots("- ftz" if t[0] == "f" else "-"):
                yield _s(f"{op}{ftz}{nan}.{t}", f"{t} {t}", t, 80)
                yield _s(f"{op}{ftz}{nan}.xorsign.abs.{t}", f"{t} {t}", t, 86)


COMPARED = {
    **dict.fromkeys(("u16", "u32", "u64"), "eq ne lt le gt ge lo ls hi hs"),
    **dict.fromkeys(("s16", "s32", "s64"), "eq ne lt le gt ge"),
    **dict.fromkeys(("b16", "b32", "b64"), "eq ne"),
    **dict.fromkeys(("f32", "f64", "f16", "bf16", "f16x2", "bf16x2"), "eq ne lt le gt ge equ neu ltu leu gtu geu num nan"),
}  # fmt: skip


def comparisons() -> Iterator[Spelling]:
    for t, words in COMPARED.items():
        arch = 90 if t.startswith("bf16") else 70
        flushes = _dots("- ftz") if t in ("f32", "f16", "f16x2") else [""]
        pair = "x2" in t
        for cmp, ftz in itertools.product(words.split(), flushes):
            if pair:
                yield _s(f"setp.{cmp}{ftz}.{t}", f"{t} {t}", "pred pred", arch,
                         f"setp.{cmp}{ftz}.{t} %d0|%d1, %s0, %s1;")  # fmt: skip
            else:
                yield _s(f"setp.{cmp}{ftz}.{t}", f"{t} {t}", "pred", arch)
            for op in ("and", "or", "xor"):
                name, one = f"setp.{cmp}.{op}{ftz}.{t}", t in ("f16", "bf16")
                found, results = ("%d0", "pred") if one else ("%d0|%d1", "pred pred")
                yield _s(name, f"{t} {t} pred", results, arch, f"{name} {found}, %s0, %s1, %s2;")
            yield from _sets(t, cmp, ftz, arch)
    for t in ["b16", "b32", "b64", *INTEGERS, "f32", "f64"]:
        yield _s(f"selp.{t}", f"{t} {t} pred", t)
        yield _s(f"slct.{t}.s32", f"{t} {t} s32", t)
        yield from (_s(f"slct{ftz}.{t}.f32", f"{t} {t} f32", t) for ftz in _dots("- ftz"))


def _sets(t: str, cmp: str, ftz: str, arch: int) -> Iterator[Spelling]:
    """`set`: what the destination may be depends on what is compared."""
    targets = {"f16": ["f16", "u16", "s16", "u32", "s32"], "bf16": ["bf16", "u16", "s16", "u32", "s32"],
               "f16x2": ["f16x2", "u32", "s32"], "bf16x2": ["bf16x2", "u32", "s32"]}  # fmt: skip
    for target in targets.get(t, ["u32", "s32", "f32"]):
        yield _s(f"set.{cmp}{ftz}.{target}.{t}", f"{t} {t}", target, arch)
        if target in ("u32", "f32", "f16", "bf16"):
            yield _s(f"set.{cmp}.xor{ftz}.{target}.{t}", f"{t} {t} pred", target, arch)


def _range(kind: str) -> tuple[int, int]:
    n = int(kind[1:])
    return (-(1 << n - 1), (1 << n - 1) - 1) if kind[0] == "s" else (0, (1 << n) - 1)


def conversions() -> Iterator[Spelling]:
    for a, b in itertools.product(ALL_INTEGERS, ALL_INTEGERS):
        yield _s(f"cvt.{b}.{a}", a, b)
        if not (_range(b)[0] <= _range(a)[0] and _range(a)[1] <= _range(b)[1]):
            yield _s(f"cvt.sat.{b}.{a}", a, b)
    reals = ("f16", "bf16", "f32", "f64")
    for f, i in itertools.product(reals, ALL_INTEGERS):
        if f == "bf16" and i not in INTEGERS:
            continue
        arch, sat = (90, "-") if f == "bf16" else (70, "- sat")
        for m in _dots("rni rzi rmi rpi", "- ftz" if f == "f32" else "-", sat):
            yield _s(f"cvt{m}.{i}.{f}", f, i, arch)
        for m in _dots(ROUNDED, "- sat" if f != "bf16" else "-"):
            yield _s(f"cvt{m}.{f}.{i}", i, f, arch)
    for f in ("f16", "f32", "f64"):
        for m in _dots("- rni rzi rmi rpi", "- ftz" if f == "f32" else "-", "- sat"):
            yield _s(f"cvt{m}.{f}.{f}", f, f)
    yield from (_s(f"cvt{m}.bf16.bf16", "bf16", "bf16", 90) for m in _dots("rni rzi rmi rpi"))
    for m in _dots(ROUNDED, "- sat"):
        yield from (_s(f"cvt{m}.f16.{f}", f, "f16") for f in ("f32", "f64"))
        yield from (_s(f"cvt{m}{z}.f32.f64", "f64", "f32") for z in _dots("- ftz"))
    yield from (_s(f"cvt{m}.ftz.f16.f32", "f32", "f16") for m in _dots(ROUNDED, "- sat"))
    for m in _dots("- sat"):
        yield from (_s(f"cvt{m}.{f}.f16", "f16", f) for f in ("f32", "f64"))
        yield from (_s(f"cvt{z}{m}.f64.f32", "f32", "f64") for z in _dots("- ftz"))
    yield from (_s(f"cvt.{f}.bf16", "bf16", f, 90) for f in ("f32", "f64"))
    yield from (
        _s(f"cvt{m}.bf16.{f}", f, "bf16", 90) for m in _dots(ROUNDED) for f in ("f16", "f64")
    )
    yield from (_s(f"cvt{m}.f16.bf16", "bf16", "f16", 90) for m in _dots(ROUNDED))
    yield from (_s(f"cvt{m}.bf16.f32", "f32", "bf16", 90) for m in _dots("rm rp"))
    yield from _small_conversions()


def _small_conversions() -> Iterator[Spelling]:
    for m in _dots("rn rz", "- relu", "- satfinite"):
        arch = 90 if "satfinite" in m else 80
        for half in ("f16", "bf16"):
            if half == "bf16" or "." in m[1:]:  # plain f16 has all four roundings, above
                yield _s(f"cvt{m}.{half}.f32", "f32", half, arch)
            yield _s(f"cvt{m}.{half}x2.f32", "f32 f32", f"{half}x2", arch)
    for half, m in itertools.product(("f16x2", "bf16x2"), _dots("- relu", "- satfinite")):
        yield _s(f"cvt.rs{m}.{half}.f32", "f32 f32 b32", half, 100)
    yield from (_s(f"cvt.rna{m}.tf32.f32", "f32", "tf32", 80) for m in _dots("-"))
    yield _s("cvt.rna.satfinite.tf32.f32", "f32", "tf32", 89)
    for m in _dots("rn rz", "- relu"):
        yield _s(f"cvt{m}.tf32.f32", "f32", "tf32", 90)
        yield _s(
            f"cvt{m.replace('.relu', '')}.satfinite{'.relu' * ('relu' in m)}.tf32.f32",
            "f32",
            "tf32",
            100,
        )
    for small, relu in itertools.product(("e4m3x2", "e5m2x2"), _dots("- relu")):
        yield _s(f"cvt.rn.satfinite{relu}.{small}.f32", "f32 f32", small, 89)
        yield _s(f"cvt.rn.satfinite{relu}.{small}.f16x2", "f16x2", small, 89)
        yield _s(f"cvt.rn{relu}.f16x2.{small}", small, "f16x2", 89)
    for small, relu in itertools.product(("e2m3x2", "e3m2x2"), _dots("- relu")):
        yield _s(f"cvt.rn.satfinite{relu}.{small}.f32", "f32 f32", small, 100)
        yield _s(f"cvt.rn{relu}.f16x2.{small}", small, "f16x2", 100)
    for relu in _dots("- relu"):
        name = f"cvt.rn.satfinite{relu}.e2m1x2.f32"
        yield _s(
            name, "f32 f32", "b16", 100, f"{{ .reg .b8 t; {name} t, %s0, %s1; cvt.u16.u8 %d0, t; }}"
        )
        name = f"cvt.rn{relu}.f16x2.e2m1x2"
        yield _s(name, "b16", "f16x2", 100, f"{{ .reg .b8 t; cvt.u8.u16 t, %s0; {name} %d0, t; }}")
        for small in ("e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4", "e2m1x4"):
            name = f"cvt.rs{relu}.satfinite.{small}.f32"
            yield _s(
                name, "f32 f32 f32 f32 b32", small, 100, f"{name} %d0, {{%s0, %s1, %s2, %s3}}, %s4;"
            )
    for m in _dots("rz rp", "- satfinite"):
        yield _s(f"cvt{m}.ue8m0x2.f32", "f32 f32", "ue8m0x2", 100)
        yield _s(f"cvt{m}.ue8m0x2.bf16x2", "bf16x2", "ue8m0x2", 100)
    yield _s("cvt.rn.bf16x2.ue8m0x2", "ue8m0x2", "bf16x2", 100)
    yield from (_s(f"cvt.pack.sat.{t}.s32", "s32 s32", "b32", 72) for t in ("u16", "s16"))
    for t in ("u8", "s8"):
        yield _s(f"cvt.pack.sat.{t}.s32.b32", "s32 s32 b32", "b32", 72)
    for t in ("u4", "s4", "u2", "s2"):
        yield _s(f"cvt.pack.sat.{t}.s32.b32", "s32 s32 b32", "b32", 75)


SELECTED = ("", ".b0", ".b3", ".h0", ".h1")
WORDS = ("u32", "s32")


def videos() -> Iterator[Spelling]:
    """Scalar video: types × saturation × part of each operand × second operation or merge."""
    for op in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
        yield from _video(op, itertools.product(WORDS, WORDS, WORDS), ("", ".sat"))
    for op in ("vshl", "vshr"):
        for wrap in (".clamp", ".wrap"):
            kinds = [(d, a, "u32") for d in WORDS for a in WORDS]
            yield from _video(op, kinds, (wrap, f".sat{wrap}"))
    for cmp in ("eq", "ne", "lt", "le", "gt", "ge"):
        for a, b in itertools.product(WORDS, WORDS):
            for x, y in ((SELECTED[0],) * 2, (".b1", ".h1"), (".h0", ".b2")):
                name, arg = f"vset.{a}.{b}.{cmp}", f"%d0, %s0{x}, %s1{y}"
                yield _s(f"{name} {x}{y}", "b32 b32", "u32", text=f"{name} {arg};")
                for second in ("add", "min", "max"):
                    yield _s(f"{name}.{second} {x}{y}", "b32 b32 b32", "u32",
                             text=f"{name}.{second} {arg}, %s2;")  # fmt: skip
    yield from _vmads()
    yield from _packed_videos()


def _video(op: str, kinds, mods: tuple[str, ...]) -> Iterator[Spelling]:
    for (d, a, b), m in itertools.product(kinds, mods):
        name = f"{op}.{d}.{a}.{b}{m}"
        for x, y in ((SELECTED[0],) * 2, (".b0", ".b3"), (".h1", ".h0"), (".b2", "")):
            yield _s(f"{name} {x}{y}", "b32 b32", d, text=f"{name} %d0, %s0{x}, %s1{y};")
        for second in ("add", "min", "max"):
            full = f"{name}.{second}"
            yield _s(full, "b32 b32 b32", d, text=f"{full} %d0, %s0.h0, %s1.b1, %s2;")
        for part in (".b0", ".b2", ".h0", ".h1"):
            yield _s(
                f"{name} merge {part}",
                "b32 b32 b32",
                d,
                text=f"{name} %d0{part}, %s0, %s1.h1, %s2;",
            )


def _vmads() -> Iterator[Spelling]:
    for (d, a, b), m in itertools.product(
        itertools.product(WORDS, WORDS, WORDS), _dots("- sat", "- shr7 shr15")
    ):
        if d == "u32" and "s32" in (a, b):
            continue
        for x, y in (("", ""), (".b1", ".h0"), (".h1", ".b3")):
            name = f"vmad.{d}.{a}.{b}{m}"
            yield _s(f"{name} {x}{y}", "b32 b32 b32", d, text=f"{name} %d0, %s0{x}, %s1{y}, %s2;")
    for m in _dots("- sat", "- shr7 shr15"):
        yield _s(
            f"vmad.s32.s32.s32{m} -a",
            "b32 b32 b32",
            "s32",
            text=f"vmad.s32.s32.s32{m} %d0, -%s0, %s1, %s2;",
        )
        yield _s(
            f"vmad.s32.s32.s32{m} -c",
            "b32 b32 b32",
            "s32",
            text=f"vmad.s32.s32.s32{m} %d0, %s0.h1, %s1, -%s2;",
        )
        yield _s(
            f"vmad.u32.u32.u32.po{m}",
            "b32 b32 b32",
            "u32",
            text=f"vmad.u32.u32.u32.po{m} %d0, %s0, %s1.h0, %s2;",
        )


def _packed_videos() -> Iterator[Spelling]:
    for lanes, op in itertools.product("24", ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax")):
        for (d, a, b), m in itertools.product(
            itertools.product(WORDS, WORDS, WORDS), ("", ".sat", ".add")
        ):
            name = f"{op}{lanes}.{d}.{a}.{b}{m}"
            yield _s(name, "b32 b32 b32", d)
            mask, sel = (".h0", ".h30") if lanes == "2" else (".b20", ".b7430")
            yield _s(f"{name} {mask}", "b32 b32 b32", d,
                     text=f"{name} %d0{mask}, %s0{sel}, %s1{sel}, %s2;")  # fmt: skip
    for lanes, cmp in itertools.product("24", ("eq", "ne", "lt", "le", "gt", "ge")):
        for (a, b), m in itertools.product(itertools.product(WORDS, WORDS), ("", ".add")):
            yield _s(f"vset{lanes}.{a}.{b}.{cmp}{m}", "b32 b32 b32", "u32")


def atomics() -> Iterator[Spelling]:
    """Each thread has a cell of its own at [%cell]; %s0 is there before, %d1 is there afterwards."""
    integer = {"add": "u32 s32 u64", "min": "u32 s32 u64 s64", "max": "u32 s32 u64 s64",
               "and": "b32 b64", "or": "b32 b64", "xor": "b32 b64", "exch": "b32 b64",
               "inc": "u32", "dec": "u32"}  # fmt: skip
    real = {"add": ("f32", "f64")}
    for op, kinds in integer.items():
        yield from (_atomic(op, t, 70) for t in kinds.split())
    yield from (_atomic("add", t, 70) for t in real["add"])
    yield from (_atomic("add.noftz", t, 70) for t in ("f16", "f16x2"))
    yield from (_atomic("add.noftz", t, 90) for t in ("bf16", "bf16x2"))
    for t in ("b16", "b32", "b64"):
        n = BITS[t]
        text = f"st.global.b{n} [%cell], %s0; atom.global.cas.{t} %d0, [%cell], %s1, %s2; ld.global.b{n} %d1, [%cell];"
        yield _s(f"atom.cas.{t}", f"{t} {t} {t}", f"{t} {t}", 70, text)


def _atomic(op: str, t: str, arch: int) -> Spelling:
    n = BITS[t]
    text = f"st.global.b{n} [%cell], %s0; atom.global.{op}.{t} %d0, [%cell], %s1; "
    if op != "exch":
        text += f"red.global.{op}.{t} [%cell], %s1; "
    return _s(
        f"atom+red.{op}.{t}", f"{t} {t}", f"{t} {t}", arch, text + f"ld.global.b{n} %d1, [%cell];"
    )


FAMILIES = {f.__name__: f for f in (integers, carries, bit_operations, floats, halves, comparisons,
                                    conversions, videos, atomics)}  # fmt: skip


def spellings(*families: str) -> list[Spelling]:
    """All spellings, or those of the families."""
    found = [s for name in families or FAMILIES for s in FAMILIES[name]()]
    assert len({s.name for s in found}) == len(found), "two spellings have one name"
    return found
