"""Spell every matrix product of sm_80 to sm_90a, and run one on fragments given as arrays."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from functools import cache

import numpy as np

from warpsmith import vgpu
from warpsmith.vgpu.memory import copy_of

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"
REGISTER = {"f64": ("f64", 8), "f32": ("f32", 4)}


def register_type(kind: str) -> str:
    """How PTX wants the register declared: floats for accumulators of f32 and f64, bits else."""
    return {"f32": "f32", "f64": "f64"}.get(kind, "b32")


@cache
def kernel(spelling: str, counts: tuple[int, ...], kinds: tuple[str, ...], tail: str = "",
           meta: bool = False) -> str:  # fmt: skip
    """A kernel whose lanes load fragments of A, B and C (and metadata), multiply, and store D.

    counts: registers of D, A, B, C; kinds: their types; tail: operands after C.
    """
    d, a, b, c = (register_type(k) for k in kinds)
    wide = 8 if kinds[1] == "f64" else 4
    lines = []
    for part, count, kind in (("a", counts[1], a), ("b", counts[2], b), ("c", counts[3], c)):
        lines += [
            f"  ld.global.{kind} %{part}{i}, [%p{part}+{32 * wide * i}];" for i in range(count)
        ]
    names = {p: "{" + ", ".join(f"%{p}{i}" for i in range(n)) + "}" for p, n in zip("dabc", counts)}
    stores = [f"  st.global.{d} [%pd+{32 * wide * i}], %d{i};" for i in range(counts[0])]
    loaded = "\n".join(lines)
    stored = "\n".join(stores)
    meta_load = "  ld.global.b32 %e, [%pe];" if meta else ""
    tail = f", %e{tail}" if meta else tail
    pointers = "\n".join(
        f"  ld.param.b64 %p{x}, [p{x}]; mad.wide.u32 %p{x}, %t, {4 if x == 'e' else wide}, %p{x};"
        for x in "dabce"
    )
    return f"""{HEAD}
.visible .entry product(.param .u64 pd, .param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pe)
{{
  .reg .{d} %d<{max(counts[0], 1)}>; .reg .{a} %a<{counts[1]}>; .reg .{b} %b<{counts[2]}>; .reg .{c} %c<{counts[3]}>;
  .reg .b64 %p<1>, %pd, %pa, %pb, %pc, %pe; .reg .b32 %t, %e;
  mov.u32 %t, %tid.x;
{pointers}
{loaded}
{meta_load}
  {spelling} {names["d"]}, {names["a"]}, {names["b"]}, {names["c"]}{tail};
{stored}
  ret;
}}"""


@cache
def module(ptx: str) -> vgpu.Module:
    return vgpu.load(ptx)


def run(ptx: str, d_count: int, a, b, c, meta=None) -> np.ndarray:
    """D's registers, (count, 32), of one warp."""
    dtype = np.uint64 if a.dtype == np.uint64 else np.uint32
    d = copy_of(np.zeros((d_count, 32), dtype))
    arrays = [d, *(copy_of(np.ascontiguousarray(x)) for x in (a, b, c)),
              copy_of(np.zeros(32, np.uint32) if meta is None else meta.astype(np.uint32))]  # fmt: skip
    memory = vgpu.Memory()
    for i, x in enumerate(arrays):
        memory.register(x.ctypes.data, x.nbytes, f"p{i}")
    result = module(ptx).launch(
        "product", (1,), (32,), [x.ctypes.data for x in arrays], memory=memory
    )
    assert result.fault is None, result.fault.message
    return d


# ------------------------------------------------------------------------------- sparse matrices


def sparsify(matrix: np.ndarray, kind: str, rng) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the matrix with zeros where a pattern says so, its packed rows, metadata of each chunk).

    Chunks: 4 elements with 2 kept; tf32: 2 with 1 kept; 4 bits: 8 with 2 pairs kept.
    """
    rows, k = matrix.shape
    width = {"tf32": 2, "s4": 8, "u4": 8}.get(kind, 4)
    kept, packed = np.zeros_like(matrix), np.zeros((rows, k // 2))
    meta = np.zeros((rows, k // width), np.uint32)
    for row in range(rows):
        for c in range(k // width):
            if kind == "tf32":
                one = int(rng.integers(2))
                meta[row, c] = (0b0100, 0b1110)[one]
                columns = [2 * c + one]
            else:
                low, high = sorted(rng.choice(4, 2, replace=False))
                meta[row, c] = low | high << 2
                step = width // 4
                columns = [width * c + step * i + j for i in (low, high) for j in range(step)]
            kept[row, columns] = matrix[row, columns]
            at = c * width // 2
            packed[row, at : at + width // 2] = matrix[row, columns]
    return kept, packed, meta


def metadata_lanes(meta: np.ndarray, kind: str, selector: int, rng) -> np.ndarray:
    """The metadata operand of 32 lanes, by the manual's figures; other lanes hold anything.

    16- and 32-bit elements: lane 4 g + 2 s (or 4 g + s for four chunks) + j holds chunks 4 j … of row g
    in its low half and of row g + 8 in its high half. 8- and 4-bit ones: lanes 4 g and 4 g + 1 (of the
    selected pair) hold chunks 0 … 7 of rows g and g + 8, the other two lanes chunks 8 … 15.
    """
    lanes = rng.integers(0, 1 << 32, 32).astype(np.uint32)
    chunks = meta.shape[1]

    def bits(row, first, count):
        return sum(int(meta[row, first + i]) << 4 * i for i in range(count))

    for g in range(8):
        if kind in ("f16", "bf16", "tf32"):
            for j in range(chunks // 4):
                lane = 4 * g + (selector if chunks == 4 else 2 * selector + j)
                lanes[lane] = bits(g, 4 * j, 4) | bits(g + 8, 4 * j, 4) << 16
        else:
            for j in range(chunks // 8):
                pair = selector if chunks == 8 else j
                lanes[4 * g + 2 * pair] = bits(g, 8 * j, 8)
                lanes[4 * g + 2 * pair + 1] = bits(g + 8, 8 * j, 8)
    return lanes
