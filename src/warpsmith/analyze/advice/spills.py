"""Registers spilled to local memory, or arrays that live there.

Why: local memory is device memory behind L1. Each spilled value is a store and a load.

Example: `float acc[N]` indexed by a run-time value. Instead: constant indices in unrolled loops,
smaller tiles per thread, or `__launch_bounds__` that allows more registers.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from ...spec import Launch, Target
from .finding import Finding


def check(launch: Launch, target: Target) -> Finding | None:
    local = launch.counters.get("local_load_requests", 0) + launch.counters.get(
        "local_store_requests", 0
    )
    everything = launch.counters.get("warp_instructions", 0)
    if not local or local < 0.01 * everything:
        return None
    return Finding(
        "spills",
        launch.kernel,
        f"{local / everything:.0%} of its instructions go to local memory.",
        "Index arrays by constants in unrolled loops, or keep less per thread.",
        min(0.9, local / everything * 4),
    )
