"""Trials lie at the edges of tiles, within the ranges and the budget, and repeat by their seed."""
# SPDX-License-Identifier: Apache-2.0

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tasks import TASKS

from warpsmith.spec import Case, Range, Task
from warpsmith.verify.trials import (
    AS_GIVEN,
    DATA,
    Trial,
    count_elements,
    edges,
    make_inputs,
    odd_sizes,
    plan,
)

pytestmark = pytest.mark.plain

ranges = st.builds(
    lambda low, extra, multiple: Range(low * multiple, (low + extra) * multiple, multiple),
    st.integers(0, 50),
    st.integers(0, 5000),
    st.sampled_from([1, 2, 16, 24]),
)


@given(ranges, st.randoms())
@settings(max_examples=100, deadline=None)
def test_sizes_lie_in_their_range(size, draw):
    found = [*edges(size), *odd_sizes(size, draw)]
    assert found
    assert all(size.holds(n) for n in found)
    assert {size.low, size.high} <= set(edges(size))


@given(st.integers(0, 2**48), st.integers(0, 12), st.sampled_from([100, 10_000, 10**6]))
@settings(max_examples=30, deadline=None)
def test_a_plan_keeps_to_ranges_and_budget(seed, hidden, budget):
    task = TASKS["matmul"]
    trials = plan(task, hidden=hidden, seed=seed, max_elements=budget)
    assert sum(t.main for t in trials) == 1
    assert len(trials) <= 1 + hidden
    assert len({t.case.seed for t in trials}) == len(trials)
    for trial in trials:
        dims = trial.case.dims
        assert all(task.ranges[n].holds(v) for n, v in dims.items())
        small = count_elements(task, dims) <= budget
        assert small or trial.main or all(v == task.ranges[n].low for n, v in dims.items())
    sizes = [count_elements(task, t.case.dims) for t in trials]
    assert sizes == sorted(sizes)
    assert trials == plan(task, hidden=hidden, seed=seed, max_elements=budget)


def test_every_axis_is_long_once():
    task = TASKS["softmax"]
    for seed in range(20):
        trials = plan(task, hidden=6, seed=seed, max_elements=1 << 14)
        for name, size in task.ranges.items():
            assert max(t.case.dims.get(name, 0) for t in trials) >= size.high - 1


def test_every_kind_of_data_is_tried():
    for seed in range(20):
        trials = plan(TASKS["softmax"], hidden=6, seed=seed, max_elements=1 << 14)
        assert {t.data for t in trials} == {AS_GIVEN, *DATA}


def test_declared_cases_are_always_tried():
    task = Task("two", lambda: abs, lambda n=3: [torch.ones(n)], cases=(Case({"n": 5}),))
    trials = plan(task, hidden=0, seed=1, max_elements=10)
    assert [t.case.dims for t in trials] == [{}, {"n": 5}]


def test_inputs_repeat_and_leave_the_random_state_alone():
    task, trial = TASKS["softmax"], Trial(Case({"rows": 3}, seed=7))
    before = torch.get_rng_state()
    one, two = make_inputs(task, trial), make_inputs(task, trial)
    assert torch.equal(one[0], two[0])
    assert torch.equal(before, torch.get_rng_state())
    other = make_inputs(task, Trial(Case({"rows": 3}, seed=8)))
    assert not torch.equal(one[0], other[0])


@pytest.mark.parametrize("data", DATA)
def test_hostile_data_changes_floats_and_nothing_else(data):
    case = Case({"n": 50}, seed=7)
    plain = make_inputs(TASKS["gather"], Trial(case))
    hostile = make_inputs(TASKS["gather"], Trial(case, data))
    assert not torch.equal(plain[0], hostile[0])
    assert torch.equal(plain[1], hostile[1])


def test_counting_does_not_make_what_it_counts():
    huge = Task("huge", lambda: abs, lambda n=1 << 45: [torch.randn(n)])
    assert count_elements(huge, {}) == 1 << 45
