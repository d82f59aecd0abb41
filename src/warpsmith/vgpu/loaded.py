"""Put a translated program into memory: addresses of handlers, constants and variables filled in."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np

from . import build, layout
from .program import SINK, SPECIALS, Op, Program
from .variables import Variables


class Loaded:
    """A program ready to run in this process; the arrays are read by the runtime."""

    def __init__(self, program: Program, variables: Variables):
        self.program, self.variables = program, variables
        layout.check(build.runtime())
        symbols = {op.handler for op in program.ops} - program.handlers.keys()
        addresses = build.HANDLERS.resolve(program.handlers, symbols)
        self.fixed = self._constants()
        self.accesses = self._accesses()
        self.more, more_offsets = self._more()
        self.ops = self._ops(addresses, more_offsets)
        offsets = program.special_offsets
        self.special = [offsets.get(name, SINK) for name in SPECIALS]

    def _constants(self) -> np.ndarray:
        fixed = np.frombuffer(bytearray(self.program.fixed_image or bytes(64)), np.uint8).copy()
        for item in self.program.relocations:
            lanes = fixed[item.fixed_offset : item.fixed_offset + 256].view(np.uint64)
            lanes[:] = self.variables.address(item.symbol) + item.addend
        return fixed

    def with_parameters(self, params: bytes) -> np.ndarray:
        """The constants with the lanes of kernel parameters filled in, for one launch."""
        fixed = self.fixed.copy()
        for item, offset in self.program.parameter_lanes.items():
            raw = params[item.param_offset : item.param_offset + item.bytes]
            value = int.from_bytes(raw, "little", signed=item.is_signed)
            lane = (value & (1 << 8 * item.reg_bytes) - 1).to_bytes(item.reg_bytes, "little")
            fixed[offset : offset + 32 * item.reg_bytes] = np.frombuffer(lane * 32, np.uint8)
        return fixed

    def _accesses(self) -> np.ndarray:
        found = [op.access for op in self.program.ops if op.access]
        rows = np.zeros(max(1, len(found)), layout.ACCESS)
        for i, a in enumerate(found):
            rows[i] = (a.site, a.space, a.bytes, a.count, a.reg_bytes, a.is_signed, a.atomic,
                       a.type, a.flags, 0, a.offset)  # fmt: skip
        return rows

    def _more(self) -> tuple[np.ndarray, dict[int, int]]:
        words: list[int] = []
        offsets: dict[int, int] = {}
        for i, op in enumerate(self.program.ops):
            if op.more is not None:
                offsets[i] = len(words)
                words += [int(w) for w in op.more]
        return np.array(words or [0], np.uint32), offsets

    def _ops(self, addresses: dict[str, int], more_offsets: dict[int, int]) -> np.ndarray:
        rows = np.zeros(len(self.program.ops), layout.OP)
        next_access = 0
        for i, op in enumerate(self.program.ops):
            extra = op.imm & (1 << 64) - 1
            if op.access:
                extra = self.accesses.ctypes.data + next_access * layout.ACCESS.itemsize
                next_access += 1
            elif op.more is not None:
                extra = self.more.ctypes.data + 4 * more_offsets[i]
            rows[i] = self._row(op, addresses[op.handler], extra)
        return rows

    def _row(self, op: Op, run: int, extra: int) -> tuple:
        a = (op.a + [0] * 8)[:8]
        return (run, extra, op.guard, op.flags, op.kinds, op.site, int(op.aux), a)
