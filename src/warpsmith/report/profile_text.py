"""A profile as text that fits a terminal: time, roofline, occupancy, counters, annotated source."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import words
from .plots import ROOF_KEYS, place_of, roof_share

# column of the annotated source -> (heading, how it is read from a row)
COLUMNS = {
    "share": "%inst",
    "warp_instructions": "warp inst",
    "sectors_per_request": "sect/req",
    "global_sectors": "sectors",
    "excess_sectors": "excess",
    "shared_wavefronts": "wavefronts",
    "excess_wavefronts": "conflicts",
}


def text(
    profile: Mapping[str, Any], *, top: int, metrics: Sequence[str], listing: bool, width: int
) -> str:
    """The whole profile; ends with a newline."""
    lines = [f"{profile['target_title']} ({profile['device']})"]
    lines += textwrap.wrap(
        profile["provenance"], width, initial_indent="  ", subsequent_indent="  "
    )
    for number, kernel in enumerate(profile["kernels"], 1):
        of = f"{number} of {len(profile['kernels'])}: " if len(profile["kernels"]) > 1 else ""
        lines += ["", of + head(kernel)]
        for part in (_time, _occupancy, roof, _advice):
            lines += [folded for line in part(kernel) for folded in _fold(line, width)]
        lines += _counters(kernel, metrics)
        lines += _hottest(kernel, profile["sources"], top, width)
        if listing:
            lines += _listing(kernel, profile["sources"], width)
    lines += [f"note: {note}" for note in profile["notes"]]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _fold(line: str, width: int) -> list[str]:
    return [line] if len(line) <= width else textwrap.wrap(line, width, subsequent_indent="    ")


def head(kernel: Mapping[str, Any]) -> str:
    grid, block = ("x".join(str(d) for d in kernel[k]) for k in ("grid", "block"))
    facts = [f"{kernel['kernel']}: grid {grid}, block {block}"]
    if kernel["registers"] is not None:
        facts.append(f"{kernel['registers']} registers")
    shared = kernel["shared_bytes"] + (kernel["occupancy"].get("static_shared_bytes") or 0)
    if shared:
        facts.append(f"{words.size(shared)} shared")
    return ", ".join(facts)


def _time(kernel: Mapping[str, Any]) -> Iterator[str]:
    if kernel["time_us"] is None:
        return
    how = "measured under the profiler" if kernel["measured"] else "modelled"
    bound = f", bound by {kernel['bound']}" if kernel["bound"] else ""
    yield f"  {words.time(kernel['time_us'])} {how}{bound}"
    terms = sorted(kernel["terms"].items(), key=lambda item: -item[1])
    shown = [f"{name} {words.time(us)}" for name, us in terms if us > 0.005 * kernel["time_us"]]
    if shown:
        yield "  each resource alone: " + ", ".join(shown)


def _occupancy(kernel: Mapping[str, Any]) -> Iterator[str]:
    fit = kernel["occupancy"]
    if not fit:
        return
    unsure = "" if fit["registers_known"] else " (registers unknown: 32 assumed)"
    yield (
        f"  occupancy {fit['fraction']:.0%}: {fit['blocks_per_sm']} blocks, {fit['warps_per_sm']} of "
        f"{fit['warps_per_sm_most']} warps an SM, limited by {fit['limiter']}; "
        f"{fit['waves']:.2f} waves{unsure}"
    )


def _advice(kernel: Mapping[str, Any]) -> Iterator[str]:
    for advice in kernel["advice"]:
        yield f"  next: {advice}"


def roof(kernel: Mapping[str, Any], columns: int = 56, rows: int = 9) -> Iterator[str]:
    """A log-log roofline of characters, with the kernel as `*` and a sentence under it."""
    given = kernel["roofline"]
    if not all(float(given.get(key) or 0) > 0 for key in ROOF_KEYS):
        if given:
            yield "  no roofline: no floating-point operations or no bytes were counted"
        return
    intensity, achieved = place_of(given)
    peak, bandwidth = given["peak_gflops"], given["peak_gbps"]
    ridge = peak / bandwidth
    low, high = math.log(min(intensity, ridge) / 8), math.log(max(intensity, ridge) * 8)
    top, bottom = math.log(peak * 1.5), math.log(min(achieved, bandwidth * math.exp(low)) / 1.5)
    grid = [[" "] * columns for _ in range(rows)]

    def row_of(gflops: float) -> int:
        return min(rows - 1, max(0, round((top - math.log(gflops)) / (top - bottom) * (rows - 1))))

    for column in range(columns):
        at = math.exp(low + (high - low) * column / (columns - 1))
        grid[row_of(min(peak, bandwidth * at))][column] = "-" if at > ridge else "/"
    column = round((math.log(intensity) - low) / (high - low) * (columns - 1))
    grid[row_of(achieved)][column] = "*"
    yield f"  GFLOP/s, log scales; roof {peak:,.0f} and {bandwidth:,.0f} GB/s"
    yield from (f"  |{''.join(row)}" for row in grid)
    yield f"  +{'-' * columns} FLOP per byte"
    share = roof_share(given) or 0.0
    yield (
        f"  * {words.digits(achieved)} GFLOP/s at {words.digits(intensity)} FLOP a byte: "
        f"{share:.0%} of the roof"
    )


def _counters(kernel: Mapping[str, Any], metrics: Sequence[str]) -> Iterator[str]:
    shown = {
        section: {
            name: value
            for name, value in values.items()
            if (any(word in name for word in metrics) if metrics else value)
        }
        for section, values in kernel["sections"].items()
    }
    if metrics and not any(shown.values()):
        yield f"  no counter has {' or '.join(metrics)} in its name"
    for section, values in shown.items():
        if values:
            yield f"  {section}"
        for name, value in values.items():
            yield f"    {name:<72} {number(value):>18}"


def number(value: float) -> str:
    return f"{value:,.2f}" if isinstance(value, float) and value != int(value) else f"{value:,.0f}"


def annotated(kernel: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines with `share`, their part of all warp instructions in percent, and `heat`, 0 … 1.

    Heat is the largest of a line's shares of instructions, sectors and wavefronts: what to look at.
    """
    rows = list(kernel["lines"])
    names = ("warp_instructions", "global_sectors", "shared_wavefronts")
    totals = {name: sum(row[name] for row in rows) or 1 for name in names}
    return [
        {
            **row,
            "share": 100 * row["warp_instructions"] / totals["warp_instructions"],
            "heat": max(row[name] / totals[name] for name in names),
        }
        for row in rows
    ]


def _hottest(
    kernel: Mapping[str, Any], sources: Mapping[str, str], top: int, width: int
) -> Iterator[str]:
    rows = sorted(annotated(kernel), key=lambda row: -row["heat"])[:top]
    if not rows:
        return
    yield f"  Hottest lines, of {len(kernel['lines'])}"
    yield from _table([(row["source"] or "(no line)", row) for row in rows], sources, width)


def _listing(kernel: Mapping[str, Any], sources: Mapping[str, str], width: int) -> Iterator[str]:
    rows = {row["source"]: row for row in annotated(kernel)}
    for name, source in sources.items():
        numbers = [row["line"] for row in rows.values() if row["source"].startswith(f"{name}:")]
        if not numbers:
            continue
        first, last = max(min(numbers) - 2, 1), min(max(numbers) + 2, len(source.splitlines()))
        yield f"  {name}, lines {first} to {last}"
        places = (f"{name}:{n}" for n in range(first, last + 1))
        yield from _table([(p, rows.get(p, {})) for p in places], sources, width)


def _table(
    rows: Sequence[tuple[str, Mapping[str, Any]]], sources: Mapping[str, str], width: int
) -> Iterator[str]:
    names = [
        n for n in COLUMNS if n in ("share", "warp_instructions") or any(r.get(n) for _, r in rows)
    ]
    place_width = max(len(place) for place, _ in rows)
    texts = [text for place, _ in rows if (text := source_line(sources, place)).strip()]
    indent = min((len(text) - len(text.lstrip()) for text in texts), default=0)
    heading = " ".join(f"{COLUMNS[n]:>10}" for n in names)
    yield f"    {'':<{place_width}} {heading}"[:width]
    for place, row in rows:
        cells = " ".join(f"{cell(row, n):>10}" for n in names)
        text = source_line(sources, place)
        line = f"    {place:<{place_width}} {cells}  {text[indent:] if text.strip() else ''}"
        yield line if len(line) <= width else line[: width - 1] + "…"


def cell(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not value:
        return ""
    return f"{value:.1f}" if name in ("share", "sectors_per_request") else f"{value:,}"


def source_line(sources: Mapping[str, str], place: str) -> str:
    """The text of "file:line", without its indent's tabs; "" where it is not at hand."""
    name, _, at = place.rpartition(":")
    lines = sources.get(name, "").splitlines()
    return lines[int(at) - 1].expandtabs(4) if at.isdigit() and 0 < int(at) <= len(lines) else ""
