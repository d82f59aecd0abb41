"""The whole workshop through the command line: a task, two kernels, one verdict each, an operator."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cuda.bindings")
pytestmark = pytest.mark.virtual

TASK = """\
import torch

RANGES = {"n": (1, 4096)}

class Model(torch.nn.Module):
    def forward(self, x):
        return 2 * x + 1

def get_inputs(n=1024):
    return [torch.randn(n)]
"""
KERNEL = """\
/* host.py
def run(inputs, state):
    (x,) = inputs
    out = torch.empty_like(x)
    kernel[(x.numel() + 127) // 128, 128](x, out, x.numel())
    return out
*/
extern "C" __global__ void affine(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * x[i] + 1.0f;
}
"""


def warpsmith(folder, *arguments):
    code = "from warpsmith.cli import main; main()"
    command = [sys.executable, "-c", code, *arguments, "--device", "virtual", "--json"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=250)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "affine.py").write_text(TASK)
    (tmp_path / "good.cu").write_text(KERNEL)
    (tmp_path / "bad.cu").write_text(KERNEL.replace("if (i < n) ", ""))
    return tmp_path


def test_from_a_task_to_an_operator(folder):
    """Own kernels, a wrong one among them, are judged first; the winner is saved and computes."""
    ran = warpsmith(
        folder, "optimize", "affine.py", "--proposer", "template", "--candidates", "2", "--out", "run",
        "--kernel", "bad.cu", "--kernel", "good.cu",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    data = json.loads(ran.stdout)
    bad, good = data["candidates"]
    assert bad["outcome"] == "out_of_bounds"
    assert bad["source"].startswith("bad.cu:10")
    assert data["failures"][0]["lines"][1]["text"].strip() == "out[i] = 2.0f * x[i] + 1.0f;"
    assert good["right"]
    assert good["time_us"] > 0
    assert data["modelled"] is True
    assert data["best"]["name"] == "good"
    page = (folder / "run" / "report.html").read_text()
    assert "Times are modelled, not measured." in page
    assert "if (i &lt; n) out[i] = 2.0f * x[i] + 1.0f;" in page

    import warpsmith as ws

    operator = ws.load(folder / data["operator"])
    x = torch.randn(100)
    torch.testing.assert_close(operator(x), 2 * x + 1)


def test_check_by_exit_code(folder):
    right, wrong = (
        warpsmith(folder, "check", "affine.py", f"{k}.cu", "--cases", "2") for k in ("good", "bad")
    )
    assert (right.returncode, wrong.returncode) == (0, 1), right.stderr + wrong.stderr
    assert json.loads(right.stdout)["verdict"]["outcome"] == "right"
    assert json.loads(wrong.stdout)["verdict"]["source"].startswith("bad.cu:10")
