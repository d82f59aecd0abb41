"""What ncu says becomes numbers; what it refuses becomes a typed error that says what still works."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os

import pytest

from warpsmith.devices import ncu
from warpsmith.errors import DeviceError, MissingTool

pytestmark = pytest.mark.plain

RAW = '''==PROF== Connected to process 12
x: float32[8] from 0 to 1
"ID","Process ID","Kernel Name","Block Size","Grid Size","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","gpu__time_duration.sum","launch__func_cache_config"
"","","","","","sector","ns",""
"0","12","saxpy(int, float)","(256, 1, 1)","(4, 2, 1)","1,024","2,304.5","CachePreferNone"
"1","12","tail","(32, 1, 1)","(1, 1, 1)","4","1,000","n/a"
'''  # fmt: skip


def tool(folder, monkeypatch, script: str):
    path = folder / "ncu"
    path.write_text(
        f"#!/bin/sh\ncase $1 in --version) echo 'Version 2025.3.1.0 (build 1)'; exit;; esac\n{script}\n"
    )
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_raw_pages_are_read():
    first, second = ncu.parse(RAW)
    assert (first.kernel, first.grid, first.block) == ("saxpy", (4, 2, 1), (256, 1, 1))
    assert first.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 1024
    assert first.metrics["gpu__time_duration.sum"] == 2304.5
    assert "launch__func_cache_config" not in first.metrics
    assert second.metrics["gpu__time_duration.sum"] == 1000
    assert ncu.parse("nothing of the kind") == []


def test_a_command_is_run_under_it(tmp_path, monkeypatch):
    (tmp_path / "said.csv").write_text(RAW)
    tool(tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/asked; cat {tmp_path}/said.csv')
    version, found = ncu.collect(["python", "x.py"], ("a__b.sum",), kernel="saxpy")
    assert version == "2025.3.1.0"
    assert len(found) == 2
    asked = (tmp_path / "asked").read_text()
    assert "--clock-control none" in asked
    assert "--metrics a__b.sum python x.py" in asked
    assert "regex:saxpy" in asked


def test_without_ncu_the_message_says_what_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingTool, match="--device virtual"):
        ncu.collect(["true"])


def test_no_permission_is_said_plainly(tmp_path, monkeypatch):
    tool(
        tmp_path,
        monkeypatch,
        "echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'; exit 1",
    )
    with pytest.raises(DeviceError, match=r"administrators only.*--device virtual"):
        ncu.collect(["true"])


def test_a_command_that_fails_is_quoted(tmp_path, monkeypatch):
    tool(tmp_path, monkeypatch, "echo 'error: no kernel at x.cu' >&2; exit 2")
    with pytest.raises(DeviceError, match=r"profiled no kernel:\nerror: no kernel at x.cu"):
        ncu.collect(["true"])


def test_its_names_are_those_of_the_table():
    from warpsmith.vgpu.metrics import METRICS

    ours = {m.key for m in METRICS if m.key.startswith("l1tex__t_") and "ldgsts" not in m.key}
    assert ours <= set(ncu.METRICS)
