"""Cut a row program at its row-level values: many blocks then work on one long row.

A row program gives a row to one block. Where rows are few and long (a Frobenius norm has one), the
device stays empty. The staged plan stores what each pass has reduced, so that every reduction can be
done in two stages, and the last pass becomes a pointwise kernel of its own.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses

from .expressions import compute_dtype
from .ir import Buffer, Dims, Region, TorchCall, Value, flat, leaves
from .plan import Plan
from .simplify import merged


def staged(plan: Plan) -> Plan | None:
    """The plan with every multi-pass row program cut; None if there is none."""
    steps: list[Region | TorchCall] = []
    taken = {b.name for b in plan.read}
    for step in plan.steps:
        parts = cut(step, taken) if isinstance(step, Region) and step.kind == "rows" else [step]
        steps += parts
    if len(steps) == len(plan.steps):
        return None
    return dataclasses.replace(plan, steps=tuple(steps))


def cut(region: Region, taken: set[str]) -> list[Region]:
    """One region per level of reductions, then a pointwise one for what varies along the columns."""
    tidy = merged(region)
    values = tidy.values()
    columns = region.columns
    levels: dict[Value, int] = {}
    for value in values:
        below = max((levels[a] for a in value.args), default=0)
        levels[value] = below + (value.op == "reduce")
    full = {v for v in values if v.axes & columns}
    stored_full = [s for s in tidy.stores if set(flat(s[1])) & columns]
    if max(levels.values()) < 2 and not stored_full:
        return [region]
    result: list[Region] = []
    renewed: dict[Value, Value] = {}
    for level in range(1, max(levels.values()) + 1):
        stage = Region("rows", region.outer, region.inner, region.depth)
        kept: dict[Value, tuple[Dims, Buffer]] = {}
        for value, dims, buffer in tidy.stores:
            if levels[value] == level and not any(s[0] is value for s in stored_full):
                stage.stores.append((_renew(value, renewed), dims, buffer))
                if buffer.dtype == compute_dtype(value.dtype):
                    kept[value] = dims, buffer
        for value in values:
            crosses = _crosses(value, values, levels, full, tidy)
            if levels[value] == level and value not in full and value not in kept and crosses:
                dims, buffer = _row_buffer(value, stage, taken)
                stage.stores.append((_renew(value, renewed), dims, buffer))
                kept[value] = dims, buffer
        for value, held in kept.items():
            dims, buffer = held
            renewed[value] = Value(
                "load", dtype=buffer.dtype, detail=(buffer, dims), over=value.over, name=buffer.name
            )
        if stage.stores:
            result.append(stage)
    if not stored_full:
        return result
    last = Region("pointwise", flat(stored_full[0][1]), (), region.depth)
    for value, dims, buffer in stored_full:
        last.stores.append((_renew(value, renewed), dims, buffer))
    return [*result, last]


def _crosses(
    value: Value, values: list[Value], levels: dict[Value, int], full: set[Value], region: Region
) -> bool:
    """Whether a row-level value is read along the columns, or by a later level."""
    users = [v for v in values if value in v.args]
    later = any(u in full or levels[u] > levels[value] for u in users)
    stored = any(s[0] is value and s[0] not in full and _along(s[1], region) for s in region.stores)
    return (later or stored) and value.op != "const" and not _is_struct(value)


def _along(dims: Dims, region: Region) -> bool:
    return bool(set(flat(dims)) & region.columns)


def _is_struct(value: Value) -> bool:
    return value.op == "reduce" and value.detail[0] in ("welford", "online")


def _row_buffer(value: Value, stage: Region, taken: set[str]) -> tuple[Dims, Buffer]:
    """A buffer for a row-level value, as wide as it is in registers."""
    dims = tuple((a,) for a in leaves(stage.outer) if a in value.axes)
    base = value.name.strip("_") or value.op
    name, number = f"{base}_of_row", 1
    while name in taken:
        number += 1
        name = f"{base}_of_row_{number}"
    taken.add(name)
    shape = tuple(a.size for group in dims for a in group)
    return dims, Buffer(name, shape, compute_dtype(value.dtype), region=stage, dims=dims)


def _renew(value: Value, renewed: dict[Value, Value]) -> Value:
    """The value over what earlier stages have stored."""
    if value not in renewed:
        arguments = tuple(_renew(a, renewed) for a in value.args)
        renewed[value] = dataclasses.replace(value, args=arguments)
    return renewed[value]
