"""`warpsmith check`: is this kernel right?"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from ..spec import Record
from .exits import FINE, NOT_RIGHT
from .options import clean_stdout, common, emit, examples, on_device


@click.command(
    "check",
    short_help="Is this kernel right?",
    epilog=examples(
        "warpsmith check task.py softmax.cu",
        "warpsmith check task.py softmax.py --device virtual --target a100 --cases 20",
        "warpsmith check task.py softmax.cu --time --json",
    ),
)
@click.argument("task", type=click.Path(path_type=Path))
@click.argument("kernel", type=click.Path(path_type=Path))
@on_device
@click.option(
    "--cases",
    type=click.IntRange(0),
    metavar="N",
    help="How many hidden cases to draw besides the declared ones. [default: the judge's]",
)
@click.option(
    "--time", "timed", is_flag=True, help="Also time it, against the baselines, and say why."
)
@common
def command(
    task: Path,
    kernel: Path,
    device: str,
    target: str | None,
    cases: int | None,
    timed: bool,
    as_json: bool,
) -> int:
    """Judge whether KERNEL computes TASK. Exits with 0 if it is right, with 1 if not.

    KERNEL is a CUDA file with a host.py comment, a Python file with run(inputs, state) or ModelNew,
    or a folder with candidate.py.
    """
    from ..spec import to_plain

    with clean_stdout(as_json):
        record = _judge(task, kernel, device, target, cases, timed)
    if as_json:
        emit({"right": record.right, **to_plain(record)})
    else:
        _print(record)
    return FINE if record.right else NOT_RIGHT


def _judge(
    task: Path, kernel: Path, device: str, target: str | None, cases: int | None, timed: bool
) -> Record:
    from ..devices import open_device
    from ..loop import STAGES, judge
    from ..spec import load_candidate, load_task

    loaded, candidate = load_task(task), load_candidate(kernel)
    opened = open_device(device, target)
    try:
        stages: dict[str, Any] = (
            dict(STAGES) if timed else {n: STAGES[n] for n in ("build", "verify")}
        )
        if cases is not None:
            verify: Any = STAGES["verify"]
            stages["verify"] = partial(verify, hidden=cases)
        return judge(loaded, candidate, opened, stages=stages)
    finally:
        opened.close()


def _print(record: Record) -> None:
    from ..report import terminal

    for line in terminal.verdict(record):
        click.echo(line)
