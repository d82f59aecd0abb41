# softmax over rows, forward. One program a row; a row longer than LONG is read in pieces
# reference: task.py   run: warpsmith check examples/softmax/task.py examples/softmax/softmax_triton.py
"""Softmax in Triton, for any number of columns."""

import torch
import triton
import triton.language as tl

import warpsmith as ws

LONG = 4096  # the most columns that one program holds in registers


@triton.jit
def whole_row(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * cols + at, mask=at < cols, other=-float("inf"))
    shifted = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * cols + at, shifted / tl.sum(shifted, 0), mask=at < cols)


@triton.jit
def pieces_of_row(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * cols
    out += row * cols
    at = tl.arange(0, BLOCK)
    most = tl.full((BLOCK,), -float("inf"), tl.float32)  # of each lane's own columns
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        inside = start + at < cols
        values = tl.load(x + start + at, mask=inside, other=-float("inf"))
        larger = tl.maximum(most, values)
        # a lane that has seen nothing yet: -inf - -inf would be a NaN
        kept = tl.where(most == -float("inf"), 0.0, total * tl.exp(most - larger))
        total = kept + tl.where(inside, tl.exp(values - larger), 0.0)
        most = larger
    peak = tl.max(most, 0)
    scale = 1.0 / tl.sum(tl.where(most == -float("inf"), 0.0, total * tl.exp(most - peak)), 0)
    for start in range(0, cols, BLOCK):
        inside = start + at < cols
        values = tl.load(x + start + at, mask=inside)
        tl.store(out + start + at, tl.exp(values - peak) * scale, mask=inside)


whole = ws.triton(whole_row)
pieces = ws.triton(pieces_of_row)


def run(inputs, state):
    (x,) = inputs
    rows, cols = x.shape
    out = torch.empty_like(x)
    if cols <= LONG:
        whole[rows,](x, out, cols, BLOCK=triton.next_power_of_2(cols))
    else:
        pieces[rows,](x, out, cols, BLOCK=4096, num_warps=16)
    return out


def example():
    return [torch.randn(64, 200)]
