"""The networks that benchmarks/keras_speed.py measures: Keras models with fixed random weights."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")


def mlp(inputs: int, width: int, depth: int, activation: str, outputs: int) -> Any:
    import keras

    layers = [keras.layers.Dense(width, activation=activation) for _ in range(depth)]
    return keras.Sequential([keras.Input((inputs,)), *layers, keras.layers.Dense(outputs)])


def cnn() -> Any:
    import keras
    from keras import layers as L

    return keras.Sequential(
        [
            keras.Input((28, 28, 1)), L.Conv2D(16, 3, activation="relu"), L.MaxPooling2D(),
            L.Conv2D(32, 3, activation="relu"), L.MaxPooling2D(), L.Flatten(),
            L.Dense(64, activation="relu"), L.Dense(10, activation="softmax"),
        ]
    )  # fmt: skip


def resnet18() -> Any:
    """ResNet-18's layers with a quarter of its channels, for 32 x 32 images."""
    import keras
    from keras import layers as L

    def block(x: Any, width: int, stride: int) -> Any:
        y = L.Conv2D(width, 3, strides=stride, padding="same", use_bias=False)(x)
        y = L.ReLU()(L.BatchNormalization()(y))
        y = L.BatchNormalization()(L.Conv2D(width, 3, padding="same", use_bias=False)(y))
        if stride > 1 or x.shape[-1] != width:
            x = L.BatchNormalization()(L.Conv2D(width, 1, strides=stride, use_bias=False)(x))
        return L.ReLU()(L.Add()([x, y]))

    start = keras.Input((32, 32, 3))
    x = L.ReLU()(L.BatchNormalization()(L.Conv2D(16, 3, padding="same", use_bias=False)(start)))
    for width, stride in ((16, 1), (16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1)):
        x = block(x, width, stride)
    return keras.Model(start, L.Dense(10)(L.GlobalAveragePooling2D()(x)))


def unet() -> Any:
    import keras
    from keras import layers as L

    def conv(x: Any, width: int) -> Any:
        return L.Conv2D(width, 3, padding="same", activation="relu")(x)

    start = keras.Input((32, 32, 3))
    a = conv(conv(start, 16), 16)
    b = conv(conv(L.MaxPooling2D()(a), 32), 32)
    c = conv(conv(L.MaxPooling2D()(b), 64), 64)
    d = L.Conv2DTranspose(32, 2, strides=2)(c)
    d = conv(conv(L.Concatenate()([d, b]), 32), 32)
    e = L.Conv2DTranspose(16, 2, strides=2)(d)
    e = conv(conv(L.Concatenate()([e, a]), 16), 16)
    return keras.Model(start, L.Conv2D(2, 1, activation="sigmoid")(e))


def recurrent(kind: str) -> Any:
    import keras

    layer = getattr(keras.layers, kind)(64)
    return keras.Sequential([keras.Input((32, 8)), layer, keras.layers.Dense(1)])


def transformer() -> Any:
    """Two encoder layers of width 64, four heads, over 32 steps."""
    import keras
    from keras import layers as L

    start = keras.Input((32, 16))
    y = L.Dense(64)(start)
    for _ in range(2):
        y = L.LayerNormalization()(L.Add()([y, L.MultiHeadAttention(4, 16)(y, y)]))
        z = L.Dense(64)(L.Dense(128, activation="gelu")(y))
        y = L.LayerNormalization()(L.Add()([y, z]))
    return keras.Model(start, L.Dense(4)(L.GlobalAveragePooling1D()(y)))


NETWORKS: dict[str, Callable[[], Any]] = {
    "MLP 2x32 relu": lambda: mlp(8, 32, 2, "relu", 4),
    "MLP 3x64 tanh": lambda: mlp(10, 64, 3, "tanh", 1),
    "MLP 3x256 relu": lambda: mlp(16, 256, 3, "relu", 8),
    "CNN 28x28": cnn,
    "U-Net 32x32": unet,
    "ResNet-18 / 4": resnet18,
    "LSTM 64": lambda: recurrent("LSTM"),
    "GRU 64": lambda: recurrent("GRU"),
    "transformer": transformer,
}


def build(name: str) -> Any:
    """The model, its weights the same in every run; batch normalizations' statistics are random."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(0)
    model = NETWORKS[name]()
    rng = np.random.default_rng(0)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.set_weights(
                [rng.uniform(0.5, 1.5, w.shape).astype(np.float32) for w in layer.get_weights()]
            )
    return model
