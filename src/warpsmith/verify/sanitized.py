"""Run a candidate once under the virtual GPU's sanitizer: what it finds decides the verdict."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
from typing import Any

from ..spec import Device, Run, Work

CHECKS: dict[str, Any] = {"max_findings": 16}
"""Fields of `vgpu.Checks`: all of them."""


def sanitized(device: Device, work: Work, max_seconds: float) -> Run:
    """The run under all checks, or a plain one where the device has no sanitizer.

    An error that it finds is the run's outcome.
    """
    if "sanitize" not in inspect.signature(device.run).parameters:
        return device.run(work, max_seconds=max_seconds)
    return device.run(work, max_seconds=max_seconds, sanitize=CHECKS)  # type: ignore[call-arg]


def warnings_of(run: Run) -> list[str]:
    """The sanitizer's warnings, one sentence each with their place."""
    return [
        f"sanitizer: {_at(f)}{f['message']}"
        for f in run.details.get("findings", ())
        if f["severity"] == "warning"
    ]


def _at(finding: dict[str, Any]) -> str:
    file, line = finding["source_file"], finding["source_line"]
    return f"{finding['kind']} in {finding['kernel']}" + (f" at {file}:{line}: " if file else ": ")
