"""The parts of the clock that need no GPU, and, marked gpu, the clock itself."""
# SPDX-License-Identifier: Apache-2.0

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from runs import body

from warpsmith.devices import open_device, timing
from warpsmith.errors import DeviceError
from warpsmith.spec import Task, TimingPlan


@pytest.mark.plain
@given(st.integers(0, 1 << 34), st.integers(1 << 20, 1 << 27), st.integers(1 << 30, 1 << 37))
def test_sets_of_inputs_exceed_the_cache_or_the_limit(size, l2, free):
    count = timing.set_count(size, l2, free)
    assert 1 <= count <= timing.MOST_SETS
    enough = count * size >= 2 * l2 and count >= 2
    assert enough or count == timing.MOST_SETS or (count + 1) * 4 * size > free


@pytest.mark.plain
def test_every_arm_goes_first_about_equally_often():
    names = ["candidate", "eager", "compile"]
    orders = list(timing.block_orders(names, 300, seed=1))
    assert all(sorted(order) == sorted(names) for order in orders)
    first = Counter(order[0] for order in orders)
    assert min(first.values()) > 70
    assert orders == list(timing.block_orders(names, 300, seed=1))


@pytest.mark.plain
def test_settled_needs_three_windows_within_one_percent():
    assert not timing.settled([])
    assert not timing.settled([1.0, 1.0])
    assert timing.settled([9.0, 1.0, 1.005, 1.0])
    assert not timing.settled([1.0, 1.02, 1.0])


@pytest.mark.plain
def test_contents_rotate_and_addresses_stay():
    inputs = [[torch.full((2, 3), float(i)).T, i] for i in range(3)]
    sets = timing._Sets(inputs, 24)
    places = [s[0].data_ptr() for s in inputs]
    sets.rotate_contents()
    assert [float(s[0][0, 0]) for s in inputs] == [2.0, 0.0, 1.0]
    assert places == [s[0].data_ptr() for s in inputs]


@pytest.mark.plain
def test_clock_facts_are_medians_and_minima():
    readings = [{"sm_mhz": 1900.0, "throttle_bits": 4}, {"sm_mhz": 1980.0}, {"sm_mhz": 1950.0}]
    facts = timing._clock_facts(readings)
    assert facts == {"sm_mhz": 1950.0, "sm_mhz_min": 1900.0, "throttle_bits": 4}


@pytest.fixture(scope="module")
def gpu():
    with open_device("cuda") as device:
        yield device


def softmax_task(rows, cols):
    return Task(
        "softmax", lambda: lambda x: torch.softmax(x, -1), lambda: [torch.randn(rows, cols)]
    )


FAST = TimingPlan(baselines=("eager",), blocks=10, block_ms=5.0, max_seconds=10.0)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(8192, 4096), (64, 128)])
def test_a_candidate_against_itself_is_equal(gpu, shape):
    from warpsmith.measure import speedup

    task = softmax_task(*shape)
    given = body("return torch.softmax(x, -1)", task.get_inputs())
    samples = gpu.time(task, given, FAST)
    ratio = speedup(samples.blocks, "eager")
    assert 0.97 < ratio.value < 1.03, (ratio, samples.environment)
    assert samples.environment["mode"] == "device"
    assert samples.environment["sm_mhz"] > 0 or samples.environment["clock_source"] == "none"


@pytest.mark.gpu
def test_a_large_copy_takes_the_time_of_its_bytes(gpu):
    n = 1 << 28
    task = Task("copy", lambda: torch.clone, lambda: [torch.zeros(n)])
    samples = gpu.time(task, body("return x.clone()", task.get_inputs()), FAST)
    us = sorted(b["candidate"] for b in samples.blocks)[len(samples.blocks) // 2]
    gbps = 8 * n / us / 1e3
    assert 0.8 * gpu.target.memory_gbps < gbps < gpu.target.memory_gbps


@pytest.mark.gpu
def test_all_baselines_have_a_time_or_a_reason(gpu):
    task = softmax_task(1024, 1024)
    plan = TimingPlan(tuple(timing.BASELINES), blocks=5, block_ms=2.0, max_seconds=10.0)
    samples = gpu.time(task, body("return torch.softmax(x, -1)", task.get_inputs()), plan)
    timed = {name for block in samples.blocks for name in block}
    assert timed | set(samples.missing) == {"candidate", *timing.BASELINES}
    assert {"candidate", "eager", "compile"} <= timed


@pytest.mark.gpu
def test_what_cannot_be_captured_is_timed_by_the_wall(gpu):
    task = softmax_task(256, 256)
    code = "s = float(x.sum())\nreturn torch.softmax(x, -1) + 0 * s"
    samples = gpu.time(task, body(code, task.get_inputs()), FAST)
    assert samples.environment["mode"] == "wall"


@pytest.mark.gpu
def test_a_result_kept_from_an_earlier_call_is_for_verify_to_find(gpu):
    code = "o = globals().setdefault('kept', torch.softmax(x, -1))\nreturn o + 0"
    task = softmax_task(256, 256)
    given = body(code, task.get_inputs())
    assert gpu.run(given).outcome.right
    samples = gpu.time(task, given, FAST)  # the same wrong result each time: for verify to find
    assert samples.blocks


@pytest.mark.gpu
def test_what_fails_while_timed_is_an_error(gpu):
    task = softmax_task(256, 256)
    with pytest.raises(DeviceError, match="fails now"):
        gpu.time(task, body("raise ValueError('now')", task.get_inputs()), FAST)
    with pytest.raises(DeviceError, match="egaer"):
        gpu.time(task, body("return x + 0", task.get_inputs()), TimingPlan(baselines=("egaer",)))


@pytest.mark.gpu
def test_judged_and_timed_from_end_to_end(gpu):
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[1] / "verify"))
    from judging import candidate, record_of, run_of
    from tasks import TASKS

    from warpsmith.measure import measure
    from warpsmith.verify import verify

    task = TASKS["softmax"]
    given = run_of("e = (x - x.amax(-1, keepdim=True)).exp()\nreturn e / e.sum(-1, keepdim=True)")
    record = verify(task, record_of(task, given, gpu), gpu)
    assert record.right, record.verdict
    timing = measure(task, record, gpu, plan=FAST).timing
    assert not timing.modelled
    assert timing.speedups["eager"].high < 1
    for body_text, outcome in [("return x.softmax(0)", "WRONG_VALUE"), ("os._exit(3)", "CRASHED")]:
        verdict = verify(task, record_of(task, run_of(body_text), gpu), gpu).verdict
        assert verdict.outcome.name == outcome
    code = "def run(inputs, s):\n    return torch.softmax(inputs[0], -1)\n"
    assert verify(task, record_of(task, candidate(code), gpu), gpu).right


@pytest.mark.gpu
def test_runs_on_the_gpu(gpu):
    from warpsmith.spec import Outcome

    x = torch.arange(12.0).reshape(3, 4)
    run = gpu.run(body("return x + 1, torch.empty_like(x)", [x]))
    assert torch.equal(run.outputs[0], x + 1)
    assert bool(run.outputs[1].isnan().all())
    run = gpu.run(body("return x.cpu()", [x]))
    assert run.outcome is Outcome.BAD_CANDIDATE
    assert "on cpu, expected cuda" in run.message
    run = gpu.run(body("x[0] = 3\nreturn x + 1", [x]))
    assert run.changed_inputs == (0,)
    run = gpu.run(body("i = torch.tensor([1 << 40], device=x.device)\nreturn x.flatten()[i]", [x]))
    assert run.outcome in (Outcome.FAULT, Outcome.OUT_OF_BOUNDS)
    assert gpu.run(body("return x + 1", [x])).outcome is Outcome.RIGHT
    assert (
        gpu.run(body("return torch.empty(1 << 44, device=x.device)", [x])).outcome
        is Outcome.OUT_OF_MEMORY
    )


@pytest.mark.gpu
def test_a_write_past_an_output_is_seen_on_the_gpu(gpu):
    from warpsmith.spec import Candidate, Outcome, Work

    kernel = 'extern "C" __global__ void copy(const float* x, float* out, int n) {\n    int i = blockIdx.x * 256 + threadIdx.x;\n    CHECK out[i] = x[i % n];\n}\n'
    host = 'import torch, warpsmith as ws\nkernel = ws.cuda("copy.cu")\ndef run(inputs, state):\n    out = torch.empty_like(inputs[0])\n    kernel[1, 256](inputs[0], out, out.numel())\n    return out.view(3, 4)\n'
    x = torch.arange(12.0)
    for check, outcome in [("", Outcome.OUT_OF_BOUNDS), ("if (i < n)", Outcome.RIGHT)]:
        files = {"candidate.py": host, "copy.cu": kernel.replace("CHECK", check)}
        run = gpu.run(Work(Candidate("copy", "cuda", files), [x]))
        assert run.outcome is outcome, run.message
