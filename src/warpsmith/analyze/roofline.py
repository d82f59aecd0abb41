"""Where a candidate stands under the roofs of its target: work, bytes, time, and the ceilings."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..spec import Launch, Target

# floating-point operations of one thread-level instruction; packed types do two lanes
FLOPS = {
    "fadd": 1, "fmul": 1, "ffma": 2, "dadd": 1, "dmul": 1, "dfma": 2,
    "hadd": 1, "hmul": 1, "hfma": 2, "hadd2": 2, "hmul2": 2, "hfma2": 4,
    "fadd2": 2, "fmul2": 2, "ffma2": 4,
}  # fmt: skip


def roofline(launches: Sequence[Launch], time_us: float, target: Target) -> dict[str, float]:
    """Work and bytes of all launches, and the ceilings of the target.

    flops: additions and multiplications, tensor operations included. bytes: the least that DRAM must
    move for these launches with cold caches (distinct 32-byte sectors touched). peak_gflops: of the
    unit that did most of the work. Intensity is flops / bytes, as in Williams, Waterman and
    Patterson, "Roofline", CACM 52(4), 2009.
    """
    flops = sum(sum(work(launch.counters).values()) for launch in launches)
    moved = sum(bytes_moved(launch.counters) for launch in launches)
    return {
        "flops": float(flops),
        "bytes": float(moved),
        "time_us": time_us,
        "peak_gflops": peak_gflops(launches, target),
        "peak_gbps": target.memory_gbps,
    }


def work(counters: Mapping[str, float]) -> dict[str, float]:
    """Floating-point operations by unit: "fp32", "fp64", "fp16", "tensor:bf16", …"""
    done: dict[str, float] = {}
    for operation, weight in FLOPS.items():
        count = counters.get(f"smsp__sass_thread_inst_executed_op_{operation}_pred_on.sum", 0)
        if count:
            unit = {"f": "fp32", "d": "fp64", "h": "fp16"}[operation[0]]
            done[unit] = done.get(unit, 0) + weight * count
    for name, count in counters.items():
        if name.startswith("tensor_flops_") and count:
            done["tensor:" + name.removeprefix("tensor_flops_")] = count
    return done


def bytes_moved(counters: Mapping[str, float]) -> float:
    return counters.get("unique_bytes_read", 0) + counters.get("unique_bytes_written", 0)


def peak_gflops(launches: Sequence[Launch], target: Target) -> float:
    """The ceiling of the unit that did most of the work; fp32 where no arithmetic was counted."""
    total: dict[str, float] = {}
    for launch in launches:
        for unit, count in work(launch.counters).items():
            total[unit] = total.get(unit, 0) + count
    unit = max(total, key=lambda u: total[u], default="fp32")
    if unit.startswith("tensor:"):
        return 1e3 * target.tensor_tflops(unit.removeprefix("tensor:"))
    return (
        1e3
        * {
            "fp32": target.fp32_tflops,
            "fp64": target.fp64_tflops,
            "fp16": target.fp16_tflops,
        }[unit]
    )
