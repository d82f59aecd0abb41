"""The waist of the hourglass: judge one candidate, or keep asking for better ones.

A record walks through four rooms: build -> verify -> measure -> analyze. Every stage has the shape
`(task, record, device) -> record` and writes one field of its own. The first stage that finds the
candidate not right ends the walk, and the verdict says why.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from .analyze import analyze
from .measure import measure
from .spec import Candidate, Device, Journal, Proposer, Record, Task
from .toolchains import build
from .verify import verify

Stage = Callable[[Task, Record, Device], Record]
STAGES: dict[str, Stage] = {
    "build": build,
    "verify": verify,
    "measure": measure,
    "analyze": analyze,
}


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a run may go on: judged candidates and seconds, a resumed run's earlier ones included."""

    candidates: int = 40
    seconds: float = 600.0

    def spent(self, journal: Journal) -> str:
        """Why the run must stop now; empty while there is budget left."""
        if len(journal) >= self.candidates:
            return f"the budget of {self.candidates} candidates is spent"
        if journal.elapsed_seconds >= self.seconds:
            return f"the budget of {self.seconds:g} s is spent"
        return ""


class Watcher:
    """Is told what the loop does. This one does nothing; a live table or a log overrides it."""

    def started(self, task: Task, device: Device, journal: Journal) -> None: ...

    def proposed(self, candidate: Candidate) -> None: ...

    def stage(self, candidate: Candidate, name: str) -> None: ...

    def judged(self, record: Record, best: Record | None) -> None: ...

    def finished(self, best: Record | None, reason: str) -> None: ...


def judge(
    task: Task,
    candidate: Candidate,
    device: Device,
    *,
    journal: Journal | None = None,
    watch: Watcher | None = None,
    stages: dict[str, Stage] = STAGES,
) -> Record:
    """Build, verify, measure, analyze; stop at the first stage that fails, and write down why.

    A wrong candidate is a record with a verdict, not an exception. Raises MissingTool,
    DeviceUnavailable or TaskError when the workshop itself cannot do its work.
    """
    begin = time.monotonic()
    record = Record(
        task=task.id,
        task_name=task.name,
        candidate=candidate,
        device=device.name,
        target=device.target.name,
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
    for name, stage in stages.items():
        if watch:
            watch.stage(candidate, name)
        record = stage(task, record, device)
        if record.failed:
            break
    record = replace(record, seconds=time.monotonic() - begin)
    return journal.append(record) if journal is not None else record


def optimize(
    task: Task,
    proposer: Proposer,
    device: Device,
    *,
    budget: Budget,
    journal: Journal,
    watch: Watcher | None = None,
) -> Record | None:
    """Ask for candidates, judge each one, and give the fastest that is right; None if none is.

    Everything is in the journal as soon as it is known, so a killed run goes on where it stopped:
    call again with the same journal.
    """
    watch = watch or Watcher()
    journal.log("budget", json.dumps(asdict(budget)))
    watch.started(task, device, journal)
    best, reason, last = journal.best(), "interrupted", time.monotonic()
    try:
        for candidate in _candidates(task, proposer, journal):
            if reason := budget.spent(journal):
                break
            reason = "interrupted"
            watch.proposed(candidate)
            record = judge(task, candidate, device, journal=journal, watch=watch)
            best = _faster(best, record)
            watch.judged(record, best)
            now = time.monotonic()
            journal.log_time(now - last)
            last = now
        else:
            reason = _last_word(proposer)
    finally:
        journal.log_time(time.monotonic() - last)
        journal.log("finished", reason)
        watch.finished(best, reason)
    return best


def _faster(best: Record | None, record: Record) -> Record | None:
    if record.time_us is None:
        return best
    return record if best is None else best.better_of(record)


def _candidates(task: Task, proposer: Proposer, journal: Journal) -> Iterator[Candidate]:
    """The proposer's batches, each made with the records so far, without what is judged already."""
    while True:
        records: Sequence[Record] = journal.records()
        seen = {r.candidate.id for r in records}
        fresh = [c for c in proposer.propose(task, records) if c.id not in seen]
        if not fresh:
            return
        for candidate in fresh:
            if candidate.id not in seen:
                seen.add(candidate.id)
                yield candidate


def _last_word(proposer: Proposer) -> str:
    explain = getattr(proposer, "explain", None)
    why = explain() if callable(explain) else ""
    return f"{proposer.name} has nothing more to propose" + (f": {why}" if why else "")
