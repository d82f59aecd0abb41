"""Climb: the ladder of every language first, then one parameter at a time around the best.

Stateless: where it stands is read off the records, so a run that was stopped goes on where it was.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..spec import Candidate, Record, Task
from .space import Family, Space, default_of


class Greedy:
    """A proposer made of a space.

    It proposes the default of every family. Then it takes the family of the best right record and
    tries the neighbors of that record's point, which differ in one parameter by one place, until
    none of them is better; then the next best family. families: how many of them to climb in.
    """

    def __init__(self, inner: Space, *, families: int = 3, batch: int = 8):
        self.inner, self.climbs, self.batch = inner, families, batch
        self.name = f"greedy({inner.name})"
        self._why = ""

    def __repr__(self) -> str:
        return f"Greedy({self.inner!r}, families={self.climbs})"

    def propose(self, task: Task, records: Sequence[Record]) -> list[Candidate]:
        """The next batch; empty once every climb has reached its top."""
        families = self.inner.families(task)
        if not families:
            self._why = self.inner.explain()
            return []
        seen = {record.candidate.id: record for record in records}
        ladder = self._unseen(self._defaults(task, families), seen)
        if ladder:
            return ladder
        for family in self._ranked(task, families, seen)[: self.climbs]:
            step = self._unseen(self._neighbors(task, family, seen), seen)
            if step:
                return step
        self._why = "no neighbor of the best candidates is left to try"
        return []

    def explain(self) -> str:
        """Why the last call proposed nothing."""
        return self._why

    def _unseen(self, candidates: Iterator[Candidate], seen: dict[str, Record]) -> list[Candidate]:
        fresh: dict[str, Candidate] = {}
        for candidate in candidates:
            if candidate.id not in seen and candidate.id not in fresh:
                fresh[candidate.id] = candidate
            if len(fresh) == self.batch:
                break
        return list(fresh.values())

    def _defaults(self, task: Task, families: Sequence[Family]) -> Iterator[Candidate]:
        return (self.inner.build(task, family, default_of(family)) for family in families)

    def _ranked(
        self, task: Task, families: Sequence[Family], seen: dict[str, Record]
    ) -> list[Family]:
        """Families whose default is right, the fastest default first."""
        timed = []
        for place, family in enumerate(families):
            record = seen.get(self.inner.build(task, family, default_of(family)).id)
            if record is not None and record.right:
                slow = float("inf") if record.time_us is None else record.time_us
                timed.append((slow, place, family))
        return [family for _, _, family in sorted(timed, key=lambda t: t[:2])]

    def _neighbors(
        self, task: Task, family: Family, seen: dict[str, Record]
    ) -> Iterator[Candidate]:
        """Neighbors of the top of a climb that starts at the family's default."""
        for point in moves(family, self._top(task, family, seen)):
            yield self.inner.build(task, family, point)

    def _top(self, task: Task, family: Family, seen: dict[str, Record]) -> dict[str, Any]:
        """Follow the records uphill from the default, always to the best neighbor that is known."""
        here, visited = default_of(family), set()
        while True:
            visited.add(tuple(here.values()))
            around = [here, *moves(family, here)]
            known = []
            for place, point in enumerate(around):
                record = seen.get(self.inner.build(task, family, point).id)
                if record is not None and record.right and record.time_us is not None:
                    known.append((record.time_us, place, point))
            best = min(known, key=lambda k: k[:2])[2] if known else here
            if best == here or tuple(best.values()) in visited:
                return here
            here = best


def moves(family: Family, point: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Points that differ in one parameter, by one place of its list.

    >>> from types import SimpleNamespace
    >>> family = SimpleNamespace(parameters={"block": (256, 128, 512)})
    >>> list(moves(family, {"block": 128}))
    [{'block': 256}, {'block': 512}]
    """
    for name, values in family.parameters.items():
        place = list(values).index(point[name])
        for other in (place - 1, place + 1):
            if 0 <= other < len(values):
                yield {**point, name: values[other]}
