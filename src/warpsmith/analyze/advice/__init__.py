"""Findings: one file each, with what is seen, why it costs, and what to do instead."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...spec import Launch, Target
from . import bank_conflicts, divergence, grid_fill, launch_bound, spills, uncoalesced
from .finding import Finding

__all__ = ["FINDINGS", "Finding", "advise"]

FINDINGS: tuple[Callable[[Launch, Target], Finding | None], ...] = (
    launch_bound.check,
    grid_fill.check,
    uncoalesced.check,
    bank_conflicts.check,
    spills.check,
    divergence.check,
)


def advise(launches: Sequence[Launch], target: Target) -> list[Finding]:
    """All findings on all launches, the largest possible gain first.

    Gains on one resource overlap: they are upper bounds and must never be added.
    """
    found = [f for launch in launches for check in FINDINGS if (f := check(launch, target))]
    return sorted(found, key=lambda finding: -finding.gain)
