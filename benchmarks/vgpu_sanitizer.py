"""What the sanitizer costs: kernels with all checks, with single ones, and without.

Run: python benchmarks/vgpu_sanitizer.py. Times are CPU time of one process, the best of several
launches; runs with and without checks alternate, so that a busy machine harms both.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
from vgpu_speed import Case, cases, cuda_file, floats  # noqa: E402

from warpsmith import vgpu  # noqa: E402
from warpsmith.vgpu.checks import SWITCHES  # noqa: E402

BUDGET = 8.0  # times the launch without checks, for all checks together


def more_cases() -> list[Case]:
    basics = cuda_file("basics.cu")
    keys = np.random.default_rng(0).integers(0, 64, 1 << 20, dtype=np.int32)
    return [
        Case("transpose_padded_512", basics, "transpose_padded", (16, 16), (32, 8),
             [floats(512, 512), floats(512, 512), 512]),
        Case("histogram_1m", basics, "histogram", (64,), (256,),
             [keys, np.zeros(256, np.int32), 1 << 20]),
    ]  # fmt: skip


def spent_ms(case: Case, checks: vgpu.Checks | None) -> float:
    start = time.process_time()
    result = case.module.launch(case.kernel, case.grid, case.block, case.args, memory=case.memory,
                                count=False, checks=checks, **case.options)  # fmt: skip
    errors = [f for f in result.findings if f.severity != "info"]
    assert not errors, (case.name, errors)
    assert not result.unchecked, case.name
    return 1e3 * (time.process_time() - start)


def measure(case: Case, repeats: int = 7) -> dict:
    none = vgpu.Checks.none()
    variants: dict[str, vgpu.Checks | None] = {"off": None, "all": vgpu.Checks.all()}
    variants |= {
        name: type(none)(**{s: s == name for s in SWITCHES}) for name in SWITCHES[:3]
    }  # the ones that look at memory
    times = {name: [spent_ms(case, c) for c in [checks]] for name, checks in variants.items()}
    for _ in range(repeats - 1):
        for name, checks in variants.items():
            times[name].append(spent_ms(case, checks))
    least = {name: min(t) for name, t in times.items()}
    return {"ms": least, "factor": {n: t / least["off"] for n, t in least.items() if n != "off"}}


def main() -> None:
    report: dict = {
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "budget": BUDGET,
        "kernels": {},
    }
    for case in [*cases(), *more_cases()]:
        report["kernels"][case.name] = row = measure(case)
        factors = "  ".join(f"{n} {f:5.2f}" for n, f in row["factor"].items())
        print(
            f"{case.name:28} {row['ms']['off']:8.2f} ms off {row['ms']['all']:8.2f} ms   {factors}",
            flush=True,
        )
    path = ROOT / "benchmarks" / "results" / "vgpu_sanitizer.json"
    path.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
