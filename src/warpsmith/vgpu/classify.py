"""What each PTX instruction counts as: its pipe, its operation, its kind of memory access.

Everything is worked out once per translated kernel; a launch then only adds up arrays.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .ptx.ir import TYPE_BITS, Instruction, Register, Vector

ACCESSES = (
    "none", "global_load", "global_store", "global_atomic", "shared_load", "shared_store",
    "shared_atomic", "local_load", "local_store", "async_copy", "generic_load", "generic_store",
    "generic_atomic", "branch", "barrier", "bulk_load", "bulk_store",
)  # fmt: skip
PIPES = ("int", "fp32", "fp64", "fp16", "sfu", "tensor", "memory", "control")

_MEMORY = {
    "ld", "ldu", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "movmatrix", "shfl", "prefetch",
    "prefetchu", "tex", "tld4", "suld", "sust", "sured", "mbarrier", "st_async",
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
# operation: floating-point operations of one thread (packed types do two lanes)
FLOPS = {
    "fadd": 1, "fmul": 1, "ffma": 2,
    "dadd": 1, "dmul": 1, "dfma": 2,
    "hadd": 1, "hmul": 1, "hfma": 2,
    "hadd2": 2, "hmul2": 2, "hfma2": 4,
    "fadd2": 2, "fmul2": 2, "ffma2": 4,
}  # fmt: skip
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


# what kind of work an instruction is: Nsight Compute's classes, and "tensor" of our own
KINDS = (
    "integer", "bit", "control", "conversion", "fp16", "fp32", "fp64",
    "inter_thread_communication", "memory", "misc", "tensor",
)  # fmt: skip
_KIND = {
    **dict.fromkeys(("shfl", "vote", "match", "redux", "activemask"), "inter_thread_communication"),
    **dict.fromkeys(("and", "or", "xor", "not", "lop3", "shl", "shr", "shf", "popc", "clz", "brev",
                     "bfind", "bfe", "bfi", "fns", "prmt", "cnot"), "bit"),
    **dict.fromkeys(("mov", "cvta", "isspacep", "mapa", "getctarank", "movmatrix", "pmevent",
                     "setmaxnreg"), "misc"),
    "cvt": "conversion",
}  # fmt: skip
_FLOATS = {"f64": "fp64", "f32": "fp32", "f32x2": "fp32"} | dict.fromkeys(_HALVES, "fp16")


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes of a kernel's instructions; arrays have one entry per instruction."""

    guarded: np.ndarray  # bool
    pipes: np.ndarray  # index in PIPES, -1 for instructions without one
    accesses: np.ndarray  # index in ACCESSES
    operations: dict[str, np.ndarray]  # "ffma" -> instruction numbers
    tensor: dict[str, np.ndarray]  # "bf16" -> FLOPs of one whole warp, 0 for other instructions
    warpgroup: np.ndarray  # FLOPs of one warp in wgmma
    kinds: np.ndarray  # index in KINDS
    reductions: np.ndarray  # bool: an atomic whose old value nobody reads
    operand_bytes: np.ndarray  # shared memory that wgmma reads, a warp's quarter
    mma: np.ndarray  # bool: a matrix product
    ldmatrix: np.ndarray  # bool
    flops: np.ndarray  # of one thread, scalar and packed operations


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
        kinds=np.array([KINDS.index(work_kind(ins)) for ins in instructions], int),
        reductions=reductions(instructions),
        operand_bytes=np.array([operand_bytes(ins) for ins in instructions], float),
        ldmatrix=np.array([ins.opcode == "ldmatrix" for ins in instructions], bool),
        mma=np.array([tensor_work(ins) is not None for ins in instructions], bool),
        flops=np.array([FLOPS.get(operation(ins), 0) for ins in instructions], int),
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
    """Input type and FLOPs of one warp, 2·m·n·k; a quarter of a warpgroup's. A sparse product counts
    as the dense one that it stands for (effective dense FLOPs)."""
    if ins.opcode not in _TENSOR or ins.has("load", "store", "fence", "commit_group", "wait_group"):
        return None
    shape = next((found for text in ins.modifiers if (found := _SHAPE.fullmatch(text))), None)
    if shape is None:
        return None
    m, n, k = map(int, shape.groups())
    types = [m for m in ins.modifiers if m in _TENSOR_KIND or m in ins.types]
    inputs = types[1] if len(types) > 2 else "f16"
    warps = 4 if ins.opcode == "wgmma" else 1
    return _TENSOR_KIND.get(inputs, inputs), 2.0 * m * n * k / warps


def work_kind(ins: Instruction) -> str:
    """The class of work that this PTX instruction is: one of KINDS."""
    for opcodes, name in ((_TENSOR, "tensor"), (_CONTROL, "control")):
        if ins.opcode in opcodes:
            return name
    if ins.opcode in _KIND:
        return _KIND[ins.opcode]
    if ins.opcode in _MEMORY:
        return "misc" if ins.opcode == "ld" and ins.has("param") else "memory"
    return next((_FLOATS[t] for t in ins.types if t in _FLOATS), "integer")


def reductions(instructions: Sequence[Instruction]) -> np.ndarray:
    """Which atomics need no answer: `red`, and `atom` whose result no instruction names again.

    ptxas makes a RED of those, and Nsight Compute counts them as reductions.
    """
    named = Counter(n for ins in instructions for n in _names(ins))
    return np.array([_needs_no_answer(ins, named) for ins in instructions], bool)


def _needs_no_answer(ins: Instruction, named: Counter[str]) -> bool:
    if ins.opcode != "atom":
        return ins.opcode == "red"
    if ins.has("exch", "cas"):
        return False  # the machine has no reduction of these
    return all(named[name] == 1 for name in _registers(ins.operands[:1]))


def _names(ins: Instruction) -> Iterator[str]:
    yield from _registers(ins.operands)
    if ins.guard:
        yield ins.guard.register.name


def _registers(found: Any) -> Iterator[str]:
    if isinstance(found, Register):
        yield found.name
    elif isinstance(found, tuple):
        for item in found:
            yield from _registers(item)
    else:
        for name in ("items", "base", "first", "second", "operand"):
            part = getattr(found, name, None)
            if part is not None:
                yield from _registers(part)


def operand_bytes(ins: Instruction) -> float:
    """Bytes of shared memory that one warp's quarter of a wgmma reads: B, and A unless in registers.

    From the shape alone (PTX ISA, asynchronous warpgroup matrix instructions): no profiler counts it.
    """
    if ins.opcode != "wgmma" or not ins.has("mma_async"):
        return 0.0
    shape = next((found for text in ins.modifiers if (found := _SHAPE.fullmatch(text))), None)
    if shape is None or len(ins.types) < 2:
        return 0.0
    m, n, k = map(int, shape.groups())
    width = TYPE_BITS[ins.types[1]] / 8 * (0.5 if ins.has("sp") else 1)
    in_registers = len(ins.operands) > 1 and isinstance(ins.operands[1], Vector)
    return ((0 if in_registers else m * k * width) + n * k * TYPE_BITS[ins.types[-1]] / 8) / 4


def access(ins: Instruction) -> str:
    """Which kind of memory access, branch or barrier this is: one of ACCESSES."""
    if ins.opcode in ("bra", "brx"):
        return "branch"
    if ins.opcode in ("bar", "barrier") and not ins.has("warp", "cluster"):
        return "barrier"
    if ins.opcode == "cp":
        return _copy(ins)
    if ins.opcode in ("ldmatrix", "stmatrix"):
        return "shared_load" if ins.opcode == "ldmatrix" else "shared_store"
    verb = {"ld": "load", "ldu": "load", "st": "store", "atom": "atomic", "red": "atomic"}.get(
        ins.opcode
    )
    space = _space(ins) if verb else None
    return f"{space}_{verb}" if space and f"{space}_{verb}" in ACCESSES else "none"


def _copy(ins: Instruction) -> str:
    """cp.async goes through the load/store unit; bulk copies do not, and have a direction."""
    if not ins.has("bulk"):
        return "async_copy"
    spaces = [s for m in ins.modifiers if (s := m.split("::")[0]) in ("shared", "global")]
    return "bulk_store" if spaces[:2] == ["global", "shared"] else "bulk_load"


def _space(ins: Instruction) -> str | None:
    for modifier in ins.modifiers:
        space = modifier.split("::")[0]
        if space in ("global", "shared", "local"):
            return space
        if space in ("param", "const"):
            return None
    return "generic"
