"""Which options of which layer are known: one that a later Keras adds must not be dropped in silence."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
from typing import Any

from ..errors import refuse

# options that do nothing in inference, of any layer
TRAINING = frozenset(
    ["name", "dtype", "trainable", "seed", "dropout", "recurrent_dropout", "rate", "noise_shape", "stddev", "l1", "l2", "momentum", "synchronized", "renorm", "renorm_clipping", "renorm_momentum", "activity_regularizer", "power_iterations", "unit_forget_bias", "use_cudnn", "unroll", "flash_attention", "weights", "batch_input_shape", "build_config", "registered_name"]
)
_TRAINING_ENDS = ("_initializer", "_regularizer", "_constraint")

_POOL = "pool_size strides padding data_format"
_CONV = "filters kernel_size strides padding data_format dilation_rate activation use_bias"
_LORA = "lora_rank lora_alpha quantization_config gptq_unpacked_column_size"
_RNN = "return_sequences return_state go_backwards stateful zero_output_for_mask"
_ATTENTION = "use_bias sliding_window use_gate"
_RANKED = {  # of the layers in 1, 2 and 3 dimensions
    "AdaptiveAveragePooling": "output_size data_format",
    "AdaptiveMaxPooling": "output_size data_format",
    "AveragePooling": _POOL,
    "MaxPooling": _POOL,
    "GlobalAveragePooling": "data_format keepdims",
    "GlobalMaxPooling": "data_format keepdims",
    "Conv": f"{_CONV} groups {_LORA}",
    "DepthwiseConv": f"{_CONV} depth_multiplier",
    "SeparableConv": f"{_CONV} depth_multiplier",
    "Cropping": "cropping data_format",
    "UpSampling": "size data_format interpolation",
    "ZeroPadding": "padding data_format",
    "SpatialDropout": "data_format",
}
_NAMED = {
    "Activation": "activation",
    "AdditiveAttention": "use_scale score_mode",
    "Attention": "use_scale score_mode",
    "BatchNormalization": "axis epsilon center scale",
    "Bidirectional": "layer merge_mode backward_layer",
    "Concatenate": "axis",
    "Dense": f"units activation use_bias {_LORA}",
    "Dot": "axes normalize",
    "ELU": "alpha",
    "EinsumDense": f"equation output_shape activation bias_axes {_LORA}",
    "Embedding": f"input_dim output_dim mask_zero {_LORA}",
    "Flatten": "data_format",
    "GRU": f"units activation recurrent_activation use_bias reset_after {_RNN}",
    "GroupNormalization": "groups axis epsilon center scale",
    "GroupQueryAttention": f"head_dim num_query_heads num_key_value_heads {_ATTENTION}",
    "GroupedQueryAttention": f"head_dim num_query_heads num_key_value_heads {_ATTENTION}",
    "LSTM": f"units activation recurrent_activation use_bias {_RNN}",
    "LayerNormalization": "axis epsilon center scale rms_scaling",
    "LeakyReLU": "negative_slope",
    "Masking": "mask_value",
    "MultiHeadAttention": f"num_heads key_dim value_dim output_shape attention_axes {_ATTENTION}",
    "Normalization": "axis mean variance invert",
    "PReLU": "shared_axes",
    "Permute": "dims",
    "RMSNormalization": "axis epsilon",
    "RNN": f"cell {_RNN}",
    "ReLU": "max_value negative_slope threshold",
    "RepeatVector": "n",
    "Rescaling": "scale offset",
    "Reshape": "target_shape",
    "SimpleRNN": f"units activation use_bias {_RNN}",
    "Softmax": "axis",
    "SpectralNormalization": "layer",
    "TimeDistributed": "layer",
    "UnitNormalization": "axis",
}
OPTIONS: dict[str, frozenset[str]] = {
    **{f"{k}{rank}D": frozenset(v.split()) for k, v in _RANKED.items() for rank in (1, 2, 3)},
    **{
        f"Conv{r}DTranspose": frozenset(f"{_CONV} output_padding".split()) for r in (1, 2, 3)
    },
    **{k: frozenset(v.split()) for k, v in _NAMED.items()},
}  # fmt: skip


def unknown(kind: str, names: Any) -> list[str]:
    """Of a layer's options, those that neither its lowering nor training explains, sorted.

    >>> unknown("Dense", ["units", "name", "kernel_initializer", "sharpness"])
    ['sharpness']
    """
    known = OPTIONS.get(kind, frozenset()) | TRAINING
    return sorted(n for n in names if n not in known and not n.endswith(_TRAINING_ENDS))


def check(layer: Any) -> None:
    """Refuse a layer that sets an option which is not known; defaults are what they always were."""
    config = layer.get_config()
    defaults = inspect.signature(type(layer).__init__).parameters
    for name in unknown(type(layer).__name__, config):
        if name not in defaults or config[name] != defaults[name].default:
            raise refuse(layer, f"the option {name}={config[name]!r}", "the layer without it")
