"""Chains of dense layers on a GPU: found in a program, written as one tiled kernel."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import expressions, ir
from .body import DTYPES
from .ir import ACC, E, Nest

TILES = (128, 64, 32)  # samples of a block
SHARED_BYTES = 220 * 1024  # of a block at most
GOOD_SHARED_BYTES = 72 * 1024  # three blocks share a multiprocessor
PRELUDE = Path(__file__).with_name("templates") / "chain.cuh"


@dataclass(frozen=True)
class Layer:
    """One dense layer: weights (in, out), and what is done to each sum."""

    weights: np.ndarray
    finish: E  # over ACC and the loads `extras`
    extras: tuple[np.ndarray, ...]  # one number for each output
    note: str

    @property
    def padded(self) -> np.ndarray:
        """Outputs padded to whole groups of 8."""
        return np.pad(self.weights, ((0, 0), (0, -self.weights.shape[1] % 8)))


@dataclass(frozen=True)
class Chain:
    layers: tuple[Layer, ...]
    tile: int  # samples of a block
    shared_scalars: int

    @property
    def threads(self) -> int:
        widest = max(-(-layer.weights.shape[1] // 8) for layer in self.layers)
        return min(256, max(32, self.tile // 8 * widest))


def find(program: ir.Program, dtype: str) -> Chain | None:
    """The program as a chain of dense layers from its one input to its one output, else None."""
    if len(program.inputs) != 1 or len(program.outputs) != 1 or program.states:
        return None
    layers, buffer = [], program.inputs[0].buffer
    for s in program.statements:
        layer = _layer(program, s, buffer) if isinstance(s, Nest) else None
        if layer is None:
            return None
        layers.append(layer)
        buffer = s.out.buffer  # type: ignore[union-attr]
    if not layers or buffer != program.outputs[0].buffer:
        return None
    width = max(sum(layer.weights.shape) for layer in layers)
    size = np.dtype(DTYPES[dtype]).itemsize
    for limit in (GOOD_SHARED_BYTES, SHARED_BYTES):
        for tile in TILES:
            if width * tile * size <= limit and (tile > 32 or limit == SHARED_BYTES):
                return Chain(tuple(layers), tile, width * tile)
    return None


def _layer(program: ir.Program, n: Nest, buffer: str) -> Layer | None:
    """A nest that is Σ x[i] w[i, o] over a dense vector in `buffer`, or None."""
    if n.combine != "add" or n.scatter or n.body.op != "mul" or len(n.extents) > 2:
        return None
    if any(v.outer for v in (*n.loads, n.out)) or any(a.op != "load" for a in n.body.args):
        return None
    x, w = (n.loads[a.args[0]] for a in n.body.args)  # type: ignore[union-attr]
    if x.buffer != buffer:
        x, w = w, x
    if x.buffer != buffer or w.buffer not in program.constants or x.offset or n.out.offset:
        return None
    outputs = n.extents[0] if n.parallel else 1
    inputs = n.extents[n.parallel] if len(n.extents) > n.parallel else 1
    walk_x = x.strides if n.parallel == 0 else x.strides[1:]
    if (n.parallel and x.strides[0]) or (walk_x and walk_x[0] != 1):
        return None
    if n.parallel and n.out.strides[0] != 1:
        return None
    size = program.buffers.get(buffer, program.inputs[0].size)
    made = program.buffers.get(n.out.buffer, program.outputs[0].size)
    if size != inputs or made != outputs:
        return None
    extras = expressions.loads_of(n.finish) if n.finish != ACC else []
    if any(n.loads[i].buffer not in program.constants for i in extras):
        return None
    column = _along(program, n, w, outputs, inputs)
    rows = tuple(_along(program, n, n.loads[i], outputs, 1)[0] for i in extras)
    place = {old: new for new, old in enumerate(extras)}
    finish = ir.substitute(
        n.finish, lambda e: ir.load(place[e.args[0]]) if e.op == "load" else None
    )
    return Layer(column, finish, rows, n.note)


def _along(program: ir.Program, n: Nest, v: ir.View, outputs: int, inputs: int) -> np.ndarray:
    """A constant as (inputs, outputs)."""
    by_out = v.strides[0] if n.parallel else 0
    by_in = v.strides[n.parallel] if len(n.extents) > n.parallel else 0
    index = v.offset + by_in * np.arange(inputs)[:, None] + by_out * np.arange(outputs)[None]
    return program.constants[v.buffer][index]
