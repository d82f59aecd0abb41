"""`warpsmith optimize`: the main job, with a table that fills while it works."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .exits import FINE, NOT_RIGHT, Interrupted
from .options import clean_stdout, common, emit, examples, on_device

if TYPE_CHECKING:
    from ..spec import Task
    from ..workshop import Result
    from .live import Silent


LOG_WIDTH = 140  # columns where stderr is no terminal


@click.command(
    "optimize",
    short_help="Find the fastest right kernel for a task.",
    epilog=examples(
        "warpsmith optimize examples/softmax/task.py",
        "warpsmith optimize task.py --device virtual --target a100 --candidates 20",
        "warpsmith optimize task.py --kernel mine.cu --language cuda --seconds 1800",
        "warpsmith optimize task.py --resume",
    ),
)
@click.argument("task", type=click.Path(path_type=Path))
@click.option(
    "--proposer",
    default="greedy",
    show_default=True,
    metavar="NAME",
    help="Who suggests kernels, see `warpsmith proposers`.",
)
@click.option(
    "--language",
    "languages",
    multiple=True,
    metavar="NAME",
    help="Only kernels in this language; repeat for several. [default: all]",
)
@on_device
@click.option(
    "--candidates",
    type=click.IntRange(1),
    default=40,
    show_default=True,
    help="Stop after so many judged candidates.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=600.0,
    show_default=True,
    help="Stop after so much time; a resumed run's earlier time counts.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where the run is kept. [default: runs/<task>-<device>-<n>]",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with the run in --out, or with the newest one of this task.",
)
@click.option("--seed", type=int, help="Seed of the proposer, where it takes one.")
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A candidate of your own, judged first; repeat for several.",
)
@click.option("--quiet", is_flag=True, help="No table while it works.")
@common
def command(task: Path, as_json: bool, quiet: bool, **chosen: Any) -> int:
    """Find the fastest right kernel for TASK, and save it as a PyTorch operator.

    TASK is a Python file with Model and get_inputs, as in KernelBench, or with a warpsmith.Task.
    Ctrl-C stops at once; nothing that was judged is lost, and --resume goes on.
    """
    from ..spec import load_task

    with clean_stdout(as_json):
        loaded = load_task(task)
        watch = _watch(chosen, quiet)
        result = _run(loaded, watch, chosen, str(task))
    from .. import report
    from ..spec import Journal

    with Journal.open(result.journal) as journal:
        if as_json:
            emit(report.json(journal) | _paths(result))
        else:
            _print_result(result, report.text(journal), quiet)
    return NOT_RIGHT if result.best is None else FINE


def _watch(chosen: dict[str, Any], quiet: bool) -> Silent:
    from ..loop import Budget
    from .live import LiveTable, Silent

    budget = Budget(chosen.pop("candidates"), chosen.pop("seconds"))
    if quiet:
        return Silent(budget)
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(stderr=True, width=LOG_WIDTH)
    return LiveTable(budget, console)


def _run(task: Task, watch: Silent, chosen: dict[str, Any], task_path: str) -> Result:
    from .. import workshop
    from .live import LiveTable

    options = _options(chosen["proposer"], chosen.pop("languages"), chosen.pop("seed"))
    try:
        return workshop.optimize(task, budget=watch.budget, options=options, watch=watch, **chosen)
    except KeyboardInterrupt:
        if watch.journal is None:
            raise
        raise Interrupted(_put_in_order(task, watch, chosen, task_path)) from None
    finally:
        if isinstance(watch, LiveTable):
            watch.live.stop()


def _options(proposer: str, languages: tuple[str, ...], seed: int | None) -> dict[str, Any]:
    """Keyword arguments for the proposer's factory. UsageError where it does not take one."""
    import inspect

    from ..errors import UsageError
    from ..spec import load_plugin

    given: dict[str, Any] = {"languages": tuple(languages)} if languages else {}
    if seed is not None:
        given["seed"] = seed
    takes = inspect.signature(load_plugin("proposer", proposer)).parameters
    if any(p.kind is p.VAR_KEYWORD for p in takes.values()):
        return given
    for name in given.keys() - takes.keys():
        option = {"languages": "--language", "seed": "--seed"}[name]
        raise UsageError(f"proposer {proposer!r} takes no {option}: leave it out")
    return given


def _put_in_order(task: Task, watch: Silent, chosen: dict[str, Any], task_path: str) -> str:
    """Ship what a stopped run has, and say how to go on with it."""
    from .. import workshop
    from ..report import words
    from ..spec import Journal

    assert watch.journal is not None
    with Journal.open(watch.journal.path) as journal:
        folder = journal.path.parent
        result = workshop.ship(task, journal.best(), journal, folder, "interrupted")
        judged, settings = len(journal), journal.settings
    again = ["warpsmith", "optimize", task_path, "--resume", "--out", str(folder)]
    again += ["--device", settings["device"]]
    if settings["device"] == "virtual":
        again += ["--target", settings["target"]]
    if chosen["proposer"] != "greedy":
        again += ["--proposer", chosen["proposer"]]
    saved = f"\noperator  {result.operator}" if result.operator else ""
    return (
        f"interrupted; {words.count(judged, 'candidate')} judged, and all of that is kept.{saved}\nreport    {result.report}\n"
        f"go on with: {shlex.join(again)}"
    )


def _paths(result: Result) -> dict[str, Any]:
    return {
        "reason": result.reason,
        "folder": str(result.folder),
        "operator": str(result.operator) if result.operator else None,
        "report": str(result.report),
    }


def _print_result(result: Result, text: str, quiet: bool) -> None:
    """The best kernel and where everything is; with --quiet also the table that was not shown."""
    parts = text.split("\n\n")
    click.echo(
        "\n"
        + (
            text if quiet else "\n\n".join(p for p in parts if p.startswith(("Best", "No ")))
        ).strip()
    )
    click.echo()
    for name, path in (
        ("operator", result.operator),
        ("report", result.report),
        ("journal", result.journal),
    ):
        if path is not None:
            click.echo(f"{name:<9} {path}")
    if result.operator is not None:
        click.echo(f"use it    import warpsmith as ws; op = ws.load({str(result.operator)!r})")
