"""The pytest plug-in fails tests whose launches the sanitizer objects to, and leaves others alone."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import warpsmith

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.virtual

FILE = '''
import numpy as np
import pytest
import warpsmith as ws

SOURCE = """
extern "C" __global__ void reverse(const float* x, float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  BARRIER
  out[threadIdx.x] = tile[63 - threadIdx.x];
}
"""
racy = ws.cuda(SOURCE.replace("BARRIER", ""))
right = ws.cuda(SOURCE.replace("BARRIER", "__syncthreads();"))
lockstep = ws.cuda(SOURCE.replace("BARRIER", "").replace("64", "32").replace("63", "31"))


def launch(kernel, n=64):
    x = np.arange(n, dtype=np.float32)
    kernel[1, n](x, np.zeros(n, np.float32))


def test_right(): launch(right)
def test_swallowed():
    try: launch(racy)
    except ws.WarpsmithError: pass
def test_raised(): launch(racy)
def test_lockstep(): launch(lockstep, 32)
@pytest.mark.warpsmith_sanitize(schedule="reverse")
def test_marked(): launch(racy)
@pytest.mark.warpsmith_sanitize(checks="leaks")
def test_marked_for_leaks(): launch(racy)
@pytest.mark.warpsmith_sanitize(strict=True)
def test_strict(): launch(lockstep, 32)
def test_fixture(warpsmith_sanitizer):
    try: launch(racy)
    except ws.WarpsmithError: pass
    assert any(f.kind == "race" for f in warpsmith_sanitizer.findings)
    warpsmith_sanitizer.findings.clear()
'''


def run(folder: Path, *options: str, text: str = FILE) -> str:
    """The output of a pytest session on this file, in a process of its own."""
    (folder / "test_kernels.py").write_text(text)
    loads = [] if _installed() else ["-p", "warpsmith.pytest_plugin"]
    path = os.pathsep.join(
        [str(Path(warpsmith.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *loads, *options, "test_kernels.py"],
        cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=250,
    )  # fmt: skip
    return done.stdout + done.stderr


def _installed() -> bool:
    from importlib.metadata import entry_points

    return any(e.value == "warpsmith.pytest_plugin" for e in entry_points(group="pytest11"))


def test_with_the_option_every_launch_is_checked(tmp_path):
    said = run(tmp_path, "--warpsmith-sanitize")
    for name, ending in {
        "right": "PASSED", "swallowed": "FAILED", "raised": "FAILED", "lockstep": "PASSED",
        "marked": "FAILED", "marked_for_leaks": "PASSED", "strict": "FAILED", "fixture": "PASSED",
    }.items():  # fmt: skip
        assert f"test_{name} {ending}" in said, said
    assert "error: race in reverse at" in said
    assert "tile[threadIdx.x] = x[threadIdx.x];" in said
    assert "warpsmith sanitizer warnings" in said
    assert "test_lockstep: missing-syncwarp at" in said


def test_without_it_only_marked_tests_are(tmp_path):
    said = run(tmp_path)
    for name, ending in {
        "swallowed": "PASSED", "raised": "PASSED", "marked": "FAILED", "strict": "FAILED",
        "fixture": "PASSED", "marked_for_leaks": "PASSED",
    }.items():  # fmt: skip
        assert f"test_{name} {ending}" in said, said


def test_a_session_that_does_not_use_it_loads_nothing(tmp_path):
    text = (
        "import sys\n"
        "def test_it():\n"
        "    loaded = [m for m in sys.modules if m.startswith('warpsmith.')]\n"
        "    assert loaded in ([], ['warpsmith.pytest_plugin'])\n"
        "    assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    assert "1 passed" in run(tmp_path, text=text)


def test_an_unknown_check_is_a_usage_error(tmp_path):
    said = run(tmp_path, "--warpsmith-checks=rases", text="def test_it(): pass\n")
    assert "Did you mean 'races'" in said
