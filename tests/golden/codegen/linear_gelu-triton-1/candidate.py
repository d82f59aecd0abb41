"""linear_gelu: triton rung 1, tiles through tl.dot."""

import torch
import triton
import triton.language as tl

import warpsmith as ws


# linear_gelu: matmul, add, gelu
# ladder: 1 tiles through tl.dot
# this file: rung 1, tiles through tl.dot
# Outputs: 36*x.shape[1]*x.shape[0]; inner: 20.
@triton.jit
def linear_gelu_product_kernel(x, linear_weight, linear_bias, out, batches, rows, cols, depth,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr):
    across = tl.cdiv(cols, COLS)
    down = tl.cdiv(rows, ROWS)
    pid = tl.program_id(0).to(tl.int64)
    batch = pid // across // down
    # eight tiles down before the next one across: their columns stay in the cache
    tile = pid % (across * down)
    first = tile // (8 * across) * 8
    height = tl.minimum(down - first, 8)
    tile_row = first + tile % (8 * across) % height
    tile_col = tile % (8 * across) // height
    row = (tile_row * ROWS + tl.arange(0, ROWS))[:, None]
    col = (tile_col * COLS + tl.arange(0, COLS))[None, :]
    total = tl.zeros([ROWS, COLS], tl.float32)
    for start in range(0, depth, DEPTH):
        k = start + tl.arange(0, DEPTH).to(tl.int64)[None, :]
        left = tl.load(x + row * depth + k, mask=(row < rows) & (k < depth), other=0)
        k = start + tl.arange(0, DEPTH).to(tl.int64)[:, None]
        right = tl.load(linear_weight + col * depth + k, mask=(k < depth) & (col < cols), other=0)
        total = tl.dot(left, right, total, input_precision="ieee", out_dtype=tl.float32)
    mask = (row < rows) & (col < cols)
    linear_bias_value = tl.load(linear_bias + col, mask=col < cols, other=0)
    add_3 = total + linear_bias_value
    gelu_2 = 0.5 * add_3 * (1.0 + tl.erf(add_3 * 0.7071067811865476))
    add_15 = gelu_2 + 1.0
    tl.store(out + row * cols + col, add_15, mask=mask)

linear_gelu_product = ws.triton(linear_gelu_product_kernel)


def blocks(count, each, most=2**31 - 1):
    """Blocks that cover `count` items at `each` items a block, but never more than `most`."""
    return min(-(-count // each), most)


def run(inputs, state):
    linear_weight = state['linear.weight'].contiguous()
    linear_bias = state['linear.bias'].contiguous()
    x = inputs[0].contiguous()
    if x.shape != (x.shape[0], x.shape[1], 20):
        raise ValueError(
            f"x is {tuple(x.shape)}; "
            f"this kernel was made for {(x.shape[0], x.shape[1], 20)}"
        )
    add_15 = torch.empty((x.shape[0], x.shape[1], 36), dtype=torch.float32,
        device=linear_weight.device)
    batches = 1
    rows = x.shape[1]*x.shape[0]
    cols = 36
    depth = 20
    if batches * rows * cols > 0:
        linear_gelu_product[(batches * blocks(rows, 64) * blocks(cols, 64),)](x, linear_weight,
            linear_bias, add_15, batches, rows, cols, depth, ROWS=64, COLS=64, DEPTH=32,
            num_warps=4, num_stages=3)
    return add_15
