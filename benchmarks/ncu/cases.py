"""The launches that ncu and the virtual GPU are compared on: the same inputs from the same seeds.

python benchmarks/ncu/cases.py cuda                      # each case once, in order
python benchmarks/ncu/cases.py cuda --only vadd gather
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import warpsmith as ws

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
N = 1 << 20
G = 256  # of matrices
Case = Callable[[str], None]


class Inputs:
    """Tensors of one case, from its own generator, on its device."""

    def __init__(self, device: str):
        self.device, self.generator = device, torch.Generator().manual_seed(7)

    def floats(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(shape, generator=self.generator).to(dtype).to(self.device)

    def zeros(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def ints(self, most: int, *shape: int) -> torch.Tensor:
        made = torch.randint(0, most, shape, generator=self.generator, dtype=torch.int32)
        return made.to(self.device)

    def given(self, values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=self.device)


def cuda(kernel: str, grid: Any, block: Any, make: Callable[[Inputs], list[Any]]) -> Case:
    """Launch one kernel of kernels.cu."""

    def run(device: str) -> None:
        ws.cuda(HERE / "kernels.cu", kernel)[grid, block](*make(Inputs(device)))

    return run


def triton(kernel: str, grid: Any, make: Callable[[Inputs], list[Any]], **constants: Any) -> Case:
    def run(device: str) -> None:
        import triton_kernels

        ws.triton(getattr(triton_kernels, kernel))[grid](*make(Inputs(device)), **constants)

    return run


def shared(kernel: str, width: int, at: list[int]) -> Case:
    return cuda(kernel, 2, 64, lambda t: [t.zeros(2 * 64 * width), t.given(at)])


def patterns() -> dict[str, Case]:
    """Where the 32 lanes of a warp are in shared memory: everything that a layout may do."""
    shapes = {
        "row": list(range(32)),
        "same": [0] * 32,
        "pairs": [lane // 2 for lane in range(32)],
        "fours": [lane // 4 for lane in range(32)],
        "stride2": [2 * lane for lane in range(32)],
        "stride8": [8 * lane for lane in range(32)],
        "stride32": [32 * lane for lane in range(32)],
        "halves": [lane % 16 for lane in range(32)],
        "quarters": [lane % 8 for lane in range(32)],
        "eighths": [lane % 4 for lane in range(32)],
        "two": [lane % 2 for lane in range(32)],
        "shuffled": [(lane * 7) % 32 for lane in range(32)],
        "twofold": [lane // 16 * 32 + lane % 16 for lane in range(32)],
    }
    widths = {"k_shared32": 1, "k_shared64": 2, "k_shared128": 4}
    found = {
        f"{kernel[2:]}_{name}": shared(kernel, width, at)
        for kernel, width in widths.items()
        for name, at in shapes.items()
    }
    for name in ("row", "fours", "stride8"):
        found[f"shared8_{name}"] = cuda(
            "k_shared8", 2, 64,
            lambda t, at=shapes[name]: [t.zeros(128, dtype=torch.uint8), t.given(at)],
        )  # fmt: skip
    return found


def f16(t: Inputs, *shape: int) -> torch.Tensor:
    return t.floats(*shape, dtype=torch.float16)


def elementwise() -> dict[str, Case]:
    return {
        "vadd": cuda("k_vadd", N // 256, 256, lambda t: [t.floats(N), t.floats(N), t.zeros(N), N]),
        "vadd_tail": cuda("k_vadd", 40, 256, lambda t: [t.floats(9999), t.floats(9999), t.zeros(9999), 9999]),
        "vadd2": cuda("k_vadd2", N // 512, 256, lambda t: [t.floats(N), t.floats(N), t.zeros(N), N // 2]),
        "vadd4": cuda("k_vadd4", N // 1024, 256, lambda t: [t.floats(N), t.floats(N), t.zeros(N), N // 4]),
        "daxpy": cuda("k_daxpy", N // 512, 256, lambda t: [2.0, t.floats(N // 2, dtype=torch.float64), t.floats(N // 2, dtype=torch.float64), N // 2]),
        "half": cuda("k_half", N // 256, 256, lambda t: [f16(t, N), f16(t, N), f16(t, N), N]),
        "half2": cuda("k_half2", N // 512, 256, lambda t: [f16(t, N), f16(t, N), f16(t, N), N // 2]),
        "bytes": cuda("k_bytes", N // 256, 256, lambda t: [t.zeros(N, dtype=torch.uint8), t.zeros(N, dtype=torch.uint8), N]),
        "gelu": cuda("k_gelu", N // 256, 256, lambda t: [t.floats(N), t.zeros(N), N]),
        **{f"strided{s}": cuda("k_strided", N // 8 // 256, 256, lambda t, s=s: [t.floats(N // 8 * s), t.zeros(N // 8), N // 8, s]) for s in (2, 4, 8, 33)},
        **{f"strided_store{s}": cuda("k_strided_store", N // 8 // 256, 256, lambda t, s=s: [t.floats(N // 8), t.zeros(N // 8 * s), N // 8, s]) for s in (2, 8)},
        "offset1": cuda("k_offset", N // 256, 256, lambda t: [t.floats(N + 1), t.zeros(N), N, 1]),
        "gather": cuda("k_gather", N // 4 // 256, 256, lambda t: [t.floats(N), t.ints(N, N // 4), t.zeros(N // 4), N // 4]),
    }  # fmt: skip


def movers() -> dict[str, Case]:
    n = 1024
    square = [
        (name, cuda(f"k_{name}", (n // 32, n // 32), (32, 8), lambda t: [t.floats(n, n), t.zeros(n, n), n]))
        for name in ("transpose_naive", "transpose_conflict", "transpose_padded")
    ]  # fmt: skip
    return dict(square) | {
        "stencil": cuda("k_stencil", (n // 32, n // 8), (32, 8), lambda t: [t.floats(n, n), t.zeros(n, n), n]),
        "copy_async": cuda("k_copy_async", 64, 256, lambda t: [t.floats(64 * 1024), t.zeros(64 * 1024)]),
        "copy_async4": cuda("k_copy_async4", 64, 256, lambda t: [t.floats(64 * 256), t.zeros(64 * 256)]),
        "local": cuda("k_local", 32, 128, lambda t: [t.ints(1000, 4096), t.zeros(4096, dtype=torch.int32), 4096]),
        "divergent": cuda("k_divergent", 32, 128, lambda t: [t.ints(1000, 4096), t.zeros(4096, dtype=torch.int32), 50]),
    }  # fmt: skip


def reductions() -> dict[str, Case]:
    return {
        "reduce_interleaved": cuda("k_reduce_interleaved", 512, 256, lambda t: [t.floats(512 * 256), t.zeros(512)]),
        "reduce_strided": cuda("k_reduce_strided", 512, 256, lambda t: [t.floats(512 * 256), t.zeros(512)]),
        "reduce_shuffle": cuda("k_reduce_shuffle", 264, 256, lambda t: [t.floats(N), t.zeros(1), N]),
        "softmax": cuda("k_softmax", 512, 128, lambda t: [t.floats(512, 781), t.zeros(512, 781), 781]),
        "hist_global": cuda("k_hist_global", N // 8 // 256, 256, lambda t: [t.ints(256, N // 8), t.zeros(256, dtype=torch.int32), N // 8]),
        "hist_shared": cuda("k_hist_shared", 132, 256, lambda t: [t.ints(256, N), t.zeros(256, dtype=torch.int32), N]),
        "append": cuda("k_append", N // 8 // 256, 256, lambda t: [t.floats(N // 8), t.zeros(N // 8), t.zeros(1, dtype=torch.int32), N // 8]),
        "ticket": cuda("k_ticket", 64, 128, lambda t: [t.zeros(128, dtype=torch.int32), t.zeros(64 * 128, dtype=torch.int32)]),
        "atomic_float": cuda("k_atomic_float", 64, 128, lambda t: [t.floats(64 * 128), t.zeros(64)]),
    }  # fmt: skip


def products() -> dict[str, Case]:
    def square(t: Inputs) -> list[Any]:
        return [t.floats(G, G), t.floats(G, G), t.zeros(G, G), G]

    def half(t: Inputs) -> list[Any]:
        return [f16(t, G, G), f16(t, G, G), t.zeros(G, G), G]

    def attention(t: Inputs) -> list[Any]:
        return [*(f16(t, 4, 256, 64) for _ in range(4)), 256]

    return {
        "sgemm_naive": cuda("k_sgemm_naive", (G // 32, G // 8), (32, 8), square),
        "sgemm_tiled": cuda("k_sgemm_tiled", (G // 16, G // 16), (16, 16), square),
        "sgemm_register": cuda("k_sgemm_register", (G // 64, G // 64), 256, square),
        "mma": cuda("k_mma", (G // 32, G // 16), 128, half),
        "tri_vadd": triton("k_tri_vadd", (N // 1024,), lambda t: [t.floats(N), t.floats(N), t.zeros(N), N], BLOCK=1024),
        "tri_softmax": triton("k_tri_softmax", (512,), lambda t: [t.floats(512, 781), t.zeros(512, 781), 781], BLOCK=1024),
        "tri_layer_norm": triton("k_tri_layer_norm", (512,), lambda t: [t.floats(512, 1024), t.floats(1024), t.zeros(512, 1024), 1024], BLOCK=1024),
        "tri_matmul_32": triton("k_tri_matmul", (G // 32, G // 32), half, BM=32, BN=32, BK=32),
        "tri_matmul_64": triton("k_tri_matmul", (G // 64, G // 64), half, BM=64, BN=64, BK=64),
        "tri_matmul_128": triton("k_tri_matmul", (G // 128, G // 128), half, BM=128, BN=128, BK=64),
        "tri_attention": triton("k_tri_attention", (4, 4), attention, D=64, BM=64, BN=64),
    }  # fmt: skip


def caches() -> dict[str, Case]:
    """Footprints from one SM's L1 to more than L2."""
    sizes = {"16k": 1 << 12, "128k": 1 << 15, "512k": 1 << 17, "4m": 1 << 20}
    again = {
        f"reread_{name}": cuda("k_reread", 132, 256, lambda t, n=n: [t.floats(n), t.zeros(132 * 256), n, 3])
        for name, n in sizes.items()
    }  # fmt: skip
    wide = 24 << 20  # floats: 96 MiB
    return again | {
        "reread_cg_128k": cuda("k_reread_cg", 132, 256, lambda t: [t.floats(1 << 15), t.zeros(132 * 256), 1 << 15, 3]),
        "rewrite_4m": cuda("k_rewrite", 264, 256, lambda t: [t.zeros(N), N, 3]),
        "update_96m": cuda("k_update", 528, 256, lambda t: [t.zeros(wide), wide]),
    }  # fmt: skip


CASES: dict[str, Case] = {
    **elementwise(), **movers(), **reductions(), **products(), **caches(), **patterns(),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("device", choices=["cuda", "cpu"])
    parser.add_argument("--only", nargs="*", default=list(CASES))
    options = parser.parse_args()
    for name in options.only:
        CASES[name](options.device)
        if options.device == "cuda":
            torch.cuda.synchronize()
        print(f"case {name}", flush=True)


if __name__ == "__main__":
    main()
