"""Time a case on a device without a clock: model every launch and operator from exact counts."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import WarpsmithError
from ..spec import Case, CaseTime, Device, Launch, Ratio, Run, Target, Task, Work
from .model import LaunchShape, OpCost, model_ops, model_time
from .works import timed_work

EAGER = "eager (modelled)"


class NotTimed(Exception):
    """This case has no modelled time; the message says why. Never leaves `measure`."""


def modelled_case(
    task: Task, work: Work, model: Callable[..., Any], device: Device, *, max_seconds: float
) -> CaseTime:
    """Run once with counting on and model what was counted. Raises NotTimed."""
    run = device.run(work, max_seconds=max_seconds)
    if not run.outcome.right:
        raise NotTimed(f"the counting run of {work.case.name} did not finish: {run.message}")
    launches, total_us = candidate_time(run, device.target)
    baselines, missing = _eager(model, work, device)
    return CaseTime(
        work.case.name,
        total_us,
        total_us,
        total_us,
        samples=1,
        baselines_us=baselines,
        speedups={
            n: Ratio(us / total_us, us / total_us, us / total_us) for n, us in baselines.items()
        },
        missing=missing,
        launches=launches,
    )


def candidate_time(run: Run, target: Target) -> tuple[tuple[Launch, ...], float]:
    """Launches with their modelled times, and the device time of the whole call in microseconds.

    Kernels and PyTorch operators run one after another, each with the floor of a launch, as when
    they are replayed from a CUDA graph. Raises NotTimed when nothing ran on the device.
    """
    static = {k.get("artifact"): int(k.get("static_shared_bytes") or 0) for k in run.kernels}
    launches = tuple(
        _timed(launch, target, static.get(launch.artifact, 0)) for launch in run.launches
    )
    operators = _costs(run.details.get("operators", ()))
    if not launches and not operators:
        raise NotTimed("the candidate launched no kernel and ran no operator: nothing to model")
    device_us = sum(launch.time_us or 0.0 for launch in launches)
    if operators:
        device_us += model_ops(operators, target, graphed=True).total_us
    return launches, device_us


def _timed(launch: Launch, target: Target, static_bytes: int) -> Launch:
    shape = LaunchShape(
        launch.grid,
        launch.block,
        launch.shared_bytes + static_bytes,
        launch.registers or _USUAL_REGISTERS,
    )
    try:
        modelled = model_time(launch.counters, shape, target)
    except WarpsmithError as error:
        raise NotTimed(f"launch of {launch.kernel} cannot be modelled: {error}") from error
    return replace(launch, time_us=modelled.total_us, bound=modelled.bound)


_USUAL_REGISTERS = 32  # where no assembler was at hand


def _costs(operators: Sequence[Mapping[str, Any]]) -> list[OpCost]:
    return [OpCost(**operator) for operator in operators]


def _eager(
    model: Callable[..., Any], work: Work, device: Device
) -> tuple[dict[str, float], dict[str, str]]:
    trace = getattr(device, "operators_of", None)
    if trace is None:
        return {}, {EAGER: f"device {device.name!r} cannot trace operators"}
    import torch

    inputs = _copies(work.inputs)
    with torch.no_grad():
        operators = trace(lambda: model(*inputs))
    if not operators:
        return {}, {EAGER: "the reference runs no operator that launches a kernel"}
    return {EAGER: model_ops(_costs(operators), device.target, graphed=True).total_us}, {}


def _copies(values: Sequence[Any]) -> list[Any]:
    return [v.clone() if hasattr(v, "clone") else v for v in values]


def modelled_cases(
    task: Task,
    candidate: Any,
    cases: Sequence[Case],
    device: Device,
    *,
    seed: int,
    max_seconds: float,
) -> tuple[tuple[CaseTime, ...], dict[str, str]]:
    """Every case that could be modelled, and why the others could not.

    A case is counted at its full size or not at all: nothing is extrapolated from smaller ones.
    """
    timed, reasons = [], {}
    for case in cases:
        work, model = timed_work(task, candidate, case, seed=seed)
        try:
            timed.append(modelled_case(task, work, model, device, max_seconds=max_seconds))
        except NotTimed as reason:
            reasons[case.name] = str(reason)
    return tuple(timed), reasons
