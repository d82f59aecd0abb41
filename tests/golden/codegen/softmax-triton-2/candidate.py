"""softmax: triton rung 2, the whole row in one block, read once."""

import torch
import triton
import triton.language as tl

import warpsmith as ws


# softmax: max, sub, exp, sum, div
# ladder: 1 one row a program, columns in blocks · 2 the whole row in one block, read once ·
#   3 online softmax: maximum and sum in one pass
# this file: rung 2, the whole row in one block, read once
# Rows: inputs_0.shape[0]; columns: inputs_0.shape[1].
@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def larger(a, b):  # NaN wins
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def softmax_rows_kernel(inputs_0, out, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    row_mask = row < rows
    col = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    col_mask = col < cols
    mask = row_mask & col_mask
    amax_total = tl.full([ROWS, BLOCK], float('-inf'), tl.float32)
    inputs_0_value = tl.load(inputs_0 + row * cols + col, mask=mask, other=0)
    amax_total = larger(amax_total, tl.where(mask, inputs_0_value, float('-inf')))
    amax_total = tl.reduce(amax_total, 1, larger, keep_dims=True)
    amax = amax_total
    sum_1_total = tl.full([ROWS, BLOCK], 0, tl.float32)
    sub = inputs_0_value - amax
    exp_2 = tl.exp(sub)
    sum_1_total += tl.where(mask, exp_2, 0)
    sum_1_total = tl.reduce(sum_1_total, 1, plus, keep_dims=True)
    sum_1 = sum_1_total
    div_2 = exp_2 / sum_1
    tl.store(out + row * cols + col, div_2, mask=mask)


@triton.jit
def softmax_rows_long_kernel(inputs_0, out, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    row_mask = row < rows
    amax_total = tl.full([ROWS, BLOCK], float('-inf'), tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK).to(tl.int64)[None, :]
        col_mask = col < cols
        mask = row_mask & col_mask
        inputs_0_value = tl.load(inputs_0 + row * cols + col, mask=mask, other=0)
        amax_total = larger(amax_total, tl.where(mask, inputs_0_value, float('-inf')))
    amax_total = tl.reduce(amax_total, 1, larger, keep_dims=True)
    amax = amax_total
    sum_1_total = tl.full([ROWS, BLOCK], 0, tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK).to(tl.int64)[None, :]
        col_mask = col < cols
        mask = row_mask & col_mask
        inputs_0_value = tl.load(inputs_0 + row * cols + col, mask=mask, other=0)
        sub = inputs_0_value - amax
        exp_2 = tl.exp(sub)
        sum_1_total += tl.where(mask, exp_2, 0)
    sum_1_total = tl.reduce(sum_1_total, 1, plus, keep_dims=True)
    sum_1 = sum_1_total
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK).to(tl.int64)[None, :]
        col_mask = col < cols
        mask = row_mask & col_mask
        inputs_0_value = tl.load(inputs_0 + row * cols + col, mask=mask, other=0)
        sub = inputs_0_value - amax
        exp_2 = tl.exp(sub)
        div_2 = exp_2 / sum_1
        tl.store(out + row * cols + col, div_2, mask=mask)

softmax_rows = ws.triton(softmax_rows_kernel)
softmax_rows_long = ws.triton(softmax_rows_long_kernel)


def blocks(count, each, most=2**31 - 1):
    """Blocks that cover `count` items at `each` items a block, but never more than `most`."""
    return min(-(-count // each), most)


def run(inputs, state):
    inputs_0 = inputs[0].contiguous()
    div_2 = torch.empty((inputs_0.shape[0], inputs_0.shape[1]), dtype=torch.float32,
        device=inputs_0.device)
    rows = inputs_0.shape[0]
    cols = inputs_0.shape[1]
    BLOCK = max(16, 1 << (cols - 1).bit_length())  # the whole row, if that is not too much
    kernel = softmax_rows if BLOCK <= 16384 else softmax_rows_long
    BLOCK = min(BLOCK, 16384)
    if rows > 0:
        kernel[(blocks(rows, 1),)](inputs_0, div_2, rows, cols, ROWS=1, BLOCK=BLOCK, num_warps=4)
    return div_2
