"""The runtime's collective functions through ctypes, and fragments by the manual's formulas."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes
import subprocess
from functools import cache
from pathlib import Path

import numpy as np

from warpsmith.vgpu import build

FULL = 0xFFFFFFFF
ELEMENTS = [
    "f16",
    "bf16",
    "tf32",
    "e4m3",
    "e5m2",
    "s8",
    "u8",
    "s4",
    "u4",
    "b1",
    "f32",
    "s32",
    "f64",
]
BITS = dict(zip(ELEMENTS, [16, 16, 32, 8, 8, 8, 8, 4, 4, 1, 32, 32, 64]))


class Mma(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint16) for n in "mnk"] + [
        (n, ctypes.c_uint8) for n in ("a", "b", "c", "d", "flags")
    ]


class Wgmma(ctypes.Structure):
    _fields_ = [
        ("shape", Mma),
        ("scale_a", ctypes.c_int8),
        ("scale_b", ctypes.c_int8),
        ("transpose_a", ctypes.c_uint8),
        ("transpose_b", ctypes.c_uint8),
    ]


class Wmma(ctypes.Structure):
    _fields_ = [("rows", ctypes.c_uint16), ("columns", ctypes.c_uint16)] + [
        (n, ctypes.c_uint8) for n in ("element", "column_major", "space", "registers")
    ]


def shape(m, n, k, d, a, b, c, flags=0) -> Mma:
    return Mma(m, n, k, *map(ELEMENTS.index, (a, b, c, d)), flags)


def runtime() -> ctypes.CDLL:
    return build.runtime()


@cache
def shim() -> ctypes.CDLL:
    """The test's own C file, linked against the loaded runtime."""
    runtime()
    source = Path(__file__).with_name("collective_shim.c")
    target = build.environment() / "test_collective_shim.so"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        command = [*build.compiler().command, "-std=gnu11", "-O1", "-fPIC", "-shared", "-w",
                   f"-I{build.RUNTIME_SOURCES}", str(source), "-o", str(target)]  # fmt: skip
        subprocess.run(command, check=True, timeout=120)
    return ctypes.CDLL(str(target))


def pointer(array: np.ndarray | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data if array is not None else None)


def rows(array: np.ndarray):
    """`type *const *` of the rows of a 2-D array."""
    return (ctypes.c_void_p * len(array))(*(r.ctypes.data for r in array))


# ------------------------------------------------------------------------------- number formats


def to_bits(values: np.ndarray, kind: str) -> np.ndarray:
    """Values that the format holds exactly, as raw bits in uint64."""
    if kind == "f64":
        return values.astype(np.float64).view(np.uint64)
    if kind in ("f32", "tf32"):
        return values.astype(np.float32).view(np.uint32).astype(np.uint64)
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint64)
    if kind == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint64)
    if kind in ("e4m3", "e5m2"):
        return _nearest_small(values, kind)
    return values.astype(np.int64).view(np.uint64) & np.uint64((1 << BITS[kind]) - 1)


@cache
def _small_values(kind: str) -> np.ndarray:
    from isa_oracle import NAN, decode

    decoded = (decode(code, kind) for code in range(256))
    return np.array([np.nan if v == NAN else float(v) for v in decoded])


def _nearest_small(values: np.ndarray, kind: str) -> np.ndarray:
    table = np.nan_to_num(_small_values(kind), nan=np.inf)
    distance = np.abs(table[None, :] - values.reshape(-1, 1))
    return distance.argmin(1).astype(np.uint64).reshape(values.shape)


def values_for(kind: str, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Random values that the format holds exactly."""
    if kind == "f64":
        return rng.standard_normal(size)
    if kind in ("f32", "tf32", "bf16", "f16"):
        keep = {"f32": 24, "tf32": 11, "bf16": 8, "f16": 11}[kind]
        return np.round(rng.uniform(-1, 1, size) * 2 ** (keep - 1)) / 2 ** (keep - 1)
    if kind in ("e4m3", "e5m2"):
        finite = _small_values(kind)
        finite = finite[np.isfinite(finite) & (np.abs(finite) <= 16) & (np.abs(finite) > 0.01)]
        return rng.choice(finite, size)
    bits = BITS[kind]
    low, high = (-(1 << bits - 1), 1 << bits - 1) if kind[0] == "s" else (0, 1 << bits)
    return rng.integers(low, high, size).astype(np.float64)


# ------------------------------------------------------------------- fragments of the PTX manual


def _pack(elements: np.ndarray, kind: str) -> np.ndarray:
    """(32, n) raw bits -> (registers, 32), low element first."""
    bits = BITS[kind]
    if bits == 64:
        return np.ascontiguousarray(elements.T)
    per = 32 // bits
    grouped = elements.reshape(32, -1, per)
    shifts = (np.arange(per) * bits).astype(np.uint64)
    return np.ascontiguousarray((grouped << shifts).sum(2, dtype=np.uint64).astype(np.uint32).T)


def _places(count: int, per: int, tall: int):
    lane = np.arange(32)[:, None]
    i = np.arange(count)[None, :]
    register = i // per
    row = lane // 4 + 8 * (register % tall)
    column = register // tall * 4 * per + lane % 4 * per + i % per
    return row, column


def a_fragment(matrix: np.ndarray, kind: str) -> np.ndarray:
    per = max(32 // BITS[kind], 1)
    row, column = _places(matrix.size // 32, per, matrix.shape[0] // 8)
    return _pack(to_bits(matrix, kind)[row, column], kind)


def b_fragment(matrix: np.ndarray, kind: str) -> np.ndarray:
    return a_fragment(np.ascontiguousarray(matrix.T), kind)


def c_places(m: int, n: int = 8):
    """Rows and columns of a lane's accumulators, (32, m n / 32)."""
    lane, i = np.arange(32)[:, None], np.arange(m * n // 32)[None, :]
    tall = m // 8
    row = lane // 4 + 8 * (i // 2 % tall)
    return row, i // (2 * tall) * 8 + lane % 4 * 2 + i % 2


def c_fragment(matrix: np.ndarray, kind: str) -> np.ndarray:
    row, column = c_places(*matrix.shape)
    return _pack(to_bits(matrix, kind)[row, column], kind)


def c_matrix(registers: np.ndarray, m: int, n: int, kind: str) -> np.ndarray:
    """The matrix of accumulator registers, as float64."""
    if kind == "f16":
        lanes = np.ascontiguousarray(registers.T).view(np.float16).astype(np.float64)
    else:
        kinds = {"f32": np.float32, "s32": np.int32, "f64": np.float64}
        lanes = registers.T.copy().view(kinds[kind]).astype(np.float64)
    out = np.zeros((m, n))
    row, column = c_places(m, n)
    out[row, column] = lanes
    return out
