"""The comparison itself: what is equal, what is close, and what NaN, infinity and poison mean."""
# SPDX-License-Identifier: Apache-2.0

import importlib
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.devices import memory
from warpsmith.spec import Outcome
from warpsmith.verify.compare import Expected, compare, compare_all
from warpsmith.verify.hints import hint
from warpsmith.verify.tolerance import Allowance, derive, floor, reduction_length

pytestmark = pytest.mark.plain

INF, NAN = math.inf, math.nan
module = importlib.import_module("warpsmith.verify.compare")
POISON = (memory.POISON_WORD, memory.POISON_BYTE)


def expected(values, truth=None, absolute=1e-6, dtype=torch.float32) -> Expected:
    value = torch.tensor(values, dtype=dtype)
    exact = value.double() if truth is None else torch.tensor(truth, dtype=torch.float64)
    return Expected(value, exact, None, Allowance(0.0, absolute))


@pytest.mark.parametrize(
    ("output", "value", "truth", "outcome"),
    [
        (1.0, 1.0, 1.0, Outcome.RIGHT),
        (1.0, 1.1, 1.0, Outcome.RIGHT),  # nearer to the truth than the reference
        (1.1, 1.1, 1.0, Outcome.WRONG_VALUE),
        (NAN, 1.0, 1.0, Outcome.NON_FINITE),
        (INF, 1.0, 1.0, Outcome.NON_FINITE),
        (NAN, NAN, NAN, Outcome.RIGHT),
        (1.0, NAN, NAN, Outcome.WRONG_VALUE),
        (1.0, NAN, 1.0, Outcome.RIGHT),  # the reference overflowed, the candidate did not
        (NAN, NAN, 1.0, Outcome.RIGHT),
        (2.0, NAN, 1.0, Outcome.WRONG_VALUE),
        (INF, INF, INF, Outcome.RIGHT),
        (-INF, INF, INF, Outcome.WRONG_VALUE),
        (INF, INF, 1e39, Outcome.RIGHT),
        (3e38, INF, 1e39, Outcome.WRONG_VALUE),
        (NAN, INF, INF, Outcome.WRONG_VALUE),
        (0.0, -0.0, -0.0, Outcome.RIGHT),
    ],
)
def test_one_element(output, value, truth, outcome):
    found = compare(torch.tensor([output]), expected([value], [truth]))
    assert found.outcome is outcome
    assert (found.error <= 1) == outcome.right


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=20), st.data())
@settings(max_examples=60, deadline=None)
def test_equal_is_right_and_a_changed_element_is_found(values, data):
    wanted = expected(values)
    assert compare(torch.tensor(values), wanted) == module.RIGHT
    index = data.draw(st.integers(0, len(values) - 1))
    changed = torch.tensor(values)
    changed[index] += 1e-4 + abs(changed[index]) * 1e-3
    found = compare(changed, wanted)
    assert found.outcome is Outcome.WRONG_VALUE
    assert f"1 of {len(values)} elements" in found.message
    assert f"worst at [{index}]" in found.message


def test_chunks_give_what_one_piece_gives(monkeypatch):
    output, wanted = torch.randn(1000), expected([0.0] * 1000, absolute=2.0)
    whole = compare(output, wanted)
    monkeypatch.setattr(module, "CHUNK", 7)
    assert compare(output, wanted) == whole


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64])  # fmt: skip
def test_poison_is_told_from_numbers(dtype):
    value = torch.ones(5, dtype=dtype)
    output = memory.poison(torch.ones(5, dtype=dtype))
    wanted = Expected(value, value.double(), None, Allowance(1e-3, 1e-3))
    assert compare(output, wanted, poison=POISON).outcome is Outcome.NOT_WRITTEN
    other = torch.full((5,), 3, dtype=dtype)
    assert compare(other, wanted, poison=POISON).outcome is Outcome.WRONG_VALUE
    if dtype.is_floating_point:
        nan = torch.full((5,), NAN, dtype=dtype)
        assert compare(nan, wanted, poison=POISON).outcome is Outcome.NON_FINITE


def test_integers_are_exact_and_ties_may_go_by_the_float64_reference():
    wanted = Expected(torch.tensor([3, 5]), torch.tensor([3, 4]))
    assert compare(torch.tensor([3, 5]), wanted).outcome.right
    assert compare(torch.tensor([3, 4]), wanted).outcome.right
    assert compare(torch.tensor([3, 6]), wanted).outcome is Outcome.WRONG_VALUE


def test_complex_numbers_are_compared_by_parts():
    value = torch.tensor([1 + 2j])
    wanted = Expected(value, value.to(torch.complex128), None, Allowance(0.0, 1e-6))
    assert compare(torch.tensor([1 + 2j]), wanted).outcome.right
    assert compare(torch.tensor([1 - 2j]), wanted).outcome is Outcome.WRONG_VALUE


def test_empty_outputs_are_right():
    wanted = Expected(torch.ones(0, 3), torch.ones(0, 3).double(), None, Allowance(0.0, 0.0))
    assert compare(torch.ones(0, 3), wanted).outcome.right


def test_the_number_of_outputs_counts():
    found = compare_all([torch.ones(1)], [expected([1.0]), expected([1.0])])
    assert found.outcome is Outcome.WRONG_SHAPE
    assert found.message == "returned 1 output; the reference returns 2"


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_floor_grows_with_the_reduction_and_shrinks_with_the_type(kind):
    assert floor(kind, 1) < floor(kind, 10_000)
    assert floor(kind, 100)[0] >= 2 * torch.finfo(kind).eps
    if kind is not torch.float64:
        assert floor(kind, 100) > floor(torch.float64, 100)


def test_small_outputs_have_small_allowances():
    """All-zeros must not pass where the outputs are small (softmax over many columns)."""
    truth = torch.rand(1000).double() * 1e-6
    allowance = derive(truth, torch.zeros(1000).double(), torch.float32, 1000)
    assert float(allowance.of(truth, None).max()) < 1e-10


def test_noise_of_the_library_widens_and_only_then():
    truth = torch.randn(10_000).double()
    quiet = derive(truth, truth.abs() * 1e-9, torch.float32, 1)
    loud = derive(truth, truth.abs() * 1e-4, torch.float32, 1)
    assert quiet.relative == floor(torch.float32, 1)[0]
    assert loud.relative > 50 * quiet.relative
    few = torch.zeros(10_000).double()
    few[:5] = 1.0  # five elements out of ten thousand do not widen the rest
    assert derive(truth, few, torch.float32, 1).relative == quiet.relative


@pytest.mark.parametrize(
    ("call", "length"),
    [
        (lambda x: x + 1, 1),
        (lambda x: x @ x.T, 64),
        (lambda x: torch.nn.functional.linear(x, x, x[:, 0]), 64),
        (lambda x: x.sum(), 2048),
        (lambda x: x.mean(-1), 64),
        (lambda x: torch.softmax(x, -1), 64),
        (lambda x: torch.nn.functional.layer_norm(x, (64,)), 64),
        (lambda x: x.cumsum(-1), 64),
        (lambda x: torch.nn.functional.conv2d(x.view(1, 2, 16, 64), torch.ones(3, 2, 3, 3)), 18),
        (lambda x: torch.nn.functional.mse_loss(x, x), 2048),
    ],
)
def test_reduction_lengths(call, length):
    x = torch.randn(32, 64)
    assert reduction_length(lambda: call(x)) == length


TRUTH = torch.randn(40, 50).double()


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (TRUTH * 0, "every element is 0"),
        (TRUTH * 0 + 3, "every element is 3"),
        (-TRUTH, "the sign is turned"),
        (TRUTH * 0.5, "0.5 times"),
        (TRUTH + 2, "off by +2"),
        (TRUTH.T.reshape(40, 50), "transposed"),
        (TRUTH.flatten().roll(1).reshape(40, 50), "one element late"),
        (
            torch.cat([TRUTH[:, :48], TRUTH[:, 48:] + torch.randn(40, 2)], 1),
            "indices >= 48 of axis 1",
        ),
        (torch.cat([TRUTH[:1] + torch.randn(1, 50), TRUTH[1:]]), "index 0 of axis 0"),
        (TRUTH + torch.randn(40, 50) * (torch.arange(50) % 8 == 3), "3, 11, 19"),
        (TRUTH + torch.randn(40, 50), ""),
    ],
)
def test_hints(output, words):
    wrong = (output - TRUTH).abs() > 1e-9
    found = hint(output, TRUTH, wrong)
    assert words in found
    assert bool(found) == bool(words)
