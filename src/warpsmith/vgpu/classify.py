"""What each PTX instruction counts as: its pipe, its operation, its kind of memory access.

Everything is worked out once per translated kernel; a launch then only adds up arrays.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .ptx.ir import Instruction

ACCESSES = (
    "none", "global_load", "global_store", "global_atomic", "shared_load", "shared_store",
    "shared_atomic", "local_load", "local_store", "async_copy", "generic_load", "generic_store",
    "generic_atomic", "branch", "barrier",
)  # fmt: skip
PIPES = ("int", "fp32", "fp64", "fp16", "sfu", "tensor", "memory", "control")

_MEMORY = {
    "ld", "ldu", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "movmatrix", "shfl", "prefetch",
    "prefetchu", "tex", "suld", "sust", "mbarrier", "st_async",
}  # fmt: skip
_CONTROL = {
    "bra", "brx", "ret", "exit", "call", "bar", "barrier", "membar", "fence", "trap", "nanosleep",
    "griddepcontrol", "elect",
}  # fmt: skip
_TENSOR = {"mma", "wgmma", "wmma", "tcgen05"}
_SFU = {"rcp", "sqrt", "rsqrt", "sin", "cos", "ex2", "lg2", "tanh", "popc", "clz", "bfind", "brev"}
_FREE = {"mov", "cvta", "pragma"}  # register names and constants: gone in machine code
_ARITHMETIC = {"add", "sub", "mul", "fma", "mad", "div"}
_HALVES = {"f16", "f16x2", "bf16", "bf16x2"}
_OPERATIONS = {"add": "add", "sub": "add", "mul": "mul", "fma": "fma", "mad": "fma"}
_LETTER = {"f32": "f", "f64": "d", "f16": "h", "bf16": "h"}
_PACKED = {"f32x2": "f", "f16x2": "h", "bf16x2": "h"}
_TENSOR_KIND = {
    "f16": "fp16", "bf16": "bf16", "tf32": "tf32", "f64": "fp64", "s8": "int8", "u8": "int8",
    "e4m3": "fp8", "e5m2": "fp8", "s4": "int4", "u4": "int4", "b1": "b1",
}  # fmt: skip
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes of a kernel's instructions; arrays have one entry per instruction."""

    guarded: np.ndarray  # bool
    pipes: np.ndarray  # index in PIPES, -1 for instructions without one
    accesses: np.ndarray  # index in ACCESSES
    operations: dict[str, np.ndarray]  # "ffma" -> instruction numbers
    tensor: dict[str, np.ndarray]  # "bf16" -> FLOPs of one whole warp, 0 for other instructions
    warpgroup: np.ndarray  # FLOPs of one warp in wgmma


def classify(instructions: Sequence[Instruction]) -> Classes:
    """The classes of these instructions, in order."""
    count = len(instructions)
    operations: dict[str, list[int]] = {}
    tensor: dict[str, np.ndarray] = {}
    warpgroup = np.zeros(count)
    for i, ins in enumerate(instructions):
        if name := operation(ins):
            operations.setdefault(name, []).append(i)
        if work := tensor_work(ins):
            kind, flops = work
            tensor.setdefault(kind, np.zeros(count))[i] = flops
            warpgroup[i] = flops if ins.opcode == "wgmma" else 0
    return Classes(
        guarded=np.array([ins.guard is not None for ins in instructions], bool),
        pipes=np.array([pipe(ins) for ins in instructions], int),
        accesses=np.array([ACCESSES.index(access(ins)) for ins in instructions], int),
        operations={name: np.array(where) for name, where in operations.items()},
        tensor=tensor,
        warpgroup=warpgroup,
    )


def pipe(ins: Instruction) -> int:
    """The pipe that issues an instruction of this kind, -1 for those that ptxas removes."""
    name = _pipe_name(ins)
    return PIPES.index(name) if name else -1


def _pipe_name(ins: Instruction) -> str:
    if ins.opcode in _FREE or (ins.opcode == "ld" and ins.has("param")):
        return ""
    for opcodes, name in ((_MEMORY, "memory"), (_CONTROL, "control"), (_TENSOR, "tensor")):
        if ins.opcode in opcodes:
            return name
    if "f64" in ins.types:
        return "fp64"
    if ins.opcode in _SFU or (ins.opcode == "cvt" and _converts_integers(ins)):
        return "sfu"
    if ins.opcode not in _ARITHMETIC:
        return "int"
    if _HALVES & set(ins.types):
        return "fp16"
    return "fp32" if {"f32", "f32x2"} & set(ins.types) else "int"


def _converts_integers(ins: Instruction) -> bool:
    floats = [t[0] in "fbet" and t != "b32" for t in ins.types]
    return len(floats) == 2 and floats[0] != floats[1]


def operation(ins: Instruction) -> str:
    """Nsight Compute's letter and verb ("ffma"), with "2" for packed types; "" for the rest."""
    verb = _OPERATIONS.get(ins.opcode)
    if verb is None or not ins.types:
        return ""
    if ins.types[-1] in _PACKED:
        return f"{_PACKED[ins.types[-1]]}{verb}2"
    letter = _LETTER.get(ins.types[-1])
    return f"{letter}{verb}" if letter else ""


def tensor_work(ins: Instruction) -> tuple[str, float] | None:
    """Input type and FLOPs of one warp, 2·m·n·k; a quarter of a warpgroup's."""
    if ins.opcode not in _TENSOR or ins.has("load", "store", "fence", "commit_group", "wait_group"):
        return None
    shape = next((found for text in ins.modifiers if (found := _SHAPE.fullmatch(text))), None)
    if shape is None:
        return None
    m, n, k = map(int, shape.groups())
    inputs = ins.types[1] if len(ins.types) > 2 else "f16"
    warps = 4 if ins.opcode == "wgmma" else 1
    return _TENSOR_KIND.get(inputs, inputs), 2.0 * m * n * k / warps


def access(ins: Instruction) -> str:
    """Which kind of memory access, branch or barrier this is: one of ACCESSES."""
    if ins.opcode in ("bra", "brx"):
        return "branch"
    if ins.opcode in ("bar", "barrier") and not ins.has("warp", "cluster"):
        return "barrier"
    if ins.opcode == "cp":
        return "async_copy"
    if ins.opcode in ("ldmatrix", "stmatrix"):
        return "shared_load" if ins.opcode == "ldmatrix" else "shared_store"
    verb = {"ld": "load", "ldu": "load", "st": "store", "atom": "atomic", "red": "atomic"}.get(
        ins.opcode
    )
    space = _space(ins) if verb else None
    return f"{space}_{verb}" if space and f"{space}_{verb}" in ACCESSES else "none"


def _space(ins: Instruction) -> str | None:
    for modifier in ins.modifiers:
        space = modifier.split("::")[0]
        if space in ("global", "shared", "local"):
            return space
        if space in ("param", "const"):
            return None
    return "generic"
