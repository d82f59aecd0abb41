"""Triton kernels, compiled for sm_80 and sm_90, agree with numpy on the virtual GPU."""
# SPDX-License-Identifier: Apache-2.0

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from compile import triton_ptx
from launching import Bench

pytest.importorskip("triton")
pytestmark = pytest.mark.virtual
TYPES = {"p": "*fp32", "h": "*fp16", "b": "*bf16", "d": "*fp64", "i": "*i32", "c": "*i8", "e": "*fp8e5",
         "n": "i32", "f": "fp32"}  # fmt: skip


def build(name, letters, constants, arch=80, **options):
    """A Bench and a launcher for a kernel of kernels/triton_kernels.py."""
    from kernels import triton_kernels

    function = getattr(triton_kernels, name)
    names = [n for n in function.arg_names if n not in constants]
    signature = {n: TYPES[t] for n, t in zip(names, letters)} | dict.fromkeys(
        constants, "constexpr"
    )
    aligned = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(letters)
               if t != "f"}  # fmt: skip
    ptx, meta = triton_ptx(function, signature, constants, arch, attrs=aligned, **options)
    bench = Bench(ptx)
    scratch = len(bench.module.kernels[name].parameters) - len(letters)

    def launch(grid, *args, **more):
        return bench.right(name, grid, (32 * meta.num_warps,), *args, *[0] * scratch,
                           shared_bytes=meta.shared, **more)  # fmt: skip

    return launch


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def bf16(x):
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def wide(x):
    return (x.astype(np.uint32) << 16).view(np.float32)


def test_add():
    n = 5008
    a, b, c = floats(n), floats(n, seed=1), np.zeros(n, np.float32)
    build("add", "pppn", {"BLOCK": 1024})((5,), a, b, c, n)
    assert np.array_equal(c, a + b)


def test_softmax():
    a = floats(16, 784) * 3
    out = np.zeros_like(a)
    build("softmax", "ppn", {"BLOCK": 1024})((16,), a, out, 784)
    want = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(out, want / want.sum(1, keepdims=True), rtol=1e-5)


def test_dropout():
    a, out = np.ones(8000, np.float32), np.zeros(8000, np.float32)
    build("dropout", "ppnfn", {"BLOCK": 1024})((8,), a, out, 8000, np.float32(0.5), 123)
    assert set(np.unique(out)) == {0.0, 2.0}
    assert abs((out == 0).mean() - 0.5) < 0.02


def test_layer_norm_forward_and_backward():
    rows, n = 12, 208
    x, w, b, dy = floats(rows, n), floats(n, seed=1), floats(n, seed=2), floats(rows, n, seed=3)
    y, mean, rstd = np.zeros_like(x), np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    build("layer_norm", "ppppppnf", {"BLOCK": 256})(
        (rows,), x, y, w, b, mean, rstd, n, np.float32(1e-5)
    )
    hat = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, hat * w + b, atol=2e-5)
    dx, dw, db = np.zeros_like(x), np.zeros((4, n), np.float32), np.zeros((4, n), np.float32)
    launch = build("layer_norm_backward", "pppppppp" + "in", {"GROUP": 4, "BLOCK": 256})
    launch((rows,), dx, dy, dw, db, x, w, mean, rstd, np.zeros(8, np.int32), n)
    wdy = dy * w
    want = (wdy - hat * (hat * wdy).mean(1, keepdims=True) - wdy.mean(1, keepdims=True)) * rstd[
        :, None
    ]
    np.testing.assert_allclose(dx, want, atol=2e-5)
    np.testing.assert_allclose(dw.sum(0), (dy * hat).sum(0), atol=1e-4)
    np.testing.assert_allclose(db.sum(0), dy.sum(0), atol=1e-4)


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("blocks", [(64, 64, 32), (128, 128, 32)])
@pytest.mark.parametrize("kind", ["fp16", "bf16", "tf32"])
def test_matmul(kind, blocks, arch):
    m, n, k = 128, 256, 96
    a, b = floats(m, k), floats(k, n, seed=1)
    bm, bn, bk = blocks
    letters = {"fp16": "hhp", "bf16": "bbp", "tf32": "ppp"}[kind] + "nnn"
    if kind == "fp16":
        inputs = wa, wb = a.astype(np.float16), b.astype(np.float16)
    elif kind == "bf16":
        inputs = bf16(a), bf16(b)
        wa, wb = map(wide, inputs)
    else:
        inputs = a, b
        wa, wb = ((x.view(np.uint32) & 0xFFFFE000).view(np.float32) for x in inputs)
    c = np.zeros((m, n), np.float32)
    launch = build(
        "matmul", letters, {"BM": bm, "BN": bn, "BK": bk}, arch, num_warps=4 if bm == 64 else 8
    )
    launch((m // bm, n // bn), *inputs, c, m, n, k)
    np.testing.assert_allclose(
        c, wa.astype(np.float64) @ wb.astype(np.float64), atol=0.1 if kind == "tf32" else 1e-3
    )


@pytest.mark.parametrize("arch", [80, 90])
def test_flash_attention(arch):
    heads, t, d = 2, 128, 64
    q, k, v = (floats(heads, t, d, seed=s).astype(np.float16) for s in range(3))
    out = np.zeros((heads, t, d), np.float16)
    launch = build("attention", "hhhhfn", {"D": d, "BM": 64, "BN": 32}, arch)
    launch((t // 64, heads), q, k, v, out, np.float32(0.125), t)
    s = np.einsum("hmd,hnd->hmn", q.astype(np.float64), k.astype(np.float64)) * 0.125
    s = np.where(np.tril(np.ones((t, t), bool)), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    want = np.einsum("hmn,hnd->hmd", p / p.sum(-1, keepdims=True), v.astype(np.float64))
    np.testing.assert_allclose(out, want, atol=4e-3)


def test_histogram_and_cumsum():
    x = np.random.default_rng(0).integers(0, 64, 2048).astype(np.int32)
    out = np.zeros(64, np.int32)
    build("histogram", "iin", {"BINS": 64, "BLOCK": 1024})((2,), x, out, 2048)
    assert np.array_equal(out, np.bincount(x, minlength=64))
    out = np.zeros(1024, np.int32)
    build("cumulative", "ii", {"BLOCK": 1024})((1,), x[:1024].copy(), out)
    assert np.array_equal(out, np.cumsum(x[:1024]))


def test_sort():
    x, out = floats(256), np.zeros(256, np.float32)
    build("sort", "pp", {"BLOCK": 256})((1,), x, out)
    assert np.array_equal(out, np.sort(x))


def test_libdevice():
    x = (floats(256) / 4).clip(-0.99, 0.99)
    out = np.zeros((8, 256), np.float32)
    build("library", "pp", {"BLOCK": 256})((1,), x, out)
    w = x.astype(np.float64)
    want = [np.arcsin(w), np.vectorize(math.erf)(w), np.tanh(w), abs(w) ** 2.3, np.sin(w), 2**w,
            np.log(abs(w)), 1 / np.sqrt(abs(w))]  # fmt: skip
    np.testing.assert_allclose(out, np.array(want), rtol=3e-6, atol=3e-7)


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("kind", ["p", "i"])
def test_atomics(kind, arch):
    x = np.random.default_rng(0).integers(-50, 50, 256)
    x = x.astype(np.float32 if kind == "p" else np.int32)
    out = np.zeros(15, x.dtype)
    build("atomics", 2 * kind, {"BLOCK": 256}, arch)((1,), x, out)
    assert [out[i] for i in range(7)] == [x[i::7].sum() for i in range(7)]
    assert [out[8 + i] for i in range(3)] == [max(0, x[i::3].max()) for i in range(3)]
    assert [out[12 + i] for i in range(3)] == [min(0, x[i::3].min()) for i in range(3)]


def test_argmax_and_argmin():
    x, out = floats(256), np.zeros(2, np.int32)
    build("extremes", "pi", {"BLOCK": 256})((1,), x, out)
    assert list(out) == [x.argmax(), x.argmin()]


def test_gather():
    x, out = floats(256), np.zeros(256, np.float32)
    index = np.random.default_rng(0).integers(0, 256, 256).astype(np.int32)
    build("gather", "ppi", {"BLOCK": 256})((1,), x, out, index)
    assert np.array_equal(out, x[index])


@pytest.mark.parametrize("arch", [80, 90])
def test_dot_of_small_types(arch):
    a, b = np.random.default_rng(0).integers(-128, 128, (2, 64, 64)).astype(np.int8)
    c = np.zeros((64, 64), np.int32)
    build("dot", "cci", {"BLOCK": 64, "PRECISION": "ieee"}, arch)((1,), a, b, c)
    assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32))
    a, b = (floats(64, 64, seed=s).astype(np.float16).view(np.uint16) >> 8 for s in (0, 1))
    c = np.zeros((64, 64), np.float32)
    build("dot", "eep", {"BLOCK": 64, "PRECISION": "ieee"}, arch)(
        (1,), a.astype(np.uint8), b.astype(np.uint8), c
    )
    wa, wb = ((x << 8).astype(np.uint16).view(np.float16).astype(np.float64) for x in (a, b))
    np.testing.assert_allclose(c, wa @ wb, atol=1e-3)


@pytest.mark.parametrize(("precision", "tolerance"), [("ieee", 1e-5), ("tf32x3", 1e-5)])
def test_dot_of_floats(precision, tolerance):
    a, b, c = floats(32, 32), floats(32, 32, seed=1), np.zeros((32, 32), np.float32)
    build("dot", "ppp", {"BLOCK": 32, "PRECISION": precision})((1,), a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, atol=tolerance)


def test_dot_of_doubles():
    a, b = np.random.default_rng(0).standard_normal((2, 32, 32))
    c = np.zeros((32, 32))
    build("dot", "ddd", {"BLOCK": 32, "PRECISION": "ieee"})((1,), a, b, c)
    np.testing.assert_allclose(c, a @ b, atol=1e-13)


def test_float8_conversions():
    import torch

    x = floats(256) * 20
    out = np.zeros(256, np.float32)
    build("to_float8", "pp", {"BLOCK": 256}, 90)((1,), x, out)
    t = torch.from_numpy(x)
    want = t.to(torch.float8_e5m2).float() + t.to(torch.float8_e4m3fn).float()
    assert np.array_equal(out, want.numpy())


def test_scan_along_rows():
    x = 1 + floats(32, 32) / 8
    out = np.zeros_like(x)
    build("products", "pp", {"BLOCK": 32})((1,), x, out)
    np.testing.assert_allclose(out, np.cumprod(x.astype(np.float64), 1), rtol=1e-5)


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("schedule", ["reverse", "random"])
def test_persistent_pipelined_matmul(arch, schedule):
    m, n, k = 256, 128, 160
    a, b = floats(m, k).astype(np.float16), floats(k, n, seed=1).astype(np.float16)
    c = np.zeros((m, n), np.float16)
    launch = build("persistent_matmul", "hhhnnn", {"BM": 128, "BN": 64, "BK": 32}, arch)
    launch((3,), a, b, c, m, n, k, schedule=schedule, seed=5)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=0.03)


def test_integers():
    x = np.random.default_rng(0).integers(-(2**31), 2**31, 256).astype(np.int32)
    out = np.zeros_like(x)
    build("integers", "ii", {"BLOCK": 256})((1,), x, out)
    u = x.view(np.uint32).astype(np.uint64)
    mixed = (
        (((u >> 3) ^ (u * 2654435761 & 0xFFFFFFFF)) | (u * u >> 32))
        .astype(np.uint32)
        .view(np.int32)
    )
    truncated = np.trunc(mixed / 7).astype(np.int64) + np.fmod(x.astype(np.int64), 13)
    assert np.array_equal(out, truncated.astype(np.int32))


def test_doubles():
    x = np.random.default_rng(0).random(256) * 5 + 0.1
    out = np.zeros_like(x)
    build("doubles", "dd", {"BLOCK": 256})((1,), x, out)
    np.testing.assert_allclose(out, np.exp(x) / np.sqrt(x) + np.log(x) * np.cos(x), rtol=1e-13)


def test_device_assert():
    from warpsmith.errors import KernelFault

    x = np.zeros(256, np.int32)
    x[200] = 100
    launch = build("asserted", "ii", {"BLOCK": 256}, debug=True)
    with pytest.raises(KernelFault, match="too big"):
        launch((1,), x, np.zeros_like(x))
