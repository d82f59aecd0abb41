"""What a kernel costs an SM: registers, spills, stack and shared memory, as the assembler reports them."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..errors import CompileError
from ..spec import Resources
from . import cache
from .diagnostics import errors, read_log

_KERNEL = re.compile(r"Compiling entry function '([^']+)'")
_FIELDS = {
    "registers": re.compile(r"Used (\d+) registers"),
    "barriers": re.compile(r"used (\d+) barriers"),
    "static_shared_bytes": re.compile(r"(\d+) bytes smem"),
    "stack_bytes": re.compile(r"(\d+) bytes stack frame"),
    "spill_bytes": re.compile(r"(\d+) bytes spill stores"),
}


def read_report(log: str) -> dict[str, Resources]:
    """Resources by kernel, from the text that `ptxas -v` prints.

    Barriers and shared memory that the report does not name are none.
    """
    parts = _KERNEL.split(log)
    return {name: _resources(text) for name, text in zip(parts[1::2], parts[2::2])}


def report(ptx: str, arch: str) -> dict[str, Resources]:
    """Assemble PTX to ask for its resources, by kernel; empty where there is no ptxas.

    Raises CompileError where the assembler refuses the PTX.
    """
    path = find(ptx)
    if path is None:
        return {}
    name = cache.key("ptxas", version(path), arch, ptx)
    found = cache.load(name)
    if found is None:
        found = {
            kernel: {field: getattr(r, field) for field in Resources.__dataclass_fields__}
            for kernel, r in read_report(_assemble(path, ptx, arch)).items()
        }
        cache.store(name, found)
    return {kernel: Resources(**fields) for kernel, fields in found.items()}


def find(ptx: str = "") -> str | None:
    """A ptxas that reads this PTX: on PATH, in the CUDA wheels, or Triton's own. None if there is none.

    `ptx` says which PTX version must be understood; without it the first one found will do.
    """
    wanted = re.search(r"^\s*\.version\s+(\d+)\.(\d+)", ptx, re.MULTILINE)
    need = (int(wanted[1]), int(wanted[2])) if wanted else (0, 0)
    return next((path for path in _found() if _reads(path) >= need), None)


@functools.cache
def version(path: str) -> str:
    """The release a ptxas calls itself: '13.0'; '' where it does not run."""
    try:
        text = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=30
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    match = re.search(r"release (\d+\.\d+)", text)
    return match[1] if match else ""


@functools.cache
def _found() -> tuple[str, ...]:
    return tuple(dict.fromkeys(p for p in _places() if os.access(p, os.X_OK) and version(p)))


def _places() -> Iterator[str]:
    if on_path := shutil.which("ptxas"):
        yield on_path
    if home := os.environ.get("CUDA_HOME"):
        yield str(Path(home) / "bin" / "ptxas")
    for folder in _package_folders("nvidia"):
        yield from (str(p) for p in sorted(folder.glob("*/bin/ptxas"), reverse=True))
    for folder in _package_folders("triton"):
        for name in ("ptxas", "ptxas-blackwell"):
            yield str(folder / "backends" / "nvidia" / "bin" / name)


def _package_folders(name: str) -> list[Path]:
    found = importlib.util.find_spec(name)
    return [Path(p) for p in (found.submodule_search_locations or ())] if found else []


def _reads(path: str) -> tuple[int, int]:
    """The newest PTX version a ptxas reads: 9.x for CUDA 13.x, 8.x for 12.x, one less from 12.6 on."""
    release = version(path)
    major, minor = (int(n) for n in release.split(".")) if release else (0, 0)
    return (major - 4, minor - 1 if major == 12 and minor >= 6 else minor)


def _assemble(path: str, ptx: str, arch: str) -> str:
    with tempfile.TemporaryDirectory(prefix="warpsmith-") as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        done = subprocess.run(
            [path, "-v", f"-arch={arch}", str(source), "-o", str(Path(folder) / "kernel.cubin")],
            capture_output=True,
            text=True,
            timeout=600,
        )
    log = done.stdout + done.stderr
    if done.returncode != 0:
        raise CompileError("PTX", errors(read_log(log, ptx)), log)
    return log


def _resources(text: str) -> Resources:
    values = {field: pattern.search(text) for field, pattern in _FIELDS.items()}
    numbers = {field: int(match[1]) for field, match in values.items() if match}
    return Resources(**{"static_shared_bytes": 0, "barriers": 0} | numbers)
