"""Propose a fixed list of candidates, such as kernels that people wrote."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ..spec import Candidate, Record, Task, load_candidate


class Human:
    """Proposes each of its candidates once, in their order."""

    name = "human"

    def __init__(self, candidates: Iterable[Candidate | str | Path]):
        self.candidates = tuple(
            c if isinstance(c, Candidate) else load_candidate(c) for c in candidates
        )

    def __repr__(self) -> str:
        return f"Human({[c.name for c in self.candidates]!r})"

    def propose(self, task: Task, records: Sequence[Record]) -> list[Candidate]:
        """Those that no record has yet."""
        seen = {record.candidate.id for record in records}
        return [c for c in self.candidates if c.id not in seen]

    def explain(self) -> str:
        return "every given candidate has been tried"
