"""The frozen facts: one row of limits per compute capability, one row of numbers per part.

Limits are those of the CUDA programming guide's tables and of cuda_occupancy.h. Peaks are dense
figures of data sheets and architecture white papers. The L2 rate is not published: rows carry
published microbenchmarks (V100, T4: Jia et al. 2018 and 2019) or a rounded sustained figure from
bytes per clock of the white paper; treat it as ±25 %.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

from warpsmith.spec.target import Target

KIB = 1024
GB = 1_000_000_000
GIB = 1 << 30
MIB = 1 << 20

# fmt: off
_LIMIT_COLUMNS = (
    "threads_per_sm", "blocks_per_sm", "shared_per_sm_kib", "shared_per_block_kib",
    "shared_reserved_bytes", "shared_granule_bytes", "barriers_per_sm", "fp32_lanes_per_sm",
    "fp64_lanes_per_sm", "int32_lanes_per_sm", "shared_bytes_per_cycle",
)
# fmt: on

# compute capability: the columns above
_LIMITS: dict[tuple[int, int], tuple[int, ...]] = {
    (7, 0): (2048, 32, 96, 96, 0, 256, 64, 64, 32, 64, 128),
    (7, 5): (1024, 16, 64, 64, 0, 256, 32, 64, 2, 64, 64),
    (8, 0): (2048, 32, 164, 163, 1024, 128, 64, 64, 32, 64, 128),
    (8, 6): (1536, 16, 100, 99, 1024, 128, 16, 128, 2, 64, 128),
    (8, 7): (1536, 16, 164, 163, 1024, 128, 16, 128, 2, 64, 128),
    (8, 9): (1536, 24, 100, 99, 1024, 128, 24, 128, 2, 64, 128),
    (9, 0): (2048, 32, 228, 227, 1024, 128, 64, 128, 64, 64, 128),
    (10, 0): (2048, 32, 228, 227, 1024, 128, 64, 128, 64, 64, 128),
    (10, 3): (2048, 32, 228, 227, 1024, 128, 64, 128, 2, 64, 128),
    (11, 0): (1536, 24, 228, 227, 1024, 128, 24, 128, 2, 64, 128),
    (12, 0): (1536, 24, 100, 99, 1024, 128, 24, 128, 2, 128, 128),
    (12, 1): (1536, 24, 100, 99, 1024, 128, 24, 128, 2, 128, 128),
}

# fmt: off
_PART_COLUMNS = (
    "title", "compute_capability", "sms", "boost_mhz", "memory_bytes", "memory_gbps", "l2_bytes",
    "l2_gbps", "fp64_tflops", "fp32_tflops", "fp16_tflops", "tensor_fp64_tflops",
    "tensor_tf32_tflops", "tensor_fp16_tflops", "tensor_bf16_tflops", "tensor_fp8_tflops",
    "tensor_int8_tops",
)
# fmt: on

# fmt: off
# title, cc, SMs, boost MHz, memory, GB/s, L2, L2 GB/s,
#     fp64, fp32, fp16, tensor: fp64, tf32, fp16, bf16, fp8, int8
_PARTS: dict[str, tuple[Any, ...]] = {
    "v100": ("NVIDIA V100 SXM2 32 GB", (7, 0), 80, 1530, 32 * GIB, 900, 6 * MIB, 2155,
             7.8, 15.7, 31.4, 0.0, 0.0, 125.0, 0.0, 0.0, 0.0),
    "t4": ("NVIDIA T4", (7, 5), 40, 1590, 16 * GIB, 320, 4 * MIB, 1270,
           0.254, 8.1, 16.3, 0.0, 0.0, 65.0, 0.0, 0.0, 130.0),
    "rtx2080ti": ("NVIDIA GeForce RTX 2080 Ti", (7, 5), 68, 1545, 11 * GIB, 616, 5632 * KIB, 2000,
                  0.42, 13.4, 26.9, 0.0, 0.0, 53.8, 0.0, 0.0, 215.2),
    "a100-40gb": ("NVIDIA A100 SXM 40 GB", (8, 0), 108, 1410, 40 * GIB, 1555, 40 * MIB, 4800,
                  9.7, 19.5, 78.0, 19.5, 156.0, 312.0, 312.0, 0.0, 624.0),
    "a100": ("NVIDIA A100 SXM 80 GB", (8, 0), 108, 1410, 80 * GIB, 2039, 40 * MIB, 4800,
             9.7, 19.5, 78.0, 19.5, 156.0, 312.0, 312.0, 0.0, 624.0),
    "a30": ("NVIDIA A30", (8, 0), 56, 1440, 24 * GIB, 933, 24 * MIB, 2500,
            5.2, 10.3, 41.3, 10.3, 82.0, 165.0, 165.0, 0.0, 330.0),
    "a10": ("NVIDIA A10", (8, 6), 72, 1695, 24 * GIB, 600, 6 * MIB, 2000,
            0.488, 31.2, 31.2, 0.0, 62.5, 125.0, 125.0, 0.0, 250.0),
    "a40": ("NVIDIA A40", (8, 6), 84, 1740, 48 * GIB, 696, 6 * MIB, 2400,
            0.585, 37.4, 37.4, 0.0, 74.8, 149.7, 149.7, 0.0, 299.3),
    "rtx3090": ("NVIDIA GeForce RTX 3090", (8, 6), 82, 1695, 24 * GIB, 936, 6 * MIB, 2400,
                0.556, 35.6, 35.6, 0.0, 35.6, 71.2, 71.2, 0.0, 284.7),
    "rtxa6000": ("NVIDIA RTX A6000", (8, 6), 84, 1800, 48 * GIB, 768, 6 * MIB, 2500,
                 0.605, 38.7, 38.7, 0.0, 77.4, 154.8, 154.8, 0.0, 309.7),
    "jetson-orin": ("NVIDIA Jetson AGX Orin 64 GB", (8, 7), 16, 1300, 64 * GIB, 204.8, 4 * MIB, 600,
                    0.083, 5.3, 10.6, 0.0, 21.3, 42.6, 42.6, 0.0, 85.2),
    "rtx4090": ("NVIDIA GeForce RTX 4090", (8, 9), 128, 2520, 24 * GIB, 1008, 72 * MIB, 5000,
                1.29, 82.6, 82.6, 0.0, 82.6, 165.2, 165.2, 330.3, 660.6),
    "l4": ("NVIDIA L4", (8, 9), 58, 2040, 24 * GIB, 300, 48 * MIB, 1900,
           0.473, 30.3, 30.3, 0.0, 60.0, 121.0, 121.0, 242.5, 242.5),
    "l40s": ("NVIDIA L40S", (8, 9), 142, 2520, 48 * GIB, 864, 96 * MIB, 5000,
             1.43, 91.6, 91.6, 0.0, 183.0, 362.0, 362.0, 733.0, 733.0),
    "h100": ("NVIDIA H100 SXM", (9, 0), 132, 1980, 80 * GIB, 3352, 50 * MIB, 7500,
             33.5, 66.9, 133.8, 66.9, 494.7, 989.4, 989.4, 1978.9, 1978.9),
    "h100-pcie": ("NVIDIA H100 PCIe", (9, 0), 114, 1755, 80 * GIB, 2039, 50 * MIB, 6500,
                  25.6, 51.2, 102.4, 51.2, 378.0, 756.0, 756.0, 1513.0, 1513.0),
    "h200": ("NVIDIA H200 SXM", (9, 0), 132, 1980, 141 * GB, 4800, 60 * MIB, 7500,
             33.5, 66.9, 133.8, 66.9, 494.7, 989.4, 989.4, 1978.9, 1978.9),
    "b200": ("NVIDIA B200", (10, 0), 148, 1965, 180 * GB, 7700, 126 * MIB, 11000,
             37.2, 74.4, 148.9, 37.2, 1125.0, 2250.0, 2250.0, 4500.0, 4500.0),
    "rtx5090": ("NVIDIA GeForce RTX 5090", (12, 0), 170, 2407, 32 * GIB, 1792, 96 * MIB, 7000,
                1.64, 104.8, 104.8, 0.0, 104.8, 209.5, 209.5, 419.0, 838.0),
    "rtxpro6000": ("NVIDIA RTX PRO 6000 Blackwell", (12, 0), 188, 2617, 96 * GIB, 1792, 128 * MIB,
                   7500, 1.97, 126.0, 126.0, 0.0, 251.9, 503.8, 503.8, 1007.6, 1007.6),
}
# fmt: on

ALIASES = {"a100-80gb": "a100", "h100-sxm": "h100", "h200-sxm": "h200", "v100-32gb": "v100"}


def limits_of(compute_capability: tuple[int, int]) -> dict[str, int] | None:
    """Per-SM limits and rates of a compute capability, as `Target` fields; None when unknown."""
    row = _LIMITS.get(compute_capability)
    if row is None:
        return None
    limits = dict(zip(_LIMIT_COLUMNS, row, strict=True))
    for scope in ("sm", "block"):
        limits[f"shared_per_{scope}_bytes"] = limits.pop(f"shared_per_{scope}_kib") * KIB
    return limits | {"registers_per_sm": 65536, "sfu_lanes_per_sm": 16}


def _part(name: str, row: tuple[Any, ...]) -> Target:
    facts: dict[str, Any] = dict(zip(_PART_COLUMNS, row, strict=True))
    facts |= limits_of(facts["compute_capability"]) or {}
    return Target(name=name, **facts)


CATALOGUE: dict[str, Target] = {name: _part(name, row) for name, row in _PARTS.items()}
