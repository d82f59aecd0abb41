"""Triton matrix products: grouped tiles, split-K, stream-K, persistent, small types, convolution."""
# SPDX-License-Identifier: Apache-2.0

import torch
import triton
import triton.language as tl

from .corpus import aligned, cdiv, close, entry, integers, launch, normal, same


@triton.jit
def leaky(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def matmul_kernel(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr,
                  BK: tl.constexpr, GROUP: tl.constexpr, ACTIVATION: tl.constexpr,
                  PRECISION: tl.constexpr = "tf32"):  # fmt: skip
    pid, along, down = tl.program_id(0), tl.cdiv(N, BN), tl.cdiv(M, BM)
    first = pid // (GROUP * along) * GROUP
    size = min(down - first, GROUP)
    pm = first + (pid % (GROUP * along)) % size
    pn = (pid % (GROUP * along)) // size
    m, n, k = (pm * BM + tl.arange(0, BM)) % M, (pn * BN + tl.arange(0, BN)) % N, tl.arange(0, BK)
    pa, pb = a + m[:, None] * sam + k[None, :] * sak, b + k[:, None] * sbk + n[None, :] * sbn
    whole: tl.constexpr = a.dtype.element_ty == tl.int8
    kind: tl.constexpr = tl.int32 if whole else tl.float32
    zero: tl.constexpr = 0 if whole else 0.0
    sums = tl.zeros((BM, BN), tl.float64 if a.dtype.element_ty == tl.float64 else kind)
    for start in range(tl.cdiv(K, BK)):
        x = tl.load(pa, mask=k[None, :] < K - start * BK, other=zero)
        y = tl.load(pb, mask=k[:, None] < K - start * BK, other=zero)
        sums = tl.dot(x, y, sums, input_precision=PRECISION, out_dtype=sums.dtype)
        pa += BK * sak
        pb += BK * sbk
    if ACTIVATION == "leaky":
        sums = leaky(sums)
    m, n = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c + m[:, None] * scm + n[None, :] * scn, sums.to(c.dtype.element_ty), mask=mask)


def multiply(
    a, b, out_dtype, tile=(64, 64, 32), activation="", precision="tf32", warps=4, stages=3
):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, dtype=out_dtype, device=a.device)
    bm, bn, bk = tile
    launch(matmul_kernel, (cdiv(m, bm) * cdiv(n, bn),), a, b, c, m, n, k, *a.stride(), *b.stride(),
           *c.stride(), BM=bm, BN=bn, BK=bk, GROUP=2, ACTIVATION=activation, PRECISION=precision,
           num_warps=warps, num_stages=stages)  # fmt: skip
    return c


def exact(a, b):
    return a.double().cpu() @ b.double().cpu()


@entry()
def matmul_float16(device):
    a, b = (normal(*s, seed=i, dtype=torch.float16, device=device)
            for i, s in enumerate([(150, 100), (100, 136)]))  # fmt: skip
    got = multiply(a, b, torch.float16, activation="leaky")
    want = torch.nn.functional.leaky_relu(exact(a, b), 0.01)
    close(got, want, 2e-3, 2e-2)


@entry()
def matmul_transposed(device):
    a = normal(96, 128, dtype=torch.float16, device=device).T
    b = normal(64, 96, seed=1, dtype=torch.float16, device=device).T
    close(multiply(a, b, torch.float32), exact(a, b), 1e-3, 1e-2)


@entry()
def matmul_large_tile(device):
    a, b = (normal(128, 128, seed=s, dtype=torch.float16, device=device) for s in (0, 1))
    close(multiply(a, b, torch.float32, (128, 128, 64), warps=8, stages=2), exact(a, b), 1e-3, 1e-2)


@entry(80, why="bf16 tensor cores exist from sm_80 on")
def matmul_bfloat16(device):
    a, b = (normal(128, 64, seed=s, dtype=torch.bfloat16, device=device) for s in (0, 1))
    close(multiply(a, b.T, torch.float32, (128, 64, 64)), exact(a, b.T), 1e-3, 1e-2)


def truncated(x):
    """What tensor cores read of a float32: ten bits of the mantissa."""
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)


@entry(80, why="tf32 exists from sm_80 on")
def matmul_tf32(device):
    a, b = (normal(64, 64, seed=s, device=device) for s in (0, 1))
    got = multiply(a, b, torch.float32)
    close(got, exact(a, b), 0, 0.1)
    close(
        multiply(truncated(a), truncated(b), torch.float32),
        exact(truncated(a), truncated(b)),
        1e-4,
        1e-4,
    )


@entry(80, why="tf32 exists from sm_80 on")
def matmul_tf32x3(device):
    a, b = (normal(64, 64, seed=s, device=device) for s in (0, 1))
    close(multiply(a, b, torch.float32, (32, 32, 32), precision="tf32x3"), exact(a, b), 1e-5, 2e-5)


@entry()
def matmul_float32(device):
    a, b = (normal(48, 40, seed=s, device=device) for s in (0, 1))
    close(
        multiply(a, b.T, torch.float32, (32, 32, 16), precision="ieee"), exact(a, b.T), 1e-5, 1e-5
    )


@entry()
def matmul_float64(device):
    a, b = (normal(32, 32, seed=s, device=device).double() for s in (0, 1))
    close(multiply(a, b, torch.float64, (32, 32, 16), precision="ieee"), exact(a, b), 1e-13, 1e-13)


@entry(80, why="Triton 3.7 does not compile a product of int8 for sm_75")
def matmul_int8(device):
    a, b = (integers(-128, 128, 64, 96, seed=s, dtype=torch.int8, device=device) for s in (0, 1))
    close(multiply(a, b.T, torch.int32), exact(a, b.T), 0, 0)


@entry(89, why="Triton has fp8e4nv from sm_89 on")
def matmul_float8(device):
    for kind in (torch.float8_e4m3fn, torch.float8_e5m2):
        a, b = (normal(64, 128, seed=s, device=device).to(kind) for s in (0, 1))
        got = multiply(a, b.T, torch.float32, (64, 64, 64))
        close(got, exact(a.float(), b.float().T), 1e-3, 1e-2)


@triton.jit
def split_k_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                   SPLIT: tl.constexpr):  # fmt: skip
    pm, pn, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    m, n, k = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), part * BK + tl.arange(0, BK)
    sums = tl.zeros((BM, BN), tl.float32)
    for start in range(part * BK, K, BK * SPLIT):
        k = start + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
        y = tl.load(b + k[:, None] * N + n[None, :], mask=k[:, None] < K, other=0.0)
        sums += tl.dot(x, y)
    tl.atomic_add(c + m[:, None] * N + n[None, :], sums, sem="relaxed")


@entry()
def matmul_split_k(device):
    a, b = normal(64, 200, dtype=torch.float16, device=device), normal(200, 64, seed=1, dtype=torch.float16, device=device)  # fmt: skip
    c = torch.zeros(64, 64, device=device)
    launch(split_k_kernel, (1, 1, 3), a, b, c, 64, 64, 200, BM=64, BN=64, BK=32, SPLIT=3)
    close(c, exact(a, b), 1e-3, 1e-2)


@triton.jit
def stream_k_kernel(a, b, c, M, N, K, per_program, total,
                    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    along, steps = tl.cdiv(N, BN), tl.cdiv(K, BK)
    begin = tl.program_id(0) * per_program
    end = min(begin + per_program, total)
    while begin < end:
        tile = begin // steps
        stop = min(end, (tile + 1) * steps)
        m, n = tile // along * BM + tl.arange(0, BM), tile % along * BN + tl.arange(0, BN)
        sums = tl.zeros((BM, BN), tl.float32)
        for step in range(begin % steps, begin % steps + stop - begin):
            k = step * BK + tl.arange(0, BK)
            x = tl.load(a + m[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
            y = tl.load(b + k[:, None] * N + n[None, :], mask=k[:, None] < K, other=0.0)
            sums += tl.dot(x, y)
        target = c + m[:, None] * N + n[None, :]
        if stop - begin == steps:
            tl.store(target, sums)
        else:
            tl.atomic_add(target, sums)
        begin = stop


@entry()
def matmul_stream_k(device):
    a, b = normal(128, 160, dtype=torch.float16, device=device), normal(160, 96, seed=1, dtype=torch.float16, device=device)  # fmt: skip
    c = torch.zeros(128, 96, device=device)
    total = 2 * 3 * 5
    launch(stream_k_kernel, (4,), a, b, c, 128, 96, 160, cdiv(total, 4), total, BM=64, BN=32, BK=32)
    close(c, exact(a, b), 1e-3, 1e-2)


@triton.jit
def persistent_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                      FLATTEN: tl.constexpr):  # fmt: skip
    along = tl.cdiv(N, BN)
    tiles, steps = tl.cdiv(M, BM) * along, tl.cdiv(K, BK)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=FLATTEN):
        m, n = tile // along * BM + tl.arange(0, BM), tile % along * BN + tl.arange(0, BN)
        sums = tl.zeros((BM, BN), tl.float32)
        for step in range(steps):
            k = step * BK + tl.arange(0, BK)
            x = tl.load(a + m[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
            y = tl.load(b + n[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
            sums = tl.dot(x, y.T, sums)
        tl.store(c + m[:, None] * N + n[None, :], sums.to(tl.float16))


@entry()
def matmul_persistent(device):
    for flatten in (False, True):
        a, b = (normal(128, 96, seed=s, dtype=torch.float16, device=device) for s in (0, 1))
        c = torch.empty(128, 128, dtype=torch.float16, device=device)
        launch(persistent_kernel, (3,), a, b, c, 128, 128, 96, BM=64, BN=64, BK=32, FLATTEN=flatten)
        close(c, exact(a, b.T), 2e-3, 2e-2)


@triton.jit
def grouped_kernel(pointers, sizes, groups, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile, done = tl.program_id(0), 0
    for group in range(groups):
        M, N, K = (tl.load(sizes + 3 * group), tl.load(sizes + 3 * group + 1),
                   tl.load(sizes + 3 * group + 2))  # fmt: skip
        along = tl.cdiv(N, BN)
        count = tl.cdiv(M, BM) * along
        while tile >= done and tile < done + count:
            a = tl.load(pointers + 3 * group).to(tl.pointer_type(tl.float16))
            b = tl.load(pointers + 3 * group + 1).to(tl.pointer_type(tl.float16))
            c = tl.load(pointers + 3 * group + 2).to(tl.pointer_type(tl.float16))
            inner = tile - done
            m, n = inner // along * BM + tl.arange(0, BM), inner % along * BN + tl.arange(0, BN)
            k = tl.arange(0, BK)
            sums = tl.zeros((BM, BN), tl.float32)
            for start in range(0, K, BK):
                x = tl.load(a + m[:, None] * K + start + k[None, :])
                y = tl.load(b + (start + k[:, None]) * N + n[None, :])
                sums += tl.dot(x, y)
            tl.store(c + m[:, None] * N + n[None, :], sums.to(tl.float16))
            tile += tl.num_programs(0)
        done += count


@entry()
def grouped_gemm(device):
    sizes = [(64, 64, 32), (32, 96, 64), (64, 32, 96)]
    spans = [(m * k, k * n, m * n) for m, n, k in sizes]
    pool = aligned(sum(map(sum, spans)), torch.float16, device)
    pool.copy_(normal(pool.numel()))
    parts, at = [], 0
    for (m, n, k), lengths in zip(sizes, spans):
        views = []
        for length, shape in zip(lengths, ((m, k), (k, n), (m, n))):
            views.append(pool[at : at + length].view(shape))
            at += length
        parts.append(views)
    pointers = torch.tensor([[v.data_ptr() for v in views] for views in parts], device=device)
    launch_with_pool(pool, pointers, torch.tensor(sizes, dtype=torch.int32, device=device))
    for a, b, c in parts:
        close(c, exact(a, b), 2e-3, 2e-2)


@triton.jit
def grouped_entry_kernel(pool, offsets, sizes, groups, BM: tl.constexpr, BN: tl.constexpr,
                         BK: tl.constexpr):  # fmt: skip
    grouped_kernel(offsets, sizes, groups, BM, BN, BK)


def launch_with_pool(pool, pointers, sizes):
    """Addresses in a tensor are only reachable when the tensor they point into is an argument too."""
    launch(grouped_entry_kernel, (3,), pool, pointers, sizes, len(sizes), BM=32, BN=32, BK=32)


@triton.jit
def batched_kernel(a, b, c, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, m, n, k = tl.arange(0, B), tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + i[:, None, None] * M * K + m[None, :, None] * K + k[None, None, :])
    y = tl.load(b + i[:, None, None] * K * N + k[None, :, None] * N + n[None, None, :])
    z = tl.dot(x, y)
    tl.store(c + i[:, None, None] * M * N + m[None, :, None] * N + n[None, None, :], z)


@entry()
def batched_dot(device):
    a, b = normal(4, 32, 32, dtype=torch.float16, device=device), normal(4, 32, 32, seed=1, dtype=torch.float16, device=device)  # fmt: skip
    c = torch.empty(4, 32, 32, device=device)
    launch(batched_kernel, (1,), a, b, c, B=4, M=32, N=32, K=32)
    close(c, exact(a, b), 1e-3, 1e-2)


@triton.jit
def conv2d_kernel(x, w, out, H, W, C: tl.constexpr, KOUT: tl.constexpr, R: tl.constexpr,
                  PIXELS: tl.constexpr):  # fmt: skip
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    oh, ow, channel, filters = pixel // W, pixel % W, tl.arange(0, C), tl.arange(0, KOUT)
    sums = tl.zeros((PIXELS, KOUT), tl.float32)
    for tap in range(R * R):
        ih, iw = oh + tap // R - R // 2, ow + tap % R - R // 2
        inside = (ih >= 0) & (ih < H) & (iw >= 0) & (iw < W) & (pixel < H * W)
        patch = tl.load(
            x + (ih * W + iw)[:, None] * C + channel[None, :], mask=inside[:, None], other=0.0
        )
        taps = tl.load(w + tap * C * KOUT + channel[:, None] * KOUT + filters[None, :])
        sums = tl.dot(patch, taps, sums)
    tl.store(out + pixel[:, None] * KOUT + filters[None, :], sums, mask=(pixel < H * W)[:, None])


@entry()
def conv2d(device):
    h, w, c, k, r = 9, 11, 32, 32, 3
    x, weight = normal(h, w, c, dtype=torch.float16, device=device), normal(r, r, c, k, seed=1, dtype=torch.float16, device=device)  # fmt: skip
    out = torch.empty(h, w, k, device=device)
    launch(conv2d_kernel, (cdiv(h * w, 64),), x, weight, out, h, w, C=c, KOUT=k, R=r, PIXELS=64)
    want = torch.nn.functional.conv2d(x.double().cpu().permute(2, 0, 1)[None],
                                      weight.double().cpu().permute(3, 2, 0, 1), padding=1)  # fmt: skip
    close(out, want[0].permute(1, 2, 0), 1e-3, 1e-2)


@triton.jit
def weight_only_kernel(a, packed, scales, c, N: tl.constexpr, K: tl.constexpr, M: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    byte = tl.load(packed + tl.arange(0, K // 2)[:, None] * N + n[None, :])
    low = ((byte & 15).to(tl.int8) - 8).to(tl.float16)
    high = ((byte >> 4).to(tl.int8) - 8).to(tl.float16)
    w = tl.reshape(tl.permute(tl.join(low, high), (0, 2, 1)), (K, N)) * tl.load(scales + n)[None, :]
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(tl.load(a + m[:, None] * K + k[None, :]), w))


@entry()
def matmul_int4_weights(device):
    m, n, k = 32, 64, 64
    a, scale = normal(m, k, dtype=torch.float16, device=device), normal(n, seed=1, dtype=torch.float16, device=device)  # fmt: skip
    w = integers(0, 16, k, n, device=device)
    packed = (w[0::2] | w[1::2] << 4).to(torch.uint8)
    c = torch.empty(m, n, device=device)
    launch(weight_only_kernel, (1,), a, packed, scale, c, N=n, K=k, M=m)
    close(c, exact(a, (w - 8).half() * scale), 2e-3, 5e-2)


@triton.jit
def outer_kernel(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    table = tl.load(x + i)[:, None] * tl.load(y + i)[None, :]
    tl.store(out + i[:, None] * N + i[None, :], table + tl.trans(table))


@entry()
def outer_product(device):
    x, y = (integers(-9, 9, 64, seed=s, device=device) for s in (0, 1))
    out = torch.empty(64, 64, dtype=torch.int32, device=device)
    launch(outer_kernel, (1,), x, y, out, N=64)
    same(out, torch.outer(x, y) + torch.outer(x, y).T)
