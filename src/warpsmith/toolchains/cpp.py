"""Compile C++ for this machine: shared libraries to call from Python, object files to ship."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from ..errors import CompileError, MissingTool
from . import cache as kept
from .diagnostics import of_gcc

STANDARD = ("-std=c++17", "-O3", "-march=native")


@cache
def compiler() -> tuple[str, ...]:
    """The C++ compiler's command: `$WARPSMITH_CXX`, else c++, g++, clang++, else the ziglang wheel.

    Raises MissingTool when there is none.
    """
    if named := os.environ.get("WARPSMITH_CXX"):
        return tuple(named.split())
    for name in ("c++", "g++", "clang++"):
        if path := shutil.which(name):
            return (path,)
    if importlib.util.find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang", "c++")
    raise MissingTool(
        "a C++ compiler", "neither c++, g++, clang++ nor the ziglang wheel was found",
        "pip install 'warpsmith[cc]'",
    )  # fmt: skip


def version() -> str:
    """What the compiler says of itself, first line."""
    said = subprocess.run([*compiler(), "--version"], capture_output=True, text=True, timeout=60)
    return said.stdout.splitlines()[0] if said.stdout else ""


def library(
    source: str, files: Mapping[str, str | bytes], *, flags: Sequence[str] = STANDARD,
    objects: Sequence[str] = (),
) -> Path:  # fmt: skip
    """A shared library of one source and the files it includes, compiled once and kept by content.

    objects: names in `files` that are assembled and linked too. Raises CompileError.
    """
    hidden = ("-fPIC", "-fvisibility=hidden", "-shared")
    parts = [part for item in sorted(files.items()) for part in item]
    name = kept.key("cpp", version(), " ".join(flags), source, *objects, *parts)
    path = kept.folder() / "cpp" / f"{name}.so"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        folder = Path(scratch)
        _spread(folder, {"main.cpp": source, **files})
        _compile([*flags, *hidden, "main.cpp", *objects, "-o", "made.so"], folder)
        os.replace(folder / "made.so", path)
    return path


def object_file(assembly: str, files: Mapping[str, bytes]) -> bytes:
    """The object file of an assembly text that includes binary files. Raises CompileError."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        _spread(folder, {"main.S": assembly, **files})
        _compile(["-c", "main.S", "-o", "made.o"], folder)
        return (folder / "made.o").read_bytes()


def _spread(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)


def _compile(arguments: Sequence[str], folder: Path) -> None:
    done = subprocess.run([*compiler(), *arguments], capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise CompileError("C++", of_gcc(done.stderr), done.stderr)
