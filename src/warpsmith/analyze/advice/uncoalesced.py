"""Global accesses that fetch more 32-byte sectors than their bytes need.

Why: DRAM and L2 move whole sectors. A warp that reads 32 floats spread over 32 sectors moves
1,024 bytes to use 128.

Example: `x[threadIdx.x * stride]`. Instead: `x[threadIdx.x + i * blockDim.x]`, or stage the tile
through shared memory and read it there in the other order.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from ...spec import Launch, Target
from .finding import Finding

THRESHOLD = 1.15  # excess of 15 %: below it, row ends and misaligned starts explain it


def check(launch: Launch, target: Target) -> Finding | None:
    moved = launch.counters.get("memory_l2_theoretical_sectors_global", 0)
    ideal = launch.counters.get("memory_l2_theoretical_sectors_global_ideal", 0)
    if not ideal or moved < THRESHOLD * ideal:
        return None
    return Finding(
        "uncoalesced",
        launch.kernel,
        f"global accesses move {moved / ideal:.1f} times the 32-byte sectors that their bytes need.",
        "Let neighboring threads touch neighboring addresses, or stage through shared memory.",
        1 - ideal / moved,
    )
