"""Small floating-point formats in numpy, for oracles: all values of a format, and the nearest of them."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np

FORMATS = {
    "e4m3": (4, 3, 7),
    "e5m2": (5, 2, 15),
    "e2m3": (2, 3, 1),
    "e3m2": (3, 2, 3),
    "e2m1": (2, 1, 1),
}
"""Exponent bits, mantissa bits, bias."""


def values_of(name: str) -> np.ndarray:
    """The value of every code; NaN and infinities where the format has them."""
    exponent_bits, mantissa_bits, bias = FORMATS[name]
    code = np.arange(1 << (1 + exponent_bits + mantissa_bits))
    mantissa = (code & (1 << mantissa_bits) - 1) / (1 << mantissa_bits)
    exponent = code >> mantissa_bits & (1 << exponent_bits) - 1
    normal = (1 + mantissa) * 2.0 ** (exponent - bias)
    value = np.where(exponent == 0, mantissa * 2.0 ** (1 - bias), normal)
    if name == "e5m2":
        value = np.where(exponent == 31, np.where(mantissa == 0, np.inf, np.nan), value)
    if name == "e4m3":
        value = np.where((code & 127) == 127, np.nan, value)
    return np.where(code >> (exponent_bits + mantissa_bits), -value, value)


def encode(name: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(values that the format has, their codes) near x."""
    x = np.asarray(x, np.float64)
    if name == "f32":
        return x.astype(np.float32).astype(float), x.astype(np.float32).view(np.uint32)
    if name == "f16":
        return x.astype(np.float16).astype(float), x.astype(np.float16).view(np.uint16).astype(int)
    if name in ("bf16", "tf32"):
        drop = 16 if name == "bf16" else 13
        bits = x.astype(np.float32).view(np.uint32) >> np.uint32(drop) << np.uint32(drop)
        return bits.view(np.float32).astype(float), (
            bits >> np.uint32(16) if drop == 16 else bits
        ).astype(np.int64)
    table = np.where(np.isfinite(values_of(name)), values_of(name), 1e30)
    codes = np.abs(x[..., None] - table).argmin(-1)
    return table[codes], codes


def decode(name: str, codes: np.ndarray) -> np.ndarray:
    """Values of codes."""
    if name == "f32":
        return np.ascontiguousarray(codes, np.uint32).view(np.float32).astype(float)
    if name == "f16":
        return (codes & 0xFFFF).astype(np.uint16).view(np.float16).astype(float)
    return values_of(name)[codes]
