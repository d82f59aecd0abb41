"""ATen operations that become reductions and matrix products."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

from .expressions import compute_dtype, is_float
from .handling import as_ref, implements, pointwise
from .ir import Ref, Size, leaves, product
from .lower import Lowering, Unmatched, dtype_of


def _dims(a: tuple[Any, ...], place: int, rank: int) -> list[int]:
    given = a[place] if len(a) > place else None
    if given is None or given == []:
        return list(range(rank))
    return [d % max(rank, 1) for d in (given if isinstance(given, list) else [given])]


def _reduce(
    state: Lowering, node: Any, kind: str, ref: Ref, dims: list[int], keep: bool, dtype: str = ""
) -> Ref:
    dtype = dtype or dtype_of(node)
    by_value = kind in ("max", "min", "argmax", "argmin", "welford")
    compute = (
        "bool" if kind in ("any", "all") else compute_dtype(ref.value.dtype if by_value else dtype)
    )
    return state.reduce(kind, ref, dims, keep, dtype, compute, node)


@implements(
    "sum.dim_IntList",
    "sum.default",
    "prod.dim_int",
    "prod.default",
    "amax.default",
    "amin.default",
    "any.dim",
    "any.dims",
    "any.default",
    "all.dim",
    "all.default",
    "argmax.default",
    "argmin.default",
    "max.default",
    "min.default",
)
def _plain(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    kind = (
        str(node.target)
        .removeprefix("aten.")
        .split(".")[0]
        .replace("amax", "max")
        .replace("amin", "min")
    )
    dims = _dims(a, 1, len(a[0].dims))
    keep = len(a) > 2 and bool(a[2])
    if not _reduces(a[0], dims) and kind in ("sum", "prod", "max", "min"):
        cast = (
            a[0] if a[0].value.dtype == dtype_of(node) else pointwise(state, "cast", [a[0]], node)
        )
        return _without(cast, dims, keep)
    return _reduce(state, node, kind, a[0], dims, keep)


def _reduces(ref: Ref, dims: list[int]) -> bool:
    return any(leaves(ref.dims[d]) for d in dims)


def _without(ref: Ref, dims: list[int], keep: bool) -> Ref:
    """A reduction over dimensions of size 1: the same values in a shorter shape."""
    return Ref(ref.value, tuple(g for d, g in enumerate(ref.dims) if keep or d not in dims))


def _count(ref: Ref, dims: list[int]) -> Size:
    return product(ref.shape[d] for d in dims)


@implements("mean.dim", "mean.default")
def _mean(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    dims = _dims(a, 1, len(a[0].dims))
    if not _reduces(a[0], dims):
        return _without(a[0], dims, len(a) > 2 and bool(a[2]))
    total = _plain_sum(state, node, a[0], dims, len(a) > 2 and bool(a[2]))
    return pointwise(state, "div", [total, _count(a[0], dims)], node)


def _plain_sum(
    state: Lowering, node: Any, ref: Ref, dims: list[int], keep: bool, kind: str = "sum"
) -> Ref:
    return _reduce(state, node, kind, ref, dims, keep, compute_dtype(dtype_of(node)))


@implements("max.dim", "min.dim")
def _max_dim(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> tuple[Ref, Ref]:
    kind = "max" if "max" in str(node.target) else "min"
    keep = len(a) > 2 and bool(a[2])
    if not _reduces(a[0], [a[1] % max(len(a[0].dims), 1)]):
        zeros = Ref(state.make("const", dtype="int64", detail=0), a[0].dims)
        return _without(a[0], [a[1] % len(a[0].dims)], keep), _without(
            zeros, [a[1] % len(a[0].dims)], keep
        )
    best = _reduce(state, node, kind, a[0], [a[1]], keep, a[0].value.dtype)
    place = _reduce(state, node, f"arg{kind}", a[0], [a[1]], keep, "int64")
    return best, place


def _welford(
    state: Lowering, node: Any, ref: Ref, dims: list[int], keep: bool, correction: float, dtype: str
) -> tuple[Ref, Ref]:
    """(variance, mean), by one pass that keeps mean and sum of squared deviations."""
    compute = compute_dtype(dtype)
    if compute == "float64":
        raise Unmatched(node, "float64 variance")
    held = _reduce(state, node, "welford", ref, dims, keep, compute)
    mean = state.pointwise("welford_mean", [held], dtype, compute, node)
    m2 = state.pointwise("welford_m2", [held], compute, compute, node)
    count: Any = as_ref(state, _count(ref, dims), compute)
    if correction:
        # torch divides by max(0, n - correction)
        count = state.pointwise(
            "sub", [count, state.constant(correction, compute)], compute, compute, node
        )
        count = state.pointwise(
            "maximum", [count, state.constant(0, compute)], compute, compute, node
        )
    return state.pointwise("div", [m2, count], dtype, compute, node), mean


def _correction(a: tuple[Any, ...], k: dict[str, Any]) -> float:
    given = k.get("correction", a[2] if len(a) > 2 and not isinstance(a[2], bool) else None)
    return 1.0 if given is None else float(given)


@implements("var.correction")
def _var(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    dims = _dims(a, 1, len(a[0].dims))
    return _welford(
        state, node, a[0], dims, bool(k.get("keepdim", False)), _correction(a, k), dtype_of(node)
    )[0]


@implements("var_mean.correction")
def _var_mean(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> tuple[Ref, Ref]:
    dims = _dims(a, 1, len(a[0].dims))
    dtype = str(node.meta["val"][0].dtype).removeprefix("torch.")
    return _welford(
        state, node, a[0], dims, bool(k.get("keepdim", False)), _correction(a, k), dtype
    )


@implements("linalg_vector_norm.default")
def _norm(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    order = a[1] if len(a) > 1 else 2
    dims = _dims(a, 2, len(a[0].dims))
    keep = len(a) > 3 and bool(a[3])
    compute = compute_dtype(dtype_of(node))
    size = state.pointwise("abs", [a[0]], compute, compute, node)
    if math.isinf(order):
        return _plain_sum(state, node, size, dims, keep, "max" if order > 0 else "min")
    if order == 1:
        return _plain_sum(state, node, size, dims, keep)
    if order == 2:
        squares = state.pointwise("square", [a[0]], compute, compute, node)
        return pointwise(state, "sqrt", [_plain_sum(state, node, squares, dims, keep)], node)
    if order == 0:
        raise Unmatched(node, "a norm of order 0")
    power = state.constant(order, compute)
    total = _plain_sum(
        state, node, state.pointwise("pow", [size, power], compute, compute, node), dims, keep
    )
    return pointwise(state, "pow", [total, 1.0 / order], node)


@implements("gather.default")
def _gather(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    """One element per row, as the sum over the row of what stands at the wanted place."""
    source, dim, index = a
    rank = len(source.dims)
    dim = dim % rank
    if leaves(index.dims[dim]) or not leaves(source.dims[dim]):
        raise Unmatched(node, "only one element per row can be gathered")
    group = leaves(source.dims[dim])
    counter = Ref(
        state.make("iota", dtype="int64", detail=group, over=group),
        tuple(group if d == dim else () for d in range(rank)),
    )
    here = state.pointwise("eq", [counter, index], "bool", "int64", node)
    compute = compute_dtype(source.value.dtype)
    chosen = state.pointwise(
        "where", [here, source, state.constant(0, compute)], compute, compute, node
    )
    return _plain_sum(state, node, chosen, [dim], True)


@implements("mm.default", "bmm.default")
def _mm(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    if not is_float(dtype_of(node)):
        raise Unmatched(node, "a product of integers")
    return state.contract(a[0], a[1], node, dtype_of(node))
