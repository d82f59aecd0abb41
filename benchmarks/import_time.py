"""How long `import warpsmith` takes in a fresh process: CPU and wall time, best and median of 15.

python benchmarks/import_time.py
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

from about import about

CODE = (
    "import time; w, c = time.perf_counter(), time.process_time(); import warpsmith; "
    "print(time.perf_counter() - w, time.process_time() - c)"
)


def main() -> None:
    runs = [
        tuple(map(float, subprocess.check_output([sys.executable, "-c", CODE], text=True).split()))
        for _ in range(15)
    ]
    result = about("cpu", runs=len(runs))
    for name, values in zip(("wall_s", "cpu_s"), zip(*runs)):
        result[name] = {"best": min(values), "median": statistics.median(values)}
    out = Path(__file__).parent / "results" / "import_time.json"
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
