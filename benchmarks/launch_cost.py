"""What calling costs the host: launches, Triton's own launch, a torch operator, saved operators.

Run: python benchmarks/launch_cost.py [cuda | cpu]. Times are microseconds of one call, the best of
several rounds: of wall time on a GPU, whose queue is emptied between rounds, else of CPU time. On
"cpu" a launch goes through the whole path to a driver that does nothing, so that the number is
Python alone; a saved operator's candidate is plain torch there.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from about import about, gpu_name

import warpsmith as ws
from warpsmith import targets
from warpsmith.devices import arguments, cuda, observe
from warpsmith.spec import Candidate, CaseResult, Outcome, Record, Verdict, load_task

ROOT = Path(__file__).resolve().parent.parent
ROUNDS, CALLS = 15, 400  # fewer calls than the GPU's queue holds
SIZE = 4096

SCALE = """extern "C" __global__ void scale(const float* x, float* out, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = factor * x[i];
}
"""
TASK = f"""import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2.0
def get_inputs():
    return [torch.randn({SIZE})]
"""
LAUNCHES = f'''import torch
import warpsmith as ws
scale = ws.cuda("""{SCALE}""")
def run(inputs, state):
    (x,) = inputs
    out = torch.empty_like(x)
    scale[{SIZE // 256}, 256](x, out, 2.0, x.numel())
    return out
'''
PLAIN = "def run(inputs, state):\n    return inputs[0] + inputs[0]\n"


@triton.jit
def scale_triton(x, out, factor, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, factor * tl.load(x + at, mask=at < n), mask=at < n)


class NullDriver:
    """The driver API as far as a launch calls it: everything succeeds and nothing runs."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        ok = driver.CUresult.CUDA_SUCCESS
        self.CUresult, self.context = driver.CUresult, driver.CUcontext(0x1000)
        answers = (ok,), (ok, self.context), (ok, driver.CUfunction(0x2000))
        nothing, context, function = answers
        self.cuInit = lambda flags: nothing
        self.cuDeviceGet = self.cuDevicePrimaryCtxRetain = lambda number: context
        self.cuCtxGetCurrent = lambda: context
        self.cuModuleLoadData = lambda image: function
        self.cuModuleGetFunction = lambda module, name: function
        self.cuLaunchKernel = lambda f, gx, gy, gz, bx, by, bz, shared, stream, params, extra: (
            nothing
        )


@contextlib.contextmanager
def null_gpu() -> Iterator[None]:
    """CPU tensors count as those of a GPU whose driver does nothing."""
    index = torch.empty(0).get_device()
    gpu = cuda.Gpu(index, targets.get("h100"), NullDriver())
    gpu.retain()
    kept = cuda.gpu_at, arguments.cuda_index, cuda.Gpu.stream
    cuda.gpu_at, arguments.cuda_index = lambda at: gpu, lambda args: index
    cuda.Gpu.stream = lambda self: 7
    try:
        yield
    finally:
        cuda.gpu_at, arguments.cuda_index, cuda.Gpu.stream = kept


def best_us(call: Callable[[], Any], device: str) -> float:
    """Host time of one call, in microseconds."""
    clock = time.perf_counter if device == "cuda" else time.process_time
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    for _ in range(20):
        call()
    times = []
    for _ in range(ROUNDS):
        wait()
        start = clock()
        for _ in range(CALLS):
            call()
        times.append(clock() - start)
    wait()
    return round(min(times) / CALLS * 1e6, 2)


def launches(device: str) -> dict[str, float]:
    kernel, grid = ws.cuda(SCALE), SIZE // 256
    x = torch.randn(SIZE, device=device)
    out = torch.empty_like(x)
    found = {"torch x + y": best_us(lambda: x + out, device)}
    found["torch.empty_like"] = best_us(lambda: torch.empty_like(x), device)
    ready = contextlib.nullcontext() if device == "cuda" else null_gpu()
    with ready:
        call = lambda: kernel[grid, 256](x, out, 2.0, SIZE)  # noqa: E731
        found["ws.cuda launch"] = best_us(call, device)
        with observe.observe(count=False) as seen:
            found["ws.cuda launch, observed"] = best_us(call, device)
            seen.launches.clear()
    if device == "cuda":
        wrapped = ws.triton(scale_triton)
        found["Triton launch"] = best_us(
            lambda: scale_triton[(grid,)](x, out, 2.0, SIZE, BLOCK=256), device
        )
        found["ws.triton launch"] = best_us(
            lambda: wrapped[(grid,)](x, out, 2.0, SIZE, BLOCK=256), device
        )
    return found


def operator_of(text: str, folder: Path, name: str) -> Any:
    """A saved operator around a candidate; that the candidate is right is assumed."""
    file = folder / f"{name}_task.py"
    file.write_text(TASK)
    task = load_task(file, name)
    record = Record(
        task=task.id, task_name=name, candidate=Candidate(name, "cuda", {"candidate.py": text}),
        device="cuda", target=str(here().name), number=1,
        verdict=Verdict(Outcome.RIGHT, cases=(CaseResult("default seed=0", Outcome.RIGHT, 0.25),)),
    )  # fmt: skip
    return ws.load(ws.save(record, task, folder / name), cpu="virtual")


def here() -> Any:
    return targets.detect() or targets.get("h100")


def operators(device: str) -> dict[str, float]:
    text = LAUNCHES if device == "cuda" else PLAIN
    x = torch.randn(SIZE, device=device)
    with tempfile.TemporaryDirectory() as folder:
        operator = operator_of(text, Path(folder), "launch_cost")
        run, model = operator._body._function("run"), operator.Model()
        found = {
            "reference x * 2.0": best_us(lambda: x * 2.0, device),
            "candidate's own run": best_us(lambda: run([x], {}), device),
            "saved operator": best_us(lambda: operator(x), device),
            "saved operator's Model": best_us(lambda: model(x), device),
            "saved operator through torch.ops": best_us(lambda: operator.torch_op(x), device),
        }
        if operator.fallbacks:
            raise SystemExit(f"the operator fell back: {operator.last_fallback}")
        found["saved operator compiled"] = compiled_us(operator, x, device)
    return {name: us for name, us in found.items() if us is not None}


def compiled_us(operator: Any, x: torch.Tensor, device: str) -> float | None:
    """Under torch.compile; None where this machine cannot compile."""
    compiled = torch.compile(lambda v: operator(v), fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compiled(x)
        except Exception as error:
            print(f"torch.compile: {type(error).__name__}", file=sys.stderr)
            return None
        return best_us(lambda: compiled(x), device)


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda" if torch.cuda.is_available() else "cpu"
    report = about(
        gpu_name() if device == "cuda" else "no GPU: a driver that does nothing",
        clock="wall" if device == "cuda" else "CPU time of the process",
        host_us=launches(device) | operators(device),
    )
    for name, us in report["host_us"].items():
        print(f"{name:36} {us:8.2f} us")
    name = here().name if device == "cuda" else "cpu"
    path = ROOT / "benchmarks" / "results" / f"launch_cost-{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
