"""A kernel that does wrong is told who did what, where, and the usual cause."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
import pytest
from counted import launch

from warpsmith.errors import FAULT_KINDS

pytestmark = pytest.mark.virtual

KERNELS = """
extern "C" __global__ void unchecked(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = x[i + 1];
}
extern "C" __global__ void shifted(const float* x, float* out) {
  float4 v = *(const float4*)(x + 1 + 4 * threadIdx.x);
  out[threadIdx.x] = v.x + v.y + v.z + v.w;
}
extern "C" __global__ void copies(const float* x, float* out) { out[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void before(const float* x, float* out) {
  out[(int)threadIdx.x - 3] = x[threadIdx.x];
}
extern "C" __global__ void over_tile(const float* x, float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x + 1] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}
extern "C" __global__ void dynamic_tile(const float* x, float* out) {
  extern __shared__ float tile[];
  tile[threadIdx.x] = x[threadIdx.x];
  out[threadIdx.x] = tile[threadIdx.x];
}
extern "C" __global__ void adds(int* out, int n) { atomicAdd(&out[threadIdx.x], n); }
extern "C" __global__ void indirect(const long long* table, float* out) {
  out[threadIdx.x] = *(const float*)table[threadIdx.x];
}
extern "C" __global__ void streams(const float* x, float* out) {
  __shared__ float tile[256];
  unsigned to = __cvta_generic_to_shared(&tile[threadIdx.x]);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(x + threadIdx.x + 1));
  asm volatile("cp.async.wait_all;");
  out[threadIdx.x] = tile[threadIdx.x];
}
extern "C" __global__ void starves(float* out) {
  asm volatile("bar.sync 1, 64;");
  out[threadIdx.x] = 1;
}
extern "C" __global__ void asserts(float* out, int n) {
  if (threadIdx.x >= n) __trap();
  out[threadIdx.x] = 1;
}
extern "C" __global__ void spins(volatile int* out) { while (*out == 0) {} }
"""


def floats(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


def fault(kernel: str, grid, block, **arguments):
    result = launch(KERNELS, kernel, grid, block, **arguments)
    assert result.fault is not None
    assert result.fault.kind in FAULT_KINDS
    assert result.fault.kernel == kernel
    return result.fault


def test_one_past_the_end_names_everything():
    found = fault("unchecked", 4, 256, x=floats(1024), out=floats(1024), n=1024)
    assert found.message == (
        "thread (255,0,0) of block (3,0,0) reads 4 bytes at x[1024], 0 bytes past its end "
        "(1024 elements × 4 bytes); usual cause: the index is not checked against n"
    )
    assert (found.kind, found.tensor, found.index) == ("out-of-bounds", "x", 1024)
    assert (found.block, found.thread) == ((3, 0, 0), (255, 0, 0))
    assert (found.source_file, found.source_line) == ("kernel.cu", 5)
    assert found.source == "kernel.cu:5"


def test_a_missing_bound_names_the_lowest_thread():
    found = fault("copies", 1, 64, x=floats(40), out=floats(64))
    assert found.index == 40
    assert found.thread == (8 + 32, 0, 0)
    assert "(and 23 more threads of its warp)" in found.message


def test_a_store_before_the_start():
    found = fault("before", 1, 32, x=floats(32), out=floats(32))
    assert "writes 4 bytes at out[-3], 12 bytes before its start" in found.message


def test_a_misaligned_vector():
    found = fault("shifted", 1, 32, x=floats(256), out=floats(32))
    assert found.kind == "misaligned"
    assert "reads 16 bytes at x[1], byte 4, not a multiple of 16" in found.message
    assert found.source_line == 8


def test_a_null_pointer():
    found = fault("copies", 1, 32, x=None, out=floats(32))
    assert found.kind == "null-pointer"
    assert "reads 4 bytes through a null pointer;" in found.message
    assert found.thread == (0, 0, 0)


def test_an_input_is_written():
    found = fault("adds", 1, 32, out_const=np.zeros(32, np.int32), n=1)
    assert found.kind == "readonly-write"
    assert "writes 4 bytes at out_const[0], which is read-only" in found.message


def test_an_atomic_out_of_bounds():
    found = fault("adds", 1, 32, out=np.zeros(31, np.int32), n=1)
    assert (found.kind, found.tensor, found.index) == ("out-of-bounds", "out", 31)


def test_past_the_end_of_shared_memory():
    found = fault("over_tile", 1, 64, x=floats(64), out=floats(64))
    assert (
        "writes 4 bytes at shared offset 256, 0 bytes past the end of the block's" in found.message
    )
    assert found.thread == (63, 0, 0)


def test_too_little_dynamic_shared_memory():
    found = fault("dynamic_tile", 1, 64, x=floats(64), out=floats(64), shared_bytes=128)
    assert found.thread == (32, 0, 0)
    assert "too few dynamic shared bytes" in found.message
    fine = launch(KERNELS, "dynamic_tile", 1, 64, x=floats(64), out=floats(64), shared_bytes=256)
    assert fine.fault is None


def test_a_wild_pointer_from_memory():
    found = fault("indirect", 1, 32, table=np.full(32, 1 << 44, np.int64), out=floats(32))
    assert found.kind == "out-of-bounds"
    assert "which is in no tensor" in found.message


def test_an_async_copy_out_of_bounds():
    found = fault("streams", 1, 64, x=floats(64), out=floats(64))
    assert (found.kind, found.tensor, found.index, found.thread) == (
        "out-of-bounds",
        "x",
        64,
        (63, 0, 0),
    )


def test_a_fault_becomes_an_error():
    error = fault("copies", 1, 64, x=floats(40), out=floats(64)).error()
    assert error.kind == "out-of-bounds"
    assert error.source == "kernel.cu:11"
    assert error.details["tensor"] == "x"
    assert "out-of-bounds in copies at kernel.cu:11: thread (40,0,0)" in str(error)


def test_a_deadlock_says_who_waits_where():
    found = fault("starves", 1, 32, out=floats(32))
    assert found.kind == "deadlock"
    assert "32 threads of warp 0 wait at barrier 1 (kernel.cu:38)" in found.message


def test_a_trap():
    found = fault("asserts", 1, 64, out=floats(64), n=40)
    assert found.kind == "trap"
    assert found.thread == (40, 0, 0)


def test_an_endless_loop_meets_its_budget():
    found = fault("spins", 1, 32, out=np.zeros(1, np.int32), options={"max_instructions": 100_000})
    assert found.kind == "step-budget"


def test_a_clean_kernel_has_no_fault():
    out = floats(64)
    result = launch(KERNELS, "copies", 1, 64, x=floats(64), out=out)
    assert result.fault is None
