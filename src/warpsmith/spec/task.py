"""What to compute: a PyTorch reference with inputs, the shapes it must hold for, and how exact."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import TaskError


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Allowed error of one output element: abs(out - truth) <= atol + rtol * abs(truth).

    `exact` asks for equal bits instead (integers, permutations). A task that gives no tolerance
    gets one derived from dtype, reduction length and PyTorch's own error (see `verify`).
    """

    rtol: float = 0.0
    atol: float = 0.0
    exact: bool = False

    def __post_init__(self) -> None:
        if not (0 <= self.rtol < 1 and 0 <= self.atol < float("inf")):
            raise TaskError(
                f"tolerance rtol={self.rtol}, atol={self.atol}: expected 0 <= rtol < 1, 0 <= atol"
            )


@dataclass(frozen=True, slots=True)
class Range:
    """The values a size may take: low ... high, both included, in multiples of `multiple`."""

    low: int
    high: int
    multiple: int = 1

    def __post_init__(self) -> None:
        if self.low < 0 or self.high < self.low or self.multiple < 1:
            raise TaskError(f"{self}: expected 0 <= low <= high and multiple >= 1")
        if self.low % self.multiple or self.high % self.multiple:
            raise TaskError(f"{self}: low and high must be multiples of {self.multiple}")

    def holds(self, value: int) -> bool:
        return self.low <= value <= self.high and value % self.multiple == 0


@dataclass(frozen=True, slots=True)
class Case:
    """One set of sizes and one seed. `dims` are keyword arguments of the task's get_inputs."""

    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    hidden: bool = False  # chosen by the judge, never shown to a proposer

    @property
    def name(self) -> str:
        """Short text for tables: 'rows=31 cols=4097 seed=2'."""
        dims = " ".join(f"{k}={v}" for k, v in self.dims.items())
        return f"{dims or 'default'} seed={self.seed}"


@dataclass(frozen=True)
class Task:
    """A reference and its inputs.

    model: called as `model(*get_init_inputs())`, gives a callable (an nn.Module class fits); it is
        the reference. Weights that it creates are shared with candidates by name.
    get_inputs: gives the list of inputs (tensors on the CPU, numbers). Its keyword arguments, all
        with defaults, are the task's sizes; the defaults are the main case.
    get_init_inputs: the positional arguments of `model`.
    ranges: the sizes that may vary, each a `Range` or a (low, high[, multiple]) tuple.
        Hidden cases are drawn from them.
    cases: further declared sizes, besides the defaults, that must be right and are timed.
    tolerance: None derives one.
    backward: also judge and ship the gradient.
    source, path: the text of the task file and where it was; empty for tasks made in Python.
    """

    name: str
    model: Callable[..., Any]
    get_inputs: Callable[..., Sequence[Any]]
    get_init_inputs: Callable[[], Sequence[Any]] = tuple
    ranges: Mapping[str, Range] = field(default_factory=dict)
    cases: tuple[Case, ...] = ()
    tolerance: Tolerance | None = None
    backward: bool = False
    source: str = ""
    path: str = ""

    def __post_init__(self) -> None:
        for role in ("model", "get_inputs", "get_init_inputs"):
            if not callable(getattr(self, role)):
                raise TaskError(
                    f"task {self.name!r}: {role} is {getattr(self, role)!r}, not callable"
                )
        ranges = {k: v if isinstance(v, Range) else Range(*v) for k, v in self.ranges.items()}
        object.__setattr__(self, "ranges", ranges)
        for case in self.cases:
            self._hold(case)

    def _hold(self, case: Case) -> None:
        for dim, value in case.dims.items():
            if dim in self.ranges and not self.ranges[dim].holds(value):
                raise TaskError(
                    f"task {self.name!r}: case {case.name} has {dim}={value}, outside {self.ranges[dim]}"
                )

    @property
    def main(self) -> Case:
        """The case with every size at its default."""
        return Case()

    @property
    def id(self) -> str:
        """Twelve hex digits of the task's text: equal text, equal id."""
        text = self.source or f"{self.name}:{self.model!r}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]
