"""Triton's kernels are clean; with one instruction left out they are told, at the Python line."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

pytest.importorskip("triton")

from compile import triton_ptx
from kernels import triton_kernels

from warpsmith import vgpu
from warpsmith.vgpu.memory import copy_of

pytestmark = pytest.mark.virtual

N = 128
BLOCKS = {"BM": 64, "BN": 64, "BK": 32}


@cache
def matmul(arch: int) -> tuple[str, int]:
    letters = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "m": "i32", "n": "i32", "k": "i32"}
    names = [n for n in triton_kernels.matmul.arg_names if n not in BLOCKS]
    signature = dict(zip(names, letters.values())) | dict.fromkeys(BLOCKS, "constexpr")
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(6)}
    ptx, meta = triton_ptx(
        triton_kernels.matmul, signature, BLOCKS, arch, attrs=aligned, num_warps=4
    )
    return ptx, meta.shared


def run(ptx: str, shared: int, **options) -> vgpu.LaunchResult:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((N, N)).astype(np.float16) for _ in range(2)]
    arrays = [copy_of(a) for a in (*arrays, np.zeros((N, N), np.float32))]
    memory = vgpu.Memory()
    for name, a in zip("abc", arrays):
        memory.register(a.ctypes.data, a.nbytes, name, element_bytes=a.itemsize)
    module = vgpu.load(ptx)
    values = [*(a.ctypes.data for a in arrays), N, N, N]
    values += [0] * (len(module.kernels["matmul"].parameters) - len(values))
    return module.launch("matmul", (2, 2), 128, values, memory=memory, shared_bytes=shared,
                         checks=vgpu.Checks.all(), max_instructions=50_000_000, **options)  # fmt: skip


def without(ptx: str, pattern: str) -> str:
    """The PTX without any instruction of this spelling."""
    shorter, count = re.subn(rf"^\s*(@\S+\s+)?{pattern}[^;]*;", "", ptx, flags=re.MULTILINE)
    assert count, pattern
    return shorter


@pytest.mark.parametrize("schedule", ["default", "reverse", "random"])
@pytest.mark.parametrize("arch", [80, 90])
def test_a_matmul_is_clean(arch, schedule):
    result = run(*matmul(arch), schedule=schedule, seed=1)
    assert not [f.message for f in result.findings if f.severity != "info"]


@pytest.mark.parametrize(("arch", "pattern", "severity", "kinds"), [
    (80, r"bar\.sync", "error", {"race"}),
    (80, r"cp\.async\.wait_group", "error", {"async-copy-not-awaited"}),
    (90, r"bar\.sync", "error", {"race"}),
    (90, r"cp\.async\.wait_group", "error", {"async-copy-not-awaited"}),
    (90, r"fence\.proxy\.async", "warning", {"async-copy-not-awaited"}),
    (90, r"wgmma\.wait_group\.sync\.aligned", "error", {"async-copy-not-awaited"}),
])  # fmt: skip
def test_one_instruction_less_is_told(arch, pattern, severity, kinds):
    ptx, shared = matmul(arch)
    result = run(without(ptx, pattern), shared)
    told = {f.kind for f in result.findings if f.severity == severity}
    assert kinds <= told, [f.message for f in result.findings]
    for found in result.findings:
        assert found.source_file == "triton_kernels.py"
        assert "def " not in found.message
