"""Shared-memory accesses that need more passes over the banks than a conflict-free layout.

Why: shared memory has 32 banks of 4 bytes. Lanes of one warp that want different words of one
bank wait for each other.

Example: a column of `float tile[32][32]` lies in one bank: 32 passes. Instead: `tile[32][33]`, or
an XOR swizzle of the column index.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from ...spec import Launch, Target
from .finding import Finding

THRESHOLD = 1.1


def check(launch: Launch, target: Target) -> Finding | None:
    passes = launch.counters.get("memory_l1_wavefronts_shared", 0)
    ideal = launch.counters.get("memory_l1_wavefronts_shared_ideal", 0)
    if not ideal or passes < THRESHOLD * ideal:
        return None
    return Finding(
        "bank_conflicts",
        launch.kernel,
        f"shared-memory accesses take {passes / ideal:.1f} times the passes of a conflict-free layout.",
        "Pad each row by one access width, or swizzle the column index.",
        1 - ideal / passes,
    )
