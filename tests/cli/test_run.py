"""`warpsmith run` and `warpsmith doctor` on the virtual GPU."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from warpsmith.cli import warpsmith as root

pytest.importorskip("torch")
pytestmark = pytest.mark.virtual

SAXPY = """\
__global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""
DOUBLE = """\
/* host.py
def example():
    return [torch.arange(64.0)]

def run(inputs, state):
    (x,) = inputs
    out = torch.empty_like(x)
    kernel[(x.numel() + 31) // 32, 32](x, out, x.numel())
    return out
*/
extern "C" __global__ void twice(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * x[i];
}
"""
BARE = ("--grid", "2", "--block", "32", "--arg", "n=50", "--arg", "a=2.0", "--arg", "x=arange:f32[50]",
        "--arg", "y=ones:f32[50]")  # fmt: skip


def run(*arguments):
    return CliRunner().invoke(root, ["run", *map(str, arguments), "--device", "virtual"])


@pytest.fixture
def saxpy(tmp_path):
    path = tmp_path / "saxpy.cu"
    path.write_text(SAXPY)
    return path


def test_a_bare_kernel_shows_outputs_counters_and_modelled_time(saxpy):
    result = run(saxpy, *BARE)
    assert result.exit_code == 0, result.output
    assert "y: float32[50] from 1 to 99, mean 50; starts 1, 3, 5, 7, 9, 11" in result.output
    assert "x: float32[50] from 0 to 49" in result.output
    assert "saxpy: grid 2, block 32" in result.output
    assert "modelled for NVIDIA H100 SXM" in result.output
    assert "warp instructions" in result.output


def test_json_of_a_bare_kernel(saxpy):
    data = json.loads(run(saxpy, *BARE, "--json", "--target", "a100").stdout)
    assert data["outcome"] == "right"
    assert data["target"] == "a100"
    assert data["modelled"] is True
    assert [o["name"] for o in data["outputs"]] == ["x", "y"]
    assert data["outputs"][1]["first"] == [1, 3, 5, 7, 9, 11]
    assert data["changed_inputs"] == [3]
    (launch,) = data["launches"]
    assert launch["grid"] == [2, 1, 1]
    assert launch["time_us"] > 0
    assert (
        launch["counters"]["threads" if "threads" in launch["counters"] else "launch__thread_count"]
        == 64
    )


def test_a_candidate_runs_on_its_example(tmp_path):
    path = tmp_path / "double.cu"
    path.write_text(DOUBLE)
    result = run(path)
    assert result.exit_code == 0, result.output
    assert "output 0: float32[64] from 0 to 126" in result.output
    result = run(path, "--arg", "full(4):f32[3]")
    assert "output 0: float32[3] from 8 to 8" in result.output


def test_a_fault_is_exit_1_and_says_where(saxpy):
    short = [a.replace("y=ones:f32[50]", "y=ones:f32[40]") for a in BARE]
    result = run(saxpy, *short)
    assert result.exit_code == 1
    assert "out-of-bounds access at saxpy.cu:3" in result.output
    data = json.loads(run(saxpy, *short, "--json").stdout)
    assert data["outcome"] == "out_of_bounds"
    assert data["source"] == "saxpy.cu:3"


def test_source_that_does_not_compile_is_exit_1(tmp_path):
    path = tmp_path / "bad.cu"
    path.write_text("__global__ void bad(float* x) { x[0] = nothing; }\n")
    result = run(path, "--grid", 1, "--block", 1, "--arg", "ones:f32[1]")
    assert result.exit_code == 1
    assert 'identifier "nothing" is undefined' in result.output
    assert "bad.cu:1" in result.output


def test_headers_beside_a_bare_kernel_are_found(tmp_path):
    (tmp_path / "two.cuh").write_text("__device__ inline float two() { return 2.0f; }\n")
    path = tmp_path / "k.cu"
    path.write_text('#include "two.cuh"\n__global__ void k(float* x) { x[threadIdx.x] = two(); }\n')
    result = run(path, "--grid", 1, "--block", 4, "--arg", "zeros:f32[4]")
    assert result.exit_code == 0, result.output
    assert "argument 0: float32[4] from 2 to 2" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--grid", "1"), "--block is missing"),
        (("--grid", "0", "--block", "1"), "expected one to three positive numbers"),
        (("--grid", "1,x", "--block", "1"), "expected one to three positive numbers"),
        (("--grid", "1", "--block", "1", "--name", "saxpi"), "Did you mean 'saxpy'"),
        (("--arg", "what"), "is no argument"),
        ((), "has no '/* host.py"),
    ],
)
def test_misuse_is_exit_2(saxpy, arguments, message):
    result = run(saxpy, *arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_a_file_with_several_kernels_asks_which(tmp_path):
    path = tmp_path / "two.cu"
    path.write_text("__global__ void a() {}\n__global__ void b() {}\n")
    result = run(path, "--grid", 1, "--block", 1)
    assert result.exit_code == 2
    assert "has a, b: say which one with --name" in result.output
    assert run(path, "--grid", 1, "--block", 1, "--name", "b").exit_code == 0


def test_a_candidate_without_example_says_what_to_do(tmp_path):
    path = tmp_path / "k.py"
    path.write_text("def run(inputs, state):\n    return inputs[0]\n")
    result = run(path)
    assert result.exit_code == 2
    assert "defines no example()" in result.output
    path.write_text("def example():\n    return [1 / 0]\ndef run(inputs, state): ...\n")
    result = run(path)
    assert result.exit_code == 2
    assert "k.py raised ZeroDivisionError" in result.output


def test_doctor_really_runs_kernels():
    result = CliRunner().invoke(root, ["doctor", "--json"])
    data = json.loads(result.stdout)
    assert result.exit_code == 0, result.output
    probes = {p["name"]: p for p in data["probes"]}
    assert probes["CUDA C++ on the virtual GPU"]["works"] is True, probes
    if next(t for t in data["tools"] if t["name"] == "Triton")["here"]:
        assert probes["Triton on the virtual GPU"]["works"] is True, probes


def test_doctor_says_what_to_install(monkeypatch):
    from warpsmith.cli import doctor
    from warpsmith.errors import MissingTool

    def none():
        raise MissingTool("a C compiler", "none was found", "pip install 'warpsmith[cc]'")

    def broken(device, file):
        raise RuntimeError("it is broken")

    monkeypatch.setattr("warpsmith.vgpu.build.compiler", none)
    monkeypatch.setattr(doctor, "_version", lambda name: "")
    monkeypatch.setattr(doctor, "_run", broken)
    result = CliRunner().invoke(root, ["doctor"])
    assert result.exit_code == 3
    assert "pip install 'warpsmith[cc]'" in result.output
    assert "pip install 'warpsmith[cuda]'" in result.output
    assert "RuntimeError: it is broken" in result.output


def test_doctor_notices_wrong_values(monkeypatch):
    import torch

    from warpsmith.cli import doctor
    from warpsmith.spec import Outcome, Run

    class Liar:
        def run(self, work):
            return Run(Outcome.RIGHT, outputs=(torch.zeros(64),))

        def close(self): ...

    monkeypatch.setattr("warpsmith.devices.open_device", lambda name: Liar())
    works, what = doctor._run("virtual", "probe.cu")
    assert works is False
    assert "instead of 1, 3, 5, 7" in what
