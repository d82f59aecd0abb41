"""Values that never change while a warp runs: constants, special registers, parameters."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .program import ParameterLanes, Relocation
from .ptx import ir

LANES = 32


@dataclass(frozen=True, slots=True)
class FixedLanes:
    """Constant lanes of `bits` bits at an offset of a warp's fixed part."""

    offset: int
    bits: int


Known = FixedLanes | ir.Immediate


def definitions(function: ir.Function) -> Counter[str]:
    """How often each register is a target (or may be: instructions without a target count none)."""
    found: Counter[str] = Counter()
    for ins in function.body:
        if isinstance(ins, ir.Instruction) and ins.operands:
            written = ins.operands if ins.opcode in _WRITES_ANYWHERE else ins.operands[:1]
            found.update(_register_names(written))
    return found


_WRITES_ANYWHERE = {"wgmma", "call", "mbarrier", "tcgen05", "cp"}


def _register_names(operands: Iterable[ir.Operand]) -> Iterator[str]:
    for item in operands:
        if isinstance(item, ir.Register):
            yield item.name
        elif isinstance(item, ir.Vector | ir.Tuple):
            yield from _register_names(item.items)
        elif isinstance(item, ir.Part):
            yield item.register.name
        elif isinstance(item, ir.Pair):
            yield from _register_names((item.first, item.second))


class Constants:
    """The part of a warp that does not change: constants and special registers, as lane arrays."""

    def __init__(self) -> None:
        self.image = bytearray()
        self.offsets: dict[tuple[int, int], int] = {}
        self.specials: dict[str, int] = {}
        self.relocations: list[Relocation] = []
        self.symbols: dict[tuple[str, int], int] = {}
        self.parameters: dict[ParameterLanes, int] = {}

    def lanes(self, bits: int, value: int) -> int:
        """Offset of 32 equal lanes of `value`."""
        value &= (1 << bits) - 1
        if (bits, value) not in self.offsets:
            self.offsets[bits, value] = self._append(value.to_bytes(bits // 8, "little"))
        return self.offsets[bits, value]

    def special(self, name: str) -> int:
        if name not in self.specials:
            self.specials[name] = self._append(bytes(4))
        return self.specials[name]

    def parameter(self, lanes: ParameterLanes) -> int:
        """Offset of 32 lanes that hold a kernel parameter; the launch fills them."""
        if lanes not in self.parameters:
            self.parameters[lanes] = self._append(bytes(lanes.reg_bytes))
        return self.parameters[lanes]

    def symbol(self, name: str, addend: int) -> int:
        """Offset of 32 lanes that hold the address of a module variable."""
        if (name, addend) not in self.symbols:
            self.symbols[name, addend] = offset = self._append(bytes(8))
            self.relocations.append(Relocation(offset, name, addend))
        return self.symbols[name, addend]

    def _append(self, lane: bytes) -> int:
        offset = len(self.image)
        self.image += lane * LANES
        self.image += bytes(-len(self.image) % 64)
        return offset
