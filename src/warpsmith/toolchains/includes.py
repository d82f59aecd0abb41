"""Find the user's own headers that a CUDA source includes, so that they are compiled and hashed with it."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(?:\"([^\"\n]+)\"|<([^>\n]+)>)", re.MULTILINE)


def included(text: str) -> list[str]:
    """The names in a text's #include directives, in order, each once.

    >>> included('#include "tile.cuh"\\n#  include <mma.h>')
    ['tile.cuh', 'mma.h']
    """
    names = (quoted or angled for quoted, angled in _INCLUDE.findall(text))
    return list(dict.fromkeys(names))


def user_headers(
    text: str,
    folder: Path | None,
    search: Iterable[str | Path] = (),
    given: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Text of every header the user owns, by the name in the directive, headers of headers too.

    given: headers in memory, by name, found first. folder: of the source, None for text that has
    none. search: the user's own include folders. System headers are in none of these and are left
    to the compiler. A header that lies beside the header that includes it is found as well.
    """
    found: dict[str, str] = {}
    given = given or {}
    places = [Path(p) for p in ([folder] if folder else []) + list(search)]
    waiting: list[tuple[str, str, Path | None]] = [(n, "", None) for n in included(text)]
    while waiting:
        name, parent, beside = waiting.pop(0)
        if name in found:
            continue
        sibling = str(Path(parent).parent / name) if parent else name
        own = next((n for n in (sibling, name) if n in given), None)
        path = None if own else _first(name, [*([beside] if beside else []), *places])
        if own is None and path is None:
            continue
        found[name] = given[own] if own else path.read_text()  # type: ignore[union-attr]
        place = path.parent if path else None
        waiting += [(n, own or name, place) for n in included(found[name])]
    return found


def _first(name: str, places: Iterable[Path]) -> Path | None:
    return next((p / name for p in places if (p / name).is_file()), None)
