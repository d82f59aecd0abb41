"""Every way to wait forever ends in a typed fault, within the launch's budgets."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
import pytest
from compile import cuda
from launching import Bench

pytestmark = pytest.mark.virtual

SOURCE = r"""
extern "C" __global__ void barrier(int* out) { if (threadIdx.x < 32) asm volatile("bar.sync 1, 96;"); out[0] = 1; }
extern "C" __global__ void swapped(int* out) { if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;"); else asm volatile("bar.sync 2, 64;"); out[0] = 1; }
extern "C" __global__ void mbarrier(int* out) {
  __shared__ unsigned long long b; unsigned a = __cvta_generic_to_shared(&b), done = 0;
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 99;" :: "r"(a));
  __syncthreads();
  while (!done) asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}" : "=r"(done) : "r"(a));
  out[0] = 1;
}
extern "C" __global__ void naps(volatile int* out) { while (out[0] == 0) __nanosleep(1000); }
extern "C" __global__ void flag(volatile int* out) { while (out[0] == 0) {} }
extern "C" __global__ void lock(int* out) { while (atomicCAS(out, 5, 6) != 5) {} }
extern "C" __global__ void busy(int* out) { int x = 1; while (x) x = x * 3 | 1; out[0] = x; }
extern "C" __global__ void timer(int* out) { unsigned long long t, s; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(s));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); while (t < s + (1ull << 62)); out[0] = 1; }
__device__ __noinline__ int dig(volatile int* out, int n) { return out[0] + dig(out, n + 1) * 3 + n; }
extern "C" __global__ void recursion(int* out) { out[1] = dig(out, 0); }
extern "C" __global__ void flood(volatile int* out) { while (out[0] == 0) printf("%d again and again and again\n", threadIdx.x); }
extern "C" __global__ void hoard(volatile int* out) { while (out[0] == 0) { volatile char* p = (char*)malloc(1 << 20); if (p) p[0] = 1; } }
extern "C" __global__ void nothing(int* out) {}
extern "C" __global__ void sleeper(int* out) { for (;;) __nanosleep(1u << 30); }
"""
BUDGETS = {"max_instructions": 10_000_000, "max_seconds": 0.4}
KINDS = {
    "barrier": {"deadlock", "barrier-mismatch", "divergent-barrier"},
    "swapped": {"deadlock"}, "mbarrier": {"deadlock", "step-budget", "time-budget"},
    **dict.fromkeys(["naps", "flag", "lock", "busy", "flood", "hoard", "sleeper", "timer"],
                    frozenset({"step-budget", "time-budget", "deadlock", "heap", "out-of-memory"})),
    "recursion": {"stack-overflow", "stack"},
}  # fmt: skip


@pytest.fixture(scope="module")
def bench():
    return Bench(cuda(SOURCE))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kernel", KINDS)
def test_a_wait_without_end_is_a_fault(bench, kernel, workers):
    bench.module.prepare(kernel)
    result = bench(kernel, (4,), (64,), np.zeros(4, np.int32), workers=workers, **BUDGETS)
    assert result.fault is not None
    assert result.fault.kind in KINDS[kernel], result.fault
    assert len(result.printed) < 64 << 20


@pytest.mark.parametrize("workers", [1, 2])
def test_a_giant_grid_ends_by_its_budget(bench, workers):
    bench.module.prepare("nothing")
    result = bench(
        "nothing", (2**31 - 1, 65535), (32,), np.zeros(4, np.int32), workers=workers, **BUDGETS
    )
    assert result.fault is not None
    assert result.fault.kind in {"step-budget", "time-budget"}
