"""A linear layer of 512 to 512 features and a ReLU, in float32."""

import torch

RANGES = {"rows": (1, 8192)}
CASES = [{"rows": 100}]


class Model(torch.nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.linear = torch.nn.Linear(inner, outer)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs(rows=256):
    return [torch.randn(rows, 512)]


def get_init_inputs():
    return [512, 512]
