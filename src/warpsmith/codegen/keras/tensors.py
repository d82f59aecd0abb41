"""Write a loop program as one writes numpy: tensors are views, operations append nests."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from . import ir
from .ir import ACC, E, Nest, View


@dataclass(frozen=True, slots=True)
class Tensor:
    """A strided view of a buffer, without the batch dimension. `mask`: 1 where a step counts."""

    buffer: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    outer: tuple[tuple[str, int], ...] = ()
    mask: Tensor | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dense(self) -> bool:
        """Row-major without gaps, so that a reshape is a view."""
        expected = dense_strides(self.shape)
        return all(n == 1 or s == e for n, s, e in zip(self.shape, self.strides, expected))

    def masked(self, mask: Tensor | None) -> Tensor:
        return replace(self, mask=mask)

    def permute(self, axes: Sequence[int]) -> Tensor:
        return replace(
            self,
            shape=tuple(self.shape[a] for a in axes),
            strides=tuple(self.strides[a] for a in axes),
            mask=None,
        )

    def move(self, source: int, target: int) -> Tensor:
        """One axis moved to another place."""
        axes = list(range(self.rank))
        axes.insert(target % self.rank, axes.pop(source % self.rank))
        return self.permute(axes)

    def slice(self, axis: int, start: int, count: int, step: int = 1) -> Tensor:
        axis %= self.rank
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + start * strides[axis]
        shape[axis], strides[axis] = count, strides[axis] * step
        return replace(self, shape=tuple(shape), strides=tuple(strides), offset=offset, mask=None)

    def index(self, axis: int, i: int) -> Tensor:
        """Position `i` of an axis, which goes away."""
        return self.slice(axis, i, 1).squeeze(axis)

    def step(self, axis: int, variable: str, *, backwards: bool = False) -> Tensor:
        """The position of an axis that a loop's variable names; the axis goes away."""
        axis %= self.rank
        stride, count = self.strides[axis], self.shape[axis]
        at = self.slice(axis, count - 1 if backwards else 0, 1).squeeze(axis)
        return replace(at, outer=(*at.outer, (variable, -stride if backwards else stride)))

    def flip(self, axis: int) -> Tensor:
        return self.slice(axis, self.shape[axis] - 1, self.shape[axis], -1)

    def expand(self, axis: int) -> Tensor:
        """A new axis of extent 1."""
        axis %= self.rank + 1
        shape, strides = list(self.shape), list(self.strides)
        shape.insert(axis, 1)
        strides.insert(axis, 0)
        return replace(self, shape=tuple(shape), strides=tuple(strides), mask=None)

    def squeeze(self, axis: int) -> Tensor:
        axis %= self.rank
        return replace(
            self,
            shape=self.shape[:axis] + self.shape[axis + 1 :],
            strides=self.strides[:axis] + self.strides[axis + 1 :],
            mask=None,
        )

    def split(self, axis: int, sizes: Sequence[int]) -> Tensor:
        """One axis as several, outermost first."""
        axis %= self.rank
        inner = [s * self.strides[axis] for s in dense_strides(sizes)]
        return replace(
            self,
            shape=(*self.shape[:axis], *sizes, *self.shape[axis + 1 :]),
            strides=(*self.strides[:axis], *inner, *self.strides[axis + 1 :]),
            mask=None,
        )

    def broadcast(self, shape: Sequence[int]) -> Tensor:
        """To a shape by numpy's rules."""
        lead = len(shape) - self.rank
        strides = [0] * lead + [s if n != 1 else 0 for n, s in zip(self.shape, self.strides)]
        for have, want in zip(self.shape, shape[lead:]):
            if have not in (1, want):
                raise ValueError(f"{self.shape} does not broadcast to {tuple(shape)}")
        return replace(self, shape=tuple(shape), strides=tuple(strides), mask=None)

    def along(self, axis: int, rank: int) -> Tensor:
        """A vector as a tensor of `rank` axes with its extent at `axis` and 1 elsewhere."""
        axis %= rank
        return replace(
            self,
            shape=tuple(self.size if i == axis else 1 for i in range(rank)),
            strides=tuple(self.strides[0] if i == axis else 0 for i in range(rank)),
        )

    def windows(self, axes: Sequence[int], sizes, strides, dilations) -> Tensor:
        """Sliding windows: each of `axes` becomes the window's positions; the offsets inside a window
        are new axes at the end, in the same order."""
        shape, steps, inner, inner_steps = list(self.shape), list(self.strides), [], []
        for axis, size, stride, dilation in zip(axes, sizes, strides, dilations):
            reach = (size - 1) * dilation + 1
            inner.append(size)
            inner_steps.append(steps[axis] * dilation)
            shape[axis] = (shape[axis] - reach) // stride + 1
            steps[axis] *= stride
        return replace(
            self, shape=(*shape, *inner), strides=(*steps, *inner_steps), mask=None
        )  # fmt: skip


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """
    >>> dense_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides)) if len(shape) else ()


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    return tuple(np.broadcast_shapes(*(tuple(s) for s in shapes)))


class Builder:
    """Appends statements to a program."""

    def __init__(self) -> None:
        self.program = ir.Program()
        self.note = ""  # of the layer being written
        self._lists: list[list[ir.Statement]] = [self.program.statements]
        self._numbers = itertools.count()
        self._known: dict[tuple, str] = {}  # constants by content, so that shared weights stay one

    # ------------------------------------------------------------------------------ storage

    def buffer(self, shape: Sequence[int]) -> Tensor:
        """Working memory, not written yet."""
        name = f"b{next(self._numbers)}"
        self.program.buffers[name] = math.prod(shape)
        return Tensor(name, tuple(shape), dense_strides(shape))

    def constant(self, array) -> Tensor:
        """Numbers that are part of the program."""
        array = np.ascontiguousarray(array, np.float64)
        key = (array.size, array.tobytes())
        name = self._known.setdefault(key, f"w{len(self._known)}")
        self.program.constants[name] = array.reshape(-1)
        return Tensor(name, array.shape, dense_strides(array.shape))

    def state(self, shape: Sequence[int]) -> Tensor:
        """Memory that lives on between calls, zero at first."""
        name = f"s{len(self.program.states)}"
        self.program.states[name] = np.zeros(math.prod(shape))
        return Tensor(name, tuple(shape), dense_strides(shape))

    def input(self, name: str, shape: Sequence[int]) -> Tensor:
        buffer = f"in{len(self.program.inputs)}"
        self.program.inputs.append(ir.Port(name, tuple(shape), buffer))
        return Tensor(buffer, tuple(shape), dense_strides(shape))

    def output(self, name: str, x: Tensor) -> None:
        buffer = f"out{len(self.program.outputs)}"
        self.program.outputs.append(ir.Port(name, x.shape, buffer))
        self.copy(x, Tensor(buffer, x.shape, dense_strides(x.shape)))

    # --------------------------------------------------------------------------- statements

    def append(self, statement: ir.Statement) -> None:
        self._lists[-1].append(statement)

    @contextlib.contextmanager
    def loop(self, extent: int) -> Iterator[str]:
        """Statements inside run once for each value of the variable that this gives."""
        variable = f"t{next(self._numbers)}"
        self._lists.append([])
        yield variable
        body = tuple(self._lists.pop())
        self.append(ir.Loop(variable, extent, body, self.note))

    def map(
        self, function: Callable[..., E], *tensors: Tensor, out: Tensor | None = None
    ) -> Tensor:
        """function(values) for every element, with numpy's broadcasting."""
        shape = broadcast_shapes(*(t.shape for t in tensors)) if tensors else out.shape  # type: ignore[union-attr]
        out = out or self.buffer(shape)
        views = [t.broadcast(out.shape) for t in tensors]
        body = ir.wrap(function(*(ir.load(i) for i in range(len(views)))))
        self.append(
            Nest(
                out.shape, out.rank, tuple(map(view_of, views)), body, view_of(out), note=self.note
            )
        )
        return out

    def copy(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        return self.map(lambda v: v, x, out=out)

    def fill(self, out: Tensor, value: float) -> Tensor:
        return self.map(lambda: ir.wrap(value), out=out)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """A view where the elements lie densely, a copy where not."""
        x = x if x.dense else self.copy(x)
        return replace(x, shape=tuple(shape), strides=dense_strides(shape), mask=None)

    def reduce(
        self, combine: str, x: Tensor, axes: Sequence[int], *, keep: bool = True,
        body: Callable[..., E] = lambda *v: v[0], others: Sequence[Tensor] = (),
        finish: Callable[[E], E] = lambda acc: acc,
    ) -> Tensor:  # fmt: skip
        """combine over `axes` of body(x, *others); the axes stay with extent 1 where `keep`."""
        axes = sorted(a % x.rank for a in axes)
        kept = [a for a in range(x.rank) if a not in axes]
        order = [*kept, *axes]
        views = [t.broadcast(x.shape).permute(order) for t in (x, *others)]
        out = self.buffer(tuple(1 if a in axes else x.shape[a] for a in range(x.rank)))
        target = out.permute(order)
        self.append(
            Nest(
                views[0].shape, len(kept), tuple(map(view_of, views)),
                ir.wrap(body(*(ir.load(i) for i in range(len(views))))),
                View(target.buffer, target.offset, target.strides[: len(kept)], target.outer),
                combine, ir.wrap(finish(ACC)), note=self.note,
            )
        )  # fmt: skip
        if keep:
            return out
        return replace(
            out,
            shape=tuple(x.shape[a] for a in kept),
            strides=dense_strides([x.shape[a] for a in kept]),
        )

    def einsum(
        self, spec: str, *tensors: Tensor, out: Tensor | None = None,
        bias: Tensor | None = None, finish: Callable[[E], E] = lambda acc: acc,
    ) -> Tensor:  # fmt: skip
        """Σ of products, by numpy's letters; `bias` has the letters of the result and broadcasts."""
        names, result = spec.split("->")
        sizes: dict[str, int] = {}
        for letters, t in zip(names.split(","), tensors):
            if len(letters) != t.rank:
                raise ValueError(f"einsum {spec}: {letters!r} does not fit a shape of {t.shape}")
            for letter, extent in zip(letters, t.shape):
                if sizes.setdefault(letter, extent) != extent:
                    raise ValueError(f"einsum {spec}: {letter} is {sizes[letter]} and {extent}")
        order = result + "".join(sorted(set(sizes) - set(result), key="".join(names).index))
        out = out or self.buffer(tuple(sizes[c] for c in result))
        views = [_spread(t, letters, order) for letters, t in zip(names.split(","), tensors)]
        body, end = ir.load(0), ACC
        for i in range(1, len(views)):
            body = body * ir.load(i)
        if bias is not None:
            views.append(_spread(bias.broadcast(out.shape), result, order))
            end = ACC + ir.load(len(views) - 1)
        end = ir.wrap(finish(end))
        extents = tuple(sizes[c] for c in order)
        if len(order) == len(result):
            body, end, combine = _at_acc(end, body), ACC, None
        else:
            combine = "add"
        self.append(
            Nest(extents, len(result), tuple(views), body, view_of(out), combine, end, note=self.note)
        )  # fmt: skip
        return out

    def scatter(self, spec: str, x: Tensor, y: Tensor, places: Tensor) -> None:
        """places[result] += x · y for every iteration: places may meet, so the order is serial."""
        names, result = spec.split("->")
        first, second = names.split(",")
        sizes = dict(zip(first + second, x.shape + y.shape))
        order = result + "".join(c for c in dict.fromkeys(first + second) if c not in result)
        views = (_spread(x, first, order), _spread(y, second, order))
        self.append(
            Nest(
                tuple(sizes[c] for c in order), len(order), views, ir.load(0) * ir.load(1),
                _spread(places, result, order), scatter=True, note=self.note,
            )
        )  # fmt: skip

    def softmax(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        top = self.reduce("max", x, axes)
        powers = self.map(lambda v, m: ir.call("exp", v - m), x, top)
        total = self.reduce("add", powers, axes)
        return self.map(lambda v, s: v / s, powers, total)

    def concatenate(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        axis %= tensors[0].rank
        shape = list(tensors[0].shape)
        shape[axis] = sum(t.shape[axis] for t in tensors)
        out, start = self.buffer(shape), 0
        for t in tensors:
            self.copy(t, out.slice(axis, start, t.shape[axis]))
            start += t.shape[axis]
        return out

    def pad(
        self, x: Tensor, before_after: dict[int, tuple[int, int]], value: float = 0.0
    ) -> Tensor:
        """`value` around the given axes; negative numbers crop."""
        shape = list(x.shape)
        for axis, (before, after) in before_after.items():
            if before < 0 or after < 0:
                x = x.slice(axis, max(-before, 0), x.shape[axis] + min(before, 0) + min(after, 0))
            shape[axis] += before + after
        grown = {a: (max(b, 0), max(e, 0)) for a, (b, e) in before_after.items()}
        if not any(b or e for b, e in grown.values()):
            return x
        out = self.fill(self.buffer(shape), value)
        inside = out
        for axis, (before, _) in grown.items():
            inside = inside.slice(axis, before, x.shape[axis])
        self.copy(x, inside)
        return out


def _at_acc(end: E, value: E) -> E:
    return ir.substitute(end, lambda e: value if e.op == "acc" else None)


def _spread(t: Tensor, letters: str, order: str) -> View:
    """The view along the dimensions of `order`; a letter twice walks the diagonal."""
    strides = [sum(s for c, s in zip(letters, t.strides) if c == name) for name in order]
    return View(t.buffer, t.offset, tuple(strides), t.outer)


def view_of(t: Tensor) -> View:
    return View(t.buffer, t.offset, t.strides, t.outer)
