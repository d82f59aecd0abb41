"""Doctor's probe: does a Triton kernel compile and run here?"""
# SPDX-License-Identifier: Apache-2.0

import torch
import triton
import triton.language as tl

import warpsmith as ws


@triton.jit
def probe(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, 2.0 * tl.load(x + at) + 1.0)


kernel = ws.triton(probe)


def run(inputs, state):
    (x,) = inputs
    out = torch.empty_like(x)
    kernel[1](x, out, BLOCK=64)
    return out
