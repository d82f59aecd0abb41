"""The launches that the performance model is fitted to and tested on: tasks, and candidates for each.

A task is what is to be computed at one size; its candidates compute it from the same inputs. Inputs
come from a seed, the same on every device.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

import warpsmith as ws

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
M = 1 << 20
Args = list[Any]


@dataclass(frozen=True)
class Case:
    """One launch. out: which argument is the result. expected: the result from the arguments."""

    task: str  # with its size: "add 1048576"
    candidate: str
    kind: str  # the class that errors are reported by
    make: Callable[[Inputs], Args]
    launch: Callable[[Args], None]
    out: int
    expected: Callable[[Args], torch.Tensor] | None
    tolerance: float = 1e-4

    @property
    def name(self) -> str:
        return f"{self.task} / {self.candidate}"


class Inputs:
    """Tensors made from a seed: a random stretch, repeated, so that large ones cost little."""

    def __init__(self, device: str, seed: int = 7):
        self.device, self.generator = device, torch.Generator().manual_seed(seed)

    def floats(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return self._repeated(shape, torch.randn(M + 7, generator=self.generator), dtype)

    def unit(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return self._repeated(shape, torch.rand(M + 7, generator=self.generator), dtype)

    def ints(self, most: int, *shape: int) -> torch.Tensor:
        made = torch.randint(0, most, (M + 7,), generator=self.generator, dtype=torch.int32)
        return self._repeated(shape, made, torch.int32)

    def zeros(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def given(self, values: torch.Tensor) -> torch.Tensor:
        return values.to(self.device)

    def permutation(self, n: int) -> torch.Tensor:
        return torch.randperm(n, generator=self.generator).to(torch.int32).to(self.device)

    def _repeated(self, shape: Sequence[int], base: torch.Tensor, dtype: torch.dtype) -> Any:
        count = math.prod(shape)
        base = base.to(self.device)
        whole = base.repeat(-(-count // base.numel()))[:count]
        return whole.reshape(shape).to(dtype).contiguous()


@cache
def cuda(file: str, kernel: str) -> Any:
    return ws.cuda(HERE / f"{file}.cu", kernel)


@cache
def triton(kernel: str) -> Any:
    import triton_kernels

    return ws.triton(getattr(triton_kernels, kernel))


def on_cuda(
    file: str, kernel: str, grid: Any, block: Any, shared: int = 0
) -> Callable[[Args], None]:
    return lambda args: cuda(file, kernel)[grid, block, shared](*args)


def on_triton(kernel: str, grid: Any, **constants: Any) -> Callable[[Args], None]:
    return lambda args: triton(kernel)[grid](*args, **constants)


def up(n: int, by: int) -> int:
    return -(-n // by)


# ------------------------------------------------------------------------------ moving memory


def adds() -> Iterator[Case]:
    for n in (1 << 14, M, 8 * M, 32 * M):
        for kernel, width in (
            ("k_add<float>", 1),
            ("k_add<float2>", 2),
            ("k_add<float4>", 4),
            ("k_add_stride", 1),
        ):
            blocks = 528 if kernel == "k_add_stride" else up(n, 256 * width)
            yield Case(
                f"add {n}", kernel, "elementwise",
                lambda t, n=n, w=width: [t.floats(n), t.floats(n), t.zeros(n), n // w],
                on_cuda("streams", kernel, blocks, 256), 2, lambda a: a[0] + a[1],
            )  # fmt: skip
    for n in (4 * M, 32 * M):
        for width in (1, 2, 8):
            yield Case(
                f"half add {n}", f"k_hadd<{width}>", "elementwise",
                lambda t, n=n: [t.floats(n, dtype=torch.float16), t.floats(n, dtype=torch.float16), t.zeros(n, dtype=torch.float16), n],
                on_cuda("streams", f"k_hadd<{width}>", up(n, 256 * width), 256), 2, lambda a: a[0] + a[1], 1e-2,
            )  # fmt: skip


def gelus() -> Iterator[Case]:
    for n in (1 << 16, 4 * M, 32 * M):
        for block, warps in ((256, 4), (1024, 4), (4096, 8)):
            yield Case(
                f"gelu {n}", f"triton {block}", "elementwise", lambda t, n=n: [t.floats(n), t.zeros(n), n],
                on_triton("k_tri_gelu", up(n, block), BLOCK=block, num_warps=warps), 1,
                lambda a: a[0] * torch.sigmoid(1.702 * a[0]),
            )  # fmt: skip


def copies() -> Iterator[Case]:
    for n in (M, 16 * M):
        for kib in (0, 48, 100, 200):
            yield Case(
                f"copy {n}", f"{kib} KiB a block", "occupancy", lambda t, n=n: [t.floats(n), t.zeros(n), n // 4],
                on_cuda("streams", "k_copy", up(n, 1024), 256, kib * 1024), 1, lambda a: a[0],
            )  # fmt: skip


def strides() -> Iterator[Case]:
    for stride in (2, 4, 8, 32):
        yield Case(
            f"stride {stride}", "k_strided", "strided",
            lambda t, s=stride: [t.floats(4 * M * s), t.zeros(4 * M), 4 * M, s],
            on_cuda("streams", "k_strided", 4 * M // 256, 256), 1, lambda a: a[0][:: a[3]],
        )  # fmt: skip


def gathers() -> Iterator[Case]:
    def near(t: Inputs, n: int) -> torch.Tensor:
        blocks = torch.arange(n).reshape(-1, 256)
        return t.given(
            blocks[:, torch.randperm(256, generator=t.generator)].reshape(-1).to(torch.int32)
        )

    for n in (M, 16 * M):
        orders = {"random": lambda t, n=n: t.permutation(n), "near": lambda t, n=n: near(t, n)}
        for order, at in orders.items():
            for kernel in ("k_gather", "k_scatter"):
                yield Case(
                    f"{kernel[2:]} {order} {n}", kernel, "gather",
                    lambda t, n=n, at=at: [t.floats(n), at(t), t.zeros(n), n],
                    on_cuda("streams", kernel, n // 256, 256), 2,
                    (lambda a: a[0][a[1].long()]) if kernel == "k_gather"
                    else (lambda a: torch.empty_like(a[0]).scatter_(0, a[1].long(), a[0])),
                )  # fmt: skip
    for rows, cols in ((1 << 14, 128), (1 << 16, 512)):
        for kernel, blocks, block in (
            ("k_rows", rows, 128),
            ("k_rows_warp", rows // 8, 256),
            ("k_rows_thread", rows * cols // 256, 256),
        ):
            yield Case(
                f"table rows {rows}x{cols}", kernel, "gather",
                lambda t, r=rows, c=cols: [t.floats(r, c), t.ints(r, r), t.zeros(r, c), r, c],
                on_cuda("streams", kernel, blocks, block), 2, lambda a: a[0][a[1].long()],
            )  # fmt: skip


def transposes() -> Iterator[Case]:
    kernels = (
        "k_transpose_read",
        "k_transpose_write",
        "k_transpose_tile<0>",
        "k_transpose_tile<1>",
    )
    for n in (512, 2048, 6144):
        for kernel in kernels:
            yield Case(
                f"transpose {n}", kernel, "transpose", lambda t, n=n: [t.floats(n, n), t.zeros(n, n), n],
                on_cuda("streams", kernel, (n // 32, n // 32), (32, 8)), 1, lambda a: a[0].T,
            )  # fmt: skip


def _stencil2(a: Args) -> torch.Tensor:
    x, out = a[0], torch.zeros_like(a[0])
    out[1:-1, 1:-1] = 0.2 * (
        x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[1:-1, 1:-1]
    )
    return out


def _stencil3(a: Args) -> torch.Tensor:
    x, out, i = a[0], torch.zeros_like(a[0]), slice(1, -1)
    near = x[:-2, i, i] + x[2:, i, i] + x[i, :-2, i] + x[i, 2:, i] + x[i, i, :-2] + x[i, i, 2:]
    out[1:-1, 1:-1, 1:-1] = near - 6 * x[i, i, i]
    return out


def _conv5(a: Args) -> torch.Tensor:
    out, n = torch.zeros_like(a[0]), a[3]
    x, w = a[0].double(), a[1].double()
    out[: n - 4, : n - 4] = sum(
        w[y * 5 + z] * x[y : n - 4 + y, z : n - 4 + z] for y in range(5) for z in range(5)
    )
    return out


def stencils() -> Iterator[Case]:
    for n in (1024, 6144):
        for kernel, grid, block in (
            ("k_stencil2", (up(n, 32), up(n, 8)), (32, 8)),
            ("k_stencil2_shared", (up(n, 32), up(n, 16)), (32, 16)),
            ("k_stencil2_march", (up(n, 128), up(n, 16)), (128,)),
        ):
            yield Case(
                f"stencil 2-D {n}", kernel, "stencil", lambda t, n=n: [t.floats(n, n), t.zeros(n, n), n],
                on_cuda("streams", kernel, grid, block), 1, _stencil2,
            )  # fmt: skip
        for kernel, grid, block in (
            ("k_conv5<0>", (up(n, 32), up(n, 16)), (32, 16)),
            ("k_conv5<1>", (up(n, 32), up(n, 16)), (32, 16)),
            ("k_conv5_four", (up(n, 32), up(n, 16)), (32, 4)),
        ):
            yield Case(
                f"conv 5x5 {n}", kernel, "stencil", lambda t, n=n: [t.floats(n, n), t.floats(25), t.zeros(n, n), n],
                on_cuda("streams", kernel, grid, block), 2, _conv5,
            )  # fmt: skip
    for n in (128, 320):
        for kernel, depth in (("k_stencil3", 1), ("k_stencil3_march", 16)):
            yield Case(
                f"stencil 3-D {n}", kernel, "stencil", lambda t, n=n: [t.floats(n, n, n), t.zeros(n, n, n), n],
                on_cuda("streams", kernel, (up(n, 32), up(n, 8), up(n - 2, depth)), (32, 8)), 1, _stencil3,
            )  # fmt: skip


def sparse() -> Iterator[Case]:
    def matrix(t: Inputs, rows: int) -> Args:
        start = torch.arange(0, rows * 32 + 1, 32, dtype=torch.int32)
        return [
            t.given(start),
            t.ints(rows, rows * 32),
            t.floats(rows * 32),
            t.floats(rows),
            t.zeros(rows),
            rows,
        ]

    def product(a: Args) -> torch.Tensor:
        return (a[2] * a[3][a[1].long()]).reshape(-1, 32).double().sum(1).float()

    for rows in (1 << 14, 1 << 19):
        for lanes in (1, 8, 32):
            yield Case(
                f"sparse product {rows}", f"k_spmv<{lanes}>", "sparse", lambda t, r=rows: matrix(t, r),
                on_cuda("streams", f"k_spmv<{lanes}>", up(rows * lanes, 256), 256), 4, product,
            )  # fmt: skip


def vectors() -> Iterator[Case]:
    for rows, cols in ((2048, 2048), (8192, 8192)):
        for kernel, each in (("k_gemv_thread", 256), ("k_gemv_warp<1>", 8), ("k_gemv_warp<4>", 8)):
            yield Case(
                f"matrix by vector {rows}x{cols}", kernel, "reduction",
                lambda t, r=rows, c=cols: [t.floats(r, c), t.floats(c), t.zeros(r), r, c],
                on_cuda("streams", kernel, up(rows, each), 256), 2,
                lambda a: (a[0].double() @ a[1].double()).float(),
            )  # fmt: skip


# --------------------------------------------------------------------- reducing and normalizing


def sums() -> Iterator[Case]:
    for n in (1 << 16, M, 32 * M):
        for kernel in (
            "k_sum_atomic",
            "k_sum_tree<true>",
            "k_sum_tree<false>",
            "k_sum_shuffle",
            "k_sum_grid",
        ):
            grid = kernel == "k_sum_grid"
            yield Case(
                f"sum {n}", kernel, "reduction",
                lambda t, n=n, w=4 if grid else 1: [t.unit(n), t.zeros(1), n // w],
                on_cuda("rows", kernel, min(up(n, 1024), 528) if grid else n // 256, 256), 1,
                lambda a: a[0].double().sum().float().reshape(1), 1e-2,
            )  # fmt: skip
    for rows, cols in ((2048, 1024), (8192, 4096)):
        for kernel, grid in (
            ("k_colsum", cols // 256),
            ("k_colsum_split<64>", (cols // 256, rows // 64)),
            ("k_colsum_split<16>", (cols // 256, rows // 16)),
        ):
            yield Case(
                f"column sums {rows}x{cols}", kernel, "reduction",
                lambda t, r=rows, c=cols: [t.unit(r, c), t.zeros(c), r, c],
                on_cuda("rows", kernel, grid, 256), 1, lambda a: a[0].double().sum(0).float(), 1e-3,
            )  # fmt: skip


ROWS = ((512, 512), (4096, 1024), (8192, 8192))


def softmaxes() -> Iterator[Case]:
    for rows, cols in ROWS:
        for kernel, grid, block, shared in (
            ("k_softmax_thread", up(rows, 128), 128, 0),
            ("k_softmax_warp", rows // 8, 256, 0),
            ("k_softmax_block", rows, 256, 0),
            ("k_softmax_shared", rows, 256, cols * 4),
        ):
            yield Case(
                f"softmax {rows}x{cols}", kernel, "rows",
                lambda t, r=rows, c=cols: [t.floats(r, c), t.zeros(r, c), r, c],
                on_cuda("rows", kernel, grid, block, shared), 1, lambda a: a[0].softmax(1),
            )  # fmt: skip
        yield Case(
            f"softmax {rows}x{cols}", "triton", "rows", lambda t, r=rows, c=cols: [t.floats(r, c), t.zeros(r, c), c],
            on_triton("k_tri_softmax", rows, BLOCK=cols, num_warps=min(16, max(4, cols // 512))), 1,
            lambda a: a[0].softmax(1),
        )  # fmt: skip


def norms() -> Iterator[Case]:
    def norm(a: Args) -> torch.Tensor:
        return torch.nn.functional.layer_norm(a[0], a[0].shape[1:], a[1], eps=1e-5)

    for rows, cols in ROWS:
        for kernel, grid in (
            ("k_norm<false,true>", rows),
            ("k_norm<false,false>", rows),
            ("k_norm<true,false>", rows // 8),
        ):
            yield Case(
                f"layer norm {rows}x{cols}", kernel, "rows",
                lambda t, r=rows, c=cols: [t.floats(r, c), t.floats(c), t.zeros(r, c), r, c],
                on_cuda("rows", kernel, grid, 256), 2, norm, 1e-3,
            )  # fmt: skip
        yield Case(
            f"layer norm {rows}x{cols}", "triton", "rows",
            lambda t, r=rows, c=cols: [t.floats(r, c), t.floats(c), t.zeros(r, c), c],
            on_triton("k_tri_norm", rows, BLOCK=cols, num_warps=min(16, max(4, cols // 512))), 2, norm, 1e-3,
        )  # fmt: skip


def scans() -> Iterator[Case]:
    for n in (M, 16 * M):
        for kernel, block in (
            ("k_scan_steps", 1024),
            ("k_scan_warp<1>", 1024),
            ("k_scan_warp<4>", 256),
        ):
            yield Case(
                f"scan {n}", kernel, "scan", lambda t, n=n: [t.unit(n), t.zeros(n), n],
                on_cuda("rows", kernel, n // 1024, block), 1,
                lambda a: a[0].reshape(-1, 1024).double().cumsum(1).float().reshape(-1),
            )  # fmt: skip


def counts() -> Iterator[Case]:
    n = 4 * M
    for values, most in (("uniform", 256), ("narrow", 4)):
        for kernel in ("k_hist_global", "k_hist_shared<1>", "k_hist_shared<8>"):
            yield Case(
                f"histogram {values}", kernel, "atomics",
                lambda t, most=most: [t.ints(most, n), t.zeros(256, dtype=torch.int32), n],
                on_cuda("rows", kernel, 1056, 256), 1, lambda a: torch.bincount(a[0], minlength=256).int(),
            )  # fmt: skip
    for cells in (32, 4096, M):
        for kernel in ("k_spread", "k_spread_old"):
            yield Case(
                f"spread over {cells}", kernel, "atomics",
                lambda t, c=cells: [t.unit(2 * M), t.zeros(c + 1), 2 * M, c],
                on_cuda("rows", kernel, 2 * M // 256, 256), 1,
                lambda a: torch.nn.functional.pad(a[0].double().reshape(-1, a[3]).sum(0).float(), (0, 1)), 1e-2,
            )  # fmt: skip


# ------------------------------------------------------------------------------------ computing


def products() -> Iterator[Case]:
    for n in (256, 1024, 2048):
        for kernel, grid, block in (
            ("k_gemm_naive", (n // 32, n // 8), (32, 8)),
            ("k_gemm_tile<16>", (n // 16, n // 16), (16, 16)),
            ("k_gemm_tile<32>", (n // 32, n // 32), (32, 32)),
            ("k_gemm_block<64,8,4>", (n // 64, n // 64), 256),
            ("k_gemm_block<128,8,8>", (n // 128, n // 128), 256),
            ("k_gemm_async", (n // 64, n // 64), 256),
        ):
            yield Case(
                f"float32 product {n}", kernel, "matrix product",
                lambda t, n=n: [t.floats(n, n), t.floats(n, n), t.zeros(n, n), n],
                on_cuda("compute", kernel, grid, block), 2, lambda a: (a[0].double() @ a[1].double()).float(), 1e-3,
            )  # fmt: skip


def tensor_products() -> Iterator[Case]:
    tiles = (
        (32, 32, 32, 4),
        (64, 64, 32, 4),
        (128, 64, 64, 4),
        (128, 128, 64, 8),
        (128, 256, 64, 8),
    )
    kinds = {"float16": (torch.float16, (512, 2048, 4096)), "bfloat16": (torch.bfloat16, (1024, 3072)),
             "tf32": (torch.float32, (512, 2048)), "float8": (torch.float8_e4m3fn, (1024, 4096))}  # fmt: skip
    for kind, (dtype, sizes) in kinds.items():
        for n in sizes:
            for bm, bn, bk, warps in tiles[1:4] if kind != "float16" else tiles:
                yield Case(
                    f"{kind} product {n}", f"triton {bm}x{bn}x{bk}", "tensor product",
                    lambda t, n=n, d=dtype: [t.floats(n, n, dtype=d), t.floats(n, n, dtype=d), t.zeros(n, n), n],
                    on_triton("k_tri_matmul", (n // bm, n // bn), BM=bm, BN=bn, BK=bk, num_warps=warps), 2,
                    lambda a: (a[0].double() @ a[1].double().T).float(), 3e-2,
                )  # fmt: skip


def attentions() -> Iterator[Case]:
    def attention(a: Args) -> torch.Tensor:
        return (((a[0].float() @ a[1].float().mT) * 0.125).softmax(2) @ a[2].float()).half()

    for n, heads in ((1024, 16), (4096, 16)):
        for bm, bn, warps in ((32, 32, 4), (64, 64, 4), (128, 64, 8), (128, 128, 8)):
            yield Case(
                f"attention {heads}x{n}", f"triton {bm}x{bn}", "attention",
                lambda t, n=n, h=heads: [*(t.floats(h, n, 64, dtype=torch.float16) for _ in range(3)), t.zeros(h, n, 64, dtype=torch.float16), n],
                on_triton("k_tri_attention", (n // bm, heads), D=64, BM=bm, BN=bn, num_warps=warps), 3, attention, 2e-2,
            )  # fmt: skip


def bodies() -> Iterator[Case]:
    def forces(a: Args) -> torch.Tensor:
        x = a[0].double()
        rows = []
        for part in x.split(1024):
            apart = x[None, :, :3] - part[:, None, :3]
            scale = x[None, :, 3] * ((apart**2).sum(2) + 0.01) ** -1.5
            rows.append((apart * scale[:, :, None]).sum(1))
        return torch.nn.functional.pad(torch.cat(rows), (0, 1)).float()

    for n in (4096, 32768):
        for kernel, each in (("k_bodies", 1), ("k_bodies_shared<1>", 1), ("k_bodies_shared<4>", 4)):
            yield Case(
                f"bodies {n}", kernel, "bodies", lambda t, n=n: [t.unit(n, 4), t.zeros(n, 4), n],
                on_cuda("compute", kernel, n // (128 * each), 128), 1, forces, 1e-3,
            )  # fmt: skip


def chains() -> Iterator[Case]:
    def poly(a: Args) -> torch.Tensor:
        v, s = a[0], torch.zeros_like(a[0])
        for _ in range(a[3]):
            s = s * v + 0.5
        return s

    def hashed(a: Args) -> torch.Tensor:
        v, mask = a[0].long(), 0xFFFFFFFF
        for _ in range(a[3]):
            v = (v ^ (v << 13)) & mask
            v = v ^ (v >> 17)
            v = (v ^ (v << 5)) & mask
        return (((v + (1 << 31)) & mask) - (1 << 31)).int()

    for n, degree in ((M // 16, 512), (2 * M, 256)):
        for each in (1, 2, 4):
            for name, dtype in (("float", torch.float32), ("double", torch.float64)):
                yield Case(
                    f"{name} polynomial {n}", f"k_poly<{name},{each}>", "arithmetic",
                    lambda t, n=n, d=degree, dtype=dtype: [t.unit(n, dtype=dtype) * 0.5, t.zeros(n, dtype=dtype), n, d],
                    on_cuda("compute", f"k_poly<{name},{each}>", n // (256 * each), 256), 1, poly,
                )  # fmt: skip
            yield Case(
                f"hash {n}", f"k_hash<{each}>", "arithmetic",
                lambda t, n=n, d=degree: [t.ints(1 << 30, n), t.zeros(n, dtype=torch.int32), n, d],
                on_cuda("compute", f"k_hash<{each}>", n // (256 * each), 256), 1, hashed,
            )  # fmt: skip
    for what, name in enumerate(("fast sine", "sine", "exponential", "root", "reciprocal")):
        for n in (M // 16, 4 * M):
            yield Case(
                f"{name} {n}", f"k_special<{what}>", "special functions",
                lambda t, n=n: [t.unit(n), t.zeros(n), n, 64],
                on_cuda("compute", f"k_special<{what}>", n // 256, 256), 1, None,
            )  # fmt: skip


def control() -> Iterator[Case]:
    for ways in (1, 4, 32):
        yield Case(
            f"diverge {ways}", "k_diverge", "divergence", lambda t, w=ways: [t.unit(M), t.zeros(M), M, w, 64],
            on_cuda("compute", "k_diverge", M // 256, 256), 1, None,
        )  # fmt: skip
    for blocks in (100, 1056, 4097):
        yield Case(
            f"uneven {blocks}", "k_uneven", "divergence",
            lambda t, b=blocks: [t.unit(b * 256), t.zeros(b * 256), b * 256, 128],
            on_cuda("compute", "k_uneven", blocks, 256), 1, None,
        )  # fmt: skip
    for kib, steps in ((16, 2048), (8192, 1024), (512 * 1024, 512)):
        yield Case(
            f"chase {kib} KiB", "k_chase", "latency",
            lambda t, k=kib, s=steps: [_ring(t, k * 256), t.zeros(32, dtype=torch.int32), s],
            on_cuda("compute", "k_chase", 1, 1), 1, None,
        )  # fmt: skip
    for stride in (1, 2, 8, 32):
        for blocks in (264, 4096):
            yield Case(
                f"banks {stride} {blocks}", "k_banks", "shared memory",
                lambda t, s=stride, b=blocks: [t.unit(8192), t.zeros(b * 256), b * 256, s, 256],
                on_cuda("compute", "k_banks", blocks, 256), 1, None,
            )  # fmt: skip
    for block in (64, 256, 1024):
        yield Case(
            f"barriers of {block}", "k_barriers", "barriers",
            lambda t: [t.unit(2 * M), t.zeros(2 * M), 2 * M, 32],
            on_cuda("compute", "k_barriers", 2 * M // block, block), 1, None,
        )  # fmt: skip


def _ring(t: Inputs, n: int) -> torch.Tensor:
    """next[i] = a·i + c mod n: one cycle through all n, far apart at each step."""
    at = torch.arange(n, dtype=torch.int64)
    return t.given(((at * 1664525 + 1013904223) % n).to(torch.int32))


MAKERS = (adds, gelus, copies, strides, gathers, transposes, stencils, sparse, vectors, sums, softmaxes,
          norms, scans, counts, products, tensor_products, attentions, bodies, chains, control)  # fmt: skip


def cases() -> list[Case]:
    return [case for maker in MAKERS for case in maker()]
