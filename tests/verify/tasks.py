"""Tasks that tests of the judge try candidates on."""
# SPDX-License-Identifier: Apache-2.0

import torch
import torch.nn.functional as F
from torch import nn

from warpsmith.spec import Task, Tolerance

ROWS = {"rows": (1, 300), "cols": (1, 600)}


def _matrix(dtype=torch.float32):
    return lambda rows=33, cols=100: [torch.randn(rows, cols).to(dtype)]


def _pair(dtype=torch.float32):
    return lambda m=32, n=48, k=64: [
        torch.randn(m, k).to(dtype),
        torch.randn(k, n).to(dtype),
    ]


def _of(name, function, inputs=None, ranges=ROWS, **options):
    return Task(name, lambda: function, inputs or _matrix(), ranges=ranges, **options)


MNK = {"m": (1, 130), "n": (1, 130), "k": (1, 300)}


class Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        return torch.relu(x @ self.weight.T + self.bias)


class AppendToCache(nn.Module):
    def forward(self, cache, row):
        cache[-1] = row
        return cache.sum(0)


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, dim=-1) @ v


TASKS = {
    task.name: task
    for task in [
        _of("add", lambda x, y: x + y, lambda n=1000: [torch.randn(n), torch.randn(n)], {"n": (1, 5000)}),
        _of("relu", torch.relu),
        _of("gelu", F.gelu),
        _of("gelu_bf16", F.gelu, _matrix(torch.bfloat16)),
        _of("sigmoid_fp16", torch.sigmoid, _matrix(torch.float16)),
        _of("softmax", lambda x: torch.softmax(x, -1)),
        _of("softmax_fp16", lambda x: torch.softmax(x, -1), _matrix(torch.float16)),
        _of("log_softmax", lambda x: torch.log_softmax(x, -1)),
        _of("layer_norm", lambda x: F.layer_norm(x, x.shape[-1:])),
        _of("layer_norm_bf16", lambda x: F.layer_norm(x, x.shape[-1:]), _matrix(torch.bfloat16)),
        _of("rms_norm", lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)),
        _of("row_sum", lambda x: x.sum(-1)),
        _of("mean", lambda x: x.mean()),
        _of("row_max", lambda x: tuple(x.max(-1))),
        _of("argmax", lambda x: x.argmax(-1)),
        _of("argmax_of_few", lambda x: x.argmax(-1), lambda rows=9, cols=9: [torch.randint(0, 3, (rows, cols))]),
        _of("cumsum", lambda x: x.cumsum(-1)),
        _of("positive", lambda x: x > 0),
        _of("transpose", lambda x: x.T.contiguous()),
        _of("norm", lambda x: x.norm(dim=-1)),
        _of("matmul", torch.matmul, _pair(), MNK),
        _of("matmul_fp16", torch.matmul, _pair(torch.float16), MNK),
        _of("matmul_bf16", torch.matmul, _pair(torch.bfloat16), MNK),
        _of("matmul_fp64", torch.matmul, _pair(torch.float64), MNK),
        _of("sort", lambda x: tuple(torch.sort(x, -1))),
        _of(
            "gather",
            lambda x, i: x[i],
            lambda n=100, k=40: [torch.randn(n, 16), torch.randint(0, n, (k,))],
            {"n": (1, 300), "k": (1, 300)},
        ),
        _of(
            "histogram",
            lambda i: torch.bincount(i, minlength=16),
            lambda n=500: [torch.randint(0, 16, (n,))],
            {"n": (1, 3000)},
        ),
        _of(
            "attention",
            attention,
            lambda t=40, d=32: [torch.randn(2, t, d) for _ in range(3)],
            {"t": (1, 130), "d": (16, 64, 16)},
        ),
        _of("fft", torch.fft.fft, lambda n=64: [torch.randn(4, n)], {"n": (1, 300)}),
        _of("log", lambda x: torch.log(x.abs() + 1e-3)),
        _of("exp", torch.exp),
        _of("cross_entropy", F.cross_entropy, lambda n=32: [torch.randn(n, 10), torch.randint(0, 10, (n,))], {"n": (1, 200)}),
        _of("swap", lambda x: {"a": x + 1, "b": [x * 2, (x.sum(),)]}),
        _of("none", lambda x: (x * 2, None)),
        _of("number", lambda x: x.numel()),
        _of("own_tolerance", lambda x: x * 3, tolerance=Tolerance(rtol=1e-2, atol=1e-2)),
        _of("exact", lambda x: x * 3, tolerance=Tolerance(exact=True)),
        _of("no_double", lambda x: (x.float() * 3).sin()),
        Task("linear", Linear, lambda rows=8: [torch.randn(rows, 24)], lambda: [24, 12], {"rows": (1, 70)}),
        Task("linear_backward", Linear, lambda rows=8: [torch.randn(rows, 24)], lambda: [24, 12], {"rows": (1, 70)}, backward=True),
        Task("batch_norm", nn.BatchNorm1d, lambda rows=16: [torch.randn(rows, 6)], lambda: [6], {"rows": (2, 64)}),
        Task("append", AppendToCache, lambda n=10: [torch.randn(n, 8), torch.randn(8)], ranges={"n": (1, 70)}),
        Task("inplace_relu", lambda: nn.ReLU(inplace=True), _matrix(), ranges=ROWS),
        Task("fixed", lambda: torch.tanh, lambda: [torch.rand(20, 30)]),
        Task("identity", lambda: nn.Identity(), _matrix(), ranges=ROWS),
    ]
}  # fmt: skip
