"""`warpsmith targets`: the GPUs that kernels can be compiled for and the virtual GPU can stand for."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from ..spec import Target
from .options import common, emit, examples


@click.command(
    "targets",
    short_help="GPUs that --target takes.",
    epilog=examples("warpsmith targets", "warpsmith targets --json"),
)
@common
def command(as_json: bool) -> int:
    """List the GPUs that --target takes, with their main figures."""
    from .. import targets
    from ..spec import to_plain

    parts = [targets.get(name) for name in targets.names()]
    here = targets.detect()
    if as_json:
        emit({"targets": [to_plain(p) | {"arch": p.arch} for p in parts], "here": to_plain(here)})
        return 0
    for line in _table(parts):
        click.echo(line)
    if here is not None:
        click.echo(f"this machine: {here.title} ({here.name})")
    return 0


def _table(parts: Sequence[Target]) -> Iterator[str]:
    head = ("name", "GPU", "arch", "SMs", "memory", "GB/s", "fp32 TFLOP/s", "bf16 tensor TFLOP/s")
    rows = [_row(part) for part in parts]
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    for cells in (head, *rows):
        yield "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths))
        )


def _row(part: Target) -> tuple[str, ...]:
    tensor = part.tensor_tflops("bf16")
    return (
        part.name,
        part.title.removeprefix("NVIDIA "),
        part.arch,
        str(part.sms),
        f"{part.memory_bytes / 2**30:.0f} GiB",
        f"{part.memory_gbps:g}",
        f"{part.fp32_tflops:g}",
        f"{tensor:g}" if tensor else "–",
    )
