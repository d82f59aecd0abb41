# swiglu, forward. One program a piece of BLOCK columns of a row
# reference: task.py   run: warpsmith check examples/my_triton/task.py examples/my_triton/swiglu_triton.py
"""A Triton kernel as you may have it already: only `ws.triton` and `run` are warpsmith's."""

import torch
import triton
import triton.language as tl

import warpsmith as ws


@triton.jit
def swiglu_kernel(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < cols
    a = tl.load(x + row * 2 * cols + at, mask=inside)
    b = tl.load(x + row * 2 * cols + cols + at, mask=inside)
    tl.store(out + row * cols + at, a * tl.sigmoid(a) * b, mask=inside)


kernel = ws.triton(swiglu_kernel)


def run(inputs, state):
    (x,) = inputs
    rows, cols = len(x), x.shape[1] // 2
    out = torch.empty(rows, cols, dtype=x.dtype, device=x.device)
    kernel[rows, triton.cdiv(cols, 512)](x, out, cols, BLOCK=512)
    return out


def example():
    return [torch.randn(4, 200)]
