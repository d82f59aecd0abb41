"""Expressions of a nest as C++: written once, for a scalar and for a vector of lanes."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Mapping

from .ir import E, Nest, walk

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "eq": "==", "ne": "!=",
    "and": "&", "or": "|",
}  # fmt: skip
_FUNCTIONS = {
    "exp": "exp_", "expm1": "expm1_", "log": "log_", "log1p": "log1p_", "tanh": "tanh_", "sqrt": "sqrt_",
    "floor": "floor_", "sin": "sin_", "cos": "cos_", "erf": "erf_", "abs": "abs_", "pow": "pow_",
    "max": "maximum", "min": "minimum",
}  # fmt: skip


def literal(value: float) -> str:
    """
    >>> literal(0.1), literal(float("-inf"))
    ('Scalar(0.1)', '-std::numeric_limits<Scalar>::infinity()')
    """
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}std::numeric_limits<Scalar>::infinity()"
    if math.isnan(value):
        return "std::numeric_limits<Scalar>::quiet_NaN()"
    return f"Scalar({value!r})"


def text(e: E, names: Mapping[int, str]) -> str:
    """C++ of an expression over T; `names` are the loads', `acc` is the reduction's result."""
    if e.op == "load":
        return names[e.args[0]]
    if e.op == "const":
        return f"all<T>({literal(e.args[0])})"
    if e.op == "acc":
        return "acc"
    if e.op == "at":
        number, row, stride, rows = e.args
        return f"row_of({_pointer(names[number])}, {text(row, names)}, {stride}, {rows})"
    parts = [text(a, names) for a in e.args]
    if e.op in _INFIX:
        return f"({parts[0]} {_INFIX[e.op]} {parts[1]})"
    if e.op == "neg":
        return f"(-{parts[0]})"
    if e.op == "not":
        return f"(!{parts[0]})"
    if e.op == "select":
        return f"({parts[0]} ? {parts[1]} : {parts[2]})"
    return f"{_FUNCTIONS[e.op]}(T({'), T('.join(parts)}))"


def loads_of(e: E) -> list[int]:
    """Numbers of the loads that an expression uses, ascending.

    >>> from .ir import load
    >>> loads_of(load(2) * load(0))
    [0, 2]
    """
    return sorted({x.args[0] for x in walk(e) if x.op in ("load", "at")})


def has_rows(n: Nest) -> bool:
    """Does the nest pick rows by a value? Then it runs element by element."""
    return any(e.op == "at" for x in (n.body, n.finish) for e in walk(x))


def _pointer(place: str) -> str:
    """
    >>> _pointer("p1[4 * i0]")
    '(p1 + 4 * i0)'
    """
    name, _, index = place.partition("[")
    return f"({name} + {index[:-1]})"
