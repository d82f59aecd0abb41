"""The loop: stages stop at the first failure, budgets hold, a killed run goes on where it stopped."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import replace

import pytest

from warpsmith import targets
from warpsmith.loop import Budget, Watcher, judge, optimize
from warpsmith.spec import Candidate, CaseTime, Journal, Outcome, Task, Timing, Verdict

pytestmark = pytest.mark.plain


class Nowhere:
    name, target, modelled = "nowhere", targets.get("h100"), True


def candidate(time_us, right=True):
    return Candidate(
        f"{time_us}", "torch", {"candidate.py": f"{time_us}, {right}"}, {"us": time_us}
    )


def verify(task, record, device):
    outcome = Outcome.RIGHT if record.candidate.entry.endswith("True") else Outcome.WRONG_VALUE
    return replace(record, verdict=Verdict(outcome))


def measure(task, record, device):
    us = float(record.candidate.parameters["us"])
    return replace(record, timing=Timing(True, "none", (CaseTime("c", us, us, us, 1),)))


STAGES = {"verify": verify, "measure": measure}


class Listed:
    """Proposes a list, a few at a time, without memory of its own."""

    name = "listed"

    def __init__(self, candidates, batch=2):
        self.candidates, self.batch = candidates, batch

    def propose(self, task, records):
        seen = {r.candidate.id for r in records}
        return [c for c in self.candidates if c.id not in seen][: self.batch]

    def explain(self):
        return "the list is over"


class Log(Watcher):
    def __init__(self):
        self.reason, self.numbers = "", []

    def judged(self, record, best):
        self.numbers.append(record.number)

    def finished(self, best, reason):
        self.reason = reason


@pytest.fixture
def task():
    return Task("t", model=lambda: abs, get_inputs=lambda: [1], source="t")


@pytest.fixture
def journal(tmp_path, task, monkeypatch):
    monkeypatch.setattr("warpsmith.loop.STAGES", STAGES)
    monkeypatch.setitem(judge.__kwdefaults__, "stages", STAGES)
    with Journal.create(tmp_path / "j.sqlite", task=task, settings={}) as journal:
        yield journal


def test_a_wrong_candidate_is_not_timed(task):
    record = judge(task, candidate(1, right=False), Nowhere(), stages=STAGES)
    assert record.verdict.outcome is Outcome.WRONG_VALUE
    assert record.timing is None


def test_the_fastest_right_one_wins(task, journal):
    them = [candidate(5), candidate(1, right=False), candidate(3), candidate(4)]
    log = Log()
    best = optimize(task, Listed(them), Nowhere(), budget=Budget(), journal=journal, watch=log)
    assert best.time_us == 3
    assert log.numbers == [1, 2, 3, 4]
    assert log.reason == "listed has nothing more to propose: the list is over"


def test_nothing_right_gives_none(task, journal):
    them = Listed([candidate(1, right=False)])
    assert optimize(task, them, Nowhere(), budget=Budget(), journal=journal) is None


def test_the_budget_counts_what_was_there_before(task, journal):
    them = Listed([candidate(i) for i in range(1, 9)])
    optimize(task, them, Nowhere(), budget=Budget(candidates=3), journal=journal)
    assert len(journal) == 3
    optimize(task, them, Nowhere(), budget=Budget(candidates=5), journal=journal)
    assert [r.candidate.parameters["us"] for r in journal.records()] == [1, 2, 3, 4, 5]
    log = Log()
    optimize(task, them, Nowhere(), budget=Budget(candidates=5), journal=journal, watch=log)
    assert log.numbers == []
    assert "5 candidates" in log.reason


def test_an_interrupt_keeps_what_was_judged(task, journal):
    class Interrupted(Log):
        def judged(self, record, best):
            super().judged(record, best)
            if record.number == 2:
                raise KeyboardInterrupt

    them, log = Listed([candidate(i) for i in range(1, 6)]), Interrupted()
    with pytest.raises(KeyboardInterrupt):
        optimize(task, them, Nowhere(), budget=Budget(), journal=journal, watch=log)
    assert log.reason == "interrupted"
    assert len(journal) == 2
    optimize(task, them, Nowhere(), budget=Budget(), journal=journal)
    assert len(journal) == 5


def test_equal_candidates_are_judged_once(task, journal):
    them = Listed([candidate(1), candidate(1), candidate(2)], batch=3)
    optimize(task, them, Nowhere(), budget=Budget(), journal=journal)
    assert len(journal) == 2
