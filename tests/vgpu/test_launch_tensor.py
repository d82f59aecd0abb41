"""Tensor cores from CUDA C++ agree with numpy on the virtual GPU."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from compile import cuda_file
from launching import Bench

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.virtual


@cache
def bench() -> Bench:
    return Bench(cuda_file("tensor.cu", "sm_90"))


def bf16(x):
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def eighths(rng, size):
    """Numbers that every float type here holds, with exact sums of products."""
    return rng.integers(-16, 17, size) / 8


# kernel -> (m, n, k of a tile, how inputs are stored, accumulator)
PRODUCTS = {
    "wmma_f16": (16, 16, 16, np.float16, np.float32),
    "wmma_f16_sums": (16, 16, 16, np.float16, np.float16),
    "wmma_tall": (32, 8, 16, np.float16, np.float32),
    "wmma_bf16": (16, 16, 16, bf16, np.float32),
    "wmma_wide_bf16": (8, 32, 16, bf16, np.float32),
    "wmma_tf32": (16, 16, 8, np.float32, np.float32),
    "wmma_s8": (16, 16, 16, np.int8, np.int32),
    "wmma_f64": (8, 8, 4, np.float64, np.float64),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_wmma(name):
    tile_m, tile_n, tile_k, stored, total = PRODUCTS[name]
    m, n, k = 2 * tile_m, 2 * tile_n, 3 * tile_k
    rng = np.random.default_rng(1)
    draw = (lambda r, s: r.integers(-128, 128, s)) if total == np.int32 else eighths
    a, b, c = draw(rng, (m, k)), draw(rng, (k, n)), draw(rng, (m, n)).astype(total)
    keep = stored if stored is bf16 else lambda x: x.astype(stored)
    want = 2 * (a @ b + c.astype(np.float64))
    bench().right(name, (2, 2), (32,), keep(a), keep(np.ascontiguousarray(b.T)), c, n, k)
    assert np.array_equal(c.astype(np.float64), want)


def test_matrices_by_hand():
    rng = np.random.default_rng(2)
    a, b = (eighths(rng, size).astype(np.float16) for size in ((16, 16), (16, 8)))
    d, turned = np.zeros((16, 8), np.float16), np.zeros((8, 8), np.float16)
    bench().right("by_hand", (1,), (32,), a, b, d, turned)
    want = a.astype(np.float64) @ b.astype(np.float64)
    assert np.array_equal(d.astype(np.float64), want)
    assert np.array_equal(turned.astype(np.float64), want[:8].T)
