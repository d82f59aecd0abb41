"""Launch a compiled kernel where its tensors are: a CUDA GPU, or the virtual GPU for CPU tensors."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import targets
from ..errors import LaunchError
from ..spec import Artifact, Launch, Target
from . import arguments, limits
from .observe import Session, current

if TYPE_CHECKING:
    from .cuda import Function

DEFAULT_TARGET = "h100"


@dataclass(slots=True)
class Request:
    """A launch whose form has been checked: what to run, how large, on what."""

    artifact: Artifact
    name: str  # of the kernel, as people write it
    grid: limits.Triple
    block: limits.Triple
    shared_bytes: int  # dynamic
    args: Sequence[Any]
    cooperative: bool = False

    def seen_by(self, session: Session, counters: Mapping[str, float] | None = None) -> None:
        """Enter this launch, its build facts and its odd arguments in a session."""
        session.built(self.artifact, self.name)
        for parameter, value in zip(self.artifact.parameters, self.args):
            if hasattr(value, "shape") and not arguments.contiguous(value):
                strides = value.stride() if hasattr(value, "data_ptr") else value.strides
                session.note(
                    f"{self.name}: {parameter.name!r} is not contiguous: shape "
                    f"{tuple(value.shape)}, strides {tuple(strides)}"
                )
        session.launches.append(
            Launch(
                kernel=self.name,
                grid=self.grid,
                block=self.block,
                shared_bytes=self.shared_bytes,
                registers=self.artifact.resources.registers,
                artifact=self.artifact.id,
                counters=counters or {},
            )
        )


def launch(
    artifact: Artifact,
    grid: Any,
    block: Any,
    shared_bytes: int = 0,
    args: Sequence[Any] = (),
    *,
    cooperative: bool = False,
    target: Target | None = None,
) -> Function | None:
    """Run one kernel: on the current stream of CUDA tensors' device, or now, on the virtual GPU.

    grid, block: an int or a tuple of up to three. shared_bytes: dynamic. args: one per parameter:
    tensors (PyTorch or NumPy) for pointers, None for a null pointer, Python numbers, and bytes,
    ctypes structures or tuples for structs and vector types. target: what the virtual GPU imitates;
    without it the enclosing `observe` says, then the artifact's architecture.
    Without any tensor the virtual GPU runs it. Gives the loaded kernel of a CUDA device, whose
    `again` makes launches like this one at less cost, else None.

    Raises LaunchError or DtypeError naming the parameter where something does not fit, KernelFault
    for what the kernel does wrong (on CUDA at a later call, except in a synchronous `observe`).
    """
    name = arguments.readable(artifact.kernel)
    arguments.check_count(name, artifact, args)
    index = arguments.cuda_index(args)
    request = Request(
        artifact,
        name,
        limits.triple(name, "grid", grid),
        limits.triple(name, "block", block),
        _shared(name, shared_bytes),
        args,
        cooperative,
    )
    session = current()
    if index is not None:
        from .cuda import launch_on

        function = launch_on(index, request, session)
        function.remember(grid, block, request)
        return function
    from .virtual import VirtualGpu

    arguments.place_of(name, args)
    VirtualGpu(target or (session and session.target) or imitated(artifact)).run(request, session)
    return None


def imitated(artifact: Artifact) -> Target:
    """The part that an artifact's architecture stands for: the default one if it fits."""
    default = targets.get(DEFAULT_TARGET)
    if default.arch == artifact.arch:
        return default
    parts = [targets.get(name) for name in targets.names()]
    same = [p for p in parts if p.arch == artifact.arch]
    fits = [p for p in parts if limits.runs_on(artifact.arch, p.compute_capability)]
    if not fits:
        raise LaunchError(
            f"no target in the catalogue runs code for {artifact.arch}: pass target=, "
            f"one of {', '.join(targets.names())}"
        )
    if same:
        # datacenter parts first: they are what a bare architecture usually means
        return max(same, key=lambda p: p.memory_gbps)
    return default if default in fits else fits[-1]


def _shared(name: str, shared_bytes: Any) -> int:
    if not hasattr(shared_bytes, "__index__") or isinstance(shared_bytes, bool):
        raise LaunchError(f"{name}: shared_bytes is {shared_bytes!r}; expected an int of bytes")
    if int(shared_bytes) < 0:
        raise LaunchError(f"{name}: shared_bytes is {shared_bytes}; expected 0 or more")
    return int(shared_bytes)
