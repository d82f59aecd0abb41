"""Triton kernels whose lines are marked, to test that sites and faults name the line in Python."""
# SPDX-License-Identifier: Apache-2.0

import triton
import triton.language as tl


@triton.jit
def scaled(x, factor):
    return x * factor  # helper


@triton.jit
def product(a, b, c, N: tl.constexpr, FAR: tl.constexpr):
    i, j = tl.arange(0, N), tl.arange(0, N)
    x = tl.load(a + i[:, None] * N + j[None, :])  # load a
    y = tl.load(b + i[:, None] * N + j[None, :])  # load b
    z = tl.dot(x, y)  # dot
    z = scaled(z, 2.0)
    tl.store(c + FAR + i[:, None] * N + j[None, :], z)  # store


@triton.jit
def loop(x, out, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at)  # load past
    tl.store(out + tl.arange(0, BLOCK), total)


@triton.jit
def shared_helper(x, at, BLOCK: tl.constexpr):
    return tl.load(x + at + BLOCK)  # load in helper


@triton.jit
def outer(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, shared_helper(x, at, BLOCK))


@triton.jit
def asserted(x, BLOCK: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    tl.device_assert(v < 10, "ten or more")  # assert


@triton.jit
def spinning(lock):
    while tl.atomic_cas(lock, 0, 1) == 1:  # spin
        pass


@triton.jit
def odd(x, out, BLOCK: tl.constexpr):
    at = tl.max_contiguous(tl.multiple_of(1 + tl.arange(0, BLOCK), BLOCK), BLOCK)
    tl.store(out + tl.arange(0, BLOCK), tl.load(x + at))  # misaligned
