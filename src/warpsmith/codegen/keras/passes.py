"""Make a loop program smaller and faster without changing what it computes.

fuse: an elementwise nest joins the nest that makes its input (bias, activation, residual, output).
fold: scales and shifts that are weights move into the weights before them (batch normalization).
collapse: neighboring dimensions that every access walks as one become one.
plan: working buffers share memory when their lives do not overlap.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from . import ir
from .ir import ACC, E, Loop, Nest, Statement, View

ALIGN = 16  # scalars


def optimize(program: ir.Program) -> ir.Program:
    """All passes but the memory plan."""
    statements = [_canonical(s) for s in program.statements]
    statements = _fuse_lists(program, statements)
    constants = dict(program.constants)
    statements = [_fold(s, constants) for s in statements]
    statements = [_canonical(s) for s in statements]
    used = {v.buffer for n in ir.nests(statements) for v in (*n.loads, n.out)}
    return replace(
        program,
        statements=statements,
        buffers={k: v for k, v in program.buffers.items() if k in used},
        constants={k: v for k, v in constants.items() if k in used},
    )


# -------------------------------------------------------------------------------- collapse


def _canonical(s: Statement) -> Statement:
    if isinstance(s, Loop):
        return replace(s, body=tuple(_canonical(x) for x in s.body))
    return collapse(s)


def collapse(n: Nest) -> Nest:
    """Dimensions of extent 1 dropped, neighbors that all accesses walk as one merged."""
    keep: list[list[int]] = []  # groups of dimensions, each outermost first
    for d, extent in enumerate(n.extents):
        if extent == 1:
            continue
        last = keep[-1][-1] if keep else None
        if last is not None and _same_kind(n, last, d) and _one_walk(n, last, d):
            keep[-1].append(d)
        else:
            keep.append([d])
    extents = tuple(int(np.prod([n.extents[d] for d in group])) for group in keep)
    inner = [group[-1] for group in keep]
    parallel = sum(1 for group in keep if group[-1] < n.parallel)
    full = n.scatter
    out_dims = inner if full else inner[:parallel]
    return replace(
        n,
        extents=extents,
        parallel=parallel,
        loads=tuple(replace(v, strides=tuple(v.strides[d] for d in inner)) for v in n.loads),
        out=replace(n.out, strides=tuple(n.out.strides[d] for d in out_dims)),
    )


def _same_kind(n: Nest, a: int, b: int) -> bool:
    return (a < n.parallel) == (b < n.parallel)


def _one_walk(n: Nest, a: int, b: int) -> bool:
    views = [v.strides for v in n.loads]
    if b < n.parallel or n.scatter:
        views.append(n.out.strides)
    return all(s[a] == s[b] * n.extents[b] for s in views)


# ------------------------------------------------------------------------------------ fuse


def _fuse_lists(program: ir.Program, statements: Sequence[Statement]) -> list[Statement]:
    readers, writers = _uses(statements)
    inputs = {port.buffer for port in (*program.inputs, *program.outputs)}
    fixed = inputs | set(program.states) | set(program.constants)

    def once(buffer: str) -> bool:
        return buffer not in fixed and readers.get(buffer) == 1 and writers.get(buffer) == 1

    return _fuse(program, statements, once)


def _fuse(program: ir.Program, statements: Sequence[Statement], once) -> list[Statement]:
    out: list[Statement] = []
    for s in statements:
        if isinstance(s, Loop):
            out.append(replace(s, body=tuple(_fuse(program, s.body, once))))
            continue
        made = s
        while (joined := _join_previous(program, out, made, once)) is not None:
            made = joined
        out.append(made)
    return out


def _uses(statements) -> tuple[dict[str, int], dict[str, int]]:
    readers: dict[str, int] = {}
    writers: dict[str, int] = {}
    for n in ir.nests(statements):
        for v in n.loads:
            readers[v.buffer] = readers.get(v.buffer, 0) + 1
        writers[n.out.buffer] = writers.get(n.out.buffer, 0) + 1
    return readers, writers


def _join_previous(program: ir.Program, done: list[Statement], second: Nest, once) -> Nest | None:
    """`second` joined with the nest that makes one of its inputs; that one leaves `done`."""
    if second.combine or second.scatter or any(e.op == "at" for e in ir.walk(second.body)):
        return None
    for i, v in enumerate(second.loads):
        if not once(v.buffer) or v.outer:
            continue
        for at in range(len(done) - 1, -1, -1):
            first = done[at]
            if isinstance(first, Loop) or first.out.buffer != v.buffer:
                continue
            reads = {x.buffer for x in first.loads}
            written = {n.out.buffer for n in ir.nests(done[at + 1 :])} | {second.out.buffer}
            if first.scatter or reads & written:
                break
            joined = _join(first, second, i, program.buffers[v.buffer])
            if joined is not None:
                del done[at]
                return joined
            break
    return None


def _join(first: Nest, second: Nest, i: int, size: int) -> Nest | None:
    """first, finished by second's expression. Both must walk the whole buffer, each once."""
    mine = _refined(first.extents[: first.parallel], first.out.strides, second, i, size)
    theirs = _refined(second.extents, second.loads[i].strides, first, None, size)
    if mine is None or theirs is None or first.out.offset or second.loads[i].offset:
        return None
    if first.out.outer:
        return None
    a, b = _split(first, mine), _split(second, theirs)
    order = _matching(a.out.strides, b.loads[i].strides)
    if order is None:
        return None

    def spread(v: View, reduced: int) -> View:
        strides = tuple(v.strides[d] for d in order) + (0,) * reduced
        return replace(v, strides=strides)

    reduced = len(a.extents) - a.parallel
    loads = list(a.loads)
    places: dict[int, int] = {}
    for j, v in enumerate(b.loads):
        if j != i:
            places[j] = len(loads)
            loads.append(spread(v, reduced))
    value = a.finish if a.combine else a.body

    def change(e: E) -> E | None:
        if e.op != "load":
            return None
        return value if e.args[0] == i else ir.load(places[e.args[0]])

    merged = ir.substitute(b.body, change)
    out = replace(b.out, strides=tuple(b.out.strides[d] for d in order))
    note = first.note if first.note == second.note else f"{first.note}; {second.note}"
    if a.combine:
        return replace(a, loads=tuple(loads), finish=merged, out=out, note=note)
    return replace(a, loads=tuple(loads), body=merged, out=out, note=note)


def _refined(extents, strides, other: Nest, i: int | None, size: int) -> list[list[int]] | None:
    """How to split each dimension so that both walks have the same steps; None if impossible.

    A walk is dense when its strides, ascending, are products of the extents before.
    """
    if i is None:
        pairs = list(zip(other.out.strides, other.extents[: other.parallel]))
    else:
        pairs = list(zip(other.loads[i].strides, other.extents))
    if not (_dense(zip(strides, extents), size) and _dense(pairs, size)):
        return None
    cuts = sorted({s for s, _ in pairs} | {size})
    out = []
    for stride, extent in zip(strides, extents):
        inner = [c for c in cuts if stride < c < stride * extent]
        steps = [stride, *inner, stride * extent]
        if any(b % a for a, b in itertools.pairwise(steps)):
            return None
        out.append([b // a for a, b in itertools.pairwise(steps)][::-1])
    return out


def _dense(pairs, size: int) -> bool:
    expected = 1
    for stride, extent in sorted(pairs):
        if stride != expected:
            return False
        expected *= extent
    return expected == size


def _split(n: Nest, parts: list[list[int]]) -> Nest:
    """Parallel dimensions split into the given factors, outermost first."""
    extents: list[int] = []
    for factors in parts:
        extents += factors
    reduced = n.extents[n.parallel :]

    def strides(v: tuple[int, ...], full: bool) -> tuple[int, ...]:
        out: list[int] = []
        for d, factors in enumerate(parts):
            below = [int(np.prod(factors[k + 1 :])) for k in range(len(factors))]
            out += [v[d] * b for b in below]
        return tuple(out) + (v[len(parts) :] if full else ())

    return replace(
        n,
        extents=(*extents, *reduced),
        parallel=len(extents),
        loads=tuple(replace(v, strides=strides(v.strides, True)) for v in n.loads),
        out=replace(n.out, strides=strides(n.out.strides, n.scatter)),
    )


def _matching(a: Sequence[int], b: Sequence[int]) -> list[int] | None:
    """For each dimension of a, the one of b with the same stride."""
    if sorted(a) != sorted(b):
        return None
    return [b.index(s) for s in a]


# ------------------------------------------------------------------------------------ fold


def _fold(s: Statement, constants: dict[str, np.ndarray]) -> Statement:
    if isinstance(s, Loop):
        return replace(s, body=tuple(_fold(x, constants) for x in s.body))
    while (made := _fold_scale(s, constants)) is not None:
        s = made
    return s


def _fold_scale(n: Nest, constants: dict[str, np.ndarray]) -> Nest | None:
    """Σ x·w, then (… + b)·s + t anywhere in the finish, with weights b, s, t: into w and b."""
    if n.combine != "add" or n.body.op != "mul" or any(a.op != "load" for a in n.body.args):
        return None
    sides = [a.args[0] for a in n.body.args]
    weights = [i for i in sides if n.loads[i].buffer in constants and not n.loads[i].outer]
    if len(weights) != 1:
        return None
    w = weights[0]
    for e in ir.walk(n.finish):
        found = _affine(e, n, constants)
        if found is None:
            continue
        base, scale, shift = found
        if not _within(n, scale, w):
            continue
        return _with_scale(n, e, w, base, scale, shift, constants)
    return None


def _affine(e: E, n: Nest, constants) -> tuple[int | None, int, int] | None:
    """(load of b or None, load of s, load of t) when e is (ACC + b) · s + t."""

    def weight(x: E) -> int | None:
        if x.op != "load" or n.loads[x.args[0]].buffer not in constants or n.loads[x.args[0]].outer:
            return None
        return x.args[0]

    if e.op != "add" or e.args[0].op != "mul" or (t := weight(e.args[1])) is None:
        return None
    value, scale = e.args[0].args
    if (s := weight(scale)) is None:
        return None
    if value == ACC:
        return None, s, t
    if value.op == "add" and value.args[0] == ACC and (b := weight(value.args[1])) is not None:
        return b, s, t
    return None


def _within(n: Nest, s: int, w: int) -> bool:
    """Does the scale vary only along parallel dimensions along which the weights vary?"""
    return all(
        not step or (d < n.parallel and n.loads[w].strides[d])
        for d, step in enumerate(n.loads[s].strides)
    )


def _values(n: Nest, i: int, dims: Sequence[int], constants) -> np.ndarray:
    """A constant load as an array over the given dimensions."""
    v = n.loads[i]
    index = np.full([1] * len(dims), v.offset)
    for k, d in enumerate(dims):
        axis = np.arange(n.extents[d]) * v.strides[d]
        index = index + axis.reshape([-1 if j == k else 1 for j in range(len(dims))])
    return constants[v.buffer][index]


def _with_scale(n: Nest, e: E, w: int, b, s: int, t: int, constants) -> Nest:
    dims = [d for d, step in enumerate(n.loads[w].strides) if step]
    scaled = _values(n, w, dims, constants) * _values(n, s, dims, constants)
    rows = [d for d in range(n.parallel) if n.loads[s].strides[d] or n.loads[t].strides[d]]
    rows = [d for d in range(n.parallel) if d in rows or (b is not None and n.loads[b].strides[d])]
    shift = _values(n, t, rows, constants)
    if b is not None:
        shift = shift + _values(n, b, rows, constants) * _values(n, s, rows, constants)
    shift = np.broadcast_to(shift, [n.extents[d] for d in rows])
    loads = list(n.loads)
    loads[w] = _constant(scaled, dims, len(n.extents), constants)
    loads[t] = _constant(shift, rows, len(n.extents), constants)
    finish = ir.substitute(n.finish, lambda x: ACC + ir.load(t) if x == e else None)
    return _without_unused(replace(n, loads=tuple(loads), finish=finish))


def _constant(values: np.ndarray, dims: Sequence[int], rank: int, constants) -> View:
    name = f"f{sum(1 for k in constants if k[0] == 'f')}"
    values = np.ascontiguousarray(values)
    constants[name] = values.reshape(-1)
    strides = [0] * rank
    step = 1
    for d, extent in reversed(list(zip(dims, values.shape))):
        strides[d] = step
        step *= extent
    return View(name, 0, tuple(strides))


def _without_unused(n: Nest) -> Nest:
    used = sorted(
        {e.args[0] for x in (n.body, n.finish) for e in ir.walk(x) if e.op in ("load", "at")}
    )
    place = {old: new for new, old in enumerate(used)}

    def change(e: E) -> E | None:
        if e.op == "load":
            return ir.load(place[e.args[0]])
        if e.op == "at":
            return E("at", (place[e.args[0]], ir.substitute(e.args[1], change), *e.args[2:]))
        return None

    return replace(
        n,
        loads=tuple(n.loads[i] for i in used),
        body=ir.substitute(n.body, change),
        finish=ir.substitute(n.finish, change),
    )


# ------------------------------------------------------------------------------------ plan


def plan(program: ir.Program) -> tuple[dict[str, int], int]:
    """Where each working buffer lies in the workspace, in scalars, and the workspace's size.

    Greedy, largest first, over the spans of statements in which buffers live; what a loop uses
    lives all through the loop.
    """
    spans: dict[str, list[int]] = {}
    for i, s in enumerate(program.statements):
        for n in ir.nests([s]):
            for v in (*n.loads, n.out):
                if v.buffer in program.buffers:
                    spans.setdefault(v.buffer, [i, i])[1] = i
    placed: list[tuple[int, int, list[int]]] = []
    offsets: dict[str, int] = {}
    for name in sorted(spans, key=lambda k: (-program.buffers[k], k)):
        size = -(-program.buffers[name] // ALIGN) * ALIGN
        at = 0
        for start, end, span in sorted(placed):
            overlaps = span[0] <= spans[name][1] and spans[name][0] <= span[1]
            if overlaps and start < at + size and at < end:
                at = end
        offsets[name] = at
        placed.append((at, at + size, spans[name]))
    return offsets, max((end for _, end, _ in placed), default=0)
