"""A kernel that is over before its launch is.

Why: a launch costs two to four microseconds whatever it does.

Example: three elementwise kernels of one microsecond. Instead: fuse them with their neighbors, or
replay them in a CUDA graph.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from ...spec import Launch, Target
from .finding import Finding


def check(launch: Launch, target: Target) -> Finding | None:
    if launch.bound != "launch":
        return None
    return Finding(
        "launch_bound",
        launch.kernel,
        "most of its time is the launch itself.",
        "Fuse it with its neighbors or replay it in a CUDA graph; a faster kernel gains little.",
        0.5,
    )
