"""Random networks, branches included, compute what Keras does: as loops and compiled."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import random

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("keras")

import keras
from keras import layers
from keras_cases import ACTIVATIONS, randomize
from keras_truth import Compiled, double_precision, error, truth

from warpsmith.codegen.keras import interpret, passes, read

pytestmark = pytest.mark.plain
COUNT, SHARD = 48, 24
EXTREMES = (1.0, 1e3, 0.0, 1e-30)
SHAPES = ((6,), (5, 4), (6, 7, 3), (4, 5, 4, 2))
SMOOTH = [a for a in ACTIVATIONS if a not in ("glu", "exponential")]


def anywhere(pick: random.Random, x):
    """A layer for any shape."""
    choices = (
        lambda: layers.Dense(pick.randint(1, 9), activation=pick.choice(SMOOTH)),
        lambda: layers.BatchNormalization(scale=pick.random() < 0.7, center=pick.random() < 0.7),
        lambda: layers.LayerNormalization(),
        lambda: layers.Activation(pick.choice(SMOOTH)),
        lambda: layers.PReLU(),
        lambda: layers.UnitNormalization(),
        lambda: layers.Flatten() if pick.random() < 0.3 else layers.Rescaling(0.5, offset=0.1),
    )
    return pick.choice(choices)()(x)


def on_steps(pick: random.Random, x):
    """A layer for (steps, channels)."""
    every = pick.random() < 0.7
    choices = (
        lambda: layers.Conv1D(
            pick.randint(1, 6), pick.randint(1, 3), padding=pick.choice(("same", "causal"))
        ),
        lambda: layers.LSTM(pick.randint(1, 5), return_sequences=every),
        lambda: layers.GRU(
            pick.randint(1, 5), return_sequences=every, reset_after=pick.random() < 0.5
        ),
        lambda: layers.Bidirectional(layers.SimpleRNN(3, return_sequences=every)),
        lambda: layers.MaxPooling1D(2, 1, padding="same"),
        lambda: layers.Permute((2, 1)),
        lambda: layers.Conv1DTranspose(3, 2, strides=2, padding="same"),
        lambda: layers.GlobalAveragePooling1D(),
    )
    return pick.choice(choices)()(x)


def on_images(pick: random.Random, x):
    """A layer for (height, width, channels)."""
    stride = pick.randint(1, 2)
    choices = (
        lambda: layers.Conv2D(pick.randint(1, 6), pick.randint(1, 3), stride, padding="same"),
        lambda: layers.Conv2D(4, 3, padding="same", dilation_rate=2),
        lambda: layers.DepthwiseConv2D(2, depth_multiplier=2, padding="same"),
        lambda: layers.SeparableConv2D(3, 2, padding="same"),
        lambda: layers.Conv2DTranspose(2, 3, strides=stride, padding="same"),
        lambda: layers.MaxPooling2D(2, 1, padding="same"),
        lambda: layers.AveragePooling2D(1, 1),
        lambda: layers.UpSampling2D(2),
        lambda: layers.ZeroPadding2D(1),
        lambda: layers.GlobalMaxPooling2D(keepdims=True),
        lambda: layers.Permute((3, 1, 2)),
    )
    return pick.choice(choices)()(x)


BY_RANK = {2: on_steps, 3: on_images}


def network(seed: int):
    """Up to six layers, now and then a branch that comes back by a sum, a product or side by side."""
    pick = random.Random(seed)
    x = start = keras.Input(pick.choice(SHAPES))
    for _ in range(pick.randint(2, 6)):
        if np.prod(x.shape[1:]) > 3000:
            break
        before = x
        own = BY_RANK.get(len(x.shape) - 1)
        x = own(pick, x) if own and pick.random() < 0.6 else anywhere(pick, x)
        if x.shape == before.shape and pick.random() < 0.5:
            merge = pick.choice((layers.Add, layers.Multiply, layers.Average, layers.Concatenate))
            x = merge()([x, before])
    return keras.Model(start, [x, layers.Dense(2)(x)] if pick.random() < 0.3 else x)


@functools.cache
def judged(seed: int):
    with double_precision():
        model = network(seed)
        randomize(model, f"random {seed}")
        rng = np.random.default_rng(seed)
        shape = model.inputs[0].shape[1:]
        inputs = [[scale * rng.standard_normal(shape)] for scale in EXTREMES]
        return read(model), [(x, truth(model, x)) for x in inputs]


@pytest.mark.parametrize("seed", range(COUNT))
def test_loops(seed):
    made, samples = judged(seed)
    optimized = passes.optimize(made.program)
    for inputs, want in samples:
        assert error(interpret.run(made.program, inputs), want) <= 1e-11
        assert error(interpret.run(optimized, inputs), want) <= 1e-11


@pytest.mark.parametrize("first", range(0, COUNT, SHARD))
def test_headers(first):
    seeds = range(first, first + SHARD)
    cases = [judged(seed) for seed in seeds]
    flags = ("-std=c++17", "-O1", "-march=native")
    headers = Compiled([n for n, _ in cases], [s[0] for _, s in cases], "double", flags)
    for i, seed in enumerate(seeds):
        _, samples = cases[i]
        for inputs, want in samples:
            assert error(headers.predict(i, inputs), want) <= 1e-11, seed
        many = headers.predict_batch(i, [np.stack([x[0] for x, _ in samples * 3])])
        for k, (_, want) in enumerate(samples * 3):
            assert error([y[k] for y in many], want) <= 1e-11, seed
