"""Texts of a few generated candidates, kept as files: a change of the generator shows as a diff.

WARPSMITH_REFRESH=1 python -m pytest tests/codegen/test_golden.py   # writes them anew
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

GOLDEN = Path(__file__).parent.parent / "golden" / "codegen"
KEPT = [
    ("bias_gelu", "cuda 1"),
    ("bias_gelu", "cuda 3"),
    ("bias_gelu", "triton 1"),
    ("softmax", "cuda 1"),
    ("softmax", "cuda 2"),
    ("softmax", "cuda 5"),
    ("softmax", "cuda 6"),
    ("softmax", "cuda 7"),
    ("layer_norm", "cuda 4"),
    ("layer_norm", "cuda 6"),
    ("softmax", "triton 2"),
    ("column_sum", "cuda 2"),
    ("mse", "cuda 5"),
    ("permute", "cuda 3"),
    ("linear_gelu", "cuda 1"),
    ("linear_gelu", "cuda 3"),
    ("half_matmul", "cuda 4"),
    ("linear_gelu", "triton 1"),
]


@pytest.mark.plain
@pytest.mark.parametrize(("name", "rung"), KEPT)
def test_text_is_as_kept(name, rung, tasks, template):
    (family,) = [f for f in template.families(tasks[name]) if f.name == rung]
    candidate = template.build(tasks[name], family, family.default)
    for file, text in candidate.files.items():
        kept = GOLDEN / f"{name}-{rung.replace(' ', '-')}" / file
        if os.environ.get("WARPSMITH_REFRESH"):
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(text)
        assert kept.is_file(), f"{kept.name} is new: run with WARPSMITH_REFRESH=1"
        assert text == kept.read_text()
