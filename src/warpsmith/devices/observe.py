"""Watch every launch inside a `with` block: what ran, what it counted, what it printed."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import DeviceTimeout, UsageError
from ..spec import Artifact, Launch, Target


@dataclass(eq=False)
class Session:
    """What one `observe` block asks of launches, and what it has seen of them so far.

    launches: in order. kernels: build facts, one mapping per artifact. printed: what kernels
    printed, in order. counters: of each launch, where counted. notes: facts that are no errors, such as arguments that are not contiguous.
    tensors: per launch, the argument names and their (address, bytes).
    """

    target: Target | None = None
    count: bool = True
    max_instructions: int | None = None
    max_seconds: float | None = None
    synchronous: bool = False
    caches: bool = False  # also estimate what the caches do
    options: Mapping[str, Any] = field(default_factory=dict)  # schedule, seed, workers, checks
    launches: list[Launch] = field(default_factory=list)
    kernels: list[Mapping[str, Any]] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counters: list[Any] = field(default_factory=list)  # vgpu.Counters, with their sites
    tensors: list[Mapping[str, tuple[int, int]]] = field(default_factory=list)
    findings: list[Any] = field(default_factory=list)  # vgpu.Fault of every launch, warnings too
    written: set[int] = field(default_factory=set)  # addresses that launches were free to write
    sources: dict[str, str] = field(default_factory=dict)  # file name -> text, of what was launched
    seconds: float = 0.0  # spent in the virtual GPU
    _known: set[str] = field(default_factory=set)

    def __repr__(self) -> str:
        name = self.target.name if self.target else None
        return f"Session(target={name!r}, launches={len(self.launches)})"

    def remaining_seconds(self) -> float | None:
        """What is left of `max_seconds`. Raises DeviceTimeout when nothing is."""
        if self.max_seconds is None:
            return None
        left = self.max_seconds - self.seconds
        if left <= 0:
            raise DeviceTimeout(
                f"{len(self.launches)} launches took the {self.max_seconds:g} s that they may "
                "take together: smaller inputs, or a larger max_seconds"
            )
        return left

    def takes_fresh(self, address: int, names: Iterable[str]) -> bool:
        """Whether the memory of these arguments counts as not written yet (option `fresh`)."""
        fresh = self.options.get("fresh", ())
        return address not in self.written and all(name in fresh for name in names)

    def built(self, artifact: Artifact, name: str) -> None:
        """Note the build facts of an artifact, once."""
        if artifact.id in self._known:
            return
        self._known.add(artifact.id)
        if artifact.source_name and artifact.source:
            self.sources[artifact.source_name] = artifact.source
        self.kernels.append({"name": name} | build_facts(artifact))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def build_facts(artifact: Artifact) -> dict[str, Any]:
    """What the compiler says of a kernel, as plain data."""
    needs = artifact.resources
    return {
        "entry": artifact.kernel,
        "arch": artifact.arch,
        "language": artifact.language,
        "registers": needs.registers,
        "spill_bytes": needs.spill_bytes,
        "stack_bytes": needs.stack_bytes,
        "static_shared_bytes": needs.static_shared_bytes,
        "barriers": needs.barriers,
        "artifact": artifact.id,
    }


_session: contextvars.ContextVar[Session | None] = contextvars.ContextVar("session", default=None)
open_sessions: list[Session] = []  # of every thread, in the order of opening


@contextlib.contextmanager
def observe(
    target: Target | str | None = None,
    *,
    count: bool = True,
    max_instructions: int | None = None,
    max_seconds: float | None = None,
    synchronous: bool = False,
    caches: bool = False,
    **options: Any,
) -> Iterator[Session]:
    """Collect the launches made inside the block.

    target: what the virtual GPU imitates; a CUDA device is its own target. count: exact counters,
    on the virtual GPU. max_instructions: for each launch. max_seconds: for all launches together.
    synchronous: wait for each CUDA launch, so that a fault names the kernel that made it.
    caches: on the virtual GPU, also estimate hit rates and DRAM bytes.
    Other options go to the virtual GPU: schedule, seed, workers, and checks (a vgpu.Checks: run under
    the sanitizer, and collect what it finds in `findings`), and fresh: names of arguments whose memory
    is as torch.empty leaves it, so that with checks reading it before the first launch that may write
    it is a finding; and sample: of a larger grid run about so many blocks and scale their counters,
    which leaves outputs incomplete. Blocks nest; the inner one sees.

        with observe(count=True) as seen:
            kernel[grid, block](x, out, n)
        seen.launches[0].counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    """
    if isinstance(target, str):
        from .. import targets

        target = targets.get(target)
    unknown = set(options) - {"schedule", "seed", "workers", "checks", "fresh", "sample"}
    if unknown:
        raise UsageError(
            f"observe has no option {', '.join(sorted(unknown))}: expected target, count, "
            "max_instructions, max_seconds, synchronous, caches, schedule, seed, workers, checks, "
            "fresh or sample"
        )
    session = Session(target, count, max_instructions, max_seconds, synchronous, caches, options)
    token = _session.set(session)
    open_sessions.append(session)
    try:
        yield session
    finally:
        open_sessions.remove(session)
        _session.reset(token)


def current() -> Session | None:
    """The innermost session in force here.

    PyTorch runs backward of CUDA tensors in threads of its own, which inherit no context: there it
    is the session that was opened last.
    """
    if not open_sessions:
        return None
    session = _session.get()
    if session is None and isinstance(threading.current_thread(), threading._DummyThread):
        return open_sessions[-1]
    return session
