"""Keras in float64, and many emitted headers compiled together and called from Python."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

os.environ.setdefault("KERAS_BACKEND", "torch")


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """Keras computing in float64.

    Except on TensorFlow its type promotion turns float64 into float32, whatever floatx says; the
    table that does so is changed for the time of the block.
    """
    import keras
    from keras.src.backend.common import dtypes

    table, policy, floatx = (
        dtypes.BIT64_TO_BIT32_DTYPE,
        keras.config.dtype_policy(),
        keras.config.floatx(),
    )
    before = table["float64"]
    table["float64"] = "float64"
    dtypes.result_type.cache_clear() if hasattr(dtypes.result_type, "cache_clear") else None
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    try:
        yield
    finally:
        table["float64"] = before
        keras.config.set_floatx(floatx)
        keras.config.set_dtype_policy(policy)


def truth(model: Any, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What Keras computes for one sample."""
    import keras
    import torch

    with torch.no_grad():
        given = [torch.tensor(x[None]) for x in inputs]
        made = model(given if len(given) > 1 else given[0], training=False)
    return [
        np.asarray(keras.ops.convert_to_numpy(y), np.float64)[0] for y in keras.tree.flatten(made)
    ]


def error(got: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> float:
    """The largest |got - want| over the largest |want|, over all outputs; infinite for other shapes."""
    worst = 0.0
    for g, w in zip(got, want, strict=True):
        if g.shape != w.shape or np.isnan(g).any() != np.isnan(w).any():
            return float("inf")
        same = (g == w) | (np.isnan(g) & np.isnan(w))
        largest = np.max(np.abs(w), where=np.isfinite(w), initial=0.0)
        worst = max(
            worst, float(np.max(np.where(same, 0.0, np.abs(g - w)), initial=0.0)) / (largest or 1.0)
        )
    return worst


class Compiled:
    """Headers of several networks in one shared library, in namespaces net0, net1, …"""

    def __init__(
        self, networks: Sequence[Any], samples: Sequence[Any], dtype: str, flags: Sequence[str]
    ):
        from warpsmith.codegen.keras import cpp
        from warpsmith.toolchains import cpp as toolchain

        self.networks, self.kind = networks, np.float32 if dtype == "float" else np.float64
        files: dict[str, str | bytes] = {}
        lines = ["#include <cstddef>"]
        self.workspaces = []
        for i, (network, sample) in enumerate(zip(networks, samples)):
            header = cpp.write(network, f"net{i}", dtype, cpp.Sample(*sample), "0")
            files[f"net{i}.hpp"] = header.text
            self.workspaces.append(header.workspace)
            lines += [f'#include "net{i}.hpp"', *_entries(network, f"net{i}", i, dtype)]
        self.library = ctypes.CDLL(str(toolchain.library("\n".join(lines), files, flags=flags)))

    def predict(self, i: int, inputs: Sequence[np.ndarray], state: np.ndarray | None = None):
        return [y[0] for y in self._run(f"one{i}", i, [x[None] for x in inputs], state)]

    def predict_batch(self, i: int, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """inputs: arrays with the samples first."""
        return self._run(f"many{i}", i, inputs, None)

    def self_test(self, i: int) -> float:
        function = getattr(self.library, f"test{i}")
        function.restype = ctypes.c_double
        return float(function())

    def _run(self, name: str, i: int, inputs, state) -> list[np.ndarray]:
        program, count = self.networks[i].program, len(inputs[0])
        given = [np.ascontiguousarray(x, self.kind) for x in inputs]
        made = [np.full((count, *p.shape), np.nan, self.kind) for p in program.outputs]
        size = sum(a.size for a in program.states.values())
        state = np.zeros(size + 1, self.kind) if state is None else state
        memory = [np.full(self.workspaces[i] + 1, np.nan, self.kind), state]
        pointers = [
            (ctypes.c_void_p * len(g))(*(a.ctypes.data for a in g)) for g in (given, made, memory)
        ]
        getattr(self.library, name)(ctypes.c_size_t(count), *pointers)
        assert np.isnan(memory[0][-1])  # nothing is written past the workspace
        return [y.astype(np.float64) for y in made]


def _entries(network: Any, name: str, i: int, dtype: str) -> list[str]:
    program = network.program
    ports = [f"in[{k}]" for k in range(len(program.inputs))] + [
        f"out[{k}]" for k in range(len(program.outputs))
    ]
    state = ["memory[1]"] if program.states else []
    head = 'extern "C" __attribute__((visibility("default")))'
    given = f"std::size_t count, const {dtype} **in, {dtype} **out, {dtype} **memory"
    one = f"{name}::predict({', '.join([*ports, *state, 'memory[0]'])});"
    lines = [
        f"{head} void one{i}({given}) {{ (void)count; {one} }}",
        f"{head} double test{i}() {{ return {name}::self_test(); }}",
    ]
    if not program.states:
        many = f"{name}::predict_batch(count, {', '.join([*ports, 'memory[0]'])});"
        lines.append(f"{head} void many{i}({given}) {{ {many} }}")
    return lines
