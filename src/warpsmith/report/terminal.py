"""A run as text that fits a terminal: what won, by how much, and what became of the others."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from ..spec import Journal, Record
from . import words
from .summary import source_lines, summarize, winner

WIDTH = 100
RIGHT_ALIGNED = {"#", "time", "time (modelled)", "regs", "shared"}


def text(journal: Journal, *, width: int = WIDTH) -> str:
    """The report as plain text of at most `width` columns, ending with a newline."""
    run = summarize(journal)
    parts = [_head(run), _winner(run), _table(run, width), _failures(run)]
    lines = [line for part in parts if (drawn := list(part)) for line in (*drawn, "")]
    return "\n".join(_fold(line, width) for line in lines[:-1]).rstrip() + "\n"


def _head(run: dict[str, Any]) -> Iterator[str]:
    where = run["timed_on"] or f"{run['device']} ({run['target_title']})"
    yield f"{run['task']['name']} on {where}, {words.when(run['created'])}"
    if run["modelled"]:
        yield f"Times are MODELLED for {run['target_title']}: no clock ran. {run['timing_method']}."
        yield f"  {model_error(run)}"
    elif run["timing_method"]:
        yield f"Times are measured: {run['timing_method']}."
    for key, value in run["timing_environment"].items():
        if isinstance(value, (str, int, float)) and key != "model_error":
            yield f"  {key.replace('_', ' ')}: {value}"
    yield f"{budget(run)}; {run['right']} right" + (
        f"; proposer {run['proposer']}" if run["proposer"] else ""
    )
    if run["stopped"]:
        yield f"Stopped: {run['stopped']}"


def model_error(run: dict[str, Any]) -> str:
    """How far modelled times are from a clock's, as far as the run knows."""
    known = run["timing_environment"].get("model_error")
    return (
        f"The model's measured error: {known}." if known else "The model's error is not recorded."
    )


def budget(run: dict[str, Any]) -> str:
    """What the run has used of what it was allowed."""
    used = run["budget"]
    judged = words.count(used["candidates"], "candidate") + " judged"
    if used["candidates_limit"]:
        judged += f" of {used['candidates_limit']}"
    seconds = words.span(used["seconds"])
    if used["seconds_limit"]:
        seconds += f" of {words.span(used['seconds_limit'])}"
    return f"{judged}, {seconds} used"


def _winner(run: dict[str, Any]) -> Iterator[str]:
    best = run["best"]
    if best is None:
        yield "No candidate is right yet." if run["judged"] else "No candidate was judged yet."
        return
    modelled = ", modelled" if run["modelled"] else ""
    took = f": {words.time(best['time_us'])}{modelled}" if best["time_us"] is not None else ""
    yield f"Best: #{best['number']} {best['name']} ({best['language']}){took}"
    if best["note"]:
        yield f"  {best['note']}"
    yield from _speedups(best)
    for case, reason in best["not_timed"].items():
        yield f"  not timed: {case}: {reason}"
    if best["bound"]:
        yield f"  bound by {best['bound']}"
    for advice in best["advice"]:
        yield f"  next: {advice}"
    if best["unexplained"]:
        yield f"  {best['unexplained']}"
    yield f"  verified on {words.count(len(best['cases']), 'case')}" + _worst(best["cases"])


def _speedups(best: dict[str, Any]) -> Iterator[str]:
    several = len(best["times"]) > 1
    for case in best["times"]:
        if several:
            yield f"  {case['case']}: {words.time(case['median_us'])}"
        for name, ratio in case["speedups"].items():
            base = words.time(case["baselines_us"].get(name))
            yield f"  {words.ratio(ratio)} against {name} ({base}): {words.claim(ratio)}"
        for name, why in case["missing"].items():
            yield f"  no time for {name}: {why}"
    for name, all_cases in best["overall"].items() if several else ():
        yield f"  over {words.count(len(best['times']), 'case')} against {name}: " + overall(
            all_cases
        )


def overall(of: dict[str, Any]) -> str:
    """The four numbers that always appear together."""
    missing = f"{of['missing']} failed"
    if not of["cases"]:
        return missing
    return (
        f"geometric mean {of['geometric_mean']:.2f}×, median {of['median']:.2f}×, "
        f"{of['slower']} of {of['cases']} slower, {missing}"
    )


def _worst(cases: Sequence[dict[str, Any]]) -> str:
    errors = [float(c["error"]) for c in cases if c["error"] is not None]
    return f"; largest error {words.error(max(errors))} of what is allowed" if errors else ""


def _table(run: dict[str, Any], width: int) -> Iterator[str]:
    if not run["candidates"]:
        return
    took = "time (modelled)" if run["modelled"] else "time"
    head = ("#", "candidate", "outcome", took, "speed-up", "regs", "shared", "why")
    rows = [_cells(row) for row in run["candidates"]]
    widths = [max(len(line[i]) for line in (head, *rows)) for i in range(len(head) - 1)]
    room = max(width - sum(widths) - 2 * len(widths), 16)
    for line in (head, *rows):
        cells = [
            cell.rjust(w) if name in RIGHT_ALIGNED else cell.ljust(w)
            for cell, name, w in zip(line, head, widths)
        ]
        yield "  ".join([*cells, _cut(line[-1], room)]).rstrip()
    if against := dict.fromkeys(r["against"] for r in run["candidates"] if r["against"]):
        yield f"speed-up: against the fastest baseline of each ({', '.join(against)})"


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(row["number"]),
        _cut(row["name"], 24),
        row["outcome"].replace("_", " "),
        words.time(row["time_us"]),
        words.ratio(row["speedup"]),
        "–" if row["registers"] is None else str(row["registers"]),
        words.size(row["shared_bytes"]),
        why(row),
    )


def place(source: str, message: str) -> str:
    """ " at file:line", unless the message says it."""
    return f" at {source}" if source and source not in message else ""


def why(row: dict[str, Any]) -> str:
    """One line on a candidate: what is wrong with it, or what bounds it."""
    if not row["right"]:
        place = (
            f"{row['source']}: " if row["source"] and row["source"] not in row["message"] else ""
        )
        return f"{place}{row['message'] or row['says']}".replace("\n", " ")
    untimed = [f"not timed: {reason}" for reason in row["not_timed"].values()][:1]
    return "; ".join(filter(None, (row["bound"], *row["advice"][:1], *untimed))) or "–"


def _failures(run: dict[str, Any]) -> Iterator[str]:
    if run["failures"]:
        yield "Why others failed"
    for group in run["failures"]:
        numbers = ", ".join(f"#{n}" for n in group["numbers"])
        at = place(group["source"], group["message"])
        yield f"  {group['says']}{at} ({numbers}): {group['message']}"
        for line in group["lines"]:
            yield f"    {'>' if line['here'] else ' '}{line['number']:5} {line['text']}"


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def _fold(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    indent = len(line) - len(line.lstrip())
    return textwrap.fill(line, width, subsequent_indent=" " * (indent + 2), break_long_words=False)


def verdict(record: Record) -> Iterator[str]:
    """One judged candidate for a terminal: right or not and why, its cases, its times if it has them."""
    found = record.verdict
    name = (
        f"{record.candidate.name} ({record.candidate.language}) on {record.device}, {record.target}"
    )
    if found is None:
        yield f"not judged: {name}"
        return
    yield f"{'RIGHT' if found.right else 'NOT RIGHT'}: {name}"
    if not found.right:
        at = place(found.source, found.message)
        yield f"  {found.outcome.value}{at}: {found.message}"
        for line in source_lines(record.candidate.files, found.source):
            yield f"    {'>' if line['here'] else ' '}{line['number']:5} {line['text']}"
    width = max((len(case.case) for case in found.cases), default=0)
    for case in found.cases:
        error = f"  error {words.error(case.error)}" if case.error is not None else ""
        message = f"  {case.message}" if case.message not in found.message else ""
        yield f"  {case.case:<{width}}  {case.outcome.value}{error}{message}"
    if record.timing is not None:
        yield f"  {words.time(record.time_us)}" + (", modelled" if record.timing.modelled else "")
        yield from _speedups(winner(record))
    for advice in record.analysis.advice if record.analysis else ():
        yield f"  next: {advice}"
