"""A task that was made in Python is written into its operator with all that it needs."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys

import operator_tasks as samples
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from warpsmith.errors import OperatorError  # noqa: E402
from warpsmith.runtime.gather import source_of  # noqa: E402
from warpsmith.runtime.operator import save  # noqa: E402
from warpsmith.spec import Case, Range, Task, Tolerance, load_task  # noqa: E402

pytestmark = pytest.mark.plain
WIDTH = 6


def gate(x):
    return F.silu(x) * math.sqrt(WIDTH)


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), 2.0))

    def forward(self, x):
        return gate(x) * self.scale


def inputs_of(rows=4):
    return [torch.ones(rows, WIDTH)]


def widths():
    return [WIDTH]


GATED = Task(
    "gated",
    Gated,
    inputs_of,
    widths,
    ranges={"rows": (1, 8)},
    cases=(Case({"rows": 3}),),
    tolerance=Tolerance(1e-3, 1e-4),
)


def reloaded(task, folder):
    path = folder / "task.py"
    path.write_text(source_of(task))
    return load_task(path, task.name)


def test_gathered_source_is_an_equal_task(tmp_path):
    task = reloaded(GATED, tmp_path)
    assert task.ranges == {"rows": Range(1, 8)}
    assert (task.cases, task.tolerance, task.backward) == (GATED.cases, GATED.tolerance, False)
    x = task.get_inputs(rows=2)[0]
    assert torch.equal(task.model(6)(x), Gated(6)(x))


def test_gathered_source_needs_nothing_of_this_process(tmp_path):
    (tmp_path / "alone.py").write_text(
        source_of(GATED) + "print(Model(*get_init_inputs())(*get_inputs()).shape)\n"
    )
    done = subprocess.run(
        [sys.executable, "alone.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "torch.Size([4, 6])" in done.stdout, done.stderr


def test_lambdas_and_library_functions(tmp_path):
    task = Task(
        "softmax",
        model=lambda: torch.nn.functional.relu,
        get_inputs=lambda rows=3: [torch.ones(rows, 5)],
    )
    again = reloaded(task, tmp_path)
    assert again.model() is F.relu
    assert again.get_inputs(rows=2)[0].shape == (2, 5)


def test_a_gathered_task_is_saved(tmp_path):
    sample = dataclasses.replace(samples.SOFTMAX, candidate="def run(inputs, state): ...\n")
    record = samples.record_of(sample, GATED)
    path = save(record, GATED, tmp_path / "gated")
    assert "class Gated(nn.Module)" in (path / "reference.py").read_text()


def enclosed():
    width = 3
    return lambda: [torch.ones(width)]


@pytest.mark.parametrize(
    ("get_inputs", "why"),
    [
        (enclosed(), "uses width of an enclosing function"),
        (print.__call__, "get_inputs is <method-wrapper"),
        (eval("lambda: [1]"), "is not in a file"),
    ],
)
def test_what_cannot_be_written_is_named(get_inputs, why):
    with pytest.raises(OperatorError, match=why):
        source_of(Task("t", Gated, get_inputs, widths))
