"""`warpsmith profile` on the virtual GPU, and on a GPU that only a stand-in for ncu has."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from test_run import BARE, DOUBLE, SAXPY

from warpsmith.cli import profile_cuda
from warpsmith.cli import warpsmith as root
from warpsmith.devices import ncu

pytest.importorskip("torch")
pytestmark = pytest.mark.virtual


def profile(*arguments):
    return CliRunner().invoke(root, ["profile", *map(str, arguments)])


@pytest.fixture
def saxpy(tmp_path):
    path = tmp_path / "saxpy.cu"
    path.write_text(SAXPY)
    return path


def test_a_bare_kernel_is_explained(saxpy):
    result = profile(saxpy, *BARE)
    assert result.exit_code == 0, result.output
    for words in ("saxpy: grid 2x1x1", "modelled, bound by", "saxpy.cu:3", "estimated_dram"):
        assert words in result.output


def test_json_is_one_object_with_lines(saxpy):
    data = json.loads(profile(saxpy, *BARE, "--json", "--target", "a100").stdout)
    (kernel,) = data["kernels"]
    assert data["target"] == "a100"
    assert sum(line["global_requests"] for line in kernel["lines"]) == 6
    assert kernel["sections"]["Global Memory"]["unique_bytes_written"] == 224  # 50 floats


def test_files_are_written_and_named(saxpy, tmp_path):
    page, table = tmp_path / "page.html", tmp_path / "lines.csv"
    result = profile(saxpy, *BARE, "--html", page, "--csv", table, "--no-caches", "--top", 1)
    assert result.exit_code == 0, result.output
    assert f"wrote {page}" in result.output
    assert "y[i] = a * x[i] + y[i];" in page.read_text()
    assert table.read_text().startswith("kernel,launch,source")
    assert "estimated_dram" not in result.output
    assert result.output.count("saxpy.cu:") == 1


def test_a_candidate_with_host_code(tmp_path):
    (tmp_path / "twice.cu").write_text(DOUBLE)
    result = profile(tmp_path / "twice.cu", "--metrics", "flops", "--listing")
    assert result.exit_code == 0, result.output
    assert "flops" in result.output
    assert "out[i] = 2.0f * x[i];" in result.output
    assert "barriers" not in result.output


def test_a_fault_is_told_with_its_line(saxpy):
    result = profile(saxpy, *BARE[:4], "--arg", "n=64", *BARE[6:])
    assert result.exit_code == 1
    assert "saxpy.cu:3" in result.output


def test_host_code_that_fails_is_the_users(tmp_path):
    (tmp_path / "bad.py").write_text("def run(inputs, state):\n    raise ValueError('oh')\n")
    result = profile(tmp_path / "bad.py", "--arg", "1")
    assert result.exit_code == 2
    assert "oh" in result.output


@pytest.mark.parametrize(
    ("extra", "code", "words"),
    [
        (["--device", "cuda"], 3, "device 'virtual'"),
        (["--device", "nonsense"], 2, "profile knows virtual"),
        (["--target", "nonsense"], 2, "nonsense"),
    ],
)
def test_devices_that_are_not_there(saxpy, extra, code, words):
    result = profile(saxpy, *BARE, *extra)
    if extra == ["--device", "cuda"] and result.exit_code == 0:
        pytest.skip("this machine has a GPU and ncu")
    assert result.exit_code == code
    assert words in result.output


def test_measured_counters_are_called_measured(saxpy, monkeypatch):
    from warpsmith import targets

    class Opened:
        target = targets.get("h200")

        def close(self):
            pass

    def collect(command, *_, **__):
        assert command[-2:] == ["--device", "cuda"]
        assert "--grid" in command
        flops = {
            "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 50.0,
            "dram__bytes_read.sum": 512.0,
        }
        got = {"gpu__time_duration.sum": 2500.0, "launch__registers_per_thread": 16.0} | flops
        return "2025.3", [ncu.Measured("saxpy", (2, 1, 1), (32, 1, 1), got)]

    monkeypatch.setattr("warpsmith.devices.open_device", lambda *_: Opened())
    monkeypatch.setattr(ncu, "collect", collect)
    result = profile(saxpy, *BARE, "--device", "cuda")
    assert result.exit_code == 0, result.output
    assert "Measured by Nsight Compute 2025.3" in result.output
    assert "2.50 µs measured under the profiler" in result.output
    assert "modelled" not in result.output.replace("MODELLED", "")
    assert profile_cuda.CLOCKS in result.output.replace("\n  ", " ")
