"""Rewrite a region's values before they are written out: equal ones once, softmax in one pass,
variances in two."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from typing import Any

from .expressions import compute_dtype
from .ir import Region, Value, ancestors, leaves, product


def merged(region: Region) -> Region:
    """The region with equal subexpressions computed once. The original stays as it is."""
    seen: dict[object, Value] = {}
    renewed: dict[Value, Value] = {}
    for value in region.values():
        arguments = tuple(renewed[a] for a in value.args)
        if value.op == "cast" and _same_register(value, arguments[0]):
            renewed[value] = arguments[0]
            continue
        key = (
            value.op,
            tuple(map(id, arguments)),
            _key(value),
            value.dtype,
            value.compute,
            value.axes,
        )
        if key not in seen:
            seen[key] = dataclasses.replace(value, args=arguments)
        renewed[value] = seen[key]
    return _with(region, renewed)


def _same_register(cast: Value, value: Value) -> bool:
    """Whether a cast changes nothing once values are in registers: float16 to float32 and back."""
    same = compute_dtype(cast.dtype) == compute_dtype(value.dtype)
    return same and cast.axes == value.axes


def _with(region: Region, renewed: dict[Value, Value]) -> Region:
    stores = [(renewed[v], dims, buffer) for v, dims, buffer in region.stores]
    return Region(region.kind, region.outer, region.inner, region.depth, stores)


def _key(value: Value) -> object:
    if value.op == "load":
        buffer, dims = value.detail
        return id(buffer), tuple(leaves(g) for g in dims)
    if value.op == "reduce":
        return value.detail[0], frozenset(leaves(value.detail[1]))
    if value.op == "iota":
        return leaves(value.detail)
    return type(value.detail).__name__, str(value.detail)


def online(region: Region) -> Region | None:
    """The region with each pair "maximum, then sum of exp(x - maximum)" as one running pair.

    Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018. None if there is no
    such pair.
    """
    values = region.values()
    renewed: dict[Value, Value] = {}
    pairs: dict[Value, Value] = {}  # the operand -> its online reduction
    for value in values:
        source = _softmax_sum(value)
        if source is not None and source not in pairs:
            pairs[source] = dataclasses.replace(
                value, args=(source,), detail=("online", value.detail[1]), name="softmax"
            )
    if not pairs:
        return None
    for value in values:
        source = _softmax_sum(value)
        if source is not None:
            held = _renew(pairs[source], renewed)
            renewed[value] = dataclasses.replace(value, op="online_sum", args=(held,), detail=None)
        elif _is_reduce(value, "max") and value.args[0] in pairs:
            held = _renew(pairs[value.args[0]], renewed)
            renewed[value] = dataclasses.replace(value, op="online_max", args=(held,), detail=None)
        else:
            _renew(value, renewed)
    return _with(region, renewed)


def two_passes(region: Region) -> Region:
    """The region with each Welford reduction as two sums: of the values, then of the squares of what
    lies between them and their mean. For rows in registers, where a second pass reads nothing."""
    renewed: dict[Value, Value] = {}
    for value in region.values():
        if value.op in ("welford_mean", "welford_m2"):
            mean, m2 = _moments(value.args[0], renewed[value.args[0].args[0]])
            renewed[value] = mean if value.op == "welford_mean" else m2
        elif not _is_reduce(value, "welford"):
            _renew(value, renewed)
    return _with(region, renewed)


def _moments(welford: Value, source: Value) -> tuple[Value, Value]:
    """The mean of what a Welford reduction takes in, and the sum of squared deviations from it."""
    kind: dict[str, Any] = {"dtype": welford.compute, "compute": welford.compute}
    along = {**kind, "over": tuple(dict.fromkeys((*source.over, *welford.over)))}
    columns = welford.detail[1]
    size = product(a.size for a in leaves(columns))
    whole = isinstance(size, int)
    count = Value("const" if whole else "size", dtype="int64", detail=size)
    fields = {**kind, "over": welford.over, "detail": ("sum", columns)}
    total = Value("reduce", (source,), name="sum", **fields)
    mean = Value("div", (total, count), name="mean", over=welford.over, **kind)
    deviation = Value("sub", (source, mean), name="deviation", **along)
    square = Value("square", (deviation,), name="squared", **along)
    return mean, Value("reduce", (square,), name="m2", **fields)


def _renew(value: Value, renewed: dict[Value, Value]) -> Value:
    if value not in renewed:
        renewed[value] = dataclasses.replace(value, args=tuple(renewed[a] for a in value.args))
    return renewed[value]


def _is_reduce(value: Value, kind: str) -> bool:
    return value.op == "reduce" and value.detail[0] == kind


def _softmax_sum(value: Value) -> Value | None:
    """x if the value is sum(exp(x - max(x))) in float32, else None."""
    if not _is_reduce(value, "sum") or value.compute != "float32" or value.args[0].op != "exp":
        return None
    difference = value.args[0].args[0]
    if difference.op != "sub":
        return None
    source, top = difference.args
    inside = [v for v in ancestors([top]) if v.op == "reduce"]
    if len(inside) != 1 or not _is_reduce(inside[0], "max") or inside[0].args[0] is not source:
        return None
    # logsumexp guards an infinite maximum with a where: the running pair would lose that
    plain = top is inside[0]
    return source if plain else None
