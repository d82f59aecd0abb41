"""The whole plug-in contract on one page: what a toolchain, a device and a proposer must do.

A plug-in is a Python distribution with an entry point in one of the groups of `GROUPS`. The entry
point names a callable without arguments that gives the object (a factory, so nothing heavy loads
until it is asked for). Built-ins come in by the same door. Two plug-ins of one name are an error
that names both.

    [project.entry-points."warpsmith.proposers"]
    mine = "my_package:MyProposer"
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from .artifact import Artifact
from .candidate import Candidate
from .record import Launch, Outcome, Record
from .target import Target
from .task import Case, Task

GROUPS = {
    "toolchain": "warpsmith.toolchains",
    "device": "warpsmith.devices",
    "proposer": "warpsmith.proposers",
    "suite": "warpsmith.suites",
    "pack": "warpsmith.packs",
    "command": "warpsmith.commands",
}


@runtime_checkable
class Toolchain(Protocol):
    """Source -> artifact, without a GPU."""

    language: str

    def build(self, source: Any, target: Target, *, options: Mapping[str, Any]) -> Artifact:
        """Compile one kernel. Raises CompileError (the source is wrong) or MissingTool."""
        ...


@dataclass(frozen=True)
class Work:
    """What a device is asked to run: a candidate on the inputs of one case.

    inputs: CPU tensors and numbers. state: the reference's parameters and buffers by name, CPU.
    init_inputs: the constructor arguments of the KernelBench form. A device copies all of them to
    where it runs, into 256-byte-aligned memory, and hands the candidate only its copies.
    """

    candidate: Candidate
    inputs: Sequence[Any]
    state: Mapping[str, Any] = field(default_factory=dict)
    init_inputs: Sequence[Any] = ()
    case: Case = field(default_factory=Case)
    gradients: Sequence[Any] | None = None  # of the outputs: also run backward
    training: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Run:
    """What came of it. Failure is a value: outcome says which, message says what to do about it."""

    outcome: Outcome
    outputs: tuple[Any, ...] = ()  # CPU tensors
    gradients: tuple[Any, ...] = ()  # of floating-point inputs, then of state, in order
    message: str = ""
    source: str = ""  # file:line where known
    changed_inputs: tuple[int, ...] = ()  # indices of inputs that were written
    launches: tuple[Launch, ...] = ()
    kernels: tuple[Mapping[str, Any], ...] = ()  # build facts: name, arch, registers, spill_bytes
    printed: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class TimingPlan:
    """How long to measure, and against what. `baselines`: "eager", "compile", … (see `devices`)."""

    baselines: Sequence[str] = ("eager", "compile")
    blocks: int = 20
    block_ms: float = 10.0
    max_seconds: float = 30.0


@dataclass(frozen=True)
class Samples:
    """What the clock said. Statistics are made of it elsewhere, in `measure`.

    blocks: each maps "candidate" and the baselines' names to microseconds per call, all measured
    close in time and in random order, so that ratios are taken within a block.
    """

    blocks: tuple[Mapping[str, float], ...]
    missing: Mapping[str, str] = field(default_factory=dict)  # baseline -> why there is no time
    environment: Mapping[str, Any] = field(default_factory=dict)  # device, driver, clocks, versions
    method: str = ""


@runtime_checkable
class Device(Protocol):
    """Runs candidates and says what happened. One seam: cuda, virtual, isolated, recorded."""

    name: str  # "cuda", "virtual"
    target: Target
    modelled: bool  # True: it has no clock; `measure` models times from the counters of its runs

    def run(self, work: Work, *, max_seconds: float = 60.0) -> Run:
        """Run once. Never raises for what the candidate does."""
        ...

    def time(self, task: Task, work: Work, plan: TimingPlan) -> Samples:
        """Time a candidate on one work, and the task's reference beside it, in one process.

        Raises DeviceError if the candidate fails now: it was right before.
        """
        ...

    def close(self) -> None: ...


@runtime_checkable
class Proposer(Protocol):
    """Suggests the next candidates. It sees the task and every record so far, best or worst."""

    name: str

    def propose(self, task: Task, records: Sequence[Record]) -> Iterable[Candidate]:
        """The next batch, best guess first; empty when it has nothing more to say.

        `explain()` of the same object, where defined, says in a sentence why it proposed nothing.
        """
        ...


def load_plugin(kind: str, name: str) -> Callable[[], Any]:
    """The factory that a plug-in registered. Raises UnknownName or NameClash."""
    from importlib.metadata import entry_points

    from ..errors import NameClash, UnknownName

    found = [e for e in entry_points(group=GROUPS[kind]) if e.name == name]
    if not found:
        raise UnknownName(kind, name, (e.name for e in entry_points(group=GROUPS[kind])))
    if len({e.value for e in found}) > 1:
        claims = " and ".join(sorted({e.value for e in found}))
        raise NameClash(f"{kind} {name!r} is claimed by {claims}; uninstall one of them")
    factory: Callable[[], Any] = found[0].load()
    return factory


def plugin_names(kind: str) -> list[str]:
    from importlib.metadata import entry_points

    return sorted({e.name for e in entry_points(group=GROUPS[kind])})
