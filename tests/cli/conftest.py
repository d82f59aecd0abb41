"""What tests of the command line share: a task file, and the command as a process of its own."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "report"))

TASK = """\
class Model:
    def __call__(self, x): return x

def get_inputs(): return [1.0]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "identity.py").write_text(TASK)
    (tmp_path / "double.py").write_text("def run(inputs, state):\n    return inputs[0]\n")
    return tmp_path


@pytest.fixture
def start(folder):
    """Start `warpsmith …` in the folder, with the fake pack installed."""

    def start(*arguments, **environment):
        code = "from warpsmith.cli import main; main()"
        path = os.pathsep.join(
            filter(None, (str(HERE / "fake_pack"), os.environ.get("PYTHONPATH")))
        )
        return subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "160", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture
def warpsmith(start):
    """Run `warpsmith …` to its end: the exit code, stdout, stderr."""

    def run(*arguments, **environment):
        process = start(*arguments, **environment)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    return run
