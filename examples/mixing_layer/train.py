"""Train the network that replaces the viscosity table: seconds on one CPU core, a fixed seed.

    python train.py        # writes viscosity.keras beside this file

Inputs: temperature over 300 … 2500 K and the mole fraction of hydrogen, both mapped to -1 … 1.
Output: viscosity in 1e-5 Pa s. The formula is that of mixture.hpp.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

os.environ.setdefault("KERAS_BACKEND", "torch")
COLDEST, HOTTEST = 300.0, 2500.0


def sutherland(mu0: float, s: float, t: np.ndarray) -> np.ndarray:
    return mu0 * (t / 273.0) ** 1.5 * (273.0 + s) / (t + s)


def viscosity(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Pa s, at t kelvin and mole fraction x of hydrogen."""
    hydrogen, air = sutherland(8.411e-6, 97.0, t), sutherland(1.716e-5, 111.0, t)

    def phi(mu_i: np.ndarray, mu_j: np.ndarray, m_i: float, m_j: float) -> np.ndarray:
        return (1 + np.sqrt(mu_i / mu_j) * (m_j / m_i) ** 0.25) ** 2 / np.sqrt(8 * (1 + m_i / m_j))

    ha, ah = phi(hydrogen, air, 2.016, 28.96), phi(air, hydrogen, 28.96, 2.016)
    return x * hydrogen / (x + (1 - x) * ha) + (1 - x) * air / ((1 - x) + x * ah)


def main() -> None:
    import keras
    import torch

    torch.set_num_threads(1)
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(16, activation="tanh") for _ in range(2)]
    model = keras.Sequential([keras.Input((2,)), *layers, keras.layers.Dense(1)], name="viscosity")
    nodes = np.cos(np.pi * (np.arange(64) + 0.5) / 64)  # denser towards the borders
    a, b = (g.reshape(-1) for g in np.meshgrid(nodes, nodes))
    t, x = (HOTTEST + COLDEST) / 2 + a * (HOTTEST - COLDEST) / 2, (b + 1) / 2
    given = torch.tensor(np.stack([a, b], 1), dtype=torch.float32)
    wanted = torch.tensor(viscosity(t, x)[:, None] / 1e-5, dtype=torch.float32)
    weights = [w.value for w in model.trainable_weights]
    method = torch.optim.LBFGS(weights, max_iter=2500, history_size=30, tolerance_grad=0,
                               tolerance_change=0, line_search_fn="strong_wolfe")  # fmt: skip

    def loss() -> torch.Tensor:
        method.zero_grad()
        value = torch.mean((model(given) / wanted - 1) ** 2)
        value.backward()
        return value

    method.step(loss)
    with torch.no_grad():
        error = torch.abs(model(given) / wanted - 1)
    print(f"relative error at the training points: max {error.max():.2g}, mean {error.mean():.2g}")
    model.save(Path(__file__).with_name("viscosity.keras"))


if __name__ == "__main__":
    main()
