"""Arithmetic by rule: the bits of an H200, full warps equal to single lanes, idle lanes left alone.

`h200_bits.json` has a checksum of what an H200 gave for every exact spelling over the same values
(benchmarks/isa_bits.py makes the record). A fixed sample runs always, everything as `slow`.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import random
import zlib
from pathlib import Path

import numpy as np
import pytest
from isa_batches import SENTINEL, Batch, batch
from isa_spellings import Spelling, spellings
from launching import Bench

pytestmark = pytest.mark.virtual

GOLDEN = json.loads((Path(__file__).parent / "h200_bits.json").read_text())
SAMPLE = {"integers": 24, "carries": 8, "bit_operations": 20, "floats": 28, "halves": 20, "comparisons": 24,
          "conversions": 36, "atomics": 10}  # fmt: skip


def sample(family: str, count: int | None = None) -> list[Spelling]:
    known = [s for s in spellings(family) if s.name in GOLDEN["crc32"][family]]
    return random.Random(family).sample(known, count) if count else known


def run(made: Batch, block: int = 128, mask: int = 0xFFFFFFFF) -> np.ndarray:
    out = np.full((made.results, made.rows), SENTINEL, np.uint64)
    cells = np.zeros(made.rows, np.uint64)
    Bench(made.ptx).right("batch", (made.rows // block,), (block,), made.operands, out, cells,
                          np.uint32(block), np.uint32(mask), count=False)  # fmt: skip
    return out


def check(family: str, items: list[Spelling]) -> None:
    made = batch(items)
    got = run(made)
    for item in items:
        found = zlib.crc32(np.ascontiguousarray(got[made.places[item.name]]).tobytes())
        assert found == GOLDEN["crc32"][family][item.name], f"{item.name}: not the bits of an H200"


@pytest.mark.parametrize("family", SAMPLE)
def test_bits_of_an_h200(family):
    check(family, sample(family, SAMPLE[family]))


@pytest.mark.slow
@pytest.mark.parametrize("family", SAMPLE)
def test_all_bits_of_an_h200(family):
    items = sample(family)
    for start in range(0, len(items), 48):
        check(family, items[start : start + 48])


@pytest.mark.parametrize("family", SAMPLE)
def test_lanes_do_not_depend_on_one_another(family):
    made = batch(sample(family, SAMPLE[family]))
    full, alone = run(made), run(made, block=1)
    assert np.array_equal(full, alone)
    mask = 0x9E37_35A1
    idle = np.array([not mask >> (i & 31) & 1 for i in range(made.rows)])
    partial = run(made, mask=mask)
    assert (partial[:, idle] == SENTINEL).all()
    assert np.array_equal(partial[:, ~idle], full[:, ~idle])
