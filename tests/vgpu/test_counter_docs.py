"""docs/counters.md is what the code says, and its comparison leaves no difference without a reason."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from warpsmith.vgpu.counters import Counters
from warpsmith.vgpu.metrics import METRICS

pytestmark = pytest.mark.plain
ROOT = Path(__file__).parents[2]


def page():
    spec = importlib.util.spec_from_file_location("ncu_page", ROOT / "benchmarks/ncu/page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_made_from_the_table_and_the_results():
    """To accept a change: python benchmarks/ncu/compare.py"""
    result = json.loads((ROOT / "benchmarks/results/ncu_compare.json").read_text())
    assert (ROOT / "docs/counters.md").read_text() == page().text(result)


def test_every_counter_of_the_table_is_one_of_counters():
    flat = Counters().as_dict()
    for metric in METRICS:
        assert hasattr(Counters(), metric.attribute), metric
        assert "{}" in metric.key or metric.key in flat


def test_every_difference_has_a_reason():
    found = json.loads((ROOT / "benchmarks/results/ncu_compare.json").read_text())["exact"]
    assert all(row["reason"] for row in found["differences"])
    assert found["equal"] + len(found["differences"]) == found["pairs"]
