"""How fast? Clock a right candidate against its baselines, or model its time where there is no clock."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from typing import Any

from ..errors import DeviceError, DeviceUnavailable
from ..spec import Device, Outcome, Record, Task, Timing, TimingPlan
from .model import LaunchShape, ModelledTime, OpCost, model_ops, model_time
from .modelled import EAGER, modelled_cases
from .statistics import speedup, summarize, verdict
from .works import timed_cases, timed_work

__all__ = [
    "BASELINES",
    "EAGER",
    "LaunchShape",
    "ModelledTime",
    "OpCost",
    "measure",
    "model_ops",
    "model_time",
    "speedup",
    "summarize",
    "verdict",
]

BASELINES = {
    "eager": "the reference as it is, one operator after another",
    "compile": "torch.compile of the reference, default mode",
    "compile-max-autotune": "torch.compile with autotuned matrix products and convolutions",
    "cuda-graph": "the reference replayed from a CUDA graph, without host time",
}
"""Names for `TimingPlan.baselines` on a GPU, and what each one is."""

_COUNTING_SECONDS = 300.0
MODEL_ERROR = (
    "held against 176 measured kernel times on an H200 that it was not fitted to "
    "(benchmarks/results/model_error.json): median error 21 %, largest 97 %, rank correlation 0.98"
)


def measure(
    task: Task,
    record: Record,
    device: Device,
    *,
    plan: TimingPlan | None = None,
    seed: int | None = None,
    max_seconds: float = _COUNTING_SECONDS,
) -> Record:
    """The stage that fills `record.timing`. A record that is not right passes through unchanged.

    On a GPU: interleaved blocks by `plan`, medians, and speed-ups with 95 % intervals. On a modelled
    device: one counted run of each case at full size (at most max_seconds), and a time by the
    roofline model. Where the main case cannot be modelled there is no timing, and
    `record.environment["not timed"]` says why. seed: of the inputs; None draws one.
    A candidate that was right and fails while it is timed gets the verdict CRASHED, with the reason.
    Raises DeviceUnavailable when the device itself is gone.
    """
    if not record.right:
        return record
    begin = time.monotonic()
    seed = secrets.randbits(48) if seed is None else seed
    if device.modelled:
        return _modelled(task, record, device, seed, max_seconds, begin)
    try:
        return _clocked(task, record, device, plan or TimingPlan(), seed, begin)
    except DeviceUnavailable:
        raise
    except DeviceError as error:
        message = f"right at first, but failed while it was timed: {error}"
        assert record.verdict is not None
        failed = replace(record.verdict, outcome=Outcome.CRASHED, message=message)
        return replace(record, verdict=failed)


def _modelled(
    task: Task, record: Record, device: Device, seed: int, max_seconds: float, begin: float
) -> Record:
    cases = timed_cases(task)
    timed, reasons = modelled_cases(
        task, record.candidate, cases, device, seed=seed, max_seconds=max_seconds
    )
    environment: dict[str, Any] = {"seed": seed, "model_error": MODEL_ERROR}
    environment |= {"not timed": reasons} if reasons else {}
    if cases[0].name in reasons:  # a timing's first case is the main case
        return replace(record, environment={**record.environment, **environment})
    timing = Timing(
        modelled=True,
        device=f"virtual GPU, modelled for {device.target.title.removeprefix('NVIDIA ')}",
        cases=timed,
        method="roofline model on exact counts; device time, as replayed from a CUDA graph",
        environment=environment,
        seconds=time.monotonic() - begin,
    )
    return replace(record, timing=timing)


def _clocked(
    task: Task, record: Record, device: Device, plan: TimingPlan, seed: int, begin: float
) -> Record:
    timed, method = [], ""
    environment: dict[str, Any] = {}
    for case in timed_cases(task):
        work, _ = timed_work(task, record.candidate, case, seed=seed)
        samples = device.time(task, work, plan)
        timed.append(summarize(case.name, samples, seed=0))
        if not environment:  # the main case's stands for all
            method, environment = samples.method, dict(samples.environment)
    timing = Timing(
        modelled=False,
        device=str(environment.get("device", device.target.title)),
        cases=tuple(timed),
        method=method,
        environment=environment | {"seed": seed},
        seconds=time.monotonic() - begin,
    )
    return replace(record, timing=timing)
