"""Searches climb a known landscape, remember nothing, and stop."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from warpsmith.search import BestOf, Greedy, Space
from warpsmith.search.greedy import moves
from warpsmith.spec import (
    Candidate,
    CaseTime,
    Outcome,
    Proposer,
    Record,
    Task,
    Timing,
    Verdict,
)

pytestmark = pytest.mark.plain
TASK = Task("bowl", lambda: None, list)


@dataclass(frozen=True)
class Bowl:
    """A family whose time is a bowl over two parameters, `floor` at its bottom."""

    name: str
    floor: float
    bottom: tuple[int, int]
    right: bool = True

    @property
    def parameters(self) -> dict[str, tuple[int, ...]]:
        return {"x": (0, 1, 2, 3, 4), "y": (0, 1, 2, 3)}

    def time(self, x: int, y: int) -> float:
        return self.floor + (x - self.bottom[0]) ** 2 + (y - self.bottom[1]) ** 2


class Bowls:
    name = "bowls"

    def __init__(self, *families: Bowl):
        self._families = families

    def families(self, task: Task) -> tuple[Bowl, ...]:
        return self._families

    def build(self, task: Task, family: Bowl, point: Any) -> Candidate:
        text = f"# {family.name} {point['x']} {point['y']}"
        return Candidate(family.name, "cuda", {"candidate.py": text}, parameters=dict(point))

    def explain(self) -> str:
        return "" if self._families else "no bowls"

    def judge(self, candidate: Candidate) -> Record:
        """What the loop would say about a candidate."""
        (family,) = [f for f in self._families if f.name == candidate.name]
        outcome = Outcome.RIGHT if family.right else Outcome.WRONG_VALUE
        time = family.time(**candidate.parameters)
        timing = Timing(True, "none", (CaseTime("main", time, time, time, 1),))
        return Record(
            TASK.id, TASK.name, candidate, "none", "none",
            verdict=Verdict(outcome), timing=timing if family.right else None,
        )  # fmt: skip


SPACE = Bowls(
    Bowl("naive", 50, (0, 0)), Bowl("good", 10, (3, 2)), Bowl("wrong", 1, (0, 0), right=False)
)


def run(proposer: Proposer, space: Bowls, most: int = 500) -> list[Record]:
    records: list[Record] = []
    while len(records) < most:
        batch = list(proposer.propose(TASK, records))
        if not batch:
            return records
        records += [space.judge(candidate) for candidate in batch]
    raise AssertionError("the search does not stop")


def test_a_search_is_a_proposer_and_bowls_are_a_space():
    assert isinstance(Greedy(SPACE), Proposer)
    assert isinstance(BestOf(SPACE), Proposer)
    assert isinstance(SPACE, Space)


def test_greedy_tries_every_family_first():
    first = list(Greedy(SPACE).propose(TASK, []))
    assert [c.name for c in first] == ["naive", "good", "wrong"]


def test_greedy_finds_the_bottom_of_the_best_bowl():
    records = run(Greedy(SPACE), SPACE)
    best = min((r for r in records if r.right), key=lambda r: r.time_us)
    assert best.candidate.name == "good"
    assert dict(best.candidate.parameters) == {"x": 3, "y": 2}
    assert len(records) < 40, "a climb, not the whole grid"


def test_greedy_does_not_tune_what_is_wrong():
    records = run(Greedy(SPACE), SPACE)
    assert sum(r.candidate.name == "wrong" for r in records) == 1


def test_greedy_climbs_in_as_many_families_as_told():
    one = run(Greedy(SPACE, families=1), SPACE)
    assert sum(r.candidate.name == "naive" for r in one) == 1
    two = run(Greedy(SPACE, families=2), SPACE)
    assert sum(r.candidate.name == "naive" for r in two) > 1


def in_pieces(make, cut: int) -> list[Record]:
    """A run of which only part of each batch was judged, every time by a new object."""
    records: list[Record] = []
    while batch := list(make().propose(TASK, records)):
        records += [SPACE.judge(candidate) for candidate in batch[:cut]]
    return records


@pytest.mark.parametrize("cut", [1, 4, 9, 15])
def test_a_stopped_best_of_goes_on_where_it_was(cut):
    whole = run(BestOf(SPACE, 20, seed=3), SPACE)
    pieces = in_pieces(lambda: BestOf(SPACE, 20, seed=3), cut)
    assert [r.candidate.id for r in pieces] == [r.candidate.id for r in whole]


@pytest.mark.parametrize("cut", [1, 4, 9, 15])
def test_a_stopped_greedy_reaches_the_same_top_and_repeats_nothing(cut):
    pieces = in_pieces(lambda: Greedy(SPACE), cut)
    ids = [r.candidate.id for r in pieces]
    assert len(set(ids)) == len(ids)
    best = min((r for r in pieces if r.right), key=lambda r: r.time_us)
    assert dict(best.candidate.parameters) == {"x": 3, "y": 2}


def test_best_of_draws_n_distinct_points_by_seed():
    drawn = [c.candidate.id for c in run(BestOf(SPACE, 20, seed=3), SPACE)]
    assert len(set(drawn)) == len(drawn) == 20
    assert drawn == [c.candidate.id for c in run(BestOf(SPACE, 20, seed=3), SPACE)]
    assert drawn != [c.candidate.id for c in run(BestOf(SPACE, 20, seed=4), SPACE)]


def test_best_of_ends_where_the_space_is_small():
    small = Bowls(Bowl("only", 1, (0, 0)))
    assert len(run(BestOf(small, 1000), small)) == 20


@pytest.mark.parametrize("search", [Greedy, BestOf])
def test_an_empty_space_is_explained(search):
    empty = Bowls()
    proposer = search(empty)
    assert list(proposer.propose(TASK, [])) == []
    assert proposer.explain() == "no bowls"


def test_moves_change_one_parameter_by_one_place():
    found = [(m["x"], m["y"]) for m in moves(SPACE.families(TASK)[0], {"x": 2, "y": 0})]
    assert found == [(1, 0), (3, 0), (2, 1)]
