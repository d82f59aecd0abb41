"""Say which layer cannot be written, and what to use instead."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

from ...errors import UnsupportedLayer


def refuse(layer: Any, what: str, instead: str) -> UnsupportedLayer:
    """The error to raise for a Keras layer or operation."""
    return UnsupportedLayer(getattr(layer, "name", str(layer)), type(layer).__name__, what, instead)
