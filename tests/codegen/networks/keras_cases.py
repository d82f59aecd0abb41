"""Keras models for the tests: each layer with its options, and whole networks.

A case is a name and a function that builds a model; weights and inputs come from the name.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """`rows`: inputs are integers below it. `steps`: sequences end after so many steps (zeros)."""

    name: str
    build: Callable[[], Any]
    rows: int = 0
    steps: int = 0

    def __str__(self) -> str:
        return self.name


CASES: list[Case] = []


def case(name: str, build: Callable[[], Any], **options: int) -> None:
    CASES.append(Case(name, build, **options))


def layers() -> Any:
    from keras import layers

    return layers


def model(shape: tuple[int, ...], *make: Callable[[Any], Any]) -> Callable[[], Any]:
    """A sequential model; each `make` takes keras.layers and gives a layer."""

    def build() -> Any:
        import keras

        return keras.Sequential([keras.Input(shape), *(m(keras.layers) for m in make)])

    return build


def graph(*shapes: tuple[int, ...], make: Callable[..., Any]) -> Callable[[], Any]:
    """A functional model; `make` takes keras.layers and the inputs."""

    def build() -> Any:
        import keras

        inputs = [keras.Input(shape) for shape in shapes]
        return keras.Model(inputs if len(inputs) > 1 else inputs[0], make(keras.layers, *inputs))

    return build


def randomize(model: Any, name: str) -> None:
    """Weights from the name: normal, variances positive."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for w in model.weights:
        if "seed" in w.name or not str(w.dtype).startswith("float"):
            continue
        fan = max(1, int(np.prod(w.shape[:-1]))) if len(w.shape) > 1 else 1
        values = rng.standard_normal(w.shape) / np.sqrt(fan) * 1.5
        w.assign(np.abs(values) + 0.2 if "variance" in w.name else values)


def inputs_of(case: Case, model: Any, scale: float = 1.0, seed: int = 0) -> list[np.ndarray]:
    """One sample, in values that float32 holds."""
    rng = np.random.default_rng([zlib.crc32(case.name.encode()), seed])
    out = []
    for x in model.inputs:
        shape = tuple(x.shape[1:])
        if case.rows:
            values = rng.integers(0, case.rows, shape).astype(np.float64)
            if case.steps:
                values[case.steps :] = 0.0
        else:
            values = scale * 2.0 * rng.standard_normal(shape)
            if case.steps:
                values[case.steps :] = 0.0
        out.append(values.astype(np.float32).astype(np.float64))
    return out


# ---------------------------------------------------------------------------------- the layers

ACTIVATIONS = [
    "relu",
    "relu6",
    "leaky_relu",
    "elu",
    "celu",
    "selu",
    "gelu",
    "sigmoid",
    "hard_sigmoid",
    "sparse_sigmoid",
    "log_sigmoid",
    "tanh",
    "hard_tanh",
    "tanh_shrink",
    "silu",
    "hard_silu",
    "mish",
    "softplus",
    "softsign",
    "squareplus",
    "sparse_plus",
    "exponential",
    "hard_shrink",
    "soft_shrink",
    "softmax",
    "log_softmax",
    "glu",
    "linear",
]
for name in ACTIVATIONS:
    case(f"dense {name}", model((7,), lambda L, a=name: L.Dense(6, activation=a)))
case("dense no bias", model((3, 4, 7), lambda L: L.Dense(5, use_bias=False)))
case("dense one output", model((67,), lambda L: L.Dense(1)))
case("dense wide", model((5,), lambda L: L.Dense(101, activation="tanh")))
for axes in ("d", None):
    case(
        f"einsum dense {axes}",
        model((5, 7), lambda L, a=axes: L.EinsumDense("abc,cd->abd", (None, 6), bias_axes=a)),
    )
case(
    "einsum dense ellipsis",
    model((5, 7), lambda L: L.EinsumDense("...x,xy->...y", 6, bias_axes="y")),
)
case(
    "einsum dense heads",
    model((5, 8), lambda L: L.EinsumDense("abc,cde->abde", (None, 2, 3), bias_axes="de")),
)

for padding in ("valid", "same", "causal"):
    for options in ({"strides": 2}, {"dilation_rate": 2}, {"groups": 2}):
        case(
            f"conv1d {padding} {options}",
            model((11, 6), lambda L, p=padding, o=options: L.Conv1D(8, 3, padding=p, **o)),
        )
case(
    "conv1d channels_first", model((6, 11), lambda L: L.Conv1D(8, 3, data_format="channels_first"))
)
for form in ("channels_last", "channels_first"):
    for padding in ("valid", "same"):
        options = {"data_format": form, "padding": padding}
        tag = f"{form[9:]} {padding}"
        for stride in (1, 2, 3):
            o = options | {"strides": stride}
            case(
                f"conv2d {tag} {stride}",
                model((9, 8, 4), lambda L, o=o: L.Conv2D(6, 3, activation="relu", **o)),
            )
            case(
                f"depthwise2d {tag} {stride}",
                model((9, 9, 4), lambda L, o=o: L.DepthwiseConv2D(3, depth_multiplier=2, **o)),
            )
            case(
                f"transposed2d {tag} {stride}",
                model((6, 5, 4), lambda L, o=o: L.Conv2DTranspose(3, (4, 3), **o)),
            )
            case(
                f"max pool {tag} {stride}", model((9, 8, 4), lambda L, o=o: L.MaxPooling2D(3, **o))
            )
        case(
            f"average pool {tag}", model((9, 9, 4), lambda L, o=options: L.AveragePooling2D(2, **o))
        )
        case(
            f"dilated2d {tag}",
            model((9, 9, 8), lambda L, o=options: L.Conv2D(6, 3, dilation_rate=2, **o)),
        )
        case(
            f"grouped2d {tag}",
            model((8, 8, 4), lambda L, o=options: L.Conv2D(6, (2, 3), groups=2, **o)),
        )
        case(
            f"separable2d {tag}",
            model((9, 9, 4), lambda L, o=options: L.SeparableConv2D(5, 3, depth_multiplier=2, **o)),
        )
        case(
            f"conv3d {tag}",
            model((5, 6, 7, 3), lambda L, o=options: L.Conv3D(4, 3, strides=2, **o)),
        )
        case(
            f"transposed3d {tag}",
            model((3, 4, 3, 2), lambda L, o=options: L.Conv3DTranspose(4, 3, strides=2, **o)),
        )
    o = {"data_format": form}
    tag = form[9:]
    case(
        f"global average {tag}",
        model((5, 6, 3), lambda L, o=o: L.GlobalAveragePooling2D(keepdims=True, **o)),
    )
    case(f"global max {tag}", model((5, 6, 3), lambda L, o=o: L.GlobalMaxPooling2D(**o)))
    case(f"up nearest {tag}", model((5, 6, 3), lambda L, o=o: L.UpSampling2D((2, 3), **o)))
    case(
        f"up bilinear {tag}",
        model((5, 6, 3), lambda L, o=o: L.UpSampling2D((2, 3), interpolation="bilinear", **o)),
    )
    case(f"up 3d {tag}", model((3, 4, 3, 2), lambda L, o=o: L.UpSampling3D((2, 1, 3), **o)))
    case(
        f"zero padding {tag}",
        model((5, 6, 3), lambda L, o=o: L.ZeroPadding2D(((1, 2), (3, 0)), **o)),
    )
    case(f"cropping {tag}", model((6, 7, 8), lambda L, o=o: L.Cropping2D(((1, 2), (1, 1)), **o)))
    case(f"flatten {tag}", model((5, 6, 3), lambda L, o=o: L.Flatten(**o), lambda L: L.Dense(4)))
    case(
        f"adaptive average {tag}",
        model((7, 6, 4), lambda L, o=o: L.AdaptiveAveragePooling2D((3, 4), **o)),
    )
    case(
        f"adaptive max {tag}", model((7, 6, 4), lambda L, o=o: L.AdaptiveMaxPooling2D((3, 4), **o))
    )
case(
    "depthwise1d", model((9, 4), lambda L: L.DepthwiseConv1D(3, padding="same", depth_multiplier=3))
)
case("separable1d", model((9, 4), lambda L: L.SeparableConv1D(5, 3, padding="same", strides=2)))
for options in (
    {"padding": "same", "strides": 2},
    {"dilation_rate": 2},
    {"padding": "same", "strides": 2, "output_padding": 1},
    {"strides": 5},
):
    case(
        f"transposed1d {options}", model((9, 4), lambda L, o=options: L.Conv1DTranspose(5, 3, **o))
    )
case("max pool 1d", model((9, 4), lambda L: L.MaxPooling1D(2, padding="same")))
case("max pool 3d", model((5, 6, 7, 3), lambda L: L.MaxPooling3D((2, 3, 2))))
case("average pool 1d", model((9, 4), lambda L: L.AveragePooling1D(3)))
case("average pool 3d", model((5, 6, 7, 3), lambda L: L.AveragePooling3D((2, 3, 2))))
case("global 1d", model((9, 4), lambda L: L.GlobalAveragePooling1D()))
case("global 3d", model((5, 6, 7, 3), lambda L: L.GlobalMaxPooling3D()))
case("zero padding 1d", model((9, 4), lambda L: L.ZeroPadding1D((2, 1))))
case("zero padding 3d", model((3, 4, 5, 2), lambda L: L.ZeroPadding3D((1, 2, 1))))
case("cropping 1d", model((9, 4), lambda L: L.Cropping1D((2, 1))))
case("cropping 3d", model((6, 7, 8, 2), lambda L: L.Cropping3D(((1, 2), (1, 1), (0, 3)))))
case("up 1d", model((9, 4), lambda L: L.UpSampling1D(3)))
case(
    "reshape",
    model((6, 4), lambda L: L.Permute((2, 1)), lambda L: L.Reshape((3, -1)), lambda L: L.Dense(5)),
)
case("repeat vector", model((6,), lambda L: L.RepeatVector(3), lambda L: L.LayerNormalization()))

for axis in (-1, 1):
    case(
        f"batch normalization {axis}",
        model((5, 6, 3), lambda L, a=axis: L.BatchNormalization(axis=a)),
    )
for options in ({"scale": False}, {"center": False}, {"scale": False, "center": False}):
    case(
        f"batch normalization {options}",
        model((5,), lambda L, o=options: L.BatchNormalization(**o)),
    )
    case(
        f"layer normalization {options}",
        model((4, 5), lambda L, o=options: L.LayerNormalization(**o)),
    )
    case(
        f"group normalization {options}",
        model((4, 6), lambda L, o=options: L.GroupNormalization(3, **o)),
    )
case(
    "conv folded",
    model(
        (8, 8, 3),
        lambda L: L.Conv2D(5, 3, use_bias=False),
        lambda L: L.BatchNormalization(),
        lambda L: L.ReLU(),
    ),
)
case(
    "dense folded",
    model(
        (8,), lambda L: L.Dense(5), lambda L: L.BatchNormalization(), lambda L: L.Activation("tanh")
    ),
)
case("layer normalization", model((5, 6), lambda L: L.LayerNormalization()))
case("layer normalization axes", model((5, 6, 3), lambda L: L.LayerNormalization(axis=[2, 3])))
case("rms normalization", model((5, 6), lambda L: L.RMSNormalization()))
case("group normalization 1", model((8, 5, 6), lambda L: L.GroupNormalization(4, axis=1)))
case("unit normalization", model((5, 6), lambda L: L.UnitNormalization()))
case("normalization", model((5, 6), lambda L: L.Normalization(mean=0.3, variance=2.0)))
case(
    "normalization invert",
    model((6,), lambda L: L.Normalization(mean=[1.0] * 6, variance=[2.0] * 6, invert=True)),
)
case("rescaling", model((5, 6), lambda L: L.Rescaling(0.5, offset=0.1)))
case("prelu shared", model((5, 6), lambda L: L.PReLU(shared_axes=[1])))
case(
    "relu options",
    model((5, 6), lambda L: L.ReLU(max_value=1.5, negative_slope=0.1, threshold=0.2)),
)
case("leaky relu layer", model((5, 6), lambda L: L.LeakyReLU()))
case("elu layer", model((5, 6), lambda L: L.ELU(0.7)))
case("softmax axes", model((5, 6), lambda L: L.Softmax(axis=[1, 2])))
case("softmax axis 1", model((5, 6), lambda L: L.Softmax(axis=1)))
case(
    "dropout family",
    model(
        (5, 6),
        *(
            lambda L, n=n: getattr(L, n)(0.3)
            for n in (
                "Dropout",
                "AlphaDropout",
                "GaussianDropout",
                "GaussianNoise",
                "SpatialDropout1D",
            )
        ),
        lambda L: L.Dense(3),
    ),
)

for bias in (True, False):
    for every in (True, False):
        o = {"use_bias": bias, "return_sequences": every}
        tag = f"{'bias' if bias else 'no bias'} {'every' if every else 'last'}"
        case(f"lstm {tag}", model((5, 6), lambda L, o=o: L.LSTM(4, **o)))
        case(f"gru {tag}", model((5, 6), lambda L, o=o: L.GRU(4, go_backwards=True, **o)))
        case(f"gru before {tag}", model((5, 6), lambda L, o=o: L.GRU(4, reset_after=False, **o)))
        case(f"simple rnn {tag}", model((5, 6), lambda L, o=o: L.SimpleRNN(4, **o)))
for every in (True, False):
    o = {"return_sequences": every}
    tag = "every" if every else "last"
    case(
        f"masked lstm {tag}",
        model((5, 6), lambda L: L.Masking(), lambda L, o=o: L.LSTM(4, **o)),
        steps=3,
    )
    case(
        f"embedded gru {tag}",
        model((7,), lambda L: L.Embedding(5, 6, mask_zero=True), lambda L, o=o: L.GRU(4, **o)),
        rows=5,
        steps=4,
    )
case(
    "lstm activations",
    model((5, 6), lambda L: L.LSTM(4, activation="relu", recurrent_activation="hard_sigmoid")),
)
for mode in ("concat", "sum", "mul", "ave"):
    case(
        f"bidirectional {mode}",
        model(
            (5, 6),
            lambda L, m=mode: L.Bidirectional(L.LSTM(4, return_sequences=True), merge_mode=m),
        ),
    )
case("bidirectional last", model((5, 6), lambda L: L.Bidirectional(L.GRU(4))))
case(
    "bidirectional masked",
    model(
        (5, 6), lambda L: L.Masking(), lambda L: L.Bidirectional(L.GRU(4, return_sequences=True))
    ),
    steps=3,
)
case(
    "stacked cells",
    model(
        (5, 6),
        lambda L: L.RNN([L.LSTMCell(4), L.GRUCell(3), L.SimpleRNNCell(2)], return_sequences=True),
    ),
)
case(
    "time distributed dense",
    model((5, 6, 3), lambda L: L.TimeDistributed(L.Dense(4, activation="relu"))),
)
case(
    "time distributed conv",
    model((4, 6, 6, 3), lambda L: L.TimeDistributed(L.Conv2D(4, 3, padding="same"))),
)
case(
    "masked average",
    model((5, 6), lambda L: L.Masking(), lambda L: L.GlobalAveragePooling1D()),
    steps=3,
)
case("embedding", model((7,), lambda L: L.Embedding(9, 5)), rows=9)


def _states(L: Any, x: Any) -> Any:
    y, h, c = L.LSTM(4, return_state=True, return_sequences=True)(x)
    return [L.LSTM(4)(y, initial_state=[h, c]), h, c]


case("lstm states", graph((5, 6), make=_states))

for options in ({}, {"use_causal_mask": True}):
    case(
        f"multi-head {options}",
        graph((6, 8), make=lambda L, x, o=options: L.MultiHeadAttention(2, 5)(x, x, **o)),
    )
case(
    "multi-head value dim",
    graph(
        (6, 8),
        (5, 7),
        make=lambda L, q, v: L.MultiHeadAttention(2, 5, value_dim=3, output_shape=9)(q, v),
    ),
)
case(
    "multi-head no bias",
    graph((6, 8), make=lambda L, x: L.MultiHeadAttention(2, 4, use_bias=False)(x, x)),
)
case("grouped queries", graph((6, 8), make=lambda L, x: L.GroupQueryAttention(4, 4, 2)(x, x)))
for options in ({}, {"use_scale": True}, {"score_mode": "concat"}):
    case(
        f"attention {options}",
        graph((6, 8), (5, 8), make=lambda L, q, v, o=options: L.Attention(**o)([q, v])),
    )
case(
    "attention causal", graph((6, 8), make=lambda L, x: L.Attention()([x, x], use_causal_mask=True))
)
case(
    "attention key", graph((6, 8), (5, 7), (5, 8), make=lambda L, q, v, k: L.Attention()([q, v, k]))
)
case(
    "additive attention", graph((6, 8), (5, 8), make=lambda L, q, v: L.AdditiveAttention()([q, v]))
)

for name in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"):
    case(
        f"merge {name}", graph((6, 8), (6, 8), make=lambda L, x, y, n=name: getattr(L, n)()([x, y]))
    )
case("merge broadcast", graph((6, 8), (1, 8), make=lambda L, x, y: L.Multiply()([x, y])))
for axis in (1, -1):
    case(
        f"concatenate {axis}",
        graph((6, 8), (6, 8), make=lambda L, x, y, a=axis: L.Concatenate(a)([x, y])),
    )
case("dot", graph((6, 8), (5, 8), make=lambda L, x, y: L.Dot(2)([x, y])))
case("dot normalized", graph((8,), (8,), make=lambda L, x, y: L.Dot(1, normalize=True)([x, y])))


def _operations(L: Any, x: Any) -> Any:
    import keras

    y = (x * 2.0 + 1.0)[:, 1:5]
    y = keras.ops.transpose(y, (0, 2, 1))
    return keras.ops.relu(y) - keras.ops.mean(y, axis=-1, keepdims=True)


case("operations", graph((6, 8), make=_operations))


def _shared(L: Any, x: Any, y: Any) -> Any:
    import keras

    once = L.Dense(4, activation="tanh", name="conv2d")  # the name must not matter
    inner = keras.Sequential([keras.Input((4,)), L.Dense(3), L.ReLU()], name="inner")
    return [inner(once(x)), inner(once(y))]


case("shared and nested", graph((6,), (6,), make=_shared))


def heads(
    shape: tuple[int, ...], call: dict[str, Any] | None = None, **options: Any
) -> Callable[[], Any]:
    return graph(
        shape, make=lambda L, x: L.MultiHeadAttention(2, 4, **options)(x, x, **(call or {}))
    )


case("multi-head gate", heads((6, 8), use_gate=True))
case("multi-head window", heads((7, 8), sliding_window=2))
case("multi-head window causal", heads((7, 8), {"use_causal_mask": True}, sliding_window=3))
case("multi-head two axes", heads((3, 4, 6)))
case("multi-head axis 1 of 3", heads((3, 4, 6), attention_axes=(1,)))
case("multi-head axis 2 of 3", heads((3, 4, 6), attention_axes=(2,)))
case("multi-head axes 1 3", heads((2, 3, 4, 5), attention_axes=(1, 3), value_dim=3))
case(
    "multi-head scores",
    graph((5, 6), make=lambda L, x: L.MultiHeadAttention(2, 3)(x, x, return_attention_scores=True)),
)
case(
    "grouped queries gate window",
    graph(
        (6, 8),
        make=lambda L, x: L.GroupQueryAttention(4, 4, 2, use_gate=True, sliding_window=2)(x, x),
    ),
)

# ---------------------------------------------------------------------------- whole networks

for width, act in ((64, "tanh"), (33, "relu"), (128, "gelu")):
    case(
        f"network mlp {width}",
        model(
            (10,),
            *(lambda L, w=width, a=act: L.Dense(w, activation=a) for _ in range(3)),
            lambda L: L.Dense(3),
        ),
    )
case(
    "network cnn",
    model(
        (16, 16, 1), lambda L: L.Conv2D(8, 3, activation="relu"), lambda L: L.MaxPooling2D(),
        lambda L: L.Conv2D(12, 3, activation="relu"), lambda L: L.MaxPooling2D(),
        lambda L: L.Flatten(), lambda L: L.Dense(16, activation="relu"), lambda L: L.Dense(10, activation="softmax"),
    ),
)  # fmt: skip
case(
    "network lstm",
    model(
        (12, 4),
        lambda L: L.LSTM(16, return_sequences=True),
        lambda L: L.LSTM(8),
        lambda L: L.Dense(2),
    ),
)
case(
    "network gru",
    model(
        (12, 4),
        lambda L: L.Bidirectional(L.GRU(9, return_sequences=True)),
        lambda L: L.GRU(8),
        lambda L: L.Dense(2),
    ),
)


def _residual(L: Any, x: Any) -> Any:
    def block(x: Any, width: int, stride: int) -> Any:
        y = L.Conv2D(width, 3, strides=stride, padding="same", use_bias=False)(x)
        y = L.ReLU()(L.BatchNormalization()(y))
        y = L.BatchNormalization()(L.Conv2D(width, 3, padding="same", use_bias=False)(y))
        if stride > 1 or x.shape[-1] != width:
            x = L.BatchNormalization()(L.Conv2D(width, 1, strides=stride, use_bias=False)(x))
        return L.ReLU()(L.Add()([x, y]))

    x = L.MaxPooling2D(3, 2, padding="same")(
        L.ReLU()(L.BatchNormalization()(L.Conv2D(8, 7, 2, padding="same")(x)))
    )
    for width, stride in ((8, 1), (8, 1), (16, 2), (16, 1), (24, 2), (24, 1), (32, 2), (32, 1)):
        x = block(x, width, stride)
    return L.Dense(10)(L.GlobalAveragePooling2D()(x))


case("network resnet18", graph((32, 32, 3), make=_residual))


def _unet(L: Any, x: Any) -> Any:
    a = L.Conv2D(6, 3, padding="same", activation="relu")(x)
    b = L.Conv2D(12, 3, padding="same", activation="relu")(L.MaxPooling2D()(a))
    c = L.Conv2D(16, 3, padding="same", activation="relu")(L.MaxPooling2D()(b))
    d = L.Conv2DTranspose(12, 2, strides=2)(c)
    d = L.Conv2D(12, 3, padding="same", activation="relu")(L.Concatenate()([d, b]))
    e = L.UpSampling2D(interpolation="bilinear")(d)
    e = L.Conv2D(6, 3, padding="same", activation="relu")(L.Concatenate()([e, a]))
    return L.Conv2D(2, 1, activation="sigmoid")(e)


case("network unet", graph((16, 16, 2), make=_unet))


def _encoder(L: Any, x: Any) -> Any:
    y = L.Embedding(20, 16)(x)
    for _ in range(2):
        y = L.LayerNormalization()(L.Add()([y, L.MultiHeadAttention(2, 8)(y, y)]))
        z = L.Dense(16)(L.Dense(32, activation="gelu")(y))
        y = L.LayerNormalization()(L.Add()([y, z]))
    return L.Dense(3, activation="softmax")(L.GlobalAveragePooling1D()(y))


case("network transformer", graph((9,), make=_encoder), rows=20)


def _several(L: Any, image: Any, facts: Any) -> Any:
    y = L.Flatten()(L.SeparableConv2D(6, 3, activation="swish")(image))
    z = L.Dense(8, activation="selu")(facts)
    both = L.Concatenate()([y, z])
    return [L.Dense(1, activation="sigmoid", name="chance")(both), L.Dense(4, name="place")(both)]


case("network several", graph((10, 10, 3), (5,), make=_several))
case(
    "network autoencoder",
    model(
        (12,), lambda L: L.Dense(8, activation="elu"), lambda L: L.BatchNormalization(),
        lambda L: L.Dense(3), lambda L: L.Dense(8, activation="elu"), lambda L: L.Dense(12),
    ),
)  # fmt: skip
case(
    "network temporal",
    model(
        (24, 3), *(lambda L, d=d: L.Conv1D(8, 3, padding="causal", dilation_rate=d, activation="relu") for d in (1, 2, 4, 8)),
        lambda L: L.GlobalMaxPooling1D(), lambda L: L.Dense(1),
    ),
)  # fmt: skip
