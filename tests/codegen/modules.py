"""A table of small references, as KernelBench writes them: every kind of region and its odd sizes."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from warpsmith.spec import Task

R = torch.randn
INF = math.inf


@dataclass(frozen=True)
class Row:
    """kinds: of the expected regions, in order. more: further inputs that must be right."""

    name: str
    model: Callable[..., Any]
    inputs: Callable[[], Sequence[Any]]
    kinds: tuple[str, ...]
    more: Callable[[], Sequence[Sequence[Any]]] = tuple

    @property
    def task(self) -> Task:
        return Task(self.name, self.reference, self.inputs)

    def reference(self) -> nn.Module:
        torch.manual_seed(0)
        is_module = isinstance(self.model, type) and issubclass(self.model, nn.Module)
        return self.model() if is_module else Function(self.model)


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(20, 36)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.linear(x)) + 1


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(33)
        nn.init.normal_(self.norm.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


class RmsNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(33))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Groups(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, 4)
        nn.init.normal_(self.norm.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(x))


class Instance(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


class Batch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(4).eval()
        self.norm.running_mean.normal_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.hardswish(self.norm(x))


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.convolution(x)) * 2


class Swiglu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(12, 32), nn.Linear(16, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.up(x).chunk(2, dim=-1)
        return self.down(a * F.silu(b))


def with_infinities(*shape: int) -> torch.Tensor:
    x = R(*shape)
    x.view(-1)[::7] = -INF
    return x


def glu(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return a * F.silu(b)


def attention(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    q, k = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in (q, k))
    return torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1)


def targets(rows: int, cols: int) -> torch.Tensor:
    return torch.randint(0, cols, (rows,))


E, W, P = "pointwise", "rows", "contract"

TABLE = [
    # pointwise chains
    Row("bias_gelu", lambda x, b: F.gelu(x + b) * 2, lambda: [R(9, 65), R(65)], (E,),
        lambda: [[R(1, 4), R(4)], [R(0, 5), R(5)], [R(8, 128), R(128)]]),
    Row("two_results", lambda x, y: (torch.tanh(x) * y.sigmoid() + 1.5, torch.where(x > y, x, y.exp())),
        lambda: [R(9, 35), R(9, 35)], (E,), lambda: [[R(3, 3), R(3, 3)]]),
    Row("activations", lambda x: F.hardtanh(F.leaky_relu(F.elu(x), 0.1)) + F.softplus(x) + F.mish(x),
        lambda: [R(5, 13)], (E,)),
    Row("clamp_nan", lambda x: torch.clamp(x, -0.5, 0.5), lambda: [R(5, 13)], (E,),
        lambda: [[torch.tensor([[math.nan, INF, -INF, 0.1]])]]),
    Row("channel_bias", lambda x, b: torch.relu(x + b.view(1, -1, 1, 1)), lambda: [R(2, 3, 4, 5), R(3)], (E,)),
    Row("half_chain", lambda x: F.silu(x) * 3, lambda: [R(9, 64).half()], (E,), lambda: [[R(3, 5).half()]]),
    Row("bfloat_chain", lambda x, y: F.gelu(x, approximate="tanh") + y,
        lambda: [R(9, 64).bfloat16(), R(9, 64).bfloat16()], (E,)),
    Row("double_chain", lambda x: torch.exp(-x * x), lambda: [R(9, 7).double()], (E,)),
    Row("integers", lambda x, y: (x * y + 3, x > y, (x & y) == 2),
        lambda: [torch.randint(-9, 9, (5, 7)), torch.randint(-9, 9, (5, 7))], (E,)),
    Row("scalar_input", lambda x, s: x * s, lambda: [R(5, 9), 3.14], (E,), lambda: [[R(2, 2), -0.5]]),
    Row("parts", lambda x: torch.relu(x[:, 3:9] - x[:, :6]), lambda: [R(3, 45)], (E,)),
    Row("glu", glu, lambda: [R(3, 46)], (E,)),
    Row("triangle", torch.tril, lambda: [R(6, 7)], (E,)),
    Row("own_transpose", lambda x: x * 2 + (x * 2).T, lambda: [R(6, 6)], (E, E)),
    # transposes
    Row("permute", lambda x: x.permute(0, 2, 1).contiguous() * 2, lambda: [R(3, 33, 35)], (E,),
        lambda: [[R(1, 64, 2)]]),
    Row("transpose_add", lambda x, y: x.T.contiguous() + y, lambda: [R(33, 40), R(40, 33)], (E,)),
    Row("channels_last", lambda x: torch.relu(x.permute(0, 2, 3, 1)).contiguous(), lambda: [R(2, 5, 6, 7)], (E,)),
    # row programs
    Row("softmax", lambda x: torch.softmax(x, -1), lambda: [R(9, 65)], (W,),
        lambda: [[R(1, 1)], [R(0, 3)], [R(3, 1024)], [with_infinities(5, 77)], [R(2, 2500)]]),
    Row("log_softmax", lambda x: torch.log_softmax(x, -1), lambda: [R(9, 65)], (W,), lambda: [[R(3, 128)]]),
    Row("half_softmax", lambda x: torch.softmax(x * 0.5, -1), lambda: [R(9, 65).half()], (W,),
        lambda: [[R(3, 128).half()]]),
    Row("layer_norm", Norm, lambda: [R(4, 3, 33)], (W,), lambda: [[R(1, 1, 33)]]),
    Row("rms_norm", RmsNorm, lambda: [R(5, 33)], (W,)),
    Row("group_norm", Groups, lambda: [R(3, 4, 5, 6)], (W,), lambda: [[R(2, 4, 4, 8)]]),
    Row("instance_norm", Instance, lambda: [R(3, 4, 5, 6)], (W,)),
    Row("batch_norm", Batch, lambda: [R(3, 4, 5, 6)], (E,)),
    Row("logsumexp", lambda x: torch.logsumexp(x, 1), lambda: [R(3, 45)], (W,),
        lambda: [[torch.full((2, 9), -INF)], [torch.tensor([[1.0, INF]])]]),
    Row("row_sums", lambda x: (x.sum(-1), x.mean(-1), x.prod(-1)), lambda: [R(5, 19)], (W,)),
    Row("extremes", lambda x: (x.amax(1), x.amin(1), x.max(1)[1]), lambda: [R(5, 19)], (W,),
        lambda: [[torch.tensor([[1.0, math.nan, 2.0], [3.0, 3.0, 3.0]])]]),
    Row("argmin", lambda x: torch.argmin(x, dim=1), lambda: [R(5, 33)], (W,),
        lambda: [[torch.randint(0, 3, (5, 100)).float()]]),
    Row("spread", lambda x: (x.std(1), x.var(1, unbiased=False)), lambda: [R(3, 45)], (W,)),
    Row("l2_normalize", lambda x: F.normalize(x, dim=1), lambda: [R(3, 45)], (W,), lambda: [[torch.zeros(1, 4)]]),
    Row("logic", lambda x: ((x > 0).any(1), (x > -3).all(1), (x > 0).sum(1)), lambda: [R(6, 6)], (W,)),
    Row("cosine", lambda x, y: F.cosine_similarity(x, y, dim=1), lambda: [R(3, 45), R(3, 45)], (W, W)),
    Row("cross_entropy", F.cross_entropy, lambda: [R(9, 65), targets(9, 65)], (W, W),
        lambda: [[R(2, 3), torch.tensor([-100, 1])]]),
    Row("losses", lambda x, t: F.cross_entropy(x, t, reduction="none"), lambda: [R(9, 65), targets(9, 65)], (W,)),
    # columns and everything
    Row("softmax_dim1", lambda x: torch.softmax(x, 1), lambda: [R(2, 33, 35)], (W,), lambda: [[R(2, 3, 4)]]),
    Row("column_sum", lambda x: x.sum(0), lambda: [R(33, 65)], (W,), lambda: [[R(300, 3)]]),
    Row("middle_max", lambda x: torch.max(x, dim=1)[0], lambda: [R(3, 12, 7)], (W,)),
    Row("batch_statistics", lambda x: F.batch_norm(x, None, None, training=True), lambda: [R(3, 5, 7, 9)], (W,)),
    Row("mse", F.mse_loss, lambda: [R(33, 65), R(33, 65)], (W,), lambda: [[R(130, 100), R(130, 100)]]),
    Row("frobenius", lambda x: x / torch.norm(x, p="fro"), lambda: [R(7, 33)], (W,)),
    # products
    Row("matmul", lambda x, y: x @ y, lambda: [R(33, 20), R(20, 36)], (P,),
        lambda: [[R(70, 64), R(64, 72)], [R(2, 3), R(3, 2)]]),
    Row("matmul_transposed", lambda x, y: (x.T @ y) * 2, lambda: [R(20, 33), R(20, 36)], (P,)),
    Row("half_matmul", lambda x, y: x @ y, lambda: [R(33, 20).half(), R(20, 36).half()], (P,),
        lambda: [[R(70, 64).half(), R(64, 72).half()]]),
    Row("bfloat_matmul", lambda x, y: x @ y.T + 1, lambda: [R(33, 24).bfloat16(), R(36, 24).bfloat16()], (P,)),
    Row("batched", lambda x, y: torch.relu(torch.bmm(x, y.transpose(1, 2))), lambda: [R(3, 17, 20), R(3, 18, 20)], (P,)),
    Row("linear_gelu", Linear, lambda: [R(4, 7, 20)], (P,), lambda: [[R(2, 2, 20)]]),
    Row("einsum", lambda a, b: torch.einsum("bijl,lk->bijk", a, b), lambda: [R(2, 3, 4, 5), R(5, 7)], (P,)),
    Row("matrix_vector", lambda a, b: a @ b, lambda: [R(12, 5), R(5)], (W,)),
    # compositions
    Row("attention", attention, lambda: [R(2, 9, 32), R(2, 9, 32)], (P, W)),
    Row("swiglu", Swiglu, lambda: [R(5, 12)], (P, E, P)),
    Row("matmul_softmax_sum", lambda x, y: torch.softmax(x @ y, -1).sum(0), lambda: [R(9, 8), R(8, 7)], (P, W, W)),
    Row("convolution", Convolution, lambda: [R(2, 3, 6, 6)], (E,)),
]  # fmt: skip


def by_name(name: str) -> Row:
    return next(row for row in TABLE if row.name == name)
