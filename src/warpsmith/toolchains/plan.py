"""Say which compilations a candidate's files ask for, from their text alone."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import CompileError, Diagnostic
from ..spec import Candidate
from .cuda import line_of
from .includes import included

_COMPUTED = object()  # stands for an argument whose value the text does not say


@dataclass(frozen=True)
class Job:
    """One CUDA source to compile, as a call of `ws.cuda` would."""

    name: str
    text: str
    kernel: str | None = None
    first_line: int = 1  # of the text, in the file called name
    options: tuple[str, ...] = ()
    defines: Mapping[str, Any] = field(default_factory=dict)


def plan(candidate: Candidate) -> tuple[list[Job], list[str]]:
    """The jobs of a candidate, and a note for every file that is left to the launch.

    Raises CompileError where a Python file does not parse.
    """
    calls: dict[str, list[dict[str, Any]]] = {}
    for name, text in candidate.files.items():
        if name.endswith(".py"):
            for source, call in _cuda_calls(_parsed(name, text)):
                calls.setdefault(source, []).append(call)
    texts = {s: s for s in calls if "\n" in s} | _roots(candidate.files)
    jobs, notes = [], []
    for key, text in texts.items():
        name, first_line = _place(key, candidate.files)
        for call in calls.get(key, [{}]):
            computed = [k for k in ("options", "defines") if call.get(k) is _COMPUTED]
            if computed:
                notes.append(
                    f"{name} is compiled at its launch: {' and '.join(computed)} are computed"
                )
            else:
                jobs.append(_job(name, text, first_line, call))
    return _distinct(jobs), list(dict.fromkeys(notes))


def _roots(files: Mapping[str, str]) -> dict[str, str]:
    """CUDA files that no other file of the candidate includes."""
    inside = {n for name, text in files.items() if not name.endswith(".py") for n in included(text)}
    return {n: t for n, t in files.items() if n.endswith(".cu") and n not in inside}


def _parsed(name: str, text: str) -> ast.Module:
    try:
        return ast.parse(text, name)
    except SyntaxError as error:
        shown = f": {error.text.strip()}" if error.text else ""
        found = Diagnostic(
            "error", f"{error.msg}{shown}", name, error.lineno or 0, error.offset or 0
        )
        raise CompileError("Python", [found], str(error)) from None


def _cuda_calls(module: ast.Module) -> Iterator[tuple[str, dict[str, Any]]]:
    """Source and keyword values of every call of a function named `cuda`."""
    constants = dict(_constants(module))
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and _called(node.func) == "cuda":
            given = dict(itertools.zip_longest(("source", "kernel"), node.args[:2]))
            given |= {k.arg: k.value for k in node.keywords if k.arg}
            values = {k: _value(v, constants) for k, v in given.items() if v is not None}
            source = values.pop("source", _COMPUTED)
            if isinstance(source, str):
                yield source, values


def _constants(module: ast.Module) -> Iterator[tuple[str, Any]]:
    for node in module.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            value = _value(node.value, {})
            if isinstance(target, ast.Name) and value is not _COMPUTED:
                yield target.id, value


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _value(node: ast.expr, constants: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return constants.get(node.id, _COMPUTED)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return _COMPUTED


def _place(source: str, files: Mapping[str, str]) -> tuple[str, int]:
    """File and first line of a source: its own file, or the Python file that holds its text."""
    if "\n" not in source:
        return source, 1
    for name, text in files.items():
        line = line_of(source, text) if name.endswith(".py") else None
        if line is not None:
            return name, line
    return "kernel.cu", 1


def _job(name: str, text: str, first_line: int, call: Mapping[str, Any]) -> Job:
    kernel = call.get("kernel")
    return Job(
        name,
        text,
        kernel if isinstance(kernel, str) else None,
        first_line,
        tuple(call.get("options") or ()),
        call.get("defines") or {},
    )


def _distinct(jobs: list[Job]) -> list[Job]:
    """One job per compilation: kernels of one source share theirs unless they are instantiations."""
    seen: dict[Any, Job] = {}
    for job in jobs:
        template = job.kernel if job.kernel and "<" in job.kernel else None
        key = (
            job.name,
            job.text,
            template,
            job.options,
            tuple(sorted(map(str, job.defines.items()))),
        )
        seen.setdefault(key, job)
    return list(seen.values())
