"""Tasks and candidates in plain torch for the tests of saved operators; each differs in its signature."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.spec import Candidate, CaseResult, Outcome, Record, Task, Verdict, load_task


@dataclass(frozen=True)
class Sample:
    """A task file's text, a candidate's text, and what its operator's schema must be."""

    name: str
    task: str
    candidate: str
    schema: str
    differentiable: bool = True
    cases: tuple[str, ...] = ()


SOFTMAX = Sample(
    "softmax",
    """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
RANGES = {"rows": (1, 100), "cols": (1, 64)}
def get_inputs(rows=8, cols=16):
    return [torch.randn(rows, cols)]
""",
    """
import torch
def run(inputs, state):
    (x,) = inputs
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)
""",
    "(Tensor x) -> Tensor",
)

LINEAR = Sample(  # weights, a submodule, the candidate's own gradient
    "scaled_linear",
    """
import torch
class Model(torch.nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.fc = torch.nn.Linear(inner, outer)
        self.register_buffer("scale", torch.full((outer,), 0.5))
    def forward(self, x):
        return torch.relu(self.fc(x)) * self.scale
RANGES = {"rows": (1, 64)}
BACKWARD = True
def get_inputs(rows=4):
    return [torch.randn(rows, 6)]
def get_init_inputs():
    return [6, 5]
""",
    """
import torch
calls = []
def run(inputs, state):
    (x,) = inputs
    return torch.relu(x @ state["fc.weight"].t() + state["fc.bias"]) * state["scale"]
def grad(gradients, inputs, outputs, state):
    calls.append(1)
    (g,), (x,), (out,) = gradients, inputs, outputs
    w, b, s = state["fc.weight"], state["fc.bias"], state["scale"]
    hidden = x @ w.t() + b
    d = g * s * (hidden > 0)
    return d @ w, d.t() @ x, d.sum(0)
""",
    "(Tensor x, Tensor fc_weight, Tensor fc_bias, Tensor scale) -> Tensor",
)

SCALARS = Sample(  # numbers, an optional tensor, two outputs of which one is not floating
    "scalars",
    """
import torch
class Model(torch.nn.Module):
    def forward(self, x, k, alpha, descending, mask=None):
        values = x * alpha if mask is None else x * mask * alpha
        top = torch.topk(values, k, dim=-1, largest=descending)
        return top.values, top.indices
RANGES = {"rows": (1, 9), "k": (1, 5)}
def get_inputs(rows=3, k=2):
    return [torch.randn(rows, 10), k, 0.5, True, torch.ones(rows, 10)]
""",
    """
import torch
def run(inputs, state):
    x, k, alpha, descending, mask = inputs
    order = torch.argsort(x * mask * alpha, dim=-1, descending=descending)[:, :k]
    return torch.gather(x * mask * alpha, 1, order), order
""",
    "(Tensor x, SymInt k, float alpha, bool descending, Tensor? mask) -> (Tensor, Tensor)",
)

LISTS = Sample(  # a list of tensors in, a list out, KernelBench's ModelNew
    "lists",
    """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
    def forward(self, parts, shift):
        whole = torch.stack(parts).sum(0) * self.weight
        return [whole + shift[0], whole - shift[1]]
def get_inputs():
    return [[torch.randn(3, 4), torch.randn(3, 4)], [1, 2]]
""",
    """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(4))
    def forward(self, parts, shift):
        whole = (parts[0] + parts[1]) * self.weight
        return [whole + shift[0], whole - shift[1]]
""",
    "(Tensor[] parts, SymInt[] shift, Tensor weight) -> (Tensor, Tensor)",
)

NESTED = Sample(  # a dict with a tuple in it
    "nested",
    """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return {"sum": x.sum(-1), "parts": (x + 1, [x * 2])}
def get_inputs():
    return [torch.randn(3, 5)]
""",
    """
def run(inputs, state):
    (x,) = inputs
    return {"sum": x.sum(-1), "parts": (x + 1, [x + x])}
""",
    "(Tensor x) -> (Tensor, Tensor, Tensor)",
)

ARGMAX = Sample(  # integers out: no gradient; a view out: must be copied
    "argmax_and_view",
    """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x.argmax(-1)
def get_inputs(rows=8):
    return [torch.randn(rows, 16)]
""",
    """
def run(inputs, state):
    return inputs[0].max(-1).indices
""",
    "(Tensor x) -> Tensor",
    differentiable=False,
    cases=("rows=3 seed=1",),
)

IDENTITY = Sample(  # returns its input, and a transposed view of it
    "views",
    """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x, x.t()
def get_inputs():
    return [torch.randn(3, 5)]
""",
    """
def run(inputs, state):
    return inputs[0], inputs[0].t()
""",
    "(Tensor x) -> (Tensor, Tensor)",
)

SAMPLES = (SOFTMAX, LINEAR, SCALARS, LISTS, NESTED, ARGMAX, IDENTITY)


def task_of(sample: Sample, folder) -> Task:
    path = folder / f"{sample.name}_task.py"
    path.write_text(sample.task)
    return load_task(path, sample.name)


def record_of(sample: Sample, task: Task, outcome: Outcome = Outcome.RIGHT, **more) -> Record:
    cases = ("default seed=0", *sample.cases)
    return Record(
        task=task.id,
        task_name=task.name,
        candidate=Candidate(
            sample.name, "torch", {"candidate.py": sample.candidate, "extra.cuh": "// with it\n"}
        ),
        device="virtual",
        target="h100",
        number=3,
        verdict=Verdict(outcome, cases=tuple(CaseResult(c, outcome, 0.25) for c in cases)),
        **more,
    )
