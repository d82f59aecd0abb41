"""Propose kernels that are written from templates: the ladder first, then the grid of parameters."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..codegen import regions
from ..codegen.regions import Family, NoPlan, Plan
from ..errors import UnknownName
from ..spec import Candidate, Record, Task

LANGUAGES = ("cuda", "triton")


class Template:
    """A proposer without memory: everything is derived from the task and the records.

    It is also a space that `search` can walk: `families(task)` and `build(task, family, point)`.
    """

    name = "template"

    def __init__(self, languages: Sequence[str] = LANGUAGES, *, batch: int = 8):
        for language in languages:
            if language not in LANGUAGES:
                raise UnknownName("template language", language, LANGUAGES)
        self.languages, self.batch = tuple(languages), batch
        self._plans: dict[str, Plan | NoPlan] = {}  # a cache: capturing takes seconds
        self._built: dict[Any, Candidate] = {}  # a cache: searches ask for the same points often
        self._why = ""

    def __repr__(self) -> str:
        return f"Template({self.languages!r})"

    def plan(self, task: Task) -> Plan | NoPlan:
        key = f"{task.id}:{id(task.get_inputs)}"
        if key not in self._plans:
            self._plans[key] = regions.plan(task)
        return self._plans[key]

    def families(self, task: Task) -> list[Family]:
        """Every rung of every language, the naive ones first; empty if nothing is matched."""
        plan = self.plan(task)
        if isinstance(plan, NoPlan):
            self._why = plan.why
            return []
        ladders = [regions.families(plan, language) for language in self.languages]
        steps = itertools.zip_longest(*ladders)
        return [family for step in steps for family in step if family is not None]

    space = families

    def build(self, task: Task, family: Family, point: Mapping[str, Any]) -> Candidate:
        """The candidate at one point of a family's grid."""
        plan = self.plan(task)
        assert isinstance(plan, Plan), "a family comes from a plan"
        key = (id(plan), family.name, tuple(point.items()))
        if key not in self._built:
            self._built[key] = regions.candidate(plan, task, family, point, self.name)
        return self._built[key]

    def propose(self, task: Task, records: Sequence[Record]) -> Iterable[Candidate]:
        """The next unseen candidates: all rungs at their defaults, then the rest of the grids."""
        seen = {record.candidate.id for record in records}
        fresh = (c for c in self._ordered(task) if c.id not in seen)
        found = list(itertools.islice(_distinct(fresh), self.batch))
        if not found and not self._why:
            self._why = "every candidate of the templates has been tried"
        return found

    def explain(self) -> str:
        """Why the last call proposed nothing; empty if it did not come to that."""
        return self._why

    def _ordered(self, task: Task) -> Iterator[Candidate]:
        self._why = ""
        families = self.families(task)
        for family in families:
            yield self.build(task, family, family.default)
        for family in families:
            for point in itertools.islice(regions.points(family), 1, None):
                yield self.build(task, family, point)


def _distinct(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    seen: set[str] = set()
    for candidate in candidates:
        if candidate.id not in seen:
            seen.add(candidate.id)
            yield candidate


def template(languages: Sequence[str] = LANGUAGES) -> Template:
    """The ladder of every language, then every point of every grid, in order."""
    return Template(languages)
