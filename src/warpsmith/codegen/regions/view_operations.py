"""ATen operations that only look at a tensor in another way: no kernel runs for them."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

from .handling import host_size, implements, reshaped
from .ir import Axis, Conflict, Ref, leaves, regroup
from .lower import Lowering, shape_of, size_of


@implements("view.default", "reshape.default", "_unsafe_view.default")
def _view(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    try:
        return Ref(a[0].value, regroup(a[0].dims, shape_of(node)))
    except Conflict:
        buffer = state.output(a[0]) if a[0].value.op != "load" else state.store(a[0])
        return state.load(reshaped(state, buffer, shape_of(node)))


@implements("permute.default")
def _permute(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    return Ref(a[0].value, tuple(a[0].dims[d] for d in a[1]))


@implements("t.default")
def _t(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    return Ref(a[0].value, tuple(reversed(a[0].dims)))


@implements("transpose.int")
def _transpose(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    dims = list(a[0].dims)
    dims[a[1]], dims[a[2]] = dims[a[2]], dims[a[1]]
    return Ref(a[0].value, tuple(dims))


@implements("unsqueeze.default")
def _unsqueeze(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    place = a[1] % (len(a[0].dims) + 1)
    return Ref(a[0].value, (*a[0].dims[:place], (), *a[0].dims[place:]))


@implements("squeeze.dims", "squeeze.dim", "squeeze.default")
def _squeeze(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    rank = len(a[0].dims)
    chosen = (
        range(rank)
        if len(a) < 2
        else [d % rank for d in (a[1] if isinstance(a[1], list) else [a[1]])]
    )
    return Ref(
        a[0].value, tuple(g for d, g in enumerate(a[0].dims) if d not in chosen or leaves(g))
    )


@implements("expand.default")
def _expand(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    shape = shape_of(node)
    old = ((),) * (len(shape) - len(a[0].dims)) + a[0].dims
    dims = tuple(g if leaves(g) or s == 1 else (Axis(s),) for g, s in zip(old, shape))
    return Ref(a[0].value, dims)


@implements("select.int")
def _select(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    return state.host_view(a[0], f".select({a[1]}, {host_size(state, a[2])})", shape_of(node))


@implements("slice.Tensor")
def _slice(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Ref:
    given = dict(zip(("dim", "start", "end", "step"), a[1:]))
    dim, start, step = given.get("dim", 0), given.get("start"), given.get("step", 1)
    end = given.get("end")
    if a[0].shape == shape_of(node):
        return a[0]
    rank = len(a[0].dims)
    end = "" if end is None or (isinstance(end, int) and end >= 2**62) else host_size(state, end)
    span = f"{host_size(state, start or 0)}:{end}" + (f":{step}" if step != 1 else "")
    index = ", ".join([":"] * (dim % rank) + [span])
    return state.host_view(a[0], f"[{index}]", shape_of(node))


@implements("split_with_sizes.default")
def _split(state: Lowering, node: Any, a: tuple[Any, ...], k: dict[str, Any]) -> tuple[Ref, ...]:
    dim, parts, start = (a[2] if len(a) > 2 else 0), [], 0
    for size, meta in zip(a[1], node.meta["val"]):
        shape = tuple(size_of(s) for s in meta.shape)
        call = f".narrow({dim}, {host_size(state, start)}, {host_size(state, size)})"
        parts.append(state.host_view(a[0], call, shape))
        start = start + size
    return tuple(parts)
