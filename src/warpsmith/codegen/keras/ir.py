"""The loop language that a network becomes: nests of affine loops over flat buffers.

A `Program` is a list of statements for one sample. A `Nest` runs its parallel dimensions, then its
reduction dimensions; every access is affine in them, so padding, permuting, cropping, windows of a
convolution and broadcasting are views and cost nothing. The interpreter, the C++ writer and the
CUDA writer all read this one form.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True)
class E:
    """An expression over one iteration: `op` of OPERATIONS, or load, const, acc, at."""

    op: str
    args: tuple = ()

    def __add__(self, other): return E("add", (self, wrap(other)))  # fmt: skip

    def __radd__(self, other): return E("add", (wrap(other), self))  # fmt: skip

    def __sub__(self, other): return E("sub", (self, wrap(other)))  # fmt: skip

    def __rsub__(self, other): return E("sub", (wrap(other), self))  # fmt: skip

    def __mul__(self, other): return E("mul", (self, wrap(other)))  # fmt: skip

    def __rmul__(self, other): return E("mul", (wrap(other), self))  # fmt: skip

    def __truediv__(self, other): return E("div", (self, wrap(other)))  # fmt: skip

    def __rtruediv__(self, other): return E("div", (wrap(other), self))  # fmt: skip

    def __neg__(self): return E("neg", (self,))  # fmt: skip


def wrap(value: E | float) -> E:
    return value if isinstance(value, E) else E("const", (float(value),))


def load(index: int) -> E:
    """The value of the nest's load number `index` at this iteration."""
    return E("load", (index,))


def at(index: int, row: E, stride: int, rows: int) -> E:
    """Load `index` displaced by int(row) * stride; NaN where row is not in [0, rows)."""
    return E("at", (index, row, stride, rows))


ACC = E("acc")  # in `finish`: what the reduction gave

# operation -> (numbers of operands, numpy); conditions are truth values, used by `select` alone
OPERATIONS: dict[str, tuple[int, Callable]] = {
    "add": (2, np.add),
    "sub": (2, np.subtract),
    "mul": (2, np.multiply),
    "div": (2, np.divide),
    "max": (2, np.maximum),
    "min": (2, np.minimum),
    "pow": (2, np.power),
    "neg": (1, np.negative),
    "abs": (1, np.abs),
    "exp": (1, np.exp),
    "expm1": (1, np.expm1),
    "log": (1, np.log),
    "log1p": (1, np.log1p),
    "tanh": (1, np.tanh),
    "sqrt": (1, np.sqrt),
    "floor": (1, np.floor),
    "sin": (1, np.sin),
    "cos": (1, np.cos),
    "erf": (1, None),  # type: ignore[dict-item]  # not in numpy: interpret.py has it
    "lt": (2, np.less),
    "le": (2, np.less_equal),
    "eq": (2, np.equal),
    "ne": (2, np.not_equal),
    "and": (2, np.logical_and),
    "or": (2, np.logical_or),
    "not": (1, np.logical_not),
    "select": (3, np.where),
}


def call(op: str, *args: E | float) -> E:
    """An operation by name.

    >>> call("exp", load(0)).op
    'exp'
    """
    count, _ = OPERATIONS[op]
    if len(args) != count:
        raise TypeError(f"{op} takes {count} operands, not {len(args)}")
    return E(op, tuple(wrap(a) for a in args))


def substitute(e: E, change: Callable[[E], E | None]) -> E:
    """`e` with every node for which `change` gives something replaced by it, outermost first."""
    new = change(e)
    if new is not None:
        return new
    return E(e.op, tuple(substitute(a, change) if isinstance(a, E) else a for a in e.args))


def walk(e: E) -> Iterator[E]:
    yield e
    for a in e.args:
        if isinstance(a, E):
            yield from walk(a)


@dataclass(frozen=True, slots=True)
class View:
    """Where an access goes: offset + Σ strides[d] · index[d] + Σ outer (loop variables), in scalars."""

    buffer: str
    offset: int
    strides: tuple[int, ...]
    outer: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Nest:
    """out[parallel] = finish(combine over the reduction of body(loads)).

    combine: None (no reduction dimension), "add", "max" or "min".
    scatter: the out view has strides over the reduction dimensions too and body is added to what
    is there: transposed convolutions.
    """

    extents: tuple[int, ...]
    parallel: int  # the first so many dimensions
    loads: tuple[View, ...]
    body: E
    out: View
    combine: str | None = None
    finish: E = ACC
    scatter: bool = False
    note: str = ""  # of which layer, for the generated comments

    @property
    def reduced(self) -> tuple[int, ...]:
        return self.extents[self.parallel :]


@dataclass(frozen=True, slots=True)
class Loop:
    """Its statements once for each value of `variable` in 0 … extent - 1, in order."""

    variable: str
    extent: int
    body: tuple[Statement, ...]
    note: str = ""


Statement = Nest | Loop


@dataclass(frozen=True)
class Port:
    """An input or output of the network: a dense, row-major tensor of one sample."""

    name: str
    shape: tuple[int, ...]
    buffer: str

    @property
    def size(self) -> int:
        size = 1
        for extent in self.shape:
            size *= extent
        return size


@dataclass
class Program:
    """What one call does for one sample. Buffers and constants are flat arrays of scalars."""

    statements: list[Statement] = field(default_factory=list)
    buffers: dict[str, int] = field(default_factory=dict)  # working memory: name -> scalars
    constants: dict[str, np.ndarray] = field(default_factory=dict)  # float64, flat
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    states: dict[str, np.ndarray] = field(
        default_factory=dict
    )  # kept between calls: initial values


def nests(statements) -> Iterator[Nest]:
    """Every nest, those inside loops too, in order."""
    for statement in statements:
        if isinstance(statement, Loop):
            yield from nests(statement.body)
        else:
            yield statement
