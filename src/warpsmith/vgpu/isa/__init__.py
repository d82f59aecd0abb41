"""What each PTX instruction does, as rules that emit C."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
import importlib.util

_RULES = ("alu", "move", "collective", "control", "memory", "calls", "mbarrier")


def load_rules() -> None:
    """Import every module of rules, which fills the tables of `registry`."""
    for name in _RULES:
        if importlib.util.find_spec(f"{__name__}.{name}"):  # until collective.py lands
            importlib.import_module(f"{__name__}.{name}")
