"""Run a loop program with numpy: slow, obviously right, and in need of no compiler."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import ir
from .ir import E, Nest, View

_COMBINE: dict[str, Any] = {"add": np.sum, "max": np.max, "min": np.min}
_erf = np.vectorize(math.erf, otypes=[float])


def run(
    program: ir.Program, inputs: Sequence[np.ndarray], dtype=np.float64, states=None
) -> list[np.ndarray]:
    """The outputs for one sample.

    inputs: one array per input, each of the input's shape. dtype: of all arithmetic.
    states: what a stateful network kept, as an earlier call left it; changed in place.
    """
    memory = {name: np.full(size, np.nan, dtype) for name, size in program.buffers.items()}
    memory |= {name: a.astype(dtype) for name, a in program.constants.items()}
    memory |= {
        port.buffer: np.array(x, dtype).reshape(-1) for port, x in zip(program.inputs, inputs)
    }
    memory |= {port.buffer: np.full(port.size, np.nan, dtype) for port in program.outputs}
    memory |= (
        states if states is not None else {n: a.astype(dtype) for n, a in program.states.items()}
    )
    with np.errstate(all="ignore"):
        _run(program.statements, memory, {})
    return [memory[port.buffer].reshape(port.shape) for port in program.outputs]


def _run(statements, memory: dict[str, np.ndarray], variables: Mapping[str, int]) -> None:
    for s in statements:
        if isinstance(s, Nest):
            _nest(s, memory, variables)
            continue
        for value in range(s.extent):
            _run(s.body, memory, {**variables, s.variable: value})


def _places(view: View, extents, variables) -> np.ndarray:
    """The flat index of every iteration, as a broadcastable array."""
    index = np.asarray(view.offset + sum(variables[v] * s for v, s in view.outer))
    for d, (extent, stride) in enumerate(zip(extents, view.strides)):
        if stride:
            axis = np.arange(extent) * stride
            index = index + axis.reshape([-1 if i == d else 1 for i in range(len(extents))])
    return index


def _nest(n: Nest, memory, variables) -> None:
    places = [_places(v, n.extents, variables) for v in n.loads]
    loads = [memory[v.buffer] for v in n.loads]
    dtype = memory[n.out.buffer].dtype
    value = np.broadcast_to(_value(n.body, loads, places, None, dtype), n.extents)
    out = memory[n.out.buffer]
    if n.scatter:
        target = np.broadcast_to(_places(n.out, n.extents, variables), n.extents)
        np.add.at(out, target, value)
        return
    if n.combine:
        axes = tuple(range(n.parallel, len(n.extents)))
        value = _COMBINE[n.combine](value, axis=axes)
        first = places
        for _ in axes:
            first = [p.take(0, axis=n.parallel) if p.ndim else p for p in first]
        value = _value(n.finish, loads, first, value, dtype)
    shape = n.extents[: n.parallel]
    target = np.broadcast_to(_places(n.out, shape, variables), shape)
    out[target] = np.broadcast_to(value, shape)


def _value(e: E, loads, places, acc, dtype):
    if e.op == "load":
        return loads[e.args[0]][places[e.args[0]]]
    if e.op == "const":
        return dtype.type(e.args[0])
    if e.op == "acc":
        return acc
    if e.op == "at":
        number, row, stride, rows = e.args
        wanted = _value(row, loads, places, acc, dtype)
        inside = (wanted >= 0) & (wanted < rows)
        at = np.where(inside, wanted, 0).astype(np.int64) * stride
        return np.where(inside, loads[number][places[number] + at], dtype.type(np.nan))
    operands = [_value(a, loads, places, acc, dtype) for a in e.args]
    if e.op == "erf":
        return np.asarray(_erf(operands[0]), dtype)
    return ir.OPERATIONS[e.op][1](*operands)
