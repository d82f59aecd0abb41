"""Say which layer cannot be written, and what to use instead."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

from ...errors import UsageError


class UnsupportedLayer(UsageError):
    """A layer, or an option of one, that cannot become C++; nothing has been written."""

    def __init__(self, name: str, kind: str, what: str, instead: str):
        self.layer, self.kind, self.what, self.instead = name, kind, what, instead
        super().__init__(f"layer {name!r} ({kind}): {what} cannot be emitted. Use {instead}.")


def refuse(layer: Any, what: str, instead: str) -> UnsupportedLayer:
    return UnsupportedLayer(getattr(layer, "name", str(layer)), type(layer).__name__, what, instead)
