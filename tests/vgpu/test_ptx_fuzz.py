"""Broken PTX, by mutation of real kernels: the reader answers with a typed error that has a place."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import random
import re

import pytest
from compile import cuda_file

from warpsmith.errors import PtxSyntaxError, UnsupportedInstruction, WarpsmithError
from warpsmith.vgpu.ptx.parse import parse
from warpsmith.vgpu.translate import translate

pytestmark = pytest.mark.virtual

_TOKEN = re.compile(r"\s+|[%$.\w]+|[^\w\s]")
_STRANGE = ["0", "-1", "99999999999999999999999999", "0x", "0f3F80", "0d00", "1e999", "08", "0b2", "%r", "%r99999999",
            "%tid.x", "_", "{", "}", "[", "]", "(", ")", "|", "!", "@", ";", ",", ":", '"', "é", "\0", "\u202e", ".reg",
            ".param", ".entry", ".align", ".loc", ".b32", "bra", "call", "ld.param.u64", "<4294967296>", "-", "+", ".v4",
            ".shared", ".section", "=", ".branchtargets", ".callprototype", ".file", "WARP_SZ", "١"]  # fmt: skip


def mutate(tokens: list[str], source: random.Random) -> str:
    """One to four edits: deletion, doubling, swap, another token, random characters, truncation."""
    tokens = list(tokens)
    for _ in range(source.randint(1, 4)):
        if not tokens:  # an edit before this one cut everything off
            break
        i, j = source.randrange(len(tokens)), source.randrange(len(tokens))
        match source.randrange(7):
            case 0:
                del tokens[i]
            case 1:
                tokens.insert(i, tokens[i])
            case 2:
                tokens[i], tokens[j] = tokens[j], tokens[i]
            case 3:
                tokens[i] = source.choice(_STRANGE)
            case 4:
                tokens[i] = tokens[j]
            case 5:
                tokens[i] = "".join(map(chr, (source.randrange(1, 0x250) for _ in range(4))))
            case _:
                tokens = tokens[: max(1, i)] if source.random() < 0.3 else tokens
    return "".join(tokens)


def read(text: str) -> str:
    """Parse and translate; the name of what came of it. Anything but a typed error escapes."""
    try:
        module = parse(text)
        for function in module.functions.values():
            if function.entry and function.defined:
                translate(module, function.name)
    except PtxSyntaxError as error:
        return "syntax" if error.line >= 1 and error.column >= 1 else "syntax without a place"
    except UnsupportedInstruction:
        return "unsupported"
    except WarpsmithError as error:
        return type(error).__name__
    return "right"


def single_kernels() -> list[str]:
    """PTX texts with one kernel each, so that many mutants are read quickly."""
    text = cuda_file("basics.cu")
    head = text[: text.index(".visible .entry")]
    bodies = re.split(r"(?=\.visible \.entry)", text[text.index(".visible .entry") :])
    return [head + body for body in bodies if len(body) < 9000]


def fuzz(seed: int, count: int) -> dict[str, int]:
    source, found = random.Random(seed), {}
    texts = [_TOKEN.findall(text) for text in single_kernels()]
    for _ in range(count):
        mutant = mutate(source.choice(texts), source)
        try:
            kind = read(mutant)
        except Exception as error:
            place = error.__traceback__
            while place.tb_next:
                place = place.tb_next
            at = f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
            raise AssertionError(f"{type(error).__name__}: {error} at {at}") from error
        found[kind] = found.get(kind, 0) + 1
    return found


@pytest.mark.parametrize("seed", range(4))
def test_mutants_of_real_kernels_are_refused_with_a_place(seed):
    found = fuzz(seed, 120)
    assert found.get("syntax", 0) > 20, found
    assert "syntax without a place" not in found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_more_mutants(seed):
    fuzz(seed, 1500)


HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
BODY = (
    HEAD
    + ".visible .entry k(.param .u64 p) {\n.reg .b32 %r<4>; .reg .pred %p<2>; .reg .b64 %rd<3>;\n"
)


@pytest.mark.parametrize("text", [
    "", "\0", "é", "(" * 20000, "{" * 20000, BODY + "{" * 50000, BODY + "mov.u32 %r1, " + "{" * 50000,
    BODY + "mov.u32 %r1, " + "!" * 50000 + "%p1; }", BODY + "mov.u32 %r1, " + "(" * 50000,
    BODY + "ld.global.u32 %r1, " + "[" * 50000, HEAD + ".global .b8 x[4] = " + "{" * 50000,
    HEAD + ".global .b32 x = " + "generic(" * 50000, HEAD + ".global .b32 x = " + "0xFF(" * 50000,
    HEAD + ".global .align 999999999999999999999 .b8 x[4];", HEAD + ".global .b8 x[99999999999999999999];",
    HEAD + ".global .align 3 .b8 x[4];", HEAD + ".global .align 0 .b8 x[4];", HEAD + ".global .b8 x[-1];",
    HEAD + ".address_size x", HEAD + ".address_size 64.5", HEAD + ".visible .entry k(.param .align z .b8 p[4]) { ret; }",
    BODY + ".reg .b32 %q<99999999999999>; mov.u32 %q5, 1; ret; }", BODY + ".reg .b32 %q<x>; ret; }",
    BODY + ".loc 1 2; ret; }", BODY + ".loc a b c; ret; }", BODY + ".loc", BODY + "bra; ret; }", BODY + "mov.u32; ret; }",
    BODY + "add.s32 %r1, %r1; ret; }", BODY + "@%p1", BODY + "@ %r1 bra X; ret; }", BODY + "mov.u32 %r1, 08; ret; }",
    BODY + "mov.u32 %r1, 1e999; ret; }", BODY + "mov.f32 %r1, 1e400; ret; }", BODY + "mov.u32 %r1, --1; ret; }",
    BODY + "ld.global.u32 %r1, [%rd1+x]; ret; }", BODY + "bra X; ret; }", BODY + "st.global.u32 [], %r1; ret; }",
    BODY + "call (a), b, (c); ret; }", BODY + "call; ret; }", BODY + "bar.sync; ret; }", BODY + "ld.param.u64 %rd1, [q]; ret; }",
    BODY + "cvt.u32; ret; }", BODY + "mma.sync; ret; }", BODY + "atom; ret; }", BODY + "cp.async; ret; }",
])  # fmt: skip
def test_a_malformed_text_is_a_typed_error(text):
    assert read(text) != "syntax without a place"
