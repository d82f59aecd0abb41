"""CUDA candidates on the virtual GPU through the whole judge: each mistake has its own verdict."""
# SPDX-License-Identifier: Apache-2.0

import pytest
from judging import judge, record_of
from tasks import TASKS

from warpsmith.measure import EAGER, measure
from warpsmith.spec import Candidate, Outcome
from warpsmith.verify import verify

pytestmark = pytest.mark.virtual

KERNEL = """\
extern "C" __global__ void relu(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] > 0.f ? x[i] : 0.f;
}
"""
HOST = """\
import torch, warpsmith as ws
kernel = ws.cuda("relu.cu")
def run(inputs, state):
    x, = inputs
    out = torch.empty_like(x)
    kernel[(x.numel() + 255) // 256, 256](x, out, x.numel())
    return out
"""


def changed(kernel: tuple[str, str] | None = None, host: tuple[str, str] | None = None):
    texts = []
    for text, change in ((HOST, host), (KERNEL, kernel)):
        if change:
            assert change[0] in text
            text = text.replace(*change)
        texts.append(text)
    return Candidate("relu", "cuda", {"candidate.py": texts[0], "relu.cu": texts[1]})


MISTAKES = {
    "no bounds check": (changed(kernel=("if (i < n) ", "")), {Outcome.OUT_OF_BOUNDS}, "relu.cu:3"),
    "one too few": (changed(kernel=("i < n", "i < n - 1")), {Outcome.NOT_WRITTEN}, "never written"),
    "one too many": (changed(kernel=("i < n", "i <= n")), {Outcome.OUT_OF_BOUNDS}, "past its end"),
    "endless loop": (changed(kernel=("    if", "    while (n > 0) {}\n    if")), {Outcome.TIMED_OUT}, "relu.cu"),
    "misaligned": (
        changed(kernel=("x[i] > 0.f", "*(const double*)(x + 1) > 0.")),
        {Outcome.MISALIGNED, Outcome.OUT_OF_BOUNDS},
        "relu.cu:3",
    ),
    "writes its input": (
        changed(kernel=("out[i] =", "((float*)x)[i] = out[i] =")),
        {Outcome.INPUT_CHANGED},
        "read-only",
    ),
    "syntax error": (changed(kernel=("0.f;", "0.f")), {Outcome.COMPILE_FAILED}, "relu.cu:4"),
    "unknown name": (changed(kernel=("x[i] :", "y[i] :")), {Outcome.COMPILE_FAILED}, "relu.cu:3"),
    "grid rounded down": (
        changed(host=("(x.numel() + 255)", "x.numel()")),
        {Outcome.BAD_LAUNCH, Outcome.NOT_WRITTEN},
        "",
    ),
    "block too large": (changed(host=("256](", "2048](")), {Outcome.BAD_LAUNCH}, "at most 1024"),
    "too much shared memory": (
        changed(host=("256](", "256, 1 << 20](")),
        {Outcome.BAD_LAUNCH},
        "shared memory",
    ),
    "one argument too many": (
        changed(host=("x.numel())\n", "x.numel(), 1)\n")),
        {Outcome.BAD_LAUNCH},
        "takes 3 arguments",
    ),
    "wrong dtype": (
        changed(host=("torch.empty_like(x)", "torch.empty_like(x, dtype=torch.float64)")),
        {Outcome.BAD_LAUNCH},
        "float64",
    ),
    "wrong sign": (changed(kernel=(": 0.f", ": -x[i]")), {Outcome.WRONG_VALUE}, "instead of 0"),
    "NaN": (changed(kernel=(": 0.f", ": 0.f / 0.f")), {Outcome.NON_FINITE, Outcome.NOT_WRITTEN}, "nan"),
    "trap": (changed(kernel=("    if", "    if (n > 0) __trap();\n    if")), {Outcome.FAULT}, "trap"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_its_verdict(name, device):
    given, outcomes, words = MISTAKES[name]
    seconds = 1.0 if name == "endless loop" else 30.0
    verdict = judge(TASKS["relu"], given, device, seed=11, max_seconds=seconds)
    assert verdict.outcome in outcomes, verdict
    assert words in verdict.message, verdict


def test_a_right_kernel_is_right_and_has_a_modelled_time(device):
    task = TASKS["relu"]
    record = verify(task, record_of(task, changed(), device), device)
    assert record.right, record.verdict
    timing = measure(task, record, device).timing
    assert timing.modelled
    (launch,) = timing.cases[0].launches
    assert launch.kernel == "relu"
    assert launch.counters["global_load_bytes"] == 4 * 33 * 100
    assert launch.time_us == timing.median_us
    assert launch.bound == "launch"
    assert 0.5 < timing.speedups[EAGER].value < 2


SUM = """\
extern "C" __global__ void row_sum(const float* x, float* out, int cols) {
    __shared__ float part[64];
    float s = 0.f;
    for (int c = threadIdx.x; c < cols; c += 64) s += x[blockIdx.x * cols + c];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int k = 32; k > 0; k /= 2) {
        if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
"""
SUM_HOST = """\
import torch, warpsmith as ws
kernel = ws.cuda("row_sum.cu")
def run(inputs, state):
    x, = inputs
    out = torch.empty(x.shape[0])
    kernel[x.shape[0], 64](x, out, x.shape[1])
    return out
"""


def summing(old="", new=""):
    files = {"candidate.py": SUM_HOST, "row_sum.cu": SUM.replace(old, new) if old else SUM}
    return Candidate("row_sum", "cuda", files)


def test_a_reduction_in_shared_memory(device):
    assert judge(TASKS["row_sum"], summing(), device).right


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("k = 32", "k = 16"),
        ("c < cols", "c < cols - 1"),
        ("part[threadIdx.x] = s", "part[threadIdx.x & 62] = s"),
        ("part[0]", "part[1]"),
    ],
)
def test_a_broken_reduction(old, new, device):
    verdict = judge(TASKS["row_sum"], summing(old, new), device)
    assert not verdict.right
    assert verdict.message


def test_a_barrier_that_some_threads_skip(device):
    verdict = judge(
        TASKS["row_sum"], summing("    __syncthreads();\n    for", "    if (threadIdx.x < 32) return;\n    __syncthreads();\n    for"), device
    )  # fmt: skip
    assert not verdict.right
