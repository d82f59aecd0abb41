"""What the lanes of a warp do together: shuffles, votes, reductions, matrix loads and moves."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from ..ptx.ir import Instruction, Vector
from . import matrix  # noqa: F401  (registers mma, wgmma and wmma)
from .registry import Operands, collective, unsupported

_SHUFFLES = {"up": "UP", "down": "DOWN", "bfly": "BFLY", "idx": "IDX"}
_VOTES = {"all": "ALL", "any": "ANY", "uni": "UNI", "ballot": "BALLOT"}


def one_of(ins: Instruction, table: dict[str, str]) -> str:
    """The value of the first modifier that is a key of the table; refuses an instruction without."""
    for modifier in ins.modifiers:
        if modifier in table:
            return table[modifier]
    raise unsupported(ins, f"one of {', '.join(table)} is needed")


def only(ins: Instruction, *known: str) -> None:
    """Refuse an instruction with a modifier that is not one of the known ones."""
    for modifier in ins.modifiers:
        if modifier not in known:
            raise unsupported(ins, f"'.{modifier}' is not one of its known forms")


def _members(ins: Instruction, operands: Operands) -> str:
    return operands.lanes(len(operands) - 1, 32) if ins.has("sync") else "NULL"


@collective("shfl", member=-1)
def shfl(ins: Instruction, operands: Operands) -> str:
    only(ins, "sync", "b32", *_SHUFFLES)
    arguments = ", ".join(operands.lanes(i, 32) for i in (1, 2, 3))
    found = f"{operands.lanes(0, 32)}, {operands.second(0)}"
    return f"vg_shfl(VG_SHFL_{one_of(ins, _SHUFFLES)}, mask, {found}, {arguments});"


@collective("vote", member=-1)
def vote(ins: Instruction, operands: Operands) -> str:
    only(ins, "sync", "pred", "b32", *_VOTES)
    d, a = operands.lanes(0, 32), operands.lanes(1, 32)
    return f"vg_vote(VG_VOTE_{one_of(ins, _VOTES)}, mask, {d}, {a}, {_members(ins, operands)});"


@collective("match", member=-1)
def match(ins: Instruction, operands: Operands) -> str:
    only(ins, "any", "all", "sync", "b32", "b64")
    bits = 64 if ins.has("b64") else 32
    d, p, a = operands.lanes(0, 32), operands.second(0), operands.lanes(1, bits)
    kind = f"{int(ins.has('all'))}, {bits // 8}"
    return f"vg_match({kind}, mask, {d}, {p}, {a}, {_members(ins, operands)});"


_REDUCTIONS = {
    ("add", "u32"): "ADD", ("add", "s32"): "ADD", ("min", "u32"): "MIN_U", ("min", "s32"): "MIN_S",
    ("max", "u32"): "MAX_U", ("max", "s32"): "MAX_S", ("min", "f32"): "MIN_F",
    ("max", "f32"): "MAX_F", ("and", "b32"): "AND", ("or", "b32"): "OR", ("xor", "b32"): "XOR",
}  # fmt: skip


@collective("redux", member=-1)
def redux(ins: Instruction, operands: Operands) -> str:
    only(ins, "sync", "abs", "NaN", *(part for key in _REDUCTIONS for part in key))
    operation = one_of(ins, {k: k for k, _ in _REDUCTIONS})
    kind = _REDUCTIONS.get((operation, ins.types[-1]))
    if kind is None:
        raise unsupported(ins, f"no '.{operation}' on '.{ins.types[-1]}'")
    flags = int(ins.has("abs")) | 2 * int(ins.has("NaN"))
    d, a = operands.lanes(0, 32), operands.lanes(1, 32)
    return f"vg_redux(VG_REDUX_{kind}, {flags}, mask, {d}, {a}, {_members(ins, operands)});"


@collective("activemask")
def activemask(ins: Instruction, operands: Operands) -> str:
    return f"vg_fill(mask, {operands.lanes(0, 32)}, mask);"


@collective("elect", member=-1)
def elect(ins: Instruction, operands: Operands) -> str:
    found = f"{operands.lanes(0, 32)}, {operands.second(0)}"
    return f"vg_elect(mask, {found}, {_members(ins, operands)});"


_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
_MATRIX = ("sync", "aligned", "m8n8", "trans", "shared", "shared::cta", "b16", *_COUNTS)


def _matrices(ins: Instruction, operands: Operands, registers: int) -> str:
    """The arguments that ldmatrix and stmatrix share: count, transpose, generic, registers."""
    only(ins, *_MATRIX)
    count = next((n for name, n in _COUNTS.items() if ins.has(name)), 0)
    found = operands.width(registers) if isinstance(operands.raw(registers), Vector) else 1
    if not ins.has("m8n8") or found != count:
        raise unsupported(ins, "it must be m8n8 with as many registers as .x1, .x2 or .x4 says")
    generic = int(not ins.has("shared", "shared::cta"))
    return f"{count}, {int(ins.has('trans'))}, {generic}, {operands.vector(registers, 32)}"


@collective("ldmatrix")
def ldmatrix(ins: Instruction, operands: Operands) -> str:
    arguments = f"{_matrices(ins, operands, 0)}, {operands.address(1)}"
    return f"if (vg_ldmatrix(w, site, mask, {arguments})) return NULL;"


@collective("stmatrix")
def stmatrix(ins: Instruction, operands: Operands) -> str:
    arguments = f"{_matrices(ins, operands, 1)}, {operands.address(0)}"
    return f"if (vg_stmatrix(w, site, mask, {arguments})) return NULL;"


@collective("movmatrix")
def movmatrix(ins: Instruction, operands: Operands) -> str:
    only(ins, "sync", "aligned", "m8n8", "trans", "b16")
    return f"vg_movmatrix(mask, {operands.lanes(0, 32)}, {operands.lanes(1, 32)});"
