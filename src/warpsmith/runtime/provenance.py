"""What is known about a saved operator: where it came from, what was proven, how its reference behaves."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ..errors import OperatorError
from ..spec import Record, Task, to_plain
from ..spec.load import defines
from . import saved
from .domain import domain_of, smallest, verified_dims
from .reference import Reference, form_of, outputs_of, tensors_of
from .registration import NAMESPACE, schema_of


def provenance_of(record: Record, task: Task, source: str, journal: str) -> dict[str, Any]:
    """Everything that provenance.json holds, but the hashes of the files.

    Runs the reference. Raises OperatorError when it cannot be an operator.
    """
    reference = Reference(task)
    domain = domain_of(task, record, reference, _capability(record.target))
    facts = _try_reference(task, smallest(task, verified_dims(task, record)))
    name = operator_name(task, record)
    candidate = record.candidate
    identity = saved.digest(json.dumps([name, source, dict(candidate.files)], sort_keys=True))
    return {
        "format": saved.FORMAT,
        "namespace": NAMESPACE,
        "name": name,
        "identity": identity,
        "schema": name + schema_of(domain, facts["outputs"]["count"]),
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "task": {"name": task.name, "id": task.id, "source_sha256": saved.digest(source)},
        "candidate": {
            "id": candidate.id,
            "name": candidate.name,
            "language": candidate.language,
            "origin": candidate.origin,
            "parents": list(candidate.parents),
            "parameters": to_plain(candidate.parameters),
            "note": candidate.note,
        },
        "run": {
            "journal": journal,
            "number": record.number,
            "started": record.started,
            "device": record.device,
            "target": record.target,
            "environment": to_plain(record.environment),
        },
        "verdict": to_plain(record.verdict),
        "timing": to_plain(record.timing),
        "versions": versions(),
        "domain": to_plain(domain),
        "own_gradient": bool(task.backward and defines(candidate.entry, "grad")),
        **facts,
    }


def _capability(target: str) -> tuple[int, int] | None:
    """Of a part of the catalogue, or of this machine's own; None for one that is gone."""
    from .. import targets

    if target in targets.names():
        return targets.get(target).compute_capability
    here = targets.detect()
    return here.compute_capability if here is not None and here.name == target else None


def operator_name(task: Task, record: Record) -> str:
    """<task>_<candidate id>, as torch allows it."""
    name = re.sub(r"\W", "_", task.name)
    return f"{'task_' if not name or name[0].isdigit() else ''}{name}_{record.candidate.id}"


def versions() -> dict[str, str]:
    """Versions of what computes: warpsmith, Python, torch, Triton, CUDA bindings where present."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for package in ("warpsmith", "torch", "triton", "numpy", "cuda-bindings"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _try_reference(task: Task, dims: Mapping[str, int]) -> dict[str, Any]:
    """Run the reference, on the given sizes: its outputs, whether gradients flow, its modes.

    Raises OperatorError when it cannot be an operator.
    """
    import torch

    model, inputs = task.model(*task.get_init_inputs()), list(task.get_inputs(**dims))
    module = model if isinstance(model, torch.nn.Module) else None
    state = [*module.parameters(), *module.buffers()] if module else []
    leaves = [_leaf(v) for v in inputs]
    watched = [*state, *(t for v in leaves for t in tensors_of(v))]
    before = [t._version for t in watched]
    with torch.enable_grad():
        returned = model(*leaves)
    outputs = outputs_of(returned)
    if [t._version for t in watched] != before:
        raise OperatorError(
            f"task {task.name!r}: the reference writes its inputs or its own buffers in forward "
            "(batch norm in training mode does); an operator only computes. Call self.eval() in "
            "its __init__, or let it work on a clone."
        )
    modes = [True, False]
    if module is not None and not _same_in_both_modes(module, inputs, outputs):
        modes = [module.training]
    return {
        "outputs": {"form": form_of(returned), "count": len(outputs)},
        "differentiable": any(o.requires_grad for o in outputs),
        "modes": modes,
    }


def _leaf(value: Any) -> Any:
    """A copy that records gradients if it is floating point, and may be written."""
    import torch

    if isinstance(value, (list, tuple)):
        return type(value)(_leaf(v) for v in value)
    if not isinstance(value, torch.Tensor):
        return value
    copy = value.detach().clone()
    return copy.requires_grad_() * 1 if copy.is_floating_point() else copy


def _same_in_both_modes(module: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
    import torch

    training = module.training
    module.train(not training)
    try:
        with torch.no_grad():
            other = outputs_of(module(*inputs))
    finally:
        module.train(training)
    return all(torch.equal(a, b) or _both_nan(a, b) for a, b in zip(outputs, other))


def _both_nan(a: Any, b: Any) -> bool:
    import torch

    return a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
