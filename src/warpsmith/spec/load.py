"""Read tasks and candidates from the files people write."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ast
import re
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import CandidateError, TaskError
from .candidate import ENTRY, Candidate
from .task import Case, Task, Tolerance

_HOST_BLOCK = re.compile(r"/\*\s*host\.py[^\n]*\n(.*?)\*/", re.DOTALL)


def load_task(path: str | Path, name: str | None = None) -> Task:
    """A task from a Python file, in one of two forms.

    The KernelBench form defines `Model`, `get_inputs()` and, where the model takes arguments,
    `get_init_inputs()`. The richer form adds any of

        RANGES = {"rows": (1, 8192), "cols": (1, 16384)}  # sizes: keyword arguments of get_inputs
        CASES = [{"rows": 7, "cols": 4097}]               # further sizes that must be right
        TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}          # or {"exact": True}
        BACKWARD = True

    or defines `task = ws.Task(...)` itself. Raises TaskError saying what is missing.
    """
    path = Path(path)
    if not path.is_file():
        raise TaskError(f"no task file at {path}: expected a Python file with Model and get_inputs")
    source = path.read_text()
    module = execute(source, path)
    if isinstance(module.get("task"), Task):
        given: Task = module["task"]
        return _replace(given, source=source, path=str(path.resolve()))
    for needed in ("Model", "get_inputs"):
        if needed not in module:
            raise TaskError(
                f"{path} defines no {needed!r}. A task file defines `class Model(nn.Module)`, "
                "`get_inputs()` and `get_init_inputs()`, or `task = warpsmith.Task(...)`."
            )
    return Task(
        name=name or (path.stem if path.stem != "task" else path.resolve().parent.name),
        model=module["Model"],
        get_inputs=module["get_inputs"],
        get_init_inputs=module.get("get_init_inputs", tuple),
        ranges=module.get("RANGES", {}),
        cases=tuple(_case(c) for c in module.get("CASES", ())),
        tolerance=_tolerance(module.get("TOLERANCE"), path),
        backward=bool(module.get("BACKWARD", False)),
        source=source,
        path=str(path.resolve()),
    )


def load_candidate(path: str | Path) -> Candidate:
    """A candidate from a folder with `candidate.py`, a Python file, or a CUDA file.

    A Python file defines `run(inputs, state)` or `ModelNew`; kernel files whose names it mentions
    are taken along from its folder. A CUDA file carries its host side in a comment:

        /* host.py
        def run(inputs, state):
            (x,) = inputs
            out = torch.empty_like(x)
            kernel[(x.numel() + 255) // 256, 256](x, out, x.numel())
            return out
        */

    where `kernel` is the file's kernel (`kernels["name"]` if it has several), and `torch` and `ws`
    are imported.
    """
    path = Path(path)
    if path.is_dir():
        files = {
            p.name: p.read_text() for p in sorted(path.iterdir()) if p.is_file() and _is_text(p)
        }
        return Candidate(path.name, language_of(files), files)
    if not path.is_file():
        raise CandidateError(f"no kernel at {path}: expected a .py or .cu file, or a folder")
    text = path.read_text()
    if path.suffix in (".cu", ".cuh"):
        files = {ENTRY: host_of_cuda(text, path.name), path.name: text}
        files |= _mentioned(text, path.parent)
        return Candidate(path.stem, "cuda", files)
    files = {ENTRY: text} | _mentioned(text, path.parent)
    return Candidate(path.stem, language_of(files), files)


def host_of_cuda(text: str, file_name: str) -> str:
    """The host module in a CUDA file's `/* host.py … */` comment, as source of candidate.py."""
    found = _HOST_BLOCK.search(text)
    if not found:
        raise CandidateError(
            f"{file_name} has no '/* host.py … */' comment that says how to launch it. Add one that "
            "defines run(inputs, state), or write a Python file beside it that calls ws.cuda."
        )
    names = kernel_names(text)
    line = text[: found.start(1)].count("\n")
    prelude = f"import torch, warpsmith as ws; kernels = {{n: ws.cuda({file_name!r}, n) for n in {names!r}}}"
    if len(names) == 1:
        prelude += f"; kernel = kernels[{names[0]!r}]"
    return prelude + "\n" * max(line, 1) + found.group(1)


def kernel_names(text: str) -> list[str]:
    """Names of the `__global__` functions of a CUDA source, in order, comments left out.

    >>> kernel_names("__global__ void f(int) {} // __global__ void g()")
    ['f']
    """
    bare = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    pattern = r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*|static\s+|inline\s+)*void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\("
    return list(dict.fromkeys(re.findall(pattern, bare)))


def language_of(files: Mapping[str, str]) -> str:
    """The language of a candidate's kernels, from its files."""
    if any(name.endswith((".cu", ".cuh")) for name in files):
        return "cuda"
    entry = files.get(ENTRY, "")
    if re.search(r"^\s*(import|from)\s+triton\b", entry, re.MULTILINE):
        return "triton"
    if "__global__" in entry:
        return "cuda"
    return "torch"


def execute(source: str, path: str | Path, **names: Any) -> dict[str, Any]:
    """Run a Python file's text as a module of its own and give its names.

    The module is entered in `sys.modules` and its lines in `linecache`, so that pickling, Triton and
    tracebacks find it. Raises TaskError for a syntax error, with file and line.
    """
    import linecache

    try:
        code = compile(source, str(path), "exec")
    except SyntaxError as error:
        raise TaskError(
            f"{path}:{error.lineno}: {error.msg}: {(error.text or '').strip()}"
        ) from None
    module = types.ModuleType(f"warpsmith_file_{abs(hash((str(path), source))):x}")
    module.__file__ = str(path)
    module.__dict__.update(names)
    sys.modules[module.__name__] = module
    linecache.cache[str(path)] = (len(source), None, source.splitlines(keepends=True), str(path))
    exec(code, module.__dict__)
    return module.__dict__


def _mentioned(text: str, folder: Path) -> dict[str, str]:
    """Sibling files named in the text by a string literal or a quoted include, and in those in turn."""
    found: dict[str, str] = {}
    unread = [text]
    while unread:
        names = re.findall(r"[\"']([\w.\-]+\.(?:cu|cuh|h|hpp|py|ptx))[\"']", unread.pop())
        for name in names:
            if name not in found and (folder / name).is_file():
                found[name] = (folder / name).read_text()
                unread.append(found[name])
    return found


def _is_text(path: Path) -> bool:
    return path.suffix in (".py", ".cu", ".cuh", ".h", ".hpp", ".ptx", ".cpp", ".rs")


def _case(given: Any) -> Case:
    return given if isinstance(given, Case) else Case(dict(given))


def _tolerance(given: Any, path: Path) -> Tolerance | None:
    if given is None or isinstance(given, Tolerance):
        return given
    try:
        return Tolerance(**given)
    except TypeError:
        raise TaskError(
            f"{path}: TOLERANCE is {given!r}; expected a dict with rtol, atol or exact"
        ) from None


def _replace(task: Task, **changes: Any) -> Task:
    import dataclasses

    return dataclasses.replace(task, **changes)


def defines(source: str, name: str) -> bool:
    """Whether Python source defines a function, class or variable of that name at the top level."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return False
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return True
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == name for t in node.targets
        ):
            return True
    return False
