"""The CUDA kernel of a network, run on the virtual GPU, equals Keras."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("keras")
pytest.importorskip("cuda.bindings.nvrtc")

import torch
from keras_cases import CASES, randomize

import warpsmith as ws
from warpsmith.codegen.keras import chain, passes, read
from warpsmith.emission import launch_of
from warpsmith.errors import UsageError

pytestmark = pytest.mark.virtual

NAMES = (
    "dense gelu", "dense softmax", "einsum dense heads", "conv1d causal {'dilation_rate': 2}",
    "conv2d first same 2", "depthwise2d last same 1", "transposed2d last same 2",
    "max pool first same 2", "average pool last valid", "adaptive max last",
    "layer normalization axes", "unit normalization", "masked lstm every", "gru before bias last",
    "bidirectional concat", "multi-head {'use_causal_mask': True}", "additive attention",
    "embedding", "shared and nested", "network mlp 64", "network mlp 33", "network several",
)  # fmt: skip
TABLE = {case.name: case for case in CASES}


@pytest.mark.parametrize("name", NAMES)
def test_the_kernel_computes_what_keras_does(name):
    model = TABLE[name].build()
    randomize(model, name)
    report = ws.emit(model, target="cuda", samples=5, namespace="net")
    assert report.checked_by in ("virtual GPU", "GPU")
    assert report.max_rel_err <= 2e-5  # float32 on both sides, inputs up to a hundred


@pytest.mark.parametrize("name", ["dense gelu", "gru before bias last", "network mlp 33"])
def test_the_kernel_in_double(name):
    model = TABLE[name].build()
    randomize(model, name)
    report = ws.emit(model, target="cuda", samples=2, namespace="net", dtype="double")
    assert report.max_rel_err <= 1e-4  # Keras itself is float32 here


def mlp(*widths: int, inputs: int = 5, outputs: int = 3, activation: str = "tanh"):
    import keras

    layers = [keras.layers.Dense(w, activation=activation) for w in widths]
    model = keras.Sequential([keras.Input((inputs,)), *layers, keras.layers.Dense(outputs)])
    randomize(model, str(widths))
    return model


@pytest.mark.parametrize("widths", [(), (7,), (16, 9), (33, 40), (130, 20, 17)])
@pytest.mark.parametrize("count", [1, 130])
def test_a_chain_of_dense_layers_for_any_count(widths, count):
    """One tiled kernel: rests of tiles, of groups of eight, and outputs that nothing else touches."""
    model = mlp(*widths)
    report = ws.emit(model, target="cuda", samples=1, namespace="net")
    assert chain.find(passes.optimize(read(model).program), "float") is not None
    x = torch.randn(count, 5)
    y = torch.full((count + 2, 3), 7.0)
    grid, threads, shared, _ = launch_of(report.launch, count)
    ws.cuda(report.text, kernel="net_predict")[grid, threads, shared](x, y, count)
    with torch.no_grad():
        want = model(x)
    torch.testing.assert_close(y[:count], want, rtol=2e-5, atol=2e-6)
    assert (y[count:] == 7.0).all()


def test_normalization_folds_into_a_chain():
    import keras

    model = keras.Sequential(
        [
            keras.Input((6,)), keras.layers.Dense(20), keras.layers.BatchNormalization(),
            keras.layers.ReLU(), keras.layers.Dropout(0.5), keras.layers.Dense(2),
        ]
    )  # fmt: skip
    randomize(model, "folded")
    found = chain.find(passes.optimize(read(model).program), "float")
    assert found is not None
    assert len(found.layers) == 2


def test_what_is_no_chain_is_found_to_be_none():
    for name in ("dense softmax", "conv2d last same 1", "lstm bias last", "network several"):
        assert chain.find(passes.optimize(read(TABLE[name].build()).program), "float") is None


def test_a_stateful_network_is_refused():
    import keras

    model = keras.Sequential(
        [keras.Input(batch_shape=(1, 4, 3)), keras.layers.LSTM(2, stateful=True)]
    )
    with pytest.raises(UsageError, match="stateful"):
        ws.emit(model, target="cuda")
