"""Warps that run with few of their 32 threads.

Why: a warp issues one instruction for all its threads; those that took another branch wait.

Example: `if (threadIdx.x % 2)`. Instead: branch on whole warps, compact the work first, or let each
thread do several items so that tails are short.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from ...spec import Launch, Target
from .finding import Finding

THRESHOLD = 24  # active threads per instruction, as in Nsight Compute's ThreadDivergence rule


def check(launch: Launch, target: Target) -> Finding | None:
    warps = launch.counters.get("warp_instructions", 0)
    if not warps:
        return None
    active = launch.counters.get("thread_instructions", 0) / warps
    if active >= THRESHOLD:
        return None
    return Finding(
        "divergence",
        launch.kernel,
        f"on average {active:.1f} of 32 threads are active.",
        "Branch on whole warps, compact the work first, or use blocks whose size is a multiple of 32.",
        1 - active / 32,
    )
