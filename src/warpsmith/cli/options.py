"""Options that several commands share, and how a command writes its machine-readable output."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def common(function: Callable[..., Any]) -> Callable[..., Any]:
    """--json and --traceback, which every command takes."""
    # exits.tell looks for --traceback among the arguments: errors can come before options are parsed
    trace = click.option(
        "--traceback",
        is_flag=True,
        expose_value=False,
        help="On an error, show where it came from.",
    )
    machine = click.option(
        "--json", "as_json", is_flag=True, help="Write one JSON object to stdout, logs to stderr."
    )
    return machine(trace(function))


def on_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """--device and --target."""
    device = click.option(
        "--device",
        default="auto",
        show_default=True,
        metavar="NAME",
        help="virtual, cuda, a plug-in's device, or auto: the GPU if there is one.",
    )
    target = click.option(
        "--target",
        metavar="NAME",
        help="The GPU that the virtual one stands for, see `warpsmith targets`. [default: h100]",
    )
    return device(target(function))


def examples(*lines: str) -> str:
    """The examples of a command, as the epilog of its --help."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def emit(data: Any) -> None:
    """Write the one JSON object of a command to stdout."""
    click.echo(json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False))


@contextlib.contextmanager
def clean_stdout(wanted: bool = True) -> Iterator[None]:
    """Send everything that candidates and libraries print to stderr, C code and children included."""
    if not wanted:
        yield
        return
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # no stdout at all
        kept = -1
    try:
        if kept >= 0:
            os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        if kept >= 0:
            os.dup2(kept, 1)
            os.close(kept)
