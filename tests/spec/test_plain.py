"""Nouns survive the way to JSON and back, and an older reader skips what it does not know."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import math

import pytest

from warpsmith.errors import UsageError
from warpsmith.spec import (
    Candidate,
    CaseResult,
    CaseTime,
    Launch,
    Outcome,
    Ratio,
    Record,
    Timing,
    Verdict,
    from_plain,
    to_plain,
)

pytestmark = pytest.mark.plain
CANDIDATE = Candidate("one", "cuda", {"candidate.py": "x = 1", "k.cu": "// ü\n"}, {"block": 128})
RIGHT = Verdict(Outcome.RIGHT, cases=(CaseResult("rows=1 seed=0", Outcome.RIGHT, 0.25),))
TIMING = Timing(
    modelled=True,
    device="virtual GPU, modelled for H100",
    cases=(
        CaseTime(
            "default seed=0", 2.5, 2.5, 2.5, 1, {"eager": 5.0}, {"eager": Ratio(2.0, 1.5, 2.5)},
            launches=(Launch("k", (4, 1, 1), (128, 1, 1), counters={"flops": 3.0}),),
        ),
    ),
)  # fmt: skip


def record(**changes):
    given = {"verdict": RIGHT, "timing": TIMING} | changes
    return Record("t1", "softmax", CANDIDATE, "virtual", "h100", **given)


def there_and_back(value):
    return from_plain(type(value), json.loads(json.dumps(to_plain(value), allow_nan=False)))


def test_a_full_record_comes_back_equal():
    assert there_and_back(record()) == record()


@pytest.mark.parametrize("number", [math.inf, -math.inf, 1e-45, 0.1, -0.0])
def test_floats_keep_their_value(number):
    back = there_and_back(CaseResult("c", Outcome.NON_FINITE, number))
    assert back.error == number
    assert math.copysign(1, back.error) == math.copysign(1, number)


def test_nan_comes_back_as_nan():
    assert math.isnan(there_and_back(CaseResult("c", Outcome.NON_FINITE, math.nan)).error)


def test_unknown_fields_are_skipped():
    plain = to_plain(record()) | {"from_the_future": 1}
    assert from_plain(Record, plain) == record()


def test_what_is_not_data_is_refused():
    with pytest.raises(TypeError, match="not plain data"):
        to_plain({"f": object()})


@pytest.mark.parametrize("verdict", [None, Verdict(Outcome.WRONG_VALUE), Verdict(Outcome.CRASHED)])
def test_no_number_without_a_right_verdict(verdict):
    with pytest.raises(UsageError, match="RIGHT"):
        record(verdict=verdict)


def test_better_of_prefers_right_then_fast():
    wrong = record(verdict=Verdict(Outcome.WRONG_VALUE), timing=None)
    assert wrong.better_of(record()) == record()
    assert record().better_of(wrong) == record()
    assert record().better_of(None) == record()


def test_equal_files_are_one_candidate():
    assert CANDIDATE.id == Candidate("two", "triton", dict(CANDIDATE.files), origin="llm").id
    assert CANDIDATE.id != Candidate("one", "cuda", {"candidate.py": "x = 2"}).id
