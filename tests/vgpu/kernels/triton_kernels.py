"""Triton kernels that the virtual GPU must run right."""
# SPDX-License-Identifier: Apache-2.0

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    values = tl.load(x + row * columns + at, mask=mask, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + at, values / tl.sum(values, axis=0), mask=mask)


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    keep = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, tl.load(x + at, mask=mask) / (1 - p), 0.0), mask=mask)


@triton.jit
def layer_norm(x, out, weight, bias, mean_out, rstd_out, n, eps, BLOCK: tl.constexpr):
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
        mask = at < n
        w, b = tl.load(weight + at, mask=mask), tl.load(bias + at, mask=mask)
        v = tl.load(x + row * n + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(out + row * n + at, (v - mean) * rstd * w + b, mask=mask)


@triton.jit
def layer_norm_backward(dx, dy, dw, db, x, w, mean, rstd, lock, n,
                        GROUP: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
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
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm, pn = tl.program_id(0), tl.program_id(1)
    m, n, k = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    pa, pb = a + m[:, None] * K + k[None, :], b + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        x = tl.load(pa, mask=k[None, :] < K - start, other=0.0)
        y = tl.load(pb, mask=k[:, None] < K - start, other=0.0)
        acc = tl.dot(x, y, acc)
        pa += BK
        pb += BK * N
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def attention(q, k, v, out, scale, T, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    block, head = tl.program_id(0), tl.program_id(1)
    base = head * T * D
    m, d = block * BM + tl.arange(0, BM), tl.arange(0, D)
    query = tl.load(q + base + m[:, None] * D + d[None, :])
    most = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, (block + 1) * BM, BN):
        n = start + tl.arange(0, BN)
        keys = tl.load(k + base + n[:, None] * D + d[None, :])
        s = tl.dot(query, tl.trans(keys)) * scale
        s = tl.where(m[:, None] >= n[None, :], s, -float("inf"))
        new = tl.maximum(most, tl.max(s, 1))
        p, shrink = tl.exp(s - new[:, None]), tl.exp(most - new)
        total = total * shrink + tl.sum(p, 1)
        values = tl.load(v + base + n[:, None] * D + d[None, :])
        acc = acc * shrink[:, None]
        acc = tl.dot(p.to(values.dtype), values, acc)
        most = new
    tl.store(
        out + base + m[:, None] * D + d[None, :], (acc / total[:, None]).to(out.dtype.element_ty)
    )


@triton.jit
def histogram(x, out, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x + at), BINS)
    tl.atomic_add(out + tl.arange(0, BINS), counts)


@triton.jit
def cumulative(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.cumsum(tl.load(x + at), 0))


@triton.jit
def sort(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.sort(tl.load(x + at)))


@triton.jit
def library(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(out + at, libdevice.asin(v))
    tl.store(out + BLOCK + at, libdevice.erf(v))
    tl.store(out + 2 * BLOCK + at, libdevice.tanh(v))
    tl.store(out + 3 * BLOCK + at, libdevice.pow(tl.abs(v), 2.3))
    tl.store(out + 4 * BLOCK + at, tl.sin(v))
    tl.store(out + 5 * BLOCK + at, tl.exp2(v))
    tl.store(out + 6 * BLOCK + at, tl.log(tl.abs(v)))
    tl.store(out + 7 * BLOCK + at, tl.rsqrt(tl.abs(v)))


@triton.jit
def atomics(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.atomic_add(out + at % 7, v)
    tl.atomic_max(out + 8 + at % 3, v)
    tl.atomic_min(out + 12 + at % 3, v)


@triton.jit
def extremes(x, out, BLOCK: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    tl.store(out, tl.argmax(v, 0))
    tl.store(out + 1, tl.argmin(v, 0))


@triton.jit
def gather(x, out, index, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(index + at), 0))


@triton.jit
def dot(a, b, c, BLOCK: tl.constexpr, PRECISION: tl.constexpr):
    at = tl.arange(0, BLOCK)
    square = at[:, None] * BLOCK + at[None, :]
    tl.store(
        c + square, tl.dot(tl.load(a + square), tl.load(b + square), input_precision=PRECISION)
    )


@triton.jit
def to_float8(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(out + at, v.to(tl.float8e5).to(tl.float32) + v.to(tl.float8e4nv).to(tl.float32))


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def products(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    square = at[:, None] * BLOCK + at[None, :]
    tl.store(out + square, tl.associative_scan(tl.load(x + square), 1, _times))


@triton.jit
def persistent_matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    across = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * across, tl.num_programs(0)):
        m = (tile // across) * BM + tl.arange(0, BM)
        n = (tile % across) * BN + tl.arange(0, BN)
        k = tl.arange(0, BK)
        acc = tl.zeros((BM, BN), tl.float32)
        for start in tl.range(0, K, BK, num_stages=3):
            x = tl.load(a + m[:, None] * K + (start + k)[None, :])
            y = tl.load(b + (start + k)[:, None] * N + n[None, :])
            acc = tl.dot(x, y, acc)
        tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))


@triton.jit
def integers(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    u = v.to(tl.uint32, bitcast=True)
    mixed = ((u >> 3) ^ (u * 2654435761)) | tl.umulhi(u, u)
    tl.store(out + at, mixed.to(tl.int32, bitcast=True) // 7 + (v.to(tl.int64) % 13).to(tl.int32))


@triton.jit
def doubles(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(out + at, tl.exp(v) / tl.sqrt(v) + libdevice.log(v) * libdevice.cos(v))


@triton.jit
def asserted(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.device_assert(v < 100, "too big")
    tl.store(out + at, v)
