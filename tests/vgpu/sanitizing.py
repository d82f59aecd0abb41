"""Run kernels under the sanitizer and compare what it finds with the comments in their source."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
from compile import cuda

from warpsmith import vgpu
from warpsmith.vgpu.memory import copy_of

SOURCE = Path(__file__).parent / "kernels" / "sanitizer.cu"
SEVERITIES = {"FAULT": "error", "WARNING": "warning", "INFO": "info"}


@cache
def text() -> str:
    return SOURCE.read_text()


@cache
def module(source: str = "", arch: str = "sm_80") -> vgpu.Module:
    return vgpu.load(cuda(source or text(), arch))


@cache
def expected() -> dict[str, tuple[str, str, frozenset[int]]]:
    """kernel -> (severity, kind, lines) of the fault that its source declares."""
    found: dict[str, tuple[str, str, frozenset[int]]] = {}
    kernel = ""
    for number, line in enumerate(text().splitlines(), 1):
        if started := re.match(r"KERNEL (\w+)", line):
            kernel = started[1]
        if kernel and (said := re.search(r"// (FAULT|WARNING|INFO) ([\w-]+)", line)):
            lines = found[kernel][2] if kernel in found else frozenset()
            found[kernel] = (SEVERITIES[said[1]], said[2], lines | {number})
    return found


def run(kernel: str, grid, block, *args, source: str = "", arch: str = "sm_80", fresh=(),
        checks: vgpu.Checks | None = None, **options) -> vgpu.LaunchResult:  # fmt: skip
    """Launch with all checks; arrays are copied in, and are called arg0, arg1, …"""
    memory, values, kept = vgpu.Memory(), [], []
    for i, arg in enumerate(args):
        if isinstance(arg, np.ndarray):
            kept.append(copy_of(arg))
            memory.register(kept[-1].ctypes.data, arg.nbytes, f"arg{i}", element_bytes=arg.itemsize,
                            initialized=i not in fresh)  # fmt: skip
            arg = kept[-1].ctypes.data
        values.append(arg)
    return module(source, arch).launch(kernel, grid, block, values, memory=memory,
                                       checks=checks or vgpu.Checks.all(), **options)  # fmt: skip


def finds(result: vgpu.LaunchResult, severity: str, kind: str, lines: frozenset[int]) -> bool:
    """Whether a finding of this kind has a party at one of the lines."""
    return any(
        (f.severity, f.kind) == (severity, kind)
        and lines & {f.source_line, f.other.source_line if f.other else 0}
        for f in result.findings
    )


def told(result: vgpu.LaunchResult) -> list[tuple[str, str, int]]:
    return [(f.severity, f.kind, f.source_line) for f in result.findings]


def grave(result: vgpu.LaunchResult) -> list[vgpu.Fault]:
    return [f for f in result.findings if f.severity != "info"]
