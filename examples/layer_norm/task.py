"""Layer normalization of rows of 1024, with weight and bias."""

import torch

RANGES = {"rows": (1, 65536)}
CASES = [{"rows": 77}]


class Model(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.norm = torch.nn.LayerNorm(cols)
        torch.nn.init.normal_(self.norm.weight, 1.0, 0.1)
        torch.nn.init.normal_(self.norm.bias, 0.0, 0.1)

    def forward(self, x):
        return self.norm(x)


def get_inputs(rows=1024):
    return [torch.randn(rows, 1024)]


def get_init_inputs():
    return [1024]
