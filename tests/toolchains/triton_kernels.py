"""Triton kernels that the tests compile and run."""
# SPDX-License-Identifier: Apache-2.0

import triton
import triton.language as tl


@triton.jit
def vadd(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, inside) + tl.load(y + i, inside), inside)


@triton.jit
def softmax(x, out, cols, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * cols
    v = tl.load(x + row + i, i < cols, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row + i, (e / tl.sum(e, 0)).to(out.dtype.element_ty), i < cols)


@triton.jit
def layernorm(x, weight, bias, out, cols, eps, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * cols
    inside = i < cols
    v = tl.load(x + row + i, inside, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / cols
    d = tl.where(inside, v - mean, 0.0)
    scale = tl.rsqrt(tl.sum(d * d, 0) / cols + eps)
    w = tl.load(weight + i, inside)
    b = tl.load(bias + i, inside)
    tl.store(out + row + i, d * scale * w + b, inside)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        ks = start + k
        left = tl.load(a + m[:, None] * K + ks[None, :], (m[:, None] < M) & (ks[None, :] < K), 0.0)
        right = tl.load(b + ks[:, None] * N + n[None, :], (ks[:, None] < K) & (n[None, :] < N), 0.0)
        total = tl.dot(left, right, total)
    tl.store(
        c + m[:, None] * N + n[None, :],
        total.to(c.dtype.element_ty),
        (m[:, None] < M) & (n[None, :] < N),
    )


def only_wide(configs, named_args, **kwargs):
    return [c for c in configs if c.kwargs["BLOCK"] >= 128]


def widest(named):
    return triton.next_power_of_2(named["cols"])


CONFIGS = [
    triton.Config({"BLOCK": 64}, num_warps=2),
    triton.Config({"BLOCK": 128}, num_warps=4),
    triton.Config({"BLOCK": 256}, num_warps=8),
]

tuned_vadd = triton.autotune(CONFIGS, key=["n"])(vadd)
pruned_vadd = triton.autotune(
    CONFIGS, key=["n"], prune_configs_by={"early_config_prune": only_wide}
)(vadd)
sized_softmax = triton.heuristics({"BLOCK": widest})(softmax)


@triton.jit
def add_scaled(x, scale):
    return x + undefined_name * scale  # noqa: F821


@triton.jit
def broken_inside(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)

    tl.store(x + i, add_scaled(tl.load(x + i), 2))


@triton.jit
def broken_range(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK + 1)
    tl.store(x + i, i)


@triton.jit
def broken_assertion(x, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK > 4096, "BLOCK is small")
    tl.store(x, n)


@triton.jit
def optional(x, bias, out, n, scale, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n) * scale
    if bias is not None:
        v += tl.load(bias + i, i < n)
    tl.store(out + i, v, i < n)


FACTOR = tl.constexpr(3)


@triton.jit
def by_global(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * FACTOR)
