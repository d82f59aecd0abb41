"""`warpsmith sanitize`: run a kernel on the virtual GPU with every check, and show what it does wrong."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ..errors import UsageError
from . import argspec
from .exits import FINE, NOT_RIGHT
from .options import clean_stdout, common, emit, examples

CHECKS = "uninitialized, races, global_races, async_copies, warp_sync, barriers, leaks"


@click.command(
    "sanitize",
    short_help="Find races, bad accesses and barriers of a kernel.",
    epilog=examples(
        "warpsmith sanitize examples/racy/row_sum.cu            (inputs of its example())",
        "warpsmith sanitize softmax.cu --task task.py --cases 3 --schedule all",
        "warpsmith sanitize saxpy.cu --grid 4 --block 256 --arg n=1024 --arg a=2.0 \\",
        "      --arg x=randn:f32[1024] --arg y=ones:f32[1024]",
        "warpsmith sanitize kernel.ptx --grid 4 --block 128 --arg x=randn:f32[512]",
        "",
        f"Arguments: {argspec.EXAMPLES}",
        f"Checks: {CHECKS}.",
        "Out of bounds, misaligned, null and const accesses are always found.",
    ),
)
@click.argument("kernel", type=click.Path(path_type=Path))
@click.option(
    "--task", type=click.Path(path_type=Path), help="Run on the smallest cases of this task."
)
@click.option(
    "--cases", type=click.IntRange(1), default=1, show_default=True, metavar="N",
    help="How many cases, with --task.",
)  # fmt: skip
@click.option(
    "--grid", metavar="X[,Y[,Z]]", help="Launch the bare __global__ function or PTX entry so."
)
@click.option("--block", metavar="X[,Y[,Z]]", help="Threads of a block, with --grid.")
@click.option(
    "--shared", type=click.IntRange(0), default=0, metavar="BYTES",
    help="Dynamic shared memory, with --grid.",
)  # fmt: skip
@click.option("--name", metavar="NAME", help="Which kernel, where the file has several.")
@click.option(
    "--arg", "arguments", multiple=True, metavar="[NAME=]SPEC",
    help="An argument, in the order of the parameters; repeat for each.",
)  # fmt: skip
@click.option(
    "--checks", default="all", show_default=True, metavar="NAMES", help="What to look for: a list."
)
@click.option(
    "--schedule", type=click.Choice(["default", "reverse", "random", "all"]), default="default",
    show_default=True, help="Order of warps and blocks; all: one run for each.",
)  # fmt: skip
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Of random arguments and schedules."
)
@click.option(
    "--max-findings", type=click.IntRange(1), default=64, show_default=True, metavar="N",
    help="End a launch after so many.",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Warnings count: they, too, make it exit with 1.")
@click.option(
    "--target", metavar="NAME",
    help="The GPU that the virtual one stands for, see `warpsmith targets`. [default: h100]",
)  # fmt: skip
@common
def command(
    kernel: Path, task: Path | None, cases: int, grid: str | None, block: str | None, shared: int,
    name: str | None, arguments: tuple[str, ...], checks: str, schedule: str, seed: int,
    max_findings: int, strict: bool, target: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Run KERNEL under the sanitizer of the virtual GPU. Exits with 1 if it finds an error.

    KERNEL is a candidate (a CUDA file with a host.py comment, a Python file, a folder), run on --arg,
    on --task, or on what its example() returns; or, with --grid and --block, a CUDA file whose
    __global__ function is launched as it is, or a .ptx file.
    """
    from ..sanitizer import sanitize

    with clean_stdout(as_json):
        given = [argspec.named(text) for text in arguments]
        inputs = [argspec.parse(spec, seed + i) for i, (_, spec) in enumerate(given)]
        what, sizes = _what(kernel, name, grid, block, shared, given, inputs)
        if task is not None and (inputs or sizes):
            raise UsageError("--task makes the inputs: leave --arg, --grid and --block out")
        report = sanitize(
            what, *inputs, **sizes, task=task, cases=cases, checks=checks, schedule=schedule,
            seed=seed, target=target, max_findings=max_findings, watch=_say,
        )  # fmt: skip
    emit(report.to_json()) if as_json else click.echo(str(report))
    return FINE if report.clean and not (strict and report.warnings) else NOT_RIGHT


def _say(line: str) -> None:
    click.echo(line, err=True)


def _what(
    path: Path, name: str | None, grid: str | None, block: str | None, shared: int,
    given: Sequence[tuple[str, str]], inputs: Sequence[Any],
) -> tuple[Any, dict[str, Any]]:  # fmt: skip
    """What to sanitize, and the sizes of a launch that a PTX file does not say."""
    from .run import _bare, _dims

    if not (grid or block):
        return path, {}
    dims = _dims(grid, "--grid"), _dims(block, "--block")
    if path.suffix == ".ptx":
        return path, {"grid": dims[0], "block": dims[1], "shared_bytes": shared, "kernel": name}
    return _bare(path, name, *dims, shared, given, inputs)[0], {}
