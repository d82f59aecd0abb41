"""Kernels with one fault each are told by kind and line in every schedule; their correct twins are clean."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("cuda.bindings.nvrtc")

import sanitizing

from warpsmith import vgpu
from warpsmith.errors import FAULT_KINDS, UsageError
from warpsmith.vgpu.checks import SWITCHES

pytestmark = pytest.mark.virtual

X = np.random.default_rng(0).standard_normal(1024).astype(np.float32)
ZERO, INTS = np.zeros(1024, np.float32), np.zeros(1024, np.int32)
BYTES, SHORTS = np.arange(256, dtype=np.uint8), np.arange(64, dtype=np.uint16)
MOVED = np.repeat([0, 1], [32, 992]).astype(np.int32)

_FLOATS = (X, ZERO)
LAUNCHES: dict[str, tuple] = {  # grid, block, arguments; 1 block of 128 threads on X and ZERO if absent
    **dict.fromkeys(["reverse", "reverse_unsynced", "rounds", "rounds_one_barrier", "tail_not_filled", "tail_filled"], (1, 256, *_FLOATS)),
    **dict.fromkeys(("bytes_apart", "bytes_overlap"), (1, 256, BYTES, BYTES)),
    **dict.fromkeys(["same_value", "other_values", "counter_read_early", "counter", "counter_not_ready"],
                    (1, 128, INTS)),
    **dict.fromkeys(["warp_sum", "warp_sum_unsynced", "leader_broadcast", "leader_unsynced", "ordered_by_shuffle", "tiles_of_16", "across_tiles", "vector_of_three", "accumulates"], (1, 32, *_FLOATS)),
    **dict.fromkeys(("last_block", "last_block_unfenced"), (8, 32, X, ZERO, ZERO, INTS)),
    "same_element": (2, 64, *_FLOATS),
    "in_place_stencil": (4, 64, X, 256),
    "look_back": (20, 32, X, ZERO, ZERO, INTS),
    **dict.fromkeys(("released", "relaxed"), (4, 32, X, ZERO, INTS, ZERO)),
    "locked": (3, 64, INTS, INTS),
    "unlocked": (3, 1, INTS),
    **dict.fromkeys(("grid_wide", "grid_wide_unsynced"), (4, 64, X, ZERO, ZERO)),
    "half_a_word": (1, 32, SHORTS, INTS),
    "atomic_on_nothing": (1, 32, INTS),
    "local_array": (1, 32, INTS + 5, INTS),
    **dict.fromkeys(["barrier_in_branch", "barrier_by_warp", "counts_differ", "odd_count"], (1, 64, INTS)),
    "leaves_before": (1, 64, INTS, 40),
    **dict.fromkeys(["heap_leaks", "heap_freed_twice", "heap_used_after", "heap_past_the_end", "heap_fine"],
                    (1, 32, INTS)),
    "heap_moved": (1, 32, MOVED),
}  # fmt: skip
WAITS_FOR_BLOCKS = {"look_back", "released", "relaxed", "grid_wide", "grid_wide_unsynced"}
KERNELS = re.findall(r"^KERNEL (\w+)", sanitizing.text(), re.MULTILINE)


def run(kernel: str, **options) -> vgpu.LaunchResult:
    grid, block, *args = LAUNCHES.get(kernel, (1, 128, *_FLOATS))
    if kernel in WAITS_FOR_BLOCKS:
        options["cooperative"] = True
    fresh = (1,) if kernel == "accumulates" else ()
    return sanitizing.run(kernel, grid, block, *args, fresh=fresh, max_instructions=20_000_000,
                          **options)  # fmt: skip


@pytest.mark.parametrize("schedule", ["default", "reverse", "random"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_fault_is_found_where_it_is_and_nowhere_else(kernel, schedule):
    result = run(kernel, schedule=schedule, seed=3)
    told = [(f.severity, f.kind, f.source, f.message) for f in result.findings]
    if wanted := sanitizing.expected().get(kernel):
        assert sanitizing.finds(result, *wanted), told
    else:
        assert not result.findings, told


@pytest.mark.parametrize("kernel", sorted(sanitizing.expected()))
def test_a_report_says_who_what_and_why(kernel):
    for found in run(kernel).findings:
        assert found.kind in FAULT_KINDS
        assert found.severity in ("error", "warning", "info")
        assert found.message.startswith("thread (")
        assert found.source_file == "kernel.cu"
        assert found.count >= 1
        assert found.ptx_line > 0
        assert (
            "usual cause: " in found.message
            or "harmless" in found.message
            or "promise" in found.message
        )
        if found.kind == "race":
            assert found.other is not None
            assert (found.other.block, found.other.thread) != (found.block, found.thread)
            assert str(found.other.thread).replace(" ", "") in found.message


def test_both_parties_of_a_race():
    (found,) = run("other_values").findings
    assert (found.kind, found.tensor, found.index, found.block) == ("race", "flag", 0, (0, 0, 0))
    assert found.other.action == "write"
    assert found.other.source == found.source
    crossed = [
        f for f in run("half_barrier_crossed").findings if f.other and f.other.action == "write"
    ]
    assert all(abs(f.thread[0] - f.other.thread[0]) == 64 for f in crossed)


def test_the_first_error_is_the_fault_and_warnings_are_not():
    assert run("leader_broadcast").fault is None
    assert run("warp_sum_unsynced").fault is None
    result = run("reverse_unsynced")
    assert result.fault is next(f for f in result.findings if f.severity == "error")


def test_without_checks_nothing_is_looked_for():
    assert run("reverse_unsynced", checks=vgpu.Checks.none()).findings == ()
    assert run("barrier_in_branch", checks=vgpu.Checks.none()).fault.kind == "divergent-barrier"


@pytest.mark.parametrize(("kernel", "switch"), [
    ("half_barrier_crossed", "races"), ("same_element", "global_races"), ("leader_unsynced", "warp_sync"),
    ("tail_not_filled", "uninitialized"), ("not_awaited", "async_copies"), ("odd_count", "barriers"),
    ("heap_leaks", "leaks"),
])  # fmt: skip
def test_each_check_has_its_switch(kernel, switch):
    severity, kind, lines = sanitizing.expected()[kernel]
    alone = vgpu.Checks(**{name: name == switch for name in SWITCHES})
    others = vgpu.Checks(**{name: name != switch for name in SWITCHES})
    assert sanitizing.finds(run(kernel, checks=alone), severity, kind, lines)
    assert not sanitizing.finds(run(kernel, checks=others), severity, kind, lines)


def test_a_launch_ends_after_max_findings():
    assert len(run("reverse_unsynced", checks=vgpu.Checks.all(max_findings=2)).findings) == 2
    with pytest.raises(UsageError, match="max_findings is 0"):
        vgpu.Checks.all(max_findings=0)


@pytest.mark.parametrize("schedule", ["default", "reverse", "random"])
def test_equal_seeds_give_equal_reports(schedule):
    def told(seed):
        return [
            (f.message, f.count)
            for f in run("rounds_one_barrier", schedule=schedule, seed=seed).findings
        ]

    assert told(5) == told(5)


def test_several_workers_become_one():
    result = run("same_element", workers=4)
    assert sanitizing.finds(result, *sanitizing.expected()["same_element"])
