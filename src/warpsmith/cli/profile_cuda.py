"""`warpsmith profile --device cuda`: the same table with the counters that Nsight Compute gives."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..spec import Target

if TYPE_CHECKING:
    from ..devices.ncu import Measured
    from ..profiling import KernelProfile, Profile

CLOCKS = "clocks not locked, caches emptied before each pass"


def profiled(kernel: Path, options: Sequence[str], target: str | None) -> Profile:
    """Run `warpsmith run KERNEL --device cuda` under ncu. See devices.ncu.collect for errors.

    Raises DeviceUnavailable where there is no GPU, or another one than `target`.
    """
    from ..devices import ncu, open_device
    from ..profiling import Profile

    opened = open_device("cuda", target)
    part = opened.target
    opened.close()
    command = [sys.executable, "-m", "warpsmith.cli", "run", str(kernel), *options]
    version, launches = ncu.collect([*command, "--device", "cuda"])
    return Profile(
        device="cuda",
        target=part.name,
        target_title=part.title,
        provenance=f"Measured by Nsight Compute {version} on this machine's {part.title}: {CLOCKS}. "
        "Times under a profiler are no benchmark. ncu gives no source lines here: "
        "--device virtual has them.",
        kernels=tuple(_kernel(launch, part) for launch in launches),
    )


def _kernel(launch: Measured, target: Target) -> KernelProfile:
    from ..profiling import KernelProfile, sections_of

    got = dict(launch.metrics)
    time_ns = got.pop("gpu__time_duration.sum", None)
    registers = got.get("launch__registers_per_thread")
    return KernelProfile(
        kernel=launch.kernel,
        grid=launch.grid,
        block=launch.block,
        shared_bytes=int(got.get("launch__shared_mem_per_block_dynamic", 0)),
        registers=None if registers is None else int(registers),
        sections=sections_of(got),
        time_us=None if time_ns is None else time_ns / 1e3,
        roofline=_roofline(got, time_ns, target),
        measured=True,
    )


def _roofline(got: dict[str, float], time_ns: float | None, target: Target) -> dict[str, float]:
    """Work of the ordinary pipes over the bytes that DRAM moved."""
    from ..analyze.roofline import work

    moved = got.get("dram__bytes_read.sum", 0) + got.get("dram__bytes_write.sum", 0)
    flops = sum(work(got).values())
    if not (time_ns and moved and flops):
        return {}
    return {
        "flops": flops,
        "bytes": moved,
        "time_us": time_ns / 1e3,
        "peak_gflops": 1e3 * target.fp32_tflops,
        "peak_gbps": target.memory_gbps,
    }
