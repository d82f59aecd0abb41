"""Kernels that run many spellings at once over columns of edge and random values, on any device.

One kernel holds a batch of spellings in straight-line code. Thread i takes row i of each spelling's
operands and writes its results; the same PTX runs on a GPU and on the virtual one. Values depend on
nothing but the operand types and this file.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from isa_oracle import FORMATS, INTEGER_EDGES, edges
from isa_spellings import BITS, Spelling

ROWS = 512
SENTINEL = 0xA5A5_5A5A_DEAD_BEEF  # what a thread that does not run leaves in its row
SHIFTS = [0, 1, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257, 0x7FFFFFFF, 0xFFFFFFFF]
PARTS = {"f16x2": ("f16", 2), "bf16x2": ("bf16", 2), "f32x2": ("f32", 2), "u16x2": ("u16", 2),
         "s16x2": ("s16", 2)}  # fmt: skip


@cache
def edge_values(kind: str) -> tuple[int, ...]:
    """The values of a type at which arithmetic goes wrong."""
    if kind == "pred":
        return (0, 1)
    if kind in ("shift", "byte"):
        return tuple(SHIFTS)
    if kind == "lane":
        return tuple(range(32))
    if kind in PARTS:
        part, count = PARTS[kind]
        few = edge_values(part)
        turned = [few[i:] + few[:i] for i in range(0, 7 * count, 7)]
        return tuple(sum(v << i * BITS[part] for i, v in enumerate(row)) for row in zip(*turned))
    if kind in FORMATS:
        f = FORMATS[kind]
        payload = f.largest + 2 | f.sign  # a signaling NaN with a sign and a payload
        return (*edges(kind), payload, *_near_integers(kind))
    return tuple(INTEGER_EDGES.get(int("".join(c for c in kind if c.isdigit())[-2:] or 32), ()) or
                 INTEGER_EDGES[BITS[kind]])  # fmt: skip


def _near_integers(kind: str) -> list[int]:
    """Halves, and numbers about the limits of integer types."""
    from fractions import Fraction

    from isa_oracle import encode

    numbers = [0.5, 1.5, 2.5, 127.5, 255.5, 32767.5, 65535.5, 2.0**31, 2.0**32, 2.0**63, 2.0**64, 448.0,
               464.0, 57344.0, 65520.0, 0.75]  # fmt: skip
    return [encode(Fraction(sign * n), kind) for n in numbers for sign in (1, -1)]


def random_value(kind: str, source: random.Random) -> int:
    if kind == "pred":
        return source.getrandbits(1)
    if kind == "lane":
        return source.randrange(32)
    if kind in ("shift", "byte"):
        return source.randrange(80)
    if kind in FORMATS and source.random() < 0.6:  # of like size, so that sums and products round
        f = FORMATS[kind]
        exponent = min(max(f.bias + source.randrange(-f.mant - 2, f.mant + 3), 0), (1 << f.exp) - 2)
        return (
            source.getrandbits(1) << (f.bits - 1) | exponent << f.mant | source.getrandbits(f.mant)
        )
    return source.getrandbits(BITS[kind])


@cache
def columns(kinds: tuple[str, ...], rows: int = ROWS) -> np.ndarray:
    """Operands, (sources, rows) uint64: products of edge values first, then random ones."""
    source = random.Random(f"{kinds} {rows}")
    edges_of = [edge_values(k) for k in kinds]
    if math.prod(map(len, edges_of)) > 1 << 20:  # too many to list: four or more operands
        found = [tuple(map(source.choice, edges_of)) for _ in range(rows * 5 // 8)]
    else:
        found = list(itertools.product(*edges_of))
    if len(found) > rows * 5 // 8:
        found = source.sample(found, rows * 5 // 8)
    while len(found) < rows:
        mixed = [source.choice(edge_values(k)) if source.random() < 0.15 else random_value(k, source)
                 for k in kinds]  # fmt: skip
        found.append(tuple(mixed))
    return np.array(found, np.uint64).T.copy()


def register(kind: str) -> str:
    return "pred" if kind == "pred" else f"b{BITS[kind]}"


@dataclass(frozen=True)
class Batch:
    """The PTX of a kernel `batch(in, out, cells)` and the operands it reads."""

    spellings: tuple[Spelling, ...]
    ptx: str
    operands: np.ndarray  # uint64 (columns, rows)
    places: dict[str, slice]  # of each spelling's results among the rows of `out`

    @property
    def results(self) -> int:
        return sum(len(s.results) for s in self.spellings)

    @property
    def rows(self) -> int:
        return self.operands.shape[1]


_HEAD = """.version {version}
.target {target}
.address_size 64
.visible .entry batch(.param .u64 p_in, .param .u64 p_out, .param .u64 p_cells, .param .u32 p_step,
  .param .u32 p_mask)
{{
.reg .pred %run; .reg .b32 %i<6>; .reg .b64 %at, %in, %out, %cells, %cell, %x;
ld.param.u64 %in, [p_in]; ld.param.u64 %out, [p_out]; ld.param.u64 %cells, [p_cells];
ld.param.u32 %i3, [p_step]; ld.param.u32 %i4, [p_mask];
mov.u32 %i0, %tid.x; mov.u32 %i1, %ctaid.x;
mad.lo.u32 %i0, %i1, %i3, %i0;
mul.wide.u32 %at, %i0, 8; add.u64 %in, %in, %at; add.u64 %out, %out, %at; add.u64 %cell, %cells, %at;
and.b32 %i2, %i0, 31; shr.u32 %i4, %i4, %i2; and.b32 %i4, %i4, 1; setp.eq.u32 %run, %i4, 0;
@%run bra DONE;
"""


def batch(
    spellings: Sequence[Spelling], target: str = "sm_90a", version: str = "8.6", rows: int = ROWS
) -> Batch:
    """One kernel of some spellings."""
    places: dict[str, slice] = {}
    starts: dict[tuple[str, ...], int] = {}
    operands: list[np.ndarray] = []
    lines, at = [], 0
    for item in spellings:
        if item.sources not in starts:
            starts[item.sources] = len(operands)
            operands += list(columns(item.sources, rows))
        places[item.name] = slice(at, at + len(item.results))
        lines.append(_block(item, starts[item.sources], at, rows))
        at += len(item.results)
    text = _HEAD.format(version=version, target=target) + "\n".join(lines) + "\nDONE: ret;\n}\n"
    return Batch(tuple(spellings), text, np.array(operands, np.uint64), places)


def _block(item: Spelling, first: int, place: int, rows: int) -> str:
    """One line of PTX: load the operands, the instruction, store the results."""
    parts = ["{"]
    for i, kind in enumerate(item.sources):
        parts.append(
            f".reg .{register(kind)} %s{i}; ld.global.u64 %x, [%in+{(first + i) * rows * 8}];"
        )
        parts.append({"pred": f"setp.ne.u64 %s{i}, %x, 0;", "b64": f"mov.b64 %s{i}, %x;"}.get(
            register(kind), f"cvt.u{BITS[kind]}.u64 %s{i}, %x;"))  # fmt: skip
    parts += [f".reg .{register(kind)} %d{i};" for i, kind in enumerate(item.results)]
    if " merge " in item.name:
        parts.append("mov.b32 %d0, %s1;")
    parts.append(item.body)
    for i, kind in enumerate(item.results):
        parts.append({"pred": f"selp.u64 %x, 1, 0, %d{i};", "b64": f"mov.b64 %x, %d{i};"}.get(
            register(kind), f"cvt.u64.u{BITS[kind]} %x, %d{i};"))  # fmt: skip
        parts.append(f"st.global.u64 [%out+{(place + i) * rows * 8}], %x;")
    return " ".join([*parts, "}"])
