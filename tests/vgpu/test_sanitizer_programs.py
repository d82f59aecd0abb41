"""Random programs that are free of races by construction are clean; without one barrier they are not."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("cuda.bindings.nvrtc")

import sanitizing

pytestmark = pytest.mark.virtual

THREADS, PHASES, PROGRAMS = 128, 6, 24

# Where each thread reads what another one wrote: a permutation that crosses `reach` threads.
SHIFTS = {"warp": (1, 3, 8, 16), "half": (32,), "block": (64, 96)}
BARRIERS = {
    "warp": "__syncwarp();",
    "half": 'asm volatile("bar.sync %0, 64;" ::"r"(1 + (int)threadIdx.x / 64) : "memory");',
    "block": "__syncthreads();",
}
# The atomic version orders through a counter in shared memory, as a hand-written barrier does.
COUNTED = f"""{{ __threadfence_block(); atomicAdd(&count, 1); goal += {THREADS};
    while (((volatile int*)&count)[0] < goal) {{}} __threadfence_block(); }}"""


class Program:
    """Phases that write a buffer, order, and read it across some distance, two buffers in turn."""

    def __init__(self, seed: int):
        rng = random.Random(seed)
        self.phases = []
        for _ in range(PHASES):
            reach = rng.choice(list(SHIFTS))
            shift = rng.choice(SHIFTS[reach])
            self.phases.append(
                (reach, shift, rng.choice((BARRIERS[reach], BARRIERS[reach], COUNTED)))
            )
        self.width = rng.choice(("float", "short", "unsigned char", "double"))

    def source(self, missing: int | None = None) -> str:
        """CUDA C++; `missing`: the phase whose barrier between write and read is left out."""
        lines = [f"__shared__ {self.width} s[{PHASES}][{THREADS}]; __shared__ int count;",
                 "int t = threadIdx.x, goal = 0; if (t == 0) count = 0; __syncthreads();",
                 f"{self.width} v = x[t];"]  # fmt: skip
        for i, (_, shift, barrier) in enumerate(self.phases):
            lines.append(f"s[{i}][t] = v;")
            if i != missing:
                lines.append(barrier)
            lines.append(f"v = v + s[{i}][t ^ {shift}];")
        body = "\n  ".join([*lines, "out[t] = v; (void)goal;"])
        return f'extern "C" __global__ void program(const float* x, float* out) {{\n  {body}\n}}\n'


def run(source: str, schedule: str = "default", seed: int = 0):
    x = np.arange(THREADS, dtype=np.float32)
    return sanitizing.run("program", 1, THREADS, x, np.zeros_like(x), source=source, schedule=schedule,
                          seed=seed, max_instructions=10_000_000)  # fmt: skip


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_program_with_all_its_barriers_is_clean(seed):
    source = Program(seed).source()
    for schedule in ("default", "random"):
        result = run(source, schedule, seed)
        assert not result.findings, (source, [f.message for f in result.findings])


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_program_without_one_barrier_is_told(seed):
    program = Program(seed)
    missing = random.Random(seed).randrange(PHASES)
    reach = program.phases[missing][0]
    source = program.source(missing)
    # A warp that ran ahead through a later counted barrier has read too early, and is ordered by then.
    wanted = {"race", "uninitialized"} | ({"missing-syncwarp"} if reach == "warp" else set())
    lines = {n for n, text in enumerate(source.splitlines(), 1) if f"s[{missing}][t" in text}
    for schedule in ("default", "reverse", "random"):
        found = run(source, schedule, seed).findings
        grave = [f for f in found if f.severity != "info"]
        assert grave, source
        assert {f.kind for f in grave} <= wanted, (source, [f.message for f in found])
        assert {f.source_line for f in grave} <= lines, (source, [f.message for f in found])
