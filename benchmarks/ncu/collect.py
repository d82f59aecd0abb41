"""Collect ncu's metrics of every case on this machine's GPU: one JSON, and ncu's own CSV beside it.

    python benchmarks/ncu/collect.py --out benchmarks/results          # on the machine with a GPU

Names that this ncu or this GPU does not have are dropped, and listed in the result. Clocks are left
alone; caches are emptied before every pass.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

from warpsmith.devices import ncu

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=200.0, help="for the whole run under ncu")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = (HERE / "metrics.txt").read_text().split()
    known = usable(wanted, options.out)
    print(f"{len(known)} of {len(wanted)} metrics", flush=True)
    text, names = profiled(known, options.only, options.out, options.seconds)
    launches = ncu.parse(text)
    print(f"{len(launches)} launches, {len(names)} cases", flush=True)
    result = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": torch.cuda.get_device_name(),
        "ncu": ncu.version(shutil.which("ncu") or "ncu"),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "dropped": sorted(set(wanted) - set(known)),
        "cases": {
            name: {
                "kernel": launch.kernel,
                "grid": launch.grid,
                "block": launch.block,
                "metrics": {k: v for k, v in launch.metrics.items() if k in known},
            }
            for name, launch in zip(names, launches)
        },
    }
    (options.out / "ncu-h200.json").write_text(json.dumps(result, indent=1) + "\n")


def usable(wanted: list[str], out: Path) -> list[str]:
    """The metrics that ncu takes: those it complains about are dropped until it runs."""
    known = list(wanted)
    for attempt in range(8):
        started = time.time()
        done = under_ncu(known, ["vadd_tail"], 90)
        (out / f"probe{attempt}.txt").write_text(done)
        print(f"probe {attempt}: {time.time() - started:.1f} s", flush=True)
        refused = {
            name
            for line in done.splitlines()
            if re.search(r"ERROR|[Ff]ailed to|not find|[Uu]nknown|[Ii]nvalid", line)
            for name in known
            if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", line)
        }
        if not refused and '"ID"' in done:
            return known
        if not refused:
            print(done[-2000:], flush=True)
            raise SystemExit("ncu says no, and names no metric")
        known = [name for name in known if name not in refused]
    raise SystemExit("ncu refused metrics eight times over")


def under_ncu(metrics: list[str], only: list[str], seconds: float) -> str:
    call = [
        "ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
        "--cache-control", "all", "--kernel-name", "regex:^k_", "--metrics", ",".join(metrics),
        sys.executable, str(HERE / "cases.py"), "cuda", *(["--only", *only] if only else []),
    ]  # fmt: skip
    try:
        done = subprocess.run(call, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode() + (late.stderr or b"").decode() + "\n==ERROR== timeout"
    return done.stdout + done.stderr


def profiled(
    metrics: list[str], only: list[str], out: Path, seconds: float
) -> tuple[str, list[str]]:
    text = under_ncu(metrics, only, seconds)
    (out / "ncu-raw.csv").write_text(text)
    return text, re.findall(r"^case (\S+)$", text, re.MULTILINE)


if __name__ == "__main__":
    main()
