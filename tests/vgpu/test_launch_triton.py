"""Triton kernels, compiled for sm_80 and sm_90, agree with numpy on the virtual GPU."""
# SPDX-License-Identifier: Apache-2.0

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from compile import triton_ptx
from launching import Bench

pytest.importorskip("triton")
pytestmark = pytest.mark.virtual
TYPES = {"p": "*fp32", "h": "*fp16", "b": "*bf16", "i": "*i32", "n": "i32", "f": "fp32"}


def build(name, letters, constants, arch=80, **options):
    """A Bench and a launcher for a kernel of kernels/triton_kernels.py."""
    from kernels import triton_kernels

    function = getattr(triton_kernels, name)
    names = [n for n in function.arg_names if n not in constants]
    signature = {n: TYPES[t] for n, t in zip(names, letters)} | dict.fromkeys(constants, "constexpr")
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
    build("layer_norm", "ppppppnf", {"BLOCK": 256})((rows,), x, y, w, b, mean, rstd, n, np.float32(1e-5))
    hat = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, hat * w + b, atol=2e-5)
    dx, dw, db = np.zeros_like(x), np.zeros((4, n), np.float32), np.zeros((4, n), np.float32)
    launch = build("layer_norm_backward", "pppppppp" + "in", {"GROUP": 4, "BLOCK": 256})
    launch((rows,), dx, dy, dw, db, x, w, mean, rstd, np.zeros(8, np.int32), n)
    wdy = dy * w
    want = (wdy - hat * (hat * wdy).mean(1, keepdims=True) - wdy.mean(1, keepdims=True)) * rstd[:, None]
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
    launch = build("matmul", letters, {"BM": bm, "BN": bn, "BK": bk}, arch, num_warps=4 if bm == 64 else 8)
    launch((m // bm, n // bn), *inputs, c, m, n, k)
    np.testing.assert_allclose(c, wa.astype(np.float64) @ wb.astype(np.float64), atol=0.1 if kind == "tf32" else 1e-3)


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
