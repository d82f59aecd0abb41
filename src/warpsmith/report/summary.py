"""What a run found, as plain data: the one source that the page, the text and the JSON draw from."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .. import targets
from ..errors import UnknownName
from ..spec import Journal, Ratio, Record, Timing, to_plain
from . import words

SCHEMA = 1


def summarize(journal: Journal) -> dict[str, Any]:
    """The whole run as JSON-able data; times in microseconds, sizes in bytes.

    `candidates` has one row per record in the journal's order; `best` is None if none is right.
    """
    records, best = journal.records(), journal.best()
    timing = _first(r.timing for r in records if r.timing)
    settings = journal.settings
    target = settings.get("target") or (records[0].target if records else "")
    events = journal.events()
    return {
        "schema": SCHEMA,
        "journal": str(journal.path),
        "task": {k: journal.task.get(k) for k in ("name", "id", "path", "tolerance", "ranges")},
        "device": settings.get("device") or (records[0].device if records else ""),
        "target": target,
        "target_title": _title(str(target)),
        "proposer": settings.get("proposer", ""),
        "modelled": timing.modelled if timing else None,
        "timed_on": timing.device if timing else "",
        "timing_method": timing.method if timing else "",
        "timing_environment": to_plain(timing.environment) if timing else {},
        "created": journal.created,
        "settings": settings,
        "environment": journal.environment,
        "budget": _budget(journal, len(records)),
        "sessions": sum(e.kind == "opened" for e in events),
        "stopped": _first(e.text for e in reversed(events) if e.kind == "finished") or "",
        "judged": len(records),
        "right": sum(r.right for r in records),
        "outcomes": _outcomes(records),
        "best": winner(best) if best else None,
        "candidates": [_row(r) for r in records],
        "convergence": _convergence(records),
        "baselines_us": dict(timing.cases[0].baselines_us) if timing else {},
        "failures": _failures(records),
    }


def _row(record: Record) -> dict[str, Any]:
    """One line of the table of candidates."""
    candidate, verdict, timing = record.candidate, record.verdict, record.timing
    against, speedup = fastest_baseline(timing) if timing else ("", None)
    return {
        "number": record.number,
        "id": candidate.id,
        "name": candidate.name,
        "language": candidate.language,
        "parameters": to_plain(candidate.parameters),
        "origin": candidate.origin,
        "note": candidate.note,
        "outcome": verdict.outcome.name.lower() if verdict else "not judged",
        "says": verdict.outcome.value if verdict else "not judged",
        "message": verdict.message if verdict else "",
        "source": verdict.source if verdict else "",
        "right": record.right,
        "time_us": record.time_us,
        "not_timed": _not_timed(record),
        "against": against,
        "speedup": to_plain(speedup) if speedup else None,
        "registers": _registers(record),
        "spill_bytes": _largest(_kernels(record), "spill_bytes"),
        "shared_bytes": _shared(record),
        "bound": record.analysis.bound if record.analysis else "",
        "advice": list(record.analysis.advice) if record.analysis else [],
        "roofline": dict(record.analysis.roofline) if record.analysis else {},
        "unexplained": record.analysis.details.get("unavailable", "") if record.analysis else "",
        "seconds": record.seconds,
    }


def winner(record: Record) -> dict[str, Any]:
    """The row of a right record with its cases, times, files and kernels."""
    timing, verdict = record.timing, record.verdict
    return _row(record) | {
        "cases": [to_plain(c) for c in verdict.cases] if verdict else [],
        "times": [_times(c) for c in timing.cases] if timing else [],
        "overall": _overall(timing) if timing else {},
        "files": dict(record.candidate.files),
        "kernels": to_plain(_kernels(record)),
    }


def _times(case: Any) -> dict[str, Any]:
    """A timed case without its launches, whose counters would drown the rest."""
    plain = {k: to_plain(getattr(case, k)) for k in case.__dataclass_fields__ if k != "launches"}
    return plain | {"launches": len(case.launches)}


def _overall(timing: Timing) -> dict[str, dict[str, float | int]]:
    """Per baseline, over all timed cases: geometric mean, median, how many slower, how many missing."""
    names = dict.fromkeys(
        name for c in timing.cases for name in (*c.baselines_us, *c.speedups, *c.missing)
    )
    overall: dict[str, dict[str, float | int]] = {}
    for name in names:
        found = [c.speedups[name] for c in timing.cases if name in c.speedups]
        ratios = [r.value for r in found]
        overall[name] = {"cases": len(ratios), "missing": len(timing.cases) - len(ratios)}
        if ratios:
            overall[name] |= {
                "geometric_mean": math.exp(statistics.fmean(map(math.log, ratios))),
                "median": statistics.median(ratios),
                "slower": sum(words.claim(to_plain(r)) == "slower" for r in found),
            }
    return overall


def fastest_baseline(timing: Timing) -> tuple[str, Ratio | None]:
    """The baseline that is hardest to beat on the main case, and the speed-up against it."""
    ratios = timing.speedups
    if not ratios:
        return "", None
    name = min(ratios, key=lambda n: ratios[n].value)
    return name, ratios[name]


def _convergence(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Per record: its number, its time if it has one, and the best time so far."""
    best, points = math.inf, []
    for record in records:
        best = min(best, record.time_us if record.time_us is not None else math.inf)
        points.append(
            {
                "number": record.number,
                "time_us": record.time_us,
                "best_us": best if best < math.inf else None,
            }
        )
    return points


def _failures(records: Sequence[Record]) -> list[dict[str, Any]]:
    """What went wrong, grouped by outcome, message and source line; the most frequent first."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if record.verdict and not record.right:
            key = (record.verdict.outcome.value, record.verdict.message, record.verdict.source)
            groups.setdefault(key, []).append(record)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[1][0].number))
    return [
        {
            "says": says,
            "message": message,
            "source": source,
            "numbers": [r.number for r in group],
            "names": [r.candidate.name for r in group],
            "lines": source_lines(group[0].candidate.files, source),
        }
        for (says, message, source), group in ordered
    ]


def source_lines(files: Mapping[str, str], source: str, around: int = 1) -> list[dict[str, Any]]:
    """The lines at "file:line" and around it; empty where the source is not of these files."""
    match = re.match(r"(.+?):(\d+)", source)
    if not match or match[1].rsplit("/", 1)[-1] not in files:
        return []
    lines, at = files[match[1].rsplit("/", 1)[-1]].splitlines(), int(match[2])
    if not 1 <= at <= len(lines):
        return []
    near = range(max(at - around, 1), min(at + around, len(lines)) + 1)
    return [{"number": n, "text": lines[n - 1], "here": n == at} for n in near]


def _budget(journal: Journal, judged: int) -> dict[str, Any]:
    """What was used and what was allowed; the limit is the newest one of a run resumed with another."""
    told = _first(e.text for e in reversed(journal.events()) if e.kind == "budget")
    limits = json.loads(told) if told else journal.settings
    return {
        "candidates": judged,
        "candidates_limit": limits.get("candidates"),
        "seconds": round(journal.elapsed_seconds, 3),
        "seconds_limit": limits.get("seconds"),
    }


def _outcomes(records: Sequence[Record]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for record in records:
        says = record.verdict.outcome.value if record.verdict else "not judged"
        counts[says] = counts.get(says, 0) + 1
    return counts


def _not_timed(record: Record) -> dict[str, str]:
    """Cases of a right record that have no time -> why."""
    environment = record.timing.environment if record.timing else record.environment
    given = environment.get("not timed", {})
    return dict(given) if isinstance(given, Mapping) else {"": str(given)}


def _kernels(record: Record) -> tuple[Mapping[str, Any], ...]:
    return record.built.kernels if record.built else ()


def _shared(record: Record) -> int | None:
    """Shared memory of the block that needs most: what the kernel declares and what the launch adds."""
    declared = {k.get("name"): _declared(k) for k in _kernels(record)}
    launches = record.timing.cases[0].launches if record.timing else ()
    needs = [x.shared_bytes + (declared.get(x.kernel) or 0) for x in launches]
    needs = needs or [x for x in declared.values() if x is not None]
    return max(needs, default=None)


def _declared(kernel: Mapping[str, Any]) -> int | None:
    given = kernel.get("static_shared_bytes", kernel.get("shared_bytes"))
    return None if given is None else int(given)


def _registers(record: Record) -> int | None:
    """Registers of the thread that needs most, from the build or, where the launch compiles, from it."""
    launches = record.timing.cases[0].launches if record.timing else ()
    built = _largest(_kernels(record), "registers")
    known = [x for x in (built, *(launch.registers for launch in launches)) if x is not None]
    return max(known, default=None)


def _largest(kernels: Iterable[Mapping[str, Any]], key: str) -> int | None:
    known = [k[key] for k in kernels if k.get(key) is not None]
    return max(known) if known else None


def _title(target: str) -> str:
    try:
        return targets.get(target).title
    except UnknownName:
        return target


def _first(values: Iterable[Any]) -> Any:
    return next(iter(values), None)
