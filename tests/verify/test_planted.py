"""Mistakes that people and models make, planted in right candidates: every one is found."""
# SPDX-License-Identifier: Apache-2.0

import pytest
from judging import judge, run_of
from tasks import TASKS

from warpsmith.spec import Outcome

pytestmark = pytest.mark.plain

W, N, I = Outcome.WRONG_VALUE, Outcome.NON_FINITE, Outcome.INPUT_CHANGED  # noqa: E741
SHAPE, DTYPE, UNWRITTEN = Outcome.WRONG_SHAPE, Outcome.WRONG_DTYPE, Outcome.NOT_WRITTEN

PLANTED = {
    # edges of tiles and of arrays
    "tail of 32 dropped": ("relu", "o = torch.zeros_like(x)\nc = x.shape[1] // 32 * 32\no[:, :c] = x[:, :c].relu()\nreturn o", {W}),
    "tail of 32 unwritten": ("relu", "o = torch.empty_like(x)\nc = x.shape[1] // 32 * 32\no[:, :c] = x[:, :c].relu()\nreturn o", {UNWRITTEN}),
    "last row unwritten": ("softmax_fp16", "o = torch.empty_like(x)\no[:-1] = torch.softmax(x[:-1], -1)\nreturn o", {UNWRITTEN}),
    "integers unwritten": ("argmax", "o = torch.empty(x.shape[0], dtype=torch.int64)\no[1:] = x[1:].argmax(-1)\nreturn o", {UNWRITTEN}),
    "last element off": ("add", "o = x + y\no[-1] += 1e-3\nreturn o", {W}),
    "reduction stops at 512": ("row_sum", "return x[:, :512].sum(-1)", {W}),
    "padding joins the softmax": ("softmax", "p = F.pad(x, (0, -x.shape[1] % 8))\nreturn torch.softmax(p, -1)[:, :x.shape[1]].contiguous()", {W}),
    "only right for the declared shape": ("relu", "return x.relu() if x.shape == (33, 100) else x + 0", {W}),
    # numerics
    "half precision inside": ("matmul", "return (x.half() @ y.half()).float()", {W, N}),
    "tf32-like rounding": ("matmul", "r = lambda t: ((t.contiguous().view(torch.int32) + 0x1000) & ~0x1fff).view(torch.float32)\nreturn r(x) @ r(y)", {W}),
    "bf16 accumulation": ("row_sum", "return x.bfloat16().sum(-1).float()", {W}),
    "no maximum subtracted": ("softmax", "e = x.exp()\nreturn e / e.sum(-1, keepdim=True)", {W, N}),
    "tanh gelu for erf gelu": ("gelu", "return F.gelu(x, approximate='tanh')", {W}),
    "epsilon forgotten": ("layer_norm", "d = x - x.mean(-1, keepdim=True)\nreturn d / d.square().mean(-1, keepdim=True).sqrt()", {W, N}),
    "epsilon outside the root": ("rms_norm", "return x / (x.square().mean(-1, keepdim=True).sqrt() + 1e-6)", {W}),
    "variance over n - 1": ("layer_norm", "return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt()", {W, N}),
    "one-pass variance": ("layer_norm", "m = x.mean(-1, keepdim=True)\nreturn (x - m) * torch.rsqrt((x * x).mean(-1, keepdim=True) - m * m + 1e-3)", {W, N}),
    "scale forgotten": ("attention", "return torch.softmax(x @ y.transpose(-1, -2), -1) @ z", {W}),
    "mean for sum": ("row_sum", "return x.mean(-1)", {W}),
    "double accumulation only, wrong cast": ("matmul_fp64", "return (x.float() @ y.float()).double()", {W}),
    "double rounding of fp16 sums": ("matmul_fp16", "o = torch.zeros(x.shape[0], y.shape[1], dtype=torch.half)\nfor k in range(x.shape[1]):\n    o = o + x[:, k:k + 1] * y[k:k + 1]\nreturn o", {W}),
    # axes and indices
    "wrong axis": ("softmax", "return torch.softmax(x, 0)", {W}),
    "not transposed": ("transpose", "return x.reshape(x.shape[1], x.shape[0]).clone()", {W}),
    "operands swapped": ("matmul", "n = min(x.shape[0], y.shape[1])\no = x @ y\no[:n, :n] = o[:n, :n].T.clone()\nreturn o", {W}),
    "shifted by one": ("cumsum", "return F.pad(x.cumsum(-1), (1, 0))[:, :-1].contiguous()", {W}),
    "last argmax of equal ones": ("argmax_of_few", "return x.shape[1] - 1 - x.flip(-1).argmax(-1)", {W}),
    "sign": ("add", "return x - y", {W}),
    "off-by-one index": ("gather", "return x[(y + 1) % x.shape[0]]", {W}),
    "one bin too few": ("histogram", "o = torch.bincount(x, minlength=16)\no[15] = 0\nreturn o", {W}),
    "unsorted ties": ("sort", "v, i = torch.sort(x, dim=-1, stable=True)\nj = i.clone()\nj[:, :1] = 0\nreturn v, j", {W}),
    ">= for >": ("positive", "return x >= 0.01", {W}),
    # the form of the answer
    "keepdim": ("row_sum", "return x.sum(-1, keepdim=True)", {SHAPE}),
    "one output missing": ("row_max", "return x.max(-1)[0]", {SHAPE}),
    "int32 for int64": ("argmax", "return x.argmax(-1).int()", {DTYPE}),
    "float for half": ("softmax_fp16", "return torch.softmax(x.float(), -1)", {DTYPE}),
    "zeros": ("softmax", "return torch.zeros_like(x)", {W}),
    "nothing written": ("softmax", "return torch.empty_like(x)", {UNWRITTEN}),
    "NaN": ("relu", "return torch.full_like(x, float('nan'))", {N}),
    # side effects
    "writes its input": ("softmax", "x -= x.amax(-1, keepdim=True)\nreturn torch.softmax(x, -1)", {I}),
    "returns its input": ("relu", "return x.relu_()", {I}),
    "returns a view of its input": ("transpose", "return x.T", {I}),
    "writes a weight": ("linear", "o = torch.relu(x @ w['weight'].T + w['bias'])\nw['bias'] += 1\nreturn o", {I}),
    "does not write the cache": ("append", "return torch.cat([x[:-1], y[None]]).sum(0)", {UNWRITTEN}),
    "writes the wrong row": ("append", "o = torch.cat([x[:-1], y[None]]).sum(0)\nx[0] = y\nreturn o", {W}),
    # state between calls
    "answer of the first call": ("fixed", "kept = globals().setdefault('kept', [])\nkept.append(torch.tanh(x))\nreturn kept[0]", {W}),
    "different on every call": ("row_sum", "return x.sum(-1) * (1 + 1e-7 * (time.time_ns() // 1000 % 1000))", {Outcome.NOT_REPEATABLE, W}),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name, device):
    task, body, outcomes = PLANTED[name]
    for seed in (1, 2):
        verdict = judge(TASKS[task], run_of(body), device, seed=seed)
        assert verdict.outcome in outcomes, (seed, verdict)
        assert verdict.message
        assert verdict.cases[-1].outcome is verdict.outcome


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("o = torch.softmax(x, -1)\no[:, -1:] = 0\nreturn o", "of axis 1"),
        ("return torch.softmax(x, -1) * 2", "2 times"),
        ("return torch.zeros_like(x)", "every element is 0"),
        ("return -torch.softmax(x, -1)", "the sign is turned"),
        (
            "o = torch.empty_like(x)\no[1:] = torch.softmax(x[1:], -1)\nreturn o",
            "were never written",
        ),
        ("return torch.softmax(x, -1).T.contiguous()", "the axes are in another order"),
        ("return torch.softmax(x, -1)[None]", "axes of size 1"),
    ],
)
def test_the_message_says_what_is_wrong(body, words, device):
    from warpsmith.spec import Case, Task

    task = Task("softmax", TASKS["softmax"].model, TASKS["softmax"].get_inputs, cases=(Case(),))
    verdict = judge(task, run_of(body), device)
    assert words in verdict.message


def test_a_weak_task_is_named(device):
    from warpsmith.spec import Task

    weak = Task("weak", lambda: lambda x: x * 0, lambda: [TASKS["relu"].get_inputs()[0]])
    verdict = judge(weak, run_of("return x * 0"), device)
    assert any("zeros passes" in w for w in verdict.details["warnings"])
    good = judge(TASKS["softmax"], run_of("return torch.softmax(x, -1)"), device)
    assert not any("weak" in w for w in good.details.get("warnings", ()))


def test_a_random_task_is_named(device):
    from torch import nn

    from warpsmith.spec import Task

    task = Task("dropout", nn.Dropout, lambda: [TASKS["relu"].get_inputs()[0]])
    verdict = judge(task, run_of("return x + 0"), device)
    assert not verdict.right
    assert any("random" in w for w in verdict.details["warnings"])
