"""Module variables: `.global` and `.const` memory with its initial values, at real addresses."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import struct

import numpy as np

from warpsmith.errors import PtxError, UnknownName

from .emit import FUNCTION_BASE, immediate_bits
from .memory import Memory, empty
from .ptx import ir

HEAP_BYTES = 8 << 20  # CUDA's default for malloc in kernels


class Variables:
    """The memory of a module's variables; it lives as long as the module."""

    def __init__(self, module: ir.Module):
        self._module = module
        self._bytes: dict[str, np.ndarray] = {}
        for variable in module.variables.values():
            if variable.space in ("global", "const") and not variable.external:
                self._bytes[variable.name] = buffer = empty(max(1, variable.bytes))
                buffer[:] = 0
        self.heap = empty(HEAP_BYTES if "malloc" in module.functions else 0)
        self.heap[:1024] = 0  # its lock and lists: rt/heap.c
        self.heap_used = np.zeros(1, np.uint64)
        self._grid_workspace = empty(64)
        for name, buffer in self._bytes.items():
            self._initialize(module.variables[name], buffer)

    def bytes_of(self, name: str) -> np.ndarray:
        """The bytes of a variable; UnknownName when the module has none of that name."""
        if name not in self._bytes:
            raise UnknownName("variable", name, self._bytes)
        return self._bytes[name]

    def address(self, name: str) -> int:
        if name not in self._bytes:
            raise PtxError(f"the variable {name!r} is declared .extern and defined nowhere")
        return int(self._bytes[name].ctypes.data)

    def fresh_grid_workspace(self) -> int:
        """Address of what cooperative groups keep for a grid: the workspace's size, a barrier."""
        self._grid_workspace.view(np.uint32)[:] = [8] + [0] * 15
        return int(self._grid_workspace.ctypes.data)

    def joined(self, memory: Memory) -> Memory:
        """A copy of `memory` that also allows the module's variables."""
        both = memory.copy()
        for name, buffer in self._bytes.items():
            readonly = self._module.variables[name].space == "const"
            both.register(int(buffer.ctypes.data), buffer.nbytes, name, readonly)
        both.register(int(self._grid_workspace.ctypes.data), 64, "grid workspace")
        if self.heap.nbytes:
            both.register(int(self.heap.ctypes.data), self.heap.nbytes, "device heap")
        return both

    def _initialize(self, variable: ir.Variable, buffer: np.ndarray) -> None:
        size = ir.TYPE_BITS[variable.type] // 8
        for i, item in enumerate(variable.initializer[: variable.count]):
            buffer[i * size : (i + 1) * size] = np.frombuffer(self._value(item, size), np.uint8)

    def _value(self, item, size: int) -> bytes:
        if isinstance(item, ir.Immediate):
            return immediate_bits(item, 8 * size).to_bytes(size, "little")
        if isinstance(item, ir.Symbol):
            return struct.pack("<Q", self._symbol(item))[:size]
        _, mask, symbol = item  # one byte of an address: 0xFF00(symbol) takes the second
        shift = (mask & -mask).bit_length() - 1
        return ((self._symbol(symbol) & mask) >> shift).to_bytes(size, "little")

    def _symbol(self, item: ir.Symbol) -> int:
        if item.name in self._module.functions:
            return self.function_address(item.name)
        return self.address(item.name) + item.offset

    def function_address(self, name: str) -> int:
        """The number that stands for a function's address, equal in all kernels of the module."""
        return FUNCTION_BASE + 16 * list(self._module.functions).index(name)
