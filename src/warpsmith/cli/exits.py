"""How a command ends: the table of exit codes, and one clear message instead of a traceback."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import sys
import traceback

import click

from ..errors import (
    CompileError,
    DeviceError,
    DeviceUnavailable,
    JournalError,
    MissingTool,
    OperatorError,
    PtxError,
    UsageError,
)

FINE, NOT_RIGHT, USAGE, MISSING, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 4, 130

MEANINGS = {
    FINE: "fine; judged right",
    NOT_RIGHT: "judged not right, does not compile, or nothing right was found",
    USAGE: "what you typed, or a file that you gave, cannot be used",
    MISSING: "a tool or device is missing here; the message says what to install",
    INTERNAL: "an error inside warpsmith: please report it with --traceback",
    INTERRUPTED: "interrupted; the message says how to go on",
}


class Interrupted(Exception):
    """A run was stopped by Ctrl-C, and everything was put in order; the message says how to go on."""


# The first kind that fits decides.
CODES: tuple[tuple[type[BaseException], int], ...] = (
    (Interrupted, INTERRUPTED),
    (click.Abort, INTERRUPTED),  # what click makes of KeyboardInterrupt
    (click.ClickException, USAGE),
    (UsageError, USAGE),
    (JournalError, USAGE),
    (OperatorError, USAGE),
    (MissingTool, MISSING),
    (DeviceUnavailable, MISSING),
    (CompileError, NOT_RIGHT),
    (PtxError, NOT_RIGHT),
    (DeviceError, NOT_RIGHT),
)


def code_of(error: BaseException) -> int:
    """The exit code for an error.

    >>> code_of(UsageError("no")), code_of(ZeroDivisionError())
    (2, 4)
    """
    return next((code for kind, code in CODES if isinstance(error, kind)), INTERNAL)


def tell(error: BaseException, arguments: list[str]) -> int:
    """Print what went wrong on stderr, with --json also as an object on stdout; give the exit code."""
    code = code_of(error)
    if "--traceback" in arguments:
        traceback.print_exception(error)
    if isinstance(error, click.ClickException):
        error.show(sys.stderr)
    else:
        print(message(error, code, "--traceback" in arguments), file=sys.stderr)
    if "--json" in arguments:
        kind = type(error).__name__
        data = {"error": {"type": kind, "message": str(error) or kind, "exit": code}}
        print(json.dumps(data, ensure_ascii=False))
    return code


def message(error: BaseException, code: int, traced: bool) -> str:
    if code == INTERRUPTED:
        return str(error) or "interrupted"
    if code == INTERNAL:
        hint = "" if traced else " Run the same command with --traceback to see where."
        return f"internal error: {type(error).__name__}: {error}.{hint}"
    return f"error: {error}"
