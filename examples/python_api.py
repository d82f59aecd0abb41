"""warpsmith from Python: launch a kernel, state a task, judge, optimize, use the winner. Needs no GPU."""

import tempfile
from pathlib import Path

import torch
import triton
import triton.language as tl

import warpsmith as ws

HERE = Path(__file__).parent

SAXPY = """
__global__ void saxpy(float a, const float* x, float* y, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] += a * x[i];
}
"""


@triton.jit
def double_kernel(x, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2.0 * tl.load(x + at, mask=at < count), mask=at < count)


class SquaredRelu(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x).square()


def inputs(count=4096):
    return [torch.randn(count)]


SQUARED_RELU = """
/* host.py
def run(inputs, state):
    (x,) = inputs
    out = torch.empty_like(x)
    kernel[(x.numel() + 255) // 256, 256](x, out, x.numel())
    return out
*/
extern "C" __global__ void squared_relu(const float* x, float* out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float positive = fmaxf(x[i], 0.0f);
    out[i] = positive * positive;
}
"""


def launch_kernels():
    """A kernel is called with tensors: on the CPU it runs on the virtual GPU."""
    x, y = torch.randn(1000), torch.zeros(1000)
    saxpy = ws.cuda(SAXPY)
    saxpy[4, 256](2.0, x, y, 1000)
    print("saxpy is right:", torch.allclose(y, 2 * x))

    doubled = torch.empty_like(x)
    double = ws.triton(double_kernel)
    double[4,](x, doubled, 1000, BLOCK=256)
    print("double is right:", torch.equal(doubled, 2 * x))


def judge_a_file():
    """Is a kernel right, how fast, why?"""
    record = ws.judge(
        HERE / "out_of_bounds" / "task.py", HERE / "out_of_bounds" / "scale.cu", device="virtual"
    )
    print(record.verdict.outcome.name, "at", record.verdict.source)


def optimize_and_use(folder):
    """A task made here, a kernel of our own to start from, and the winner as an operator."""
    task = ws.Task("squared_relu", SquaredRelu, inputs, ranges={"count": (1, 1 << 20)})
    kernel = folder / "squared_relu.cu"
    kernel.write_text(SQUARED_RELU)
    result = ws.optimize(
        task,
        device="virtual",
        kernels=[kernel],
        budget=ws.Budget(candidates=4, seconds=120),
        out=folder / "run",
    )
    print("winner:", result.best.candidate.name, "because", result.reason)

    operator = ws.load(result.operator)
    x = torch.randn(100, requires_grad=True)
    operator(x).sum().backward()
    print("gradient is right:", torch.allclose(x.grad, 2 * torch.relu(x.detach())))


if __name__ == "__main__":
    launch_kernels()
    judge_a_file()
    with tempfile.TemporaryDirectory() as folder:
        optimize_and_use(Path(folder))
