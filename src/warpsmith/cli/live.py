"""Watch a run in the terminal: one line per judged candidate, and below it what happens now."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..loop import Budget, Watcher
from ..report import words
from ..report.summary import fastest_baseline
from ..spec import Candidate, Device, Journal, Record, Task

STAGES = {
    "build": "compiling",
    "verify": "checking",
    "measure": "timing",
    "analyze": "explaining",
}
NUMBER, TIME, SPEEDUP, NEXT = 4, 10, 32, 30
NAMES = (24, 48)  # the narrowest and widest column of names
SPIN = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Silent(Watcher):
    """Shows nothing; remembers the journal and the best record for what is printed afterwards."""

    def __init__(self, budget: Budget):
        self.budget = budget
        self.journal: Journal | None = None
        self.best: Record | None = None

    def started(self, task: Task, device: Device, journal: Journal) -> None:
        self.journal = journal
        self.best = journal.best()

    def judged(self, record: Record, best: Record | None) -> None:
        self.best = best

    def finished(self, best: Record | None, reason: str) -> None:
        self.best = best


class LiveTable(Silent):
    """A table that fills on `console`; lines stay in the scrollback, only the last ones are redrawn.

    Where the console is no terminal (a log file, CI) the lines come without the moving part.
    """

    def __init__(self, budget: Budget, console: Console):
        super().__init__(budget)
        self.console = console
        self.candidate: Candidate | None = None
        self.doing, self.count, self.modelled = "", 0, True
        self.before_seconds, self.begin = 0.0, time.monotonic()
        self.live = Live(
            console=console, get_renderable=self._moving, refresh_per_second=8, transient=True
        )

    def __enter__(self) -> LiveTable:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.live.stop()

    def started(self, task: Task, device: Device, journal: Journal) -> None:
        super().started(task, device, journal)
        self.modelled, self.count = device.modelled, len(journal)
        self.before_seconds, self.begin = journal.elapsed_seconds, time.monotonic()
        how = "times are modelled" if device.modelled else "times are measured"
        self.console.print(
            Text.assemble(
                (task.name, "bold"),
                f" on {device.name} ({device.target.title}; {how})\n{journal.path}",
            )
        )
        if self.count:
            self.console.print(
                f"going on after {words.count(self.count, 'candidate')}", style="dim"
            )
        self.console.print(
            _header(device.modelled, self.console.width),
            no_wrap=True,
            overflow="ellipsis",
            crop=True,
        )
        if self.console.is_terminal:
            self.live.start()

    def proposed(self, candidate: Candidate) -> None:
        self.candidate, self.doing = candidate, ""

    def stage(self, candidate: Candidate, name: str) -> None:
        self.candidate, self.doing = candidate, STAGES.get(name, name)

    def judged(self, record: Record, best: Record | None) -> None:
        super().judged(record, best)
        self.count, self.candidate = record.number, None
        is_best = best is not None and best.number == record.number
        for line in lines_of(record, is_best, self.console.width):
            self.console.print(line, no_wrap=True, overflow="ellipsis", crop=True)

    def finished(self, best: Record | None, reason: str) -> None:
        super().finished(best, reason)
        self.live.stop()
        self.console.print(f"stopped: {reason}", style="dim")

    def _moving(self) -> RenderableType:
        parts: list[RenderableType] = []
        if self.candidate is not None:
            spin = SPIN[int(time.monotonic() * 8) % len(SPIN)]
            doing = f"{spin} {self.doing or 'starting'} "
            line = Text.assemble(
                f"{self.count + 1:>{NUMBER}}  ", self.candidate.name, "  ", (doing, "cyan")
            )
            line.truncate(self.console.width)
            parts.append(line)
        return Group(*parts, self._progress())

    def _progress(self) -> Table:
        seconds = self.before_seconds + time.monotonic() - self.begin
        used = max(self.count / self.budget.candidates, seconds / max(self.budget.seconds, 1e-9))
        row = Table.grid(padding=(0, 2))
        row.add_row(
            ProgressBar(total=1.0, completed=min(used, 1.0), width=24),
            f"{self.count} of {self.budget.candidates} candidates",
            f"{seconds:.0f} s of {words.span(self.budget.seconds)}",
            f"best {words.time(self.best.time_us)}" if self.best and self.best.time_us else "",
        )
        return row


def _name_width(width: int) -> int:
    """Names with their parameters take what the other columns leave."""
    return min(max(width - NUMBER - TIME - SPEEDUP - NEXT - 8, NAMES[0]), NAMES[1])


def _header(modelled: bool, width: int) -> Text:
    took = "modelled" if modelled else "time"
    line = f"{'#':>{NUMBER}}  {'candidate':<{_name_width(width)}}  {took:>{TIME}}  {'speed-up':<{SPEEDUP}}  next"
    return Text(line, style="bold")


def lines_of(record: Record, is_best: bool, width: int) -> list[Text]:
    """What a judged candidate looks like, in one line, or two where the message does not fit."""
    candidate = record.candidate
    name = " ".join(filter(None, (candidate.name, words.pairs(candidate.parameters))))
    room = _name_width(width)
    head = f"{record.number:>{NUMBER}}  {_fit(name, room):<{room}}  "
    if not record.right:
        return _wrong(head, record, width)
    speedup, advice = _speedup(record), _next(record)
    middle = f"{words.time(record.time_us):>{TIME}}  {_fit(speedup, SPEEDUP):<{SPEEDUP}}  "
    room = width - len(head) - len(middle)
    line = Text(head)
    line.append(
        middle if room >= 24 else middle.rstrip(), style="bold green" if is_best else "green"
    )
    if room >= 24 or not advice:
        line.append(_fit(advice, max(room, 1)), style="dim")
        return [line]
    return [line, Text(" " * (NUMBER + 2) + _fit(advice, width - NUMBER - 2), style="dim")]


def _wrong(head: str, record: Record, width: int) -> list[Text]:
    verdict = record.verdict
    says = verdict.outcome.value if verdict else "not judged"
    place = f"{verdict.source}: " if verdict and verdict.source not in verdict.message else ""
    message = f"{place}{verdict.message if verdict else ''}".replace("\n", " ").strip()
    line = Text(head).append(says, style="red")
    if len(head) + len(says) + 2 + len(message) <= width:
        return [line.append(f"  {message}")]
    return [line, Text(" " * (NUMBER + 2) + _fit(message, width - NUMBER - 2))]


def _speedup(record: Record) -> str:
    if record.timing is None:
        return "right, not timed"
    name, best = fastest_baseline(record.timing)
    if best is None:
        return "no baseline"
    return f"{words.ratio({'value': best.value, 'low': best.low, 'high': best.high})} vs {name}"


def _next(record: Record) -> str:
    if record.analysis is None:
        return ""
    return next(
        iter(record.analysis.advice), record.analysis.bound and f"bound by {record.analysis.bound}"
    )


def _fit(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"
