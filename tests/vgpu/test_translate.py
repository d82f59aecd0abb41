"""Translation: what is refused and how it is told, what launches refuse, what is cached."""
# SPDX-License-Identifier: Apache-2.0

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from launching import Bench

from warpsmith import vgpu
from warpsmith.errors import LaunchError, UnknownName, UnsupportedInstruction
from warpsmith.vgpu import analysis, build
from warpsmith.vgpu.ptx.parse import parse
from warpsmith.vgpu.translate import translate

pytestmark = pytest.mark.virtual
HEAD = '.version 8.7\n.target sm_80\n.address_size 64\n.file 1 "mine.cu"\n'


def kernel(*lines, parameters=".param .u64 out", head="", directives=""):
    return HEAD + head + (
        f".visible .entry k({parameters}) {directives}\n{{\n.reg .pred %p<30>; .reg .b16 %h<30>;\n"
        ".reg .b32 %r<30>; .reg .b64 %d<30>;\n" + "\n".join(lines) + "\nret;\n}\n"
    )  # fmt: skip


def outputs(*lines, threads=32, dtype=np.uint32, **options):
    """What `%r1` of each thread is after the lines."""
    store = ("ld.param.u64 %d20, [out];", "mov.u32 %r20, %tid.x;", "mad.wide.u32 %d21, %r20, 4, %d20;",
             "st.global.b32 [%d21], %r1;")  # fmt: skip
    out = np.zeros(threads, np.uint32)
    Bench(kernel(*lines, *store, **options)).right("k", (1,), (threads,), out)
    return out.view(dtype)


def test_unsupported_instruction_names_itself_its_line_and_its_source():
    text = kernel(".loc 1 17 3", "multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%d1];")
    with pytest.raises(UnsupportedInstruction) as caught:
        translate(parse(text), "k")
    assert caught.value.instruction.startswith("multimem.ld_reduce")
    assert caught.value.source == "mine.cu:17"
    assert text.splitlines()[caught.value.line - 1].startswith("multimem")


def test_undefined_function_is_refused():
    text = kernel("call gone, ();", head=".func gone();\n")
    with pytest.raises(UnsupportedInstruction, match="'gone' is not defined"):
        translate(parse(text), "k")


@pytest.mark.parametrize(
    ("grid", "block", "more", "words"),
    [
        ((1,), (256,), {}, "128"),
        ((0,), (32,), {}, "grid"),
        ((1,), (2048,), {}, "block"),
        ((1, 70000), (32,), {}, "grid"),
        ((1,), (32,), {"shared_bytes": 300 * 1024}, "232448"),
        ((3,), (32,), {"cluster": (2, 1, 1)}, "multiple of cluster"),
    ],
)
def test_launches_that_do_not_fit(grid, block, more, words):
    module = vgpu.load(kernel(directives=".maxntid 128, 1, 1"))
    with pytest.raises(LaunchError, match=words):
        module.launch("k", grid, block, [0], **more)


@pytest.mark.parametrize("args", [[], [1, 2], ["x"], [b"abc"], [1.5 + 2j], [2**64]])
def test_arguments_that_do_not_fit(args):
    with pytest.raises(LaunchError, match="k"):
        vgpu.load(kernel()).launch("k", (1,), (32,), args)


def test_unknown_names():
    module = vgpu.load(kernel())
    with pytest.raises(UnknownName, match="kernel"):
        module.launch("q", (1,), (32,), [0])
    with pytest.raises(UnknownName, match="schedule"):
        module.launch("k", (1,), (32,), [0], schedule="fast")


def test_kernel_info():
    text = kernel(
        "mov.u32 %r1, tile;", "mov.u32 %r2, big;",
        parameters=".param .u64 .ptr .global .align 16 a, .param .f32 x, .param .align 8 .b8 s[24]",
        head=".shared .align 16 .b8 tile[100];\n.shared .align 8 .b64 big[2];\n.shared .b8 other[9];\n",
        directives=".reqntid 64, 2, 1",
    )  # fmt: skip
    info = vgpu.load(text).kernels["k"]
    assert [(p.kind, p.size, p.align, p.offset) for p in info.parameters] == [
        ("pointer", 8, 8, 0), ("scalar", 4, 4, 8), ("scalar", 24, 8, 16),
    ]  # fmt: skip
    assert info.static_shared_bytes == 104 + 16
    assert (info.max_threads, info.required_block) == (128, (64, 2, 1))
    assert info.registers_declared == 4 * 29


def test_same_spelling_is_compiled_once():
    outputs("mov.u32 %r1, %laneid;", "mad.lo.s32 %r1, %r1, 77, 5;")
    before = build.HANDLERS.compiled
    found = outputs("mov.u32 %r1, %laneid;", "mad.lo.s32 %r1, %r1, 99, 6;")
    assert build.HANDLERS.compiled == before
    assert list(found) == [99 * i + 6 for i in range(32)]


def test_dynamic_shared_memory_follows_the_static():
    head = ".shared .align 4 .b8 fixed[20];\n.extern .shared .align 128 .b8 dyn[];\n"
    text = kernel("mov.u32 %r1, fixed;", "mov.u32 %r2, dyn;", head=head)
    program = translate(parse(text), "k")
    assert (program.static_shared_bytes, program.dynamic_shared_offset) == (20, 128)


def test_guarded_instructions_write_only_their_lanes():
    found = outputs("mov.u32 %r2, %laneid;", "mov.u32 %r1, 7;", "setp.lt.u32 %p1, %r2, 10;",
                    "@%p1 add.u32 %r1, %r1, %r2;", "@!%p1 mov.u32 %r1, 1;")  # fmt: skip
    assert list(found) == [7 + i if i < 10 else 1 for i in range(32)]


def test_a_block_that_is_no_multiple_of_a_warp():
    assert list(outputs("mov.u32 %r1, %tid.x;", threads=45)) == list(range(45))


def test_vectors_pack_and_unpack():
    found = outputs("mov.u32 %r2, %laneid;", "cvt.u16.u32 %h1, %r2;", "mov.u16 %h2, 3;",
                    "mov.b32 %r3, {%h1, %h2};", "mov.b32 {%h3, %h4}, %r3;",
                    "mov.b32 %r1, {%h4, %h3};")  # fmt: skip
    assert list(found) == [3 | i << 16 for i in range(32)]


def test_carry_survives_other_instructions():
    found = outputs("mov.u32 %r2, %laneid;", "add.cc.u32 %r3, %r2, 0xFFFFFFF0;",
                    "mul.lo.u32 %r4, %r2, %r2;", "addc.u32 %r1, 100, 0;")  # fmt: skip
    assert list(found) == [101 if i >= 16 else 100 for i in range(32)]


def test_branch_table():
    found = outputs("mov.u32 %r2, %laneid;", "rem.u32 %r3, %r2, 3;",
                    "T: .branchtargets A, B, C;", "brx.idx %r3, T;",
                    "A: mov.u32 %r1, 10; bra E;", "B: mov.u32 %r1, 20; bra E;",
                    "C: mov.u32 %r1, 30;", "E:")  # fmt: skip
    assert list(found) == [10 * (i % 3 + 1) for i in range(32)]


def test_byval_parameter_through_its_address():
    text = kernel("mov.b64 %d1, s;", "cvta.param.u64 %d2, %d1;", "mov.u32 %r1, %laneid;",
                  "and.b32 %r1, %r1, 3;", "mul.wide.u32 %d3, %r1, 4;", "add.s64 %d4, %d2, %d3;",
                  "ld.u32 %r2, [%d4];", "ld.param.u64 %d5, [out];", "mov.u32 %r3, %laneid;",
                  "mad.wide.u32 %d6, %r3, 4, %d5;", "st.global.u32 [%d6], %r2;",
                  parameters=".param .u64 out, .param .align 4 .b8 s[16]")  # fmt: skip
    out = np.zeros(32, np.uint32)
    Bench(text).right("k", (1,), (32,), out, np.array([5, 6, 7, 8], np.uint32).tobytes())
    assert list(out) == [5, 6, 7, 8] * 8


def test_blocks_end_at_branches_and_calls():
    text = kernel("A: add.u32 %r1, %r1, 1;", "@%p1 bra A;", "exit;")
    found = analysis.blocks(parse(text).functions["k"])
    assert [len(b.instructions) for b in found] == [2, 1, 1, 0]


@pytest.mark.parametrize(
    ("definition", "want"),
    [
        (("mov.u32 %r1, 7;",), 7),
        (("mov.u32 %r1, %ntid.x;",), 32),
        (("ld.param.u32 %r1, [n];",), 9),
        (("ld.param.u32 %r2, [n];", "mov.u32 %r1, %r2;"), 9),
        (("ld.param.u32 %r2, [n];", "add.u32 %r1, %r2, 1;"), 10),
        (("mov.u32 %r2, 5;", "shl.b32 %r1, %r2, 2;"), 20),
        (("ld.param.u64 %d5, [out];", "cvta.to.global.u64 %d6, %d5;", "sub.u64 %d7, %d6, %d5;",
          "cvt.u32.u64 %r1, %d7;"), 0),
    ],
)  # fmt: skip
def test_a_value_defined_below_its_use_in_the_text(definition, want):
    """Compilers lay blocks out so that a use can come first; it still runs second."""
    lines = (
        "ld.param.u64 %d20, [out];", "mov.u32 %r20, %tid.x;", "mad.wide.u32 %d21, %r20, 4, %d20;",
        "bra DEFINE;", "USE:", "add.u32 %r9, %r1, 0;", "st.global.b32 [%d21], %r9;", "ret;",
        "DEFINE:", *definition, "bra USE;",
    )  # fmt: skip
    out = np.full(32, 77, np.uint32)
    text = kernel(*lines, parameters=".param .u64 out, .param .u32 n")
    Bench(text).right("k", (1,), (32,), out, 9)
    assert out.tolist() == [want] * 32


def test_kernel_parameters_and_what_equals_them_take_no_op():
    lines = ("ld.param.u64 %d1, [out];", "ld.param.u32 %r1, [n];", "cvta.to.global.u64 %d2, %d1;",
             "st.global.u32 [%d2], %r1;")  # fmt: skip
    text = kernel(*lines, parameters=".param .u64 out, .param .u32 n")
    names = [op.handler for op in translate(parse(text), "k").ops]
    assert [n for n in names if n not in ("vg_op_enter", "vg_op_exit")] == ["vg_op_store_word"]


@pytest.mark.parametrize("words", [1, 2, 4])
@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize(
    "word_of",
    [
        lambda t: t // 16 * 16 + 3,  # two rows, broadcast in each
        lambda t: t % 16,  # one row twice
        lambda t: 15 - t % 16,
        lambda t: t * 2,
        lambda t: 63 - t * 2,
        lambda t: t % 7 * 9,
        lambda t: t % 5 * 17,  # beyond 256 bytes
        lambda t: t * 0 + 5,
    ],
)
def test_loads_of_every_pattern_again_and_again(words, space, word_of):
    """A site that repeats its pattern of lanes takes another way than the first time."""
    lane, rounds = np.arange(32), 4
    index = np.stack([word_of(lane) * words + 64 * words * i for i in range(rounds)])
    index = index.astype(np.uint32)
    index[2] = index[2][::-1]  # a pattern of its own in between
    data = (np.arange(2048, dtype=np.uint64) * 2654435761 % 4294967291).astype(np.uint32)
    out = np.zeros((rounds, 32, words), np.uint32)
    vector = "" if words == 1 else f".v{words}"
    regs = "%r10" if words == 1 else "{" + ", ".join(f"%r{10 + i}" for i in range(words)) + "}"
    fill = (
        "mov.u32 %r5, 0;", "FILL:", "mad.lo.u32 %r6, %r5, 32, %r1;", "mul.wide.u32 %d8, %r6, 4;",
        "add.s64 %d9, %d2, %d8;", "ld.global.u32 %r7, [%d9];", "cvt.u32.u64 %r8, %d8;",
        "add.s32 %r8, %r8, %r9;", "st.shared.u32 [%r8], %r7;", "add.s32 %r5, %r5, 1;",
        "setp.lt.u32 %p1, %r5, 64;", "@%p1 bra FILL;", "bar.sync 0;",
    )  # fmt: skip
    where = ("cvt.u32.u64 %r20, %d7;", "add.s32 %r20, %r20, %r9;") if space == "shared" else (
        "add.s64 %d10, %d2, %d7;",)  # fmt: skip
    source = "%r20" if space == "shared" else "%d10"
    lines = (
        "ld.param.u64 %d1, [out];", "ld.param.u64 %d2, [data];", "ld.param.u64 %d3, [index];",
        "mov.u32 %r1, %tid.x;", "mov.u32 %r9, tile;", *fill, "mov.u32 %r2, 0;", "LOOP:",
        "mad.lo.u32 %r3, %r2, 32, %r1;", "mul.wide.u32 %d4, %r3, 4;", "add.s64 %d5, %d3, %d4;",
        "ld.global.u32 %r4, [%d5];", "mul.wide.u32 %d7, %r4, 4;", *where,
        f"ld.{space}{vector}.u32 {regs}, [{source}];", f"mul.wide.u32 %d11, %r3, {4 * words};",
        "add.s64 %d12, %d1, %d11;", f"st.global{vector}.u32 [%d12], {regs};",
        "add.s32 %r2, %r2, 1;", f"setp.lt.u32 %p2, %r2, {rounds};", "@%p2 bra LOOP;",
    )  # fmt: skip
    text = kernel(*lines, parameters=".param .u64 out, .param .u64 data, .param .u64 index",
                  head=f".shared .align 16 .b8 tile[{4 * 2048}];\n")  # fmt: skip
    Bench(text).right("k", (1,), (32,), out, data, index)
    assert np.array_equal(out, data[index.astype(np.int64)[..., None] + np.arange(words)])
