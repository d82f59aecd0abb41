"""Say what an exception out of candidate code means: which outcome, in which words, at which line."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import linecache
import re
import signal
import traceback
from dataclasses import dataclass
from pathlib import Path

from ..errors import (
    CompileError,
    DeviceLost,
    DeviceTimeout,
    DtypeError,
    KernelFault,
    LaunchError,
    PtxSyntaxError,
    ShapeError,
    UnsupportedInstruction,
    WarpsmithError,
)
from ..spec import Outcome


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended without an answer. `healthy`: its process can go on."""

    outcome: Outcome
    message: str
    source: str = ""
    healthy: bool = True


FAULTS = {
    "out-of-bounds": Outcome.OUT_OF_BOUNDS,
    "null-pointer": Outcome.OUT_OF_BOUNDS,
    "illegal-access": Outcome.OUT_OF_BOUNDS,
    "misaligned": Outcome.MISALIGNED,
    "deadlock": Outcome.DEADLOCK,
    "divergent-barrier": Outcome.DEADLOCK,
    "barrier-mismatch": Outcome.DEADLOCK,
    "use-after-free": Outcome.OUT_OF_BOUNDS,
    "readonly-write": Outcome.INPUT_CHANGED,  # a store to a const argument
    "step-budget": Outcome.TIMED_OUT,
    "race": Outcome.RACE,
    "async-copy-not-awaited": Outcome.RACE,
    "uninitialized": Outcome.UNINITIALIZED,
}

# first match wins
_KINDS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], Outcome], ...] = (
    (CompileError, Outcome.COMPILE_FAILED),
    (PtxSyntaxError, Outcome.COMPILE_FAILED),
    (SyntaxError, Outcome.COMPILE_FAILED),
    (UnsupportedInstruction, Outcome.UNSUPPORTED),
    ((LaunchError, ShapeError, DtypeError), Outcome.BAD_LAUNCH),
    (DeviceTimeout, Outcome.TIMED_OUT),
    (DeviceLost, Outcome.FAULT),
    (MemoryError, Outcome.OUT_OF_MEMORY),
)

# what drivers and libraries say in words only: pattern, outcome, whether the context survives
_PHRASES = (
    (r"CUDA out of memory|can't allocate memory|not enough memory|out of memory|bad_alloc",
     Outcome.OUT_OF_MEMORY, True),
    (r"illegal memory access|ILLEGAL_ADDRESS", Outcome.OUT_OF_BOUNDS, False),
    (r"misaligned address|MISALIGNED_ADDRESS", Outcome.MISALIGNED, False),
    (r"device-side assert|unspecified launch failure|illegal instruction|LAUNCH_FAILED",
     Outcome.FAULT, False),
    (r"launch timed out|LAUNCH_TIMEOUT", Outcome.TIMED_OUT, False),
    (r"invalid configuration argument|too many resources requested|OutOfResources|out of resource",
     Outcome.BAD_LAUNCH, True),
    (r"Error building extension|Error compiling objects", Outcome.COMPILE_FAILED, True),
)  # fmt: skip


def ending_of(error: BaseException, folder: Path) -> Ending:
    """The ending that `error` stands for; `folder` holds the candidate's files."""
    place, text = _own_line(error, folder)
    if isinstance(error, KernelFault):
        outcome = FAULTS.get(error.kind, Outcome.FAULT)
        return Ending(outcome, str(error), error.source or place, error.kind != "illegal-access")
    if isinstance(error, SystemExit):
        return Ending(
            Outcome.BAD_CANDIDATE, f"called sys.exit({error.code!r}) at {place}: {text}", place
        )
    outcome, healthy = _classify(error)
    said = str(error).strip() or "no message"
    if isinstance(error, CompileError):
        first = next((d for d in error.diagnostics if d.severity == "error"), None)
        where = f"{Path(first.file).name}:{first.line}" if first and first.file else place
        return Ending(outcome, said, where)
    if isinstance(error, SyntaxError):
        place = f"{Path(error.filename or '').name}:{error.lineno}"
        text = (error.text or "").strip()
        said = error.msg
    at = f" at {place}: {text}" if place else ""
    inside = _inside_warpsmith(error) if outcome is Outcome.BAD_CANDIDATE else ""
    return Ending(outcome, f"{type(error).__name__}: {said[:2000]}{at}{inside}", place, healthy)


def _inside_warpsmith(error: BaseException) -> str:
    """A hint for an untyped error that this package raised itself: it may be our bug."""
    if isinstance(error, WarpsmithError):
        return ""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    package = Path(__file__).parents[1]
    if package not in Path(frame.filename).parents:
        return ""
    where = Path(frame.filename).relative_to(package)
    return f"; raised inside warpsmith ({where}:{frame.lineno}): if the call looks right, a bug of warpsmith"


def _classify(error: BaseException) -> tuple[Outcome, bool]:
    for kind, outcome in _KINDS:
        if isinstance(error, kind):
            return outcome, not isinstance(error, DeviceLost)
    name = f"{type(error).__module__}.{type(error).__name__}"
    if name.startswith("triton.") and "Compil" in name:
        return Outcome.COMPILE_FAILED, True
    said = f"{name} {error}"
    for pattern, outcome, healthy in _PHRASES:
        if re.search(pattern, said):
            return outcome, healthy
    return Outcome.BAD_CANDIDATE, "CUDA error" not in said


def _own_line(error: BaseException, folder: Path) -> tuple[str, str]:
    """The innermost frame that lies in the candidate's own files: ("candidate.py:3", its text)."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).parent == folder:
            text = linecache.getline(frame.filename, frame.lineno or 0).strip()
            return f"{Path(frame.filename).name}:{frame.lineno}", text
    return "", ""


def ending_of_status(status: int, log: str) -> Ending:
    """The ending of a process that died: `status` is waitpid's, `log` what it wrote."""
    import os

    place = line_in_dump(log)
    at = f" at {place}" if place else ""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name
        hint = _HINTS.get(name, "")
        return Ending(Outcome.CRASHED, f"its process was killed by {name}{at}{hint}", place, False)
    code = os.WEXITSTATUS(status)
    return Ending(
        Outcome.CRASHED,
        f"its process ended with exit code {code}{at}: candidate code must return, not exit",
        place,
        False,
    )


_HINTS = {
    "SIGKILL": ": the system is out of memory, or someone killed it; try smaller shapes",
    "SIGSEGV": ": native code touched memory that is not its own; check pointers and sizes",
    "SIGABRT": ": native code called abort(); its last words are in the log",
    "SIGFPE": ": native code divided an integer by zero",
}


def line_in_dump(log: str) -> str:
    """The candidate's innermost line in a faulthandler dump: "candidate.py:7", or "" without one."""
    starts = [m.start() for m in re.finditer(r"\(most recent call first\)", log)]
    for start in reversed(starts):
        frames = re.findall(r'File "([^"]*)", line (\d+)', log[start:])
        for name, line in frames:
            if "/warpsmith-" in name:
                return f"{Path(name).name}:{line}"
    return ""
