"""What tests of the judge share: candidates from a few lines of torch, and one call to judge them."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from warpsmith.spec import Candidate, Record, Task, Verdict
from warpsmith.verify import verify

HEAD = "import torch, os, sys, time, ctypes\nimport torch.nn.functional as F\n"


def candidate(code: str, **files: str) -> Candidate:
    return Candidate("test", "torch", {"candidate.py": HEAD + code} | files)


def run_of(body: str) -> Candidate:
    """A candidate whose `run` has this body; x, y, z are the first inputs, w the state."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return candidate("def run(inputs, w):\n    x, y, z = [*inputs, None, None, None][:3]\n" + lines)


def record_of(task: Task, given: Candidate, device) -> Record:
    return Record(task.id, task.name, given, device.name, device.target.name)


def judge(task: Task, given: Candidate, device, **options) -> Verdict:
    return verify(task, record_of(task, given, device), device, **options).verdict
