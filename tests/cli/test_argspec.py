"""Kernel arguments as text: every kind, every type, and what is refused."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest

from warpsmith.cli import argspec
from warpsmith.errors import UsageError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.plain


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("zeros:f32[3]", [0.0, 0.0, 0.0]),
        ("ones:i32[2,2]", [[1, 1], [1, 1]]),
        ("arange:i64[4]", [0, 1, 2, 3]),
        ("full(3):f16[2]", [3.0, 3.0]),
        ("full(-0.5):f64[1]", [-0.5]),
        ("ones:bool[1]", [True]),
        (" arange:u8[ 2, 1 ] ", [[0], [1]]),
        ("zeros:f32[0]", []),
    ],
)
def test_tensors(text, values):
    assert argspec.parse(text).tolist() == values


@pytest.mark.parametrize(("short", "name"), argspec.DTYPES.items())
def test_every_type_makes_a_tensor_of_that_type(short, name):
    made = argspec.parse(f"ones:{short}[5]")
    assert made.dtype == getattr(torch, name)
    assert made.device.type == "cpu"


def test_a_scalar_tensor_has_no_dimensions():
    assert argspec.parse("ones:f32[]").shape == ()


@pytest.mark.parametrize("kind", ["randn", "rand"])
def test_random_values_depend_on_the_seed_alone(kind):
    text = f"{kind}:f32[100]"
    assert torch.equal(argspec.parse(text, 3), argspec.parse(text, 3))
    assert not torch.equal(argspec.parse(text, 3), argspec.parse(text, 4))


@pytest.mark.parametrize(
    ("text", "value"), [("1024", 1024), ("-3", -3), ("0.5", 0.5), ("1e-3", 1e-3)]
)
def test_numbers_keep_their_kind(text, value):
    assert argspec.parse(text) == value
    assert type(argspec.parse(text)) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("randn:f33[3]", "no dtype 'f33'"),
        ("normal:f32[3]", "expected one of randn"),
        ("full:f32[3]", "expected one of randn"),
        ("zeros(1):f32[3]", "expected one of randn"),
        ("randn:f32", "is no argument; expected something like"),
        ("randn:f32[a]", "is no argument"),
        ("", "is no argument"),
    ],
)
def test_what_cannot_be_read_says_what_can(text, message):
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        argspec.parse(text)
