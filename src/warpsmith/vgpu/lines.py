"""What each source line of a kernel did: the counts of its instructions, added up by line."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from .classify import ACCESSES, Classes
from .ptx.ir import Instruction


@dataclass(slots=True)
class Line:
    """One line of source (or of PTX) and what it did in the launch.

    Names are those of Counters; sectors are of loads, stores, atomics and asynchronous copies of
    global memory, wavefronts of shared memory. ptx: line of the PTX text, 0 for a source line.
    """

    file: str
    line: int
    ptx: int = 0
    instructions: int = 0  # PTX instructions of this line
    warp_instructions: int = 0
    thread_instructions_pred_on: int = 0
    flops: int = 0  # tensor operations included
    global_requests: int = 0
    global_sectors: int = 0
    global_ideal_sectors: int = 0
    global_bytes: int = 0
    shared_requests: int = 0
    shared_wavefronts: int = 0
    shared_ideal_wavefronts: int = 0
    local_requests: int = 0
    local_sectors: int = 0
    atomic_requests: int = 0
    atomic_conflicts: int = 0
    branches: int = 0
    divergent_branches: int = 0
    barriers: int = 0

    @property
    def source(self) -> str:
        """ "kernel.cu:12", without the folder; "" where the code has no line."""
        return f"{PurePath(self.file).name}:{self.line}" if self.line else ""

    @property
    def excess_sectors(self) -> int:
        return self.global_sectors - self.global_ideal_sectors

    @property
    def excess_wavefronts(self) -> int:
        return self.shared_wavefronts - self.shared_ideal_wavefronts

    @property
    def sectors_per_request(self) -> float:
        return self.global_sectors / self.global_requests if self.global_requests else 0.0

    def as_dict(self) -> dict[str, Any]:
        """A flat row, the derived columns included."""
        derived = ("source", "sectors_per_request", "excess_sectors", "excess_wavefronts")
        return {name: getattr(self, name) for name in derived} | asdict(self)


COUNTS = tuple(f.name for f in fields(Line) if f.name not in ("file", "line", "ptx"))


class Detail(NamedTuple):
    """Per instruction: what a launch recorded. Arrays have one entry for each instruction."""

    instructions: Sequence[Instruction]
    classes: Classes
    accesses: np.ndarray  # as resolved: index in ACCESSES
    warps: np.ndarray
    active: np.ndarray
    sites: np.ndarray


def by_line(details: Iterable[Detail]) -> tuple[Line, ...]:
    """One Line for each line of source, sorted; code without a place comes first."""
    return _grouped(details, lambda ins: (*_place(ins), 0))


def by_ptx_line(details: Iterable[Detail]) -> tuple[Line, ...]:
    """One Line for each instruction's line in the PTX text, with its source line."""
    found = _grouped(details, lambda ins: (*_place(ins), ins.line))
    return tuple(sorted(found, key=lambda line: line.ptx))


def _place(ins: Instruction) -> tuple[str, int]:
    return (ins.source.file, ins.source.line) if ins.source else ("", 0)


Key = tuple[str, int, int]


def _grouped(details: Iterable[Detail], key_of: Callable[[Instruction], Key]) -> tuple[Line, ...]:
    lines: dict[Key, Line] = {}
    for detail in details:
        columns = _columns(detail)
        for i, ins in enumerate(detail.instructions):
            key = key_of(ins)
            line = lines.setdefault(key, Line(*key))
            line.instructions += 1
            for name, column in columns.items():
                setattr(line, name, getattr(line, name) + int(column[i]))
    return tuple(lines[key] for key in sorted(lines))


def _columns(detail: Detail) -> dict[str, np.ndarray]:
    """The counts of Line for every instruction of a launch."""
    classes, sites, kinds = detail.classes, detail.sites, detail.accesses
    tensor = sum(classes.tensor.values(), np.zeros(len(detail.warps))) * detail.active / 32

    def where(*names: str) -> np.ndarray:
        return np.isin(kinds, [ACCESSES.index(name) for name in names])

    spaces = {
        "global": where("global_load", "global_store", "global_atomic", "async_copy", "bulk_load",
                        "bulk_store"),
        "shared": where("shared_load", "shared_store", "shared_atomic"),
        "local": where("local_load", "local_store"),
    }  # fmt: skip
    atomics = where("global_atomic", "shared_atomic")
    wavefronts = spaces["shared"] | where("async_copy")
    return {
        "warp_instructions": detail.warps,
        "thread_instructions_pred_on": detail.active,
        "flops": classes.flops * detail.active + tensor.astype(np.int64),
        **{f"{s}_requests": np.where(on, sites["requests"], 0) for s, on in spaces.items()},
        "global_sectors": np.where(spaces["global"], sites["sectors"], 0),
        "global_ideal_sectors": np.where(spaces["global"], sites["sectors_ideal"], 0),
        "global_bytes": np.where(spaces["global"], sites["bytes"], 0),
        "shared_wavefronts": np.where(wavefronts, sites["wavefronts"], 0),
        "shared_ideal_wavefronts": np.where(wavefronts, sites["wavefronts_ideal"], 0),
        "local_sectors": np.where(spaces["local"], sites["sectors"], 0),
        "atomic_requests": np.where(atomics, sites["requests"], 0),
        "atomic_conflicts": np.where(atomics, sites["conflicts"], 0),
        "branches": np.where(where("branch"), detail.warps, 0),
        "divergent_branches": sites["divergent"],
        "barriers": np.where(where("barrier"), detail.warps, 0),
    }
