"""Draw points of a space at random: the plainest search, and the measure of every other."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from ..spec import Candidate, Record, Task
from .space import Space


class BestOf:
    """A proposer made of a space: n distinct random points, the same ones for the same seed.

    Stateless: the sequence depends on the seed and the task alone, and what has a record is left out.
    """

    def __init__(self, inner: Space, n: int = 32, seed: int = 0, *, batch: int = 8):
        self.inner, self.n, self.seed, self.batch = inner, n, seed, batch
        self.name = f"best_of({inner.name}, n={n}, seed={seed})"
        self._why = ""

    def __repr__(self) -> str:
        return f"BestOf({self.inner!r}, n={self.n}, seed={self.seed})"

    def propose(self, task: Task, records: Sequence[Record]) -> list[Candidate]:
        """The next batch of the sequence; empty after n."""
        seen = {record.candidate.id for record in records}
        fresh = [c for c in self._drawn(task) if c.id not in seen]
        if not fresh:
            self._why = self.inner.explain() or f"all {self.n} points have been tried"
        return fresh[: self.batch]

    def explain(self) -> str:
        """Why the last call proposed nothing."""
        return self._why

    def _drawn(self, task: Task) -> Iterator[Candidate]:
        """Up to n distinct candidates; fewer where the space is smaller."""
        families = self.inner.families(task)
        if not families:
            return
        draw = random.Random(f"{self.seed}:{task.id}")
        drawn: set[str] = set()
        for _ in range(20 * self.n):  # a small space runs dry long before
            family = draw.choice(families)
            point = {name: draw.choice(list(v)) for name, v in family.parameters.items()}
            candidate = self.inner.build(task, family, point)
            if candidate.id not in drawn:
                drawn.add(candidate.id)
                yield candidate
            if len(drawn) == self.n:
                return
