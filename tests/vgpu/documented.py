"""How far NVIDIA's manuals let approximate functions be from the exact value, and where they say so.

Sources: "PTX" is the PTX ISA manual's notes on the instruction, "CUDA" the table of intrinsic
functions in the CUDA programming guide's appendix on mathematical functions.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

Bounds = tuple[np.ndarray, np.ndarray]
"""The least and greatest results allowed, as float64: infinite where the manuals say nothing, NaN
where the result is NaN."""

LARGEST, LEAST = 2.0**128 - 2.0**104, 2.0**-149  # of f32


def _around(exact: np.ndarray, error: np.ndarray) -> Bounds:
    return exact - error, exact + error


def _circular(exact: Callable, within_pi: float, a: np.ndarray) -> Bounds:
    """__sinf, __cosf. CUDA: 2^-21.41 and 2^-21.19 in [-pi, pi]. PTX, sin and cos: 2^-20.5 in
    [-2pi, 2pi], 2^-14.7 in [-100pi, 100pi], best effort beyond; NaN for infinities."""
    size = np.abs(a) / np.pi
    error = np.select([size <= 1, size <= 2, size <= 100, np.isfinite(a)],
                      [within_pi, 2.0**-20.5, 2.0**-14.7, np.inf], np.nan)  # fmt: skip
    return _around(exact(a), error)


def _power(a: np.ndarray, b: np.ndarray) -> Bounds:
    """__powf. CUDA: its error is that of exp2f(b * __log2f(a)). PTX, lg2: absolute error 2^-22 in
    (0.5, 2), relative error 2^-22 elsewhere. PTX, ex2: 2 units in the last place."""
    logarithm = np.log2(a)
    log_error = 2.0**-22 * np.maximum(1, np.abs(logarithm))
    exponent = b * logarithm
    exponent_error = np.abs(b) * log_error
    exponent_error += 2.0**-24 * (np.abs(exponent) + exponent_error)  # the product is rounded
    last_places = 2 * 2.0**-23
    low = np.exp2(exponent - exponent_error) * (1 - last_places) - 2 * LEAST
    high = np.exp2(exponent + exponent_error) * (1 + last_places) + 2 * LEAST
    certain = ~np.isfinite(exponent)  # 0, infinity or NaN whatever the errors
    low, high = (np.where(certain, np.exp2(exponent), x) for x in (low, high))
    return low, np.where(high > LARGEST, np.inf, high)


def _tanh(error: float, a: np.ndarray) -> Bounds:
    """tanh.approx. PTX: absolute error 2^-10.987 for f16, 2^-8 for bf16."""
    return _around(np.tanh(a), np.where(np.isnan(a), np.nan, error))


DOCUMENTED: dict[tuple[str, str], Callable[..., Bounds]] = {
    ("float", "__sinf(a)"): partial(_circular, np.sin, 2.0**-21.41),
    ("float", "__cosf(a)"): partial(_circular, np.cos, 2.0**-21.19),
    ("float", "__powf(a,b)"): _power,
    ("half1", "htanh_approx(a)"): partial(_tanh, 2.0**-10.987),
    ("bf16", "htanh_approx(a)"): partial(_tanh, 2.0**-8),
}
"""(result type, expression) of intrinsics.py -> the bounds of its results, from float64 arguments."""


def values(kind: str, raw: np.ndarray) -> np.ndarray:
    """The numbers that bytes of a type hold, as float64."""
    names = {"half1": np.float16, "half2": np.float16, "float": np.float32, "double": np.float64}
    if kind.startswith("bf16"):
        numbers = (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    else:
        numbers = raw.view(names[kind])
    with np.errstate(invalid="ignore"):  # signaling NaNs
        return numbers.astype(np.float64)


def undocumented(kernel, results: np.ndarray, arguments: list[np.ndarray]) -> np.ndarray:
    """Which results the manuals do not allow; `results` and `arguments` are raw bytes."""
    needed = len([x for x in "abc" if x in kernel.expression.split("(")[1]])
    with np.errstate(all="ignore"):
        given = [values(t, x) for t, x in zip(kernel.sources[:needed], arguments)]
        low, high = DOCUMENTED[kernel.result, kernel.expression](*given)
    got = values(kernel.result, results)
    nan = np.isnan(low) | np.isnan(high)
    return np.where(nan, ~np.isnan(got), ~((low <= got) & (got <= high)))
