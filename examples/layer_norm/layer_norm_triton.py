# layer norm of rows of 1024, forward. One program a row, the row in registers
# reference: task.py   run: warpsmith check examples/layer_norm/task.py examples/layer_norm/layer_norm_triton.py
"""Layer normalization in Triton."""

import torch
import triton
import triton.language as tl

import warpsmith as ws


@triton.jit
def layer_norm(x, weight, bias, out, eps, COLS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, COLS)
    values = tl.load(x + row * COLS + at)
    centered = values - tl.sum(values, 0) / COLS
    scale = tl.rsqrt(tl.sum(centered * centered, 0) / COLS + eps)
    result = centered * scale * tl.load(weight + at) + tl.load(bias + at)
    tl.store(out + row * COLS + at, result)


kernel = ws.triton(layer_norm)


def run(inputs, state):
    (x,) = inputs
    rows, cols = x.shape
    out = torch.empty_like(x)
    kernel[rows,](x, state["norm.weight"], state["norm.bias"], out, 1e-5, COLS=cols)
    return out
