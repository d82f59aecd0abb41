"""The mixing-layer example builds from its trained network and is as accurate as its page says."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")
pytest.importorskip("torch")
pytest.importorskip("keras")

ROOT = Path(__file__).parents[2] / "examples/mixing_layer"
COMMAND = "from warpsmith.cli import main; main()"

pytestmark = pytest.mark.plain


def built(folder: Path) -> Path:
    """The example's program: by CMake where there is one, else by the compiler alone."""
    script = folder / "emit.sh"
    script.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c '{COMMAND}' \"$@\"\n")
    script.chmod(0o755)
    if shutil.which("cmake") and shutil.which("make"):
        run("cmake", "-S", str(ROOT), "-B", str(folder / "build"), f"-DWARPSMITH={script}")
        run("cmake", "--build", str(folder / "build"))
        return folder / "build/mixing_layer"
    from warpsmith.toolchains import cpp

    header = folder / "viscosity_net.hpp"
    network = str(ROOT / "viscosity.keras")
    run(str(script), "emit", network, "--out", str(header), "--namespace", "viscosity_net")
    program = folder / "mixing_layer"
    source = str(ROOT / "solver.cpp")
    run(*cpp.compiler(), *cpp.STANDARD, f"-I{ROOT}", f"-I{folder}", source, "-o", str(program))
    return program


def run(*command: str) -> str:
    source = str(ROOT.parents[1] / "src")
    environment = {**os.environ, "KERAS_BACKEND": "torch", "PYTHONPATH": source}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_network_stands_in_for_the_table(tmp_path):
    text = run(str(built(tmp_path)))
    found = {
        line.split(":")[0]: dict(re.findall(r"(\w+)=(\S+)", line)) for line in text.splitlines()
    }
    self_test = re.search(r"self-test of the network: (\S+)", text)
    assert self_test
    assert float(self_test[1]) < 1e-6
    assert float(found["table"]["max_error"]) < 2e-5
    assert float(found["network"]["max_error"]) < 5e-3
    assert float(found["network"]["mean_error"]) < 1.5e-3
    assert float(found["network"]["velocity_error"]) < 2e-4
    assert int(found["network"]["bytes"]) < 2000
