"""The algorithms of tests/vgpu/kernels/basics.cu in Numba's CUDA simulator: CPU milliseconds, as JSON."""
# SPDX-License-Identifier: Apache-2.0

import json
import os
import sys
import time

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"

import numpy as np
from numba import cuda, float32, int32


@cuda.jit
def vadd(a, b, c, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = a[i] + b[i]


@cuda.jit
def sgemm_tiled(a, b, c, n):
    left, right = cuda.shared.array((16, 16), float32), cuda.shared.array((16, 16), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.blockIdx.x * 16 + x, cuda.blockIdx.y * 16 + y
    total = float32(0)
    for k in range(0, n, 16):
        left[y, x] = a[row, k + x]
        right[y, x] = b[k + y, col]
        cuda.syncthreads()
        for i in range(16):
            total += left[y, i] * right[i, x]
        cuda.syncthreads()
    c[row, col] = total


@cuda.jit
def histogram(values, out, n):
    bins = cuda.shared.array(64, int32)
    if cuda.threadIdx.x < 64:
        bins[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        cuda.atomic.add(bins, values[i] & 63, 1)
    cuda.syncthreads()
    if cuda.threadIdx.x < 64:
        cuda.atomic.add(out, cuda.threadIdx.x, bins[cuda.threadIdx.x])


@cuda.jit
def reduce_shared(a, out, n):
    """Sums of 128 threads through shared memory: the simulator has no shuffles."""
    sums = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        total += a[i]
    sums[t] = total
    cuda.syncthreads()
    d = 64
    while d:
        if t < d:
            sums[t] += sums[t + d]
        cuda.syncthreads()
        d //= 2
    if t == 0:
        cuda.atomic.add(out, 0, sums[0])


def calls() -> dict:
    random = np.random.default_rng(0)
    x, y, z = (random.standard_normal(4096).astype(np.float32) for _ in range(3))
    a, b, c = (random.standard_normal((32, 32)).astype(np.float32) for _ in range(3))
    keys, bins = random.integers(0, 64, 4096, dtype=np.int32), np.zeros(64, np.int32)
    total = np.zeros(1, np.float32)
    return {
        "vadd_4096": lambda: vadd[32, 128](x, y, z, 4096),
        "sgemm_tiled_32": lambda: sgemm_tiled[(2, 2), (16, 16)](a, b, c, 32),
        "histogram_4096": lambda: histogram[4, 128](keys, bins, 4096),
        "reduction_4096": lambda: reduce_shared[4, 128](x, total, 4096),
    }


def times_ms(run, repeats: int) -> list[float]:
    found = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        found.append(1e3 * (time.process_time() - start))
    return found


if __name__ == "__main__":
    print(json.dumps({name: times_ms(run, int(sys.argv[1])) for name, run in calls().items()}))
