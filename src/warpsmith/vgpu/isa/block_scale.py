"""mma.sync with `.kind::`: products of 4-, 6- and 8-bit floats, scaled by blocks (sm_120)."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from ..ptx.ir import Instruction
from .registry import Operands, unsupported

_SMALL = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
_BLOCKS = {
    "f8f6f4": {"": 0},
    "mxf8f6f4": {"": 32, "scale_vec::1X": 32},
    "mxf4": {"": 32, "scale_vec::2X": 32},
    "mxf4nvf4": {"scale_vec::2X": 32, "scale_vec::4X": 16},
}
"""Kind -> how the instruction says it -> elements that share a scale."""


def is_kind(ins: Instruction) -> bool:
    return any(m.startswith("kind::") for m in ins.modifiers)


def product(ins: Instruction, operands: Operands) -> str:
    """The C statement of an mma.sync with a kind."""
    kind = next(m[6:] for m in ins.modifiers if m.startswith("kind::"))
    packed = kind.startswith("mxf4")
    shape = "m16n8k64" if packed else "m16n8k32"
    types = [m for m in ins.modifiers if m in (*_SMALL, "f32", "f16")]
    if kind not in _BLOCKS or not ins.has(shape) or not (ins.has("row") and ins.has("col")):
        raise unsupported(ins, f"a kind of {', '.join(_BLOCKS)}, .m16n8k32 or .m16n8k64 are needed")
    if len(types) != 4 or types[0] != types[3] or not {types[1], types[2]} <= set(_SMALL):
        raise unsupported(ins, "it must name the types of D, A, B and C, D like C")
    if packed and {types[1], types[2]} != {"e2m1"}:
        raise unsupported(ins, f"'.kind::{kind}' multiplies e2m1 alone")
    counts = (2, 4, 2, 2) if types[0] == "f16" else (4, 4, 2, 4)
    if tuple(operands.width(i) for i in range(4)) != counts:
        raise unsupported(ins, f"D, A, B and C have not {counts} registers")
    form = _form(ins, kind, types, int(packed))
    scales = _scales(operands) if ins.has("block_scale") else "NULL, NULL, NULL, NULL"
    arrays = ", ".join(operands.vector(i, 32) for i in range(4))
    return (
        f"static const VgMmaScaled form = {form}; vg_mma_scaled(&form, mask, {arrays}, {scales});"
    )


def _form(ins: Instruction, kind: str, types: list[str], packed: int) -> str:
    said = next((m for m in ins.modifiers if m.startswith("scale_vec::")), "")
    if said not in _BLOCKS[kind] or ins.has("block_scale") != (kind != "f8f6f4"):
        raise unsupported(ins, f"'.kind::{kind}' with this scaling")
    half, ue4m3 = int(types[0] == "f16"), int(ins.has("ue4m3"))
    if half and ins.has("block_scale"):
        raise unsupported(ins, "scaled products have f32 sums")
    a, b = (f"VG_E_{t.upper()}" for t in types[1:3])
    return f"{{{a}, {b}, {packed}, {half}, {_BLOCKS[kind][said]}, {ue4m3}}}"


def _scales(operands: Operands) -> str:
    """Data and {byte, thread} of A's scales, then of B's."""
    parts = [(operands.lanes(i, 32), operands.vector(i + 1, 16)) for i in (4, 6)]
    return ", ".join(text for pair in parts for text in pair)
