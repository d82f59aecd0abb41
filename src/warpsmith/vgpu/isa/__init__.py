"""What each PTX instruction does, as rules that emit C."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib

_RULES = (
    "alu", "move", "collective", "control", "memory", "calls", "mbarrier", "bulk", "tcgen05", "wide",
    "texture",
)  # fmt: skip


def load_rules() -> None:
    """Import every module of rules, which fills the tables of `registry`."""
    for name in _RULES:
        importlib.import_module(f"{__name__}.{name}")
