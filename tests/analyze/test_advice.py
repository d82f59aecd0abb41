"""Each finding is given for a launch that has the fault and not for one that has not."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest

from warpsmith import targets
from warpsmith.analyze import advise, roofline
from warpsmith.spec import Launch

pytestmark = pytest.mark.plain
H100 = targets.get("h100")
HEALTHY = {
    "memory_l2_theoretical_sectors_global": 4000,
    "memory_l2_theoretical_sectors_global_ideal": 4000,
    "memory_l1_wavefronts_shared": 100,
    "memory_l1_wavefronts_shared_ideal": 100,
    "warp_instructions": 1000,
    "thread_instructions": 32000,
    "unique_bytes_read": 64000,
    "unique_bytes_written": 64000,
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 1000,
}


def launch(grid=(1320, 1, 1), bound="dram", **counters):
    return Launch("k", grid, (256, 1, 1), counters=HEALTHY | counters, bound=bound, time_us=1.0)


def test_a_healthy_kernel_gets_no_advice():
    assert advise([launch()], H100) == []


@pytest.mark.parametrize(
    ("name", "sick"),
    [
        ("uncoalesced", launch(memory_l2_theoretical_sectors_global=32000)),
        ("bank_conflicts", launch(memory_l1_wavefronts_shared=3200)),
        ("grid_fill", launch(grid=(8, 1, 1))),
        ("spills", launch(local_load_requests=200)),
        ("divergence", launch(thread_instructions=4000)),
        ("launch_bound", launch(bound="launch")),
    ],
)
def test_the_fault_is_found(name, sick):
    assert [f.name for f in advise([sick], H100)] == [name]


def test_largest_gain_first():
    both = launch(memory_l2_theoretical_sectors_global=5000, grid=(1, 1, 1))
    assert [f.name for f in advise([both], H100)] == ["grid_fill", "uncoalesced"]


def test_roofline_counts_fma_twice_and_both_directions():
    line = roofline([launch(), launch()], 2.0, H100)
    assert line["flops"] == 4000
    assert line["bytes"] == 256000
    assert line["peak_gflops"] == 1e3 * H100.fp32_tflops


def test_tensor_work_is_held_against_the_tensor_peak():
    line = roofline([launch(tensor_flops_bf16=10**9)], 2.0, H100)
    assert line["peak_gflops"] == 1e3 * H100.tensor_bf16_tflops
