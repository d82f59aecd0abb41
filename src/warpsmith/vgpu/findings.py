"""Say what the sanitizer recorded: both parties of a race, the tensor and the index, the usual cause."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

from warpsmith.errors import FAULT_KINDS

from .faults import DEEDS, SEVERITIES, SPACES, Fault, Party, Place, because, triple, xyz
from .memory import Memory


class RawParty(Protocol):
    """The fields of VgParty in rt/vgpu.h."""

    site: int
    deed: int
    warp: int
    lane: int
    block: Any
    thread: Any


class RawFinding(Protocol):
    """The fields of VgFinding in rt/vgpu.h."""

    kind: int
    severity: int
    who: RawParty
    other: RawParty
    space: int
    bytes: int
    lanes: int
    hint: int
    address: int
    limit: int
    count: int


SAME_INSTRUCTION, BETWEEN_BLOCKS, COLLECTIVE, PARTIAL, SAME_VALUE, PROXY = 1, 2, 4, 8, 16, 32
"""Bits of VgFinding.hint: one instruction for both parties, parties of two blocks, a shuffle or vote
between the two accesses, only some bytes of the access, two stores of one value, an asynchronous
read with no fence.proxy.async."""

_LOCAL_NAME = re.compile(r"E(\d+)([A-Za-z_]\w*)")

_DOES = {"": "meets", "read": "reads", "write": "writes", "atomic": "updates atomically",
         "copy": "copies", "wait": "waits for"}  # fmt: skip


def describe_finding(
    raw: RawFinding, memory: Memory, kernel: str,
    place_of: Callable[[int], Place] = lambda site: Place(), shared: Memory | None = None,
) -> Fault:  # fmt: skip
    """The sanitizer's record as a Fault. place_of: from an instruction number to its lines. shared: the
    shared variables, registered at their offsets + 1."""
    kind, deed = FAULT_KINDS[raw.kind - 1], DEEDS[raw.who.deed]
    block, thread = triple(raw.who.block), triple(raw.who.thread)
    where, tensor, index = _where(raw, memory, shared or Memory())
    place = place_of(raw.who.site)
    other = _party(raw.other, place_of)
    does = f"{_DOES[deed]} {raw.bytes} bytes at {where}" if raw.bytes else _DOES[deed]
    text = _TEXTS[kind](raw, does, other)
    return Fault(
        kind, f"thread {xyz(thread)} of block {xyz(block)} {text}", kernel,
        *place[:3], block, thread, raw.address if raw.bytes else None, tensor, index,
        details={"lanes": raw.lanes, "action": deed} | place.details(), severity=SEVERITIES[raw.severity],
        other=other, count=int(raw.count),
    )  # fmt: skip


def plain_name(name: str) -> str:
    """The name in the source of a variable inside a C++ function: "tile" of "_ZZ4kernE4tile".

    >>> plain_name("_ZZ6kernelPKfPfE4tile"), plain_name("global_smem")
    ('tile', 'global_smem')
    """
    found = _LOCAL_NAME.search(name) if name.startswith("_Z") else None
    if found is None or len(found[2]) < int(found[1]):
        return name
    return found[2][: int(found[1])]


def _party(raw: RawParty, place_of: Callable[[int], Place]) -> Party | None:
    deed = DEEDS[raw.deed]
    return (
        Party(triple(raw.block), triple(raw.thread), deed, *place_of(raw.site)[:3])
        if deed
        else None
    )


def _where(raw: RawFinding, memory: Memory, shared: Memory) -> tuple[str, str, int | None]:
    """The place in words, the tensor or variable (or the name of the space), the index of its element."""
    space = SPACES[raw.space]
    variable = shared.lookup(raw.address + 1) if space == "shared" else None
    if variable is not None and raw.bytes:
        index = (raw.address + 1 - variable.address) // raw.bytes
        return f"{variable.name}[{index}] (shared offset {raw.address})", variable.name, index
    if space in ("shared", "local"):
        return f"{space} offset {raw.address}", space, None
    near = memory.lookup(raw.address)
    if near is None:
        return f"address {raw.address:#x}", "", None
    index = (raw.address - near.address) // (near.element_bytes or raw.bytes or 1)
    return f"{near.name}[{index}]", near.name, index


def _race(raw: RawFinding, does: str, other: Party | None) -> str:
    if raw.hint & SAME_INSTRUCTION:
        lanes = "another lane of its warp in the same instruction"
        if SEVERITIES[raw.severity] == "info":
            return f"{does} together with {lanes}, both the same value: harmless"
        cause = "an index that is not different for each thread"
        return f"{does} together with {lanes}, another value: either may stay" + because(cause)
    if raw.hint & SAME_VALUE:
        return f"{does}, unordered with {other}, which wrote the same value: harmless here"
    if SPACES[raw.space] == "shared":
        cause = "a missing __syncthreads() between the two accesses"
    elif raw.hint & BETWEEN_BLOCKS:
        cause = "two blocks share an element without an atomic, or a flag is set without __threadfence()"
    else:
        cause = "two threads share an element without an atomic or a barrier"
    return f"{does}, unordered with {other}" + because(cause)


def _uninitialized(raw: RawFinding, does: str, other: Party | None) -> str:
    some = "some of which nothing" if raw.hint & PARTIAL else "which nothing"
    cause = "a missing initial store, or a tile whose edge is not filled"
    return f"{does}, {some} has written" + because(cause)


def _async(raw: RawFinding, does: str, other: Party | None) -> str:
    if raw.hint & PROXY:
        return (
            f"{does} through the asynchronous proxy, with no fence.proxy.async since {other}"
            + because("wgmma or a bulk copy of what plain stores wrote, without the fence")
        )
    if other is not None and other.action == "read":
        return f"{does} while {other} may still be under way" + because(
            "a stage given back before wgmma.wait_group, or before the bulk group is done"
        )
    cause = "a missing cp.async.wait_group, or mbarrier wait, before the barrier"
    return f"{does} while {other} may still be under way" + because(cause)


def _warp_sync(raw: RawFinding, does: str, other: Party | None) -> str:
    if raw.hint & COLLECTIVE:
        return (
            f"{does}, ordered with {other} by nothing but a shuffle or vote of the warp, which the "
            "memory model does not promise to order memory"
        )
    if raw.hint & SAME_VALUE:
        return f"{does}, with no __syncwarp() since {other} of the same value: harmless here"
    return f"{does}, with no __syncwarp() since {other}" + because(
        "lanes of a warp that are believed to run in step"
    )


def _barrier(raw: RawFinding, does: str, other: Party | None) -> str:
    at = f": {other}" if other else ""
    return f"waits at a barrier {_BARRIER_HINTS.get(raw.hint, '')}{at}" + because(
        "a barrier inside a branch, or a wrong count of threads"
    )


_BARRIER_HINTS = {
    1: "that must be reached by whole warps, with part of its warp",
    2: "at which other warps wait at another instruction",
    3: f"with a thread count that is not a multiple of {32}",
    4: "whose arrivals name different thread counts",
    5: "that counts fewer threads than arrive",
    6: "that threads of its warp left by exiting",
}


def _heap(text: str, cause: str) -> Callable[[RawFinding, str, Party | None], str]:
    return lambda raw, does, other: (
        f"{text} ({raw.limit} bytes at {raw.address:#x})" + because(cause)
    )


_TEXTS: dict[str, Callable[[RawFinding, str, Party | None], str]] = {
    "race": _race,
    "uninitialized": _uninitialized,
    "async-copy-not-awaited": _async,
    "missing-syncwarp": _warp_sync,
    "divergent-barrier": _barrier,
    "barrier-mismatch": _barrier,
    "leak": _heap(
        "allocated memory that the launch did not free", "a path that returns before free()"
    ),
    "invalid-free": _heap("frees what malloc did not return", "a pointer that was moved"),
    "double-free": _heap("frees a block for the second time", "two owners of one pointer"),
    "out-of-bounds": lambda raw, does, other: (
        f"{does}, which malloc gave to nobody" + because("an index past the end of its block")
    ),
    "use-after-free": lambda raw, does, other: (
        f"{does}, which was freed" + because("a pointer kept longer than its block")
    ),
}
