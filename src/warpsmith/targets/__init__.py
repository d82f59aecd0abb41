"""Know the machines: a catalogue of GPU parts, the part in this machine, and what fits on an SM."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from warpsmith.errors import UnknownName
from warpsmith.spec.target import Target
from warpsmith.targets.catalogue import ALIASES, CATALOGUE
from warpsmith.targets.detect import detect
from warpsmith.targets.occupancy import Occupancy, occupancy

__all__ = ["Occupancy", "Target", "detect", "get", "names", "occupancy"]


def get(name: str) -> Target:
    """The part of that name, in any case; UnknownName with the nearest name otherwise.

    >>> get("H100").sms
    132
    """
    key = name.lower().replace("_", "-").replace(" ", "-")
    part = CATALOGUE.get(ALIASES.get(key, key))
    if part is None:
        raise UnknownName("target", name, CATALOGUE)
    return part


def names() -> list[str]:
    """The names `get` knows, oldest architecture first."""
    return list(CATALOGUE)
