"""Triton kernels under TRITON_INTERPRET=1: CPU milliseconds of repeated calls, as JSON on stdout."""
# SPDX-License-Identifier: Apache-2.0

import json
import os
import sys
import time
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "vgpu"))

import torch
from kernels import triton_kernels as k

torch.set_num_threads(1)


def times_ms(run, repeats: int) -> list[float]:
    found = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        found.append(1e3 * (time.process_time() - start))
    return found


def calls() -> dict:
    torch.manual_seed(0)
    x, y, out = torch.randn(1 << 20), torch.randn(1 << 20), torch.zeros(1 << 20)
    rows, result = torch.randn(256, 781), torch.zeros(256, 781)
    wide, normal = torch.randn(256, 1024), torch.zeros(256, 1024)
    w, b, mean, rstd = torch.randn(1024), torch.randn(1024), torch.zeros(256), torch.zeros(256)
    a, c = torch.randn(256, 256).half(), torch.randn(256, 256).half()
    product = torch.zeros(256, 256)
    q, key, v, o = (torch.randn(2, 128, 64).half() for _ in range(4))
    found = {
        "vector_add_1m": lambda: k.add[(1024,)](x, y, out, 1 << 20, BLOCK=1024),
        "softmax_256x781": lambda: k.softmax[(256,)](rows, result, 781, BLOCK=1024),
        "layer_norm_256x1024": lambda: k.layer_norm[(256,)](wide, normal, w, b, mean, rstd, 1024, 1e-5, BLOCK=1024),
        "attention_2x128x64": lambda: k.attention[(2, 2)](q, key, v, o, 0.125, 128, D=64, BM=64, BN=32),
    }  # fmt: skip
    for tile in (16, 32, 64):
        found[f"matmul_256_tile_{tile}"] = lambda tile=tile: k.matmul[(256 // tile, 256 // tile)](
            a, c, product, 256, 256, 256, BM=tile, BN=tile, BK=32
        )
    return found


if __name__ == "__main__":
    print(json.dumps({name: times_ms(run, int(sys.argv[1])) for name, run in calls().items()}))
