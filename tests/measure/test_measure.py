"""The measuring stage: modelled on the virtual GPU, from samples on a device with a clock."""
# SPDX-License-Identifier: Apache-2.0

import pytest
import torch

from warpsmith import targets
from warpsmith.devices import open_device
from warpsmith.errors import DeviceError
from warpsmith.measure import BASELINES, EAGER, measure
from warpsmith.spec import (
    Candidate,
    Case,
    Outcome,
    Record,
    Run,
    Samples,
    Task,
    TimingPlan,
    Verdict,
)

pytestmark = pytest.mark.plain

TASK = Task(
    "softmax",
    lambda: lambda x: torch.softmax(x, -1),
    lambda rows=512, cols=1024: [torch.randn(rows, cols)],
    ranges={"rows": (1, 4096), "cols": (1, 4096)},
    cases=(Case({"rows": 7}),),
)
FUSED = "return torch.softmax(inputs[0], -1)"
STEPS = "x = inputs[0]\n    e = (x - x.amax(-1, keepdim=True)).exp()\n    return e / e.sum(-1, keepdim=True)"


def record_of(body: str, device, outcome=Outcome.RIGHT) -> Record:
    text = f"import torch, os\ndef run(inputs, state):\n    {body}\n"
    given = Candidate("test", "torch", {"candidate.py": text})
    return Record(
        TASK.id, TASK.name, given, device.name, device.target.name, verdict=Verdict(outcome)
    )


@pytest.fixture(scope="module")
def virtual():
    with open_device("virtual", "h100") as device:
        yield device


def test_the_same_operators_take_the_same_modelled_time(virtual):
    timing = measure(TASK, record_of(FUSED, virtual), virtual).timing
    assert timing.modelled
    assert timing.device == "virtual GPU, modelled for H100 SXM"
    assert [c.case for c in timing.cases] == ["default seed=0", "rows=7 seed=0"]
    assert all(c.speedups[EAGER].value == pytest.approx(1.0) for c in timing.cases)
    assert timing.cases[0].median_us > timing.cases[1].median_us


def test_more_operators_take_longer(virtual):
    timing = measure(TASK, record_of(STEPS, virtual), virtual).timing
    ratio = timing.speedups[EAGER]
    assert ratio.value < 0.5
    assert ratio.low == ratio.value == ratio.high


def test_a_wrong_candidate_is_not_timed(virtual):
    record = record_of(FUSED, virtual, Outcome.WRONG_VALUE)
    assert measure(TASK, record, virtual) is record


@pytest.mark.parametrize(
    ("body", "words"),
    [("return 3", "nothing to model"), ("os._exit(1)", "did not finish"), ("raise ValueError('late')", "late")],
)  # fmt: skip
def test_where_there_is_no_time_the_record_says_why(virtual, body, words):
    record = measure(TASK, record_of(body, virtual), virtual)
    assert record.timing is None
    assert words in record.environment["not timed"]["default seed=0"]


class Clock:
    """A device with a clock that tells what it is told."""

    name, target, modelled = "clock", targets.get("h200"), False

    def __init__(self, ratio: float):
        self.ratio, self.plans = ratio, []

    def run(self, work, *, max_seconds=60.0):
        return Run(Outcome.RIGHT)

    def time(self, task, work, plan):
        self.plans.append(plan)
        blocks = [
            {"candidate": 10.0 + b, "eager": (10.0 + b) * self.ratio} for b in range(plan.blocks)
        ]
        return Samples(tuple(blocks), {"compile": "broken"}, {"device": "NVIDIA H200"}, "told")

    def close(self): ...


def test_samples_become_a_timing():
    clock = Clock(1.5)
    timing = measure(TASK, record_of(FUSED, clock), clock, plan=TimingPlan(blocks=11)).timing
    assert not timing.modelled
    assert (timing.device, timing.method, timing.median_us) == ("NVIDIA H200", "told", 15.0)
    assert timing.speedups["eager"].value == pytest.approx(1.5)
    assert timing.speedups["eager"].claims
    assert timing.cases[0].missing == {"compile": "broken"}
    assert len(timing.cases) == len(clock.plans) == 2
    assert "seed" in timing.environment


def test_what_fails_while_timed_is_not_right():
    class Broken(Clock):
        def time(self, task, work, plan):
            raise DeviceError("the candidate was killed by SIGSEGV")

    broken = Broken(1.0)
    record = measure(TASK, record_of(FUSED, broken), broken)
    assert record.timing is None
    assert record.failed
    assert "SIGSEGV" in record.verdict.message


def test_baselines_have_a_word_each():
    assert list(BASELINES)[:2] == list(TimingPlan().baselines)
    from warpsmith.devices import timing

    assert set(BASELINES) == set(timing.BASELINES)
