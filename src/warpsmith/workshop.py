"""The main job in one call: open the device, the journal and the proposer, run the loop, ship the winner."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import loop
from .errors import JournalError, OperatorError, UsageError
from .loop import Budget, Watcher
from .spec import (
    Candidate,
    Device,
    Journal,
    Proposer,
    Record,
    Task,
    load_candidate,
    load_plugin,
    load_task,
)

JOURNAL = "journal.sqlite"


@dataclass(frozen=True, slots=True)
class Result:
    """What a run left behind. `best` and `operator` are None if no candidate was right."""

    best: Record | None
    reason: str  # why it stopped
    folder: Path
    journal: Path
    report: Path
    operator: Path | None


def judge(
    task: Task | str | Path,
    candidate: Candidate | str | Path,
    *,
    device: Device | str = "auto",
    target: str | None = None,
    journal: Journal | None = None,
    watch: Watcher | None = None,
) -> Record:
    """Judge one candidate: is it right, how fast, why.

    task and candidate may be paths. device is "virtual", "cuda" or "auto"; target names the GPU that
    the virtual one stands for (default h100).
    """
    task = task if isinstance(task, Task) else load_task(task)
    if not isinstance(candidate, Candidate):
        candidate = load_candidate(candidate)
    with _opened(device, target) as opened:
        return loop.judge(task, candidate, opened, journal=journal, watch=watch)


def optimize(
    task: Task | str | Path,
    *,
    proposer: Proposer | str = "greedy",
    device: Device | str = "auto",
    target: str | None = None,
    budget: Budget = Budget(),  # noqa: B008 (frozen)
    out: str | Path | None = None,
    resume: bool = False,
    kernels: Sequence[Candidate | str | Path] = (),
    options: Mapping[str, Any] | None = None,
    watch: Watcher | None = None,
) -> Result:
    """Find the fastest right kernel for a task within a budget, and save it as an operator.

    kernels: candidates of your own, judged first. options: keyword arguments of the proposer's
    factory, such as languages=("cuda",). out: the run's folder, default runs/<task>-<device>-<n>.
    resume: go on with the run in `out` (or the newest run of this task and device).
    Raises JournalError if `out` holds another run and resume is False, or another task's run.
    """
    task = task if isinstance(task, Task) else load_task(task)
    own = [c if isinstance(c, Candidate) else load_candidate(c) for c in kernels]
    chosen: Proposer = (
        load_plugin("proposer", proposer)(**(options or {}))
        if isinstance(proposer, str)
        else proposer
    )
    with _opened(device, target) as opened:
        folder = run_folder(task, opened, out, resume)
        journal = open_journal(folder, task, opened, chosen, resume)
        with journal:
            keeper = _Keeper(watch or Watcher())
            best = loop.optimize(
                task, _Own(own, chosen), opened, budget=budget, journal=journal, watch=keeper
            )
            return ship(task, best, journal, folder, keeper.reason)


def ship(
    task: Task, best: Record | None, journal: Journal, folder: Path, reason: str = ""
) -> Result:
    """Write what a run leaves behind: the report, and the winner as a saved operator."""
    from . import report, runtime

    operator = None
    if best is not None:
        try:
            path = folder / operator_name(task.name)
            operator = runtime.save(best, task, path, journal=str(journal.path), overwrite=True)
        except OperatorError as error:
            reason += f"; the winner is not saved as an operator: {error}"
    page = folder / "report.html"
    report.html(journal, page)
    return Result(best, reason, folder, Path(journal.path), page, operator)


def run_folder(task: Task, device: Device, out: str | Path | None, resume: bool) -> Path:
    """The folder of a run: the given one, the newest to resume, or the next free number."""
    if out is not None:
        return Path(out)
    stem = f"{operator_name(task.name)}-{device.name}"
    numbers = sorted(
        int(m.group(1))
        for p in Path("runs").glob(f"{stem}-*")
        if (m := re.search(r"-(\d+)$", p.name))
    )
    if resume:
        if not numbers:
            raise JournalError(
                f"nothing to resume: there is no run runs/{stem}-<n>. Leave --resume out"
            )
        return Path("runs") / f"{stem}-{numbers[-1]}"
    return Path("runs") / f"{stem}-{numbers[-1] + 1 if numbers else 1}"


def open_journal(
    folder: Path, task: Task, device: Device, proposer: Proposer, resume: bool
) -> Journal:
    """A new journal in the folder, or the one to resume, after checking that it is of this task."""
    path = folder / JOURNAL
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "device": device.name,
            "target": device.target.name,
            "proposer": proposer.name,
        }
        return Journal.create(path, task=task, settings=settings)
    if not resume:
        raise JournalError(
            f"{folder} already holds a run. Add --resume to go on with it, or choose another --out"
        )
    journal = Journal.open(path, write=True)
    if journal.task["id"] != task.id:
        journal.close()
        raise JournalError(
            f"{path} is a run of task {journal.task_name!r} ({journal.task['id']}), not of {task.name!r} "
            f"({task.id}) as it is now. If you changed the task, start a new run"
        )
    same = (journal.settings.get("device"), journal.settings.get("target"))
    if same != (device.name, device.target.name):
        journal.close()
        raise JournalError(
            f"{path} was run on {same[0]} for {same[1]}, not on {device.name} for {device.target.name}: "
            "times would not compare. Give the same --device and --target, or start a new run"
        )
    return journal


def operator_name(task_name: str) -> str:
    """A task's name as a Python identifier.

    >>> operator_name("19_ReLU-fused")
    'op_19_relu_fused'
    """
    name = re.sub(r"\W+", "_", task_name).strip("_").lower() or "operator"
    return f"op_{name}" if name[0].isdigit() else name


class _Own:
    """A proposer that shows the user's own candidates first, then asks the inner one."""

    def __init__(self, own: Sequence[Candidate], inner: Proposer):
        self.own, self.inner, self.name = own, inner, inner.name

    def propose(self, task: Task, records: Sequence[Record]) -> Iterable[Candidate]:
        seen = {r.candidate.id for r in records}
        return [c for c in self.own if c.id not in seen] or self.inner.propose(task, records)

    def explain(self) -> str:
        explain = getattr(self.inner, "explain", None)
        return explain() if callable(explain) else ""


class _Keeper(Watcher):
    """Passes everything on, and keeps the reason for which the loop stopped."""

    def __init__(self, inner: Watcher):
        self.inner, self.reason = inner, ""
        self.started, self.proposed = inner.started, inner.proposed  # type: ignore[method-assign]
        self.stage, self.judged = inner.stage, inner.judged  # type: ignore[method-assign]

    def finished(self, best: Record | None, reason: str) -> None:
        self.reason = reason
        self.inner.finished(best, reason)


class _opened:
    """A device opened for the length of a `with`, closed after it only if it was opened here."""

    def __init__(self, device: Device | str, target: str | None):
        self.given, self.target = device, target

    def __enter__(self) -> Device:
        from .devices import open_device

        if isinstance(self.given, str):
            self.device: Device = open_device(self.given, self.target)
        elif self.target and self.given.target.name != self.target:
            raise UsageError(
                f"device {self.given.name!r} stands for {self.given.target.name!r}, and target={self.target!r} "
                "was asked for as well: give one of the two"
            )
        else:
            self.device = self.given
        return self.device

    def __exit__(self, *_: object) -> None:
        if isinstance(self.given, str):
            self.device.close()
