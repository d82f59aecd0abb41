"""What the handlers of ATen operations share: their table, pointwise values, and texts of sizes."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .expressions import COMPARISONS, LOGICAL, compute_dtype
from .ir import Buffer, Ref, Size
from .lower import Lowering, dtype_of

Handler = Callable[[Lowering, Any, tuple[Any, ...], dict[str, Any]], Any]

HANDLERS: dict[str, Handler] = {}


def implements(*names: str) -> Callable[[Handler], Handler]:
    """Enter a handler in the table under ATen names without their 'aten.' prefix."""

    def enter(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return enter


def as_ref(state: Lowering, value: Any, dtype: str) -> Ref:
    if isinstance(value, Ref):
        return value
    if isinstance(value, (bool, int, float)):
        return state.constant(value, dtype)
    kind = "int64" if value.is_integer else "float64"
    return Ref(state.make("size", dtype=kind, detail=value), ())  # a symbolic size, or made of some


def pointwise(state: Lowering, op: str, operands: list[Any], node: Any, dtype: str = "") -> Ref:
    """One of `expressions.OPS` over tensors and numbers; dtype is the node's unless given."""
    dtype = dtype or dtype_of(node)
    compute = compute_dtype(dtype)
    if op in COMPARISONS or op in ("logical_not", *LOGICAL):
        compute = _promoted(operands)
    if op in ("mul", "div") and operands[1] in (1, 1.0) and operands[0].value.dtype == dtype:
        return operands[0]
    refs = [as_ref(state, value, compute) for value in operands]
    return state.pointwise(op, refs, dtype, compute, node)


def _promoted(operands: list[Any]) -> str:
    """The dtype in which operands of a comparison meet: torch's rules, then the compute dtype."""
    import torch

    def example(value: Any) -> Any:
        if not isinstance(value, Ref):
            return value if isinstance(value, (bool, int, float)) else 2
        rank = 1 if value.dims else 0
        return torch.empty([1] * rank, dtype=getattr(torch, value.value.dtype), device="meta")

    given = [example(v) for v in operands]
    dtype = given[0].dtype if len(given) == 1 else torch.result_type(*given)
    return compute_dtype(str(dtype).removeprefix("torch."))


def reshaped(state: Lowering, buffer: Buffer, shape: tuple[Size, ...]) -> Buffer:
    """The buffer seen by torch in another shape; itself where that is its own."""
    if buffer.shape == shape:
        return buffer
    text = f"{buffer.name}.reshape({tuple_text(state, shape)})"
    return Buffer(state.name(f"{buffer.name}_view"), shape, buffer.dtype, base=buffer, view=text)


def host_size(state: Lowering, size: Any) -> str:
    """Python text of a size: '4096', 'inputs[0].shape[1] * 8'.

    >>> host_size(None, 3)
    '3'
    """
    return str(size) if isinstance(size, int) else size_text(size, state.captured.sizes)


def tuple_text(state: Lowering, sizes: tuple[Size, ...]) -> str:
    """Python text of a shape: '(inputs[0].shape[0], 64)'."""
    inner = ", ".join(host_size(state, s) for s in sizes)
    return f"({inner},)" if len(sizes) == 1 else f"({inner})"


def size_text(size: Any, symbols: dict[str, str]) -> str:
    """Python text of a sympy expression over the given symbols."""
    from torch.utils._sympy.printers import PythonPrinter

    if isinstance(size, int):
        return str(size)
    text = PythonPrinter().doprint(size)
    return re.sub(r"\bs\d+\b", lambda m: symbols[m.group(0)], text)
