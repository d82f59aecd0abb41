"""How each Keras layer becomes loops: one function per class, found by the class itself.

`@lowers("Dense")` registers a function `(b, layer, call) -> Tensor | list[Tensor]` for the class
`keras.layers.Dense`; `call` holds the tensors that the layer was called with. Names of layers are
never looked at: a Conv2D called "dense" is a Conv2D.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..tensors import Builder, Tensor

LOWER: dict[str, Callable[..., Any]] = {}  # class name in keras.layers (or keras.ops) -> function
_FILES = (
    "activation", "attention", "convolution", "core", "merging", "normalization", "operations",
    "pooling", "recurrent", "reshaping",
)  # fmt: skip


@dataclass
class Call:
    """The arguments of one call of a layer; tensors are in place of Keras's."""

    args: list[Any]
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def x(self) -> Any:
        """The first argument: a tensor, or a list where the layer takes several."""
        return self.args[0]

    def get(self, place: int, name: str, default: Any = None) -> Any:
        """An argument by position or by name."""
        return self.args[place] if len(self.args) > place else self.kwargs.get(name, default)


def lowers(*names: str) -> Callable:
    """Register a lowering for classes of these names."""

    def register(function: Callable) -> Callable:
        for name in names:
            LOWER[name] = function
        return function

    return register


def table() -> dict[str, Callable[..., Any]]:
    """Every lowering, loaded."""
    for name in _FILES:
        importlib.import_module(f".{name}", __name__)
    return LOWER


def weights_of(variable: Any) -> np.ndarray:
    """A Keras variable as float64."""
    from keras import ops

    return np.asarray(ops.convert_to_numpy(variable), np.float64)


def axis_of(axis: int, rank: int) -> int:
    """An axis of Keras, which counts the batch, as one of a tensor without it.

    >>> axis_of(-1, 3), axis_of(1, 3)
    (2, 0)
    """
    return axis + rank if axis < 0 else axis - 1


def channel_axis(data_format: str, rank: int) -> int:
    return 0 if data_format == "channels_first" else rank - 1


__all__ = ["LOWER", "Builder", "Call", "Tensor", "axis_of", "lowers", "table", "weights_of"]
