"""Modelled times from counters of real kernels keep the order that GPUs show."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
import pytest
from counted import counters
from test_counters import SGEMM, TRANSPOSE, VADD, floats

from warpsmith import targets
from warpsmith.measure.model import LaunchShape, model_time

pytestmark = pytest.mark.virtual

NAIVE = """
extern "C" __global__ void coalesced(const float* a, const float* b, float* c, int n) {
  int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
  float sum = 0;
  for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + col];
  c[row * n + col] = sum;
}
extern "C" __global__ void uncoalesced(const float* a, const float* b, float* c, int n) {
  int row = blockIdx.x * 32 + threadIdx.x, col = blockIdx.y * 32 + threadIdx.y;
  float sum = 0;
  for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + col];
  c[row * n + col] = sum;
}
"""


def modelled(source, kernel, grid, block, target="a100", scale=1, **arguments):
    """The modelled time of `scale` times the grid that ran, so that small runs speak for large ones."""
    found = counters(source, kernel, grid, block, **arguments).as_dict()
    flat = {name: value * scale for name, value in found.items()}
    grid = (*np.atleast_1d(grid), scale)
    block = tuple(np.atleast_1d(block))
    return model_time(flat, LaunchShape(grid, block), targets.get(target))


@pytest.mark.parametrize("target", ["t4", "a100", "h100", "rtx4090"])
def test_matrix_products(target):
    n = 64
    shape = {"grid": (2, 2), "block": (32, 32), "scale": 4096, "target": target, "n": n}
    times = []
    for source, kernel in [(SGEMM, "sgemm"), (NAIVE, "coalesced"), (NAIVE, "uncoalesced")]:
        times.append(
            modelled(source, kernel, a=floats(n, n), b=floats(n, n), c=floats(n, n), **shape)
        )
    totals = [t.total_us for t in times]
    assert totals == sorted(totals)
    assert totals[2] > 2 * totals[0]


@pytest.mark.parametrize("target", ["t4", "a100", "h100", "rtx4090"])
def test_transposes(target):
    def time(kernel):
        x, out = floats(64, 64), floats(64, 64)
        return modelled(
            TRANSPOSE, kernel, (2, 2), (32, 32), target, 1024, x=x, out=out, n=64
        ).total_us

    assert time("padded") < time("naive")
    assert time("padded") < time("global_only")


def test_strides():
    def time(stride):
        x, out = floats(256 * stride), floats(256)
        return modelled(
            VADD, "strided", 1, 256, scale=1 << 14, x=x, out=out, stride=stride
        ).total_us

    times = [time(s) for s in (1, 2, 4, 8)]
    assert times == sorted(times)
    assert times[3] > 2 * times[0]


def test_a_vector_add_is_bound_by_dram_when_large_and_by_its_launch_when_small():
    n = 1 << 12
    run = {"x": floats(n), "y": floats(n), "out": floats(n), "n": n}
    assert modelled(VADD, "vadd", n // 256, 256, **run).bound == "launch"
    large = modelled(VADD, "vadd", n // 256, 256, scale=1 << 14, **run)
    assert large.bound in ("dram", "latency")  # four bytes a load: an H200 reaches 0.70 of its pins
    gbps = 12 * n * (1 << 14) / large.total_us / 1e3
    assert 0.65 * 2039 < gbps < 0.92 * 2039
