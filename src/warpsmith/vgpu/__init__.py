"""The virtual GPU: read PTX, translate it for this CPU, run it, and say what it did."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cache import CacheModel
    from .checks import Checks
    from .counters import Counters
    from .faults import Fault, Party
    from .launch import LaunchResult, Module, load
    from .memory import Memory
    from .signature import KernelInfo, Parameter
    from .textures import Surface, Texture

_HOME = {
    "load": "launch", "Module": "launch", "KernelInfo": "signature", "LaunchResult": "launch",
    "CacheModel": "cache", "Parameter": "signature", "Memory": "memory", "Counters": "counters", "Fault": "faults",
    "TensorMap": "tensormap",
    "Checks": "checks", "Party": "faults",
    "Surface": "textures", "Texture": "textures",
}  # fmt: skip

__all__ = [
    "CacheModel",
    "Checks",
    "Counters",
    "Fault",
    "KernelInfo",
    "LaunchResult",
    "Memory",
    "Module",
    "Parameter",
    "Party",
    "Surface",
    "TensorMap",
    "Texture",
    "load",
]


def __getattr__(name: str):
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
