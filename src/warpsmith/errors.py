"""Every error warpsmith raises. A wrong kernel is a verdict, not an error; these are for misuse
and for machines that cannot do what was asked.

    WarpsmithError
    ├── UsageError (ValueError)      what you passed cannot be used
    │   ├── TaskError                a task file or task object is not complete
    │   ├── CandidateError           a candidate's files do not define what a candidate must
    │   ├── LaunchError              grid, block, shared memory or arguments do not fit the kernel
    │   ├── ShapeError               a tensor has the wrong shape
    │   ├── DtypeError               a tensor or scalar has the wrong type
    │   ├── UnsupportedLayer         a layer of a network that cannot be emitted
    │   ├── UnknownName (KeyError)   no target, plug-in or option of that name
    │   └── NameClash                two plug-ins claim one name
    ├── ToolchainError               source could not become an artifact
    │   ├── MissingTool              a compiler or library is not installed: says what to install
    │   └── CompileError             the source is wrong: carries diagnostics with file and line
    ├── PtxError                     the virtual GPU cannot take this PTX
    │   ├── PtxSyntaxError           malformed text, with line and column
    │   └── UnsupportedInstruction   an instruction the virtual GPU does not have yet
    ├── DeviceError                  a device could not do its work
    │   ├── DeviceUnavailable        no such device on this machine
    │   ├── KernelFault              the kernel did something illegal: out of bounds, misaligned, …
    │   ├── DeviceLost               a sticky CUDA error: the context is gone
    │   └── DeviceTimeout            the kernel did not finish within its budget
    ├── JournalError                 a journal file cannot be read or written
    └── OperatorError                a saved operator cannot be loaded
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field


class WarpsmithError(Exception):
    """The root: `except warpsmith.WarpsmithError` catches everything warpsmith raises by itself."""


class UsageError(WarpsmithError, ValueError):
    """What was passed cannot be used; the message says what was expected and what to type."""


class TaskError(UsageError):
    """A task file or task object is not complete or contradicts itself."""


class CandidateError(UsageError):
    """A candidate's files do not define what a candidate must define."""


class LaunchError(UsageError):
    """Grid, block, shared memory or arguments do not fit the kernel or the target."""


class ShapeError(UsageError):
    """A tensor has the wrong shape."""


class DtypeError(UsageError):
    """A tensor or scalar has the wrong type."""


class UnsupportedLayer(UsageError):
    """A layer, or an option of one, that cannot be emitted; nothing has been written.

    >>> str(UnsupportedLayer("norm", "LayerNormalization", "rms_scaling=True", "RMSNormalization"))
    "layer 'norm' (LayerNormalization): rms_scaling=True cannot be emitted. Use RMSNormalization."
    """

    def __init__(self, layer: str, kind: str, what: str, instead: str):
        self.layer, self.kind, self.what, self.instead = layer, kind, what, instead
        super().__init__(f"layer {layer!r} ({kind}): {what} cannot be emitted. Use {instead}.")


class UnknownName(UsageError, KeyError):
    """No such name, with the nearest ones.

    >>> str(UnknownName("target", "h10", ["h100", "a100"]))
    "no target named 'h10'. Did you mean 'h100'? Known: a100, h100"
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]):
        self.kind, self.name, self.known = kind, name, sorted(known)
        near = difflib.get_close_matches(name, self.known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"no {kind} named {name!r}.{hint} Known: {', '.join(self.known)}")

    def __str__(self) -> str:  # KeyError would print the repr
        return str(self.args[0])


class NameClash(UsageError):
    """Two plug-ins claim one name; the message names both."""


class ToolchainError(WarpsmithError):
    """Source could not become an artifact."""


class MissingTool(ToolchainError):
    """A compiler or library is not installed; `install` is the line to type."""

    def __init__(self, tool: str, why: str, install: str):
        self.tool, self.why, self.install = tool, why, install
        super().__init__(f"{tool} is not available: {why}. To install it: {install}")


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message of a compiler, at the user's own file and line."""

    severity: str  # "error" or "warning"
    message: str
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file else ""
        return f"{place}{self.severity}: {self.message}"


class CompileError(ToolchainError):
    """The source is wrong; `diagnostics` says where and why, `log` is the compiler's own text."""

    def __init__(self, language: str, diagnostics: Iterable[Diagnostic], log: str = ""):
        self.language, self.diagnostics, self.log = language, tuple(diagnostics), log
        lines = [str(d) for d in self.diagnostics if d.severity == "error"][:5]
        super().__init__(
            f"{language} does not compile: " + ("\n".join(lines) or log.strip()[:2000])
        )


class PtxError(WarpsmithError):
    """The virtual GPU cannot take this PTX."""


class PtxSyntaxError(PtxError):
    """Malformed PTX, with the line and column in the PTX text."""

    def __init__(self, message: str, line: int, column: int = 0):
        self.message, self.line, self.column = message, line, column
        super().__init__(f"PTX line {line}, column {column}: {message}")


class UnsupportedInstruction(PtxError):
    """An instruction the virtual GPU does not have, with its PTX line and source line."""

    def __init__(self, instruction: str, line: int, source: str = "", why: str = ""):
        self.instruction, self.line, self.source, self.why = instruction, line, source, why
        at = f" (from {source})" if source else ""
        because = f": {why}" if why else ""
        super().__init__(f"the virtual GPU has no '{instruction}'{because}. PTX line {line}{at}")


class DeviceError(WarpsmithError):
    """A device could not do its work."""


class DeviceUnavailable(DeviceError):
    """No such device on this machine; the message says what is missing."""


@dataclass
class KernelFault(DeviceError):
    """The kernel did something illegal.

    `kind` is one word of the closed list in `FAULT_KINDS`; the other fields are empty or -1 where
    the device cannot know them (a CUDA GPU reports the kind alone).
    """

    kind: str
    message: str
    kernel: str = ""
    source: str = ""  # "softmax.cu:17"
    block: tuple[int, int, int] = (-1, -1, -1)
    thread: tuple[int, int, int] = (-1, -1, -1)
    details: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Exception.__init__(self, str(self))

    def __str__(self) -> str:
        at = f" at {self.source}" if self.source else ""
        inside = f" in {self.kernel}" if self.kernel else ""
        return f"{self.kind}{inside}{at}: {self.message}"


FAULT_KINDS = (
    "out-of-bounds",
    "misaligned",
    "null-pointer",
    "race",
    "uninitialized",
    "divergent-barrier",
    "deadlock",
    "step-budget",
    "assert",
    "trap",
    "stack-overflow",
    "illegal-access",  # what a CUDA GPU says when it cannot say more
    "readonly-write",  # a store to an input that was declared const
    "use-after-free",
    "async-copy-not-awaited",  # shared memory touched while a copy into it is under way
    "missing-syncwarp",  # lanes of one warp, unordered: a warning
    "barrier-mismatch",  # wrong thread counts, or arrivals at different barriers
    "leak",  # device malloc without free: a warning
    "invalid-free",
    "double-free",
)


class DeviceLost(DeviceError):
    """A sticky CUDA error: this process can use the GPU no more."""


class DeviceTimeout(DeviceError):
    """The work did not finish within its time budget and was killed."""


class JournalError(WarpsmithError):
    """A journal file cannot be read or written."""


class OperatorError(WarpsmithError):
    """A saved operator cannot be loaded or does not fit this machine."""
