"""The shape of one finding."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """What is seen in one kernel, and what to do instead.

    gain: the largest share of this kernel's time that mending it could save, 0 … 1; an upper bound.
    """

    name: str
    kernel: str
    seen: str  # the evidence, with its number
    instead: str
    gain: float

    def __str__(self) -> str:
        return f"{self.kernel}: {self.seen} {self.instead} (saves at most {self.gain:.0%})"
