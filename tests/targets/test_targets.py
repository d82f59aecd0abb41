"""The catalogue agrees with itself, occupancy with the vendor's calculator, detection with None."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest

from warpsmith import targets
from warpsmith.errors import LaunchError, UnknownName
from warpsmith.targets.detect import DeviceFacts, describe, match

pytestmark = pytest.mark.plain
GIB = 1 << 30


@pytest.mark.parametrize("name", targets.names())
def test_fp32_peak_is_lanes_times_clock(name):
    part = targets.get(name)
    computed = part.sms * part.fp32_lanes_per_sm * 2 * part.boost_mhz * 1e-6
    assert part.fp32_tflops == pytest.approx(computed, rel=0.03)


@pytest.mark.parametrize("name", targets.names())
def test_fp64_peak_is_lanes_times_clock(name):
    part = targets.get(name)
    computed = part.sms * part.fp64_lanes_per_sm * 2 * part.boost_mhz * 1e-6
    assert part.fp64_tflops == pytest.approx(computed, rel=0.05)


@pytest.mark.parametrize("name", targets.names())
def test_tensor_peaks_are_ordered(name):
    part = targets.get(name)
    assert part.tensor_tf32_tflops <= part.tensor_fp16_tflops <= part.tensor_int8_tops or (
        part.compute_capability == (7, 0)
    )
    assert part.tensor_bf16_tflops in (0.0, part.tensor_fp16_tflops)
    assert (part.tensor_fp8_tflops > 0) == (part.compute_capability >= (8, 9))
    assert part.tensor_tflops("tf32") == part.tensor_tf32_tflops
    assert part.tensor_tflops("int8") == part.tensor_int8_tops
    assert part.tensor_tflops("no-such-type") == 0.0


@pytest.mark.parametrize("name", targets.names())
def test_memory_hierarchy_is_ordered(name):
    part = targets.get(name)
    l1_gbps = part.sms * part.shared_bytes_per_cycle * part.boost_mhz * 1e-3
    assert part.memory_gbps < part.l2_gbps < l1_gbps
    assert part.shared_per_block_bytes <= part.shared_per_sm_bytes
    assert part.l2_bytes < part.memory_bytes


def test_names_are_found_in_any_case_and_by_alias():
    assert targets.get("H100") is targets.get("h100-sxm")
    assert targets.get("A100_80GB").memory_gbps > targets.get("a100-40gb").memory_gbps


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(UnknownName, match="Did you mean 'h100'"):
        targets.get("h10")


@pytest.mark.parametrize(
    ("name", "arch"),
    [("v100", "sm_70"), ("a100", "sm_80"), ("h100", "sm_90a"), ("rtx5090", "sm_120a")],
)
def test_arch(name, arch):
    assert targets.get(name).arch == arch


# target, threads, registers, shared, barriers -> blocks, limiter; worked with the vendor's rules
OCCUPANCY = [
    ("a100", 256, 32, 0, 1, 8, "registers"),
    ("a100", 256, 64, 0, 1, 4, "registers"),
    ("a100", 256, 33, 0, 1, 6, "registers"),  # 33 -> 40 registers: 12 warps a scheduler
    ("a100", 128, 16, 48 * 1024, 1, 3, "shared"),  # (48 + 1) KiB each in 164 KiB
    ("h100", 128, 16, 48 * 1024, 1, 4, "shared"),  # in 228 KiB
    ("v100", 128, 16, 48 * 1024, 1, 2, "shared"),  # nothing reserved on 7.0: 96 / 48
    ("h100", 1024, 64, 0, 1, 1, "registers"),
    ("h100", 1024, 65, 0, 1, 0, "registers"),  # 72 registers x 1024 threads > 65536
    ("h100", 384, 168, 227 * 1024, 1, 1, "registers"),
    ("h100", 384, 168, 227 * 1024 + 1, 1, 0, "shared"),
    ("h100", 32, 16, 0, 1, 32, "blocks"),
    ("rtx3090", 256, 32, 0, 1, 6, "threads"),  # 1536 / 256
    ("rtx3090", 1024, 32, 0, 1, 1, "threads"),
    ("rtx4090", 32, 16, 0, 1, 24, "barriers"),  # the pool equals the block limit
    ("t4", 1024, 64, 0, 1, 1, "registers"),
    ("h100", 64, 32, 0, 16, 4, "barriers"),
    ("rtx5090", 64, 32, 0, 16, 1, "barriers"),
    ("h100", 1056, 32, 0, 1, 0, "threads"),
    ("h100", 256, 256, 0, 1, 0, "registers"),
]


@pytest.mark.parametrize(
    ("name", "threads", "registers", "shared", "barriers", "blocks", "limiter"), OCCUPANCY
)
def test_occupancy(name, threads, registers, shared, barriers, blocks, limiter):
    part = targets.get(name)
    got = targets.occupancy(part, threads, registers, shared, barriers)
    assert got.blocks_per_sm == blocks
    assert got.limits[limiter] == blocks == min(got.limits.values())
    assert got.limits[got.limiter] == blocks
    assert got.warps_per_sm == blocks * -(-threads // 32)
    assert got.fraction == got.warps_per_sm / part.warps_per_sm


def test_occupancy_never_grows_with_use():
    part = targets.get("h100")
    by_registers = [targets.occupancy(part, 192, r, 0).blocks_per_sm for r in range(1, 256)]
    by_shared = [targets.occupancy(part, 192, 32, s).blocks_per_sm for s in range(0, 232449, 512)]
    assert by_registers == sorted(by_registers, reverse=True)
    assert by_shared == sorted(by_shared, reverse=True)


@pytest.mark.parametrize(
    "arguments", [(0, 32, 0, 1), (32, -1, 0, 1), (32, 1, -1, 1), (32, 1, 0, 17)]
)
def test_nonsense_is_refused(arguments):
    with pytest.raises(LaunchError):
        targets.occupancy(targets.get("h100"), *arguments)


@pytest.mark.parametrize(
    ("title", "capability", "memory", "name"),
    [
        ("NVIDIA H200", (9, 0), 140 * 10**9, "h200"),
        ("NVIDIA H100 80GB HBM3", (9, 0), 79 * GIB, "h100"),
        ("NVIDIA H100 PCIe", (9, 0), 79 * GIB, "h100-pcie"),
        ("NVIDIA A100-SXM4-40GB", (8, 0), 39 * GIB, "a100-40gb"),
        ("NVIDIA A100-SXM4-80GB", (8, 0), 79 * GIB, "a100"),
        ("NVIDIA GeForce RTX 4090", (8, 9), 24 * GIB, "rtx4090"),
        ("Tesla T4", (7, 5), 15 * GIB, "t4"),
        ("Tesla V100-SXM2-32GB", (7, 0), 32 * GIB, "v100"),
        ("NVIDIA L4", (8, 9), 22 * GIB, "l4"),
        ("NVIDIA L40S", (8, 9), 45 * GIB, "l40s"),
        ("NVIDIA B200", (10, 0), 179 * 10**9, "b200"),
        ("NVIDIA GeForce RTX 5090", (12, 0), 32 * GIB, "rtx5090"),
    ],
)
def test_driver_titles_name_their_part(title, capability, memory, name):
    found = match(title, capability, memory)
    assert found is not None
    assert found.name == name


def test_an_unknown_part_is_derived_from_its_capability():
    facts = DeviceFacts("NVIDIA GeForce RTX 4070", (8, 9), 46, 12 * GIB, 36 << 20, 2475, 504)
    part = describe(facts)
    assert part is not None
    assert part.name == "nvidia-geforce-rtx-4070"
    assert part.fp32_tflops == pytest.approx(29.15, rel=0.02)  # the data sheet's figure
    assert part.memory_gbps == 504


def test_an_unknown_capability_is_none():
    assert describe(DeviceFacts("NVIDIA Future", (99, 0), 1, GIB, 1, 1000, 1)) is None


def test_detect_never_raises():
    found = targets.detect()
    assert found is None or found.sms > 0
