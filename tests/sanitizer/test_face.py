"""`ws.sanitize` and `warpsmith sanitize` take what the workshop takes, and print like a good compiler."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import warpsmith as ws
from warpsmith import errors

pytest.importorskip("cuda.bindings.nvrtc")
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.virtual

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = """
extern "C" __global__ void adds(const float* x, float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  out[threadIdx.x] += tile[63 - threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def adds():
    return ws.cuda(SOURCE)


def test_a_launcher_with_tensors(adds):
    x, out = torch.ones(64), torch.zeros(64)
    report = ws.sanitize(adds[1, 64], x, out)
    assert not report.clean
    race = report.errors[0]
    assert race.kind == "race"
    assert {race.source_line, race.other.source_line} == {
        _line("tile[threadIdx.x] ="),
        _line("out[threadIdx.x] +="),
    }
    said = str(report)
    assert f"error: race in adds at test_face.py:{race.source_line}" in said
    assert "   out[threadIdx.x] += tile[63 - threadIdx.x];" in said
    assert "^~~~" in said
    assert said.endswith("schedule default")


def _line(text: str) -> int:
    return next(
        i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if text in line
    )


def test_all_schedules_start_from_the_same_arguments():
    count = ws.cuda("__global__ void count(float* out) {\n  out[threadIdx.x] += 1;\n}\n")
    out = np.zeros(64, np.float32)
    report = ws.sanitize(count[1, 64], out, schedule="all", checks="leaks")
    assert report.clean
    assert report.launches == 3
    assert set(out) == {1}


def test_a_report_raises_and_is_json(adds):
    report = ws.sanitize(adds, torch.ones(64), torch.zeros(64), grid=1, block=64)
    with pytest.raises(errors.KernelFault, match="unordered with"):
        report.raise_if_dirty()
    data = json.loads(json.dumps(report.to_json()))
    assert data["findings"][0]["kind"] == "race"
    assert data["findings"][0]["other"]["action"] in ("read", "write")
    assert not data["clean"]


def test_any_function_that_launches(adds):
    report = ws.sanitize(lambda: adds[1, 64](torch.ones(64), torch.zeros(64)))
    assert report.errors[0].kind == "race"


def test_ptx_with_sizes(adds, tmp_path):
    path = tmp_path / "adds.ptx"
    path.write_text(adds.ptx)
    report = ws.sanitize(path, torch.ones(64), torch.zeros(64), grid=1, block=64)
    assert report.errors[0].kind == "race"
    with pytest.raises(errors.UsageError, match="grid and block"):
        ws.sanitize(path, torch.ones(64))


def test_a_candidate_on_a_task():
    task = EXAMPLES / "racy" / "task.py"
    report = ws.sanitize(EXAMPLES / "racy" / "row_sum.cu", task=task, cases=2)
    assert report.errors[0].kind == "race"
    assert ws.sanitize(EXAMPLES / "racy" / "row_sum_fixed.cu", task=task, schedule="all").clean


def test_what_cannot_be_sanitized_is_said(adds):
    with pytest.raises(errors.UsageError, match=r"kernel\[grid, block\]"):
        ws.sanitize(adds, torch.ones(64))
    with pytest.raises(errors.UnknownName, match="Did you mean 'races'"):
        ws.sanitize(adds[1, 64], checks="race")
    with pytest.raises(errors.UnknownName, match="schedule"):
        ws.sanitize(adds[1, 64], schedule="backward")


def call(*arguments: str):
    from warpsmith.cli import warpsmith

    return CliRunner().invoke(warpsmith, ["sanitize", *map(str, arguments)])


def test_the_command_exits_with_1_and_shows_both_lines():
    done = call(EXAMPLES / "racy" / "row_sum.cu")
    assert done.exit_code == 1
    assert "error: race in row_sum at row_sum.cu:" in done.output
    assert "sums[threadIdx.x] = sum;" in done.output
    assert "sums[threadIdx.x] += sums[threadIdx.x + half];" in done.output


def test_the_command_on_a_clean_kernel_and_as_json():
    done = call(EXAMPLES / "racy" / "row_sum_fixed.cu", "--json", "--schedule", "reverse")
    assert done.exit_code == 0
    data = json.loads(done.stdout)
    assert data["clean"]
    assert data["schedules"] == ["reverse"]


def test_a_bare_kernel_and_strictness(tmp_path):
    path = tmp_path / "swap.cu"
    path.write_text(
        "__global__ void swap(float* x) {\n  __shared__ float t[32];\n  t[threadIdx.x] = x[threadIdx.x];\n"
        "  x[threadIdx.x] = t[threadIdx.x ^ 1];\n}\n"
    )
    given = (path, "--grid", "1", "--block", "32", "--arg", "x=randn:f32[32]")
    assert call(*given).exit_code == 0
    strict = call(*given, "--strict")
    assert strict.exit_code == 1
    assert "warning: missing-syncwarp" in strict.output


def test_the_judge_finds_the_race_of_the_example():
    record = ws.judge(
        EXAMPLES / "racy" / "task.py", EXAMPLES / "racy" / "row_sum.cu", device="virtual"
    )
    assert record.verdict.outcome is ws.Outcome.RACE
    assert "unordered with the" in record.verdict.message
    assert record.verdict.source.startswith("row_sum.cu:")
