"""How fast the virtual GPU is: kernels, cold builds, warm launches, and other simulators.

Run: python benchmarks/vgpu_speed.py. Times are CPU time of this process (children for builds), the
best of several, with checking always on; `counted` says whether the memory counters were on too.
`$WARPSMITH_NUMBA_PYTHON` names a Python that has Numba, for the comparison with its simulator.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from about import about

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "vgpu"))
from compile import cuda, cuda_file, triton_ptx  # noqa: E402

from warpsmith import vgpu  # noqa: E402
from warpsmith.vgpu.memory import copy_of  # noqa: E402

FLOPS = """extern "C" __global__ void fused(float* out, int n, float k) {
  float a = threadIdx.x, b = a + 1, c = a + 2, d = a + 3;
  for (int i = 0; i < n; i++) a = a * k + b, b = b * k + c, c = c * k + d, d = d * k + a;
  out[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d;
}"""
MACS = dict.fromkeys(("sgemm_tiled_256", "sgemm_register_256", "triton_matmul_256_sm80",
                      "triton_matmul_256_sm90"), 256**3)  # fmt: skip
"""Multiply-adds of a launch: one mma or wgmma counts as one instruction of 32 threads."""


def best_ms(run, repeats: int = 7) -> float:
    """The least CPU time of a call, in milliseconds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


class Case:
    """One kernel with its launch, on buffers that live as long as it does."""

    def __init__(self, name: str, ptx: str, kernel: str, grid, block, args, **options):
        self.name, self.kernel, self.grid, self.block = name, kernel, grid, block
        self.module, self.memory, self.options = vgpu.load(ptx), vgpu.Memory(), options
        self.buffers = [copy_of(a) if isinstance(a, np.ndarray) else a for a in args]
        self.args = []
        for i, item in enumerate(self.buffers):
            if isinstance(item, np.ndarray):
                self.memory.register(item.ctypes.data, item.nbytes, f"arg{i}")
                item = item.ctypes.data
            self.args.append(item.tobytes() if isinstance(item, np.generic) else item)

    def launch(self, count: bool) -> vgpu.LaunchResult:
        result = self.module.launch(self.kernel, self.grid, self.block, self.args,
                                    memory=self.memory, count=count, **self.options)  # fmt: skip
        assert result.fault is None, result.fault
        return result

    def measure(self) -> dict:
        instructions = self.launch(True).counters.thread_instructions
        plain, counted = (
            best_ms(lambda: self.launch(False), 25),
            best_ms(lambda: self.launch(True), 25),
        )
        return {
            "ms": plain, "counted_ms": counted, "thread_instructions": instructions,
            "giga_instructions_per_s": instructions / plain / 1e6, "counting_factor": counted / plain,
        }  # fmt: skip


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def triton_case(
    name: str, kernel: str, letters: str, constants: dict, grid, args, arch: int, warps: int
) -> Case:
    from kernels import triton_kernels

    function = getattr(triton_kernels, kernel)
    types = {"p": "*fp32", "h": "*fp16", "n": "i32", "f": "fp32"}
    names = [n for n in function.arg_names if n not in constants]
    signature = {n: types[t] for n, t in zip(names, letters)} | dict.fromkeys(
        constants, "constexpr"
    )
    known = [t == "n" and value % 16 for t, value in zip(letters, args)]
    aligned = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(letters)
               if t != "f" and not known[i]}  # fmt: skip
    ptx, meta = triton_ptx(function, signature, constants, arch, attrs=aligned, num_warps=warps)
    scratch = len(vgpu.load(ptx).kernels[kernel].parameters) - len(letters)
    return Case(
        name, ptx, kernel, grid, (32 * warps,), [*args, *[0] * scratch], shared_bytes=meta.shared
    )


def cases() -> list[Case]:
    basics, n = cuda_file("basics.cu"), 256
    a, b, c = floats(n, n), floats(n, n), floats(n, n)
    m, zero = 1 << 20, np.zeros(1 << 20, np.float32)
    half = [x.astype(np.float16) for x in (a, b)]
    qkv = [floats(2, 128, 64).astype(np.float16) for _ in range(4)]
    return [
        Case("fma_chain", cuda(FLOPS), "fused", (8,), (256,), [zero[:2048], 2000, np.float32(0.9)]),
        Case("vadd_1m", basics, "vadd", (m // 256,), (256,), [zero + 1, zero + 2, zero, m]),
        Case("sgemm_tiled_256", basics, "sgemm_tiled", (16, 16), (16, 16), [a, b, c, n]),
        Case("sgemm_register_256", basics, "sgemm_register", (4, 4), (256,), [a, b, c, n]),
        Case("softmax_256x781", basics, "softmax", (256,), (128,), [floats(256, 781), floats(256, 781), 781], shared_bytes=512),
        Case("transpose_512", basics, "transpose_naive", (16, 16), (32, 8), [floats(512, 512), floats(512, 512), 512]),
        triton_case("triton_matmul_256_sm80", "matmul", "hhpnnn", {"BM": 64, "BN": 64, "BK": 32}, (4, 4), [*half, c, n, n, n], 80, 4),
        triton_case("triton_matmul_256_sm90", "matmul", "hhpnnn", {"BM": 64, "BN": 64, "BK": 32}, (4, 4), [*half, c, n, n, n], 90, 4),
        triton_case("triton_attention_2x128x64", "attention", "hhhhfn", {"D": 64, "BM": 64, "BN": 32}, (2, 2), [*qkv, np.float32(0.125), 128], 80, 4),
    ]  # fmt: skip


# ----------------------------------------------------------------------------- builds and launches

_COLD = """
import sys, time, resource
start = time.process_time(), time.perf_counter()
from warpsmith import vgpu
from warpsmith.vgpu import build
if sys.argv[3] == "ready": build.runtime()
start = time.process_time(), time.perf_counter()
vgpu.load(open(sys.argv[1]).read()).prepare(sys.argv[2])
spent = time.process_time() - start[0] + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
print(spent, time.perf_counter() - start[1], build.HANDLERS.compiled)
"""


def cold_build(ptx: str, kernel: str, cache: str, runtime: str) -> dict:
    """CPU and wall seconds from PTX text to a kernel that can be launched, in a new process."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        done = subprocess.run(
            [sys.executable, "-c", _COLD, file.name, kernel, runtime],
            env=os.environ | {"WARPSMITH_CACHE": cache}, capture_output=True, text=True, check=True,
        )  # fmt: skip
    cpu, wall, compiled = done.stdout.split()
    return {"cpu_s": float(cpu), "wall_s": float(wall), "handlers_compiled": int(compiled)}


def builds(found: list[Case], texts: dict[str, str]) -> dict:
    result = {}
    for case in found:
        with tempfile.TemporaryDirectory() as cache:
            cold_build(texts["fma_chain"], "fused", cache, "fresh")
            first = cold_build(texts[case.name], case.kernel, cache, "ready")
            again = cold_build(texts[case.name], case.kernel, cache, "ready")
        result[case.name] = {"no_handler_cached": first, "all_handlers_cached": again}
    with tempfile.TemporaryDirectory() as cache:
        result["runtime_of_a_new_machine"] = cold_build(texts["fma_chain"], "fused", cache, "fresh")
    return result


# -------------------------------------------------------------------------------------- budgets


def translate_ms(case: Case) -> dict:
    """CPU milliseconds from PTX text to a program, before any compiler is called."""
    from warpsmith.vgpu.ptx.parse import parse
    from warpsmith.vgpu.translate import translate

    text = case.module.text
    return {
        "lines": text.count("\n"),
        "parse_ms": best_ms(lambda: parse(text), 5),
        "parse_and_translate_ms": best_ms(lambda: translate(parse(text), case.kernel), 5),
    }


def bounds_factor(case: Case) -> float:
    """Time with the table of allocations over time without it, where only null, alignment and the shared
    and local windows are looked at: these cannot be switched off."""

    def free() -> None:
        case.module.launch(
            case.kernel, case.grid, case.block, case.args, count=False, **case.options
        )

    checked, unchecked = [], []
    for _ in range(9):
        checked.append(best_ms(lambda: case.launch(False), 1))
        unchecked.append(best_ms(free, 1))
    return min(checked) / min(unchecked)


def two_workers(case: Case) -> float:
    """Wall time of one worker over that of two."""
    spent: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(9):
        for workers, times in spent.items():
            start = time.perf_counter()
            case.module.launch(case.kernel, case.grid, case.block, case.args, memory=case.memory,
                               count=False, workers=workers, **case.options)  # fmt: skip
            times.append(time.perf_counter() - start)
    return min(spent[1]) / min(spent[2])


def within_budgets(report: dict) -> dict:
    """Each budget with the kernels that miss it."""
    rows, builds_ = report["kernels"], report["builds"]

    def over(name: str, limit: float) -> list[str]:
        return [k for k, row in rows.items() if row[name] > limit]

    return {
        "parse and translate <= 100 ms": over("parse_and_translate_ms", 100),
        "cold build <= 1 s": [k for k, b in builds_.items() if "no_handler_cached" in b
                              and b["no_handler_cached"]["wall_s"] > 1],
        "warm launch <= 20 ms": [] if report["warm_launch_ms"] <= 20 else ["empty"],
        ">= 2 G thread instructions/s": [k for k, r in rows.items() if r["giga_instructions_per_s"] < 2],
        "bounds checks <= 2x": over("bounds_factor", 2),
        "counting <= 4x": over("counting_factor", 4),
    }  # fmt: skip


def main() -> None:
    found = cases()
    report = about("virtual", clock="CPU time", kernels={})
    for case in found:
        report["kernels"][case.name] = row = case.measure() | translate_ms(case)
        row |= {"bounds_factor": bounds_factor(case), "two_workers": two_workers(case)}
        if macs := MACS.get(case.name):
            row["giga_macs_per_s"] = macs / row["ms"] / 1e6
        print(f"{case.name:28} {row['ms']:8.2f} ms  counted {row['counted_ms']:8.2f} ms  "
              f"{row['giga_instructions_per_s']:6.2f} G thread instructions/s")  # fmt: skip
    empty = Case("empty", cuda_file("basics.cu"), "grid_stride", (1,), (32,),
                 [floats(1), floats(1), 0, np.float32(1)])  # fmt: skip
    report["warm_launch_ms"] = best_ms(lambda: empty.launch(True))
    print(f"warm launch of one warp: {report['warm_launch_ms']:.2f} ms")
    texts = {case.name: case.module.text for case in found}
    report["builds"] = builds(found, texts)
    for name, row in report["builds"].items():
        print(name, row)
    report["missed"] = within_budgets(report)
    print("missed:", report["missed"])
    from vgpu_peers import against_peers

    report["peers"] = against_peers()
    for peer, rows in report["peers"].items():
        print(
            peer,
            {k: round(r["times_faster"], 1) for k, r in rows.items()}
            if rows != "not installed"
            else rows,
        )
    report["child_peak_mib"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    path = ROOT / "benchmarks" / "results" / "vgpu_speed.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
