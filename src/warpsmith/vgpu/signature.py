"""What a kernel takes: parameters, limits, and whether a launch fits it."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warpsmith.errors import LaunchError

from . import analysis
from .emit import SharedLayout
from .program import Program
from .ptx import ir

MAX_SHARED_BYTES = 227 * 1024
MAX_THREADS = 1024
_MAX_GRID = (2**31 - 1, 65535, 65535)
_MAX_BLOCK = (1024, 1024, 64)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One kernel parameter. kind: "pointer" or "scalar"; ctype: its PTX type; offsets in bytes."""

    name: str
    kind: str
    ctype: str
    bits: int
    size: int
    align: int
    offset: int


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """What a kernel declares. max_threads is 0 where neither .maxntid nor .reqntid is given."""

    name: str
    parameters: tuple[Parameter, ...]
    static_shared_bytes: int
    max_threads: int
    required_block: tuple[int, int, int] | None
    registers_declared: int
    source_files: tuple[str, ...]
    cluster: tuple[int, int, int] | None = None  # where the kernel declares one


def info_of(module: ir.Module, function: ir.Function) -> KernelInfo:
    """What a kernel declares."""
    parameters, offset = [], 0
    for p in function.parameters:
        offset += -offset % p.alignment
        bits = ir.TYPE_BITS[p.type]
        kind = "pointer" if p.pointer or (p.type == "u64" and p.count == 1) else "scalar"
        parameters.append(Parameter(p.name, kind, p.type, bits, p.bytes, p.alignment, offset))
        offset += p.bytes
    required = function.directives.get("reqntid")
    limit = required or function.directives.get("maxntid") or (0,)
    shared = SharedLayout()
    shared.place(analysis.shared_variables(module, analysis.closure(module, function.name)))
    files = dict.fromkeys(
        i.source.file for i in function.body if isinstance(i, ir.Instruction) and i.source
    )
    return KernelInfo(
        function.name, tuple(parameters), shared.size, int(np.prod(limit)),
        _declared(function, "reqntid"), function.register_count, tuple(files),
        _declared(function, "reqnctapercluster"),
    )  # fmt: skip


def _declared(function: ir.Function, directive: str) -> tuple[int, int, int] | None:
    found = function.directives.get(directive)
    if not found:
        return None
    x, y, z = (*found, 1, 1)[:3]
    return x, y, z


def pack(info: KernelInfo, args: Sequence[int | float | bytes]) -> bytes:
    """The parameter buffer of a launch; LaunchError when count, type or size do not fit."""
    if len(args) != len(info.parameters):
        wanted = ", ".join(f".{p.ctype} {p.name}" for p in info.parameters)
        raise LaunchError(
            f"{info.name} takes {len(info.parameters)} arguments ({wanted}), got {len(args)}."
        )
    buffer = bytearray()
    for parameter, value in zip(info.parameters, args):
        buffer += bytes(parameter.offset - len(buffer))
        buffer += _packed(info, parameter, value)
    return bytes(buffer)


_FLOATS = {2: "<e", 4: "<f", 8: "<d"}


def _packed(info: KernelInfo, parameter: Parameter, value: int | float | bytes) -> bytes:
    size = parameter.size
    value = getattr(value, "handle", value)  # a Texture or Surface
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        if len(raw) != size:
            raise LaunchError(
                f"{info.name}: parameter {parameter.name} takes {size} bytes, got {len(raw)}."
            )
        return raw
    if isinstance(value, float | np.floating) and size in _FLOATS:
        return struct.pack(_FLOATS[size], float(value))
    if isinstance(value, int | np.integer) and -(1 << 8 * size - 1) <= value < 1 << 8 * size:
        return (int(value) & (1 << 8 * size) - 1).to_bytes(size, "little")
    raise LaunchError(
        f"{info.name}: parameter {parameter.name} takes {size} bytes (.{parameter.ctype}), "
        f"got {value!r}. Pass an int, a float, or exactly {size} bytes."
    )


@dataclass(frozen=True, slots=True)
class Shape:
    """Grid, block and shared memory of a launch, checked."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int  # all
    dynamic_bytes: int

    @classmethod
    def of(cls, info: KernelInfo, program: Program, grid, block, cluster, dynamic: int) -> Shape:
        grid, block, cluster = (_triple(info, *pair) for pair in
                                (("grid", grid), ("block", block), ("cluster", cluster)))  # fmt: skip
        if info.cluster and cluster == (1, 1, 1):
            cluster = info.cluster
        _within(info, "grid", grid, _MAX_GRID)
        _within(info, "block", block, _MAX_BLOCK)
        threads = block[0] * block[1] * block[2]
        allowed = info.max_threads or MAX_THREADS
        if threads > min(allowed, MAX_THREADS):
            raise LaunchError(f"{info.name}: block {block} has {threads} threads, "
                              f"allowed are {min(allowed, MAX_THREADS)}.")  # fmt: skip
        if info.required_block and block != info.required_block:
            raise LaunchError(f"{info.name}: block is {block}, the kernel requires "
                              f"{info.required_block} (.reqntid).")  # fmt: skip
        if any(g % c for g, c in zip(grid, cluster)):
            raise LaunchError(f"{info.name}: grid {grid} is not a multiple of cluster {cluster}.")
        total = program.static_shared_bytes
        if dynamic:
            total = program.dynamic_shared_offset + dynamic
        if dynamic < 0 or total > MAX_SHARED_BYTES:
            raise LaunchError(
                f"{info.name}: {total} bytes of shared memory (of them {dynamic} dynamic), "
                f"allowed are {MAX_SHARED_BYTES}."
            )
        return cls(grid, block, cluster, total, dynamic)


def _triple(info: KernelInfo, what: str, given: Sequence[int]) -> tuple[int, int, int]:
    triple = (given,) if isinstance(given, int) else tuple(given)
    if not 1 <= len(triple) <= 3:
        raise LaunchError(f"{info.name}: {what} takes one to three numbers, got {triple}.")
    x, y, z = (*map(int, triple), 1, 1)[:3]
    return x, y, z


def _within(info: KernelInfo, what: str, given: tuple, limit: tuple) -> None:
    if any(not 1 <= g <= m for g, m in zip(given, limit)):
        raise LaunchError(f"{info.name}: {what} is {given}, allowed are 1 to {limit}.")
