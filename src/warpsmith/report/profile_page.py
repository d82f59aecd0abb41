"""A profile as one HTML file that needs nothing else: no script, no font, no request."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import plots, profile_text, words
from .page import NARROW, WIDE


def html(profile: Mapping[str, Any], path: str | Path) -> Path:
    """Write the page of `profiling.Profile.as_dict()` and give its path."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(render(profile), encoding="utf-8")
    fresh.replace(path)
    return path


def render(profile: Mapping[str, Any]) -> str:
    """The page's text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("warpsmith.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        words=words, said=profile_text, roofs=_roofs, listings=_listings, columns=_columns
    )
    return environment.get_template("profile.html.j2").render(profile=profile)


def _roofs(profile: Mapping[str, Any], kernel: Mapping[str, Any]) -> tuple[str, str]:
    """The roofline in two widths; empty where there is none to draw."""
    row = {"number": 1, "name": kernel["kernel"], "right": True, "roofline": kernel["roofline"]}
    run = {"candidates": [row], "best": row, "target_title": profile["target_title"]}
    return plots.roofline(run, WIDE), plots.roofline(run, NARROW)


def _columns(kernel: Mapping[str, Any]) -> dict[str, str]:
    """Column -> heading, without columns in which every line has nothing."""
    always = ("share", "warp_instructions")
    return {
        name: heading
        for name, heading in profile_text.COLUMNS.items()
        if name in always or any(row.get(name) for row in kernel["lines"])
    }


def _listings(
    profile: Mapping[str, Any], kernel: Mapping[str, Any]
) -> dict[str, list[dict[str, Any]]]:
    """File -> every line near the kernel's, with its text and what it did."""
    rows = {row["source"]: row for row in profile_text.annotated(kernel)}
    found: dict[str, list[dict[str, Any]]] = {}
    for name, source in profile["sources"].items():
        numbers = [row["line"] for row in rows.values() if row["source"].startswith(f"{name}:")]
        if not numbers:
            continue
        lines = source.splitlines()
        first, last = max(min(numbers) - 6, 1), min(max(numbers) + 3, len(lines))
        found[name] = [
            {"number": n, "text": lines[n - 1], "row": rows.get(f"{name}:{n}", {})}
            for n in range(first, last + 1)
        ]
    return found
