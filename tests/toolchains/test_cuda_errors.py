"""Every compile error names the user's own file and line."""
# SPDX-License-Identifier: Apache-2.0

import pytest

from warpsmith.errors import CompileError, ToolchainError, UsageError
from warpsmith.targets import get
from warpsmith.toolchains.cuda import compile_source
from warpsmith.toolchains.diagnostics import read_log, source_line

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.plain

# name: source, file, line, words of the message
CASES = {
    "undefined identifier": ("__global__ void f(float* a) {\n  a[0] = scale;\n}", "k.cu", 2, "scale"),
    "undefined function": ("__global__ void f(float* a) {\n\n  a[0] = foo(1);\n}", "k.cu", 3, "foo"),
    "missing semicolon": (
        "__global__ void f(float* a) {\n  a[0] = 1\n  a[1] = 2;\n}",
        "k.cu",
        3,
        "expected a",
    ),
    "unclosed brace": ("\n__global__ void f(float* a) {\n  a[0] = 1;\n", "k.cu", 2, "opened here"),
    "wrong argument type": (
        "__device__ void g(int* p) {}\n__global__ void f(float* a) {\n  g(a);\n}",
        "k.cu",
        3,
        "float",
    ),
    "write to const": (
        "__global__ void f(const float* a) {\n  a[0] = 1;\n}",
        "k.cu",
        2,
        "modifiable",
    ),
    "inside a template": (
        "template <class T>\n__device__ T g(T x) { return x.foo; }\n"
        "__global__ void f(float* a) {\n  a[0] = g(1.f);\n}",
        "k.cu",
        2,
        "in instantiation of",
    ),
    "static assertion": (
        "template <int N> __global__ void f(float* a) {\n"
        '  static_assert(N > 3, "too small");\n}\n'
        "template __global__ void f<2>(float*);",
        "k.cu",
        2,
        "too small",
    ),
    "missing header": ('\n\n#include "tile.cuh"\n__global__ void f() {}', "k.cu", 3, "tile.cuh"),
    "line directive": (
        '#line 100 "generated.dsl"\n__global__ void f(float* a) {\n  a[0] = foo(1);\n}',
        "generated.dsl",
        101,
        "foo",
    ),
    "host method": (
        "struct S {\n  __host__ int f() { return 1; }\n};\n__global__ void f() {}",
        "k.cu",
        2,
        "move host code to Python",
    ),
    "host variable": (
        "#include <vector>\nstd::vector<float> kept;\n__global__ void f() {}",
        "k.cu",
        2,
        "move host code to Python",
    ),
    "torch header": ("#include <torch/extension.h>\n__global__ void f() {}", "k.cu", 1, "Python"),
    "inline assembly": (
        '__global__ void f(float* a) {\n  a[1] = 2;\n  asm volatile("foo.bar;");\n}',
        "k.cu",
        3,
        "foo",
    ),
    "error directive": ("#ifndef BLOCK\n#error set BLOCK\n#endif\n__global__ void f() {}", "k.cu", 2, "BLOCK"),
    "return value": ("__global__ int f() {\n  return 1;\n}", "k.cu", 1, "void"),
    "undeclared type": ("__global__ void f(floaty* a) {}", "k.cu", 1, "floaty"),
    "host-only library": (
        "#include <cmath>\n#include <cub/cub.cuh>\n__global__ void f() {}",
        "k.cu",
        2,
        "cub/block/",
    ),
}  # fmt: skip


def failure(source, **more):
    with pytest.raises(CompileError) as caught:
        compile_source(source, get("h100"), name="k.cu", **more)
    return caught.value


@pytest.mark.parametrize("case", CASES)
def test_an_error_names_file_and_line(case):
    source, file, line, words = CASES[case]
    error = failure(source)
    first = error.diagnostics[0]
    assert (first.file, first.line) == (file, line)
    assert words in first.message
    assert f"{file}:{line}: error: " in str(error)


def test_an_error_in_a_header_of_the_user_names_the_header(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "tile.cuh").write_text('#include "row.cuh"\n')
    (tmp_path / "parts" / "row.cuh").write_text("\n\n__device__ float g() { return nope; }\n")
    error = failure('#include "parts/tile.cuh"\n__global__ void f() {}', folder=tmp_path)
    assert (error.diagnostics[0].file.rpartition("/")[2], error.diagnostics[0].line) == (
        "row.cuh",
        3,
    )


def test_no_folder_of_this_machine_is_in_an_error(tmp_path):
    (tmp_path / "own.cuh").write_text("float x = nope;\n")
    error = failure('#include "own.cuh"\n__global__ void f() {}', folder=tmp_path)
    assert error.diagnostics[0].file == "own.cuh"
    assert "/warpsmith/" not in error.log
    assert str(tmp_path) not in str(error)


def test_a_text_in_memory_does_not_see_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "beside.cuh").write_text("#define X 1\n")
    monkeypatch.chdir(tmp_path)
    error = failure('#include "beside.cuh"\n__global__ void f() {}')
    assert "beside.cuh" in str(error)


def test_every_error_is_reported_and_the_message_shows_five():
    body = "\n".join(f"  a[{i}] = missing{i};" for i in range(8))
    error = failure("__global__ void f(float* a) {\n" + body + "\n}")
    assert [d.line for d in error.diagnostics] == list(range(2, 10))
    assert str(error).count("error:") == 5


def test_warnings_are_no_errors():
    source = "__global__ void f(float* a) {\n  int unused;\n  a[0] = 1;\n}"
    assert len(compile_source(source, get("h100"))) == 1


def test_an_unknown_option_is_refused_by_name():
    with pytest.raises(ToolchainError, match="-fancy"):
        compile_source("__global__ void f() {}\n", get("h100"), options=["-fancy"])


def test_the_architecture_is_not_an_option():
    with pytest.raises(UsageError, match="target="):
        compile_source("__global__ void f() {}\n", get("h100"), options=["-arch=sm_80"])


def test_options_must_be_a_list():
    with pytest.raises(UsageError, match=r"options=\['-DX=1'\]"):
        compile_source("__global__ void f() {}\n", get("h100"), options="-DX=1")


def test_a_target_that_nvrtc_has_dropped_is_named():
    with pytest.raises(ToolchainError, match=r"sm_70.*V100"):
        compile_source("__global__ void f() {}\n", get("v100"))


def test_a_ptx_line_is_found_through_the_line_table():
    (artifact,) = compile_source(
        "__device__ float twice(float x) {\n  return 2 * x;\n}\n"
        "__global__ void f(float* a) {\n  a[0] = twice(a[1]);\n}",
        get("h100"),
        name="k.cu",
    )
    lines = artifact.ptx.splitlines()
    multiply = next(i for i, text in enumerate(lines, 1) if "add.f32" in text or "mul.f32" in text)
    assert source_line(artifact.ptx, multiply) == ("k.cu", 5)  # the kernel's line, not the callee's


def test_an_assembler_log_without_lines_still_says_something():
    (found,) = read_log("ptxas fatal   : Unresolved extern function 'missing'\n")
    assert "missing" in found.message
