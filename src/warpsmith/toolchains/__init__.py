"""Source to artifact: CUDA C++ and Triton, compiled for a named target with no GPU present."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import CompileError, Diagnostic, ToolchainError, UsageError
from ..spec import Built, Outcome, Record, Verdict

if TYPE_CHECKING:
    from ..spec import Artifact, Device, Task

__all__ = ["build", "report"]


def build(task: Task, record: Record, device: Device) -> Record:
    """The first stage of a record: does the candidate compile for the device's target?

    Every Python file must parse. Every CUDA file that no other includes is compiled with the macros
    and options that the candidate's calls of `ws.cuda` write down; where those are computed, the
    file is left to the launch, and the log says so. Triton compiles at the launch, for the types of
    its arguments. Fills `built`, and on failure a COMPILE_FAILED verdict with file and line.

    Raises MissingTool where there is a CUDA file and no compiler for it.
    """
    from .plan import plan

    started = time.perf_counter()
    found: dict[str, Artifact] = {}
    try:
        jobs, notes = plan(record.candidate)
        for job in jobs:
            found |= {a.id: a for a in _compiled(job, record, device)}
    except CompileError as error:
        seconds = time.perf_counter() - started
        built = Built(tuple(_facts(found)), seconds, error.log)
        return replace(record, built=built, verdict=_verdict(error, seconds))
    seconds = time.perf_counter() - started
    return replace(record, built=Built(tuple(_facts(found)), seconds, "\n".join(notes)))


def report() -> list[dict[str, Any]]:
    """Facts for `warpsmith doctor`: each tool with its version and place, or why it is not there."""
    return [{"name": name} | _asked(ask) for name, ask in _TOOLS.items()]


def _compiled(job: Any, record: Record, device: Device) -> tuple[Artifact, ...]:
    from .cuda import compile_source

    headers = {n: t for n, t in record.candidate.files.items() if n != job.name}
    try:
        return compile_source(
            job.text,
            device.target,
            name=job.name,
            kernel=job.kernel,
            options=job.options,
            defines=job.defines,
            headers=headers,
            first_line=job.first_line,
        )
    except UsageError:  # the same call raises it again at the launch, at the host's own line
        return ()


def _facts(found: dict[str, Artifact]) -> Iterator[dict[str, Any]]:
    from .signature import readable

    for artifact in found.values():
        yield {
            "name": readable(artifact.kernel),
            "arch": artifact.arch,
            "registers": artifact.resources.registers,
            "spill_bytes": artifact.resources.spill_bytes,
            "static_shared_bytes": artifact.resources.static_shared_bytes,
        }


def _verdict(error: CompileError, seconds: float) -> Verdict:
    wrong = [d for d in error.diagnostics if d.severity == "error"]
    first = wrong[0] if wrong else Diagnostic("error", error.log.strip()[:500])
    message = "\n".join(str(d) for d in wrong[:5]) or first.message
    source = f"{first.file}:{first.line}" if first.file else ""
    return Verdict(Outcome.COMPILE_FAILED, message, source, seconds=seconds)


def _asked(ask: Any) -> dict[str, Any]:
    try:
        return {"found": True, **ask()}
    except ToolchainError as error:
        return {"found": False, "why": str(error)}


def _nvrtc() -> dict[str, Any]:
    from . import nvrtc

    archs = [f"sm_{n}" for n in nvrtc.supported()]
    return {"version": ".".join(map(str, nvrtc.version())), "architectures": archs}


def _headers() -> dict[str, Any]:
    from . import nvrtc

    return {"path": nvrtc.include_folders()[0]}


def _triton() -> dict[str, Any]:
    from . import triton

    return {"version": triton.version(), "path": str(triton.folder())}


def _ptxas() -> dict[str, Any]:
    from . import ptxas

    path = ptxas.find()
    if path is None:
        raise ToolchainError(
            "no ptxas on PATH, in the CUDA wheels or in Triton: registers stay unknown"
        )
    return {"version": ptxas.version(path), "path": path}


def _nvcc() -> dict[str, Any]:
    path = shutil.which("nvcc")
    if path is None:
        raise ToolchainError("not on PATH; nothing here needs it")
    return {"path": path}


def _cache() -> dict[str, Any]:
    from . import cache

    return {
        "path": str(cache.folder()),
        "entries": sum(1 for _ in cache.folder().glob("??/*.json")),
    }


_TOOLS = {
    "nvrtc": _nvrtc,
    "cuda headers": _headers,
    "triton": _triton,
    "ptxas": _ptxas,
    "nvcc": _nvcc,
    "compile cache": _cache,
}
