"""How numbers read in reports: times, ratios, sizes and spans, with their units."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def time(microseconds: float | None) -> str:
    """A time with three or four digits and its unit.

    >>> time(12.75), time(0.05), time(2_500_000.0), time(None)
    ('12.8 µs', '50.0 ns', '2.50 s', '–')
    """
    if microseconds is None:
        return "–"
    for factor, unit in ((1e6, "s"), (1e3, "ms"), (1.0, "µs")):
        if microseconds >= factor:
            return f"{digits(microseconds / factor)} {unit}"
    return f"{digits(microseconds * 1e3)} ns"


def digits(value: float) -> str:
    """Three digits that matter, without exponents.

    >>> digits(12.75), digits(3.14159), digits(1234.5), digits(0.0123)
    ('12.8', '3.14', '1234', '0.0123')
    """
    size = abs(value)
    places = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 4
    return f"{value:.{places}f}"


def ratio(given: Mapping[str, float] | None) -> str:
    """A speed-up with its interval, or without one where the ends are equal (modelled).

    >>> ratio({"value": 1.594, "low": 1.551, "high": 1.632})
    '1.59× [1.55, 1.63]'
    """
    if given is None:
        return "–"
    value, low, high = (float(given[k]) for k in ("value", "low", "high"))
    if low == high:
        return f"{value:.2f}×"
    return f"{value:.2f}× [{low:.2f}, {high:.2f}]"


def claim(given: Mapping[str, float]) -> str:
    """What a ratio lets us say: 'faster', 'slower', or 'no claim' where the interval holds 1.

    A modelled ratio, whose ends are equal, says nothing either where it reads 1.00.

    >>> claim({"value": 1.2, "low": 1.1, "high": 1.3}), claim({"value": 0.998, "low": 0.998, "high": 0.998})
    ('faster', 'no claim')
    """
    low, high = float(given["low"]), float(given["high"])
    if low == high and f"{low:.2f}" == "1.00":
        return "no claim"
    if low > 1.0:
        return "faster"
    return "slower" if high < 1.0 else "no claim"


def size(count: float | None) -> str:
    """Bytes in the binary unit that fits.

    >>> size(1024), size(0), size(3_500_000), size(None)
    ('1 KiB', '0', '3.34 MiB', '–')
    """
    if count is None:
        return "–"
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B" if count else "0"


def span(seconds: float) -> str:
    """A span of wall time.

    >>> span(18), span(0.4), span(3725)
    ('18 s', '0.4 s', '1 h 2 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def error(given: float | str | None) -> str:
    """A case's error as a share of what is allowed.

    >>> error(0.031), error(75000.0), error("inf"), error(0.0), error(3e-97)
    ('3.1 %', '7.5e+04 ×', 'inf', '0 %', '<0.01 %')
    """
    if given is None:
        return "–"
    value = float(given)
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if 0 < value < 1e-4:
        return "<0.01 %"
    return f"{100 * value:.2g} %" if value <= 1 else f"{value:.3g} ×"


def when(iso: str) -> str:
    """A date and time to the minute.

    >>> when("2026-12-01T10:00:00.000+00:00")
    '2026-12-01 10:00 UTC'
    """
    return f"{iso[:10]} {iso[11:16]} UTC" if iso else "–"


def count(number: int, word: str) -> str:
    """
    >>> count(1, "candidate"), count(3, "candidate")
    ('1 candidate', '3 candidates')
    """
    return f"{number} {word}" + ("" if number == 1 else "s")


def pairs(given: Mapping[str, Any]) -> str:
    """
    >>> pairs({"threads": 256, "vector": 4})
    'threads=256 vector=4'
    """
    return " ".join(f"{k}={v}" for k, v in given.items())
