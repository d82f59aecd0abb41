"""CUDA C++ kernels on the virtual GPU agree with numpy."""
# SPDX-License-Identifier: Apache-2.0

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from compile import cuda_file
from launching import Bench

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.virtual


@pytest.fixture(scope="module", params=["sm_80", "sm_90a"])
def run(request):
    return Bench(cuda_file("basics.cu", request.param))


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 1000, 4096])
def test_vadd(run, n):
    a, b, c = floats(n), floats(n, seed=1), np.zeros(n, np.float32)
    run.right("vadd", (-(-n // 256),), (256,), a, b, c, n)
    assert np.array_equal(c, a + b)


@pytest.mark.parametrize("schedule", ["default", "reverse", "random"])
def test_grid_stride_with_every_schedule_and_two_workers(run, schedule):
    a, c = floats(3000), np.zeros(3000, np.float32)
    run.right("grid_stride", (5,), (96,), a, c, 3000, np.float32(2.5), schedule=schedule, workers=2)
    assert np.array_equal(c, np.float32(2.5) * a)


def test_reduce(run):
    a, out = floats(5000), np.zeros(1, np.float32)
    run.right("reduce", (4,), (128,), a, out, 5000)
    assert out[0] == pytest.approx(a.sum(dtype=np.float64), abs=1e-3)


@pytest.mark.parametrize(("kernel", "grid", "block"),
                         [("sgemm_tiled", 16, (16, 16)), ("sgemm_register", 64, (256,))])  # fmt: skip
def test_sgemm(run, kernel, grid, block):
    n = 128
    a, b, c = floats(n, n), floats(n, n, seed=1), np.zeros((n, n), np.float32)
    run.right(kernel, (n // grid, n // grid), block, a, b, c, n)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, atol=2e-5 * n)


def test_softmax(run):
    a = floats(7, 300) * 4
    out = np.zeros_like(a)
    run.right("softmax", (7,), (128,), a, out, 300, shared_bytes=512)
    want = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(out, want / want.sum(1, keepdims=True), rtol=1e-5)


def test_histogram(run):
    a = np.random.default_rng(0).integers(0, 1000, 4000).astype(np.int32)
    out = np.zeros(64, np.int32)
    run.right("histogram", (6,), (96,), a, out, 4000)
    assert np.array_equal(out, np.bincount(a & 63, minlength=64))


@pytest.mark.parametrize("kernel", ["transpose_naive", "transpose_padded"])
def test_transpose(run, kernel):
    a, out = floats(64, 64), np.zeros((64, 64), np.float32)
    run.right(kernel, (2, 2), (32, 8), a, out, 64)
    assert np.array_equal(out, a.T)


def test_collatz_divergence(run):
    a = np.arange(1, 101, dtype=np.int32)
    out = np.zeros_like(a)
    run.right("collatz", (1,), (128,), a, out, 100)
    assert list(out) == [_collatz(v) for v in range(1, 101)]


def _collatz(v):
    steps = 0
    while v != 1:
        v, steps = (3 * v + 1 if v & 1 else v // 2), steps + 1
    return steps


def test_votes(run):
    v = np.random.default_rng(3).integers(0, 9, 32).astype(np.int32)
    out = np.zeros(288, np.uint32)
    run.right("votes", (1,), (32,), v, out)
    ballot, any_all, match, total, most, match_all, up, down, active = out.reshape(9, 32).astype(
        int
    )
    lanes = range(32)
    assert set(ballot) == {sum(1 << i for i in lanes if v[i] > 3)}
    assert set(any_all) == {2}
    assert list(match) == [sum(1 << j for j in lanes if v[j] == v[i]) for i in lanes]
    assert set(total) == {v.sum()}
    assert set(most) == {v.max()}
    assert set(match_all) == {0}
    assert list(up) == [v[i - 3] if i >= 3 else v[i] for i in lanes]
    assert list(down) == [v[i + 5] if i % 16 + 5 < 16 else v[i] for i in lanes]
    assert set(active) == {0xFFFFFFFF}


def test_half_math(run):
    a, b = floats(64).astype(np.float16), floats(64, seed=1).astype(np.float16)
    c = np.zeros(64, np.float16)
    d = (floats(32, seed=2).view(np.uint32) >> 16).astype(np.uint16)
    e = np.zeros(32, np.uint16)
    run.right("half_math", (1,), (32,), a, b, c, d, e, 32)
    assert np.array_equal(c, (a.astype(np.float64) * b + 0.5).astype(np.float16))
    wide = (d.astype(np.uint32) << 16).view(np.float32)
    got = (e.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(got, wide * 2.5, rtol=2**-7)


def test_calls_with_local_arrays(run):
    a = np.random.default_rng(1).integers(0, 50, 200).astype(np.int32)
    out = np.zeros_like(a)
    run.right("calls", (2,), (128,), a, out, 200)

    def mix(v):
        local = [int(a[(v + i) % 200]) + i for i in range(8)]
        return sum(local[(v * 3 + i) & 7] * (i + 1) for i in range(8))

    assert list(out) == [mix(int(v)) if v & 1 else -mix(int(v) + 1) for v in a]


def test_recursion(run):
    out = np.zeros(64, np.int32)
    run.right("recursion", (1,), (64,), out)
    fib = [0, 1]
    while len(fib) < 12:
        fib.append(fib[-1] + fib[-2])
    assert list(out) == [fib[t % 12] for t in range(64)]


def test_function_pointers(run):
    out = np.zeros(32, np.int32)
    run.right("pointers", (1,), (32,), out)
    assert list(out) == [t * t if t & 1 else 2 * t for t in range(32)]


def test_float_math(run):
    x = floats(32) * 3
    out = np.zeros((11, 32), np.float32)
    run.right("float_math", (1,), (32,), x, out, 32)
    w = x.astype(np.float64)
    want = [np.sin(w), np.exp(w), np.log(abs(w)), abs(w) ** 1.3, np.tanh(w), np.sqrt(abs(w)), 1 / w,
            np.vectorize(math.erf)(w), 1 / np.sqrt(abs(w)),
            np.cos((x * np.float32(100000)).astype(np.float64)), np.fmod(w, np.float64(np.float32(0.7)))]  # fmt: skip
    np.testing.assert_allclose(out, np.array(want), rtol=2e-6, atol=4e-7)


def test_double_math(run):
    x = np.random.default_rng(0).standard_normal(32) * 1e7
    out = np.zeros((5, 32))
    run.right("double_math", (1,), (32,), x, out, 32)
    want = np.array([np.sin(x), np.exp(x / 1e6), x / 3, np.sqrt(abs(x)), np.log(abs(x))])
    np.testing.assert_allclose(out, want, rtol=1e-15)


def test_integers(run):
    x = np.random.default_rng(0).integers(-(2**31), 2**31, 64).astype(np.int32)
    x[:6] = [0, -1, 1, -(2**31), 2**31 - 1, 7]
    out = np.zeros((11, 64), np.int64)
    run.right("integers", (1,), (64,), x, out, 64)
    for i in range(64):
        a, b = int(x[i]), int(x[(i + 7) % 64])
        assert list(out[:, i]) == _integers(a, b, i), (a, b)


def _integers(a, b, i):
    low, high = a & 0xFFFFFFFF, b & 0xFFFFFFFF
    quotient = int(math.copysign(1, a * b)) * (abs(a) // abs(b)) if b else -1
    quotient = _s32(quotient) if b else -1
    joined = low | high << 32
    selected = sum((joined >> 8 * s & 255) << 8 * k for k, s in enumerate((0, 4, 1, 5)))
    shifted = (high << 32 | low) << (i % 32) >> 32 & 0xFFFFFFFF
    ffs = (low & -low).bit_length()
    return [
        quotient, a - b * (int(math.copysign(1, a * b)) * (abs(a) // abs(b))) if b else -1, a * b,
        low.bit_count() + 100 * (32 - high.bit_length()) + 10000 * ffs,
        _u32(f"{low:032b}"[::-1], 2), selected, shifted, low // (high | 1), a * b >> 32,
        min(a, b) + max(a, b), (abs(a - b) + 5) & 0xFFFFFFFF,
    ]  # fmt: skip


def _s32(v):
    return (v + 2**31) % 2**32 - 2**31


def _u32(text, base):
    return int(text, base)


def test_printf(run):
    result = run.right("hello", (1,), (32,), 7)
    assert result.printed == (
        "thread 0 of 7:  0.00 ok 1099511627776%\nthread 1 of 7:  1.50 ok 1099511627776%\n"
    )


def test_barrier_votes(run):
    out = np.zeros((3, 70), np.int32)
    run.right("barrier_votes", (1,), (70,), out)
    assert set(out[0]) == {24}
    assert all(out[1])
    assert all(out[2])


def test_named_barriers(run):
    out = np.zeros(32, np.int32)
    run.right("named_barriers", (1,), (64,), out)
    assert list(out) == [600 + 4 * ((t + 1) & 31) for t in range(32)]


def test_constants_and_module_variables(run):
    out = np.zeros(32, np.float32)
    before = int(run.module.variable("visits").view(np.int32)[0])
    run.right("constants", (2,), (32,), out)
    assert list(out) == [1.0, 2.0, 4.0, 8.0] * 8
    assert run.module.variable("visits").view(np.int32)[0] == before + 64


def test_struct_parameters(run):
    pair = np.zeros(1, np.dtype([("a", "i4"), ("b", "f8"), ("c", "i2")], align=True))
    pair[0] = (3, 1.5, -7)
    out = np.zeros(32)
    run.right("structs", (1,), (32,), pair.tobytes(), out, np.float32(0.25))
    assert list(out) == [3 + 1.5 * t - 7 + 0.25 for t in range(32)]


def test_switch(run):
    a = (np.arange(64) % 8).astype(np.int32)
    out = np.zeros_like(a)
    run.right("switches", (1,), (64,), a, out, 64)
    arms = [
        lambda i: i,
        lambda i: i * i,
        lambda i: -i,
        lambda i: i << 3,
        lambda i: 0,
        lambda i: i % 7,
    ]
    assert list(out) == [arms[a[i]](i) if a[i] < 6 else 99 for i in range(64)]


def test_clocks_advance(run):
    out = np.zeros(32, np.int64)
    run.right("clocks", (1,), (32,), out)
    assert (out > 0).all()


def test_heap(run):
    out = np.zeros(32, np.int32)
    run.right("heap", (1,), (32,), out)
    assert list(out) == [t + 5 for t in range(32)]


@pytest.mark.parametrize(("kernel", "rows", "dtype"),
                         [("float_math", 11, np.float32), ("integers", 11, np.int64), ("double_math", 5, np.float64)])  # fmt: skip
def test_a_partial_warp_computes_what_a_whole_one_does(run, kernel, rows, dtype):
    n = 32
    inputs = {np.int64: np.int32}.get(dtype, dtype)
    x = (np.random.default_rng(5).standard_normal(n) * 1000).astype(inputs)
    whole, part = np.zeros((rows, n), dtype), np.zeros((rows, n), dtype)
    run.right(kernel, (1,), (n,), x, whole, n)
    run.right(kernel, (1,), (13,), x, part, n)
    assert np.array_equal(
        np.ascontiguousarray(whole[:, :13]).view(np.uint8),
        np.ascontiguousarray(part[:, :13]).view(np.uint8),
    )
    assert not part[:, 13:].any()


def test_two_workers_count_as_one(run):
    a, b, c = floats(5000), floats(5000, seed=1), np.zeros(5000, np.float32)
    one = run.right("vadd", (20,), (256,), a, b, c, 5000).counters
    two = run.right("vadd", (20,), (256,), a, b, c, 5000, workers=2).counters
    assert one == two
    assert one.global_load_sectors == 2 * 625
    assert one.thread_instructions > 5000 * 8
