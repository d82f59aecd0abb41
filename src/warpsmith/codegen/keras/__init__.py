"""Trained Keras networks as one self-contained C++ header, or a CUDA kernel for many samples.

read(model or file) -> Network          the network as affine loop nests, or a typed refusal
write(network, namespace, …) -> Header  the C++ text
run(program, inputs) -> outputs         the same nests in numpy
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

__all__ = ["Header", "Network", "Sample", "identifier", "load", "read", "run", "write"]
_HOME = {
    "Header": "body", "Sample": "body", "write": "cpp", "Network": "reader", "identifier": "reader",
    "load": "reader", "read": "reader", "run": "interpret",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
