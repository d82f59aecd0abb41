"""Ordinary CUDA files compile as they are, and the artifact says what a launch needs."""
# SPDX-License-Identifier: Apache-2.0

from pathlib import Path

import pytest

from warpsmith.errors import UsageError
from warpsmith.spec import Parameter
from warpsmith.targets import get
from warpsmith.toolchains import nvrtc
from warpsmith.toolchains.cuda import Cuda, compile_source, select

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.plain

VADD = """__global__ void vadd(const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + y[i];
}
"""


@pytest.mark.parametrize(
    ("part", "arch"), [("h100", "sm_90a"), ("a100", "sm_80"), ("rtx4090", "sm_89"), ("t4", "sm_75")]
)
def test_the_target_decides_the_architecture(part, arch):
    (artifact,) = compile_source(VADD, get(part), name="vadd.cu")
    assert artifact.arch == arch
    assert f".target {arch}" in artifact.ptx
    assert artifact.cubin[:4] == b"\x7fELF"
    assert artifact.source_name == "vadd.cu"
    assert 4 < artifact.resources.registers < 40
    assert artifact.resources.spill_bytes == 0


def test_the_artifact_does_not_depend_on_folder_or_machine(tmp_path, monkeypatch, h100):
    (here,) = compile_source(VADD, h100, name="vadd.cu")
    monkeypatch.chdir(tmp_path)
    (there,) = compile_source(VADD, h100, name="vadd.cu", folder=tmp_path)
    assert here.id == there.id
    assert '.file\t1 "vadd.cu"' in here.ptx
    assert not any(line.startswith((".global", ".const")) for line in here.ptx.splitlines())


SYSTEM_HEADERS = [
    "cuda_runtime.h", "cuda.h", "device_launch_parameters.h", "math_constants.h", "cuda_fp16.h",
    "cuda_bf16.h", "cuda_fp8.h", "mma.h", "cuda_pipeline.h",
]  # fmt: skip
OWN_HEADERS = sorted(p.name for p in nvrtc.INCLUDE.iterdir() if p.is_file())


@pytest.mark.parametrize("group", range(4))
def test_every_header_that_people_include_is_there(group, h100):
    for header in [*SYSTEM_HEADERS, *OWN_HEADERS][group::4]:
        assert compile_source(f"#include <{header}>\n__global__ void f(float* a) {{}}", h100)


PROGRAMS = {
    "standard types and functions": """
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <vector>
using namespace std;
__global__ void f(float* a, std::uint32_t n, int64_t k, size_t bytes) {
    assert(n > 0);
    if (threadIdx.x == 0) printf("%u %f\\n", n, M_PI);
    a[0] = std::max(a[1], 2.0f) + std::sqrt(a[2]) + fmaxf(a[3], -FLT_MAX) + INFINITY + min(1, 2);
    a[1] = isnan(a[1]) ? NAN : std::numeric_limits<float>::max();
    static_assert(sizeof(size_t) == 8 && INT_MAX > 0, "as nvcc");
    constexpr float low = -INFINITY;
    a[2] = low;
}
""".replace("#include <iostream>", "#include <iostream>\n#include <limits>"),
    "half types": """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
__global__ void f(half* h, __nv_bfloat16* b, __nv_fp8_e4m3* e, half2* p) {
    h[0] = __hadd(h[1], __float2half(1.0f));
    b[0] = __float2bfloat16(__bfloat162float(b[1]) * 2);
    e[0] = __nv_fp8_e4m3(1.5f);
    p[0] = __hfma2(p[1], p[2], p[3]);
}
""",
    "tensor cores": """
#include <mma.h>
using namespace nvcuda;
__global__ void f(const half* a, const half* b, float* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
""",
    "cooperative groups": """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void f(float* a) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    float s = cg::reduce(warp, a[threadIdx.x], cg::plus<float>());
    if (warp.thread_rank() == 0) a[0] = s;
}
""",
    "cub": """
#include <cub/block/block_reduce.cuh>
__global__ void f(float* a) {
    typedef cub::BlockReduce<float, 128> Reduce;
    __shared__ typename Reduce::TempStorage storage;
    float s = Reduce(storage).Sum(a[threadIdx.x]);
    if (threadIdx.x == 0) a[0] = s;
}
""",
    "plain helpers": """
constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }
template <class T> T square(T x) { return x * x; }
__host__ __device__ inline float half_of(float x) { return x / 2; }
__global__ void f(float* a, uint n) { a[0] = square(half_of(a[1])) + divide_up(n, 4); }
""",
    "inline assembly": """
__global__ void f(unsigned* a) {
    unsigned lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    a[threadIdx.x] = lane;
}
""",
}  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_ordinary_files_compile(program, h100):
    (artifact,) = compile_source(PROGRAMS[program], h100, name="f.cu")
    assert artifact.resources.registers


def test_macros_and_options(h100):
    source = "__global__ void f(float* a) {\n__shared__ float s[BLOCK]; s[threadIdx.x] = a[1];\n" \
             "__syncthreads();\n#ifdef TAIL\na[0] = s[1];\n#endif\n}\n"  # fmt: skip
    (one,) = compile_source(source, h100, defines={"BLOCK": 256, "TAIL": True})
    (two,) = compile_source(
        source, h100, options=["-DBLOCK=64", "-DTAIL", "-O3", "--use_fast_math"]
    )
    assert one.resources.static_shared_bytes == 1024
    assert two.resources.static_shared_bytes == 256


def test_headers_beside_the_source_and_in_folders(tmp_path, h100):
    (tmp_path / "near.cuh").write_text('#pragma once\n#include "deep/far.cuh"\n')
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "far.cuh").write_text('#include "beside_far.h"\n')
    (tmp_path / "deep" / "beside_far.h").write_text("#define TWO 2\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "three.h").write_text("#define THREE 3\n")
    source = (
        '#include "near.cuh"\n#include <three.h>\n__global__ void f(int* a) { *a = TWO + THREE; }'
    )
    (artifact,) = compile_source(source, h100, folder=tmp_path, options=["-Ilib"])
    assert "5" in artifact.ptx
    (tmp_path / "lib" / "three.h").write_text("#define THREE 40\n")
    (changed,) = compile_source(source, h100, folder=tmp_path, options=["-Ilib"])
    assert changed.id != artifact.id


def test_headers_in_memory(h100):
    source = '#include "t.cuh"\n__global__ void f(int* a) { *a = T; }'
    (artifact,) = compile_source(source, h100, headers={"t.cuh": "#define T 77\n"})
    assert "77" in artifact.ptx


TEMPLATES = """
template <typename T, int N>
__global__ void scale(const T* __restrict__ x, T* y, int n, T s) { y[0] = x[0] + s * (T)N; }
namespace pack {
__global__ void inner(float2* a, unsigned long long q) { a[0].x = q; }
}
__global__ void plain(int* a) { a[0] = 1; }
static __global__ void hidden(int* a) { a[0] = 2; }
"""


def test_an_instantiation_is_named_as_in_cplusplus(h100):
    for written in ("scale<float, 4>", "scale<float,4>"):
        artifact = select(compile_source(TEMPLATES, h100, kernel=written), written, "t.cu")
        assert [p.ctype for p in artifact.parameters] == ["float", "float", "int", "float"]
        assert artifact.parameters[0] == Parameter("pointer", "x", "float", 8, True)
    double = select(
        compile_source(TEMPLATES, h100, kernel="scale<double, 2>"), "scale<double, 2>", ""
    )
    assert double.parameters[3] == Parameter("scalar", "s", "double", 8)


def test_an_explicit_instantiation_needs_no_name(h100):
    source = TEMPLATES[: TEMPLATES.index("namespace")]
    source += "template __global__ void scale<float, 1>(const float*, float*, int, float);\n"
    (artifact,) = compile_source(source, h100)
    assert select([artifact], None, "t.cu") is artifact
    assert select([artifact], "scale", "t.cu") is artifact


@pytest.mark.parametrize("name", ["plain", "inner", "pack::inner", "hidden"])
def test_kernels_are_chosen_by_name_with_or_without_namespace(name, h100):
    found = compile_source(TEMPLATES, h100, kernel=name)
    assert name.rpartition(":")[2] in select(found, name, "t.cu").kernel


def test_a_wrong_or_missing_name_lists_the_right_ones(h100):
    found = compile_source(TEMPLATES, h100)
    with pytest.raises(UsageError, match=r"no kernel 'plan'.*plain.*scale<…>"):
        select(found, "plan", "t.cu")
    with pytest.raises(UsageError, match=r"t\.cu defines .*say which"):
        select(found, None, "t.cu")
    with pytest.raises(UsageError, match="defines no __global__"):
        select(compile_source("int x;\n", h100), None, "t.cu")


def test_the_toolchain_role_takes_paths_and_texts(tmp_path, h100):
    path = tmp_path / "vadd.cu"
    path.write_text(VADD)
    toolchain = Cuda()
    by_path = toolchain.build(path, h100, options={})
    by_text = toolchain.build(VADD, h100, options={"name": "vadd.cu", "kernel": "vadd"})
    assert by_path.id == by_text.id
    with pytest.raises(UsageError, match=r"no CUDA file .*vadd\.cu"):
        toolchain.build(tmp_path / "vad.cu", h100, options={})


def test_clusters_and_launch_bounds_are_read(h100):
    source = """
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) f(float* a) { a[threadIdx.x] = 1; }
"""
    (artifact,) = compile_source(source, h100)
    assert artifact.cluster == (2, 1, 1)
    assert artifact.parameters[0].name == "a"


def test_our_headers_carry_their_license():
    for path in Path(nvrtc.INCLUDE).rglob("*"):
        if path.is_file():
            assert "SPDX-License-Identifier" in path.read_text(), path
