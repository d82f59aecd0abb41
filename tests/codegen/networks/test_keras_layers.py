"""Every layer with its options and whole networks: loops and compiled headers equal Keras."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("keras")

from keras_cases import CASES, Case, inputs_of, randomize
from keras_truth import Compiled, double_precision, error, truth

from warpsmith.codegen.keras import interpret, passes, read

pytestmark = pytest.mark.plain

SCALES = (1.0, 100.0, 0.0)  # of inputs that are not row numbers
FLAGS = ("-std=c++17", "-O1", "-march=native", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
SHARD = 16  # headers compiled together
SHARDS = [CASES[i : i + SHARD] for i in range(0, len(CASES), SHARD)]


@functools.cache
def judged(case: Case):
    """The network, and for each scale its inputs and what Keras gives in float64."""
    with double_precision():
        model = case.build()
        randomize(model, case.name)
        samples = [inputs_of(case, model, scale) for scale in SCALES]
        return read(model), [(x, truth(model, x)) for x in samples]


def test_there_are_enough_cases():
    assert len(CASES) >= 150
    assert sum(c.name.startswith("network") for c in CASES) >= 12
    assert len({c.name for c in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_loops_compute_what_keras_does(case):
    network, samples = judged(case)
    for inputs, want in samples:
        assert error(interpret.run(network.program, inputs), want) <= 1e-12


@pytest.mark.parametrize("case", CASES, ids=str)
def test_passes_change_nothing(case):
    network, samples = judged(case)
    optimized = passes.optimize(network.program)
    inputs, want = samples[0]
    assert error(interpret.run(optimized, inputs), want) <= 1e-12


@functools.cache
def compiled(shard: int, dtype: str) -> Compiled:
    cases = [judged(case) for case in SHARDS[shard]]
    return Compiled([n for n, _ in cases], [s[0] for _, s in cases], dtype, FLAGS)


@pytest.mark.parametrize("shard", range(len(SHARDS)))
def test_headers_in_double_compute_what_keras_does(shard):
    headers = compiled(shard, "double")
    bad = {}
    for i, case in enumerate(SHARDS[shard]):
        worst = headers.self_test(i)
        for inputs, want in judged(case)[1]:
            worst = max(worst, error(headers.predict(i, inputs), want))
        if worst > 1e-12:
            bad[case.name] = worst
    assert not bad


def test_headers_for_any_processor_compute_what_keras_does():
    """Without flags for this machine the narrower vectors' functions run, on the same weights."""
    cases = [c for c in CASES if c.name.startswith("network")]
    flags = [f for f in FLAGS if f != "-march=native"]
    for dtype, bar in (("double", 1e-12), ("float", 1e-6)):
        chosen = [judged(case) for case in cases]
        headers = Compiled([n for n, _ in chosen], [s[0] for _, s in chosen], dtype, flags)
        for i, case in enumerate(cases):
            inputs, want = judged(case)[1][0]
            assert error(headers.predict(i, inputs), want) <= bar, case.name
            many = headers.predict_batch(i, [np.stack([x] * 9) for x in inputs])
            assert error([y[8] for y in many], want) <= bar, case.name


@pytest.mark.parametrize("shard", range(len(SHARDS)))
def test_headers_in_float_are_as_near_as_float_can_be(shard):
    """1e-6 of the largest output; where large inputs make Keras itself err by more in float32, no more
    than twice what it errs."""
    headers = compiled(shard, "float")
    bad = {}
    for i, case in enumerate(SHARDS[shard]):
        for k, (inputs, want) in enumerate(judged(case)[1]):
            with np.errstate(over="ignore"):
                want = [y.astype(np.float32).astype(np.float64) for y in want]
            worst = error(headers.predict(i, inputs), want)
            if worst > 1e-6 and worst > 2 * error(keras_in_float(case)[k], want):
                bad[case.name, SCALES[k]] = worst
    assert not bad


@functools.cache
def keras_in_float(case: Case):
    model = case.build()
    randomize(model, case.name)
    return [truth(model, [x.astype(np.float32) for x in inputs]) for inputs, _ in judged(case)[1]]


@pytest.mark.parametrize("shard", range(len(SHARDS)))
def test_batches_equal_single_samples(shard):
    headers = compiled(shard, "double")
    for i, case in enumerate(SHARDS[shard]):
        network, samples = judged(case)
        if network.program.states:
            continue
        for count in (1, 8, 11):  # one, a block, a block and a rest
            order = [samples[k % len(samples)] for k in range(count)]
            stacked = [np.stack(column) for column in zip(*(inputs for inputs, _ in order))]
            many = headers.predict_batch(i, stacked)
            for k, (_, want) in enumerate(order):
                assert error([y[k] for y in many], want) <= 1e-12, case.name
