"""Lay a launch's arguments out for the driver: checked one by one at first, later in one stroke."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from typing import Any

from ..errors import LaunchError
from ..spec import Artifact, Parameter
from . import arguments
from .arguments import Buffer, Mapped
from .textures import TextureArgument

_SLOT_BYTES = 16  # parameters start at multiples of this

# C type: how `struct` packs a number of it. Python's own range checks stand in for ours.
_FORMATS = {
    "bool": "B", "char": "b", "signed char": "b", "unsigned char": "B",
    "short": "h", "unsigned short": "H", "int": "i", "unsigned int": "I",
    "long": "q", "unsigned long": "Q", "long long": "q", "unsigned long long": "Q",
    "float": "f", "double": "d", "half": "e",
}  # fmt: skip
_ANY_NUMBER = frozenset({int, float, bool})
_WORTH_REMEMBERING = {"bool": frozenset({bool})}  # an int has to be 0 or 1: looked at every time


class Staging:
    """Where a kernel's parameters lie for the driver, which copies them before a launch returns.

    Held for one launch at a time by `lock`. What the checks of an argument depend on is its type,
    a tensor's dtype and device, and a number's size: types and dtypes that fitted once are
    remembered for each parameter, and `again` takes arguments of nothing but those.
    """

    def __init__(self, artifact: Artifact):
        import torch

        self.parameters = artifact.parameters
        self.lock = threading.RLock()
        self._tensor, self._weight = torch.Tensor, torch.nn.Parameter
        sizes = [-(-p.size // _SLOT_BYTES) * _SLOT_BYTES for p in self.parameters]
        self._starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self._bytes = ctypes.create_string_buffer(max(sum(sizes), 1))
        base = ctypes.addressof(self._bytes)
        self._pointers = (ctypes.c_void_p * max(len(sizes), 1))(*(base + s for s in self._starts))
        self.address = ctypes.addressof(self._pointers)
        self._fitted: list[set[Any]] = [set() for _ in self.parameters]
        formats = [_format(p) for p in self.parameters]
        padded = (f"{f}{n - p.size}x" for f, n, p in zip(formats, sizes, self.parameters))
        self._pack = None if "" in formats else struct.Struct("<" + "".join(padded)).pack_into

    def again(self, args: Sequence[Any], index: int) -> bool:
        """Write arguments like earlier ones, with at least one tensor, all on device `index`.

        False, and nothing to rely on in the buffer, where that is not what they are.
        """
        pack, tensor, weight, placed = self._pack, self._tensor, self._weight, False
        if pack is None or len(args) != len(self._fitted):
            return False
        values: list[Any] = []
        try:
            for value, fitted in zip(args, self._fitted):
                kind = type(value)
                if kind is tensor or kind is weight:
                    if value.dtype not in fitted or value.get_device() != index or value.is_neg():
                        return False
                    values.append(value.data_ptr())
                    placed = True
                elif kind in fitted:
                    values.append(0 if value is None else value)
                else:
                    return False
            pack(self._bytes, 0, *values)
        except (struct.error, OverflowError, RuntimeError):  # too large; a tensor without memory
            return False
        return placed

    def first(self, name: str, args: Sequence[Any], index: int) -> None:
        """Write any arguments that fit. Raises DtypeError or LaunchError for others."""
        for i, (parameter, value) in enumerate(zip(self.parameters, args)):
            packed = arguments.pack(name, i, parameter, value)
            if isinstance(packed, Buffer):
                if not hasattr(value, "get_device") or value.get_device() != index:
                    raise _misplaced(name, args, index)
                packed = packed.address.to_bytes(8, "little")
            if isinstance(packed, Mapped):
                if not packed.argument.is_cuda or packed.argument.get_device() != index:
                    raise _misplaced(name, args, index)
                packed = packed.argument.encode_cuda()
            if isinstance(value, TextureArgument) and not (
                value.is_cuda and value.get_device() == index
            ):
                raise _misplaced(name, args, index)
            raw = bytes(8) if packed is None else packed
            ctypes.memmove(ctypes.addressof(self._bytes) + self._starts[i], raw, parameter.size)
        for parameter, value, fitted in zip(self.parameters, args, self._fitted):
            self._remember(parameter, value, fitted)

    def _remember(self, parameter: Parameter, value: Any, fitted: set[Any]) -> None:
        kind = type(value)
        if kind is self._tensor or kind is self._weight:
            if not value.dtype.is_complex:  # may be a lazily conjugated view: looked at every time
                fitted.add(value.dtype)
        elif value is None or kind in _WORTH_REMEMBERING.get(parameter.ctype, _ANY_NUMBER):
            fitted.add(kind)


def _format(parameter: Parameter) -> str:
    """How `struct` packs the parameter; empty where only its bytes do."""
    return "Q" if parameter.kind == "pointer" else _FORMATS.get(parameter.ctype, "")


def _misplaced(name: str, args: Sequence[Any], index: int) -> LaunchError:
    arguments.place_of(name, args)  # says which argument is where
    return LaunchError(f"{name}: the tensors are not on CUDA device {index}")
