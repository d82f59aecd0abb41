"""The lines of the live table: they fit the terminal and say what happened."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses

import made_runs
import pytest

from warpsmith.cli import live

pytestmark = pytest.mark.plain


@pytest.mark.parametrize("width", [80, 100, 140, 220])
@pytest.mark.parametrize("modelled", [True, False])
def test_lines_fit_and_say_outcome_time_and_next(width, modelled):
    for number, record in enumerate(made_runs.story(modelled), 1):
        lines = live.lines_of(dataclasses.replace(record, number=number), False, width)
        text = " ".join(str(line) for line in lines)
        assert all(len(line) <= width for line in lines)
        assert record.candidate.name in text
        if record.right:
            assert f"{record.time_us:.1f} µs" in text
            assert "vs compile" in text
            assert "Loads are 4 bytes" in text
        else:
            assert record.verdict.outcome.value in text
            assert record.verdict.message[:40] in text


def test_the_best_is_bold_and_the_wrong_is_red():
    story = [dataclasses.replace(r, number=i) for i, r in enumerate(made_runs.story(), 1)]
    styles = {str(span.style) for span in live.lines_of(story[-1], True, 140)[0].spans}
    assert "bold green" in styles
    styles = {str(span.style) for span in live.lines_of(story[0], False, 140)[0].spans}
    assert "red" in styles


def test_a_right_candidate_without_a_time_says_so():
    record = dataclasses.replace(made_runs.right("a", 1.0), timing=None, analysis=None, number=1)
    assert "right, not timed" in str(live.lines_of(record, False, 100)[0])
