"""Block-scaled products (mxfp8, mxfp4, nvfp4): native on sm_100 and sm_120, emulated before."""
# SPDX-License-Identifier: Apache-2.0

import torch
import triton
import triton.language as tl

from .corpus import close, entry, integers, launch, normal

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


@triton.jit
def scaled_kernel(a, a_scale, b, b_scale, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
                  A: tl.constexpr, B: tl.constexpr, VECTOR: tl.constexpr, DA: tl.constexpr,
                  DB: tl.constexpr):  # fmt: skip
    m, n = tl.arange(0, M), tl.arange(0, N)
    ka, kb, ks = tl.arange(0, K // DA), tl.arange(0, K // DB), tl.arange(0, K // VECTOR)
    x = tl.load(a + m[:, None] * (K // DA) + ka[None, :])
    y = tl.load(b + n[:, None] * (K // DB) + kb[None, :])
    sx = tl.load(a_scale + m[:, None] * (K // VECTOR) + ks[None, :])
    sy = tl.load(b_scale + n[:, None] * (K // VECTOR) + ks[None, :])
    z = tl.dot_scaled(x, sx, A, y.T, sy, B)
    tl.store(c + m[:, None] * N + n[None, :], z)


def operand(kind, rows, k, seed, device):
    """(what the kernel reads, what it means) of a matrix [rows, k]."""
    if kind == "e2m1":
        code = integers(0, 16, rows, k, seed=seed)
        return (code[:, 0::2] | code[:, 1::2] << 4).to(torch.uint8).to(device), E2M1[code]
    dtype = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "bf16": torch.bfloat16}[kind]
    x = normal(rows, k, seed=seed).to(dtype)
    return x.to(device), x.float()


def scaled_case(device, a_kind, b_kind, m=128, n=128, k=128, vector=32, **options):
    a, wide_a = operand(a_kind, m, k, 0, device)
    b, wide_b = operand(b_kind, n, k, 1, device)
    scales, wide = [], []
    for rows, seed in ((m, 2), (n, 3)):
        if vector == 16:
            s = (normal(rows, k // vector, seed=seed).abs() + 0.5).to(torch.float8_e4m3fn)
            wide.append(s.float())
        else:
            s = integers(124, 131, rows, k // vector, seed=seed, dtype=torch.uint8)
            wide.append(2.0 ** (s.float() - 127))
        scales.append(s.to(device))
    c = torch.empty(m, n, device=device)
    launch(scaled_kernel, (1,), a, scales[0], b, scales[1], c, M=m, N=n, K=k, A=a_kind, B=b_kind,
           VECTOR=vector, DA=1 + (a_kind == "e2m1"), DB=1 + (b_kind == "e2m1"), **options)  # fmt: skip
    left, right = (x.double() * s.double().repeat_interleave(vector, 1)
                   for x, s in zip((wide_a, wide_b), wide))  # fmt: skip
    close(c, left @ right.T, 1e-3, 1e-2 * float((left.abs() @ right.T.abs()).max()) / 16)


@entry(89, why="Triton has fp8e4nv from sm_89 on")
def scaled_mxfp8(device):
    scaled_case(device, "e4m3", "e4m3")
    scaled_case(device, "e5m2", "e4m3", n=64)


@entry(80, why="the emulation goes through bf16")
def scaled_mxfp4(device):
    scaled_case(device, "e2m1", "e2m1")


@entry(89, why="Triton has fp8e4nv from sm_89 on")
def scaled_mixed(device):
    scaled_case(device, "e4m3", "e2m1")
    scaled_case(device, "e2m1", "e5m2", n=64)


@entry(100, archs=(100, 120), why="scales of fp8e4nv are Blackwell's alone")
def scaled_nvfp4(device):
    scaled_case(device, "e2m1", "e2m1", vector=16)


@entry(archs=(80, 86, 90), why="emulated in bf16; Triton 3.7 fails to compile it for Blackwell")
def scaled_bfloat16(device):
    scaled_case(device, "bf16", "e2m1", n=64)


@triton.jit
def pairs_kernel(x, y, z, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b, c = tl.load(x + at), tl.load(y + at), tl.load(z + at)
    tl.store(out + at, tl.maximum(tl.maximum(a, b), c))
    tl.store(out + BLOCK + at, tl.minimum(tl.minimum(a, b), c) + a * b)
    tl.store(out + 2 * BLOCK + at, tl.fma(a, b, c) * c - b)
    tl.store(out + 3 * BLOCK, tl.max(a, 0))
    tl.store(out + 3 * BLOCK + 1, tl.min(a, 0))


@entry()
def packed_arithmetic(device):
    x, y, z = (normal(1024, seed=s, device=device) for s in range(3))
    out = torch.zeros(3 * 1024 + 2, device=device)
    launch(pairs_kernel, (1,), x, y, z, out, BLOCK=1024)
    a, b, c = (t.double() for t in (x, y, z))
    close(out[:1024], torch.maximum(torch.maximum(a, b), c), 0, 0)
    close(out[1024:2048], torch.minimum(torch.minimum(a, b), c) + a * b)
    close(out[2048:3072], (a * b + c) * c - b)
    close(out[3072:], torch.stack([a.max(), a.min()]), 0, 0)
