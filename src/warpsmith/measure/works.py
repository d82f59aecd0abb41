"""Make the work that is timed: a case's inputs, the reference's weights, and the reference itself."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

from ..errors import TaskError
from ..spec import Candidate, Case, Task, Work


def timed_work(task: Task, candidate: Candidate, case: Case, *, seed: int) -> tuple[Work, Any]:
    """The work of one case, and the reference model with the same weights; all on the CPU.

    Raises TaskError when the task's own functions fail.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            init_inputs = list(task.get_init_inputs())
            model = task.model(*init_inputs)
            inputs = [_on_cpu(v) for v in task.get_inputs(**case.dims)]
        except Exception as error:
            raise TaskError(f"task {task.name!r} cannot make {case.name}: {error}") from error
    tensors = (
        [*model.named_parameters(), *model.named_buffers()]
        if hasattr(model, "named_parameters")
        else []
    )
    state = {name: tensor.detach() for name, tensor in tensors}
    work = Work(candidate, inputs, state, init_inputs, case, seed=seed)
    return work, model


def timed_cases(task: Task) -> tuple[Case, ...]:
    """The main case first, then the declared ones."""
    return (task.main, *task.cases)


def _on_cpu(value: Any) -> Any:
    return value.detach().cpu() if hasattr(value, "detach") else value
