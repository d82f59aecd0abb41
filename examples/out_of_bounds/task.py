"""2 x + 1, element by element."""

import torch

RANGES = {"count": (1, 1 << 24)}
CASES = [{"count": 1000}]


class Model(torch.nn.Module):
    def forward(self, x):
        return 2 * x + 1


def get_inputs(count=1 << 20):
    return [torch.randn(count)]
