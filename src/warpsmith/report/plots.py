"""Draw a run as inline SVG: best time over candidates, and where candidates stand under the roofs.

Colors are CSS variables of the page, so that plots follow its light or dark theme. Every mark has a
`<title>`, which browsers show on hover and screen readers read.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from . import words

HEIGHT = 300
MARGIN = {"left": 62, "right": 16, "top": 14, "bottom": 40}


@dataclass(frozen=True)
class Scale:
    """Data -> pixels along one axis, linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = self.low, self.high, value
        if self.logarithmic:
            low, high, at = math.log(low), math.log(high), math.log(value)
        share = (at - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        """Round values within the scale, at most about `most`."""
        return _log_ticks(self.low, self.high, most) if self.logarithmic else _ticks(self, most)


@dataclass
class Canvas:
    """SVG text in the making, with two axes."""

    width: int
    x: Scale
    y: Scale
    parts: list[str] = field(default_factory=list)

    def add(self, tag: str, content: str = "", *, title: str = "", **attributes: Any) -> None:
        given = " ".join(
            f'{k.rstrip("_").replace("_", "-")}="{_plain(v)}"' for k, v in attributes.items()
        )
        inside = (f"<title>{escape(title)}</title>" if title else "") + content
        self.parts.append(f"<{tag} {given}>{inside}</{tag}>")

    def text(self, x: float, y: float, content: str, **attributes: Any) -> None:
        self.add("text", escape(content), x=x, y=y, **attributes)

    def line(self, points: Iterable[tuple[float, float]], **attributes: Any) -> None:
        """A line through data points."""
        path = " ".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in points)
        self.add("polyline", points=path, **attributes)

    def axes(
        self, x_name: str, y_name: str, x_show: Show, y_show: Show, x_ticks: Sequence[float] = ()
    ) -> None:
        left, right = self.x.start, self.x.end
        bottom, top = self.y.start, self.y.end
        for value in self.y.ticks(6):
            at = self.y(value)
            self.add("line", x1=left, x2=right, y1=at, y2=at, class_="grid")
            self.text(left - 8, at + 4, y_show(value), text_anchor="end")
        for value in x_ticks or self.x.ticks(8):
            self.text(self.x(value), bottom + 17, x_show(value), text_anchor="middle")
        self.add("line", x1=left, x2=right, y1=bottom, y2=bottom, class_="axis")
        self.text((left + right) / 2, HEIGHT - 4, x_name, text_anchor="middle", class_="name")
        middle = (top + bottom) / 2
        turn = f"rotate(-90 13 {middle:.1f})"
        self.text(13, middle, y_name, text_anchor="middle", class_="name", transform=turn)

    def svg(self, label: str) -> str:
        return (
            f'<svg viewBox="0 0 {self.width} {HEIGHT}" role="img" aria-label="{escape(label)}">'
            f"{''.join(self.parts)}</svg>"
        )


Show = Callable[[float], str]


def convergence(run: dict[str, Any], width: int) -> str:
    """Best time over candidates; a dot for every right one, a cross below for every other."""
    points = run["convergence"]
    times = [p["time_us"] for p in points if p["time_us"] is not None]
    if not times:
        return ""
    lines = {n: us for n, us in run["baselines_us"].items() if us > 0}
    x = _horizontal(width, 0.5, len(points) + 0.5)
    shown = [*times, *(us for us in lines.values() if us < 4 * max(times))]
    y = _vertical(min(shown), max(shown), pad=1.12)
    canvas = Canvas(width, x, y)
    modelled = " (modelled)" if run["modelled"] else ""
    canvas.axes("candidate", f"time{modelled}", _short, _short_time, _whole(len(points), width))
    _draw_baselines(canvas, lines)
    _draw_best(canvas, points)
    names = {row["number"]: row for row in run["candidates"]}
    for point in points:
        _draw_candidate(canvas, point, names[point["number"]])
    return canvas.svg(f"best time over {words.count(len(points), 'candidate')}")


def _draw_baselines(canvas: Canvas, lines: dict[str, float]) -> None:
    placed: list[float] = []
    for name, us in sorted(lines.items(), key=lambda item: item[1]):
        if not canvas.y.low <= us <= canvas.y.high:
            continue
        at = canvas.y(us)
        canvas.line([(canvas.x.low, us), (canvas.x.high, us)], class_="baseline")
        label = at - 5
        while any(abs(label - other) < 13 for other in placed):
            label -= 13
        placed.append(label)
        canvas.text(
            canvas.x.end, label, f"{name} {words.time(us)}", text_anchor="end", class_="baseline"
        )


def _draw_best(canvas: Canvas, points: Sequence[dict[str, Any]]) -> None:
    steps: list[tuple[float, float]] = []
    for point in points:
        if point["best_us"] is None:
            continue
        if steps:
            steps.append((point["number"], steps[-1][1]))
        steps.append((point["number"], point["best_us"]))
    steps.append((canvas.x.high, steps[-1][1]))
    canvas.line(steps, class_="best")


def _draw_candidate(canvas: Canvas, point: dict[str, Any], row: dict[str, Any]) -> None:
    x = canvas.x(point["number"])
    title = f"#{row['number']} {row['name']}: "
    if point["time_us"] is None:
        y = canvas.y.start - 7
        cross = f"M{x - 3:.1f} {y - 3:.1f}l6 6m0 -6l-6 6"
        canvas.add("path", d=cross, class_="wrong", title=title + row["says"])
        return
    is_best = point["time_us"] == point["best_us"]
    canvas.add(
        "circle",
        cx=x,
        cy=canvas.y(point["time_us"]),
        r=4.5 if is_best else 3.5,
        class_="dot record" if is_best else "dot",
        title=title + words.time(point["time_us"]),
    )


ROOF_KEYS = ("flops", "bytes", "time_us", "peak_gflops", "peak_gbps")


def missing_roofline(run: dict[str, Any]) -> str:
    """Why there is no roofline to draw, as a sentence; empty where there is one."""
    right = [row for row in run["candidates"] if row["right"]]
    if not right:
        return "No candidate is right, so there is nothing to place under the roofs."
    if any(_has_roof(row) for row in right):
        return ""
    why = next((row["unexplained"] for row in right if row["unexplained"]), "")
    if why:
        return f"No roofline: {why}."
    if any(row["roofline"] for row in right):
        return "No roofline: the analysis counted no floating-point operations or no bytes."
    return "No roofline: the records have no analysis of work and bytes."


def _has_roof(row: dict[str, Any]) -> bool:
    return all(float(row["roofline"].get(key) or 0) > 0 for key in ROOF_KEYS)


def roofline(run: dict[str, Any], width: int) -> str:
    """Achieved GFLOP/s over operations per byte, under the target's memory and compute ceilings.

    Ceiling = min(peak compute, peak bandwidth × intensity), after Williams, Waterman and Patterson,
    "Roofline", CACM 52(4), 2009.
    """
    rows = [row for row in run["candidates"] if row["right"] and _has_roof(row)]
    if not rows:
        return ""
    best = run["best"]["number"] if run["best"] else 0
    roofs = {(r["roofline"]["peak_gflops"], r["roofline"]["peak_gbps"]) for r in rows}
    places = [(row, *place_of(row["roofline"])) for row in rows]
    ridges = [gflops / gbps for gflops, gbps in roofs]
    intensities = [p[1] for p in places]
    x = _horizontal(width, min(*intensities, *ridges) / 4, max(*intensities, *ridges) * 4, log=True)
    tops = [min(gflops, gbps * x.low) for gflops, gbps in roofs]
    y = _vertical(min(*tops, *(p[2] for p in places)), max(g for g, _ in roofs), pad=2.0, log=True)
    canvas = Canvas(width, x, y)
    canvas.axes("floating-point operations per byte of DRAM", "GFLOP/s", _short, _short)
    for gflops, gbps in sorted(roofs):
        _draw_roof(canvas, gflops, gbps)
    for row, intensity, achieved in sorted(places, key=lambda p: p[0]["number"] == best):
        _draw_place(canvas, row, intensity, achieved, row["number"] == best)
    return canvas.svg(
        f"roofline of {words.count(len(rows), 'right candidate')} on {run['target_title']}"
    )


def place_of(roof: dict[str, float]) -> tuple[float, float]:
    """Intensity in FLOP/byte and achieved GFLOP/s."""
    return roof["flops"] / roof["bytes"], roof["flops"] / roof["time_us"] / 1e3


def roof_share(roof: dict[str, float]) -> float | None:
    """Achieved share of the ceiling at this intensity, 0 … 1; None where the numbers are missing."""
    if not all(float(roof.get(key) or 0) > 0 for key in ROOF_KEYS):
        return None
    intensity, achieved = place_of(roof)
    return achieved / min(roof["peak_gflops"], roof["peak_gbps"] * intensity)


def _draw_roof(canvas: Canvas, gflops: float, gbps: float) -> None:
    ridge = gflops / gbps
    low = (canvas.x.low, gbps * canvas.x.low)
    canvas.line([low, (ridge, gflops), (canvas.x.high, gflops)], class_="roof")
    above = canvas.y(gflops) - 6
    canvas.text(canvas.x.end, above, f"{_short(gflops)} GFLOP/s", text_anchor="end", class_="roof")
    middle = math.exp((math.log(canvas.x.low) + math.log(ridge)) / 2)
    at_x, at_y = canvas.x(middle), canvas.y(gbps * middle)
    rise = math.atan2(canvas.y(gflops) - canvas.y(low[1]), canvas.x(ridge) - canvas.x(low[0]))
    turn = f"rotate({math.degrees(rise):.1f} {at_x:.1f} {at_y:.1f})"
    canvas.text(
        at_x,
        at_y - 6,
        f"{_short(gbps)} GB/s DRAM",
        text_anchor="middle",
        class_="roof",
        transform=turn,
    )


def _draw_place(
    canvas: Canvas, row: dict[str, Any], intensity: float, achieved: float, best: bool
) -> None:
    share = roof_share(row["roofline"]) or 0.0
    title = f"#{row['number']} {row['name']}: {_short(achieved)} GFLOP/s, {100 * share:.0f} % of the roof"
    x, y = canvas.x(intensity), canvas.y(achieved)
    canvas.add(
        "circle",
        cx=x,
        cy=y,
        r=5 if best else 3.5,
        class_="dot record" if best else "dot",
        title=title,
    )
    if best:
        left = x > canvas.x.end - 160
        anchor, at = ("end", x - 9) if left else ("start", x + 9)
        canvas.text(
            at,
            y + 4,
            f"#{row['number']}: {100 * share:.0f} % of the roof",
            text_anchor=anchor,
            class_="record",
        )


def _horizontal(width: int, low: float, high: float, log: bool = False) -> Scale:
    return Scale(low, high, MARGIN["left"], width - MARGIN["right"], log)


def _vertical(low: float, high: float, *, pad: float, log: bool | None = None) -> Scale:
    """Logarithmic where the data span more than a factor of five; from zero otherwise."""
    log = high / low > 5 if log is None else log
    low, high = (low / pad / 1.3 if log else 0.0), high * pad  # room for the crosses at the foot
    return Scale(low, high, HEIGHT - MARGIN["bottom"], MARGIN["top"], log)


def _whole(last: int, width: int) -> list[float]:
    """Candidate numbers to write under the axis, about one every 50 pixels."""
    step = max(1, math.ceil(last * 50 / width))
    step = next(nice for nice in (1, 2, 5, 10, 20, 50, 100, 200, 500, step) if nice >= step)
    return (
        [n for n in range(1, last + 1) if n == 1 or n % step == 0]
        if step > 1
        else [*range(1, last + 1)]
    )


def _ticks(scale: Scale, most: int) -> list[float]:
    span = scale.high - scale.low
    rough = span / most
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * f for f in (1, 2, 5, 10) if power * f >= rough)
    first = math.ceil(scale.low / step)
    return [n * step for n in range(first, math.floor(scale.high / step) + 1)]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [f * 10.0**p for p in range(first, last + 1) for f in factors]
        inside = [t for t in ticks if low <= t <= high]
        if len(inside) <= most:
            return inside
    return inside[:: math.ceil(len(inside) / most)]


def _short(value: float) -> str:
    """
    >>> _short(66900), _short(3350), _short(0.25), _short(20)
    ('66.9k', '3350', '0.25', '20')
    """
    if value >= 1e6:
        return f"{value / 1e6:.3g}M"
    if value >= 1e4:
        return f"{value / 1e3:.3g}k"
    return f"{value:.4g}" if value >= 1 else f"{value:.2g}"


def _short_time(us: float) -> str:
    for factor, unit in ((1e6, "s"), (1e3, "ms"), (1.0, "µs")):
        if us >= factor:
            return f"{us / factor:.3g} {unit}"
    return f"{us * 1e3:.3g} ns" if us else "0"


def _plain(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else escape(str(value))
