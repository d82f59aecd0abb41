"""Fewer blocks than the target has SMs, or a last wave that leaves most SMs idle.

Why: a block runs on one SM. SMs without a block do nothing, and the kernel takes as long as the SM
with the most blocks.

Example: 64 blocks on 132 SMs. Instead: smaller tiles, split the reduction over several blocks, or
rows per block chosen so that the number of waves is just under an integer.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

from ...spec import Launch, Target
from .finding import Finding


def check(launch: Launch, target: Target) -> Finding | None:
    blocks = math.prod(launch.grid)
    if 0 < blocks < target.sms:
        return Finding(
            "grid_fill",
            launch.kernel,
            f"{blocks} blocks leave {target.sms - blocks} of {target.sms} SMs idle.",
            "Give each block less work, or split the reduction over several blocks.",
            1 - blocks / target.sms,
        )
    return None
