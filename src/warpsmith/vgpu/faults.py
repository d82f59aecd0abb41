"""Say what a kernel did wrong in one sentence: who, what, where, and the usual cause."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from warpsmith.errors import FAULT_KINDS, KernelFault
from warpsmith.vgpu.memory import Allocation, Memory

NEAR_BYTES = 1 << 20  # farther from every tensor, an address is just a wild one
SPACES = ("generic", "global", "shared", "local", "const", "param")
SEVERITIES = ("error", "warning", "info")
BARRIERS = 16  # VG_BARRIERS: numbers from there on are not the block's
DEEDS = ("", "read", "write", "atomic", "copy", "wait")  # VgDeed in rt/vgpu.h


def _source(file: str, line: int, ptx_line: int) -> str:
    if file:
        return f"{file}:{line}"
    return f"PTX line {ptx_line}" if ptx_line else ""


class RawFault(Protocol):
    """The fields of VgFault in rt/vgpu.h; a ctypes structure has them."""

    kind: int
    site: int
    space: int
    is_store: int
    bytes: int
    lanes: int
    block: Any
    thread: Any
    address: int
    limit: int
    text: Any  # bytes, up to the first 0


class Place(NamedTuple):
    """Where an instruction comes from."""

    source_file: str = ""
    source_line: int = 0
    ptx_line: int = 0
    inlined: tuple[str, ...] = ()  # "file:line" from the instruction's own place outward

    def details(self) -> dict[str, object]:
        return {"inlined": self.inlined} if self.inlined else {}


@dataclass(frozen=True, slots=True)
class Party:
    """The second thread of a race or at a barrier: who, where, and what it did: one of DEEDS."""

    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    action: str
    source_file: str = ""
    source_line: int = 0
    ptx_line: int = 0

    @property
    def source(self) -> str:
        """ "softmax.cu:17", or the PTX line where the kernel has no line information."""
        return _source(self.source_file, self.source_line, self.ptx_line)

    def __str__(self) -> str:
        at = f" at {self.source}" if self.source else ""
        return f"the {self.action} by thread {xyz(self.thread)} of block {xyz(self.block)}{at}"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that a kernel did wrong. `index` counts the tensor's elements.

    severity: "error"; "warning" for what works on some machines or by luck, and for leaks; "info" for
    what is legal and worth knowing. other: the second party of a race. count: how many accesses by
    single threads did the same at the same instructions.
    """

    kind: str  # one of errors.FAULT_KINDS
    message: str
    kernel: str
    source_file: str = ""
    source_line: int = 0
    ptx_line: int = 0
    block: tuple[int, int, int] = (-1, -1, -1)
    thread: tuple[int, int, int] = (-1, -1, -1)
    address: int | None = None
    tensor: str = ""
    index: int | None = None
    details: dict[str, object] = field(default_factory=dict)
    severity: str = "error"  # one of SEVERITIES
    other: Party | None = None
    count: int = 1

    @property
    def source(self) -> str:
        """ "softmax.cu:17", or the PTX line where the kernel has no line information."""
        return _source(self.source_file, self.source_line, self.ptx_line)

    def error(self) -> KernelFault:
        """The exception to raise."""
        where = {"ptx_line": self.ptx_line, "address": self.address}
        what = {"tensor": self.tensor, "index": self.index}
        return KernelFault(
            self.kind, self.message, self.kernel, self.source, self.block, self.thread,
            details={**self.details, **where, **what},
        )  # fmt: skip


def describe(
    raw: RawFault,
    memory: Memory,
    kernel: str,
    place_of: Callable[[int], Place] = lambda site: Place(),
) -> Fault:
    """The runtime's record as a Fault. place_of: from an instruction number to its lines."""
    kind = FAULT_KINDS[raw.kind - 1]
    if kind == "out-of-bounds" and not windowed(raw) and memory.freed(raw.address):
        kind = "use-after-free"
    block, thread = triple(raw.block), triple(raw.thread)
    found = _TELLERS.get(kind, _tell_other)(raw, _Scene(memory, kind, place_of))
    who = f"thread {xyz(thread)} of block {xyz(block)}"
    place = place_of(raw.site)
    others = bin(raw.lanes).count("1") - 1
    company = f" (and {others} more threads of its warp)" if others > 0 and found.by_thread else ""
    return Fault(
        kind, f"{who}{company} {found.text}", kernel, *place[:3], block, thread,
        found.address, found.tensor, found.index,
        details={"lanes": raw.lanes} | found.details | place.details(),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Scene:
    memory: Memory
    kind: str
    place_of: Callable[[int], Place]


@dataclass(frozen=True, slots=True)
class _Found:
    text: str
    address: int | None = None
    tensor: str = ""
    index: int | None = None
    by_thread: bool = True
    details: dict[str, object] = field(default_factory=dict)


def triple(three: Any) -> tuple[int, int, int]:
    return int(three[0]), int(three[1]), int(three[2])


def xyz(three: tuple[int, int, int]) -> str:
    return f"({three[0]},{three[1]},{three[2]})"


def _does(raw: RawFault) -> str:
    return f"{'writes' if raw.is_store else 'reads'} {raw.bytes} bytes"


def because(cause: str) -> str:
    return f"; usual cause: {cause}"


# ---------------------------------------------------------------------------- addresses in words


def windowed(raw: RawFault) -> bool:
    return SPACES[raw.space] in ("shared", "local")


def _element(raw: RawFault, near: Allocation) -> int:
    return (raw.address - near.address) // (near.element_bytes or raw.bytes)


def _size(near: Allocation, raw: RawFault) -> str:
    item = near.element_bytes or raw.bytes
    return f"{near.nbytes // item} elements × {item} bytes"


def _side(raw: RawFault, begin: int, end: int) -> str:
    """How far the access misses [begin, end)."""
    if raw.address < begin:
        return f"{begin - raw.address} bytes before its start"
    if raw.address < end:
        return f"{raw.address + raw.bytes - end} bytes of it past its end"
    return f"{raw.address - end} bytes past its end"


# ------------------------------------------------------------------------------- one per kind


def _tell_bounds(raw: RawFault, scene: _Scene) -> _Found:
    if text := _text(raw):  # a surface: the runtime knows its coordinates
        return _Found(text)
    if windowed(raw):
        return _tell_window(raw)
    near = scene.memory.lookup(raw.address) or scene.memory.nearest(raw.address)
    if near is None or near.gap(raw.address) > NEAR_BYTES:
        hint = f", the nearest is {near.name!r}" if near else ""
        text = f"{_does(raw)} at address {raw.address:#x}, which is in no tensor{hint}"
        cause = "a wrong pointer or stride, or a tensor that was not passed to this launch"
        return _Found(text + because(cause), raw.address)
    index = _element(raw, near)
    where = f"{near.name}[{index}], {_side(raw, near.address, near.end)} ({_size(near, raw)})"
    cause = "the index is not checked against n" if index >= 0 else "an index below 0"
    return _Found(f"{_does(raw)} at {where}" + because(cause), raw.address, near.name, index)


def _tell_freed(raw: RawFault, scene: _Scene) -> _Found:
    was = scene.memory.freed(raw.address)
    if was is None:
        return _tell_other(raw, scene)
    index = _element(raw, was)
    text = f"{_does(raw)} at {was.name}[{index}], which was freed ({_size(was, raw)})"
    cause = "a pointer that is kept longer than its tensor"
    return _Found(text + because(cause), raw.address, was.name, index)


def _tell_window(raw: RawFault) -> _Found:
    space, offset = SPACES[raw.space], raw.address
    if offset >= 1 << 63:
        place = f"{(1 << 64) - offset} bytes before the start"
    else:
        place = f"{max(offset - raw.limit, 0)} bytes past the end"
    owner = "the block's shared memory" if space == "shared" else "the thread's local memory"
    causes = {
        "shared": "a tile index out of range, or a launch with too few dynamic shared bytes",
        "local": "an index out of range of an array in the kernel",
    }
    text = (
        f"{_does(raw)} at {space} offset {_signed(offset)}, {place} of {owner} ({raw.limit} bytes)"
    )
    return _Found(text + because(causes[space]), offset, space)


def _signed(offset: int) -> int:
    return offset - (1 << 64) if offset >= 1 << 63 else offset


def _tell_misaligned(raw: RawFault, scene: _Scene) -> _Found:
    cause = f"a vector access whose index is not a multiple of its {raw.bytes} bytes"
    if text := _text(raw):
        return _Found(f"{_does(raw)} of a surface at x = {_signed(raw.address)} bytes: {text}")
    if windowed(raw):
        text = f"{_does(raw)} at {SPACES[raw.space]} offset {_signed(raw.address)}"
        return _Found(
            f"{text}, not a multiple of {raw.bytes}" + because(cause),
            raw.address,
            SPACES[raw.space],
        )
    near = scene.memory.lookup(raw.address)
    text = f"{_does(raw)} at address {raw.address:#x}, not a multiple of {raw.bytes}"
    if near is None:
        return _Found(text + because(cause), raw.address)
    index, past = _element(raw, near), raw.address - near.address
    text = f"{_does(raw)} at {near.name}[{index}], byte {past}, not a multiple of {raw.bytes}"
    return _Found(text + because(cause), raw.address, near.name, index)


def _tell_null(raw: RawFault, scene: _Scene) -> _Found:
    offset = _signed(raw.address)
    plus = f" {'plus' if offset > 0 else 'minus'} {abs(offset)} bytes" if offset else ""
    cause = "an argument that is missing, empty or in the wrong place"
    return _Found(f"{_does(raw)} through a null pointer{plus}" + because(cause), raw.address)


def _tell_illegal(raw: RawFault, scene: _Scene) -> _Found:
    near = scene.memory.lookup(raw.address)
    if near is None or not raw.is_store:
        return _tell_other(raw, scene)
    index = _element(raw, near)
    text = f"{_does(raw)} at {near.name}[{index}], which is read-only"
    cause = "an input is written, or inputs and outputs are swapped"
    return _Found(text + because(cause), raw.address, near.name, index)


_WORDS = {
    "race": "touches memory that another thread touches unordered; usual cause: a missing "
    "__syncthreads() or __syncwarp()",
    "uninitialized": "uses memory that nothing has written; usual cause: a missing initial store",
    "divergent-barrier": "waits at a barrier that other threads of its block do not reach; usual "
    "cause: __syncthreads() inside a branch",
    "deadlock": "waits for something that can no longer happen; usual cause: a barrier that exited "
    "or blocked threads never reach",
    "step-budget": "was still running when the step budget ended; usual cause: an endless loop, or a "
    "launch too large for the budget",
    "assert": "failed an assertion",
    "trap": "executed a trap",
    "stack-overflow": "called too deep; usual cause: endless recursion",
    "illegal-access": "did something that the machine does not allow",
    "readonly-write": "writes memory that is read-only; usual cause: an input is written, or inputs "
    "and outputs are swapped",
    "use-after-free": "uses memory that was freed; usual cause: a pointer kept longer than its block",
    "async-copy-not-awaited": "touches memory that an asynchronous copy may still be writing; usual "
    "cause: a missing cp.async.wait_group or mbarrier wait before the barrier",
    "missing-syncwarp": "passes values between lanes of a warp through memory; usual cause: a missing "
    "__syncwarp()",
    "barrier-mismatch": "waits at a barrier whose other arrivals do not fit; usual cause: a wrong "
    "thread count, or two barriers where one was meant",
    "leak": "allocated memory that the launch did not free; usual cause: a missing free()",
    "invalid-free": "frees what malloc did not return; usual cause: a pointer that was moved",
    "double-free": "frees a block for the second time; usual cause: two owners of one pointer",
}


def _text(raw: RawFault) -> str:
    return bytes(raw.text).split(b"\0")[0].decode(errors="replace").strip()


def _tell_deadlock(raw: RawFault, scene: _Scene) -> _Found:
    """The text has a line for each waiting group: warp:site:state:barrier:threads."""
    waiting = []
    for line in _text(raw).splitlines():
        warp, site, state, barrier, threads = line.split(":")
        named = f"barrier {barrier}" if int(barrier) < BARRIERS else "the cluster's barrier"
        what = {"barrier": named, "mbarrier": "an mbarrier"}.get(state, f"a {state}")
        at = _spot(scene.place_of(int(site)))
        waiting.append(f"{threads} threads of warp {warp} wait at {what}{at}")
    found = _tell_other(raw, scene)
    listed = ": " + "; ".join(waiting[:4]) + ("; …" if len(waiting) > 4 else "") if waiting else ""
    return replace(found, text=_WORDS["deadlock"] + listed, details={"waiting": tuple(waiting)})


def _spot(place: Place) -> str:
    if place.source_file:
        return f" ({place.source_file}:{place.source_line})"
    return f" (PTX line {place.ptx_line})" if place.ptx_line else ""


def _tell_other(raw: RawFault, scene: _Scene) -> _Found:
    text = _text(raw)
    more = f": {text.splitlines()[0]}" if text else ""
    return _Found(
        _WORDS[scene.kind] + more, by_thread=False, details={"text": text} if text else {}
    )


_TELLERS: dict[str, Callable[[RawFault, _Scene], _Found]] = {
    "out-of-bounds": _tell_bounds,
    "misaligned": _tell_misaligned,
    "null-pointer": _tell_null,
    "readonly-write": _tell_illegal,
    "use-after-free": _tell_freed,
    "deadlock": _tell_deadlock,
}
