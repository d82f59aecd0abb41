"""A run as one HTML file that needs nothing else: no script, no font, no request."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from pathlib import Path

from ..spec import Journal
from . import plots, terminal, words
from .summary import summarize

# A plot is drawn twice, and CSS shows the one that fits: text in a scaled plot would be too small.
WIDE, NARROW = 860, 370


def html(journal: Journal, path: str | Path) -> Path:
    """Write the report page and give its path. A page that is being read is replaced whole."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(render(journal), encoding="utf-8")
    fresh.replace(path)
    return path


def render(journal: Journal) -> str:
    """The page's text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("warpsmith.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(words=words, plots=plots, terminal=terminal, widths=(WIDE, NARROW))
    run = summarize(journal)
    return environment.get_template("page.html.j2").render(run=run)
