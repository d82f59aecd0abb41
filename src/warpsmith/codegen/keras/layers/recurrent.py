"""Recurrent layers: SimpleRNN, LSTM, GRU, stacked cells, both directions, and a layer at every step.

Gates are in Keras's order: i, f, c, o for LSTM and z, r, h for GRU. The products with the inputs do
not depend on the state, so they are done for all steps before the loop.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..errors import refuse
from ..ir import E, call
from ..tensors import dense_strides
from . import LOWER, Builder, Call, Tensor, lowers, weights_of
from .activation import activate, elementwise
from .core import kernel_of, product


@dataclass(frozen=True)
class Cell:
    """One cell: its weights' product with inputs, and a step that overwrites its states."""

    layer: Any
    widths: tuple[int, ...]  # of its states; the first is the output's
    project: Callable[[Builder, Tensor], Tensor]
    step: Callable[[Builder, Tensor, list[Tensor]], None]  # (projected inputs, states)


def _gates(x: Tensor, count: int) -> list[Tensor]:
    width = x.shape[-1] // count
    return [x.slice(-1, i * width, width) for i in range(count)]


def simple_cell(layer: Any) -> Cell:
    bias = weights_of(layer.bias) if layer.use_bias else None

    def step(b: Builder, x: Tensor, states: list[Tensor]) -> None:
        recurrent = product(b, states[0], weights_of(layer.recurrent_kernel), None)
        total = b.map(lambda v, r: v + r, x, recurrent)
        b.copy(activate(b, layer, total, layer.activation), states[0])

    return Cell(layer, (layer.units,), lambda b, x: product(b, x, kernel_of(layer), bias), step)


def lstm_cell(layer: Any) -> Cell:
    bias = weights_of(layer.bias) if layer.use_bias else None
    act, gate = elementwise(layer, layer.activation), elementwise(layer, layer.recurrent_activation)

    def step(b: Builder, x: Tensor, states: list[Tensor]) -> None:
        h, carry = states
        recurrent = product(b, h, weights_of(layer.recurrent_kernel), None)
        i, f, c, o = _gates(b.map(lambda v, r: v + r, x, recurrent), 4)
        keep = lambda i, f, g, c: gate(f) * c + gate(i) * act(g)  # noqa: E731
        b.map(keep, i, f, c, carry, out=carry)
        b.map(lambda o, c: gate(o) * act(c), o, carry, out=h)

    return Cell(
        layer, (layer.units, layer.units), lambda b, x: product(b, x, kernel_of(layer), bias), step
    )


def gru_cell(layer: Any) -> Cell:
    """reset_after: r multiplies U h + bias, else it multiplies h before the product."""
    bias = weights_of(layer.bias) if layer.use_bias else None
    inner_bias = bias[1] if bias is not None and layer.reset_after else None
    outer_bias = bias[0] if bias is not None and layer.reset_after else bias
    act, gate = elementwise(layer, layer.activation), elementwise(layer, layer.recurrent_activation)
    weights, units = weights_of(layer.recurrent_kernel), layer.units

    def mix(z: E, h: E, candidate: E) -> E:
        return gate(z) * h + (1.0 - gate(z)) * act(candidate)

    def after(b: Builder, x: Tensor, states: list[Tensor]) -> None:
        xz, xr, xh = _gates(x, 3)
        hz, hr, hh = _gates(product(b, states[0], weights, inner_bias), 3)
        body = lambda xz, hz, xr, hr, xh, hh, h: mix(xz + hz, h, xh + gate(xr + hr) * hh)  # noqa: E731
        b.map(body, xz, hz, xr, hr, xh, hh, states[0], out=states[0])

    def before(b: Builder, x: Tensor, states: list[Tensor]) -> None:
        (h,) = states
        xz, xr, xh = _gates(x, 3)
        hz, hr = _gates(product(b, h, weights[:, : 2 * units], None), 2)
        reset = b.map(lambda x, r, h: gate(x + r) * h, xr, hr, h)
        hh = product(b, reset, weights[:, 2 * units :], None)
        b.map(lambda xz, hz, xh, hh, h: mix(xz + hz, h, xh + hh), xz, hz, xh, hh, h, out=h)

    step = after if layer.reset_after else before
    return Cell(layer, (units,), lambda b, x: product(b, x, kernel_of(layer), outer_bias), step)


CELLS = {
    "SimpleRNN": simple_cell, "LSTM": lstm_cell, "GRU": gru_cell,
    "SimpleRNNCell": simple_cell, "LSTMCell": lstm_cell, "GRUCell": gru_cell,
}  # fmt: skip


def cells_of(layer: Any) -> list[Cell]:
    """The cells of an RNN layer, first to last."""
    cell = layer.cell
    parts = cell.cells if type(cell).__name__ == "StackedRNNCells" else [cell]
    for part in parts:
        if type(part).__name__ not in CELLS or not type(part).__module__.startswith("keras."):
            raise refuse(
                layer, f"the cell {type(part).__name__}", "SimpleRNNCell, LSTMCell or GRUCell"
            )
    return [CELLS[type(part).__name__](part) for part in parts]


@lowers("SimpleRNN", "LSTM", "GRU", "RNN")
def recurrent(b: Builder, layer: Any, c: Call) -> Any:
    x, mask = c.x, c.get(2, "mask")
    first = c.get(1, "initial_state")
    if isinstance(c.x, list):  # older models pass [x, state, …]
        x, first = c.x[0], c.x[1:]
    cells = cells_of(layer)
    states = _initial(b, layer, cells, first)
    flat = [s for group in states for s in group]
    steps, width = x.shape[0], cells[-1].widths[0]
    inputs = cells[0].project(b, x)
    masked = mask is not None
    every = b.buffer((steps, width)) if layer.return_sequences else None
    output = b.fill(b.buffer((width,)), 0.0) if masked else states[-1][0]
    with b.loop(steps) as t:
        keep = mask.step(0, t, backwards=layer.go_backwards) if masked else None
        new = [[b.copy(s) for s in group] for group in states] if masked else states
        value = inputs.step(0, t, backwards=layer.go_backwards)
        for i, cell in enumerate(cells):
            cell.step(b, value if i == 0 else cell.project(b, new[i - 1][0]), new[i])
        if masked:
            zero = getattr(layer, "zero_output_for_mask", False)
            choose = lambda m, n, o: call("select", call("ne", m, 0.0), n, o)  # noqa: E731
            lane = keep.expand(keep.rank)  # type: ignore[union-attr]
            b.map(choose, lane, new[-1][0], output, out=output)
            for old, fresh in zip(flat, [s for group in new for s in group]):
                b.map(choose, lane, fresh, old, out=old)
            if every is not None:
                shown = output
                if zero:
                    shown = b.map(
                        lambda m, o: call("select", call("ne", m, 0.0), o, 0.0), lane, output
                    )
                b.copy(shown, every.step(0, t))
        elif every is not None:
            b.copy(output, every.step(0, t))
    result = every if every is not None else output
    result = _own(b, result)
    if every is not None:
        result = result.masked(mask)
    if not layer.return_state:
        return result
    return [result, *(_own(b, s) for s in flat)]


def _own(b: Builder, x: Tensor) -> Tensor:
    """States of a stateful layer change at the next call: give out a copy."""
    return b.copy(x) if x.buffer in b.program.states else x


def _initial(b: Builder, layer: Any, cells: list[Cell], first: Any) -> list[list[Tensor]]:
    """The states' memory, filled with what the first step starts from."""
    given = _flat(first)
    out, k = [], 0
    for cell in cells:
        group = []
        for width in cell.widths:
            if given:
                group.append(b.copy(given[k]))
            elif layer.stateful:
                group.append(b.state((width,)))
            else:
                group.append(b.fill(b.buffer((width,)), 0.0))
            k += 1
        out.append(group)
    if given and layer.stateful:
        raise refuse(layer, "stateful=True with an initial state", "one of the two")
    return out


def _flat(value: Any) -> list[Tensor]:
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _flat(v)]
    return [value]


@lowers("Bidirectional")
def bidirectional(b: Builder, layer: Any, c: Call) -> Any:
    x, mask, first = c.x, c.get(2, "mask"), _flat(c.get(1, "initial_state"))
    half = len(first) // 2
    parts = []
    for inner, state in ((layer.forward_layer, first[:half]), (layer.backward_layer, first[half:])):
        named = {"mask": mask} | ({"initial_state": state} if state else {})
        lower = LOWER.get(type(inner).__name__)
        if lower is None:
            raise refuse(layer, f"a wrapped {type(inner).__name__}", "SimpleRNN, LSTM or GRU")
        parts.append(lower(b, inner, Call([x], named)))
    states: list[Tensor] = []
    if layer.return_state:
        states = [*parts[0][1:], *parts[1][1:]]
        parts = [parts[0][0], parts[1][0]]
    forward, backward = parts
    if layer.return_sequences:
        backward = backward.flip(0)
    merged = _merge(b, layer, forward, backward)
    if layer.return_sequences and mask is not None and not isinstance(merged, list):
        merged = merged.masked(mask)
    if not states and not isinstance(merged, list):
        return merged
    return [*(merged if isinstance(merged, list) else [merged]), *states]


def _merge(b: Builder, layer: Any, x: Tensor, y: Tensor) -> Any:
    both = {
        "sum": lambda p, q: p + q, "mul": lambda p, q: p * q, "ave": lambda p, q: (p + q) * 0.5,
    }  # fmt: skip
    if layer.merge_mode is None:
        return [x, y]
    if layer.merge_mode == "concat":
        return b.concatenate([x, y], -1)
    return b.map(both[layer.merge_mode], x, y)


@lowers("TimeDistributed")
def time_distributed(b: Builder, layer: Any, c: Call) -> Tensor:
    """The layer at each step: a loop whose body sees one slice."""
    from ..reader import lower_operation

    mask = c.get(1, "mask")
    steps = c.x.shape[0]
    with b.loop(steps) as t:
        named = {}
        if mask is not None and layer.layer._call_has_mask_arg:
            named["mask"] = mask.step(0, t) if mask.rank > 1 else None
        inner = lower_operation(b, layer.layer, [c.x.step(0, t)], named)
        every = b.buffer((steps, *inner.shape))
        b.copy(inner, every.step(0, t))
    return replace(every, strides=dense_strides(every.shape)).masked(mask)
