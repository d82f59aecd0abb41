"""Right kernels give no error under any check: Triton's programs, in two schedules.

With the mended twins of the seeded faults, which test_faulty.py runs, these are the kernels of which
the sanitizer must not say a wrong word.
"""
# SPDX-License-Identifier: Apache-2.0

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))
import corpus as faults

from triton_corpus import corpus as programs
from warpsmith.devices.observe import observe
from warpsmith.vgpu import Checks

pytestmark = pytest.mark.virtual
ARCH = 90
IN_ORDER = (
    "scan_across_blocks",
)  # waits for blocks of lower numbers, which start first by default
WARNED = {"layer_norm", "spin_lock"}  # a counter read by all threads and written by one
NAMES = [n for n, e in programs.load().items() if ARCH in e.archs]


def findings(name: str, schedule: str) -> list:
    options = {"checks": Checks.all(), "schedule": schedule, "seed": 3, "max_seconds": 120}
    with observe(target=programs.TARGETS[ARCH], count=False, **options) as session:
        programs.ENTRIES[name].run("cpu")
    return list(session.findings)


@pytest.mark.parametrize("name", NAMES)
def test_a_right_program_gives_no_error(name):
    found = findings(name, "default")
    assert not [str(f) for f in found if f.severity == "error"]
    warnings = [str(f) for f in found if f.severity == "warning"]
    assert not warnings or name in WARNED, warnings


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in NAMES if n not in IN_ORDER])
def test_nor_in_random_order(name):
    assert not [str(f) for f in findings(name, "random") if f.severity == "error"]


def test_there_are_two_hundred_right_kernels():
    twins = sum(len(faults.read(path)) for path in (faults.HERE / "faulty").glob("*.cu"))
    assert twins + len(NAMES) >= 200
