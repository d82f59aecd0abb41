"""The error that reports state for modelled times is the one that was measured."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warpsmith.measure import MODEL_ERROR

pytestmark = pytest.mark.plain
RESULT = Path(__file__).parents[2] / "benchmarks/results/model_error.json"


def test_the_stated_error_is_the_measured_one():
    found = json.loads(RESULT.read_text())
    for part in (
        f"{found['pairs_count']} measured",
        f"median error {found['median_absolute_error']:.0%}".replace("%", " %"),
        f"largest {found['worst_absolute_error']:.0%}".replace("%", " %"),
        f"rank correlation {found['spearman']:.2f}",
    ):
        assert part in MODEL_ERROR
