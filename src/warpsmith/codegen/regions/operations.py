"""Walk a captured graph: each ATen operation goes to its handler, or is left to torch."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import operator
from typing import Any

from . import pointwise_operations, reduction_operations, view_operations
from .capture import Captured
from .handling import HANDLERS, host_size, pointwise, reshaped
from .ir import Buffer, Conflict, Ref, Text, TorchCall, flat, leaves
from .lower import Lowering, Unmatched, dtype_of, shape_of, size_of

FAMILIES = (pointwise_operations, reduction_operations, view_operations)  # fill HANDLERS
RANDOM = (
    "dropout",
    "bernoulli",
    "rand",
    "randn",
    "randint",
    "normal",
    "uniform",
    "exponential",
    "multinomial",
    "randperm",
)


def lower(captured: Captured) -> tuple[Lowering, list[Buffer | float]]:
    """Walk the graph; give the lowering and one buffer (or number) for each output."""
    state = Lowering(captured)
    needed = _needed(captured)
    for node in captured.graph.nodes:
        if node.op == "placeholder":
            state.known[node] = _placeholder(state, node)
        elif node.op == "call_function" and node in needed:
            state.known[node] = _call(state, node)
        elif node.op not in ("output", "call_function"):
            raise Unmatched(node, "a constant tensor or a call of a submodule")
    return state, [_output(state, node) for node in captured.outputs]


def _needed(captured: Captured) -> set[Any]:
    """Nodes that an output depends on: the rest (running statistics) is not computed."""
    todo, seen = [n for n in captured.outputs if hasattr(n, "op")], set()
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo.extend(node.all_input_nodes)
    return seen


def _placeholder(state: Lowering, node: Any) -> Any:
    value = node.meta.get("val")
    if not hasattr(value, "shape"):
        return value if value is None else size_of(value)
    if node.name in state.captured.constants:
        return state.constant(state.captured.constants[node.name], dtype_of(node))
    if node.name not in state.captured.sources:
        raise Unmatched(node, "a constant tensor")
    source = state.captured.sources[node.name]
    scalar = node.name in state.captured.scalars
    name = (
        node.name
        if source.startswith("inputs")
        else node.name.removeprefix("p_").removeprefix("b_")
    )
    buffer = Buffer(state.name(name), shape_of(node), dtype_of(node), source=source, scalar=scalar)
    return state.load(buffer)


def _call(state: Lowering, node: Any) -> Any:
    if node.target is operator.getitem:
        return state.known[node.args[0]][node.args[1]]
    name = str(node.target).removeprefix("aten.")
    meta = node.meta.get("val")
    if not hasattr(meta, "shape") and not isinstance(meta, (tuple, list)):
        return size_of(meta) if meta is not None else None
    arguments = tuple(_argument(state, a) for a in node.args)
    keywords = {k: _argument(state, v) for k, v in node.kwargs.items()}
    try:
        if name in pointwise_operations.SAME:
            return pointwise(state, pointwise_operations.SAME[name], list(arguments), node)
        if name in HANDLERS:
            return HANDLERS[name](state, node, arguments, keywords)
        raise Unmatched(node)
    except (Unmatched, Conflict) as failure:
        return leave_to_torch(state, node, getattr(failure, "why", ""))


def _argument(state: Lowering, value: Any) -> Any:
    """Nodes become Refs or sizes."""
    if isinstance(value, (list, tuple)):
        return [_argument(state, v) for v in value]
    if not hasattr(value, "op"):
        return value
    return state.known[value]


def _output(state: Lowering, node: Any) -> Any:
    if not hasattr(node, "op"):
        return node
    ref = _argument(state, node)
    if isinstance(ref, Ref):
        return state.output(ref)
    raise Unmatched(node, "an output that is not a tensor")


def leave_to_torch(state: Lowering, node: Any, why: str) -> Any:
    """Call the operation as it is, on stored operands. Random operations are refused."""
    name = str(node.target).removeprefix("aten.")
    if any(word in name for word in RANDOM):
        raise Unmatched(node, "it draws random numbers, which a kernel cannot repeat")
    metas = node.meta["val"]
    many = isinstance(metas, (tuple, list))
    outputs = []
    for meta in metas if many else [metas]:
        shape = tuple(size_of(s) for s in meta.shape)
        dtype = str(meta.dtype).removeprefix("torch.")
        outputs.append(Buffer(state.name(node.name), shape, dtype))
    arguments = tuple(_stored(state, state_argument(state, x)) for x in node.args)
    keywords = {k: _stored(state, state_argument(state, v)) for k, v in node.kwargs.items()}
    call = TorchCall(str(node.target), arguments, keywords, outputs, node)
    for buffer in outputs:
        buffer.step = call
    state.calls.append(call)
    state.unmatched.append((node, why))
    refs = tuple(state.load(b) for b in outputs)
    return refs if many else refs[0]


def state_argument(state: Lowering, value: Any) -> Any:
    return _argument(state, value)


def _stored(state: Lowering, value: Any) -> Any:
    if isinstance(value, Ref):
        held = value.value.detail if value.value.op == "load" else None
        if held and flat(held[1]) == flat(value.dims) and not held[0].strided:
            return reshaped(state, held[0], value.shape)
        buffer = state.store(value)
        direct_load = value.value.op == "load"
        same = direct_load or [leaves(g) for g in buffer.dims] == [leaves(g) for g in value.dims]
        return buffer if same else state.output(value)
    if isinstance(value, list):
        return [_stored(state, v) for v in value]
    if getattr(value, "free_symbols", None) is not None:
        return Text(host_size(state, value))
    return value
