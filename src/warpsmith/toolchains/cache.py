"""Keep what compilers made, by the hash of everything that went in: safe for many processes, no locks."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from ..spec import Artifact, Parameter, Resources, from_plain

T = TypeVar("T")

FORMAT = 1  # of the entries; a new number leaves old ones unread


def folder() -> Path:
    """Where entries lie: `$WARPSMITH_CACHE`, else `~/.cache/warpsmith` (or under XDG_CACHE_HOME)."""
    given = os.environ.get("WARPSMITH_CACHE")
    if given:
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "warpsmith"


def key(*parts: str | bytes) -> str:
    """One hash of all parts, in order. A part cannot run into the next: lengths go in too.

    >>> key("ab", "c") == key("a", "bc")
    False
    """
    digest = hashlib.sha256(f"warpsmith-{FORMAT}".encode())
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def load(name: str) -> Any | None:
    """The JSON value stored under this key; None where there is none or it cannot be read."""
    try:
        return json.loads(_path(name).read_text())
    except (OSError, ValueError):
        return None


def store(name: str, value: Any) -> bool:
    """Write a JSON value under this key: whole, or not at all. False where the disk refuses.

    Every process writes a file of its own and renames it into place. Two that store one key wrote
    the same content, so it does not matter who comes last.
    """
    path = _path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    except OSError:
        return False
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(value, file)
        os.replace(temporary, path)
        return True
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return False


def artifacts(name: str, make: Callable[[], Iterable[Artifact]]) -> tuple[Artifact, ...]:
    """The artifacts stored under this key, else what `make` gives, stored for next time."""
    found = load(name)
    if found is not None:
        with contextlib.suppress(KeyError, TypeError, ValueError):
            return tuple(_artifact(entry) for entry in found)
    made = tuple(make())
    store(name, [_entry(artifact) for artifact in made])
    return made


def remembered(memory: OrderedDict[Any, T], key: Any, make: Callable[[], T], most: int = 1024) -> T:
    """What `make` gave for this key before, in this process; the `most` last used are kept."""
    if key not in memory:
        memory[key] = make()
        while len(memory) > most:
            memory.popitem(last=False)
    memory.move_to_end(key)
    return memory[key]


def clear() -> int:
    """Delete every entry; gives how many there were."""
    entries = list(folder().glob("??/*.json"))
    for entry in entries:
        with contextlib.suppress(OSError):
            entry.unlink()
    return len(entries)


def _path(name: str) -> Path:
    return folder() / name[:2] / f"{name}.json"


def _entry(artifact: Artifact) -> dict[str, Any]:
    entry = {field: getattr(artifact, field) for field in Artifact.__dataclass_fields__}
    cubin = artifact.cubin
    entry["cubin"] = base64.b64encode(cubin).decode() if cubin is not None else None
    entry["parameters"] = [_fields(p) for p in artifact.parameters]
    entry["resources"] = _fields(artifact.resources)
    return entry


def _artifact(entry: dict[str, Any]) -> Artifact:
    cubin = entry["cubin"]
    return Artifact(
        **entry
        | {
            "cubin": base64.b64decode(cubin) if cubin is not None else None,
            "parameters": tuple(from_plain(Parameter, p) for p in entry["parameters"]),
            "resources": from_plain(Resources, entry["resources"]),
            "cluster": tuple(entry["cluster"]),
        }
    )


def _fields(value: Any) -> dict[str, Any]:
    return {field: getattr(value, field) for field in value.__dataclass_fields__}
