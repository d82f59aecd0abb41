"""PTX text is read as written: operands, scopes, lines, errors."""
# SPDX-License-Identifier: Apache-2.0

import pytest

from warpsmith.errors import PtxSyntaxError
from warpsmith.vgpu.ptx import ir
from warpsmith.vgpu.ptx.parse import parse

pytestmark = pytest.mark.plain
HEAD = ".version 8.7\n.target sm_80\n.address_size 64\n"


def body(*lines: str) -> list:
    """The instructions of a kernel with these lines."""
    text = HEAD + ".visible .entry k(.param .u64 p, .param .align 8 .b8 s[24])\n{\n"
    module = parse(text + "\n".join(lines) + "\n}\n")
    return [i for i in module.functions["k"].body if isinstance(i, ir.Instruction)]


REGISTERS = (".reg .pred %p<9>;", ".reg .b16 %h<9>;", ".reg .b32 %r<9>;", ".reg .b64 %d<9>;")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("add.s32 %r1, %r2, -1;", "add.s32 %r1, %r2, -1"),
        ("@!%p1 bra L;\nL:", "@!%p1 bra L"),
        ("ld.global.v2.b32 {%r1, _}, [%d1+-8];", "ld.global.v2.b32 {%r1, _}, [%d1-8]"),
        ("st.shared.b32 [%r1 + 16], 7;", "st.shared.b32 [%r1+16], 7"),
        ("mov.b32 %r1, {%h1, %h2};", "mov.b32 %r1, {%h1, %h2}"),
        ("setp.lt.and.f32 %p1|%p2, %r1, 0f3F800000, !%p3;",
         "setp.lt.and.f32 %p1|%p2, %r1, 0f3F800000, !%p3"),
        ("mov.f64 %d1, 0d3FF0000000000000;", "mov.f64 %d1, 0d3FF0000000000000"),
        ("mov.u32 %r1, %tid.x;", "mov.u32 %r1, %tid.x"),
        ("mov.u32 %r1, WARP_SZ;", "mov.u32 %r1, 32"),
        ("mov.b32 %r1, 0xFFFFFFFFU;", "mov.b32 %r1, 4294967295"),
        ("ld.shared::cta.b32 %r1, [%r2];", "ld.shared::cta.b32 %r1, [%r2]"),
        ("ld.param.u32 %r1, [s+12];", "ld.param.u32 %r1, [s+12]"),
    ],
)  # fmt: skip
def test_instructions_read_and_shown(text, shown):
    assert str(body(*REGISTERS, text)[0]) == shown


def test_shadowed_registers_and_labels_are_told_apart():
    found = body(
        ".reg .b32 %r<9>;", "mov.b32 %r1, 1;",
        "{ .reg .b32 %r1; .reg .pred p; L: mov.b32 %r1, 2; @p bra L; }",
        "{ .reg .pred p; L: mov.b32 %r1, 3; @p bra L; }",
    )  # fmt: skip
    targets = [i.operands[0].name for i in found if i.opcode == "mov"]
    assert targets[0] == targets[2] != targets[1]
    labels = [i.operands[0].name for i in found if i.opcode == "bra"]
    assert labels[0] != labels[1]


def test_call_parameters_of_equal_name_are_told_apart():
    found = body(
        ".reg .b32 %r<9>;",
        "{ .param .b32 param0; st.param.b32 [param0], %r1; }",
        "{ .param .b64 param0; st.param.b32 [param0+4], %r1; }",
    )
    first, second = (i.operands[0] for i in found)
    assert first.base.name != second.base.name
    assert (first.offset, second.offset) == (0, 4)


def test_directives_need_no_space_between():
    assert str(body(".reg.b32 %r1;", "mov.b32 %r1, 5;")[0]) == "mov.b32 %r1, 5"


def test_register_storage_width():
    registers = [ir.Register("a", t).lane_bits for t in ("pred", "b8", "f16", "b32", "f64")]
    assert registers == [32, 16, 16, 32, 64]


def test_lines_of_the_user_and_of_ptx():
    found = body(
        '.file 1 "user.cu"', '.file 2 "library.h"', ".reg .b32 %r<9>;", ".loc 1 10 3",
        "mov.b32 %r1, 1;", ".loc 2 99 1, function_name $L__info0, inlined_at 1 12 5",
        "mov.b32 %r1, 2;", ".loc 2 7 1, function_name $L__info1+4, inlined_at 2 99 1",
        "mov.b32 %r1, 3;",
    )  # fmt: skip
    assert [str(i.source) for i in found] == ["user.cu:10", "user.cu:12", "user.cu:12"]
    assert [i.line for i in found] == [10, 12, 14]


def test_module_variables_and_initial_values():
    text = HEAD + (
        ".const .align 4 .b8 table[8] = {1, 2, 0xFF, 4};\n"
        ".global .f32 k = 0f3FC00000;\n.global .u64 where[2] = {table, generic(table)+4};\n"
        ".extern .shared .align 16 .b8 smem[];\n"
    )
    found = parse(text).variables
    assert found["table"].bytes == 8
    assert found["k"].initializer == [ir.Immediate(0x3FC00000, "f32")]
    assert found["where"].initializer == [ir.Symbol("table"), ir.Symbol("table", 4)]
    assert found["smem"].count == 0


def test_functions_directives_and_parameters():
    text = HEAD + (
        ".func (.param .b32 out) f(.param .b64 a);\n"
        ".visible .entry k(.param .u64 .ptr .global .align 16 p, .param .f32 x) .maxntid 128, 2, 1\n"
        ".minnctapersm 2\n{ .reg .b32 %r<5>; ret; }\n.alias g, f;\n"
    )
    module = parse(text)
    assert not module.functions["f"].defined
    kernel = module.functions["k"]
    assert kernel.directives["maxntid"] == (128, 2, 1)
    assert [(p.pointer, p.type) for p in kernel.parameters] == [(True, "u64"), (False, "f32")]
    assert kernel.register_count == 4
    assert module.aliases == {"g": "f"}


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        (HEAD + ".visible .entry k()\n{\n  add.s32 %r1, 1;\n}\n", 6, 11, "'%r1' is not declared"),
        (HEAD + ".visible .entry k()\n{\n  bra L;\n}\n", 6, 3, "no label 'L'"),
        (HEAD + ".visible .entry k()\n{\n  .reg .b33 %r1;\n}\n", 6, 8, "unknown register type"),
        (HEAD + ".visible .entry k()\n{\n  ret\n}\n", 7, 1, "expected"),
        (HEAD + ".visible .entry k()\n{\n  ret;\n", 7, 1, "ends"),
        (HEAD + "?\n", 4, 1, "unexpected character '?'"),
        (HEAD + "add.s32 %r1;\n", 4, 1, "expected a directive"),
    ],
)
def test_malformed_text_is_told_by_line_and_column(text, line, column, words):
    with pytest.raises(PtxSyntaxError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert words in str(caught.value)
