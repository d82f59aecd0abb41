"""A sample of a grid's blocks speaks for all of it: scaled counters, and refusals."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
import pytest
from counted import launch
from test_counters import TRANSPOSE, VADD, floats

from warpsmith.errors import UsageError
from warpsmith.vgpu import Checks
from warpsmith.vgpu.launch import sampled

pytestmark = pytest.mark.virtual
N = 1 << 16


def added(n=N, **options):
    out = np.zeros(n, np.float32)
    found = launch(
        VADD, "vadd", n // 256, 256, x=floats(n), y=floats(n), out=out, n=n, options=options
    )
    return found, out


def same(one, two):
    one, two = one.counters.as_dict(), two.counters.as_dict()
    assert one == pytest.approx(two)


def test_equal_blocks_give_the_whole_grids_counters():
    whole, _ = added()
    part, out = added(sample=12)
    same(part, whole)
    assert part.scale == 256 / 12
    assert whole.scale == 1
    assert (out != 0).sum() < 13 * 256


def test_transposed_sectors_scale_too():
    def run(**options):
        x, out = floats(256, 256), floats(256, 256)
        return launch(TRANSPOSE, "naive", (8, 8), (32, 32), x=x, out=out, n=256, options=options)

    same(run(sample=6), run())


def test_a_span_that_every_block_reads_does_not_grow():
    x, out = floats(256), floats(N)
    source = """
    extern "C" __global__ void f(const float* x, float* out) {
      out[blockIdx.x * 256 + threadIdx.x] = x[threadIdx.x];
    }
    """
    found = launch(source, "f", N // 256, 256, x=x, out=out, options={"sample": 9})
    assert found.counters.unique_bytes_read == x.nbytes
    assert found.counters.unique_bytes_written == pytest.approx(out.nbytes, rel=1e-3)


def test_a_small_grid_runs_whole():
    part, out = added(n=1024, sample=12)
    assert part.scale == 1
    assert (out != 0).all()


@pytest.mark.parametrize("clusters", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("wanted", [1, 3, 5, 99])
@pytest.mark.parametrize("ranks", [1, 4])
def test_spans_are_apart_and_inside(clusters, wanted, ranks):
    spans = sampled(clusters, wanted, ranks)
    flat = [block for first, last in spans for block in range(first, last)]
    assert len(flat) == len(set(flat))
    assert flat[0] == 0
    assert flat[-1] == clusters * ranks - 1
    assert all(first % ranks == 0 and last % ranks == 0 for first, last in spans)


@pytest.mark.parametrize("options", [{"sample": 0}, {"sample": 3, "checks": Checks()}])
def test_refused(options):
    with pytest.raises(UsageError, match="sample="):
        added(**options)
