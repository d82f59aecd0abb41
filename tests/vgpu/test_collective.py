"""Shuffles, votes, matches, reductions and 8x8 matrix moves against numpy, partial masks included."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes
import random

import numpy as np
import pytest
from collective_library import FULL, pointer, runtime, shim

pytestmark = pytest.mark.plain

LANES = np.arange(32)
MASKS = [FULL, 1, 0x80000000, 0x0000FFFF, 0xAAAAAAAA, 0x00F0F00F]
POISON = 0xDEADBEEF


def u32(x) -> np.ndarray:
    return np.ascontiguousarray(np.broadcast_to(np.asarray(x, np.uint32), 32))


def fresh() -> np.ndarray:
    return np.full(32, POISON, np.uint32)


def active(mask: int) -> np.ndarray:
    return (mask >> LANES & 1).astype(bool)


def groups_of(mask, members):
    left = [lane for lane in range(32) if mask >> lane & 1]
    while left:
        group = [lane for lane in left if members[lane] == members[left[0]]]
        yield group
        left = [lane for lane in left if lane not in group]


def shuffled(mode, lane, b, c):
    """Source lane and predicate, by the manual."""
    clamp, segment = c & 31, c >> 8 & 31
    high, low = lane & segment | clamp & ~segment, lane & segment
    j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": low | b & ~segment & 31}[mode]
    good = j >= high if mode == "up" else j <= high
    return (j if good else lane), int(good)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("width", [1, 8, 16, 32])
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffle(mode, width, mask):
    a = np.random.default_rng(1).integers(0, 1 << 32, 32, np.uint32)
    for offset in (0, 1, 5, 16, 31, 33):
        c = (32 - width) << 8 | (0 if mode == "up" else 31)
        d, p, b, cs = fresh(), fresh(), u32(offset), u32(c)
        number = ["up", "down", "bfly", "idx"].index(mode)
        runtime().vg_shfl(number, ctypes.c_uint32(mask), *map(pointer, (d, p, a, b, cs)))
        for lane in range(32):
            source, good = shuffled(mode, lane, offset & 31, c)
            want = (a[source], good) if mask >> lane & 1 else (POISON, POISON)
            assert (d[lane], p[lane]) == want


def test_shuffle_in_place_and_with_offsets_by_lane():
    a, b, c = u32(LANES * 10).copy(), u32(31 - LANES), u32(31)
    runtime().vg_shfl(3, ctypes.c_uint32(FULL), pointer(a), None, *map(pointer, (a, b, c)))
    assert (a == (31 - LANES) * 10).all()


MEMBERS = [u32(FULL), u32(np.where(LANES < 16, 0xFFFF, 0xFFFF0000)), None]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kind", ["all", "any", "uni", "ballot"])
def test_vote(kind, mask):
    source = random.Random(mask)
    inputs = [0, FULL, mask, ~mask & FULL, source.getrandbits(32)]
    for members in MEMBERS:
        for bits in inputs:
            a, d = u32(bits >> LANES & 1), fresh()
            number = ["all", "any", "uni", "ballot"].index(kind)
            runtime().vg_vote(number, ctypes.c_uint32(mask), *map(pointer, (d, a, members)))
            want = fresh()
            for group in groups_of(mask, u32(FULL) if members is None else members):
                yes = [lane for lane in group if bits >> lane & 1]
                answer = {"all": len(yes) == len(group), "any": bool(yes),
                          "uni": len(yes) in (0, len(group)),
                          "ballot": sum(1 << lane for lane in yes)}[kind]  # fmt: skip
                want[group] = int(answer)
            assert (d == want).all()


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("everyone", [0, 1])
def test_match(everyone, bits, mask):
    kind = np.uint32 if bits == 32 else np.uint64
    for values in (LANES % 3, LANES * 0, (LANES // 8).astype(np.uint64) << np.uint64(bits - 8)):
        a, d, p = values.astype(kind), fresh(), fresh()
        for members in MEMBERS[:2]:
            runtime().vg_match(everyone, bits // 8, ctypes.c_uint32(mask),
                               *map(pointer, (d, p, a, members)))  # fmt: skip
            for group in groups_of(mask, members):
                agree = len({int(a[lane]) for lane in group}) == 1
                whole = sum(1 << lane for lane in group)
                for lane in group:
                    same = sum(1 << o for o in group if a[o] == a[lane])
                    assert d[lane] == ((whole if agree else 0) if everyone else same)
                    assert p[lane] == int(agree)
        assert (d[~active(mask)] == POISON).all()


def as_signed(x):
    return np.asarray(x, np.uint32).view(np.int32)


REDUCTIONS = {
    0: lambda v: int(v.sum(dtype=np.uint64)) & FULL,
    1: lambda v: v.min(),
    2: lambda v: v.max(),
    3: lambda v: int(as_signed(v).min()) & FULL,
    4: lambda v: int(as_signed(v).max()) & FULL,
    5: np.bitwise_and.reduce,
    6: np.bitwise_or.reduce,
    7: np.bitwise_xor.reduce,
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_redux(kind, mask):
    a = np.random.default_rng(kind).integers(0, 1 << 32, 32, np.uint32)
    for members in MEMBERS:
        d, want = fresh(), fresh()
        runtime().vg_redux(kind, 0, ctypes.c_uint32(mask), *map(pointer, (d, a, members)))
        for group in groups_of(mask, u32(FULL) if members is None else members):
            want[group] = REDUCTIONS[kind](a[group])
        assert (d == want).all()


@pytest.mark.parametrize(("flags", "want"), [(0, -4.0), (1, 0.5), (2, None)])
def test_redux_of_floats(flags, want):
    values = np.linspace(-4, 27, 32).astype(np.float32)
    values[4] = 0.5
    values[3] = np.nan
    d = fresh()
    runtime().vg_redux(
        8, flags, ctypes.c_uint32(FULL), pointer(d), pointer(values.view(np.uint32)), None
    )
    got = d.view(np.float32)[0]
    assert np.isnan(got) if want is None else got == want


@pytest.mark.parametrize("mask", MASKS)
def test_elect_takes_the_lowest_lane(mask):
    for members in MEMBERS[:2]:
        d, p, want_d, want_p = fresh(), fresh(), fresh(), fresh()
        runtime().vg_elect(ctypes.c_uint32(mask), *map(pointer, (d, p, members)))
        for group in groups_of(mask, members):
            want_d[group], want_p[group] = min(group), 0
            want_p[min(group)] = 1
        assert (d == want_d).all()
        assert (p == want_p).all()


# --------------------------------------------------------------------------------- 8x8 matrices


def fragment(matrix: np.ndarray) -> np.ndarray:
    """(8, 8) uint16 -> 32 lanes: lane l holds (l / 4, 2 (l % 4)) and the next."""
    return (matrix[LANES // 4, LANES % 4 * 2].astype(np.uint32)
            | matrix[LANES // 4, LANES % 4 * 2 + 1].astype(np.uint32) << 16)  # fmt: skip


def call_matrix(store, shared, mask, count, transposed, registers, address, generic=0):
    fault, wavefronts = ctypes.c_uint32(), ctypes.c_uint64()
    result = shim().shim_matrix(
        store, pointer(shared), ctypes.c_uint64(shared.nbytes), ctypes.c_uint32(mask), count,
        transposed, generic, pointer(registers), pointer(address), ctypes.byref(fault),
        ctypes.byref(wavefronts),
    )  # fmt: skip
    return result, fault.value, wavefronts.value


def shared_rows(stride: int):
    shared = np.random.default_rng(5).integers(0, 65536, 2048, np.uint16)
    address = (LANES * stride).astype(np.uint64)
    matrices = [
        np.stack([shared[(8 * i + r) * stride // 2 :][:8] for r in range(8)]) for i in range(4)
    ]
    return shared, address, matrices


@pytest.mark.parametrize("generic", [0, 1])
@pytest.mark.parametrize("mask", [FULL, 0x0F0F0F0F])
@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(count, transposed, mask, generic):
    shared, address, matrices = shared_rows(48)
    if generic:
        address = address + np.uint64(shared.ctypes.data)
    registers = np.full((4, 32), POISON, np.uint32)
    assert call_matrix(0, shared, mask, count, transposed, registers, address, generic)[:2] == (
        0,
        0,
    )
    for i in range(4):
        want = fragment(matrices[i].T if transposed else matrices[i])
        want = np.where(active(mask) & (i < count), want, POISON)
        assert (registers[i] == want).all()


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix(count, transposed):
    shared, address, matrices = shared_rows(32)
    target = np.zeros_like(shared)
    sources = [m.T if transposed else m for m in matrices]
    registers = np.stack([fragment(m) for m in sources]).astype(np.uint32)
    assert call_matrix(1, target, FULL, count, transposed, registers, address)[:2] == (0, 0)
    for i in range(4):
        for r in range(8):
            got = target[(8 * i + r) * 16 :][:8]
            assert (got == (matrices[i][r] if i < count else 0)).all()


def test_ldmatrix_counts_conflicts_and_finds_bad_rows():
    registers = np.zeros((4, 32), np.uint32)
    shared, address, _ = shared_rows(16)
    assert call_matrix(0, shared, FULL, 4, 0, registers, address) == (0, 0, 4)
    shared = np.zeros(8192, np.uint16)
    assert call_matrix(0, shared, FULL, 4, 0, registers, (LANES * 128).astype(np.uint64))[2] == 32
    shared, address, _ = shared_rows(16)
    address[9] = shared.nbytes
    assert call_matrix(0, shared, FULL, 4, 0, registers, address)[:2] == (1, 1)  # out of bounds
    assert call_matrix(0, shared, FULL, 1, 0, registers, address)[:2] == (
        0,
        0,
    )  # lane 9 names no row
    address[3] += np.uint64(4)
    assert call_matrix(0, shared, FULL, 1, 0, registers, address)[:2] == (1, 2)  # misaligned


def test_movmatrix_transposes():
    matrix = np.random.default_rng(2).integers(0, 65536, (8, 8), np.uint16)
    a, d = fragment(matrix), fresh()
    runtime().vg_movmatrix(ctypes.c_uint32(0xFFFF), pointer(d), pointer(a))
    assert (d == np.where(LANES < 16, fragment(matrix.T), POISON)).all()
