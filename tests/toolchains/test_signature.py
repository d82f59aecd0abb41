"""Parameters are read from source, mangled names and PTX, and the three must agree."""
# SPDX-License-Identifier: Apache-2.0

import doctest

import pytest

from warpsmith.spec import Parameter
from warpsmith.targets import get
from warpsmith.toolchains import signature
from warpsmith.toolchains.cuda import compile_source

pytestmark = pytest.mark.plain

HARD = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cstdint>
struct Params { int a; double b; };
typedef unsigned int u32;
using index = long long;
// __global__ void not_this(int x);
/* __global__ void nor_this(int x) {} */
LINKAGE __global__ void __launch_bounds__(256, 2)
hard(const float* __restrict__ x,   // a comment, with a comma
     float y[], char c, short s, bool flag,
     const Params p, u32 n, const index k, half h, __nv_bfloat16 b, uint8_t* bytes,
     const int* const* table, float (*rows)[4], void* any, const volatile double* v,
     unsigned long long big, size_t size, float4 vector = {1, 2, 3, 4})
{ const char* text = "__global__ void nor_that(int)"; y[0] = x[0] + c + s + flag + p.b + n + k; }
"""

EXPECTED = [
    Parameter("pointer", "x", "float", 8, True),
    Parameter("pointer", "y", "float", 8),
    Parameter("scalar", "c", "char", 1),
    Parameter("scalar", "s", "short", 2),
    Parameter("scalar", "flag", "bool", 1),
    Parameter("struct", "p", "Params", 16),
    Parameter("scalar", "n", "unsigned int", 4),
    Parameter("scalar", "k", "long long", 8),
    Parameter("scalar", "h", "half", 2),
    Parameter("scalar", "b", "__nv_bfloat16", 2),
    Parameter("pointer", "bytes", "unsigned char", 8),
    Parameter("pointer", "table", "int*", 8, True),
    Parameter("pointer", "rows", "void", 8),
    Parameter("pointer", "any", "void", 8),
    Parameter("pointer", "v", "double", 8, True),
    Parameter("scalar", "big", "unsigned long long", 8),
    Parameter("scalar", "size", "unsigned long", 8),
    Parameter("struct", "vector", "float4", 16),
]


@pytest.mark.parametrize("linkage", ["", 'extern "C"'])
def test_mangled_and_plain_kernels_read_alike(linkage):
    pytest.importorskip("cuda.bindings.nvrtc")
    (artifact,) = compile_source(HARD, get("h100"), defines={"LINKAGE": linkage or True}) \
        if linkage else compile_source(HARD.replace("LINKAGE", ""), get("h100"))  # fmt: skip
    assert list(artifact.parameters) == EXPECTED


def test_without_a_demangler_the_source_says_the_types(monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc")
    (artifact,) = compile_source(HARD.replace("LINKAGE", ""), get("h100"))
    monkeypatch.setattr(signature, "_demangler", lambda: None)
    entry = signature.entries(artifact.ptx)[artifact.kernel]
    (declared,) = signature.kernels(HARD)
    assert list(signature.parameters(entry, declared, HARD)) == EXPECTED


def test_without_any_declaration_sizes_alone_are_kept():
    ptx = ".visible .entry f(\n.param .u64 f_0,\n.param .u32 f_1,\n.param .align 8 .b8 f_2[24],\n" \
          ".param .u64 .ptr .global .align 1 f_3\n)\n.maxntid 128\n{\n}\n"  # fmt: skip
    found = signature.parameters(signature.entries(ptx)["f"], None)
    assert [(p.kind, p.ctype, p.size) for p in found] == [
        ("scalar", "", 8),
        ("scalar", "", 4),
        ("struct", "", 24),
        ("pointer", "", 8),
    ]


def test_a_wrong_size_in_the_source_loses_to_the_ptx():
    ptx = ".visible .entry f(\n.param .u64 f_0\n)\n{\n}\n"
    declared = signature.Declared("f", (("int", "n"),), False, 1)
    (found,) = signature.parameters(signature.entries(ptx)["f"], declared)
    assert (found.ctype, found.size, found.name) == ("", 8, "n")


def test_a_kernel_without_parameters():
    ptx = ".visible .entry f()\n{\n}\n.entry g\n{\n}\n"
    assert [e.sizes for e in signature.entries(ptx).values()] == [(), ()]


SOURCES = {
    "__global__ void f(int a);\n__global__ void f(int a) {}": ["f"],
    "template <class T> __global__ void f(T* a) {}\ntemplate __global__ void f<int>(int*);": ["f"],
    "__launch_bounds__(32) __global__ void f() {}": ["f"],
    "__global__ __launch_bounds__(TILE(2, 3)) void f() {}": ["f"],
    "__global__ void __cluster_dims__(2, 1, 1) f() {}\n__global__ static void g() {}": ["f", "g"],
    'auto s = R"(x)"; __device__ int f(); __global__ void g(int (*call)(int, float)) {}': ["g"],
}


@pytest.mark.parametrize("source", SOURCES)
def test_names_of_kernels(source):
    assert [k.name for k in signature.kernels(source)] == SOURCES[source]


def test_lines_are_those_of_the_source():
    assert [k.line for k in signature.kernels("\n/*\n*/ // x\n__global__ void f() {}")] == [4]


def test_examples_in_docstrings():
    from warpsmith.toolchains import cache, diagnostics, includes

    for module in (signature, cache, diagnostics, includes):
        outcome = doctest.testmod(module)
        assert outcome.attempted
        assert not outcome.failed
