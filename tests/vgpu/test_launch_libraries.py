"""Kernels written with cub, cooperative groups, cuda::barrier and wmma agree with numpy."""
# SPDX-License-Identifier: Apache-2.0

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from compile import cuda_file
from launching import Bench

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.virtual
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def run():
    return Bench(cuda_file("libraries.cu"))


def test_block_reduce(run):
    x, out = RNG.random(384).astype(np.float32), np.zeros(3, np.float32)
    run.right("block_reduce", (3,), (128,), x, out)
    np.testing.assert_allclose(out, x.reshape(3, 128).sum(1), rtol=1e-5)


def test_block_scan(run):
    x, out = RNG.integers(-9, 9, 512).astype(np.int32), np.zeros(512, np.int32)
    run.right("block_scan", (1,), (128,), x, out)
    assert np.array_equal(out, np.cumsum(x))


def test_block_sort(run):
    x, out = RNG.integers(0, 2**32, 512).astype(np.uint32), np.zeros(512, np.uint32)
    run.right("block_sort", (1,), (128,), x, out)
    assert np.array_equal(out, np.sort(x))


@pytest.mark.parametrize("schedule", ["default", "reverse", "random"])
def test_cooperative_groups(run, schedule):
    x, out = RNG.integers(0, 100, 64).astype(np.int32), np.zeros((3, 64), np.int32)
    run.right("groups", (1,), (64,), x, out, schedule=schedule)
    tiles = x.reshape(4, 16)
    assert np.array_equal(out[0].reshape(4, 16), np.repeat(tiles.sum(1), 16).reshape(4, 16))
    assert np.array_equal(out[1].reshape(4, 16), np.cumsum(tiles, 1))
    for warp in (slice(0, 32), slice(32, 64)):
        odd = np.flatnonzero(x[warp] & 1)
        assert list(out[2][warp][odd]) == [100 * len(odd) + i for i in range(len(odd))]


def test_grid_sync(run):
    n = 6 * 64
    data, out = np.zeros(n, np.int32), np.zeros(n, np.int32)
    run.right("grid_sync", (6,), (64,), data, out, cooperative=True)
    i = np.arange(n)
    assert np.array_equal(out, (n - 1 - i) + (n - 1 - (i + 1) % n) + 1)


def test_barrier_and_memcpy_async(run):
    x, out = RNG.random(768).astype(np.float32), np.zeros(768, np.float32)
    run.right("barrier_copy", (1,), (64,), x, out)
    assert np.array_equal(out.reshape(3, 256), x.reshape(3, 256)[:, ::-1])


def test_pipeline(run):
    x, out = RNG.random(512).astype(np.float32), np.zeros(512, np.float32)
    run.right("pipeline_copy", (1,), (128,), x, out)
    assert np.array_equal(out, 2 * x)


def test_wmma(run):
    a, b = (RNG.standard_normal((16, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((16, 16), np.float32)
    run.right("wmma_tile", (1,), (32,), a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.T.astype(np.float64), atol=1e-4)


def test_virtual_functions(run):
    out = np.zeros(32, np.float32)
    run.right("virtuals", (1,), (32,), out)
    assert list(out) == [t * t * (3 if t & 1 else 1) for t in range(32)]
