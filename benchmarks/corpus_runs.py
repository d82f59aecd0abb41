"""Run kernels of public CUDA programs on the virtual GPU against NumPy: right results, not only translations.

Run: python benchmarks/corpus_runs.py --llm-c LLM_C --samples CUDA_SAMPLES [--json OUT]. The kernels are
those of llm.c's dev/cuda, one formula each in several stages of optimization, and some of NVIDIA's
cuda-samples, textures among them; sources are not part of this repository. Each is launched as its own program launches it, on small shapes, and compared with float64. One is known
to race (`racy`): for it, right means that the sanitizer says so.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
for part in ("src", "tests/vgpu", "benchmarks"):
    sys.path.insert(0, str(ROOT / part))

from about import about  # noqa: E402
from corpus import Compiler  # noqa: E402
from launching import Bench  # noqa: E402
from texture_oracle import sample  # noqa: E402

from warpsmith import vgpu  # noqa: E402
from warpsmith.vgpu import Checks, build  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "corpus_runs.json"
RNG = np.random.default_rng(0)
B, T, C, NH, V = 2, 16, 96, 4, 130
F = np.float32


class Half:
    """bfloat16 values, as bits for the kernel and as float64 for the formula."""

    def __init__(self, values: np.ndarray):
        bits = values.astype(F).view(np.uint32)
        self.bits = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)

    @property
    def values(self) -> np.ndarray:
        return (self.bits.astype(np.uint32) << 16).view(F).astype(np.float64)


@dataclass
class Run:
    """One launch: which kernel, how, and what must come out of which argument."""

    file: str
    kernel: str
    grid: Any
    block: Any
    args: list
    want: dict[int, np.ndarray]
    tolerance: float = 2e-5
    options: dict = field(default_factory=dict)
    constants: dict = field(default_factory=dict)  # module variables to fill
    template: str = ""  # mangled template arguments
    racy: bool = False  # shared memory is read and written with no barrier between

    def outcome(self, bench: Bench) -> dict:
        """Whether it is right, and the largest error, relative to the largest value wanted."""
        mangled = f"{len(self.kernel)}{self.kernel}{self.template}"
        names = [n for n in bench.module.kernels if mangled in n]
        for name, values in self.constants.items():
            bench.module.variable(name)[:] = values.view(np.uint8)
        raw = [a.bits if isinstance(a, Half) else a for a in self.args]
        if self.racy:
            found = bench(names[0], self.grid, self.block, *raw, checks=Checks(), **self.options)
            return {"right": found.fault is not None and found.fault.kind == "race",
                    "found": str(found.fault and found.fault.error())}  # fmt: skip
        bench.right(names[0], self.grid, self.block, *raw, **self.options)
        error = max(self._error(i, w) for i, w in self.want.items())
        return {"right": bool(error <= self.tolerance), "error": error, "tolerance": self.tolerance}

    def _error(self, index: int, want: np.ndarray) -> float:
        arg = self.args[index]
        arg = arg.arrays[0] if isinstance(arg, vgpu.Surface) else arg
        got = arg.values if isinstance(arg, Half) else arg.astype(np.float64)
        got, want = got.ravel(), want.ravel()
        finite = np.isfinite(want)
        if not np.array_equal(got[~finite], want[~finite]):
            return float("inf")
        return float(np.abs(got - want)[finite].max() / np.abs(want[finite]).max())


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(F)


def blank(*shape: int) -> np.ndarray:
    return np.zeros(shape, F)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# ------------------------------------------------------------------------------------- formulas


def elementwise() -> list[Run]:
    n, runs = 2048, []

    def gelu(x):
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    def slope(x):
        inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
        sech = 1 / np.cosh(inner) ** 2
        return 0.5 * (1 + np.tanh(inner)) + x * 0.5 * sech * np.sqrt(2 / np.pi) * (
            1 + 3 * 0.044715 * x**2
        )

    for number, per in ((1, 1), (2, 8)):
        grid = (n // per // 128,)
        x, y, out = (Half(normal(n)) for _ in range(3))
        runs.append(Run("gelu_forward", f"gelu_forward_kernel{number}", grid, (128,), [out, x, n],
                        {0: gelu(x.values)}, 5e-3))  # fmt: skip
        out = Half(blank(n))
        runs.append(Run("residual_forward", f"residual_forward_kernel{number}", grid, (128,),
                        [out, x, y, n], {0: x.values + y.values}, 5e-3))  # fmt: skip
        out = Half(blank(n))
        runs.append(Run("gelu_backward", f"gelu_backward{number}", grid, (128,), [out, x, y, n],
                        {0: y.values * slope(x.values)}, 6e-3))  # fmt: skip
    return runs


def softmaxes() -> list[Run]:
    n, c, runs = 40, 300, []
    x = normal(n, c) * 3
    rows = ((n,), (128,))
    launches = {
        "softmax_forward_kernel1": ((2,), (32,), 0), "softmax_forward_kernel2": (*rows, 128 * 4),
        "softmax_forward_kernel3": ((n,), (32,), 32 * 4), "softmax_forward_kernel4": (*rows, 2 * 4 * 4),
        "softmax_forward_online_kernel1": ((2,), (32,), 0), "softmax_forward_online_kernel2": ((n // 4,), (128,), 0),
        "softmax_forward_kernel7": (*rows, 2 * 4 * 4), "softmax_forward_online_kernel8": ((n // 4,), (128,), 0),
    }  # fmt: skip
    for name, (grid, block, shared) in launches.items():
        runs.append(Run("softmax_forward", name, grid, block, [blank(n, c), x, n, c], {0: softmax(x)},
                        options={"shared_bytes": shared}, racy=name == "softmax_forward_kernel4"))  # fmt: skip
    return runs


def layernorms() -> list[Run]:
    n, runs = B * T, []
    x, w, b = normal(n, C), normal(C), normal(C)
    mean, var = x.astype(np.float64).mean(1), x.astype(np.float64).var(1)
    rstd = 1 / np.sqrt(var + 1e-5)
    y = (x - mean[:, None]) * rstd[:, None] * w + b
    launches = {1: ((1,), (32,), 0), 3: ((n // 4,), (128,), 0), 4: ((n // 4,), (128,), 0), 5: ((n,), (128,), 0),
                6: ((n // 4,), (32, 4), (2 + 4) * C * 4)}  # fmt: skip
    for number, (grid, block, shared) in launches.items():
        runs.append(Run("layernorm_forward", f"layernorm_forward_kernel{number}", grid, block,
                        [blank(n, C), blank(n), blank(n), x, w, b, n, C], {0: y, 1: mean, 2: rstd},
                        options={"shared_bytes": shared}))  # fmt: skip
    runs.append(Run("layernorm_forward", "mean_kernel", (n,), (64,), [blank(n), x, n, C, 64], {0: mean},
                    options={"shared_bytes": 256}))  # fmt: skip
    runs.append(Run("layernorm_forward", "rstd_kernel", (n,), (64,), [blank(n), x, mean.astype(F), n, C, 64],
                    {0: rstd}, options={"shared_bytes": 256}))  # fmt: skip
    runs.append(Run("layernorm_forward", "normalization_kernel", (n * C // 128,), (128,),
                    [blank(n, C), x, mean.astype(F), rstd.astype(F), w, b, B, T, C], {0: y}))  # fmt: skip
    dy = normal(n, C)
    hat = (x - mean[:, None]) * rstd[:, None]
    d = dy * w
    dx = rstd[:, None] * (d - d.mean(1, keepdims=True) - hat * (d * hat).mean(1, keepdims=True))
    runs.append(Run("layernorm_backward", "layernorm_backward_kernel1", (1,), (32,),
                    [blank(n, C), blank(C), blank(C), dy, x, w, mean.astype(F), rstd.astype(F), B, T, C],
                    {0: dx, 1: (dy * hat).sum(0), 2: dy.astype(np.float64).sum(0)}))  # fmt: skip
    return runs


def tables() -> list[Run]:
    runs, n = [], B * T
    tokens = RNG.integers(0, V, (B, T)).astype(np.int32)
    wte, wpe = Half(normal(V, C)), Half(normal(T, C))
    want = wte.values[tokens] + wpe.values[None]
    for number, grid in ((1, 1), (2, n * C // 128), (3, n * C // 8 // 48)):
        block = {1: 32, 2: 128, 3: 48}[number]
        runs.append(Run("encoder_forward", f"encoder_forward_kernel{number}", (grid,), (block,),
                        [Half(blank(n * C)), tokens, wte, wpe, B, T, C], {0: want}, 5e-3))  # fmt: skip
    dy = normal(B, T, C)
    dwte, dwpe = np.zeros((V, C)), dy.astype(np.float64).sum(0)
    np.add.at(dwte, tokens, dy.astype(np.float64))
    for number, grid, block in ((1, n * C // 128, 128), (2, 3, 32)):
        runs.append(Run("encoder_backward", f"encoder_backward_kernel{number}", (grid,), (block,),
                        [blank(V, C), blank(T, C), dy, tokens, B, T, C], {0: dwte, 1: dwpe}))  # fmt: skip
    probs = softmax(normal(n, V)).astype(F)
    targets, losses = RNG.integers(0, V, n).astype(np.int32), normal(n)
    picked = probs[np.arange(n), targets].astype(np.float64)
    runs.append(Run("crossentropy_forward", "crossentropy_forward_kernel1", (1,), (32,),
                    [blank(n), probs, targets, B, T, V], {0: -np.log(picked)}))  # fmt: skip
    hot = np.zeros((n, V))
    hot[np.arange(n), targets] = 1
    runs.append(Run("crossentropy_softmax_backward", "crossentropy_softmax_backward_kernel1",
                    (-(-n * V // 64),), (64,), [blank(n, V), losses, probs, targets, B, T, V],
                    {0: (probs - hot) * losses[:, None]}))  # fmt: skip
    return runs


def updates() -> list[Run]:
    n, runs = 1000, []
    p, g, m, v = normal(n), normal(n), normal(n), normal(n) ** 2
    rate, b1, b2, c1, c2, eps, decay = 1e-3, 0.9, 0.999, 0.1, 0.001, 1e-8, 0.01
    m1, v1 = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    p1 = p - rate * ((m1 / c1) / (np.sqrt(v1 / c2) + eps) + decay * p)
    for number in (1, 2):
        scalars = [F(x) for x in (rate, b1, b2, c1, c2, eps, decay)]
        runs.append(Run("adamw", f"adamw_kernel{number}", (8,), (128,),
                        [p.copy(), g, m.copy(), v.copy(), n, *scalars], {0: p1, 2: m1, 3: v1}))  # fmt: skip
    data = Half(normal(5000))
    total = np.array([(data.values**2).sum()])
    for number in (1, 2, 3):
        runs.append(
            Run(
                "global_norm",
                f"norm_kernel{number}",
                (6,),
                (128,),
                [blank(1), data, 5000],
                {0: total},
                1e-4,
            )
        )
    x = normal(3, 4, 5, 6)
    runs.append(Run("permute", "permute_kernel", (3,), (128,), [x, blank(360), 3, 4, 5, 6],
                    {1: x.transpose(3, 2, 0, 1).astype(np.float64)}))  # fmt: skip
    return runs


def matmuls() -> list[Run]:
    n, oc, runs = 128, 128, []
    x, w, b = normal(n, C), normal(oc, C), normal(oc)
    want = x.astype(np.float64) @ w.T + b
    runs.append(Run("matmul_forward", "matmul_forward_kernel1", (n // 16, oc // 16), (16, 16),
                    [blank(n, oc), x, w, b, n, C, oc], {0: want}))  # fmt: skip
    runs.append(Run("matmul_forward", "matmul_forward_kernel4", (n // 128, oc // 128), (16, 16),
                    [blank(n, oc), x, w, b, C, oc], {0: want}))  # fmt: skip
    y = normal(n, oc)
    runs.append(
        Run(
            "matmul_forward",
            "add_bias",
            (8,),
            (64,),
            [y.copy(), b, 2, n // 2, oc],
            {0: y + b.astype(np.float64)},
        )
    )
    return runs


def attention() -> list[Run]:
    size = C // NH
    qkv = normal(B, T, 3, NH, size)
    q, k, v = (
        qkv[:, :, i].transpose(0, 2, 1, 3).astype(np.float64) for i in range(3)
    )  # B, NH, T, size
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(size)
    lower = np.tril(np.ones((T, T), bool))
    scores = np.where(lower, scores, -1e4)
    weights = np.where(lower, softmax(np.where(lower, scores, -np.inf)), 0)
    out = (weights @ v).transpose(0, 2, 1, 3)
    threads, file = ((B * NH * T * T // 64,), (64,)), "attention_forward"
    rows = ((B * NH * T // 32,), (32,))
    split = [blank(B, NH, T, size) for _ in range(3)]
    return [
        Run(file, "attention_query_key_kernel1", *threads, [blank(B, NH, T, T), qkv, B, T, C, NH],
            {0: np.where(lower, scores, -np.inf)}),
        Run(file, "attention_softmax_kernel1", *rows,
            [blank(B, NH, T, T), scores.astype(F), B, T, NH], {0: weights}),
        Run(file, "attention_value_kernel1", *rows,
            [blank(B, T, C), weights.astype(F), qkv, B, T, C, NH], {0: out}),
        Run(file, "permute_kernel", (B * T * C // 64,), (64,), [*split, qkv, B, T, NH, size], {0: q, 1: k, 2: v}),
        Run(file, "unpermute_kernel", (B * T * C // 64,), (64,),
            [q.astype(F), blank(B, T, C), B, T, NH, size], {1: q.transpose(0, 2, 1, 3)}),
        Run(file, "softmax_forward_kernel4", (B * NH * T,), (64,),
            [blank(B * NH * T, T), scores.astype(F), B * NH * T, T], {0: softmax(scores)},
            options={"shared_bytes": 2 * 2 * 4}),
    ]  # fmt: skip


# ------------------------------------------------------------------------------ NVIDIA's samples


def transposes() -> list[Run]:
    file, x = "6_Performance/transpose/transpose", normal(64, 64)
    tiles = x.reshape(2, 32, 2, 32).astype(np.float64)
    turned = {"copy": x, "copySharedMem": x, "transposeFineGrained": tiles.transpose(0, 3, 2, 1),
              "transposeCoarseGrained": tiles.transpose(2, 1, 0, 3)}  # fmt: skip
    names = ("copy", "copySharedMem", "transposeNaive", "transposeCoalesced", "transposeNoBankConflicts",
             "transposeDiagonal", "transposeFineGrained", "transposeCoarseGrained")  # fmt: skip
    return [Run(file, n, (2, 2), (32, 16), [blank(64, 64), x, 64, 64], {0: turned.get(n, x.T)}, 0.0)
            for n in names]  # fmt: skip


def products() -> list[Run]:
    a, b = normal(64, 96), normal(96, 128)
    want = a.astype(np.float64) @ b
    runs = [Run("0_Introduction/matrixMul/matrixMul", "MatrixMulCUDA", (128 // n, 64 // n), (n, n),
                [blank(64, 128), a, b, 96, 128], {0: want}, template=f"ILi{n}E") for n in (16, 32)]  # fmt: skip
    x, y = normal(1000), normal(1000)
    runs.append(Run("0_Introduction/vectorAdd/vectorAdd", "vectorAdd", (8,), (128,),
                    [x, y, blank(1000), 1000], {2: x.astype(np.float64) + y}, 1e-7))  # fmt: skip
    return runs


def convolved(image: np.ndarray, kernel: np.ndarray, axis: int, mode: str) -> np.ndarray:
    """Along an axis, outside zero ("constant") or the edge's value ("edge")."""
    radius = len(kernel) // 2
    pad = [(radius, radius) if i == axis else (0, 0) for i in range(2)]
    wide = np.pad(image.astype(np.float64), pad, mode)
    size = image.shape[axis]
    return sum(
        k * wide.take(range(2 * radius - i, 2 * radius - i + size), axis)
        for i, k in enumerate(kernel)
    )


def convolutions() -> list[Run]:
    w, h, kernel = 128, 64, normal(17)
    image, bits = normal(h, w), {"c_Kernel": kernel}
    texture = vgpu.Texture(image)
    plain, textured = (
        f"2_Concepts_and_Techniques/{n}/{n}" for n in ("convolutionSeparable", "convolutionTexture")
    )
    runs = []
    for name, axis, grid, block in (("Rows", 1, (1, 16), (16, 4)), ("Columns", 0, (8, 1), (16, 8))):
        runs.append(Run(plain, f"convolution{name}Kernel", grid, block, [blank(h, w), image, w, h, w],
                        {0: convolved(image, kernel, axis, "constant")}, constants=bits))  # fmt: skip
        runs.append(Run(textured, f"convolution{name}Kernel", (8, 6), (16, 12), [blank(h, w), w, h, texture],
                        {0: convolved(image, kernel, axis, "edge")}, constants=bits))  # fmt: skip
    return runs


def textures() -> list[Run]:
    n, angle, home = 64, 0.5, "0_Introduction"
    image = RNG.random((n, n)).astype(F)
    options = {"filter": "linear", "address": "wrap", "normalized": True}
    y, x = np.mgrid[:n, :n].astype(F)
    u, v = x - n // 2, y - n // 2
    cos, sin = np.cos(F(angle)), np.sin(F(angle))
    at = ((u * cos - v * sin) / n + F(0.5), (v * cos + u * sin) / n + F(0.5))
    turned = np.array(
        [sample(image, 2, p, **options)[0] for p in zip(at[0].ravel(), at[1].ravel())]
    )
    layers, cube = normal(3, n, n), normal(6, n, n)
    grid = ((n // 8, n // 8), (8, 8))
    written = blank(n, n)
    point = vgpu.Texture(image, address="wrap", normalized=True)
    shifted = np.roll(image, (-5, -3), (0, 1))
    shift = [blank(n, n), n, n, n, 3, 5, point]
    pitch = f"{home}/simplePitchLinearTexture/simplePitchLinearTexture"
    rotated = [blank(n, n), n, n, F(angle), vgpu.Texture(image, **options)]
    return [
        Run(f"{home}/simpleTexture/simpleTexture", "transformKernel", *grid, rotated, {0: turned}, 6e-3),
        Run(f"{home}/simpleLayeredTexture/simpleLayeredTexture", "transformKernel", *grid,
            [blank(3, n, n), n, n, 1, vgpu.Texture(layers, "a2d", **options)],
            {0: np.stack([0 * layers[0], 1 - layers[1].astype(np.float64), 0 * layers[0]])}, 4e-3),
        Run(f"{home}/simpleCubemapTexture/simpleCubemapTexture", "transformKernel", *grid,
            [blank(6, n, n), n, vgpu.Texture(cube, "cube", **options)],
            {0: -cube.astype(np.float64)}, 8e-3),
        Run(f"{home}/simpleSurfaceWrite/simpleSurfaceWrite", "surfaceWriteKernel", *grid,
            [image, n, n, vgpu.Surface(written)], {3: image}, 0.0),
        Run(pitch, "shiftPitchLinear", *grid, shift, {0: shifted}, 0.0),
        Run(pitch, "shiftArray", *grid, shift, {0: shifted}, 0.0),
    ]  # fmt: skip


LLM_C = (elementwise, softmaxes, layernorms, tables, updates, matmuls, attention)
SAMPLES = (transposes, products, convolutions, textures)


def run_all(runs: list[Run], folder: Path, compiler: Compiler) -> dict[str, dict]:
    benches: dict[str, Bench] = {}
    found = {}
    for run in runs:
        name = f"{run.file}.cu:{run.kernel}{run.template}"
        try:
            if run.file not in benches:
                compiled = compiler(folder / f"{run.file}.cu", "80")
                benches[run.file] = Bench(compiled.ptx)
            outcome = run.outcome(benches[run.file])
        except Exception as problem:
            outcome = {"right": False, "problem": f"{type(problem).__name__}: {problem}"[:300]}
        found[name] = outcome
        said = next((outcome[k] for k in ("error", "found", "problem") if k in outcome), "")
        print(f"{'right' if outcome['right'] else 'WRONG'}  {name}  {said}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--llm-c", type=Path, required=True)
    parser.add_argument("--samples", type=Path, required=True)
    parser.add_argument("--include", action="append", type=Path, default=[])
    parser.add_argument("--work", type=Path, default=build.cache_root() / "corpus")
    parser.add_argument("--json", type=Path, default=None)
    given = parser.parse_args()
    found = about("virtual", runs={})
    for families, folder in (
        (LLM_C, given.llm_c / "dev/cuda"),
        (SAMPLES, given.samples / "Samples"),
    ):
        root = folder.resolve()
        above = (
            root.parent if families is SAMPLES else root
        )  # the samples' own headers are next to them
        compiler = Compiler(given.work, [above], given.include, 300)
        found["runs"] |= run_all([r for family in families for r in family()], root, compiler)
    found["right"] = sum(r["right"] for r in found["runs"].values())
    print(f"{found['right']} of {len(found['runs'])} right")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
