"""Choose what a candidate is tried on: declared sizes, hidden sizes at the edges of tiles, and hostile data."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import TaskError
from ..spec import Case, Range, Task

AS_GIVEN = "as given"
_SEED_BITS = 48


@dataclass(frozen=True, slots=True)
class Trial:
    """One case and what is done to its floating-point inputs (a name of `DATA`)."""

    case: Case
    data: str = AS_GIVEN
    main: bool = False

    @property
    def name(self) -> str:
        return self.case.name + ("" if self.data == AS_GIVEN else f" data={self.data}")


def plan(task: Task, *, hidden: int, seed: int, max_elements: int) -> list[Trial]:
    """Main, declared and `hidden` hidden trials, smallest inputs first; equal seeds, equal plan.

    Sizes of hidden trials come from the task's ranges, bounded to `max_elements` input elements.
    A task without ranges gets fresh seeds of its main case, and one large-valued variant.
    """
    draw = random.Random(seed)
    trials = [Trial(task.main, main=True), *(Trial(case) for case in task.cases)]
    hostile = _hostile(task, draw)
    known: dict[tuple[tuple[str, int], ...], int] = {}

    def elements(dims: Mapping[str, int]) -> int:
        key = tuple(sorted(dims.items()))
        if key not in known:
            known[key] = count_elements(task, dims)
        return known[key]

    for index, dims in enumerate(_hidden_dims(task, hidden, draw, elements, max_elements)):
        trials.append(Trial(Case(dims, hidden=True), hostile[index % len(hostile)]))
    trials = [replace(t, case=replace(t.case, seed=draw.getrandbits(_SEED_BITS))) for t in trials]
    return sorted(trials, key=lambda t: (elements(t.case.dims), not t.main))


def _hostile(task: Task, draw: random.Random) -> list[str]:
    """What is done to the inputs of successive hidden cases; the smallest sizes are left as given."""
    if not task.ranges:
        return [AS_GIVEN, "large"]
    return [*draw.sample(sorted(DATA), len(DATA)), AS_GIVEN, AS_GIVEN]


def _hidden_dims(
    task: Task,
    hidden: int,
    draw: random.Random,
    elements: Callable[[Mapping[str, int]], int],
    most: int,
) -> list[dict[str, int]]:
    if not task.ranges:
        return [{} for _ in range(min(hidden, 2))]
    found: list[dict[str, int]] = []
    for dims, kept in itertools.islice(_suggestions(task.ranges, draw), 4 * hidden):
        dims = _fit(task, dims, kept, elements, most)
        if dims not in found:
            found.append(dims)
        if len(found) == hidden:
            break
    return found


def _suggestions(
    ranges: Mapping[str, Range], draw: random.Random
) -> Iterator[tuple[dict[str, int], str]]:
    """Sizes to try, and the size to be kept when they are too many: edges, one long axis at a time,
    primes, the next long axis, all lowest, and again."""
    names = sorted(ranges)
    draw.shuffle(names)
    long = itertools.cycle(names)
    while True:
        yield {name: draw.choice(edges(r)) for name, r in ranges.items()}, ""
        yield _one_long(ranges, draw, name := next(long)), name
        yield {name: draw.choice(odd_sizes(r, draw)) for name, r in ranges.items()}, ""
        yield _one_long(ranges, draw, name := next(long)), name
        yield {name: r.low for name, r in ranges.items()}, ""


def _one_long(ranges: Mapping[str, Range], draw: random.Random, long: str) -> dict[str, int]:
    """One size at its highest or just below, the others small: long reductions, many rows."""
    small = {name: draw.choice(edges(r)[:6]) for name, r in ranges.items()}
    high = ranges[long].high
    near = [n for n in (high, high - ranges[long].multiple) if ranges[long].holds(n)]
    return small | {long: draw.choice(near)}


def edges(size: Range) -> list[int]:
    """Sizes where tiles end: low, high, 1, and powers of two and their neighbors, in order.

    >>> edges(Range(1, 10))
    [1, 2, 3, 4, 5, 7, 8, 9, 10]
    """
    powers = [1 << k for k in range(size.high.bit_length() + 1)]
    near = {size.low, size.high, *powers}
    near |= {p + step for p in powers for step in (-size.multiple, size.multiple)}
    return sorted(n for n in near if size.holds(n))


def odd_sizes(size: Range, draw: random.Random, count: int = 8) -> list[int]:
    """Primes of the range at several magnitudes; random multiples where sizes must be multiples."""
    found = []
    for _ in range(count):
        top = math.exp(draw.uniform(math.log(size.low + 1), math.log(size.high + 1))) - 1
        number = _snap(top, size)
        while size.multiple == 1 and number > size.low and not _prime(number):
            number -= 1
        found.append(number)
    return found


def _snap(value: float, size: Range) -> int:
    down = int(value) // size.multiple * size.multiple
    return min(max(down, size.low), size.high)


def _prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))


def _fit(
    task: Task,
    dims: dict[str, int],
    kept: str,
    elements: Callable[[Mapping[str, int]], int],
    most: int,
) -> dict[str, int]:
    """Shrink the largest size, `kept` last, until the inputs fit, or every size is at its lowest."""
    while elements(dims) > most:
        shrinkable = [n for n in dims if dims[n] > task.ranges[n].low]
        if not shrinkable:
            break
        largest = max(shrinkable, key=lambda n: (n != kept, dims[n]))
        odd = dims[largest] % 2
        half = _snap(dims[largest] // 2, task.ranges[largest])
        keeps_odd = task.ranges[largest].multiple == 1 and half > task.ranges[largest].low
        dims = dims | {largest: half - (1 - half % 2) if odd and keeps_odd else half}
    return dims


def count_elements(task: Task, dims: Mapping[str, int]) -> int:
    """How many elements the inputs have, found without making them where get_inputs allows that."""
    import torch

    with seeded(0), contextlib.suppress(Exception), torch.device("meta"):
        return sum(t.numel() for t in tensors_in(task.get_inputs(**dims)))
    if not dims:
        return sum(t.numel() for t in tensors_in(make_inputs(task, Trial(Case(dims)))))
    return math.prod(max(n, 1) for n in dims.values())


def make_inputs(task: Task, trial: Trial) -> list[Any]:
    """The task's inputs for a trial, on the CPU. The global random state stays as it was.

    Raises TaskError when get_inputs fails at these sizes.
    """
    with seeded(trial.case.seed):
        try:
            inputs = list(task.get_inputs(**trial.case.dims))
        except Exception as error:
            raise TaskError(
                f"task {task.name!r}: get_inputs fails for {trial.case.name}: {error}. "
                "Its keyword arguments must be the names in RANGES and CASES, each with a default."
            ) from error
        change = DATA.get(trial.data)
        return [_on_cpu(v, change) for v in inputs]


def _on_cpu(value: Any, change: Callable[[Any], Any] | None) -> Any:
    import torch

    if isinstance(value, (list, tuple)):
        return type(value)(_on_cpu(v, change) for v in value)
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    return change(value) if change and value.is_floating_point() and value.numel() else value


def _large(tensor: Any) -> Any:
    return tensor * 100


def _small(tensor: Any) -> Any:
    return tensor * 1e-3


def _constant(tensor: Any) -> Any:
    return tensor.flatten()[0].expand(tensor.shape).contiguous()


def _outliers(tensor: Any) -> Any:
    """One element in a thousand, at least one, a thousand times larger."""
    import torch

    changed = tensor.clone(memory_format=torch.contiguous_format)
    places = torch.randint(tensor.numel(), (max(1, tensor.numel() // 1000),))
    changed.view(-1)[places] *= 1000
    return changed


DATA: dict[str, Callable[[Any], Any]] = {
    "large": _large,
    "outliers": _outliers,
    "small": _small,
    "constant": _constant,
}


def tensors_in(values: Sequence[Any]) -> Iterator[Any]:
    """The tensors of a sequence, those within lists and tuples too."""
    import torch

    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed every generator a task may use, and put all of them back afterwards."""
    import numpy
    import torch

    python, arrays = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(python)
            numpy.random.set_state(arrays)
