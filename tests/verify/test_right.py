"""Right candidates pass, whatever their order of summation, on every seed tried."""
# SPDX-License-Identifier: Apache-2.0

import pytest
from judging import candidate, judge, run_of
from tasks import TASKS

from warpsmith.spec import Outcome

pytestmark = pytest.mark.plain

LINEAR = """
class ModelNew(torch.nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(o))
        self.weight = torch.nn.Parameter(torch.zeros(o, i))
    def forward(self, x):
        return F.relu(F.linear(x, self.weight, self.bias))
"""

LINEAR_GRAD = """
def run(inputs, w):
    return F.relu(F.linear(inputs[0], w['weight'], w['bias']))
def grad(gradients, inputs, outputs, w):
    g = gradients[0] * (outputs[0] > 0)
    return g @ w['weight'], g.T @ inputs[0], g.sum(0)
"""

# several ways to each answer: as PyTorch does it, naively, and as GPU kernels do it
RIGHT = [
    ("add", "return x + y"),
    ("relu", "return x.clamp(min=0)"),
    ("gelu", "return 0.5 * x * (1 + torch.erf(x * 0.7071067811865476))"),
    ("gelu_bf16", "f = x.float()\nreturn (0.5 * f * (1 + torch.erf(f * 0.70710678))).bfloat16()"),
    ("sigmoid_fp16", "return (1 / (1 + torch.exp(-x.float()))).half()"),
    ("softmax", "e = torch.exp2((x - x.amax(-1, keepdim=True)) * 1.44269504)\nreturn e / e.sum(-1, keepdim=True)"),
    ("softmax", "e = (x - x.amax(-1, keepdim=True)).exp()\nreturn e / e.cumsum(-1)[:, -1:]"),
    ("softmax_fp16", "return torch.softmax(x.float(), -1).half()"),
    ("log_softmax", "m = x.amax(-1, keepdim=True)\nreturn x - m - (x - m).exp().sum(-1, keepdim=True).log()"),
    ("layer_norm", "d = x - x.mean(-1, keepdim=True)\nreturn d * torch.rsqrt(d.square().mean(-1, keepdim=True) + 1e-5)"),
    ("layer_norm_bf16", "f = x.float()\nd = f - f.mean(-1, keepdim=True)\nreturn (d * torch.rsqrt(d.square().mean(-1, keepdim=True) + 1e-5)).bfloat16()"),
    ("rms_norm", "return x / torch.sqrt((x * x).cumsum(-1)[:, -1:] / x.shape[-1] + 1e-6)"),
    ("row_sum", "return x.cumsum(-1)[:, -1].clone()"),
    ("row_sum", "return x.flip(-1).sum(-1)"),
    ("mean", "return x.flatten().cumsum(0)[-1].clone() / x.numel()"),
    ("row_max", "v, i = x.max(-1)\nreturn [v, i]"),
    ("argmax", "return (x == x.amax(-1, keepdim=True)).int().argmax(-1)"),
    ("cumsum", "return (x.double().cumsum(-1)).float()"),
    ("cumsum", "return torch.stack([x[:, :j + 1].sum(-1) for j in range(x.shape[1])], 1)"),
    ("positive", "return ~(x <= 0)"),
    ("transpose", "return x.t().clone(memory_format=torch.contiguous_format)"),
    ("transpose", "return x.t().clone()"),
    ("norm", "return x.square().sum(-1).sqrt()"),
    ("matmul", "return (x[:, :, None] * y[None]).sum(1)"),
    ("matmul", "return (x[:, :, None] * y[None]).cumsum(1)[:, -1].clone()"),
    ("matmul_fp16", "return (x.float() @ y.float()).half()"),
    ("matmul_bf16", "return (x.float() @ y.float()).bfloat16()"),
    ("matmul_fp64", "return (x[:, :, None] * y[None]).sum(1)"),
    ("sort", "v, i = torch.sort(x, dim=-1, stable=True)\nreturn v, i"),
    ("gather", "return torch.index_select(x, 0, y)"),
    ("histogram", "return F.one_hot(x, 16).sum(0)"),
    ("attention", "return F.scaled_dot_product_attention(x, y, z)"),
    ("fft", "n = x.shape[-1]\nk = torch.arange(n).double()\nm = torch.exp(-2j * torch.pi * k[:, None] * k / n)\nreturn (x.cdouble() @ m).cfloat()"),
    ("log", "return torch.log2(x.abs() + 1e-3) * 0.6931471805599453"),
    ("exp", "return torch.exp2(x * 1.4426950408889634)"),
    ("cross_entropy", "return (x.logsumexp(-1) - x.gather(1, y[:, None])[:, 0]).mean()"),
    ("swap", "return x + 1, x + x, x.sum()"),
    ("none", "return x + x, None"),
    ("number", "return x.shape[0] * x.shape[1]"),
    ("own_tolerance", "return x * 3.01"),
    ("exact", "return 3 * x"),
    ("no_double", "return torch.sin(3 * x)"),
    ("append", "x[-1] = y\nreturn x.sum(0)"),
    ("inplace_relu", "return torch.relu(x)"),
    ("inplace_relu", "return x.relu_()"),
    ("fixed", "e = torch.exp(-2 * x.abs())\nreturn x.sign() * (1 - e) / (1 + e)"),
    ("identity", "return x"),
    ("identity", "return x.clone()"),
    ("linear", "return torch.relu(x @ w['weight'].T + w['bias'])"),
    ("linear_backward", "return torch.relu(x @ w['weight'].T + w['bias'])"),
    ("batch_norm", "m, v = x.mean(0), x.var(0, unbiased=False)\nreturn (x - m) * torch.rsqrt(v + 1e-5) * w['weight'] + w['bias']"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "body"), RIGHT, ids=[f"{n}-{i}" for i, (n, _) in enumerate(RIGHT)]
)
def test_a_right_candidate_passes(name, body, device):
    verdict = judge(TASKS[name], run_of(body), device)
    assert verdict.right, (verdict.message, verdict.details)
    assert all(case.outcome is Outcome.RIGHT for case in verdict.cases)
    assert verdict.message == ""


@pytest.mark.parametrize("name", ["linear", "linear_backward"])
@pytest.mark.parametrize("code", [LINEAR, LINEAR_GRAD], ids=["module", "run"])
def test_weights_are_shared_by_name(name, code, device):
    assert judge(TASKS[name], candidate(code), device).right


def test_atomic_sums_may_differ_within_tolerance(device):
    body = """kept = globals().setdefault('calls', [])
kept.append(1)  # as with atomicAdd: another order each time
return x.sum(-1) if len(kept) % 2 else x.flip(-1).cumsum(-1)[:, -1].clone()"""
    verdict = judge(TASKS["row_sum"], run_of(body), device)
    assert verdict.right, verdict.message
    assert any("uses atomics" in w for w in verdict.details["warnings"])
    verdict = judge(TASKS["row_sum"], run_of(body.replace("atomicAdd", "threads")), device)
    assert verdict.outcome is Outcome.NOT_REPEATABLE


def test_the_seed_repeats_the_trials(device):
    names = [
        [c.case for c in judge(TASKS["relu"], run_of("return x.relu()"), device, seed=s).cases]
        for s in (5, 5, 6)
    ]
    assert names[0] == names[1] != names[2]


def test_the_verdict_names_its_seed_and_tolerance(device):
    details = judge(TASKS["softmax"], run_of("return torch.softmax(x, -1)"), device).details
    assert isinstance(details["seed"], int)
    assert "float32, reductions of 100" in details["tolerance"][0]["origin"]
