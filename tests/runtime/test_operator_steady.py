"""Calls like earlier ones are quick; what differs from them is noticed, and torch's state is kept."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses

import operator_tasks as samples
import pytest

torch = pytest.importorskip("torch")

from warpsmith.runtime.operator import load, save  # noqa: E402

pytestmark = [
    pytest.mark.plain,
    pytest.mark.filterwarnings("ignore::warpsmith.runtime.registration.OperatorFallback"),
]


@pytest.fixture
def softmax(tmp_path):
    """An operator that was called twice inside its domain; three numbers make it fail."""
    text = samples.SOFTMAX.candidate + f"\n# {tmp_path.name}\n_run = run\n" + (
        "def run(inputs, state):\n"
        "    if inputs[0].numel() == 3: raise ValueError('three')\n"
        "    return _run(inputs, state)\n"
    )  # fmt: skip
    sample = dataclasses.replace(samples.SOFTMAX, candidate=text)
    task = samples.task_of(sample, tmp_path)
    operator = load(save(samples.record_of(sample, task), task, tmp_path / "op"), cpu="virtual")
    for _ in range(2):
        operator(torch.randn(4, 8))
    assert operator.fallbacks == 0
    return operator


CHANGED = {
    "dtype": lambda: torch.randn(4, 8).double(),
    "layout": lambda: torch.randn(8, 4).t(),
    "alignment": lambda: torch.randn(33)[1:].view(4, 8),
    "shape": lambda: torch.randn(400, 8),
}


@pytest.mark.parametrize("word", CHANGED)
def test_what_left_the_domain_goes_to_the_reference(softmax, word):
    x = CHANGED[word]()
    torch.testing.assert_close(softmax(x), torch.softmax(x, -1))
    assert softmax.fallback_reasons == {word: 1}
    softmax(torch.randn(4, 8))
    assert softmax.fallbacks == 1


def test_the_same_tensor_with_another_form_is_looked_at_anew(softmax):
    x = torch.randn(4, 8)
    softmax(x)
    x.resize_(400, 8)
    softmax(x)
    assert softmax.fallback_reasons == {"shape": 1}


@pytest.mark.parametrize("recording", [True, False])
def test_recording_is_as_before_also_after_an_error(softmax, recording):
    with torch.set_grad_enabled(recording):
        assert not softmax(torch.randn(4, 8)).requires_grad
        assert torch.is_grad_enabled() == recording
        with pytest.raises(ValueError, match="three"):
            softmax(torch.randn(1, 3))
        assert torch.is_grad_enabled() == recording


def test_gradients_are_recorded_after_calls_without(softmax):
    x = torch.randn(4, 8, requires_grad=True)
    assert softmax(x).requires_grad
    with torch.no_grad():
        assert not softmax(x).requires_grad


def test_switching_what_the_cpu_runs_on_is_noticed(softmax):
    softmax.cpu = "reference"
    softmax(torch.randn(1, 3))  # the kernel would raise
    softmax.cpu = "virtual"
    with pytest.raises(ValueError, match="three"):
        softmax(torch.randn(1, 3))
