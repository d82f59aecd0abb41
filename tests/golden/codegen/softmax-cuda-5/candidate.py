"""softmax: cuda rung 5, the row kept in registers, read once."""

import torch

import warpsmith as ws

softmax_rows = {
    32: ws.cuda("softmax_rows.cu", "softmax_rows<int>"),
    64: ws.cuda("softmax_rows.cu", "softmax_rows<long long>"),
}


def blocks(count, each, most=2**31 - 1):
    """Blocks that cover `count` items at `each` items a block, but never more than `most`."""
    return min(-(-count // each), most)


def run(inputs, state):
    inputs_0 = inputs[0].contiguous()
    div_2 = torch.empty((inputs_0.shape[0], inputs_0.shape[1]), dtype=torch.float32,
        device=inputs_0.device)
    rows = inputs_0.shape[0]
    cols = inputs_0.shape[1]
    bits = 32 if max(rows * cols, inputs_0.numel()) < 2**30 else 64
    if rows > 0:
        softmax_rows[bits][blocks(rows, 1), 128](inputs_0, div_2, rows, cols)
    return div_2
