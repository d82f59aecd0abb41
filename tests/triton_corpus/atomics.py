"""Triton's atomics of every kind, type, order and scope."""
# SPDX-License-Identifier: Apache-2.0

import torch
import triton
import triton.language as tl

from .corpus import close, entry, integers, launch, normal, same


@triton.jit
def integer_kernel(x, out, old, N: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    v, where = tl.load(x + at), at % BINS
    tl.atomic_add(out + where, v, sem="relaxed")
    tl.atomic_max(out + BINS + where, v, sem="acquire")
    tl.atomic_min(out + 2 * BINS + where, v, sem="release", scope="cta")
    tl.atomic_and(out + 3 * BINS + where, v, scope="sys")
    tl.atomic_or(out + 4 * BINS + where, v)
    tl.atomic_xor(out + 5 * BINS + where, v, mask=v > 0)
    tl.store(old + at, tl.atomic_add(out + 6 * BINS + at * 0, 1))


def integer_case(device, dtype):
    n, bins = 512, 16
    x = integers(-1000, 1000, n, dtype=dtype, device=device)
    out = torch.zeros(7, bins, dtype=dtype, device=device)
    out[3] = -1
    old = torch.empty(n, dtype=dtype, device=device)
    launch(integer_kernel, (2,), x, out, old, N=n // 2, BINS=bins)
    rows = x.cpu().reshape(-1, bins)
    same(out[0], rows.sum(0))
    same(out[1], rows.amax(0).clamp(min=0))
    same(out[2], rows.amin(0).clamp(max=0))
    for i, begin, fold in ((3, -1, "and"), (4, 0, "or"), (5, 0, "xor")):
        word = torch.full((bins,), begin, dtype=dtype)
        for row in rows:
            word = {"and": word & row, "or": word | row, "xor": word ^ row.clamp(min=0)}[fold]
        same(out[i], word)
    same(old.sort().values, torch.arange(n))


@entry()
def atomics_int32(device):
    integer_case(device, torch.int32)


@entry()
def atomics_int64(device):
    integer_case(device, torch.int64)


@triton.jit
def float_kernel(x, out, N: tl.constexpr, BINS: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    tl.atomic_add(out + at % BINS, v)
    if out.dtype.element_ty == tl.float32:
        tl.atomic_max(out + BINS + at % BINS, v)
        tl.atomic_min(out + 2 * BINS + at % BINS, v)


def float_case(device, dtype, tolerance):
    x = normal(256, dtype=dtype, device=device)
    out = torch.zeros(3, 8, dtype=dtype, device=device)
    launch(float_kernel, (1,), x, out, N=256, BINS=8)
    rows = x.double().cpu().reshape(-1, 8)
    close(out[0], rows.sum(0), tolerance, tolerance)
    if dtype == torch.float32:
        close(out[1], rows.amax(0).clamp(min=0))
        close(out[2], rows.amin(0).clamp(max=0))


@entry()
def atomics_float32(device):
    float_case(device, torch.float32, 1e-5)


@entry()
def atomics_float64(device):
    float_case(device, torch.float64, 1e-12)


@entry()
def atomics_float16(device):
    float_case(device, torch.float16, 3e-2)


@entry(90, why="Triton adds bf16 atomically from sm_90 on")
def atomics_bfloat16(device):
    float_case(device, torch.bfloat16, 2e-1)


@triton.jit
def exchange_kernel(cells, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.atomic_xchg(cells + at, at + 100))
    tl.debug_barrier()
    tl.store(out + N + at, tl.atomic_cas(cells + at, tl.where(at % 2 == 0, at + 100, -1), at))


@entry()
def exchange_and_swap(device):
    cells = integers(0, 50, 128, device=device)
    before, out = cells.clone(), torch.empty(2, 128, dtype=torch.int32, device=device)
    launch(exchange_kernel, (1,), cells, out, N=128)
    i = torch.arange(128)
    same(out[0], before)
    same(out[1], i + 100)
    same(cells, torch.where(i % 2 == 0, i, i + 100))


@triton.jit
def lock_kernel(lock, total, x, N: tl.constexpr):
    v = tl.sum(tl.load(x + tl.program_id(0) * N + tl.arange(0, N)), 0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total, volatile=True) + v)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@entry()
def spin_lock(device):
    x = integers(-9, 9, 20, 64, device=device)
    lock, total = torch.zeros(2, 1, dtype=torch.int32, device=device)
    launch(lock_kernel, (20,), lock, total, x, N=64)
    same(total, x.sum().reshape(1))


@triton.jit
def lookback_kernel(x, flags, sums, out, N: tl.constexpr):
    pid = tl.program_id(0)
    v = tl.cumsum(tl.load(x + pid * N + tl.arange(0, N)), 0)
    total = tl.sum(tl.load(x + pid * N + tl.arange(0, N)), 0)
    before = total * 0
    if pid > 0:
        while tl.atomic_add(flags + pid - 1, 0, sem="acquire") == 0:
            pass
        before = tl.load(sums + pid - 1, volatile=True)
    tl.store(sums + pid, before + total)
    tl.debug_barrier()
    tl.atomic_xchg(flags + pid, 1, sem="release")
    tl.store(out + pid * N + tl.arange(0, N), v + before)


@entry()
def scan_across_blocks(device):
    x = integers(-9, 9, 8 * 64, device=device)
    flags, sums = torch.zeros(2, 8, dtype=torch.int32, device=device)
    out = torch.empty_like(x)
    launch(lookback_kernel, (8,), x, flags, sums, out, N=64)
    same(out, x.cumsum(0))
