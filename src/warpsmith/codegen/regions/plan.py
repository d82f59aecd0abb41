"""The plan of a task: which regions and torch calls compute it, in which order."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...spec import Task
from .capture import Captured, NotCaptured, capture, line_of
from .ir import Buffer, Region, Size, TorchCall, buffers_in, product
from .lower import Lowering, Unmatched
from .operations import lower


@dataclass(frozen=True, eq=False)
class Plan:
    """Steps in order, what they read from the outside, and the results.

    unmatched: one sentence for each operation that is left to torch.
    """

    captured: Captured
    steps: tuple[Region | TorchCall, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer | float | None, ...]
    unmatched: tuple[str, ...]

    @property
    def read(self) -> frozenset[Buffer]:
        """All buffers that a step reads or that are results, and what they are views of."""
        results = [b for o in self.outputs if isinstance(o, Buffer) for b in chain_of(o)]
        return frozenset(b for s in self.steps for b in reads(s)) | frozenset(results)

    @property
    def regions(self) -> tuple[Region, ...]:
        return tuple(s for s in self.steps if isinstance(s, Region))


@dataclass(frozen=True)
class NoPlan:
    """Why there is no plan, in a sentence."""

    why: str


def plan(task: Task) -> Plan | NoPlan:
    """Capture a task's reference and cut it into regions. Failure is a value."""
    try:
        captured = capture(task)
        lowering, outputs = lower(captured)
    except NotCaptured as error:
        return NoPlan(str(error))
    except Unmatched as error:
        return NoPlan(sentence(error.node, error.why))
    steps = _needed(lowering, outputs)
    ours = [s for s in steps if isinstance(s, Region)]
    hybrid = len(ours) < len(steps)
    if not any(computes(s) or not hybrid for s in ours):
        what = "; ".join(sentence(n, w) for n, w in lowering.unmatched) or "nothing to compute"
        return NoPlan(f"no operation is matched by a kernel region: {what}")
    for region in ours:
        region.traced_columns = _traced(product(a.size for a in region.columns), captured)
    inputs = _inputs(steps, outputs, captured, lowering)
    unmatched = tuple(sentence(n, w) for n, w in lowering.unmatched if any(
        isinstance(s, TorchCall) and s.node is n for s in steps))  # fmt: skip
    return Plan(captured, tuple(steps), inputs, tuple(outputs), unmatched)


def _traced(size: Size, captured: Captured) -> int:
    """A size at the main case; 0 where it is made of sizes that are not known."""
    if isinstance(size, int):
        return size
    known = {s: captured.traced[str(s)] for s in size.free_symbols if str(s) in captured.traced}
    number = size.subs(known)
    return int(number) if number.is_integer and number.is_number else 0


def computes(region: Region) -> bool:
    """Whether a region does more than copy: a hybrid of copies alone would be a poor joke."""
    moves = ("load", "const", "size", "iota", "cast")
    return any(value.op not in moves for value in region.values())


def sentence(node: object, why: str) -> str:
    """'aten.convolution.default is not matched (model.py:12: x = self.conv(x))'."""
    place = line_of(node)
    reason = f" ({why})" if why else ""
    return f"{getattr(node, 'target', node)} is not matched{reason}" + (
        f", at {place}" if place else ""
    )


def reads(step: Region | TorchCall) -> Iterator[Buffer]:
    """Buffers that a step reads, views and what they are views of included."""
    if isinstance(step, TorchCall):
        found = list(buffers_in((step.arguments, step.keywords)))
    else:
        found = [v.detail[0] for v in step.values() if v.op == "load"]
    for buffer in dict.fromkeys(found):
        yield from chain_of(buffer)


def chain_of(buffer: Buffer | None) -> Iterator[Buffer]:
    """A buffer, and what it is a view of."""
    while buffer is not None:
        yield buffer
        buffer = buffer.base


def writer(buffer: Buffer) -> Region | TorchCall | None:
    while buffer.base is not None:
        buffer = buffer.base
    return buffer.region or buffer.step


def _needed(lowering: Lowering, outputs: list[Buffer | float]) -> list[Region | TorchCall]:
    """The steps that the outputs depend on, each after those that it depends on."""
    order: dict[Region | TorchCall, None] = {}

    def visit(step: Region | TorchCall | None) -> None:
        if step is None or step in order:
            return
        for buffer in reads(step):
            visit(writer(buffer))
        order[step] = None

    for output in outputs:
        if isinstance(output, Buffer):
            visit(writer(output))
    return list(order)


def _inputs(
    steps: list[Region | TorchCall],
    outputs: list[Buffer | float],
    captured: Captured,
    lowering: Lowering,
) -> tuple[Buffer, ...]:
    """Inputs and parameters that are read, and inputs whose shapes give sizes, in the task's order."""
    used = {b for s in steps for b in reads(s) if b.source}
    named = {source.rpartition(".shape")[0] for source in captured.sizes.values()}
    placed = [v.detail[0] for v in lowering.values if v.op == "load" and v.detail[0].source]
    placed = list(dict.fromkeys(placed))
    return tuple(b for b in placed if b in used or b.source in named)
