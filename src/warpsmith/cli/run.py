"""`warpsmith run`: run a kernel once, and see what it computes, what it does wrong and what it costs."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ..errors import CandidateError, UsageError, WarpsmithError
from ..report import words
from ..spec import Candidate, Device, Launch, Run
from . import argspec
from .exits import FINE, NOT_RIGHT
from .options import clean_stdout, common, emit, examples, on_device

SHOWN_VALUES = 6
COUNTERS = {  # what people look at first -> counter
    "warp instructions": "warp_instructions",
    "B read": "unique_bytes_read",
    "B written": "unique_bytes_written",
    "barriers": "barriers",
    "divergent branches": "divergent_branches",
}


@dataclass(frozen=True)
class Ran:
    """A finished run with the names under which its outputs are shown."""

    run: Run
    names: Sequence[str]
    device: Device


_KERNEL = (
    click.argument("kernel", type=click.Path(path_type=Path)),
    click.option(
        "--grid", metavar="X[,Y[,Z]]", help="Launch the bare __global__ function with this grid."
    ),
    click.option("--block", metavar="X[,Y[,Z]]", help="Threads of a block, with --grid."),
    click.option(
        "--shared",
        type=click.IntRange(0),
        default=0,
        metavar="BYTES",
        help="Dynamic shared memory, with --grid.",
    ),
    click.option(
        "--name", metavar="NAME", help="Which __global__ function, where the file has several."
    ),
    click.option(
        "--arg",
        "arguments",
        multiple=True,
        metavar="[NAME=]SPEC",
        help="An argument, in the order of the parameters; repeat for each.",
    ),
    click.option(
        "--seed", type=int, default=0, show_default=True, help="Seed of random arguments."
    ),
)


def on_kernel(function: Any) -> Any:
    """KERNEL and what it is launched with: --grid, --block, --shared, --name, --arg, --seed."""
    for option in reversed(_KERNEL):
        function = option(function)
    return function


@click.command(
    "run",
    short_help="Run a kernel once: outputs, faults, counters, time.",
    epilog=examples(
        "warpsmith run softmax.cu                       (inputs of its example())",
        "warpsmith run softmax.py --arg x=randn:f32[64,4096]",
        "warpsmith run saxpy.cu --grid 4 --block 256 --arg n=1024 --arg a=2.0 \\",
        "      --arg x=randn:f32[1024] --arg y=ones:f32[1024]",
        "",
        f"Arguments: {argspec.EXAMPLES}",
        f"Kinds: {', '.join(argspec.KINDS)}. Types: {', '.join(argspec.DTYPES)}",
    ),
)
@on_kernel
@on_device
@common
def command(
    kernel: Path, grid: str | None, block: str | None, shared: int, name: str | None,
    arguments: tuple[str, ...], seed: int, device: str, target: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Run KERNEL once and print its outputs, faults, counters and time.

    With --grid and --block, KERNEL is a CUDA file whose __global__ function is launched as it is.
    Without, it is a candidate: run(inputs, state) is called with --arg, or with what the file's
    example() returns. Exits with 1 if the kernel faults or does not compile.
    """
    with clean_stdout(as_json):
        candidate, inputs, names = prepared(kernel, grid, block, shared, name, arguments, seed)
        ran = _run(candidate, inputs, names, device, target)
    emit(_plain(ran)) if as_json else _print(ran)
    return FINE if ran.run.outcome.right else NOT_RIGHT


def prepared(
    kernel: Path, grid: str | None, block: str | None, shared: int, name: str | None,
    arguments: Sequence[str], seed: int,
) -> tuple[Candidate, list[Any], list[str]]:  # fmt: skip
    """The candidate that the options of `on_kernel` describe, its inputs, and names of outputs."""
    given = [argspec.named(text) for text in arguments]
    inputs = [argspec.parse(spec, seed + i) for i, (_, spec) in enumerate(given)]
    if not (grid or block):
        return _whole(kernel, inputs)
    sizes = _dims(grid, "--grid"), _dims(block, "--block")
    candidate, names = _bare(kernel, name, *sizes, shared, given, inputs)
    return candidate, inputs, names


def _dims(text: str | None, option: str) -> tuple[int, ...]:
    if text is None:
        raise UsageError(f"a bare kernel needs both --grid and --block; {option} is missing")
    try:
        dims = tuple(int(part) for part in text.split(","))
    except ValueError:
        dims = ()
    if not 1 <= len(dims) <= 3 or min(dims) < 1:
        raise UsageError(
            f"{option} {text!r}: expected one to three positive numbers, such as 64 or 8,4,1"
        )
    return dims


def _bare(
    path: Path, name: str | None, grid: tuple[int, ...], block: tuple[int, ...], shared: int,
    given: Sequence[tuple[str, str]], inputs: Sequence[Any],
) -> tuple[Candidate, list[str]]:  # fmt: skip
    """A candidate that launches one `__global__` function and returns every tensor given to it."""
    from ..spec.load import kernel_names

    if path.suffix not in (".cu", ".cuh"):
        raise UsageError(
            f"--grid and --block launch a CUDA file; {path.name} is none. Leave them out"
        )
    if not path.is_file():
        raise CandidateError(f"no kernel at {path}")
    text = path.read_text()
    entry = _pick(kernel_names(text), name, path)
    host = _HOST.format(file=path.name, entry=entry, grid=grid, block=block, shared=shared)
    headers = {
        p.name: p.read_text()
        for p in path.parent.glob("*.[hc]*")
        if p.suffix in (".h", ".cuh", ".hpp")
    }
    tensors = [i for i, value in enumerate(inputs) if hasattr(value, "shape")]
    names = [given[i][0] or f"argument {i}" for i in tensors]
    return Candidate(path.stem, "cuda", {"candidate.py": host, **headers, path.name: text}), names


_HOST = """\
import warpsmith as ws

kernel = ws.cuda({file!r}, {entry!r})


def run(inputs, state):
    kernel[{grid}, {block}, {shared}](*inputs)
    return [x for x in inputs if hasattr(x, "shape")]
"""


def _pick(found: list[str], name: str | None, path: Path) -> str:
    if not found:
        raise CandidateError(f"{path.name} has no __global__ function")
    if name is None and len(found) > 1:
        raise UsageError(f"{path.name} has {', '.join(found)}: say which one with --name")
    if name is not None and name not in found:
        from ..errors import UnknownName

        raise UnknownName("kernel", name, found)
    return name or found[0]


def _whole(path: Path, inputs: list[Any]) -> tuple[Candidate, list[Any], list[str]]:
    """A candidate, its inputs, and no names: outputs are numbered."""
    from ..spec import load_candidate

    candidate = load_candidate(path)
    return candidate, inputs or _example(candidate, path), []


def _example(candidate: Candidate, path: Path) -> list[Any]:
    """What the candidate's own `example()` returns, called in this process."""
    from ..devices import host

    with tempfile.TemporaryDirectory(prefix="warpsmith-") as folder, _own_code(path):
        names = host.load(candidate, Path(folder)).names
        if callable(names.get("example")):
            return list(names["example"]())
    raise CandidateError(
        f"{path.name} defines no example(): add one that returns the list of inputs, or give them "
        "with --arg, or launch its __global__ function with --grid and --block"
    )


@contextlib.contextmanager
def _own_code(path: Path) -> Iterator[None]:
    """An error in the user's file is not ours."""
    try:
        yield
    except WarpsmithError:
        raise
    except Exception as error:
        raise CandidateError(f"{path.name} raised {type(error).__name__}: {error}") from error


def _run(
    candidate: Candidate, inputs: list[Any], names: list[str], device: str, target: str | None
) -> Ran:
    from ..devices import open_device
    from ..spec import Work

    opened = open_device(device, target)
    try:
        return Ran(opened.run(Work(candidate, inputs)), names, opened)
    finally:
        opened.close()


def _time_us(launch: Launch, device: Device) -> float | None:
    """The device's own time, or the modelled one where it only counts."""
    if launch.time_us is not None or not device.modelled or not launch.counters:
        return launch.time_us
    from ..measure.model import LaunchShape, model_time

    shape = LaunchShape(launch.grid, launch.block, launch.shared_bytes, launch.registers or 32)
    return model_time(launch.counters, shape, device.target).total_us


def _plain(ran: Ran) -> dict[str, Any]:
    from ..spec import to_plain

    run = ran.run
    return {
        "device": ran.device.name,
        "target": ran.device.target.name,
        "modelled": ran.device.modelled,
        "outcome": run.outcome.name.lower(),
        "message": run.message,
        "source": run.source,
        "outputs": [to_plain(_summary(o, n)) for n, o in _outputs(ran)],
        "changed_inputs": list(run.changed_inputs),
        "launches": [to_plain(x) | {"time_us": _time_us(x, ran.device)} for x in run.launches],
        "printed": run.printed,
        "seconds": run.seconds,
    }


def _outputs(ran: Ran) -> Iterator[tuple[str, Any]]:
    for index, output in enumerate(ran.run.outputs):
        yield (ran.names[index] if ran.names else f"output {index}"), output


def _summary(value: Any, name: str) -> dict[str, Any]:
    """Shape, type, range and first values of an output; floats that are not finite are counted."""
    if not hasattr(value, "shape"):
        return {"name": name, "value": value}
    import torch

    about: dict[str, Any] = {
        "name": name,
        "shape": list(value.shape),
        "dtype": str(value.dtype).removeprefix("torch."),
        "first": value.flatten()[:SHOWN_VALUES].tolist(),
    }
    numbers = value.double() if not value.dtype.is_complex else value.abs().double()
    finite = numbers[torch.isfinite(numbers)]
    if finite.numel():
        about |= {
            "min": finite.min().item(),
            "max": finite.max().item(),
            "mean": finite.mean().item(),
        }
    return about | {"not_finite": numbers.numel() - finite.numel()}


def _print(ran: Ran) -> None:
    run = ran.run
    if run.printed:
        click.echo(run.printed, nl=not run.printed.endswith("\n"))
    for name, output in _outputs(ran):
        click.echo(_line(_summary(output, name)))
    for launch in run.launches:
        for line in _launch_lines(launch, ran.device):
            click.echo(line)
    if not run.outcome.right:
        at = f" at {run.source}" if run.source else ""
        click.echo(f"{run.outcome.value}{at}: {run.message}")


def _line(about: dict[str, Any]) -> str:
    if "value" in about:
        return f"{about['name']}: {about['value']}"
    shape = ",".join(map(str, about["shape"]))
    first = ", ".join(f"{v:g}" for v in about["first"])
    line = f"{about['name']}: {about['dtype']}[{shape}]"
    if "mean" in about:
        line += f" from {about['min']:g} to {about['max']:g}, mean {about['mean']:g}"
    if about["not_finite"]:
        line += f", {about['not_finite']} not finite"
    return f"{line}; starts {first}" if first else line


def _launch_lines(launch: Launch, device: Device) -> Iterator[str]:
    grid, block = ("x".join(map(str, _trim(d))) for d in (launch.grid, launch.block))
    facts = [f"{launch.kernel}: grid {grid}, block {block}"]
    if launch.registers is not None:
        facts.append(f"{launch.registers} registers")
    if launch.shared_bytes:
        facts.append(f"{words.size(launch.shared_bytes)} dynamic shared")
    took = _time_us(launch, device)
    if took is not None:
        how = f", modelled for {device.target.title}" if device.modelled else ""
        facts.append(words.time(took) + how)
    yield ", ".join(facts)
    counts = [
        f"{launch.counters[c]:,.0f} {n}" for n, c in COUNTERS.items() if launch.counters.get(c)
    ]
    if counts:
        yield "  " + ", ".join(counts)


def _trim(dims: Sequence[int]) -> Sequence[int]:
    """Without the ones at the end.

    >>> _trim((8, 4, 1)), _trim((1, 1, 1))
    ((8, 4), (1,))
    """
    last = max((i for i, d in enumerate(dims) if d != 1), default=0)
    return tuple(dims[: last + 1])
