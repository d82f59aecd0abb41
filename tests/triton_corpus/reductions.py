"""Triton programs that reduce, scan, sort and count: softmax, norms with their gradients, top-k."""
# SPDX-License-Identifier: Apache-2.0

import torch
import triton
import triton.language as tl

from .corpus import close, entry, integers, launch, normal, same


@triton.jit
def softmax_kernel(x, out, rows, columns, STAGES: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        v = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(out + row * columns + at, e / tl.sum(e, axis=0), mask=at < columns)


@entry()
def fused_softmax(device):
    x = normal(13, 300, device=device) * 3
    out = torch.empty_like(x)
    launch(softmax_kernel, (4,), x, out, 13, 300, STAGES=2, BLOCK=512)
    close(out, torch.softmax(x.double(), 1))


@triton.jit
def online_kernel(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top, total = -float("inf"), 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
        new = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp2((top - new) * 1.4426950408889634) + tl.sum(tl.exp(v - new), 0)
        top = new
    tl.store(out + row, top + tl.log(total))


@entry()
def logsumexp(device):
    x = normal(5, 1000, device=device) * 4
    out = torch.empty(5, device=device)
    launch(online_kernel, (5,), x, out, 1000, BLOCK=256)
    close(out, torch.logsumexp(x.double(), 1))


@triton.jit
def layer_norm_kernel(x, out, weight, bias, mean_out, rstd_out, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n
    square = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        v = tl.where(at < n, v - mean, 0.0)
        square += v * v
    rstd = 1 / tl.sqrt(tl.sum(square, axis=0) / n + eps)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        w, b = tl.load(weight + at, mask=at < n), tl.load(bias + at, mask=at < n)
        v = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(out + row * n + at, (v - mean) * rstd * w + b, mask=at < n)


@triton.jit
def layer_norm_dx_kernel(dx, dy, dw, db, x, w, mean, rstd, lock, n,
                         GROUP: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < n
    value = tl.load(x + row * n + at, mask=mask, other=0).to(tl.float32)
    grad = tl.load(dy + row * n + at, mask=mask, other=0).to(tl.float32)
    scale = tl.load(w + at, mask=mask).to(tl.float32)
    m, r = tl.load(mean + row), tl.load(rstd + row)
    hat = tl.where(mask, (value - m) * r, 0.0)
    wdy = tl.where(mask, scale * grad, 0.0)
    c1, c2 = tl.sum(hat * wdy, axis=0) / n, tl.sum(wdy, axis=0) / n
    tl.store(dx + row * n + at, (wdy - (hat * c1 + c2)) * r, mask=mask)
    which = row % GROUP
    dw += which * n + at
    db += which * n + at
    mine, count = lock + which, lock + GROUP + which
    part_w, part_b = grad * hat, grad
    while tl.atomic_cas(mine, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        part_w += tl.load(dw, mask=mask)
        part_b += tl.load(db, mask=mask)
    tl.store(dw, part_w, mask=mask)
    tl.store(db, part_b, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(mine, 0)


@triton.jit
def layer_norm_dw_kernel(dw, db, final_w, final_b, rows, n, BM: tl.constexpr, BN: tl.constexpr):
    at = tl.program_id(0) * BN + tl.arange(0, BN)
    sum_w, sum_b = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, BN), tl.float32)
    for start in range(0, rows, BM):
        row = start + tl.arange(0, BM)
        mask = (row[:, None] < rows) & (at[None, :] < n)
        sum_w += tl.load(dw + row[:, None] * n + at[None, :], mask=mask, other=0.0)
        sum_b += tl.load(db + row[:, None] * n + at[None, :], mask=mask, other=0.0)
    tl.store(final_w + at, tl.sum(sum_w, axis=0), mask=at < n)
    tl.store(final_b + at, tl.sum(sum_b, axis=0), mask=at < n)


@entry()
def layer_norm(device):
    rows, n, group = 9, 200, 4
    x, dy = (normal(rows, n, seed=s, device=device) for s in (0, 1))
    w, b = (normal(n, seed=s, device=device) for s in (2, 3))
    y, dx = torch.empty_like(x), torch.empty_like(x)
    mean, rstd = torch.empty(2, rows, device=device)
    launch(layer_norm_kernel, (rows,), x, y, w, b, mean, rstd, n, 1e-5, BLOCK=128)
    dw, db = torch.zeros(2, group, n, device=device)
    lock = torch.zeros(2 * group, dtype=torch.int32, device=device)
    launch(layer_norm_dx_kernel, (rows,), dx, dy, dw, db, x, w, mean, rstd, lock, n,
           GROUP=group, BLOCK=256)  # fmt: skip
    final_w, final_b = torch.empty(2, n, device=device)
    launch(layer_norm_dw_kernel, (4,), dw, db, final_w, final_b, group, n, BM=32, BN=64)
    leaves = [t.double().cpu().requires_grad_() for t in (x, w, b)]
    want = torch.nn.functional.layer_norm(leaves[0], (n,), leaves[1], leaves[2], 1e-5)
    want.backward(dy.double().cpu())
    close(y, want.detach(), 1e-5, 2e-5)
    for got, leaf in zip((dx, final_w, final_b), leaves):
        close(got, leaf.grad, 1e-4, 5e-5)


@triton.jit
def rms_norm_kernel(x, weight, out, n, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(v * v, 0) / n + eps)
    w = tl.load(weight + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(out + row * n + at, (v * scale * w).to(out.dtype.element_ty), mask=at < n)


@entry()
def rms_norm(device):
    x, w = normal(6, 300, dtype=torch.bfloat16, device=device), normal(300, seed=1, device=device)
    out = torch.empty_like(x)
    launch(rms_norm_kernel, (6,), x, w, out, 300, 1e-6, BLOCK=512, num_warps=8)
    v = x.double().cpu()
    close(out, v * torch.rsqrt((v * v).mean(1, keepdim=True) + 1e-6) * w.double().cpu(), 8e-3, 8e-3)


@triton.jit
def cross_entropy_kernel(logits, labels, loss, grad, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(labels + row)
    at = tl.arange(0, BLOCK)
    v = tl.load(logits + row * n + at, mask=at < n, other=-float("inf")).to(tl.float32)
    top = tl.max(v, 0)
    e = tl.exp(v - top)
    total = tl.sum(e, 0)
    tl.store(loss + row, tl.log(total) + top - tl.load(logits + row * n + label))
    tl.store(grad + row * n + at, e / total - tl.where(at == label, 1.0, 0.0), mask=at < n)


@entry()
def cross_entropy(device):
    logits, labels = (
        normal(7, 400, device=device),
        integers(0, 400, 7, dtype=torch.int64, device=device),
    )
    loss, grad = torch.empty(7, device=device), torch.empty_like(logits)
    launch(cross_entropy_kernel, (7,), logits, labels, loss, grad, 400, BLOCK=512)
    leaf = logits.double().cpu().requires_grad_()
    want = torch.nn.functional.cross_entropy(leaf, labels.cpu(), reduction="none")
    want.sum().backward()
    close(loss, want.detach())
    close(grad, leaf.grad)


@triton.jit
def reduce_kernel(x, values, places, N: tl.constexpr, M: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    v = tl.load(x + at)
    rows, columns = tl.arange(0, N), tl.arange(0, M)
    best, where = tl.max(v, axis=1, return_indices=True)
    tl.store(values + rows, best)
    tl.store(places + rows, where)
    tl.store(places + N + rows, tl.argmin(v, axis=1))
    tl.store(values + N + columns, tl.sum(v, axis=0))
    tl.store(values + N + M + columns, tl.min(v, axis=0))
    tl.store(values + N + 2 * M, tl.sum(tl.sum(v, 0), 0))


@entry()
def reductions(device):
    n, m = 32, 64
    x = normal(n, m, device=device)
    values = torch.zeros(n + 2 * m + 1, device=device)
    places = torch.zeros(2 * n, dtype=torch.int32, device=device)
    launch(reduce_kernel, (1,), x, values, places, N=n, M=m)
    same(values[:n], x.amax(1))
    same(places[:n], x.argmax(1))
    same(places[n:], x.argmin(1))
    close(values[n : n + m], x.double().sum(0))
    same(values[n + m : n + 2 * m], x.amin(0))
    close(values[-1], x.double().sum(), 1e-5, 1e-4)


@triton.jit
def welford(mean_a, square_a, count_a, mean_b, square_b, count_b):
    count = count_a + count_b
    delta = mean_b - mean_a
    return (mean_a + delta * count_b / count,
            square_a + square_b + delta * delta * count_a * count_b / count, count)  # fmt: skip


@triton.jit
def welford_kernel(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    mean, square, count = tl.reduce(
        (v, tl.zeros_like(v), tl.full((N,), 1.0, tl.float32)), 0, welford
    )
    tl.store(out, mean)
    tl.store(out + 1, square / count)
    tl.store(out + 2, tl.xor_sum(v.to(tl.int32, bitcast=True), 0).to(tl.float32))


@entry()
def custom_reduction(device):
    x = normal(512, device=device) + 3
    out = torch.empty(3, device=device)
    launch(welford_kernel, (1,), x, out, N=512)
    close(out[:2], torch.stack([x.double().mean(), x.double().var(unbiased=False)]))
    word = 0
    for bits in x.view(torch.int32).tolist():
        word ^= bits
    same(out[2], torch.tensor(float(word)))


@triton.jit
def affine(a, b, c, d):
    return a * c, c * b + d


@triton.jit
def scan_kernel(x, gate, out, N: tl.constexpr):
    at = tl.arange(0, N)
    v, g = tl.load(x + at), tl.load(gate + at)
    tl.store(out + at, tl.cumsum(v, 0))
    tl.store(out + N + at, tl.cumprod(1 + v / N, 0))
    _, state = tl.associative_scan((g, v), 0, affine)
    tl.store(out + 2 * N + at, state)
    tl.store(out + 3 * N + at, tl.cumsum(v, 0, reverse=True))


@entry()
def scans(device):
    n = 512
    x, gate = normal(n, device=device), torch.sigmoid(normal(n, seed=1, device=device))
    out = torch.empty(4, n, device=device)
    launch(scan_kernel, (1,), x, gate, out, N=n)
    v, g = x.double().cpu(), gate.double().cpu()
    state, states = torch.tensor(0.0).double(), []
    for i in range(n):
        state = g[i] * state + v[i]
        states.append(state)
    close(out[0], v.cumsum(0), 1e-4, 1e-4)
    close(out[1], (1 + v / n).cumprod(0), 1e-4, 1e-4)
    close(out[2], torch.stack(states), 1e-4, 1e-4)
    close(out[3], v.flip(0).cumsum(0).flip(0), 1e-4, 1e-4)


@triton.jit
def scan_rows_kernel(x, out, N: tl.constexpr, M: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    v = tl.load(x + at)
    tl.store(out + at, tl.cumsum(v, 1))
    tl.store(out + N * M + at, tl.cumsum(v, 0))


@entry()
def scans_of_rows(device):
    x = integers(-9, 9, 32, 64, device=device)
    out = torch.empty(2, 32, 64, dtype=torch.int32, device=device)
    launch(scan_rows_kernel, (1,), x, out, N=32, M=64)
    same(out[0], x.cumsum(1))
    same(out[1], x.cumsum(0))


@triton.jit
def histogram_kernel(x, out, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x + at, mask=at < n, other=0), BINS, mask=at < n)
    tl.atomic_add(out + tl.arange(0, BINS), counts)


@entry()
def histogram(device):
    x = integers(0, 64, 1900, device=device)
    out = torch.zeros(64, dtype=torch.int32, device=device)
    launch(histogram_kernel, (4,), x, out, 1900, BINS=64, BLOCK=512)
    same(out, torch.bincount(x.cpu(), minlength=64))


@triton.jit
def sort_kernel(x, out, N: tl.constexpr, M: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    v = tl.load(x + at)
    tl.store(out + at, tl.sort(v))
    tl.store(out + N * M + at, tl.sort(v, descending=True))


@entry()
def sort(device):
    x = normal(8, 64, device=device)
    out = torch.empty(2, 8, 64, device=device)
    launch(sort_kernel, (1,), x, out, N=8, M=64)
    same(out[0], x.sort(1).values)
    same(out[1], x.sort(1, descending=True).values)


@triton.jit
def top_k_kernel(x, out, N: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    best = tl.topk(tl.load(x + at), K)
    tl.store(out + tl.arange(0, N)[:, None] * K + tl.arange(0, K)[None, :], best)


@entry()
def top_k(device):
    x = normal(8, 64, device=device)
    out = torch.empty(8, 8, device=device)
    launch(top_k_kernel, (1,), x, out, N=8, M=64, K=8)
    same(out, x.topk(8, 1).values)


@triton.jit
def gather_kernel(x, index, out, N: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    source = tl.load(x + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :])
    at = tl.arange(0, K)[:, None] * M + tl.arange(0, M)[None, :]
    tl.store(out + at, tl.gather(source, tl.load(index + at), 0))


@entry()
def gather(device):
    x, index = normal(32, 16, device=device), integers(0, 32, 64, 16, device=device)
    out = torch.empty(64, 16, device=device)
    launch(gather_kernel, (1,), x, index, out, N=32, M=16, K=64)
    same(out, x.gather(0, index.long()))
