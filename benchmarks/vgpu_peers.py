"""The virtual GPU against Triton's interpreter and Numba's CUDA simulator: same kernels, same sizes.

Called by vgpu_speed.py. Every number is CPU time of the process that runs the kernel. A ratio is that of
the medians; its spread is the least and the greatest peer's time over ours, both ways round.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
from vgpu_speed import Case, cuda, cuda_file, floats, triton_case

PEERS = Path(__file__).with_name("peers")
REPEATS = 5


def triton_cases() -> list[Case]:
    n, ones = 1 << 20, np.float32
    a, b, c = (
        floats(256, 256).astype(np.float16),
        floats(256, 256).astype(np.float16),
        floats(256, 256),
    )
    qkv = [floats(2, 128, 64).astype(np.float16) for _ in range(4)]
    norm = [
        floats(256, 1024),
        floats(256, 1024),
        floats(1024),
        floats(1024),
        floats(256),
        floats(256),
    ]
    tiles = [
        triton_case(f"matmul_256_tile_{t}", "matmul", "hhpnnn", {"BM": t, "BN": t, "BK": 32},
                    (256 // t, 256 // t), [a, b, c, 256, 256, 256], 80, 4)
        for t in (16, 32, 64)
    ]  # fmt: skip
    return [
        triton_case("vector_add_1m", "add", "pppn", {"BLOCK": 1024}, (1024,), [floats(n), floats(n), floats(n), n], 80, 4),
        triton_case("softmax_256x781", "softmax", "ppn", {"BLOCK": 1024}, (256,), [floats(256, 781), floats(256, 781), 781], 80, 4),
        triton_case("layer_norm_256x1024", "layer_norm", "ppppppnf", {"BLOCK": 1024}, (256,), [*norm, 1024, ones(1e-5)], 80, 4),
        triton_case("attention_2x128x64", "attention", "hhhhfn", {"D": 64, "BM": 64, "BN": 32}, (2, 2), [*qkv, ones(0.125), 128], 80, 4),
        *tiles,
    ]  # fmt: skip


def numba_cases() -> list[Case]:
    basics, keys = (
        cuda_file("basics.cu"),
        np.random.default_rng(0).integers(0, 64, 4096, dtype=np.int32),
    )
    a, b, c = floats(32, 32), floats(32, 32), floats(32, 32)
    reduce_shared = cuda((PEERS / "reduce_shared.cu").read_text())
    return [
        Case("vadd_4096", basics, "vadd", (32,), (128,), [floats(4096), floats(4096), floats(4096), 4096]),
        Case("sgemm_tiled_32", basics, "sgemm_tiled", (2, 2), (16, 16), [a, b, c, 32]),
        Case("histogram_4096", basics, "histogram", (4,), (128,), [keys, np.zeros(64, np.int32), 4096]),
        Case("reduction_4096", reduce_shared, "reduce_shared", (4,), (128,), [floats(4096), floats(1), 4096]),
    ]  # fmt: skip


def ours_ms(case: Case) -> list[float]:
    case.launch(False)
    found = []
    for _ in range(3 * REPEATS):
        start = time.process_time()
        case.launch(False)
        found.append(1e3 * (time.process_time() - start))
    return found


def compared(found: list[Case], theirs: dict[str, list[float]]) -> dict:
    rows = {}
    for case in found:
        ours, peer = ours_ms(case), theirs[case.name]
        rows[case.name] = {
            "ms": median(ours), "peer_ms": median(peer),
            "times_faster": median(peer) / median(ours),
            "spread": [min(peer) / max(ours), max(peer) / min(ours)],
        }  # fmt: skip
    return rows


def peer(script: str, python: str) -> dict[str, list[float]]:
    done = subprocess.run(
        [python, str(PEERS / script), str(REPEATS)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def against_peers() -> dict:
    """Rows against both; `$WARPSMITH_NUMBA_PYTHON` names the Python that has Numba, when it is another."""
    python = os.environ.get("WARPSMITH_NUMBA_PYTHON", sys.executable)
    asked = [python, "-c", "import numba; print(numba.__version__)"]
    numba = subprocess.run(asked, capture_output=True, text=True)
    result = {
        "TRITON_INTERPRET=1": compared(
            triton_cases(), peer("triton_interpreted.py", sys.executable)
        )
    }
    if numba.returncode:
        return result | {"numba": "not installed"}
    rows = compared(numba_cases(), peer("numba_simulated.py", python))
    return result | {f"numba {numba.stdout.strip()} NUMBA_ENABLE_CUDASIM=1": rows}
