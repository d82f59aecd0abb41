"""Compare outputs with what was expected, element by element, and say in words what is wrong."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..spec import Outcome
from .hints import hint
from .tolerance import Allowance

CHUNK = 1 << 21  # elements compared at a time: bounds the temporaries to about 100 MB
EXACT = Allowance(0.0, 0.0, exact=True)


@dataclass(frozen=True)
class Expected:
    """One output of the reference.

    value: in the task's own precision: decides shape, dtype, and where NaN and infinity belong.
    truth: float64; None where there is none (integers, or a reference that cannot run in float64).
    noise: what the reference itself gets wrong, see `tolerance`; None without a truth.
    """

    value: Any
    truth: Any = None
    noise: Any = None
    allowance: Allowance = EXACT
    name: str = "output 0"


@dataclass(frozen=True, slots=True)
class Comparison:
    """error is the largest |out - truth| / allowed; 1 is the limit; inf where a NaN is out of place."""

    outcome: Outcome
    error: float | None = None
    max_abs_error: float | None = None
    message: str = ""


RIGHT = Comparison(Outcome.RIGHT, 0.0, 0.0)


def compare_all(
    outputs: Sequence[Any], expected: Sequence[Expected], *, poison: Sequence[int] = ()
) -> Comparison:
    """The first output that is not right, or the largest error of all.

    poison: the bit patterns of unwritten memory, of two bytes and of one (see `devices.memory`).
    """
    if len(outputs) != len(expected):
        return Comparison(
            Outcome.WRONG_SHAPE,
            message=f"returned {_count(len(outputs))}; the reference returns {len(expected)}",
        )
    worst = RIGHT
    for output, wanted in zip(outputs, expected):
        found = compare(output, wanted, poison=poison)
        if not found.outcome.right:
            return found
        worst = max(worst, found, key=lambda c: c.error or 0.0)
    return worst


def _count(n: int) -> str:
    return f"{n} output" + ("" if n == 1 else "s")


def compare(output: Any, wanted: Expected, *, poison: Sequence[int] = ()) -> Comparison:
    """One output against one expectation: kind, shape, dtype, then values."""
    import torch

    if wanted.value is None or output is None:
        same = wanted.value is None and output is None
        text = f"{wanted.name} is {_kind(output)}; the reference returns {_kind(wanted.value)}"
        return RIGHT if same else Comparison(Outcome.WRONG_SHAPE, message=text)
    if not isinstance(wanted.value, torch.Tensor):
        wanted, output = _as_tensors(wanted, output)
    if not isinstance(output, torch.Tensor):
        text = f"{wanted.name} is {_kind(output)}, expected a tensor {tuple(wanted.value.shape)}"
        return Comparison(Outcome.WRONG_SHAPE, message=text)
    if output.shape != wanted.value.shape:
        return Comparison(Outcome.WRONG_SHAPE, message=_shape_message(output, wanted))
    if output.dtype != wanted.value.dtype:
        text = f"{wanted.name} has dtype {_dtype(output)}, expected {_dtype(wanted.value)}"
        return Comparison(Outcome.WRONG_DTYPE, message=text)
    if output.is_complex():
        output, wanted = _real(output), _real_expected(wanted)
    return _compare_values(output, wanted, poison)


def _kind(value: Any) -> str:
    return f"a tensor {tuple(value.shape)}" if hasattr(value, "shape") else type(value).__name__


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _as_tensors(wanted: Expected, output: Any) -> tuple[Expected, Any]:
    """A reference that returns a number: compared as a float64 or int64 scalar."""
    import torch

    value = torch.as_tensor(wanted.value)
    if isinstance(output, (bool, int, float)):
        output = torch.as_tensor(output, dtype=value.dtype)
    return Expected(value, wanted.truth, wanted.noise, wanted.allowance, wanted.name), output


def _shape_message(output: Any, wanted: Expected) -> str:
    got, want = tuple(output.shape), tuple(wanted.value.shape)
    text = f"{wanted.name} has shape {got}, expected {want}"
    if len(got) == len(want) and sorted(got) == sorted(want):
        return text + ": the axes are in another order"
    if tuple(n for n in got if n != 1) == tuple(n for n in want if n != 1):
        return text + ": they differ by axes of size 1 (keepdim?)"
    return text


def _real(tensor: Any) -> Any:
    import torch

    return torch.view_as_real(tensor.resolve_conj())


def _real_expected(wanted: Expected) -> Expected:
    truth, noise = (None if t is None else _real(t) for t in (wanted.truth, wanted.noise))
    return Expected(_real(wanted.value), truth, noise, wanted.allowance, wanted.name)


@dataclass
class _Tally:
    """What the pass over the chunks has found so far."""

    wrong: Any  # bool, flat
    error: float = 0.0
    max_abs_error: float = 0.0
    worst: int = -1
    non_finite: int = 0
    unwritten: int = 0


def _compare_values(output: Any, wanted: Expected, poison: Sequence[int]) -> Comparison:
    import torch

    tally = _Tally(torch.zeros(output.numel(), dtype=torch.bool))
    for start, part in _chunks(output, wanted):
        _check_chunk(start, part, wanted, poison, tally)
    if not bool(tally.wrong.any()):
        return Comparison(Outcome.RIGHT, tally.error, tally.max_abs_error)
    outcome = Outcome.WRONG_VALUE
    if tally.unwritten:
        outcome = Outcome.NOT_WRITTEN
    elif tally.non_finite:
        outcome = Outcome.NON_FINITE
    return Comparison(
        outcome, tally.error, tally.max_abs_error, _message(output, wanted, tally, outcome)
    )


def _chunks(output: Any, wanted: Expected) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Flat slices (output, value, truth or None, noise or None)."""
    flat = [
        None if t is None else t.reshape(-1)
        for t in (output, wanted.value, wanted.truth, wanted.noise)
    ]
    for start in range(0, output.numel(), CHUNK):
        yield start, tuple(None if t is None else t[start : start + CHUNK] for t in flat)


def _check_chunk(
    start: int, part: tuple[Any, ...], wanted: Expected, poison: Sequence[int], tally: _Tally
) -> None:
    import torch

    output, value, truth, noise = part
    if wanted.allowance.exact or not value.is_floating_point():
        error = _exact_error(output, value, truth)
        distance = _distance(output, value)
    else:
        error, distance = _float_error(output, value, truth, noise, wanted.allowance)
        bad = ~torch.isfinite(output) & torch.isfinite(value) & (error > 1)
        tally.non_finite += int(bad.sum())
    wrong = error > 1
    tally.wrong[start : start + wrong.numel()] = wrong
    if poison and bool(wrong.any()):
        tally.unwritten += int((_is_poison(output, poison) & wrong).sum())
    top = int(error.argmax())
    if tally.worst < 0 or float(error[top]) > tally.error:
        tally.error, tally.worst = float(error[top]), start + top
    finite = distance[torch.isfinite(distance)]
    if finite.numel():
        tally.max_abs_error = max(tally.max_abs_error, float(finite.max()))


def _exact_error(output: Any, value: Any, truth: Any) -> Any:
    """0 where equal to the reference or, for integers, to the float64 reference's integer; else inf."""
    import torch

    same = output == value
    if output.is_floating_point():
        same |= torch.isnan(output) & torch.isnan(value)
    elif truth is not None and truth.dtype == output.dtype:
        same |= output == truth
    return torch.where(same, 0.0, torch.inf).double()


def _distance(output: Any, value: Any) -> Any:
    return (output.double() - value.double()).abs()


def _float_error(
    output: Any, value: Any, truth: Any, noise: Any, allowance: Allowance
) -> tuple[Any, Any]:
    """Error over allowed, and absolute error, elementwise.

    Where the reference overflowed or gave NaN at its own precision, the same answer is right, and
    so is the true one.
    """
    import torch

    out = output.double()
    exact = value.double() if truth is None else truth
    quiet = None if noise is None else torch.where(torch.isfinite(noise), noise, 0.0)
    distance = (out - exact).abs()
    error = distance / allowance.of(exact, quiet)
    error = torch.where(distance == 0, 0.0, error)
    same = (out == value.double()) | (torch.isnan(out) & torch.isnan(value))
    same |= (out == exact) & ~torch.isfinite(value)
    error = torch.where(~torch.isfinite(value) & same, 0.0, error)
    # a NaN compares false: whatever is left non-finite is wrong
    error = torch.where(torch.isfinite(error), error, torch.inf)
    distance = torch.where(error == 0, distance.nan_to_num(0.0, 0.0, 0.0), distance)
    return error, distance


def _is_poison(output: Any, poison: Sequence[int]) -> Any:
    import torch

    if output.dtype == torch.bool:
        return torch.zeros(output.numel(), dtype=torch.bool)
    if output.element_size() == 1:
        return output.contiguous().view(torch.uint8) == poison[1]
    words = output.contiguous().view(torch.int16).reshape(output.numel(), -1)
    return (words == poison[0]).all(dim=1)


def _message(output: Any, wanted: Expected, tally: _Tally, outcome: Outcome) -> str:
    """'3 of 4096 elements of output 0 wrong; worst at [2, 17]: 0.1 instead of 0.3 (allowed 1e-06)…'"""
    import numpy

    index = (
        [int(i) for i in numpy.unravel_index(tally.worst, tuple(output.shape))]
        if output.dim()
        else []
    )
    target = wanted.value if wanted.truth is None else wanted.truth
    got, want = output.reshape(-1)[tally.worst], target.reshape(-1)[tally.worst]
    wrong = int(tally.wrong.sum())
    text = f"{wrong} of {output.numel()} elements of {wanted.name} wrong; worst at {index}: "
    text += f"{_number(got)} instead of {_number(want)}"
    if not wanted.allowance.exact and output.is_floating_point():
        noise = None if wanted.noise is None else wanted.noise.reshape(-1)[tally.worst]
        text += f" (allowed {float(wanted.allowance.of(want.double(), noise)):.2g})"
    if outcome is Outcome.NOT_WRITTEN:
        text += f"; {tally.unwritten} were never written"
    found = hint(output, target, tally.wrong.reshape(output.shape))
    return f"{text}; {found}" if found else text


def _number(value: Any) -> str:
    plain = value.item()
    return f"{plain:.6g}" if isinstance(plain, float) else str(plain)
