"""The arithmetic that NVRTC emits: nothing refused, results as numpy has them, as a GPU has them."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from compile import cuda
from documented import DOCUMENTED, undocumented, values
from intrinsics import kernels, source
from launching import Bench

from warpsmith.vgpu import build
from warpsmith.vgpu.translate import translate

pytest.importorskip("cuda.bindings.nvrtc")
THREADS = 256
KERNELS = kernels()
SIZES = {"u8": 1, "s8": 1, "e4m3": 1, "e5m2": 1, "short": 2, "half1": 2, "bf16": 2, "e4m3x2": 2,
         "s64": 8, "u64": 8, "double": 8, "float2": 8}  # fmt: skip
TYPES = {"float": np.float32, "double": np.float64, "half1": np.float16, "int": np.int32,
         "u32": np.uint32, "s64": np.int64, "u64": np.uint64, "short": np.int16}  # fmt: skip


@cache
def ptx(arch: str) -> str:
    return cuda(source(KERNELS), arch, "--device-int128")


@cache
def bench(arch: str) -> Bench:
    """All kernels, with their handlers compiled in one go: hundreds of compiler runs are slow."""
    found = Bench(ptx(arch))
    module = found.module.parsed
    texts: dict[str, str] = {}
    for kernel in KERNELS:
        texts |= translate(module, kernel.name).handlers
    build.HANDLERS.resolve(texts, [])
    return found


def inputs(kernel, seed: int = 0) -> list[np.ndarray]:
    """Raw bytes of every type's interesting values: numbers of usual size, then any bits at all."""
    arrays = []
    for position, kind in enumerate(kernel.sources):
        rng = np.random.default_rng(seed + position)
        size = SIZES.get(kind, 4)
        raw = rng.integers(0, 256, THREADS * size, np.uint8)
        if kind in ("float", "double", "half1"):
            usual = rng.uniform(-4, 4, THREADS // 2) if position == 0 else rng.uniform(0.1, 4, 128)
            raw[: raw.size // 2] = usual.astype(TYPES[kind]).view(np.uint8)
        arrays.append(raw)
    return arrays


def run(kernel, arch: str, arrays: list[np.ndarray]) -> np.ndarray:
    out = np.zeros(THREADS * SIZES.get(kernel.result, 4), np.uint8)
    bench(arch).right(kernel.name, (THREADS // 128,), (128,), out, *arrays)
    return out


@pytest.mark.virtual
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_nothing_is_refused_and_nothing_faults(arch):
    for kernel in KERNELS:
        run(kernel, arch, inputs(kernel))


def one(function):
    return lambda a, b=None: function(a)


def mapped(function):
    return lambda a, b=None: np.array([function(x) for x in a])


REFERENCES = {
    "a+b": np.add, "a-b": np.subtract, "a*b": np.multiply, "a/b": np.divide, "fabsf(a)": one(np.abs),
    "sqrtf(a)": one(np.sqrt), "rsqrtf(a)": one(lambda x: 1 / np.sqrt(x)), "expf(a)": one(np.exp),
    "exp2f(a)": one(np.exp2), "logf(a)": one(np.log), "log2f(a)": one(np.log2),
    "log10f(a)": one(np.log10), "log1pf(a)": one(np.log1p), "expm1f(a)": one(np.expm1),
    "sinf(a)": one(np.sin), "cosf(a)": one(np.cos), "tanf(a)": one(np.tan),
    "asinf(a)": one(np.arcsin), "acosf(a)": one(np.arccos), "atanf(a)": one(np.arctan),
    "atan2f(a,b)": np.arctan2, "sinhf(a)": one(np.sinh), "coshf(a)": one(np.cosh),
    "tanhf(a)": one(np.tanh), "erff(a)": mapped(math.erf), "erfcf(a)": mapped(math.erfc),
    "powf(a,b)": np.power, "fmodf(a,b)": np.fmod, "floorf(a)": one(np.floor), "rintf(a)": one(np.rint),
    "copysignf(a,b)": np.copysign, "hypotf(a,b)": np.hypot, "cbrtf(a)": one(np.cbrt),
    "__expf(a)": one(np.exp), "__fdividef(a,b)": np.divide, "sqrt(a)": one(np.sqrt),
    "rsqrt(a)": one(lambda x: 1 / np.sqrt(x)), "exp(a)": one(np.exp), "log(a)": one(np.log),
    "sin(a)": one(np.sin), "cos(a)": one(np.cos), "tan(a)": one(np.tan), "atan2(a,b)": np.arctan2,
    "tanh(a)": one(np.tanh), "erf(a)": mapped(math.erf), "pow(a,b)": np.power, "fmod(a,b)": np.fmod,
    "cbrt(a)": one(np.cbrt), "hsqrt(a)": one(np.sqrt), "hexp(a)": one(np.exp), "hlog(a)": one(np.log),
    "hsin(a)": one(np.sin), "hrcp(a)": one(lambda x: 1 / x), "__hadd(a,b)": np.add,
    "__hmul(a,b)": np.multiply, "__hdiv(a,b)": np.divide, "htanh(a)": one(np.tanh),
    "hexp2(a)": one(np.exp2), "__hsub(a,b)": np.subtract,
}  # fmt: skip
# CUDA's documented errors are below 4 units in the last place for these (2 and 1 for most)
BOUNDS = {"float": 4 * 2.0**-23, "double": 4 * 2.0**-52, "half1": 2.0**-10}
CHECKED = [k for k in KERNELS if k.result in BOUNDS and set(k.sources) == {k.result}
           and k.expression in REFERENCES]  # fmt: skip


@pytest.mark.virtual
@pytest.mark.parametrize("kernel", CHECKED, ids=lambda k: f"{k.result}:{k.expression}")
def test_math_functions_agree_with_numpy(kernel):
    arrays = inputs(kernel)
    kind = TYPES[kernel.result]
    usual = [x.view(kind)[: THREADS // 2].astype(np.float64) for x in arrays]
    with np.errstate(all="ignore"):
        want = REFERENCES[kernel.expression](*usual)
    got = run(kernel, "sm_80", arrays).view(kind)[: THREADS // 2].astype(np.float64)
    good = np.isfinite(want) & (np.abs(want) > 1e-3) & (np.abs(want) < 6e4)
    assert good.sum() > 20
    error = np.abs(got - want)[good] / np.abs(want)[good]
    assert error.max() <= BOUNDS[kernel.result], (usual[0][good][error.argmax()], error.max())
    assert (np.isnan(got) == np.isnan(want)).all()


# approximate on a GPU too: compared within an error, or with the documented bounds where two results
# within them may be further apart; everything else must have the same bits
APPROXIMATE = ("ex2.approx", "lg2.approx", "sin.approx", "cos.approx", "tanh.approx", "rcp.approx",
               "rsqrt.approx", "sqrt.approx", "div.full", "div.approx")  # fmt: skip


def uses_approximation(kernel, text: str) -> bool:
    body = text[text.index(f".entry {kernel.name}(") :]
    end = body.find(".entry", 10)
    return any(name in body[:end] for name in APPROXIMATE)


def gpu_results(text: str) -> dict[str, np.ndarray]:
    """Every kernel's output bytes from a CUDA GPU."""
    import torch
    from cuda.bindings import driver

    torch.zeros(1, device="cuda")  # makes the context
    _, module = driver.cuModuleLoadData(text.encode() + b"\0")
    results = {}
    for kernel in KERNELS:
        _, function = driver.cuModuleGetFunction(module, kernel.name.encode())
        out = torch.zeros(THREADS * SIZES.get(kernel.result, 4), dtype=torch.uint8, device="cuda")
        arrays = [torch.from_numpy(x).cuda() for x in inputs(kernel)]
        pointers = np.array([t.data_ptr() for t in (out, *arrays)], np.uint64)
        addresses = np.array([p.ctypes.data for p in pointers.reshape(-1, 1)], np.uint64)
        driver.cuLaunchKernel(
            function, THREADS // 128, 1, 1, 128, 1, 1, 0, 0, addresses.ctypes.data, 0
        )
        torch.cuda.synchronize()
        results[kernel.name] = out.cpu().numpy()
    return results


# relative and absolute; bf16 functions round an f32 result, and round it alike
UNITS = {"half1": 2.0**-9, "half2": 2.0**-9, "bf16": 2.0**-19, "bf162": 2.0**-19,
         "float": 2.0**-19, "double": 2.0**-40}  # fmt: skip


def different(kernel, got: np.ndarray, want: np.ndarray, exact: bool) -> np.ndarray:
    """Which results differ; NaNs of any payload are the same."""
    if kernel.result not in UNITS:
        return got != want
    x, y = (values(kernel.result, v) for v in (got, want))
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    if exact:
        return ~same
    unit = UNITS[kernel.result]
    with np.errstate(all="ignore"):
        return ~same & ~(np.abs(x - y) <= unit * np.abs(y) + unit)


RANGES = {"__sinf(a)": 320, "__cosf(a)": 320, "__powf(a,b)": 100, "htanh_approx(a)": 6}
LIMITED = [k for k in KERNELS if (k.result, k.expression) in DOCUMENTED]


def near(kernel, seed: int) -> list[np.ndarray]:
    """Raw bytes of numbers where the function varies: a quarter of them small."""
    arrays = []
    for position, kind in enumerate(kernel.sources):
        rng = np.random.default_rng((seed, position))
        limit = RANGES[kernel.expression]
        sizes = np.where(np.arange(THREADS) % 4, limit, 3.2)
        numbers = (rng.uniform(-1, 1, THREADS) * sizes).astype(np.float32)
        if kernel.expression == "__powf(a,b)" and position == 0:
            numbers = np.abs(numbers)
        if kind == "bf16":
            arrays.append((numbers.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8))
        else:
            arrays.append(numbers.astype(TYPES[kind]).view(np.uint8))
    return arrays


@pytest.mark.plain
def test_every_documented_error_is_that_of_a_kernel():
    assert {(k.result, k.expression) for k in LIMITED} == set(DOCUMENTED)


@pytest.mark.virtual
@pytest.mark.parametrize("kernel", LIMITED, ids=lambda k: f"{k.result}:{k.expression}")
def test_approximations_stay_within_their_documented_error(kernel):
    for seed in range(8):
        for arrays in (inputs(kernel, 10 * seed), near(kernel, seed)):
            bad = undocumented(kernel, run(kernel, "sm_90a", arrays), arrays)
            arguments = [values(t, x)[bad.argmax()] for t, x in zip(kernel.sources, arrays)]
            assert not bad.any(), arguments


@pytest.mark.gpu
def test_bits_equal_those_of_a_gpu():
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no CUDA GPU")
    arch = "sm_{}{}".format(*torch.cuda.get_device_capability())
    text = ptx(arch)
    wrong = []
    for kernel, want in zip(KERNELS, gpu_results(text).values()):
        arrays = inputs(kernel)
        got = run(kernel, arch, arrays)
        if kernel in LIMITED:
            bad = undocumented(kernel, got, arrays) | undocumented(kernel, want, arrays)
        else:
            bad = different(kernel, got, want, exact=not uses_approximation(kernel, text))
        if bad.any():
            wrong.append(
                f"{kernel.result} {kernel.expression}: {int(bad.sum())} differ, {bad.argmax()}"
            )
    assert not wrong, "\n".join(wrong)
