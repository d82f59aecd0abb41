"""A solution in KernelBench's form: ModelNew holds the same parameters and launches its own kernel."""

import torch
import torch.nn as nn

import warpsmith as ws

residual_tanh = ws.cuda("residual_tanh.cu")


class ModelNew(nn.Module):
    def __init__(self, num_features: int):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(num_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        count, features = x.numel() // 4, x.shape[1] // 4
        residual_tanh[(count + 255) // 256, 256](x, self.scale, out, count, features)
        return out
