"""Run a task's reference: at its own precision, in float64, and with inputs moved by one rounding."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import TaskError
from ..spec import Task
from .compare import Expected
from .tolerance import Allowance, derive, reduction_length
from .trials import seeded

PERTURBED_ELEMENTS = 1 << 24  # outputs larger than this are not run a third time


@dataclass(frozen=True)
class Truth:
    """What the reference says about one set of inputs.

    changed: indices of inputs it writes. aliases: pairs (output, input) that share memory.
    finite: whether every output is, at the task's own precision.
    """

    outputs: tuple[Expected, ...]
    gradients: tuple[Expected, ...] = ()
    output_gradients: tuple[Any, ...] | None = None
    after: Mapping[int, Expected] = field(default_factory=dict)  # inputs that must be written
    changed: frozenset[int] = frozenset()
    changed_state: frozenset[str] = frozenset()
    aliases: frozenset[tuple[int, int]] = frozenset()
    finite: bool = True


@dataclass(frozen=True)
class _Answer:
    """One run of the reference."""

    outputs: list[Any]
    gradients: list[Any]
    inputs: list[Any]  # as they were afterwards
    state: dict[str, Any]
    aliases: frozenset[tuple[int, int]]


class Reference:
    """A task's model with weights drawn from `seed`. Raises TaskError when it cannot be built."""

    def __init__(self, task: Task, seed: int):
        self.task, self.seed = task, seed
        try:
            with seeded(seed):
                self.init_inputs = list(task.get_init_inputs())
                self.model = task.model(*self.init_inputs)
        except Exception as error:
            raise TaskError(f"task {task.name!r}: its model cannot be built: {error}") from error
        self.state = _state(self.model)

    def solve(self, inputs: Sequence[Any]) -> Truth:
        """The expected outputs, and gradients where the task asks for them.

        Raises TaskError when the reference itself fails on these inputs.
        """
        length, low = self._low(inputs)
        gradients_out = self._output_gradients(low.outputs)
        if gradients_out is not None:
            low = self._answer(inputs, gradients_out)
        high = self._high(inputs, gradients_out, None)
        moved = None
        if high and sum(_count(o) for o in low.outputs) <= PERTURBED_ELEMENTS:
            moved = self._high(inputs, gradients_out, _epsilon(inputs))
        changed = _changed(inputs, low.inputs)
        expect = _Expectations(self.task, length)
        return Truth(
            outputs=expect.of(
                "output {}", low.outputs, high and high.outputs, moved and moved.outputs
            ),
            gradients=expect.of(
                "gradient {}", low.gradients, high and high.gradients, moved and moved.gradients
            ),
            output_gradients=gradients_out,
            after=self._after(expect, changed, low, high, moved),
            changed=frozenset(changed),
            changed_state=frozenset(n for n, t in low.state.items() if not _same(t, self.state[n])),
            aliases=low.aliases,
            finite=all(_finite(o) for o in low.outputs),
        )

    def is_random(self, inputs: Sequence[Any]) -> bool:
        """Whether two runs on equal inputs differ, as with dropout: then nothing can be judged."""
        answers = []
        for seed in (self.seed, self.seed + 1):
            answers.append(self._answer(inputs, None, seed=seed).outputs)
        return not all(_same(a, b) for a, b in zip(*answers))

    def _after(
        self, expect: _Expectations, changed: list[int], low: _Answer, high: Any, moved: Any
    ) -> dict[int, Expected]:
        """Inputs that the reference writes and does not return: writing them is part of the task."""
        returned = {i for _, i in low.aliases}
        wanted = [i for i in changed if i not in returned]
        pick = [[a.inputs[i] for i in wanted] if a else None for a in (low, high, moved)]
        found = expect.of("input {} after the call", *pick)
        names = (replace(e, name=f"input {i} after the call") for i, e in zip(wanted, found))
        return dict(zip(wanted, names))

    def _low(self, inputs: Sequence[Any]) -> tuple[int, _Answer]:
        kept: list[_Answer] = []
        try:
            length = reduction_length(lambda: kept.append(self._answer(inputs, None)))
        except Exception as error:
            sizes = ", ".join(str(_describe(v)) for v in inputs)
            raise TaskError(
                f"task {self.task.name!r}: the reference fails on inputs {sizes}: "
                f"{type(error).__name__}: {error}. Narrow RANGES or CASES to what it can take."
            ) from error
        return length, kept[0]

    def _high(self, inputs: Sequence[Any], gradients: Any, epsilon: float | None) -> _Answer | None:
        """In float64, its inputs moved by `epsilon` relative where given; None if it cannot."""
        try:
            with seeded(self.seed + 1):
                doubled = [_double(v, epsilon) for v in inputs]
                gradients = gradients and tuple(_double(g, epsilon) for g in gradients)
            return self._answer(doubled, gradients, double=True)
        except Exception:  # whatever the reference cannot do in float64
            return None

    def _answer(
        self,
        inputs: Sequence[Any],
        gradients: Any,
        *,
        double: bool = False,
        seed: int | None = None,
    ) -> _Answer:
        import torch

        model = _copied(self.model)
        if double and isinstance(model, torch.nn.Module):
            model = model.double()
        mine = _clones(inputs)
        differentiable = [t for t in mine if _differentiable(t)]
        wanted = [*differentiable, *_parameters(model)]
        with (
            seeded(self.seed if seed is None else seed),
            torch.set_grad_enabled(gradients is not None),
        ):
            for tensor in differentiable if gradients is not None else ():
                tensor.requires_grad_()
            outputs = list(leaves(model(*mine)))
            given = _gradients(outputs, wanted, gradients)
        state = {n: t.detach() for n, t in _state(model).items()}
        aliases = _aliases(outputs, mine)
        return _Answer([_detached(o) for o in outputs], given, _values(mine), state, aliases)

    def _output_gradients(self, outputs: Sequence[Any]) -> tuple[Any, ...] | None:
        import torch

        if not self.task.backward:
            return None
        with seeded(self.seed + 2):
            return tuple(torch.randn_like(o) if _differentiable(o) else None for o in outputs)


class _Expectations:
    """Makes `Expected` values of the three runs' outputs."""

    def __init__(self, task: Task, length: int):
        self.given, self.length = task.tolerance, length

    def of(self, name: str, low: Any, high: Any, moved: Any) -> tuple[Expected, ...]:
        low = low or []
        high = high or [None] * len(low)
        moved = moved or [None] * len(low)
        triples = enumerate(zip(low, high, moved))
        return tuple(self._one(name.format(i), *triple) for i, triple in triples)

    def _one(self, name: str, low: Any, high: Any, moved: Any) -> Expected:
        import torch

        value = torch.as_tensor(low, dtype=torch.float64) if isinstance(low, float) else low
        if not isinstance(value, torch.Tensor) or not (
            value.is_floating_point() or value.is_complex()
        ):
            return Expected(value, high if isinstance(high, torch.Tensor) else None, name=name)
        if self.given is not None and self.given.exact:
            return Expected(value, name=name)
        wide = torch.complex128 if value.is_complex() else torch.float64
        proper = isinstance(high, torch.Tensor) and high.dtype == wide and high.shape == value.shape
        truth = high if proper else value.to(wide)
        noise = None
        if proper and (value.dtype != wide or moved is not None):
            noise = _noise(value, truth, moved)
        return Expected(value, truth, noise, self._allowance(value, truth, noise), name)

    def _allowance(self, value: Any, truth: Any, noise: Any) -> Allowance:
        import torch

        if self.given is not None:
            return Allowance(self.given.rtol, self.given.atol, 0.0, origin="the task's own")
        if value.is_complex():
            value, truth = value.real, torch.view_as_real(truth)
            noise = None if noise is None else torch.view_as_real(noise)
        return derive(truth, noise, value.dtype, self.length)


def _noise(low: Any, truth: Any, moved: Any) -> Any:
    """Own error, or the answer to moved inputs, whichever is larger; float64 (complex: by parts)."""
    import torch

    own = low.to(truth.dtype) - truth
    if truth.is_complex():
        parts = [torch.view_as_real(own).abs()]
        parts += [torch.view_as_real(moved - truth).abs()] if moved is not None else []
        most = torch.stack(parts).amax(dim=0)
        return torch.view_as_complex(most.contiguous())
    own = own.abs()
    if moved is None or moved.shape != truth.shape:
        return own
    return torch.maximum(own, (moved - truth).abs())


def leaves(value: Any) -> Iterator[Any]:
    """The tensors, numbers and Nones of what a model returned, tuples, lists and dicts opened."""
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def _state(model: Any) -> dict[str, Any]:
    """Parameters, then buffers, by name; {} for a plain function.

    What asks for a gradient keeps the flag: a device takes gradients of these.
    """
    if not hasattr(model, "named_parameters"):
        return {}
    both = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor.detach().requires_grad_(tensor.requires_grad) for name, tensor in both}


def _parameters(model: Any) -> list[Any]:
    if not hasattr(model, "parameters"):
        return []
    return [p for p in model.parameters() if p.requires_grad]


def _copied(model: Any) -> Any:
    """A model of its own for each run: references may write their buffers."""
    return copy.deepcopy(model) if hasattr(model, "named_parameters") else model


def _clones(values: Sequence[Any]) -> list[Any]:
    memo: dict[int, Any] = {}

    def clone(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(clone(v) for v in value)
        if not hasattr(value, "untyped_storage"):
            return value
        if id(value) not in memo:
            memo[id(value)] = value.detach().clone()
        return memo[id(value)]

    return [clone(v) for v in values]


def _values(values: Sequence[Any]) -> list[Any]:
    return [_detached(v) for v in values]


def _detached(value: Any) -> Any:
    return value.detach() if hasattr(value, "detach") else value


def _double(value: Any, epsilon: float | None) -> Any:
    """Floating-point tensors in float64, each element moved up or down by `epsilon` relative."""
    import torch

    if isinstance(value, (list, tuple)):
        return type(value)(_double(v, epsilon) for v in value)
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return value
    wide = value.to(torch.complex128 if value.is_complex() else torch.float64)
    if epsilon is None:
        return wide.clone()
    sign = torch.randint(0, 2, value.shape) * 2 - 1
    return wide * (1 + epsilon * sign)


def _epsilon(inputs: Sequence[Any]) -> float:
    """One rounding of the arithmetic: float32's, float64's where all inputs are float64."""
    import torch

    from .trials import tensors_in

    floats = {t.dtype for t in tensors_in(inputs) if t.is_floating_point()}
    kind = torch.float64 if floats and floats <= {torch.float64} else torch.float32
    return torch.finfo(kind).eps


def _differentiable(value: Any) -> bool:
    return hasattr(value, "is_floating_point") and value.is_floating_point()


def _gradients(outputs: Sequence[Any], wanted: Sequence[Any], given: Any) -> list[Any]:
    import torch

    if given is None:
        return []
    pairs = [
        (o, g.to(o.dtype)) for o, g in zip(outputs, given) if g is not None and o.requires_grad
    ]
    found = torch.autograd.grad(
        [o for o, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True
    )
    return [torch.zeros_like(w) if g is None else g.detach() for g, w in zip(found, wanted)]


def _aliases(outputs: Sequence[Any], inputs: Sequence[Any]) -> frozenset[tuple[int, int]]:
    homes = [t.untyped_storage().data_ptr() if hasattr(t, "untyped_storage") else 0 for t in inputs]
    return frozenset(
        (o, i)
        for o, t in enumerate(outputs)
        for i, home in enumerate(homes)
        if home and hasattr(t, "untyped_storage") and t.untyped_storage().data_ptr() == home
    )


def _changed(before: Sequence[Any], after: Sequence[Any]) -> list[int]:
    return [i for i, (a, b) in enumerate(zip(before, after)) if not _same(a, b)]


def _same(a: Any, b: Any) -> bool:
    """Equal values, NaNs equal to themselves."""
    import torch

    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return True
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool(torch.equal(a, b) or ((a == b) | ((a != a) & (b != b))).all())


def _finite(value: Any) -> bool:
    import torch

    return not _differentiable(value) or bool(torch.isfinite(value).all())


def _count(value: Any) -> int:
    return value.numel() if hasattr(value, "numel") else 1


def _describe(value: Any) -> Any:
    return tuple(value.shape) if hasattr(value, "shape") else value
