"""`warpsmith profile`: what a kernel does, line by line, and what bounds it."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..spec import Candidate, Target
from . import argspec
from .exits import FINE
from .options import clean_stdout, common, emit, examples, on_device
from .run import on_kernel, prepared

if TYPE_CHECKING:
    from ..profiling import Profile


@click.command(
    "profile",
    short_help="Counters by line, roofline, occupancy, modelled time.",
    epilog=examples(
        "warpsmith profile softmax.cu                     (inputs of its example())",
        "warpsmith profile softmax.py --arg x=randn:f32[64,4096] --target a100",
        "warpsmith profile saxpy.cu --grid 4 --block 256 --arg n=1024 --arg a=2.0 \\",
        "      --arg x=randn:f32[1024] --arg y=ones:f32[1024] --html saxpy.html",
        "warpsmith profile softmax.cu --metrics sectors --metrics wavefronts --top 5",
        "warpsmith profile softmax.cu --csv lines.csv     (a row for each source line)",
        "warpsmith profile softmax.cu --device cuda       (Nsight Compute's own counters)",
        "",
        f"Arguments: {argspec.EXAMPLES}",
    ),
)
@on_kernel
@click.option(
    "--top", type=click.IntRange(0), default=10, show_default=True, metavar="N",
    help="How many of the hottest lines to show.",
)  # fmt: skip
@click.option("--listing", is_flag=True, help="Also show the whole source with its counts.")
@click.option(
    "--metrics", multiple=True, metavar="WORD",
    help="Only counters with this in their name; repeat for more.",
)  # fmt: skip
@click.option(
    "--caches/--no-caches", default=True, show_default=True,
    help="Also estimate hit rates and DRAM bytes.",
)  # fmt: skip
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write a page with plots and the annotated source.",
)  # fmt: skip
@click.option(
    "--csv", "csv_file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write a row for each kernel and source line.",
)  # fmt: skip
@on_device
@common
def command(
    kernel: Path, grid: str | None, block: str | None, shared: int, name: str | None,
    arguments: tuple[str, ...], seed: int, top: int, listing: bool, metrics: tuple[str, ...],
    caches: bool, html: Path | None, csv_file: Path | None, device: str, target: str | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Run KERNEL once with counting on and show what each line of it did.

    On the virtual GPU: exact counters under Nsight Compute's names where they mean the same, the
    roofline, occupancy, a modelled time with the model's error, and the annotated source (Python
    lines for Triton). On a CUDA GPU: the counters of ncu, where it is on PATH and permitted. KERNEL
    and its arguments are those of `warpsmith run`. Exits with 1 if the kernel faults.
    """
    with clean_stdout(as_json):
        if _on_gpu(device):
            from . import profile_cuda

            found = profile_cuda.profiled(kernel, _same(locals()), target)
        else:
            candidate, inputs, _ = prepared(kernel, grid, block, shared, name, arguments, seed)
            found = _counted(candidate, inputs, _part(target), caches)
        _files(found, html, csv_file)
    if as_json:
        emit(found.as_dict())
    else:
        click.echo(found.text(top=top, metrics=metrics, listing=listing), nl=False)
        for path in filter(None, (html, csv_file)):
            click.echo(f"wrote {path}")
    return FINE


def _on_gpu(device: str) -> bool:
    """The virtual GPU explains more, so that `auto` is that one here."""
    if device not in ("auto", "virtual", "cuda"):
        raise UsageError(f"--device {device}: profile knows virtual (and auto, the same) and cuda")
    return device == "cuda"


def _part(target: str | None) -> Target:
    from .. import targets
    from ..devices import DEFAULT_TARGET

    return targets.get(target or DEFAULT_TARGET)


def _counted(candidate: Candidate, inputs: list[Any], target: Target, caches: bool) -> Profile:
    """Run the candidate in this process on the virtual GPU, watched."""
    from ..devices import host
    from ..devices.observe import observe
    from ..profiling import of_session

    with tempfile.TemporaryDirectory(prefix="warpsmith-") as folder, _typed(folder):
        with observe(target, count=True, caches=caches) as seen:
            host.load(candidate, Path(folder)).bind([], {}, "cpu")(inputs)
        return of_session(seen, target, candidate.files)


@contextlib.contextmanager
def _typed(folder: str) -> Iterator[None]:
    """An error in the candidate's own host code is the candidate's, not ours."""
    from ..devices.endings import ending_of
    from ..errors import CandidateError, WarpsmithError

    try:
        yield
    except WarpsmithError:
        raise
    except Exception as error:
        ending = ending_of(error, Path(folder))
        at = f" at {ending.source}" if ending.source else ""
        raise CandidateError(f"the host code failed{at}: {ending.message}") from error


def _same(options: dict[str, Any]) -> list[str]:
    """The options of `on_kernel`, as they were typed, for a run of `warpsmith run` under a profiler."""
    words: list[str] = []
    for option in ("grid", "block", "name"):
        words += [f"--{option}", options[option]] if options[option] else []
    words += ["--shared", str(options["shared"])] if options["shared"] else []
    for argument in options["arguments"]:
        words += ["--arg", argument]
    return [*words, "--seed", str(options["seed"])]


def _files(found: Profile, html: Path | None, csv_file: Path | None) -> None:
    if html is not None:
        found.html(html)
    if csv_file is not None:
        try:
            csv_file.write_text(found.csv(), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write {csv_file}: {error}") from error
    sys.stdout.flush()
