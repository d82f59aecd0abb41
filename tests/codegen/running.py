"""Run a candidate's host code on CPU tensors, that is, on the virtual GPU."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from warpsmith.spec import Candidate


def load(candidate: Candidate, folder: Path) -> Any:
    """The candidate's module, its files written to the folder."""
    home = folder / candidate.id
    home.mkdir(exist_ok=True)
    for name, text in candidate.files.items():
        (home / name).write_text(text)
    spec = importlib.util.spec_from_file_location(f"c{candidate.id}", home / "candidate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def state_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    named = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor.detach() for name, tensor in named}


def assert_close(got: Any, want: Any, inputs: Sequence[Any]) -> None:
    """Same structure, shapes, dtypes and values; NaN where the reference has NaN."""
    got = got if isinstance(got, tuple) else (got,)
    want = want if isinstance(want, tuple) else (want,)
    assert len(got) == len(want)
    low = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
    loose = max([low.get(t.dtype, 0) for t in inputs if hasattr(t, "dtype")], default=0)
    for one, other in zip(got, want):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        if other.is_floating_point():
            tolerance = loose or 3e-6
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
        else:
            assert torch.equal(one, other)
