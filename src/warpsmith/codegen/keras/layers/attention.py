"""Attention: dot-product, additive, multi-head and grouped-query, with all masks Keras knows."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from ..errors import refuse
from ..ir import call
from . import Builder, Call, Tensor, lowers, weights_of
from .activation import LARGE_NEGATIVE
from .core import einsum_dense


def causal(b: Builder, queries: int, keys: int) -> Tensor:
    """1 where a key is not after its query."""
    return b.constant(np.tril(np.ones((queries, keys))))


def masked_softmax(b: Builder, scores: Tensor, masks: list[Tensor], *, zero: bool) -> Tensor:
    """Softmax over the last axis where all masks are 1; `zero`: rows without a key give 0."""
    if not masks:
        return b.softmax(scores, [-1])
    hold = lambda s, *m: call("select", call("lt", 0.5, _all(m)), s, LARGE_NEGATIVE)  # noqa: E731
    y = b.softmax(b.map(hold, scores, *masks), [-1])
    if not zero:
        return y
    return b.map(lambda v, *m: call("select", call("lt", 0.5, _all(m)), v, 0.0), y, *masks)


def _all(values: Any) -> Any:
    return reduce(lambda x, y: x * y, values)


@lowers("Attention", "AdditiveAttention")
def attention(b: Builder, layer: Any, c: Call) -> Any:
    """inputs: [query (T, d), value (S, v), key (S, d) if given]."""
    query, value = c.x[0], c.x[1]
    key = c.x[2] if len(c.x) > 2 else value
    given = c.get(1, "mask") or [t.mask for t in c.x]
    scores = _additive(b, layer, query, key) if _adds(layer) else _dot(b, layer, query, key)
    masks = [] if given[1] is None else [given[1].expand(0)]
    if c.kwargs.get("use_causal_mask"):
        masks.append(causal(b, *scores.shape))
    if masks:  # Keras takes 1e9 off the score of a masked key
        off = lambda s, *m: s - 1e9 * (1.0 - _all(m))  # noqa: E731
        weights = b.softmax(b.map(off, scores, *masks), [-1])
    else:
        weights = b.softmax(scores, [-1])
    out = b.einsum("ts,sv->tv", weights, value)
    if given[0] is not None:
        seen = given[0].expand(1)
        out = b.map(lambda v, m: call("select", call("ne", m, 0.0), v, 0.0), out, seen).masked(
            given[0]
        )
    return [out, weights] if c.kwargs.get("return_attention_scores") else out


def _adds(layer: Any) -> bool:
    return type(layer).__name__ == "AdditiveAttention" or layer.score_mode == "concat"


def _dot(b: Builder, layer: Any, query: Tensor, key: Tensor) -> Tensor:
    scale = weights_of(layer.scale) if layer.scale is not None else None
    scores = b.einsum("td,sd->ts", query, key)
    return scores if scale is None else b.map(lambda v, w: v * w, scores, b.constant(scale))


def _additive(b: Builder, layer: Any, query: Tensor, key: Tensor) -> Tensor:
    """Σ scale · tanh(query + key); with score_mode="concat" the scale is inside."""
    q = query.expand(1).broadcast((query.shape[0], key.shape[0], query.shape[1]))
    scale = weights_of(layer.scale) if layer.scale is not None else np.ones(1)
    inside = type(layer).__name__ != "AdditiveAttention"
    outer = weights_of(layer.concat_score_weight) if inside else np.ones(())

    def body(q, k, s):
        return call("tanh", s * (q + k)) if inside else s * call("tanh", q + k)

    scores = b.reduce(
        "add", q, [2], others=[key.expand(0), b.constant(scale)], body=body, keep=False
    )
    return b.map(lambda v: v * float(outer), scores) if inside else scores


@lowers("MultiHeadAttention", "GroupQueryAttention", "GroupedQueryAttention")
def multi_head(b: Builder, layer: Any, c: Call) -> Any:
    """query (batch axes, T…, features); T… are the layer's attention axes, all but the features by default."""
    query, value = c.args[0], c.args[1] if len(c.args) > 1 else c.kwargs["value"]
    key = c.get(2, "key")
    axes = _attention_axes(layer, query.rank)
    masks = _masks(b, layer, c, query, value, key)
    if masks and query.rank > 2:
        raise refuse(
            layer, "a mask over inputs of more than one sequence axis", "inputs (T, features)"
        )
    key = value if key is None else key
    q, k, v = (
        einsum_dense(b, getattr(layer, name), Call([t]))
        for name, t in (("_query_dense", query), ("_key_dense", key), ("_value_dense", value))
    )
    heads = q.shape[-2]
    k, v = _repeat(b, k, heads), _repeat(b, v, heads)
    left, right = "".join("rstuvw"[: q.rank - 2]), list("rstuvw"[: k.rank - 2])
    for axis in axes:
        right[axis] = right[axis].upper()
    keys = "".join(right)
    batch = "".join(x for i, x in enumerate(left) if i not in axes)
    rows = f"{batch}n{''.join(left[a] for a in axes)}{''.join(right[a] for a in axes)}"
    scale = 1.0 / math.sqrt(q.shape[-1])
    scores = b.map(lambda s: s * scale, b.einsum(f"{left}nd,{keys}nd->{rows}", q, k))
    last = range(scores.rank - len(axes), scores.rank)
    if masks:
        zero = type(layer).__name__ == "MultiHeadAttention"
        weights = masked_softmax(b, scores, masks, zero=zero)
    else:
        weights = b.softmax(scores, list(last))
    mixed = b.einsum(f"{rows},{keys}nd->{left}nd", weights, v)
    if getattr(layer, "_use_gate", getattr(layer, "use_gate", False)):
        gate = einsum_dense(b, layer._gate_dense, Call([query]))
        mixed = b.map(lambda x, g: x * g, mixed, gate)
    out = einsum_dense(b, layer._output_dense, Call([mixed])).masked(query.mask)
    return [out, weights] if c.kwargs.get("return_attention_scores") else out


def _attention_axes(layer: Any, rank: int) -> list[int]:
    """Of a tensor without the batch."""
    given = getattr(layer, "_attention_axes", None)
    return [0] if given is None else [a - 1 for a in given]


def band(b: Builder, queries: int, keys: int, window: int) -> Tensor:
    """1 where a key is less than `window` from its query."""
    apart = np.abs(np.arange(queries)[:, None] - np.arange(keys)[None])
    return b.constant((apart < window).astype(np.float64))


def _masks(b: Builder, layer: Any, c: Call, query: Tensor, value: Tensor, key: Any) -> list[Tensor]:
    """Everything that hides a key, as tensors that broadcast to (heads, queries, keys)."""
    masks = []
    query_mask = c.kwargs.get("query_mask") or query.mask
    value_mask = c.kwargs.get("value_mask") or value.mask
    key_mask = c.kwargs.get("key_mask") or (key.mask if key is not None else None)
    if query_mask is not None:
        masks.append(query_mask.expand(1))
    masks += [m.expand(0) for m in (value_mask, key_mask) if m is not None]
    if c.kwargs.get("use_causal_mask"):
        masks.append(causal(b, query.shape[0], value.shape[0]))
    given = c.kwargs.get("attention_mask")
    if given is not None:
        masks.append(given)
    window = getattr(layer, "_sliding_window", getattr(layer, "sliding_window", None))
    if window is not None:
        masks.append(band(b, query.shape[0], value.shape[0], window))
    return masks


def _repeat(b: Builder, x: Tensor, heads: int) -> Tensor:
    """Key and value heads (…, n, d) shared by heads / n query heads each."""
    own = x.shape[-2]
    if own == heads:
        return x
    at = x.rank - 1
    wide = x.expand(at).broadcast((*x.shape[:at], heads // own, x.shape[-1]))
    return b.reshape(b.copy(wide), (*x.shape[:-2], heads, x.shape[-1]))
