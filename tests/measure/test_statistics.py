"""Medians, intervals and claims from blocks of known distribution."""
# SPDX-License-Identifier: Apache-2.0

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.errors import UsageError
from warpsmith.measure import speedup, summarize, verdict
from warpsmith.spec import Samples

pytestmark = pytest.mark.plain


def blocks(ratio: float, noise: float, count: int = 20, seed: int = 0, drift: float = 0.0):
    """Blocks whose true ratio is `ratio`, with log-normal noise, and a clock that drifts."""
    draw = numpy.random.default_rng(seed)
    made = []
    for index in range(count):
        slow = 1 + drift * index
        mine = 100 * slow * numpy.exp(draw.normal(0, noise))
        theirs = 100 * ratio * slow * numpy.exp(draw.normal(0, noise))
        made.append({"candidate": float(mine), "eager": float(theirs)})
    return made


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.03, 2.0])
def test_the_interval_holds_the_true_ratio_mostly(ratio):
    held = 0
    for seed in range(60):
        found = speedup(blocks(ratio, 0.02, seed=seed), "eager")
        held += found.low <= ratio <= found.high
    assert held >= 51  # 95 % of 60 is 57; 51 is three standard deviations below


def test_drift_of_the_clock_cancels():
    found = speedup(blocks(1.1, 0.001, drift=0.05), "eager")
    assert 1.098 < found.value < 1.102
    assert found.high - found.low < 0.02


def test_a_candidate_against_itself_makes_no_claim():
    claims = sum(speedup(blocks(1.0, 0.02, seed=s), "eager").claims for s in range(60))
    assert claims <= 9  # 5 % of 60 is 3; 9 is above three standard deviations


def test_a_fifth_of_a_percent_is_never_claimed():
    """As a kernel against itself has shown on a real GPU, block after block."""
    assert not any(speedup(blocks(1.002, 0.0001, seed=s), "eager").claims for s in range(20))


def test_a_planted_three_percent_is_claimed():
    assert all(speedup(blocks(1.03, 0.005, seed=s), "eager").claims for s in range(20))
    assert verdict(speedup(blocks(1.03, 0.001), "eager")) == "faster"
    assert verdict(speedup(blocks(0.97, 0.001), "eager")) == "slower"
    assert verdict(speedup(blocks(1.0, 0.001), "eager")) == "equal"
    assert verdict(speedup(blocks(1.0, 0.2), "eager")) == "no claim"


@given(st.floats(0.01, 100.0), st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_the_ratio_turns_with_its_arms(ratio, seed):
    made = blocks(ratio, 0.05, seed=seed)
    turned = [{"candidate": b["eager"], "eager": b["candidate"]} for b in made]
    one, two = speedup(made, "eager"), speedup(turned, "eager")
    assert one.low <= one.value <= one.high
    assert one.value * two.value == pytest.approx(1.0, rel=1e-3)


def test_equal_seeds_give_equal_intervals():
    assert speedup(blocks(1.1, 0.1), "eager") == speedup(blocks(1.1, 0.1), "eager")


def test_a_summary_has_medians_and_percentiles():
    made = [{"candidate": float(t), "eager": 2.0 * t} for t in range(1, 12)]
    made[0].pop("eager")
    found = summarize("main", Samples(tuple(made), missing={"compile": "no compiler"}))
    assert (found.median_us, found.low_us, found.high_us) == (6.0, 3.0, 9.0)
    assert found.samples == 11
    assert found.baselines_us == {"eager": 13.0}
    assert found.speedups["eager"].value == pytest.approx(2.0)
    assert found.missing == {"compile": "no compiler"}


def test_nonsense_is_refused():
    with pytest.raises(UsageError, match="no timed block"):
        summarize("main", Samples(()))
    with pytest.raises(UsageError, match="the clock is broken"):
        speedup([{"candidate": 0.0, "eager": 1.0}], "eager")
    with pytest.raises(UsageError, match="no block"):
        speedup([{"candidate": 1.0}], "eager")
