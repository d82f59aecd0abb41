"""Is it right? Try a candidate on declared and hidden cases, and judge it against float64 truth."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..spec import CaseResult, Device, Outcome, Record, Run, Task, Verdict, Work
from .compare import Comparison, Expected, compare, compare_all
from .reference import Reference, Truth
from .sanitized import sanitized, warnings_of
from .tolerance import FACTOR, Allowance, reduction_length
from .trials import AS_GIVEN, Trial, make_inputs, plan

__all__ = [
    "FACTOR",
    "Allowance",
    "Comparison",
    "Expected",
    "Reference",
    "Trial",
    "compare",
    "compare_all",
    "plan",
    "reduction_length",
    "verify",
]

MODELLED_ELEMENTS = 1 << 14  # input elements of a hidden case on the virtual GPU
REAL_ELEMENTS = 1 << 22
LONG_SHARE = 0.25  # of max_seconds: a virtual GPU's run that takes longer is not repeated
SANITIZED = 2  # of the smallest trials
_SEED_BITS = 48
_ATOMICS = re.compile(r"atomic|\bred\.|\batom\.|scatter_add|index_add|index_put|scatter_reduce")


def verify(
    task: Task,
    record: Record,
    device: Device,
    *,
    hidden: int = 6,
    seed: int | None = None,
    max_seconds: float = 60.0,
    repeats: int = 2,
) -> Record:
    """The stage that fills `record.verdict`.

    hidden: how many undeclared cases to try. seed: None draws a secret one; the verdict records it,
    and the same seed gives the same trials. max_seconds: of one run. repeats: runs of each declared
    case, on equal inputs, that must agree bit by bit (unless the candidate adds with atomics).
    Raises TaskError when the reference itself fails, MissingTool when a compiler is not installed.
    """
    begin = time.monotonic()
    seed = secrets.randbits(_SEED_BITS) if seed is None else seed
    limit = MODELLED_ELEMENTS if device.modelled else REAL_ELEMENTS
    judge = _Judge(task, record, device, Reference(task, seed), max_seconds, repeats)
    for trial in plan(task, hidden=hidden, seed=seed, max_elements=limit):
        if not judge.try_on(trial):
            break
    verdict = judge.verdict(seed)
    return replace(record, verdict=replace(verdict, seconds=time.monotonic() - begin))


@dataclass
class _Judge:
    """Goes through the trials and remembers what it saw."""

    task: Task
    record: Record
    device: Device
    reference: Reference
    max_seconds: float
    repeats: int
    results: list[CaseResult] = field(default_factory=list)
    source: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def try_on(self, trial: Trial) -> bool:
        """Run one trial. True if the candidate was right."""
        trial, inputs, truth = self._prepare(trial)
        work = self._work(trial, inputs, truth)
        run = self._first_run(work)
        found = self._judge(run, truth)
        if found.outcome.right and not trial.case.hidden:
            if self.device.modelled and run.seconds > self.max_seconds * LONG_SHARE:
                self.notes.append(f"{trial.name} ran once only: it took {run.seconds:.0f} s")
            else:
                found = self._repeat(work, run, truth, found)
        if trial.main:
            self._sanity(inputs, truth)
        self.source = run.source
        self.results.append(
            CaseResult(
                trial.name, found.outcome, found.error, found.max_abs_error, self._advice(found)
            )
        )
        return found.outcome.right

    def _first_run(self, work: Work) -> Run:
        """The smallest trials run under the sanitizer where the device has one: the virtual GPU."""
        if len(self.results) >= SANITIZED or not self.device.modelled:
            return self.device.run(work, max_seconds=self.max_seconds)
        run = sanitized(self.device, work, self.max_seconds)
        if run.outcome is Outcome.TIMED_OUT:  # checks cost time: too slow with them is no verdict
            plain = self.device.run(work, max_seconds=self.max_seconds)
            if plain.outcome is not Outcome.TIMED_OUT:
                self.notes.append(f"{work.case.name} was not sanitized: it takes too long")
                return plain
        self.notes += warnings_of(run)
        return run

    def verdict(self, seed: int) -> Verdict:
        last = self.results[-1]
        message = last.message if last.outcome.right else f"{last.message} [{last.case}]"
        details = {"seed": seed, **self.details}
        if self.notes:
            details["warnings"] = list(dict.fromkeys(self.notes))
        return Verdict(
            last.outcome,
            "" if last.outcome.right else message,
            "" if last.outcome.right else self.source,
            tuple(self.results),
            details,
        )

    def _prepare(self, trial: Trial) -> tuple[Trial, list[Any], Truth]:
        """Inputs and truth. Hostile data on which the reference overflows is not used."""
        inputs = make_inputs(self.task, trial)
        truth = self.reference.solve(inputs)
        why_not = _unfit(trial, truth)
        if why_not:
            self.notes.append(f"data={trial.data} left out: {why_not}")
            return self._prepare(replace(trial, data=AS_GIVEN))
        if not trial.case.hidden and trial.main:
            self.details["tolerance"] = [_describe(e.allowance) for e in truth.outputs]
        return trial, inputs, truth

    def _work(self, trial: Trial, inputs: list[Any], truth: Truth) -> Work:
        return Work(
            candidate=self.record.candidate,
            inputs=inputs,
            state=self.reference.state,
            init_inputs=self.reference.init_inputs,
            case=trial.case,
            gradients=truth.output_gradients,
            seed=self.reference.seed,
        )

    def _judge(self, run: Run, truth: Truth) -> Comparison:
        """The first of the checks that does not hold."""
        if not run.outcome.right:
            return Comparison(run.outcome, message=run.message)
        poison = run.details.get("poison", ())
        found = compare_all(run.outputs, truth.outputs, poison=poison)
        for check in (
            _inputs_unchanged,
            _no_aliases,
            _state_unchanged,
            _inputs_written,
            _gradients,
        ):
            if not found.outcome.right:
                break
            found = _worse(found, check(run, truth))
        return found

    def _repeat(self, work: Work, first: Run, truth: Truth, found: Comparison) -> Comparison:
        for _ in range(self.repeats - 1):
            again = self.device.run(work, max_seconds=self.max_seconds)
            second = self._judge(again, truth)
            if not second.outcome.right:
                text = f"right at first, then on equal inputs: {second.message}"
                kind = second.outcome if not again.outcome.right else Outcome.NOT_REPEATABLE
                return replace(second, outcome=kind, message=text)
            different = _difference(first, again)
            if different and not self._adds_atomically(first):
                return replace(found, outcome=Outcome.NOT_REPEATABLE, message=different)
            if different:
                self.details["repeatable"] = False
                self.notes.append(f"{different}; it uses atomics, and stays within tolerance")
        return found

    def _adds_atomically(self, run: Run) -> bool:
        counted = any(launch.counters.get("global_atomic_threads") for launch in run.launches)
        return counted or any(_ATOMICS.search(f) for f in self.record.candidate.files.values())

    def _sanity(self, inputs: Sequence[Any], truth: Truth) -> None:
        """Warn of a task that answers without work would pass, or that nothing can pass."""
        for name, outputs in _lazy_answers(truth):
            if compare_all(outputs, truth.outputs).outcome.right:
                self.notes.append(f"task is weak: {name} passes")
        if self.reference.is_random(inputs):
            self.notes.append("task is random: two runs of the reference differ (dropout?)")
        if any(e.value is not None and _all_nan(e.value) for e in truth.outputs):
            self.notes.append("task is weak: an output of the reference is NaN everywhere")

    def _advice(self, found: Comparison) -> str:
        if found.outcome is Outcome.TIMED_OUT and self.device.modelled:
            return (
                f"{found.message}. On the virtual GPU, declare smaller sizes or allow more seconds"
            )
        return found.message


def _unfit(trial: Trial, truth: Truth) -> str:
    """Why the trial's hostile data cannot be used with this task; "" if they can."""
    if trial.data != AS_GIVEN and not truth.finite:
        return "the reference is not finite on it"
    if trial.data == "constant" and any(_is_index(e.value) for e in truth.outputs):
        return "an output holds integers, and positions of equal elements are anybody's choice"
    return ""


def _is_index(value: Any) -> bool:
    import torch

    kinds = (torch.int32, torch.int64, torch.int16, torch.uint8, torch.int8)
    return getattr(value, "dtype", None) in kinds


def _worse(found: Comparison, other: Comparison) -> Comparison:
    if not other.outcome.right:
        return other
    return max(found, other, key=lambda c: c.error or 0.0)


def _inputs_unchanged(run: Run, truth: Truth) -> Comparison:
    extra = [i for i in run.changed_inputs if i not in truth.changed]
    if not extra:
        return Comparison(Outcome.RIGHT)
    return Comparison(
        Outcome.INPUT_CHANGED,
        message=f"input {extra[0]} was written; the reference leaves it alone: write to new memory",
    )


def _no_aliases(run: Run, truth: Truth) -> Comparison:
    pairs = {(int(o), int(i)) for o, i in run.details.get("aliases", ())}
    extra = sorted(pairs - truth.aliases)
    if not extra:
        return Comparison(Outcome.RIGHT)
    output, index = extra[0]
    return Comparison(
        Outcome.INPUT_CHANGED,
        message=f"output {output} is the memory of input {index}; the reference returns new memory",
    )


def _state_unchanged(run: Run, truth: Truth) -> Comparison:
    extra = [n for n in run.details.get("changed_state", ()) if n not in truth.changed_state]
    if not extra:
        return Comparison(Outcome.RIGHT)
    return Comparison(
        Outcome.INPUT_CHANGED, message=f"weight {extra[0]!r} was written; it must stay as it is"
    )


def _inputs_written(run: Run, truth: Truth) -> Comparison:
    """Inputs that the reference writes, and nothing returns, must be written alike."""
    after = run.details.get("after", {})
    for index, wanted in truth.after.items():
        if str(index) not in after:
            text = f"input {index} was not written; the reference writes its result there"
            return Comparison(Outcome.NOT_WRITTEN, message=text)
        found = compare(after[str(index)], wanted)
        if not found.outcome.right:
            return found
    return Comparison(Outcome.RIGHT)


def _gradients(run: Run, truth: Truth) -> Comparison:
    if truth.output_gradients is None:
        return Comparison(Outcome.RIGHT)
    import torch

    # None stands for a gradient that is zero everywhere
    padded = [*run.gradients, *[None] * (len(truth.gradients) - len(run.gradients))]
    given = [torch.zeros_like(e.value) if g is None else g for g, e in zip(padded, truth.gradients)]
    given += padded[len(truth.gradients) :]
    poison = run.details.get("poison", ())
    return compare_all(given, truth.gradients, poison=poison)


def _difference(first: Run, second: Run) -> str:
    """Where two runs on equal inputs differ in a bit; "" where they do not."""
    pairs = [("output", first.outputs, second.outputs)]
    pairs += [("gradient", first.gradients, second.gradients)]
    for kind, ones, twos in pairs:
        for index, (one, two) in enumerate(zip(ones, twos)):
            if count := _unequal(one, two):
                return (
                    f"{kind} {index} differs in {count} elements between two runs on equal inputs"
                )
    return ""


def _unequal(one: Any, two: Any) -> int:
    import torch

    if not isinstance(one, torch.Tensor) or not isinstance(two, torch.Tensor):
        return int(one != two)
    if one.is_complex():
        one, two = torch.view_as_real(one), torch.view_as_real(two)
    same = (one == two) | ((one != one) & (two != two))
    return int((~same).sum())


def _lazy_answers(truth: Truth) -> Iterator[tuple[str, list[Any]]]:
    import torch

    values = [e.value for e in truth.outputs]
    tensors = [v for v in values if isinstance(v, torch.Tensor) and v.numel()]
    if len(tensors) != len(values) or not values:
        return
    yield "an output of zeros", [torch.zeros_like(v) for v in values]
    if all(v.is_floating_point() and v.numel() > 1 for v in values):
        means = [v.double().mean().to(v.dtype) for v in values]
        yield "a constant output", [torch.full_like(v, float(m)) for v, m in zip(values, means)]


def _all_nan(value: Any) -> bool:
    return hasattr(value, "numel") and value.numel() > 0 and bool((value != value).all())


def _describe(allowance: Allowance) -> dict[str, Any]:
    return {
        "relative": allowance.relative,
        "absolute": allowance.absolute,
        "exact": allowance.exact,
        "origin": allowance.origin,
    }
