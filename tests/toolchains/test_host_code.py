"""Host functions are left out, device functions never, and every line stays where it was."""
# SPDX-License-Identifier: Apache-2.0

import pytest

from warpsmith.errors import CompileError
from warpsmith.targets import get
from warpsmith.toolchains.cuda import compile_source
from warpsmith.toolchains.host_code import without_host_code

pytestmark = pytest.mark.plain

TUTORIAL = r"""
#include <chrono>
#include <cstdio>
#include <cuda_runtime.h>
#include <iostream>
#include <vector>

#define CHECK(call) do { \
    cudaError_t e = call; \
    if (e != cudaSuccess) { printf("%s\n", cudaGetErrorString(e)); exit(1); } \
} while (0)

constexpr int BLOCK = 256;

/* int main() in a comment { */
template <typename T>
__device__ __forceinline__ T twice(T x) { return x + x; }

__host__ __device__ inline int divide_up(int a, int b) { return (a + b - 1) / b; }

float plain_helper(float x) { return x * 0.5f; }

__global__ void scale(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = twice(plain_helper(x[i])) + divide_up(4, 2);
}

std::vector<float> reference(const std::vector<float>& x) {
    std::vector<float> out(x.size());
    for (size_t i = 0; i < x.size(); ++i) { out[i] = x[i] + 2; }
    return out;
}

__host__ static void report(const char* text) { std::cout << text << std::endl; }

namespace bench {
void launch(const float* x, float* out, int n) {
    scale<<<divide_up(n, BLOCK), BLOCK>>>(x, out, n);
    CHECK(cudaGetLastError());
}
void launch_twice(float* x, int n) { launch(x, x, n); launch(x, x, n); }
}  // namespace bench

extern "C" {
void run_all(float* x, int n) { bench::launch_twice(x, n); }
}

int main(int argc, char** argv) {
    std::vector<float> host(1 << 20, 1.0f);
    float* device;
    CHECK(cudaMalloc(&device, host.size() * sizeof(float)));
    report("a string with } and { and scale<<<1, 1>>>");
    run_all(device, 1 << 20);
    CHECK(cudaFree(device));
    return 0;
}
"""


def test_a_tutorial_file_with_a_main_compiles_as_it_is():
    pytest.importorskip("cuda.bindings.nvrtc")
    (artifact,) = compile_source(TUTORIAL, get("h100"), name="scale.cu")
    assert [p.name for p in artifact.parameters] == ["x", "out", "n"]
    line = TUTORIAL[: TUTORIAL.index("if (i < n)")].count("\n") + 1
    assert f".loc\t1 {line}" in artifact.ptx


def test_only_host_functions_go():
    kept = without_host_code(TUTORIAL)
    assert len(kept) == len(TUTORIAL)
    assert [i for i, c in enumerate(kept) if c == "\n"] == [
        i for i, c in enumerate(TUTORIAL) if c == "\n"
    ]
    for gone in ("main(int", "launch(", "run_all", "reference(", "report(", "<<<divide_up"):
        assert gone not in kept, gone
    for there in ("#define CHECK", "twice(T x)", "divide_up(int a", "plain_helper(float", "BLOCK = 256",
                  "void scale(", "namespace bench {", 'extern "C" {'):  # fmt: skip
        assert there in kept, there


UNTOUCHED = {
    "a device launch": "__global__ void a() {}\n__global__ void b() { a<<<1, 1>>>(); }\n",
    "a method of a struct": "struct S { int main; __device__ int f() { return main; } };\n",
    "a kernel that waits": "__global__ void f() { cudaGridDependencySynchronize(); }\n",
    "an array": "__constant__ float main_table[2] = {1, 2};\n",
    "a text": 'const char* s = "int main() { }"; __global__ void f() {}\n',
    "an unclosed brace": "__global__ void f() { int main = 0;\n",
    "a bounded kernel": "__launch_bounds__(32) __global__ void f() { int main = 1; }\n",
    "a lambda": "__device__ auto g = [](int main) { return main; };\n",
    "an unmarked helper": "int main_index(int x) { return x; }\n",
}


@pytest.mark.parametrize("case", UNTOUCHED)
def test_device_code_is_never_touched(case):
    assert without_host_code(UNTOUCHED[case]) == UNTOUCHED[case]


def test_an_error_after_host_code_keeps_its_line():
    pytest.importorskip("cuda.bindings.nvrtc")
    source = "int main() {\n  return 0;\n}\n__global__ void f(float* x) {\n  x[0] = nope;\n}\n"
    with pytest.raises(CompileError, match=r"k\.cu:5: error"):
        compile_source(source, get("h100"), name="k.cu")


def test_a_header_of_the_user_may_hold_host_code(tmp_path):
    pytest.importorskip("cuda.bindings.nvrtc")
    (tmp_path / "own.cuh").write_text(
        "__global__ void g() {}\ninline void go() { g<<<1, 1>>>(); }\n"
    )
    source = '#include "own.cuh"\n__global__ void f(int* x) { *x = 1; }\n'
    assert len(compile_source(source, get("h100"), folder=tmp_path)) == 2
