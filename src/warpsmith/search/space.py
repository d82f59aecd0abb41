"""What a search walks over: families of candidates, each with a grid of parameters."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ..spec import Candidate, Task


@runtime_checkable
class Family(Protocol):
    """One way to write the kernel, with what can be tuned about it.

    parameters: name -> values worth trying, in order, the default first. name: unique in its space.
    """

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> Mapping[str, Sequence[Any]]: ...


@runtime_checkable
class Space(Protocol):
    """A proposer whose candidates are points of grids. `propose.Template` is one."""

    name: str

    def families(self, task: Task) -> Sequence[Family]:
        """All families, the simplest first; empty if the space has nothing for the task."""
        ...

    def build(self, task: Task, family: Any, point: Mapping[str, Any]) -> Candidate:
        """The candidate at one point: equal points give equal files."""
        ...

    def explain(self) -> str:
        """Why there are no families."""
        ...


def default_of(family: Family) -> dict[str, Any]:
    """The point with every parameter at its default."""
    return {name: values[0] for name, values in family.parameters.items()}
