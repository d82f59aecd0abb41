"""Every way in which a candidate gives no answer has its own verdict, and the device goes on."""
# SPDX-License-Identifier: Apache-2.0

import pytest
from judging import candidate, judge, run_of
from tasks import TASKS

from warpsmith.errors import TaskError
from warpsmith.spec import Outcome, Task

pytestmark = pytest.mark.plain
RELU = TASKS["relu"]

ENDINGS = {
    "syntax error": (candidate("def run(inputs:\n"), Outcome.COMPILE_FAILED, "candidate.py:3"),
    "no entry": (candidate("x = 1\n"), Outcome.BAD_CANDIDATE, "neither 'run(inputs, state)' nor"),
    "missing module": (candidate("import not_a_module\n"), Outcome.BAD_CANDIDATE, "not_a_module"),
    "exception": (run_of("return x.nothing"), Outcome.BAD_CANDIDATE, "at candidate.py:5"),
    "sys.exit": (run_of("sys.exit(0)"), Outcome.BAD_CANDIDATE, "sys.exit(0)"),
    "os._exit": (run_of("os._exit(0)"), Outcome.CRASHED, "exit code 0"),
    "segmentation fault": (run_of("ctypes.string_at(8)"), Outcome.CRASHED, "SIGSEGV at candidate.py:5"),
    "killed": (run_of("os.kill(os.getpid(), 9)"), Outcome.CRASHED, "SIGKILL"),
    "abort": (run_of("ctypes.CDLL(None).abort()"), Outcome.CRASHED, "SIGABRT"),
    "keyboard": (run_of("raise KeyboardInterrupt"), Outcome.BAD_CANDIDATE, "KeyboardInterrupt"),
    "endless": (run_of("while True:\n    pass"), Outcome.TIMED_OUT, "candidate.py:"),
    "endless in C": (run_of("time.sleep(100)"), Outcome.TIMED_OUT, "candidate.py:5"),
    "endless at import": (candidate("while True: pass\n"), Outcome.TIMED_OUT, "candidate.py:3"),
    "memory": (run_of("return torch.ones(1 << 44)"), Outcome.OUT_OF_MEMORY, "candidate.py:5"),
    "not a tensor": (run_of("return 'text'"), Outcome.BAD_CANDIDATE, "output 0 is a str"),
    "lazy tensor": (run_of("return x.as_subclass(type('Lazy', (torch.Tensor,), {}))"), Outcome.BAD_CANDIDATE, "Lazy"),
    "meta tensor": (run_of("return x.to('meta')"), Outcome.BAD_CANDIDATE, "meta"),
    "outside its input": (
        run_of("ctypes.memset(x.data_ptr() + x.numel() * 4, 0, 4)\nreturn x.relu()"),
        Outcome.OUT_OF_BOUNDS,
        "wrote outside input 0",
    ),
    "launch refused": (
        candidate("from warpsmith.errors import LaunchError\ndef run(i, s):\n    raise LaunchError('grid is (0, 1, 1)')\n"),
        Outcome.BAD_LAUNCH,
        "grid is (0, 1, 1)",
    ),
    "compiler": (
        candidate("from warpsmith.errors import *\ndef run(i, s):\n    raise CompileError('cuda', [Diagnostic('error', 'no such thing', 'a.cu', 7)])\n"),
        Outcome.COMPILE_FAILED,
        "a.cu:7",
    ),
    "unsupported": (
        candidate("from warpsmith.errors import *\ndef run(i, s):\n    raise UnsupportedInstruction('wgmma', 12)\n"),
        Outcome.UNSUPPORTED,
        "wgmma",
    ),
    **{
        kind: (
            candidate(f"from warpsmith.errors import *\ndef run(i, s):\n    raise KernelFault({kind!r}, 'words', 'k', 'k.cu:3')\n"),
            outcome,
            "k.cu:3",
        )
        for kind, outcome in {
            "out-of-bounds": Outcome.OUT_OF_BOUNDS,
            "misaligned": Outcome.MISALIGNED,
            "deadlock": Outcome.DEADLOCK,
            "step-budget": Outcome.TIMED_OUT,
            "race": Outcome.RACE,
            "uninitialized": Outcome.UNINITIALIZED,
            "trap": Outcome.FAULT,
        }.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ENDINGS)
def test_an_ending_has_its_verdict(name, device):
    given, outcome, words = ENDINGS[name]
    verdict = judge(RELU, given, device, max_seconds=0.5 if "endless" in name else 20)
    assert verdict.outcome is outcome, verdict
    assert words in verdict.message, verdict
    assert len(verdict.cases) == 1
    assert judge(RELU, run_of("return x.relu()"), device, hidden=1).right


def test_the_verdict_says_where(device):
    verdict = judge(RELU, run_of("y = 1\nraise ValueError('here')"), device)
    assert verdict.source == "candidate.py:6"


def test_weights_with_other_names_are_explained(device):
    code = """
class ModelNew(torch.nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.linear = torch.nn.Linear(i, o)
    def forward(self, x):
        return F.relu(self.linear(x))
"""
    verdict = judge(TASKS["linear"], candidate(code), device)
    assert verdict.outcome is Outcome.BAD_CANDIDATE
    assert "'linear.weight' (12, 24)" in verdict.message
    assert "'weight' (12, 24)" in verdict.message


def test_no_gradient_is_explained(device):
    body = "return torch.relu(x @ w['weight'].T + w['bias']).detach()"
    verdict = judge(TASKS["linear_backward"], run_of(body), device)
    assert verdict.outcome is Outcome.BAD_CANDIDATE
    assert "define grad(gradients, inputs, outputs, state)" in verdict.message


def test_a_wrong_gradient_is_found(device):
    code = """
def run(inputs, w):
    return F.relu(F.linear(inputs[0], w['weight'], w['bias']))
def grad(gradients, inputs, outputs, w):
    g = gradients[0]
    return g @ w['weight'], g.T @ inputs[0], g.sum(0)
"""
    verdict = judge(TASKS["linear_backward"], candidate(code), device)
    assert verdict.outcome is Outcome.WRONG_VALUE
    assert "gradient 0" in verdict.message


def test_a_broken_task_is_an_error_of_the_task(device):
    def fails(x):
        raise ValueError("not for me")

    with pytest.raises(TaskError, match="not for me"):
        judge(Task("broken", lambda: fails, RELU.get_inputs), run_of("return x"), device)
    with pytest.raises(TaskError, match="get_inputs fails"):
        judge(Task("broken", lambda: abs, lambda: 1 / 0), run_of("return x"), device)
    with pytest.raises(TaskError, match="cannot be built"):
        judge(Task("broken", lambda: 1 / 0, RELU.get_inputs), run_of("return x"), device)


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_is_reached(outcome):
    """A list, not a run: which test above or in test_planted reaches it."""
    from test_planted import PLANTED

    reached = {e[1] for e in ENDINGS.values()} | {o for p in PLANTED.values() for o in p[2]}
    assert outcome is Outcome.RIGHT or outcome in reached
