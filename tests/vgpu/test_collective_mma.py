"""Tensor products against numpy, with fragments laid out by the manual's formulas."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from collective_library import (
    BITS,
    ELEMENTS,
    FULL,
    Wgmma,
    Wmma,
    a_fragment,
    b_fragment,
    c_fragment,
    c_matrix,
    c_places,
    pointer,
    rows,
    runtime,
    shape,
    shim,
    to_bits,
    values_for,
)

from warpsmith.vgpu.isa.matrix import MMA_SHAPES, WMMA_SHAPES

pytestmark = pytest.mark.plain

SUMS = {"f16": ["f32", "f16"], "e4m3": ["f32", "f16"], "e5m2": ["f32", "f16"], "bf16": ["f32"],
        "tf32": ["f32"], "f64": ["f64"]}  # fmt: skip
MMA = [(a, b, c, s)
       for a, shapes in MMA_SHAPES.items() for s in shapes
       for b in {"s8": ["s8", "u8"], "u4": ["s4", "u4"], "e4m3": ["e4m3", "e5m2"]}.get(a, [a])
       for c in SUMS.get(a, ["s32"])]  # fmt: skip


UNIT = {"f16": 2.0**-24, "f32": 2.0**-24, "f64": 2.0**-53, "s32": 0.0}  # sums of f16 are f32


def check(got, left, right, sums, kind, negative=False):
    """Within the worst case of rounded sums: (k + 1) units of |A| |B| + |C|; f16 rounds once more."""
    want = sums - left @ right if negative else left @ right + sums
    size = np.abs(left) @ np.abs(right) + np.abs(sums)
    bound = (left.shape[1] + 1) * UNIT[kind] * size
    bound = bound + (2.0**-11 * np.abs(want) + 2.0**-25 if kind == "f16" else 0)
    assert (np.abs(got - want) <= bound).all(), np.abs(got - want).max()


@pytest.mark.parametrize(("a", "b", "c", "size"), MMA)
def test_mma(a, b, c, size):
    m, n, k = size
    rng = np.random.default_rng(3)
    left, right = values_for(a, (m, k), rng), values_for(b, (k, n), rng)
    sums = values_for("f16" if c == "f16" else c, (m, n), rng)
    sums = np.round(sums / 4) if c == "s32" else sums
    fragments = [a_fragment(left, a), b_fragment(right, b), c_fragment(sums, c)]
    d = np.zeros_like(fragments[2])
    s = shape(m, n, k, c, a, b, c)
    function = runtime().vg_mma_f64 if a == "f64" else runtime().vg_mma
    function(ctypes.byref(s), ctypes.c_uint32(FULL), rows(d), *map(rows, fragments))
    got = c_matrix(d, m, n, c)
    if a == "b1":
        assert (got == (left[:, :, None] != right[None]).sum(1) + sums).all()
    else:
        check(got, left, right, sums, c)


def test_mma_may_write_its_accumulators_in_place_and_only_active_lanes():
    rng = np.random.default_rng(4)
    left, right, sums = (values_for("f16", size, rng) for size in ((16, 16), (16, 8), (16, 8)))
    a, b, c = a_fragment(left, "f16"), b_fragment(right, "f16"), c_fragment(sums, "f32")
    before, s = c.copy(), shape(16, 8, 16, "f32", "f16", "f16", "f32")
    runtime().vg_mma(ctypes.byref(s), ctypes.c_uint32(0xFFFF), rows(c), rows(a), rows(b), rows(c))
    assert (c[:, 16:] == before[:, 16:]).all()
    check(c_matrix(c, 16, 8, "f32")[:4], left[:4], right, sums[:4], "f32")


@pytest.mark.parametrize("saturate", [0, 1])
def test_integer_sums_wrap_or_saturate(saturate):
    left, right = np.full((16, 32), 127.0), np.full((32, 8), 127.0)
    sums = np.full((16, 8), 2.0**31 - 5)
    d = c_fragment(sums, "s32")
    fragments = [a_fragment(left, "s8"), b_fragment(right, "s8"), d.copy()]
    s = shape(16, 8, 32, "s32", "s8", "s8", "s32", saturate)
    runtime().vg_mma(ctypes.byref(s), ctypes.c_uint32(FULL), rows(d), *map(rows, fragments))
    exact = 2**31 - 5 + 32 * 127 * 127
    assert (c_matrix(d, 16, 8, "s32") == (2**31 - 1 if saturate else exact - 2**32)).all()


def test_tf32_reads_ten_bits_of_the_mantissa():
    left, right = np.zeros((16, 8)), np.eye(8)
    left[:, :] = 1 + 2.0**-10 + 2.0**-11
    bits = (left.astype(np.float32)).astype(np.float64)
    a, b = a_fragment(bits, "tf32"), b_fragment(right, "tf32")
    d = c_fragment(np.zeros((16, 8)), "f32")
    s = shape(16, 8, 8, "f32", "tf32", "tf32", "f32")
    runtime().vg_mma(
        ctypes.byref(s), ctypes.c_uint32(FULL), rows(d), rows(a), rows(b), rows(d.copy())
    )
    assert (c_matrix(d, 16, 8, "f32") == 1 + 2.0**-10).all()


# ---------------------------------------------------------------------------------------- wgmma

MODES = {16: 0, 128: 1, 64: 2, 32: 3}  # bytes of a line -> descriptor's swizzle mode


def swizzle(offset, line):
    """Exchange 16-byte columns by the row: Swizzle<b, 4, 3> on byte offsets."""
    return offset ^ (offset >> 7 & line // 16 - 1) << 4


def place_tile(matrix, kind, line, transposed, shared, start):
    """Store (rows, depth) raw bits in the canonical layouts and give the descriptor.

    Units of 16 bytes, T elements each: rows-major ((8, m), (T, 2)) : ((line T, stride), (1, T or
    leading)); transposed ((line, n), (8, k)) : ((1, leading), (line, stride)), with the roles of
    leading and stride exchanged where there is no swizzle.
    """
    height, depth = matrix.shape
    per, size, units = 128 // BITS[kind], BITS[kind] // 8, line // 16
    if transposed:
        columns = height // per
        groups = -(-columns // units)
        if line == 16:
            stride, leading = 128, 128 * groups  # between columns; between 8 depths
        else:
            leading, stride = 8 * line * (depth // 8), 8 * line
    else:
        stride, leading = (8 * line, 16) if line > 16 else (256, 128)
    raw = to_bits(matrix, kind)
    for r in range(height):
        for k in range(depth):
            if transposed:
                column = r // per
                if line == 16:
                    at = column * stride + k % 8 * 16 + k // 8 * leading
                else:
                    at = (
                        column % units * 16
                        + column // units * leading
                        + k % 8 * line
                        + k // 8 * stride
                    )
                at += r % per * size
            elif line == 16:
                at = r // 8 * stride + r % 8 * 16 + k // per * leading + k % per * size
            else:
                at = r // 8 * stride + r % 8 * line + k * size
            at = swizzle(start + at, line) if line > 16 else start + at
            shared[at : at + size] = np.frombuffer(
                int(raw[r, k]).to_bytes(size, "little"), np.uint8
            )
    mode = MODES[line]
    return start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | mode << 62


def run_wgmma(
    left, right, sums, kinds, line, transposes, scale_d=1, scales=(1, 1), registers=False
):
    """All four warps of m64nNk; gives the (64, N) result."""
    (a, d), n = kinds, right.shape[1]
    shared = np.zeros(96 * 1024, np.uint8)
    a_descriptor = 0 if registers else place_tile(left, a, line, transposes[0], shared, 1024)
    b_descriptor = place_tile(np.ascontiguousarray(right.T), a, line, transposes[1], shared, 32768)
    s = Wgmma(shape(64, n, left.shape[1], d, a, a, d), *scales, *transposes)
    out = np.zeros((64, n))
    for warp in range(4):
        part = slice(16 * warp, 16 * warp + 16)
        d_registers = np.zeros((128, 32), np.uint32)
        mine = c_fragment(sums[part], d)
        d_registers[: len(mine)] = mine
        fault = ctypes.c_uint32()
        fragment = a_fragment(left[part], a).astype(np.uint32) if registers else None
        result = shim().shim_wgmma(
            pointer(shared), ctypes.c_uint64(shared.nbytes), warp, ctypes.byref(s),
            pointer(d_registers), pointer(fragment), ctypes.c_uint64(a_descriptor),
            ctypes.c_uint64(b_descriptor), scale_d, ctypes.byref(fault),
        )  # fmt: skip
        assert (result, fault.value) == (0, 0)
        out[part] = c_matrix(d_registers[: len(mine)], 16, n, d)
    return out


def operands(a, d, n, k):
    rng = np.random.default_rng(6)
    sums = values_for(d, (64, n), rng)
    return (
        values_for(a, (64, k), rng),
        values_for(a, (k, n), rng),
        np.round(sums) if d == "s32" else sums,
    )


@pytest.mark.parametrize("line", MODES)
@pytest.mark.parametrize(("a", "d", "k"), [
    ("f16", "f32", 16), ("f16", "f16", 16), ("bf16", "f32", 16), ("tf32", "f32", 8),
    ("e4m3", "f32", 32), ("e5m2", "f16", 32), ("s8", "s32", 32), ("u8", "s32", 32),
])  # fmt: skip
def test_wgmma_of_row_major_tiles(a, d, k, line):
    left, right, sums = operands(a, d, 24, k)
    got = run_wgmma(left, right, sums, (a, d), line, (0, 0))
    check(got, left, right, sums, d)


@pytest.mark.parametrize("line", MODES)
@pytest.mark.parametrize("transposes", [(1, 0), (0, 1), (1, 1)])
def test_wgmma_of_transposed_tiles(transposes, line):
    left, right, sums = operands("f16", "f32", 128, 16)
    got = run_wgmma(left, right, sums, ("f16", "f32"), line, transposes)
    check(got, left, right, sums, "f32")


def test_wgmma_scales_and_register_operand():
    left, right, sums = operands("bf16", "f32", 64, 16)
    kinds = ("bf16", "f32")
    got = run_wgmma(left, right, sums, kinds, 128, (0, 0), scale_d=0)
    check(got, left, right, 0 * sums, "f32")
    got = run_wgmma(left, right, sums, kinds, 128, (0, 0), scales=(-1, 1))
    check(got, left, right, sums, "f32", negative=True)
    got = run_wgmma(left, right, sums, kinds, 64, (0, 1), registers=True)
    check(got, left, right, sums, "f32")


def test_wgmma_widest_and_out_of_bounds():
    left, right, sums = operands("f16", "f32", 256, 16)
    got = run_wgmma(left, right, sums, ("f16", "f32"), 128, (0, 1))
    check(got, left, right, sums, "f32")
    shared, fault = np.zeros(2048, np.uint8), ctypes.c_uint32()
    s = Wgmma(shape(64, 8, 16, "f32", "f16", "f16", "f32"), 1, 1, 0, 0)
    d = np.zeros((128, 32), np.uint32)
    far = (8192 >> 4) | 64 << 32 | 1 << 62
    result = shim().shim_wgmma(pointer(shared), ctypes.c_uint64(2048), 0, ctypes.byref(s), pointer(d),
                               None, ctypes.c_uint64(far), ctypes.c_uint64(far), 1,
                               ctypes.byref(fault))  # fmt: skip
    assert (result, fault.value) == (1, 1)


# ----------------------------------------------------------------------------------------- wmma

WMMA = [(a, c, s) for a, shapes in WMMA_SHAPES.items() for s in shapes
        for c in ({"f16": ["f32", "f16"], "f64": ["f64"]}.get(a) or (["s32"] if a in ("s8", "u8") else ["f32"]))]  # fmt: skip


def fragment_size(kind, elements, part):
    if part in "ab" and kind == "f16":
        return 8  # whatever the shape
    return max(1, elements * BITS[kind] // 32 // (64 if kind == "f64" else 32))


@pytest.mark.parametrize("columns", [(0, 1, 0), (1, 0, 1)])
@pytest.mark.parametrize(("a", "c", "size"), WMMA)
def test_wmma_load_multiply_store(a, c, size, columns):
    m, n, k = size
    rng = np.random.default_rng(8)
    left, right = values_for(a, (m, k), rng), values_for(a, (k, n), rng)
    sums = values_for(c, (m, n), rng)
    sums = np.round(sums / 4) if c == "s32" else sums
    out = np.zeros((m, n))
    memory, parts, strides = [], [], []
    for matrix, kind, column, part in ((out, c, columns[2], "d"), (left, a, columns[0], "a"),
                                       (right, a, columns[1], "b"), (sums, c, columns[2], "c")):  # fmt: skip
        laid = matrix.T if column else matrix
        padded = np.zeros((laid.shape[0], laid.shape[1] + 8))
        padded[:, : laid.shape[1]] = laid
        words = to_bits(padded, kind).astype(f"u{BITS[kind] // 8}")
        memory.append(np.ascontiguousarray(words))
        parts.append(Wmma(*matrix.shape, ELEMENTS.index(kind), column, 1,
                          fragment_size(kind, matrix.size, part)))  # fmt: skip
        strides.append(padded.shape[1])
    s = shape(m, n, k, c, a, a, c)
    addresses = (ctypes.c_uint64 * 4)(*(x.ctypes.data for x in memory))
    assert shim().shim_wmma(ctypes.byref(s), (Wmma * 4)(*parts), addresses,
                            (ctypes.c_uint32 * 4)(*strides)) == 0  # fmt: skip
    view = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "s32": np.int32}[c]
    got = memory[0].view(view).astype(np.float64)[:, : n if not columns[2] else m]
    check(got.T if columns[2] else got, left, right, sums, c)


def test_accumulator_places_cover_the_matrix_once():
    row, column = c_places(16, 24)
    assert len({*zip(row.ravel(), column.ravel())}) == 16 * 24
