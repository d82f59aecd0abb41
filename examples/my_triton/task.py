"""SwiGLU: the left half of each row gates the right half, silu(a) · b."""

import torch

RANGES = {"rows": (1, 16384), "cols": (1, 8192)}
CASES = [{"rows": 5, "cols": 1001}]


class Model(torch.nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return torch.nn.functional.silu(a) * b


def get_inputs(rows=1024, cols=512):
    return [torch.randn(rows, 2 * cols)]
