"""Waiting threads make progress, and those that never can are reported within the launch's budgets."""
# SPDX-License-Identifier: Apache-2.0

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from compile import cuda_file
from launching import Bench

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.virtual
SCHEDULES = ("default", "reverse", "random")
SECONDS_ALONE = {"max_seconds": 0.2, "max_instructions": 10**11}


@pytest.fixture(scope="module")
def run():
    return Bench(cuda_file("basics.cu"))


@pytest.fixture(scope="module")
def waits():
    return Bench(cuda_file("waiting.cu"))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_spin_lock_of_every_thread(run, schedule):
    lock, counter = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run.right("spin_lock", (4,), (128,), lock, counter, 3, schedule=schedule)
    assert counter[0] == 4 * 128 * 3


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_try_lock(run, schedule):
    lock, counter = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run.right("try_lock", (2,), (96,), lock, counter, schedule=schedule)
    assert counter[0] == 192


def test_producer_and_consumer_warps(waits):
    out = np.zeros(32, np.int32)
    waits.right(
        "producer_consumer", (1,), (64,), out, np.zeros(2, np.int32), np.zeros(32, np.int32)
    )
    assert list(out) == [sum(10 * i + t for i in range(8)) for t in range(32)]


@pytest.mark.parametrize("workers", [1, 2])
def test_look_back_scan(waits, workers):
    blocks = 40
    values, out = np.arange(blocks, dtype=np.int32), np.zeros(blocks, np.int32)
    state = np.zeros(2 * blocks, np.int32)
    waits.right("look_back", (blocks,), (32,), values, out, state, workers=workers)
    assert np.array_equal(out, np.cumsum(values))


def test_grid_barrier_needs_a_cooperative_launch(waits):
    out, count = np.zeros(8 * 64, np.int32), np.zeros(8, np.int32)
    waits.right("grid_barrier", (8,), (64,), out, count, cooperative=True)
    assert (out == 7 * 8 // 2).all()
    stuck = waits("grid_barrier", (8,), (64,), out, np.zeros(8, np.int32), max_instructions=10**7)
    assert stuck.fault.kind == "step-budget"


def test_lanes_of_one_warp_wait_for_each_other(waits):
    out = np.zeros(32, np.int32)
    waits.right("lane_relay", (1,), (32,), out, np.zeros(1, np.int32))
    assert list(out) == list(range(32))


def test_divergent_barrier_is_reported(run):
    fault = run("divergent_barrier", (1,), (32,), np.zeros(32, np.int32)).fault
    assert fault.kind == "divergent-barrier"
    assert fault.source_line > 0


def test_deadlock_names_each_warps_place(run):
    out = np.zeros(64, np.int32)
    result = run(
        "deadlock", (1,), (64,), out, max_instructions=10**4
    )  # found without a budget's help
    fault = result.fault
    assert fault.kind == "deadlock"
    assert fault.source.startswith("kernel.cu:")
    assert "barrier" in fault.message


@pytest.mark.parametrize("kernel", ["forever", "forever_busy"])
def test_endless_loops_meet_the_budget(run, kernel):
    budget = 10**8
    result = run(kernel, (1,), (64,), np.zeros(1, np.int32), max_instructions=budget)
    assert result.fault.kind == "step-budget"
    assert budget <= result.counters.thread_instructions < 1.5 * budget


def test_endless_loop_meets_the_time_budget(run):
    result = run("forever_busy", (1,), (64,), np.zeros(1, np.int32), **SECONDS_ALONE)
    assert result.fault.kind == "step-budget"
    assert result.counters.thread_instructions < SECONDS_ALONE["max_instructions"]


def test_assert_and_trap(run, waits):
    fault = run("asserts", (1,), (64,), 40).fault
    assert fault.kind == "assert"
    assert "threadIdx.x < n" in fault.message
    assert fault.thread == (40, 0, 0)
    assert waits("traps", (1,), (32,), 3).fault.kind == "trap"


def test_out_of_bounds_names_thread_and_element(run):
    fault = run("out_of_bounds", (2,), (64,), np.zeros(100, np.float32), 100).fault
    assert fault.kind == "out-of-bounds"
    assert (fault.block, fault.thread) == ((1, 0, 0), (36, 0, 0))


def test_endless_recursion_overflows_the_stack(waits):
    assert waits("bottomless", (1,), (32,), np.zeros(32, np.int32)).fault.kind == "stack-overflow"


def test_many_short_blocks_meet_the_time_budget(run):
    a = np.zeros(32, np.float32)
    result = run("vadd", (2**31 - 1,), (32,), a, a.copy(), a.copy(), 0, **SECONDS_ALONE)
    assert result.fault.kind == "step-budget"
    assert result.counters.thread_instructions < SECONDS_ALONE["max_instructions"]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_collectives_do_not_wait_for_lanes_that_left(waits, schedule):
    out = np.zeros(32, np.int32)
    result = waits.right("leave_then_shuffle", (1,), (32,), out, 20, schedule=schedule)
    assert list(out[:20]) == [sum(range(20))] * 20
    assert result.early_collectives == 0
