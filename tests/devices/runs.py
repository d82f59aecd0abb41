"""What tests of devices share: candidates of a few lines, and works for them."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from warpsmith.spec import Candidate, Work

HEAD = "import torch, os, sys, time, ctypes\n"


def work(code: str, inputs, **options) -> Work:
    return Work(Candidate("test", "torch", {"candidate.py": HEAD + code}), inputs, **options)


def body(lines: str, inputs, **options) -> Work:
    """A work whose `run(inputs, state)` has this body; x is the first input."""
    text = "".join(f"    {line}\n" for line in f"x = inputs[0]\n{lines}".splitlines())
    return work(f"def run(inputs, state):\n{text}", inputs, **options)
