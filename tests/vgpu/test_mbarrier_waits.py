"""Loops that only wait for an mbarrier stop their lanes: woken by a phase's end, or a deadlock."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from launching import Bench

pytestmark = pytest.mark.virtual
SCHEDULES = ("default", "reverse", "random")

# thread number in %r1, the barrier at bar expects %r2 arrivals; every thread stores %r9
KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 expected) {
.reg .b64 %rd<4>; .reg .b32 %r<20>; .reg .pred %p<9>;
.shared .align 8 .b64 bar;
ld.param.u64 %rd1, [out]; ld.param.u32 %r2, [expected];
mov.u32 %r1, %tid.x; mov.u32 %r9, 1; mov.u32 %r8, 0;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra START;
mbarrier.init.shared.b64 [bar], %r2;
START:
bar.sync 0;
BODY
mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r9; ret; }
"""
REPEAT = "L: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra L;"
LEAVE = """L: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0, 1000;
@%p2 bra DONE; bra.uni L; DONE:"""
TEST = "L: mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra.uni L;"
LOOPS = {"repeat": REPEAT, "leave": LEAVE, "test": TEST}
ARRIVE = "mbarrier.arrive.shared.b64 _, [bar];"
# the threads below %r3 wait, the others arrive
SPLIT = """mov.u32 %r3, WAITERS; setp.ge.u32 %p3, %r1, %r3; @%p3 bra ARRIVE;
LOOP
bra.uni END;
ARRIVE: mbarrier.arrive.shared.b64 _, [bar]; mov.u32 %r9, 2;
END:"""


def launch(body: str, expected: int, **options):
    out = np.zeros(64, np.uint32)
    return out, Bench(KERNEL.replace("BODY", body))("k", (1,), (64,), out, expected, **options)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("waiters", [1, 20, 32, 63])
def test_arrivals_of_other_lanes_and_warps_end_the_wait(waiters, loop, schedule):
    body = SPLIT.replace("WAITERS", str(waiters)).replace("LOOP", LOOPS[loop])
    out, result = launch(body, 64 - waiters, schedule=schedule)
    assert result.fault is None
    assert np.array_equal(out, np.where(np.arange(64) < waiters, 1, 2))


@pytest.mark.parametrize("loop", LOOPS)
def test_a_wait_is_counted_alike_under_every_schedule(loop):
    body = SPLIT.replace("WAITERS", "32").replace("LOOP", LOOPS[loop])
    counts = {launch(body, 32, schedule=s)[1].counters.thread_instructions for s in SCHEDULES}
    assert len(counts) == 1


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("body", ["LOOP", f"@%p1 {ARRIVE} LOOP", SPLIT.replace("WAITERS", "40")])
def test_arrivals_that_never_come_are_a_deadlock(body, loop, schedule):
    result = launch(body.replace("LOOP", LOOPS[loop]), 64, schedule=schedule)[1]
    assert result.fault.kind == "deadlock"
    assert "an mbarrier" in result.fault.message


def test_threads_at_a_barrier_and_at_an_mbarrier_wait_for_each_other():
    body = f"setp.lt.u32 %p3, %r1, 32; @%p3 bra ONE; {REPEAT} ONE: bar.sync 0;"
    message = launch(body, 1)[1].fault.message
    assert "32 threads of warp 0 wait at barrier 0" in message
    assert "32 threads of warp 1 wait at an mbarrier" in message


def test_phases_follow_each_other():
    other = REPEAT.replace("L:", "M:").replace("bra L", "bra M").replace("], 0", "], 1")
    body = f"{ARRIVE} {REPEAT} {ARRIVE} {other}"
    out, result = launch(body, 64)
    assert result.fault is None
    assert (out == 1).all()


def test_a_loop_that_does_more_goes_on_running():
    body = """L: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @%p2 bra DONE;
    add.u32 %r8, %r8, 1; setp.lt.u32 %p4, %r8, 100; @%p4 bra L; mov.u32 %r9, %r8; DONE:"""
    out, result = launch(body, 64)
    assert result.fault is None
    assert (out == 100).all()


def test_an_endless_loop_that_does_more_meets_the_budget():
    body = """L: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; add.u32 %r8, %r8, 1;
    @!%p2 bra L;"""
    assert launch(body, 64, max_instructions=10**6)[1].fault.kind == "step-budget"
