"""The text report, line for line, and what it says about runs that did not go well."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from pathlib import Path

import made_runs
import pytest

from warpsmith import report
from warpsmith.spec import Outcome

pytestmark = pytest.mark.plain
GOLDEN = Path(__file__).parent / "golden"


def drawn(journal) -> str:
    """The report, with the one thing that differs from run to run made equal."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "2026-12-01 10:00 UTC", report.text(journal))


@pytest.mark.parametrize("modelled", [True, False], ids=["modelled", "measured"])
def test_golden(tmp_path, modelled):
    """To accept a change: look at it, then write `drawn(journal)` over the golden file."""
    name = "modelled" if modelled else "measured"
    with made_runs.journal(tmp_path / "j", made_runs.story(modelled)) as journal:
        assert drawn(journal) == (GOLDEN / f"{name}.txt").read_text()


def test_lines_fit_the_width(tmp_path):
    with made_runs.journal(tmp_path / "j") as journal:
        for width in (80, 120):
            assert max(map(len, report.text(journal, width=width).splitlines())) <= width


def test_a_run_without_a_right_candidate_says_so(tmp_path):
    failing = [r for r in made_runs.story() if not r.right]
    with made_runs.journal(tmp_path / "j", failing) as journal:
        text = report.text(journal)
    assert "No candidate is right yet." in text
    assert "5 candidates judged of 40" in text
    assert "wrong value (#3, #4)" in text
    assert "MODELLED" not in text


def test_an_empty_run_says_so(tmp_path):
    with made_runs.journal(tmp_path / "j", []) as journal:
        assert "No candidate was judged yet." in report.text(journal)


def test_a_resumed_run_shows_its_newest_budget_and_why_it_stopped(tmp_path):
    with made_runs.journal(tmp_path / "j") as journal:
        journal.log("budget", '{"candidates": 10, "seconds": 60.0}')
        journal.log("budget", '{"candidates": 99, "seconds": 900.0}')
        journal.log("finished", "the budget of 99 candidates is spent")
        text = report.text(journal)
    assert "9 candidates judged of 99, 18 s of 15 min used" in text
    assert "Stopped: the budget of 99 candidates is spent" in text


def test_several_cases_show_mean_median_slower_and_failed_together(tmp_path):
    import dataclasses

    record = made_runs.right("two cases", 10.0, modelled=False)
    first = record.timing.cases[0]
    slow = dataclasses.replace(
        first,
        case="rows=1 cols=7 seed=0",
        median_us=4.0,
        speedups={"eager": made_runs.Ratio(0.5, 0.45, 0.55)},
        missing={"compile": "it failed"},
    )
    timing = dataclasses.replace(record.timing, cases=(first, slow))
    record = dataclasses.replace(record, timing=timing)
    with made_runs.journal(tmp_path / "j", [record]) as journal:
        text = " ".join(report.text(journal).split())
        overall = report.json(journal)["best"]["overall"]
    assert "0.50× [0.45, 0.55] against eager (41.5 µs): slower" in text
    assert "geometric mean 1.44×, median 2.33×, 1 of 2 slower, 0 failed" in text
    assert overall["compile"]["missing"] == 1
    assert overall["cudagraph"] == {"cases": 0, "missing": 2}


def test_an_interval_around_one_makes_no_claim(tmp_path):
    record = made_runs.right("even", 20.25, modelled=False)
    with made_runs.journal(tmp_path / "j", [record]) as journal:
        assert "1.00× [0.96, 1.04] against compile (20.2 µs): no claim" in report.text(journal)


def test_json_is_json_and_whole(tmp_path):
    import json

    with made_runs.journal(tmp_path / "j") as journal:
        data = json.loads(json.dumps(report.json(journal), allow_nan=False))
    assert data["right"] == 4
    assert data["judged"] == len(data["candidates"]) == 9
    assert data["best"]["name"] == "vector-4"
    assert data["best"]["speedup"]["value"] == pytest.approx(20.25 / 12.75)
    assert data["best"]["against"] == "compile"
    assert data["outcomes"][Outcome.WRONG_VALUE.value] == 2
    assert [p["best_us"] for p in data["convergence"]][-3:] == [18.2, 18.2, 12.75]
    assert data["failures"][0]["numbers"] == [5, 6]
    assert sum(len(f["numbers"]) for f in data["failures"]) == 5
