"""A sanitizer's finding as a good compiler would print it: what, where, the line, both parties, why."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

CAUSE = "; usual cause: "


def text(finding: Any, sources: Mapping[str, str]) -> str:
    """A `vgpu.Fault` in a few lines. sources: the text of source files by name, for excerpts."""
    return "\n".join(_lines(finding, sources))


def tally(findings: Sequence[Any]) -> str:
    """ "2 errors, 1 warning", or "clean"."""
    counts = [
        (sum(f.severity == severity for f in findings), severity)
        for severity in ("error", "warning")
    ]
    said = [f"{n} {severity}{'s' if n > 1 else ''}" for n, severity in counts if n]
    return ", ".join(said) or "clean"


def _lines(finding: Any, sources: Mapping[str, str]) -> Iterator[str]:
    said, _, cause = finding.message.partition(CAUSE)
    at = f" at {finding.source}" if finding.source else ""
    yield f"{finding.severity}: {finding.kind} in {finding.kernel}{at}"
    yield f"  {said}"
    yield from _excerpt(finding, sources, finding.tensor)
    for place in _chain(finding)[1:]:
        yield f"  inlined at {place}"
    other = finding.other
    if other is not None and other.source != finding.source:
        shown = list(_excerpt(other, sources, finding.tensor))
        yield from [f"  the other party, {other}:", *shown] if shown else []
    if cause:
        yield f"  usual cause: {cause}"
    if finding.count > 1:
        yield f"  {finding.count} accesses did the same here"


def _chain(finding: Any) -> Sequence[str]:
    return tuple(finding.details.get("inlined", ()))


def _excerpt(place: Any, sources: Mapping[str, str], name: str) -> Iterator[str]:
    """The source line with the access underlined: from the tensor's name where the line has it."""
    lines = sources.get(place.source_file, "").splitlines()
    if not 1 <= place.source_line <= len(lines):
        return
    line = lines[place.source_line - 1].expandtabs(4).rstrip()
    start, end = _span(line, name)
    number = f"{place.source_line:>6}"
    yield f"{number} | {line}"
    yield f"{' ' * len(number)} | {' ' * start}^{'~' * (end - start - 1)}"


def _span(line: str, name: str) -> tuple[int, int]:
    """Columns of `name[…]` in a line, else of its code without indentation and comment."""
    found = re.search(rf"\b{re.escape(name)}\b(\s*\[[^\]]*\])*", line) if name else None
    if found:
        return found.start(), found.end()
    code = re.split(r"\s*(?://|#\s)", line)[0] or line
    start = len(code) - len(code.lstrip())
    return start, max(len(code), start + 1)
