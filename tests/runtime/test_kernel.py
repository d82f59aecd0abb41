"""The objects people hold: ws.cuda and ws.triton, launched on CPU and CUDA tensors alike."""
# SPDX-License-Identifier: Apache-2.0

import textwrap

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
pytest.importorskip("cuda.bindings.nvrtc")

import triton.language as tl  # noqa: E402

import warpsmith as ws  # noqa: E402
from warpsmith.devices.observe import observe  # noqa: E402
from warpsmith.errors import (  # noqa: E402
    CompileError,
    DtypeError,
    KernelFault,
    LaunchError,
    UsageError,
)
from warpsmith.runtime.triton_kernel import native_error  # noqa: E402
from warpsmith.spec.load import execute  # noqa: E402

pytestmark = pytest.mark.virtual

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=[
        pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU")]),
]  # fmt: skip
both = pytest.mark.parametrize("device", DEVICES)
parts = pytest.mark.parametrize("part", ["a100", "h100"])

SCALE = """
template <typename T>
__global__ void scale(const T* x, T* out, T factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * x[i];
}
__global__ void count(int* total) { atomicAdd(total, UNIT); }
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "scale.cu").write_text(SCALE)
    return tmp_path


def module(folder, text):
    """The names of a Python file in that folder, run as the workshop runs it."""
    path = folder / "host.py"
    return execute("import torch, warpsmith as ws\n" + textwrap.dedent(text), path)


# ----------------------------------------------------------------------------------- CUDA C++


@both
def test_a_kernel_of_a_file_beside_the_caller(folder, device):
    names = module(folder, 'k = ws.cuda("kernels/scale.cu", "scale<float>", defines={"UNIT": 1})')
    x = torch.randn(1000, device=device)
    out = torch.empty_like(x)
    names["k"][(1000 + 255) // 256, 256](x, out, 2.0, 1000)
    assert torch.equal(out, 2 * x)


@both
def test_a_kernel_of_a_text_and_its_macros(device):
    three = ws.cuda(SCALE, "count", defines={"UNIT": 3})
    total = torch.zeros(1, dtype=torch.int32, device=device)
    three[(2, 2), (8, 8)](total)
    assert total.item() == 3 * 4 * 64


@both
def test_dynamic_shared_memory_is_the_third_number(device):
    text = """
__global__ void reverse(float* x, int n) {
    extern __shared__ float s[];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[n - 1 - threadIdx.x];
}
"""
    x = torch.arange(32.0, device=device)
    ws.cuda(text)[1, 32, 128](x, 32)
    assert x.tolist() == list(reversed(range(32)))


@both
def test_a_cooperative_launch(device):
    text = """
#include <cooperative_groups.h>
__global__ void turn(int* x, int* y) {
    if (threadIdx.x == 0) x[blockIdx.x] = blockIdx.x;
    cooperative_groups::this_grid().sync();
    if (threadIdx.x == 0) y[blockIdx.x] = x[gridDim.x - 1 - blockIdx.x];
}
"""
    x, y = (torch.zeros(6, dtype=torch.int32, device=device) for _ in range(2))
    ws.cuda(text).cooperative[6, 64](x, y)
    assert y.tolist() == [5, 4, 3, 2, 1, 0]


@pytest.mark.plain
def test_the_target_in_force():
    kernel = ws.cuda(SCALE, "scale<float>", defines={"UNIT": 1})
    assert ".target sm_90a" in kernel.ptx
    with observe("a100"):
        assert ".target sm_80" in kernel.ptx
    assert kernel.artifact("rtx4090").arch == "sm_89"
    fixed = ws.cuda(SCALE, "count", defines={"UNIT": 1}, target="t4")
    with observe("a100"):
        assert fixed.artifact().arch == "sm_75"


def test_it_runs_as_the_target_that_the_session_names():
    kernel = ws.cuda(SCALE, "scale<double>", defines={"UNIT": 1})
    x = torch.randn(64, dtype=torch.float64)
    out = torch.empty_like(x)
    with observe("a100") as seen:
        kernel[1, 64](x, out, 0.5, 64)
    assert seen.kernels[0]["arch"] == "sm_80"
    assert torch.equal(out, x / 2)


@pytest.mark.plain
def test_repr_can_be_pasted(folder):
    call = "ws.cuda('kernels/scale.cu', 'scale<float>', defines={'UNIT': 1})"
    names = module(folder, f"k = {call}")
    assert repr(names["k"]) == call
    assert repr(names["k"][4, (8, 8), 32]) == call + "[4, (8, 8), 32]"
    assert repr(ws.cuda("__global__ void f() {}\n")) == "ws.cuda(<source of 23 characters>)"
    assert "\n" not in repr(ws.cuda(SCALE, "count"))


MISUSE = {
    "no such file": ('ws.cuda("scal.cu")', UsageError, r"no CUDA file at .*scal\.cu"),
    "the folder's files": ('ws.cuda("kernels/scal.cu")', UsageError, r"there are: scale\.cu"),
    "several kernels": (
        'ws.cuda("kernels/scale.cu")', UsageError, r"defines 2 kernels: scale<…>, count\. Say which"),
    "a template alone": (
        'ws.cuda("template <class T> __global__ void f(T* x) {}\\n")', UsageError, "'f<float>'"),
    "no kernel": ('ws.cuda("int x;\\n").ptx', UsageError, "defines no __global__ function"),
    "no such kernel": (
        'ws.cuda("kernels/scale.cu", "cuont", defines={"UNIT": 1}).ptx', UsageError, "no kernel 'cuont'"),
    "no such target": ('ws.cuda("__global__ void f() {}\\n", target="h10")', UsageError, "h100"),
    "no block": ('ws.cuda("__global__ void f() {}\\n")[4]', LaunchError, r"kernel\[grid, block\]"),
    "four numbers": ('ws.cuda("__global__ void f() {}\\n")[4, 1, 1, 1]', LaunchError, "tuples"),
    "wrong count": ('ws.cuda("__global__ void f() {}\\n")[4, 1](1)', LaunchError, "takes 0 arguments, got 1"),
}  # fmt: skip


@pytest.mark.plain
@pytest.mark.parametrize("case", MISUSE)
def test_misuse(folder, case):
    text, kind, words = MISUSE[case]
    with pytest.raises(kind, match=words):
        module(folder, text)


@pytest.mark.plain
def test_a_compile_error_comes_at_the_launch_with_its_line(folder):
    names = module(folder, 'k = ws.cuda("kernels/scale.cu", "count")')
    with pytest.raises(CompileError, match=r"scale\.cu:7: error: .*UNIT"):
        names["k"][1, 1](torch.zeros(1, dtype=torch.int32))


def test_a_text_in_a_python_file_keeps_the_lines_of_that_file(folder):
    names = module(
        folder,
        """
        good = ws.cuda('''
        __global__ void past(int* x) {
            x[threadIdx.x] = 1;
        }
        ''')
        bad = ws.cuda('''
        __global__ void wrong(int* x) {
            x[0] = y;
        }
        ''')
        """,
    )
    with pytest.raises(KernelFault) as caught:
        names["good"][1, 64](torch.zeros(8, dtype=torch.int32))
    assert caught.value.source == "host.py:5"
    with pytest.raises(CompileError, match=r"host\.py:10: error: .*\"y\""):
        names["bad"][1, 1](torch.zeros(8, dtype=torch.int32))


@both
def test_kernels_of_one_file_share_its_variables(device):
    text = """
__device__ int kept;
__global__ void put(const int* x) { kept = x[0]; }
__global__ void get(int* x) { x[0] = kept; }
"""
    x = torch.tensor([37], dtype=torch.int32, device=device)
    ws.cuda(text, "put")[1, 1](x)
    x.zero_()
    ws.cuda(text, "get")[1, 1](x)
    assert x.item() == 37


@pytest.mark.plain
def test_models_that_hold_kernels_can_be_copied():
    import copy

    held = [ws.cuda(SCALE, "count"), ws.triton(add_kernel)]
    assert copy.deepcopy(held)[0] is held[0]
    assert copy.deepcopy(held)[1] is held[1]


# ------------------------------------------------------------------------------------- Triton


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


@triton.jit
def softmax_kernel(x, out, cols, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * cols + i, i < cols, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(
        out + tl.program_id(0) * cols + i, (e / tl.sum(e, 0)).to(out.dtype.element_ty), i < cols
    )


@triton.jit
def layernorm_kernel(x, weight, bias, out, cols, eps, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    inside = i < cols
    v = tl.load(x + tl.program_id(0) * cols + i, inside, other=0.0)
    d = tl.where(inside, v - tl.sum(v, 0) / cols, 0.0)
    scale = tl.rsqrt(tl.sum(d * d, 0) / cols + eps)
    y = d * scale * tl.load(weight + i, inside) + tl.load(bias + i, inside)
    tl.store(out + tl.program_id(0) * cols + i, y, inside)


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        left = tl.load(a + m[:, None] * K + k[None, :], (m[:, None] < M) & (k[None, :] < K), 0.0)
        right = tl.load(b + k[:, None] * N + n[None, :], (k[:, None] < K) & (n[None, :] < N), 0.0)
        total = tl.dot(left, right, total)
    tl.store(c + m[:, None] * N + n[None, :], total, (m[:, None] < M) & (n[None, :] < N))


tuned_add = triton.autotune(
    [triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 256})], key=["n"]
)(add_kernel)


@triton.jit
def past_the_end(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, i)


@both
@parts
@pytest.mark.parametrize("n", [1, 1000, 4096])
def test_triton_add(device, part, n):
    x, y = torch.randn(2, n, device=device)
    out = torch.empty_like(x)
    with observe(part):
        ws.triton(add_kernel)[(triton.cdiv(n, 256),)](x, y, out, n, BLOCK=256)
    assert torch.equal(out, x + y)


@both
@parts
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_triton_softmax(device, part, dtype):
    x = torch.randn(9, 100, device=device).to(dtype)
    out = torch.empty_like(x)
    with observe(part):
        ws.triton(softmax_kernel)[9](x, out, 100, BLOCK=128, num_warps=2)
    expected = torch.softmax(x.double(), 1)
    assert (out.double() - expected).abs().max() <= (2**-9 if dtype is torch.bfloat16 else 1e-6)


@both
@parts
def test_triton_layernorm(device, part):
    x, w, b = (torch.randn(s, device=device) for s in ((5, 200), (200,), (200,)))
    out = torch.empty_like(x)
    with observe(part):
        ws.triton(layernorm_kernel)[5,](x, w, b, out, 200, 1e-5, BLOCK=256)
    expected = torch.nn.functional.layer_norm(x.double(), (200,), w.double(), b.double(), 1e-5)
    assert (out - expected).abs().max() < 1e-5


@both
@parts
def test_triton_matmul(device, part):
    a, b = torch.randn(80, 72, device=device).half(), torch.randn(72, 96, device=device).half()
    out = torch.empty(80, 96, device=device)
    with observe(part):
        ws.triton(matmul_kernel)[
            lambda meta: (triton.cdiv(80, meta["BM"]), triton.cdiv(96, meta["BN"]))
        ](a, b, out, 80, 96, 72, BM=64, BN=64, BK=32)
    assert (out - a.double() @ b.double()).abs().max() < 1e-4


@both
def test_an_autotuned_kernel_runs(device):
    x, y = torch.randn(2, 1000, device=device)
    out = torch.empty_like(x)
    kernel = ws.triton(tuned_add)
    with observe() as seen:
        kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, out, 1000)
    assert torch.equal(out, x + y)
    if device == "cpu":
        assert (seen.launches[0].grid, seen.launches[0].block) == ((16, 1, 1), (64, 1, 1))
    assert seen.launches[0].kernel == "add_kernel"
    out.zero_()
    with observe() as seen:
        kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, out, 1000, config=1)
    assert torch.equal(out, x + y)
    assert seen.launches[0].grid == (4, 1, 1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU")
def test_gpu_facts_of_triton_launches():
    x = torch.randn(1000, device="cuda")
    with observe(synchronous=True) as seen:
        ws.triton(add_kernel)[4](x, x, torch.empty_like(x), 1000, BLOCK=256)
    assert seen.launches[0].registers > 0
    assert seen.kernels[0]["language"] == "triton"
    with pytest.raises(LaunchError, match="different devices"):
        ws.triton(add_kernel)[4](x, x.cpu(), torch.empty_like(x), 1000, BLOCK=256)


def test_a_triton_kernel_that_exists_only_as_text():
    text = textwrap.dedent("""
        import triton
        import triton.language as tl

        @triton.jit
        def triple(x, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            tl.store(x + i, tl.load(x + i) * 3)
    """)
    x = torch.ones(64)
    ws.triton(text)[1](x, BLOCK=64)
    assert x.tolist() == [3.0] * 64


def test_a_triton_fault_names_the_line():
    x = torch.zeros(60, dtype=torch.int32)
    with pytest.raises(KernelFault) as caught:
        ws.triton(past_the_end)[1](x, 60, BLOCK=64)
    line = past_the_end.fn.__code__.co_firstlineno + 3
    assert caught.value.kind == "out-of-bounds"
    assert caught.value.source == f"test_kernel.py:{line}"


def test_triton_artifacts():
    kernel = ws.triton(add_kernel)
    assert repr(kernel) == "ws.triton(add_kernel)"
    assert repr(kernel[4,]) == "ws.triton(add_kernel)[(4,)]"
    assert ws.triton(kernel) is kernel
    with pytest.raises(UsageError, match="has not been launched for h100"):
        kernel.artifact()
    x = torch.zeros(64)
    assert kernel.artifact("a100", (x, x, x, 64), {"BLOCK": 64}).arch == "sm_80"
    kernel[1](x, x, x, 64, BLOCK=64)
    assert ".target sm_90a" in kernel.ptx


TRITON_MISUSE = {
    "a plain function": (lambda: ws.triton(len), UsageError, "@triton.jit"),
    "an empty grid": (lambda: add(grid=(0,)), LaunchError, "Skip the launch"),
    "a grid of floats": (lambda: add(grid=1.5), LaunchError, "expected an int"),
    "a grid function of nothing": (lambda: add(grid=lambda meta: None), LaunchError, "grid is None"),
    "an unknown option": (lambda: add(num_warp=4), UsageError, "num_warp.*num_warps"),
    "a missing argument": (lambda: ws.triton(add_kernel)[1](BLOCK=64), UsageError, "'x'"),
    "a list": (lambda: add(x=[1.0]), (DtypeError, UsageError), "list|tuple|Unsupported"),
    "too much shared memory": (
        lambda: big_matmul(), LaunchError, r"shared memory per block.*num_stages"),
}  # fmt: skip


def add(grid=(1,), x=None, **more):
    t = torch.zeros(64)
    ws.triton(add_kernel)[grid](t if x is None else x, t, t, 64, BLOCK=64, **more)


def big_matmul():
    a = torch.zeros(256, 256)
    with observe("rtx4090"):
        ws.triton(matmul_kernel)[1, 1](a, a, a, 256, 256, 256, BM=128, BN=128, BK=64, num_stages=4)


@pytest.mark.parametrize("case", TRITON_MISUSE)
def test_triton_misuse(case):
    call, kind, words = TRITON_MISUSE[case]
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.plain
def test_errors_of_triton_on_a_gpu_are_typed():
    class Gpu:
        lost = ""

    class OutOfResources(Exception):
        pass

    kernel = ws.triton(add_kernel)
    fault = native_error(
        kernel, Gpu, RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered")
    )
    assert (fault.kind, fault.kernel) == ("illegal-access", "add_kernel")
    assert "illegal memory access" in Gpu.lost
    assert isinstance(
        native_error(kernel, Gpu, OutOfResources("out of resource: shared memory")), LaunchError
    )
    assert isinstance(native_error(kernel, Gpu, TypeError("missing 'n'")), UsageError)
    other = RuntimeError("something else")
    assert native_error(kernel, Gpu, other) is other
