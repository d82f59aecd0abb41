"""Triton attention: fused forward, its gradients, and decoding from a paged cache."""
# SPDX-License-Identifier: Apache-2.0

import torch
import triton
import triton.language as tl

from .corpus import close, entry, launch, normal


@triton.jit
def forward_kernel(q, k, v, out, lse, scale, T, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                   CAUSAL: tl.constexpr):  # fmt: skip
    block, head = tl.program_id(0), tl.program_id(1)
    m, d = block * BM + tl.arange(0, BM), tl.arange(0, D)
    base = head * T * D
    query = tl.load(q + base + m[:, None] * D + d[None, :])
    top = tl.full((BM,), -float("inf"), tl.float32)
    total, sums = tl.zeros((BM,), tl.float32), tl.zeros((BM, D), tl.float32)
    last = (block + 1) * BM if CAUSAL else T
    for start in range(0, last, BN):
        n = start + tl.arange(0, BN)
        key = tl.load(k + base + n[:, None] * D + d[None, :])
        score = tl.dot(query, key.T) * (scale * 1.44269504)
        if CAUSAL:
            score = tl.where(m[:, None] >= n[None, :], score, -float("inf"))
        new = tl.maximum(top, tl.max(score, 1))
        p = tl.exp2(score - new[:, None])
        shrink = tl.exp2(top - new)
        total = total * shrink + tl.sum(p, 1)
        value = tl.load(v + base + n[:, None] * D + d[None, :])
        sums = tl.dot(p.to(value.dtype), value, sums * shrink[:, None])
        top = new
    tl.store(
        out + base + m[:, None] * D + d[None, :], (sums / total[:, None]).to(out.dtype.element_ty)
    )
    tl.store(lse + head * T + m, top + tl.log2(total))


@triton.jit
def delta_kernel(out, dout, delta, D: tl.constexpr, BM: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    at = m[:, None] * D + d[None, :]
    product = tl.load(out + at).to(tl.float32) * tl.load(dout + at).to(tl.float32)
    tl.store(delta + m, tl.sum(product, 1))


@triton.jit
def backward_kv_kernel(q, k, v, dout, lse, delta, dk, dv, scale, T, D: tl.constexpr,
                       BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
    block, head = tl.program_id(0), tl.program_id(1)
    base = head * T * D
    n, d = block * BN + tl.arange(0, BN), tl.arange(0, D)
    key = tl.load(k + base + n[:, None] * D + d[None, :])
    value = tl.load(v + base + n[:, None] * D + d[None, :])
    sum_k, sum_v = tl.zeros((BN, D), tl.float32), tl.zeros((BN, D), tl.float32)
    first = block * BN // BM * BM if CAUSAL else 0
    for start in range(first, T, BM):
        m = start + tl.arange(0, BM)
        at = base + m[:, None] * D + d[None, :]
        query, grad = tl.load(q + at), tl.load(dout + at)
        p = tl.exp2(
            tl.dot(key, query.T) * (scale * 1.44269504) - tl.load(lse + head * T + m)[None, :]
        )
        if CAUSAL:
            p = tl.where(m[None, :] >= n[:, None], p, 0.0)
        sum_v = tl.dot(p.to(grad.dtype), grad, sum_v)
        dp = tl.dot(value, grad.T)
        ds = p * (dp - tl.load(delta + head * T + m)[None, :])
        sum_k = tl.dot(ds.to(query.dtype), query, sum_k)
    at = base + n[:, None] * D + d[None, :]
    tl.store(dk + at, (sum_k * scale).to(dk.dtype.element_ty))
    tl.store(dv + at, sum_v.to(dv.dtype.element_ty))


@triton.jit
def backward_q_kernel(q, k, v, dout, lse, delta, dq, scale, T, D: tl.constexpr, BM: tl.constexpr,
                      BN: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
    block, head = tl.program_id(0), tl.program_id(1)
    base = head * T * D
    m, d = block * BM + tl.arange(0, BM), tl.arange(0, D)
    at = base + m[:, None] * D + d[None, :]
    query, grad = tl.load(q + at), tl.load(dout + at)
    log, spread = tl.load(lse + head * T + m), tl.load(delta + head * T + m)
    sums = tl.zeros((BM, D), tl.float32)
    last = (block + 1) * BM if CAUSAL else T
    for start in range(0, last, BN):
        n = start + tl.arange(0, BN)
        key = tl.load(k + base + n[:, None] * D + d[None, :])
        value = tl.load(v + base + n[:, None] * D + d[None, :])
        p = tl.exp2(tl.dot(query, key.T) * (scale * 1.44269504) - log[:, None])
        if CAUSAL:
            p = tl.where(m[:, None] >= n[None, :], p, 0.0)
        ds = p * (tl.dot(grad, value.T) - spread[:, None])
        sums = tl.dot(ds.to(key.dtype), key, sums)
    tl.store(dq + at, (sums * scale).to(dq.dtype.element_ty))


def reference(q, k, v, scale, causal):
    score = q @ k.transpose(-1, -2) * scale
    if causal:
        t = q.shape[-2]
        score = score.masked_fill(~torch.ones(t, t, dtype=torch.bool).tril(), -torch.inf)
    return torch.softmax(score, -1) @ v


def run_attention(device, causal, backward, dtype=torch.float16, d=64, bm=64, bn=32):
    heads, t, scale = 2, 128, 0.125
    q, k, v, dout = (normal(heads, t, d, seed=s, dtype=dtype, device=device) for s in range(4))
    out, lse = torch.empty_like(q), torch.empty(heads, t, device=device)
    blocks = {"D": d, "BM": bm, "BN": bn, "CAUSAL": causal}
    launch(forward_kernel, (t // bm, heads), q, k, v, out, lse, scale, t, **blocks)
    leaves = [x.double().cpu().requires_grad_() for x in (q, k, v)]
    want = reference(*leaves, scale, causal)
    tolerance = 4e-3 if dtype == torch.float16 else 3e-2
    close(out, want.detach(), tolerance, tolerance)
    if not backward:
        return
    delta = torch.empty_like(lse)
    launch(delta_kernel, (heads * t // 32,), out, dout, delta, D=d, BM=32)
    dq, dk, dv = (torch.empty_like(q) for _ in range(3))
    launch(
        backward_kv_kernel, (t // bn, heads), q, k, v, dout, lse, delta, dk, dv, scale, t, **blocks
    )
    launch(backward_q_kernel, (t // bm, heads), q, k, v, dout, lse, delta, dq, scale, t, **blocks)
    want.backward(dout.double().cpu())
    for got, leaf in zip((dq, dk, dv), leaves):
        close(got, leaf.grad, 2e-2, 2e-2)


@entry()
def attention_causal(device):
    run_attention(device, True, False)


@entry()
def attention_full(device):
    run_attention(device, False, False, bm=128, bn=64)


@entry(80, why="bf16 tensor cores exist from sm_80 on")
def attention_bfloat16(device):
    run_attention(device, True, False, torch.bfloat16)


@entry()
def attention_backward(device):
    run_attention(device, True, True, d=32, bn=64)


@triton.jit
def paged_kernel(q, cache_k, cache_v, table, lengths, out, scale, pages, D: tl.constexpr,
                 PAGE: tl.constexpr):  # fmt: skip
    row = tl.program_id(0)
    d, slot = tl.arange(0, D), tl.arange(0, PAGE)
    query, length = tl.load(q + row * D + d).to(tl.float32), tl.load(lengths + row)
    top, total, sums = -float("inf"), 0.0, tl.zeros((D,), tl.float32)
    for page in range(tl.cdiv(length, PAGE)):
        where = tl.load(table + row * pages + page)
        at = (where * PAGE + slot)[:, None] * D + d[None, :]
        here = page * PAGE + slot < length
        key = tl.load(cache_k + at, mask=here[:, None], other=0.0).to(tl.float32)
        score = tl.where(here, tl.sum(key * query[None, :], 1) * scale, -float("inf"))
        new = tl.maximum(top, tl.max(score, 0))
        p = tl.exp(score - new)
        shrink = tl.exp(top - new)
        value = tl.load(cache_v + at, mask=here[:, None], other=0.0).to(tl.float32)
        total = total * shrink + tl.sum(p, 0)
        sums = sums * shrink + tl.sum(value * p[:, None], 0)
        top = new
    tl.store(out + row * D + d, (sums / total).to(out.dtype.element_ty))


@entry()
def paged_attention(device):
    rows, d, page, pages = 3, 64, 16, 4
    lengths = torch.tensor([5, 33, 64], dtype=torch.int32)
    table = (
        torch.randperm(rows * pages, generator=torch.Generator().manual_seed(0))
        .int()
        .view(rows, pages)
    )
    k, v = (
        normal(rows * pages, page, d, seed=s, dtype=torch.float16, device=device) for s in (0, 1)
    )
    q = normal(rows, d, seed=2, dtype=torch.float16, device=device)
    out = torch.empty_like(q)
    launch(paged_kernel, (rows,), q, k, v, table.to(device), lengths.to(device), out, 0.125, pages,
           D=d, PAGE=page)  # fmt: skip
    for row in range(rows):
        keys, values = (
            x[table[row].long()].reshape(-1, d)[: lengths[row]].double().cpu() for x in (k, v)
        )
        close(
            out[row],
            reference(q[row : row + 1].double().cpu(), keys, values, 0.125, False)[0],
            2e-3,
            2e-3,
        )
