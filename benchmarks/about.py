"""The head that every benchmark's JSON carries: device, machine, versions, commit, time."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "warpsmith", "torch", "triton", "numpy", "numba", "cuda-bindings", "nvidia-cuda-nvrtc",
)  # fmt: skip


def about(device: str, **more: Any) -> dict[str, Any]:
    """What the numbers were made on. `device` is what was measured: `gpu_name()`, "virtual", "cpu"."""
    return {
        "device": device,
        "machine": processor(),
        "cores": os.cpu_count(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "versions": {"python": platform.python_version(), **versions()},
        **more,
    }


def versions() -> dict[str, str]:
    """The installed packages of `PACKAGES`; one that is not installed is not named."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def processor() -> str:
    """The processor's name where the system tells it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def gpu_name() -> str:
    """The current GPU as torch names it, "none" without one."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"


def commit() -> str:
    """The commit, with -dirty if files differ from it. A copy of the tree without git may be told
    it as WARPSMITH_COMMIT; empty when nobody knows."""
    if told := os.environ.get("WARPSMITH_COMMIT"):
        return told
    command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=40", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""
