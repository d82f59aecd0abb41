"""The Triton kernels among those that the performance model is fitted to and tested on."""
# SPDX-License-Identifier: Apache-2.0

import triton
import triton.language as tl


@triton.jit
def k_tri_gelu(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(out + at, v / (1 + tl.exp(-1.702 * v)), mask=at < n)


@triton.jit
def k_tri_softmax(x, out, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * cols
    value = tl.load(x + row + at, mask=at < cols, other=-float("inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(out + row + at, value / tl.sum(value, 0), mask=at < cols)


@triton.jit
def k_tri_norm(x, weight, out, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * cols
    value = tl.load(x + row + at, mask=at < cols, other=0.0)
    mean = tl.sum(value, 0) / cols
    apart = tl.where(at < cols, value - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(apart * apart, 0) / cols + 1e-5)
    tl.store(out + row + at, apart * scale * tl.load(weight + at, mask=at < cols), mask=at < cols)


@triton.jit
def k_tri_matmul(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, n, BK):
        left = tl.load(a + rows[:, None] * n + (k + ks)[None, :])
        right = tl.load(b + cols[None, :] * n + (k + ks)[:, None])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + cols[None, :], total)


@triton.jit
def k_tri_attention(q, k, v, out, n, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1) * n * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols, ds = tl.arange(0, BN), tl.arange(0, D)
    mine = tl.load(q + head + rows[:, None] * D + ds[None, :])
    most = tl.full((BM,), -float("inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for start in range(0, n, BN):
        at = (start + cols)[:, None] * D + ds[None, :]
        score = tl.dot(mine, tl.trans(tl.load(k + head + at))) * 0.125
        peak = tl.maximum(most, tl.max(score, 1))
        p = tl.exp(score - peak[:, None])
        keep = tl.exp(most - peak)
        weight = weight * keep + tl.sum(p, 1)
        total = tl.dot(p.to(tl.float16), tl.load(v + head + at), total * keep[:, None])
        most = peak
    tl.store(out + head + rows[:, None] * D + ds[None, :], (total / weight[:, None]).to(tl.float16))
