"""`warpsmith show`: read a run's journal, also while the run goes on."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import shutil
from pathlib import Path

import click

from ..errors import UnknownName
from ..spec import Journal, Record
from .options import common, emit, examples


@click.command(
    "show",
    short_help="Read a run's journal, also while it goes on.",
    epilog=examples(
        "warpsmith show runs/softmax-virtual-1",
        "warpsmith show runs/softmax-virtual-1 --html",
        "warpsmith show runs/softmax-virtual-1 --candidate 9 > softmax.cu",
    ),
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--html", is_flag=True, help="Write the report page beside the journal, print its path."
)
@click.option("--candidate", type=int, metavar="N", help="Print the source of candidate N.")
@common
def command(run: Path, html: bool, candidate: int | None, as_json: bool) -> int:
    """Show what a run found. RUN is its folder or its journal; it may still be running."""
    from .. import report
    from ..spec import Journal

    with Journal.open(run) as journal:
        if candidate is not None:
            _show_candidate(journal, candidate, as_json)
        elif html:
            page = report.html(journal, journal.path.parent / "report.html")
            emit({"report": str(page)}) if as_json else click.echo(page)
        elif as_json:
            emit(report.json(journal))
        else:
            columns = shutil.get_terminal_size((100, 24)).columns
            click.echo(report.text(journal, width=max(columns, 60)), nl=False)
    return 0


def _show_candidate(journal: Journal, number: int, as_json: bool) -> None:
    record = _find(journal.records(), number)
    if as_json:
        from ..spec import to_plain

        emit(to_plain(record))
        return
    files = record.candidate.files
    for name, text in files.items():
        if len(files) > 1:
            click.echo(_heading(name))
        click.echo(text, nl=not text.endswith("\n"))


def _find(records: list[Record], number: int) -> Record:
    for record in records:
        if record.number == number:
            return record
    raise UnknownName("candidate", str(number), (str(r.number) for r in records))


def _heading(name: str) -> str:
    """A file's name as a comment of its language, so that the output stays source."""
    sign = "#" if name.endswith(".py") else "//"
    return f"{sign} ---- {name} ----"
