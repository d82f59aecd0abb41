"""Order what the sanitizer found, so that the first is the one to mend first."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_SEVERITIES = ("error", "warning", "info")


def ordered(found: Iterable[Any]) -> list[Any]:
    """Errors first; among equals as found, but an uninitialized read after the race that caused it.

    A reader that runs before the racing writer reads what is not written yet: one bug, two findings.
    """
    kept = list(found)
    raced = {
        p.source for f in kept if f.kind in ("race", "async-copy-not-awaited") for p in _parties(f)
    }
    return sorted(
        kept,
        key=lambda f: (
            _SEVERITIES.index(f.severity),
            f.kind == "uninitialized" and f.source in raced,
        ),
    )


def _parties(finding: Any) -> tuple[Any, ...]:
    return (finding, finding.other) if finding.other is not None else (finding,)
