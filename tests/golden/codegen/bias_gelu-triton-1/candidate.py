"""bias_gelu: triton rung 1, one block of elements a program."""

import torch
import triton
import triton.language as tl

import warpsmith as ws


# bias_gelu: add, gelu, mul
# ladder: 1 one block of elements a program
# this file: rung 1, one block of elements a program
# Elements: inputs_0.shape[0]*inputs_0.shape[1].
@triton.jit
def bias_gelu_elements_kernel(inputs_0, inputs_1, out, rows, row_size_1, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = row < rows
    row_1 = row % row_size_1
    inputs_0_value = tl.load(inputs_0 + row, mask=mask, other=0)
    inputs_1_value = tl.load(inputs_1 + row_1, mask=mask, other=0)
    add = inputs_0_value + inputs_1_value
    gelu_2 = 0.5 * add * (1.0 + tl.erf(add * 0.7071067811865476))
    mul_4 = gelu_2 * 2.0
    tl.store(out + row, mul_4, mask=mask)

bias_gelu_elements = ws.triton(bias_gelu_elements_kernel)


def blocks(count, each, most=2**31 - 1):
    """Blocks that cover `count` items at `each` items a block, but never more than `most`."""
    return min(-(-count // each), most)


def run(inputs, state):
    inputs_0 = inputs[0].contiguous()
    inputs_1 = inputs[1].contiguous()
    if inputs_1.shape != (inputs_0.shape[1],):
        raise ValueError(
            f"inputs_1 is {tuple(inputs_1.shape)}; "
            f"this kernel was made for {(inputs_0.shape[1],)}"
        )
    mul_4 = torch.empty((inputs_0.shape[0], inputs_0.shape[1]), dtype=torch.float32,
        device=inputs_0.device)
    rows = inputs_0.shape[0]*inputs_0.shape[1]
    row_size_1 = inputs_0.shape[1]
    if rows > 0:
        bias_gelu_elements[(blocks(rows, 1024),)](inputs_0, inputs_1, mul_4, rows, row_size_1,
            BLOCK=1024, num_warps=4)
    return mul_4
