"""Counters of real kernels equal what pencil and paper say."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
import pytest
from counted import counters, launch

from warpsmith.vgpu.counters import Counters, Site

pytestmark = pytest.mark.virtual

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


VADD = """
extern "C" __global__ void vadd(const float* x, const float* y, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
extern "C" __global__ void strided(const float* x, float* out, int stride) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = x[i * stride];
}
extern "C" __global__ void vadd4(const float4* x, float4* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 v = x[i];
  out[i] = make_float4(v.x + 1, v.y + 1, v.z + 1, v.w + 1);
}
extern "C" __global__ void axpy64(const double* x, double* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = fma(x[i], 2.0, out[i]);
}
"""


def vadd(n: int, **options) -> Counters:
    x, y, out = floats(n), floats(n), floats(n)
    found = counters(VADD, "vadd", -(-n // 256), 256, x=x, y=y, out=out, n=n, options=options)
    np.testing.assert_array_equal(out, x + y)
    return found


def test_vadd_is_four_sectors_a_request():
    n = 1 << 16
    found = vadd(n)
    assert found.sectors_per_load == found.sectors_per_store == 4.0
    assert (found.global_load_requests, found.global_store_requests) == (2 * n // 32, n // 32)
    assert found.global_load_sectors == found.global_load_ideal_sectors
    assert (found.global_load_bytes, found.global_store_bytes) == (8 * n, 4 * n)
    assert (found.unique_bytes_read, found.unique_bytes_written) == (8 * n, 4 * n)
    assert found.operations["fadd"] == found.flops == n
    assert (found.blocks, found.warps, found.threads) == (n // 256, n // 32, n)
    assert found.active_threads == 32.0
    assert (
        found.thread_instructions - found.thread_instructions_pred_on == n
    )  # the branch not taken
    assert found.divergent_branches == 0


def test_a_tail_counts_its_active_lanes_only():
    found = vadd(1000)
    assert found.operations["fadd"] == 1000
    assert found.global_load_bytes == 8000
    assert found.global_load_requests == 2 * 32  # 31 full warps and one of 8 lanes
    assert found.global_load_sectors == 2 * 125
    assert found.divergent_branches == 1
    assert found.unique_bytes_written == 4000


@pytest.mark.parametrize(("stride", "sectors"), [(1, 4), (2, 8), (4, 16), (8, 32), (33, 32)])
def test_strided_loads(stride, sectors):
    x, out = floats(256 * stride), floats(256)
    found = counters(VADD, "strided", 2, 128, x=x, out=out, stride=stride)
    np.testing.assert_array_equal(out, x[::stride])
    assert found.sectors_per_load == sectors
    assert found.sectors_per_store == 4
    assert found.global_load_ideal_sectors == 4 * 8


def test_the_worst_site_is_named_with_its_line():
    found = counters(VADD, "strided", 1, 128, x=floats(128 * 33), out=floats(128), stride=33)
    worst = max(found.sites, key=lambda site: site.excess)
    assert (worst.operation, worst.source) == ("global_load", "kernel.cu:8")
    assert (worst.requests, worst.threads, worst.transactions, worst.ideal_transactions) == (
        4,
        128,
        128,
        16,
    )


def test_vectors_of_four_are_sixteen_sectors():
    x, out = floats(4 * 256), floats(4 * 256)
    found = counters(VADD, "vadd4", 2, 128, x=x, out=out)
    np.testing.assert_array_equal(out, x + 1)
    assert found.sectors_per_load == found.sectors_per_store == 16


def test_doubles():
    x, out = RNG.standard_normal(256), RNG.standard_normal(256)
    found = counters(VADD, "axpy64", 1, 256, x=x, out=out)
    assert found.sectors_per_load == 8
    assert found.operations["dfma"] == 256
    assert found.flops == 512
    assert found.pipe_instructions["fp64"] == 8


TRANSPOSE = """
template <int PAD> __device__ void transpose(const float* x, float* out, int n) {
  __shared__ float tile[32][32 + PAD];
  int x0 = blockIdx.x * 32, y0 = blockIdx.y * 32;
  tile[threadIdx.y][threadIdx.x] = x[(y0 + threadIdx.y) * n + x0 + threadIdx.x];
  __syncthreads();
  out[(x0 + threadIdx.y) * n + y0 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
extern "C" __global__ void naive(const float* x, float* out, int n) { transpose<0>(x, out, n); }
extern "C" __global__ void padded(const float* x, float* out, int n) { transpose<1>(x, out, n); }
extern "C" __global__ void global_only(const float* x, float* out, int n) {
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  out[c * n + r] = x[r * n + c];
}
"""


@pytest.mark.parametrize(("kernel", "wavefronts"), [("naive", 32), ("padded", 1)])
def test_transposes_conflict_or_do_not(kernel, wavefronts):
    x, out = floats(64, 64), floats(64, 64)
    found = counters(TRANSPOSE, kernel, (2, 2), (32, 32), x=x, out=out, n=64)
    np.testing.assert_array_equal(out, x.T)
    warps = 4 * 32
    assert found.shared_load_requests == found.shared_store_requests == warps
    assert found.shared_load_wavefronts == wavefronts * warps
    assert found.shared_store_wavefronts == warps
    assert found.bank_conflicts == (wavefronts - 1) * warps
    assert found.sectors_per_load == found.sectors_per_store == 4
    assert found.barriers == warps


def test_a_transpose_without_tile_scatters_its_stores():
    x, out = floats(64, 64), floats(64, 64)
    found = counters(TRANSPOSE, "global_only", (2, 2), (32, 32), x=x, out=out, n=64)
    assert (found.sectors_per_load, found.sectors_per_store) == (4, 32)
    assert found.unique_bytes_written == x.nbytes  # the sectors overlap between warps


SGEMM = """
extern "C" __global__ void sgemm(const float* a, const float* b, float* c, int n) {
  __shared__ float as[32][32], bs[32][32];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
  float sum = 0;
  for (int k = 0; k < n; k += 32) {
    as[ty][tx] = a[row * n + k + tx];
    bs[ty][tx] = b[(k + ty) * n + col];
    __syncthreads();
    for (int i = 0; i < 32; i++) sum += as[ty][i] * bs[i][tx];
    __syncthreads();
  }
  c[row * n + col] = sum;
}
"""


def test_tiled_sgemm():
    n = 128
    a, b, c = floats(n, n), floats(n, n), floats(n, n)
    found = counters(SGEMM, "sgemm", (n // 32, n // 32), (32, 32), a=a, b=b, c=c, n=n)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    assert found.operations["ffma"] == n**3
    assert found.flops == 2 * n**3
    assert found.global_load_requests == 2 * n**3 // 32 // 32
    assert found.sectors_per_load == 4
    assert found.bank_conflicts == 0
    assert found.unique_bytes_read == 8 * n * n
    assert found.barriers == 2 * (n // 32) * (n // 32) ** 2 * 32


MMA = """
#include <cuda_fp16.h>
extern "C" __global__ void mma_tile(const __half* a, const __half* b, float* c, int k_total) {
  __shared__ __align__(16) __half as[16 * 16], bs[16 * 8];
  int lane = threadIdx.x;
  float d[4] = {0, 0, 0, 0};
  for (int k = 0; k < k_total; k += 16) {
    for (int i = lane; i < 256; i += 32) as[i] = a[(i / 16) * k_total + k + i % 16];
    for (int i = lane; i < 128; i += 32) bs[i] = b[(k + i / 8) * 8 + i % 8];
    __syncwarp();
    unsigned ra[4], rb[2];
    unsigned pa = __cvta_generic_to_shared(&as[(lane % 16) * 16 + lane / 16 * 8]);
    unsigned pb = __cvta_generic_to_shared(&bs[(lane % 16) * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(pa));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(rb[0]), "=r"(rb[1]) : "r"(pb));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    __syncwarp();
  }
  for (int i = 0; i < 4; i++) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
}
"""


def test_mma_flops_are_two_m_n_k():
    k = 64
    a, b, c = floats(16, k).astype(np.float16), floats(k, 8).astype(np.float16), floats(16, 8)
    found = counters(MMA, "mma_tile", 1, 32, a=a, b=b, c=c, k_total=k)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3, atol=1e-3)
    assert found.tensor_flops == {"fp16": 2 * 16 * 8 * k}
    assert found.flops == 2 * 16 * 8 * k
    assert found.warpgroup_mma_flops == 0
    rows = [s for s in found.sites if s.operation == "shared_load"]
    # as: rows of 32 bytes, so 8 rows meet 4 pairs of them in the same banks; bs: rows of 16 bytes
    assert sorted(s.transactions / s.requests for s in rows) == [2.0, 8.0]


ATOMICS = """
extern "C" __global__ void histogram(const int* x, int* bins, int* shared_sum) {
  __shared__ int local[32];
  if (threadIdx.x < 32) local[threadIdx.x] = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&bins[x[i]], 1);
  atomicAdd(&local[x[i] % 32], 1);
  __syncthreads();
  if (threadIdx.x < 32) shared_sum[threadIdx.x] = local[threadIdx.x];
}
"""


@pytest.mark.parametrize("spread", [32, 4, 1])
def test_atomics_count_their_conflicts(spread):
    x = (np.arange(128) % spread).astype(np.int32)
    bins, sums = np.zeros(32, np.int32), np.zeros(32, np.int32)
    found = counters(ATOMICS, "histogram", 1, 128, x=x, bins=bins, shared_sum=sums)
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=32))
    np.testing.assert_array_equal(sums, bins)
    assert (found.global_atomic_requests, found.global_atomic_threads) == (4, 128)
    assert found.global_atomic_conflicts == 4 * (32 - spread)
    assert found.global_atomic_sectors == 4 * -(-spread // 8)
    # lanes on one word are combined: each of the words lies in a bank of its own
    assert (found.shared_atomic_requests, found.shared_atomic_wavefronts) == (4, 4)
    assert found.shared_atomic_conflicts == 4 * (32 - spread)


WIDE = """
__device__ float all(float2 v) { return v.x + v.y; }
__device__ float all(float4 v) { return v.x + v.y + v.z + v.w; }
template <class T> __device__ void wide(float* out, const int* at) {
  __shared__ T s[1024];
  for (int i = threadIdx.x; i < 1024; i += 32) s[i] = T{};
  __syncthreads();
  out[threadIdx.x] = all(s[at[threadIdx.x]]);
}
extern "C" __global__ void wide8(float* out, const int* at) { wide<float2>(out, at); }
extern "C" __global__ void wide16(float* out, const int* at) { wide<float4>(out, at); }
"""
LAYOUTS = {  # lane -> element: passes of a load of 8 and of 16 bytes, as an H200 counts them
    "row": (lambda lane: lane, 2, 4),
    "same": (lambda lane: 0, 1, 2),
    "pairs": (lambda lane: lane // 2, 1, 2),
    "fours": (lambda lane: lane // 4, 1, 2),
    "two": (lambda lane: lane % 2, 1, 2),
    "eighths": (lambda lane: lane % 4, 2, 4),
    "halves": (lambda lane: lane % 16, 2, 4),
    "stride2": (lambda lane: 2 * lane, 4, 8),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("width", [8, 16])
def test_wide_loads_take_more_lanes_at_once_where_they_agree(name, width):
    layout, *passes = LAYOUTS[name]
    at = np.array([layout(lane) for lane in range(32)], np.int32)
    found = counters(WIDE, f"wide{width}", 1, 32, out=floats(32), at=at)
    assert found.shared_load_requests == 1
    assert found.shared_load_wavefronts == passes[width // 16]


BRANCHY = """
extern "C" __global__ void branchy(const int* x, int* out, int rounds) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, value = x[i];
  if (i % 2) for (int r = 0; r < rounds; r++) value = value * 1664525 + (value >> 3);
  out[i] = value;
}
extern "C" __global__ void local_array(const int* x, int* out) {
  int table[16], i = threadIdx.x;
  for (int k = 0; k < 16; k++) table[k] = x[(i + k) % 32];
  out[i] = table[x[i] % 16];
}
"""


def test_divergence_shows():
    x, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    found = counters(BRANCHY, "branchy", 1, 64, x=x, out=out, rounds=100)
    assert found.divergent_branches == 2
    assert 16 <= found.active_threads < 18
    site = next(s for s in found.sites if s.operation == "branch")
    assert (site.source, site.requests, site.transactions) == ("kernel.cu:4", 2, 2)


def test_runtime_indexed_arrays_are_local_memory():
    x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    found = counters(BRANCHY, "local_array", 1, 32, x=x, out=out)
    np.testing.assert_array_equal(out, (x + x % 16) % 32)
    assert found.local_load_requests >= 1
    assert found.local_bytes >= 17 * 4 * 32


COPY = """
extern "C" __global__ void staged(const float4* x, float4* out) {
  __shared__ float4 tile[128];
  unsigned to = __cvta_generic_to_shared(&tile[threadIdx.x]);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(x + threadIdx.x));
  asm volatile("cp.async.commit_group;");
  asm volatile("cp.async.wait_group 0;");
  __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];
}
"""


def test_async_copies():
    x, out = floats(128, 4), floats(128, 4)
    found = counters(COPY, "staged", 1, 128, x=x, out=out)
    np.testing.assert_array_equal(out, x[::-1])
    assert (found.async_copy_requests, found.async_copy_bytes) == (4, 2048)
    assert (found.async_copy_sectors, found.async_copy_wavefronts) == (64, 16)
    assert found.global_load_requests == 0
    assert found.unique_bytes_read == 2048


# ------------------------------------------------------------------------------------- as a value


def test_names_of_nsight_compute():
    flat = vadd(1 << 12).as_dict()
    sectors = flat["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    assert sectors / flat["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 4
    assert flat["smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"] == 1 << 12
    assert (
        flat["memory_l2_theoretical_sectors_global"]
        == flat["memory_l2_theoretical_sectors_global_ideal"]
    )
    assert all(isinstance(value, int | float) for value in flat.values())


def test_launches_add_up():
    one = vadd(1 << 12)
    both = one + one
    assert both.launches == 2
    assert both.operations["fadd"] == 2 * one.operations["fadd"]
    assert both.global_load_sectors == 2 * one.global_load_sectors
    assert len(both.sites) == len(one.sites)
    assert both.sites[0].transactions == 2 * one.sites[0].transactions


def test_sites_add_only_to_themselves():
    one = Counters(sites=(Site(1, "a.cu:1", "global_load", 1, 32, 4, 4),))
    two = Counters(sites=(Site(2, "a.cu:2", "global_load", 1, 32, 8, 4),))
    assert [s.transactions for s in (one + two).sites] == [4, 8]


def test_two_workers_count_the_same():
    assert vadd(1 << 14, workers=2) == vadd(1 << 14)


def test_counting_off_keeps_instructions():
    found = vadd(1 << 12, count=False)
    assert found.global_load_requests == found.unique_bytes_read == 0
    assert found.warp_instructions == vadd(1 << 12).warp_instructions
    assert (
        launch(VADD, "vadd", 1, 32, x=floats(32), y=floats(32), out=floats(32), n=32).fault is None
    )
