"""Why is it slow, and what next: a roofline and findings, read from what the other rooms recorded."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import replace

from ..spec import Analysis, Device, Record, Task
from .advice import advise
from .roofline import roofline

__all__ = ["advise", "analyze", "roofline"]


def analyze(task: Task, record: Record, device: Device) -> Record:
    """The stage after `measure`: fill `record.analysis`. It reads the record and times nothing.

    Without a timing, or on a device that has no counters, the analysis says so in `details`.
    """
    if record.timing is None:
        return record
    launches = record.timing.cases[0].launches
    if not any(launch.counters for launch in launches):
        why = f"{device.name} gives no counters; judge with device='virtual' for the explanation"
        return replace(record, analysis=Analysis(details={"unavailable": why}))
    slowest = max(launches, key=lambda launch: launch.time_us or 0.0)
    findings = advise(launches, device.target)
    analysis = Analysis(
        bound=slowest.bound,
        roofline=roofline(launches, record.timing.median_us, device.target),
        advice=tuple(str(finding) for finding in findings),
        details={"slowest": slowest.kernel, "findings": [f.name for f in findings]},
    )
    return replace(record, analysis=analysis)
