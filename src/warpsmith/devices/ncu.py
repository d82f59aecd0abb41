"""Ask Nsight Compute (ncu) what a command's kernels did on the GPU, with typed errors where it cannot say."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import DeviceError, MissingTool

INSTALL = "install Nsight Compute of the CUDA toolkit and put ncu on PATH"
STILL = "The same counters without a GPU's permission: --device virtual"

# names that ncu has on sm_80 and sm_90; the same as in vgpu/metrics.py where both have them
METRICS = (
    "launch__grid_size", "launch__thread_count", "launch__registers_per_thread",
    "launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic",
    "launch__waves_per_multiprocessor", "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem", "launch__occupancy_limit_warps",
    "launch__occupancy_limit_blocks", "sm__maximum_warps_per_active_cycle_pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active", "gpu__time_duration.sum",
    *(f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"
      for op in ("ld", "st", "red", "atom") for what in ("requests", "sectors")),
    *(f"smsp__sass_inst_executed_op_shared_{op}.sum" for op in ("ld", "st")),
    *(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st")),
    *(f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum"
      for op in ("fadd", "fmul", "ffma", "dadd", "dmul", "dfma", "hadd", "hmul", "hfma")),
    "smsp__inst_executed.sum", "smsp__thread_inst_executed_per_inst_executed.ratio",
    "smsp__sass_average_branch_targets_threads_uniform.pct", "l1tex__t_sector_hit_rate.pct",
    "lts__t_sector_hit_rate.pct", "dram__bytes_read.sum", "dram__bytes_write.sum",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__throughput.avg.pct_of_peak_sustained_active",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    """One profiled launch. Values are in base units: seconds are nanoseconds in ncu's CSV."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    metrics: Mapping[str, float] = field(default_factory=dict)


def collect(
    command: Sequence[str], metrics: Iterable[str] = METRICS, *, kernel: str = "",
    environment: Mapping[str, str] | None = None, timeout_s: float = 600.0,
) -> tuple[str, list[Measured]]:  # fmt: skip
    """Run a command under ncu; its version, and one Measured for each launch.

    kernel: a regular expression that names of kernels must contain. Clocks are left as they are;
    caches are emptied before each pass, as the virtual GPU's cache model starts.

    Raises MissingTool without ncu; DeviceError where the driver does not give counters to this user,
    where no kernel ran, and with the command's own last words where it failed.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        raise MissingTool("ncu", f"it is not on PATH. {STILL}", INSTALL)
    chosen = ["--kernel-name", f"regex:{kernel}"] if kernel else []
    call = [
        ncu, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
        "--cache-control", "all", "--target-processes", "all", *chosen,
        "--metrics", ",".join(metrics), *command,
    ]  # fmt: skip
    done = subprocess.run(
        call, capture_output=True, text=True, timeout=timeout_s, env=environment or dict(os.environ)
    )
    said = done.stdout + done.stderr
    if "ERR_NVGPUCTRPERM" in said:
        raise DeviceError(
            "the driver gives performance counters to administrators only (ERR_NVGPUCTRPERM): run "
            "as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0. " + STILL
        )
    found = parse(done.stdout)
    if not found:
        words = [line for line in said.splitlines() if line.strip()][-6:]
        raise DeviceError("ncu profiled no kernel:\n" + "\n".join(words) + f"\n{STILL}")
    return version(ncu), found


def version(ncu: str) -> str:
    """ncu's own version, such as "2025.3.1.0"."""
    said = subprocess.run([ncu, "--version"], capture_output=True, text=True, timeout=60).stdout
    match = re.search(r"Version\s+(\S+)", said)
    return match[1] if match else "unknown"


def parse(text: str) -> list[Measured]:
    """The launches of ncu's `--csv --page raw`: a header, a row of units, then a row a launch."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    rows = list(csv.DictReader(lines[start:]))
    return [_launch(row) for row in rows if (row.get("ID") or "").strip().isdigit()]


def _launch(row: Mapping[str, Any]) -> Measured:
    numbers = {name: _number(value) for name, value in row.items() if name and "__" in name}
    return Measured(
        kernel=str(row.get("Kernel Name", "")).partition("(")[0],
        grid=_dims(row.get("Grid Size")),
        block=_dims(row.get("Block Size")),
        metrics={name: value for name, value in numbers.items() if value is not None},
    )


def _number(text: Any) -> float | None:
    try:
        return float(str(text).replace(",", ""))
    except ValueError:
        return None


def _dims(text: Any) -> tuple[int, int, int]:
    found = [int(n) for n in re.findall(r"\d+", str(text or ""))][:3]
    x, y, z = (*found, *[1] * (3 - len(found)))
    return x, y, z
