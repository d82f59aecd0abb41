"""A million samples through a small network on a GPU: the emitted kernel against torch.compile.

    python benchmarks/keras_cuda.py --out benchmarks/results/keras_cuda.json
    python benchmarks/keras_cuda.py --samples 512      # on the virtual GPU: is it right?

Device time of one call from CUDA events around 20, in blocks that take turns, inputs rotated so that
none is in the L2 cache. Without Keras on the machine, --networks reads what `--save` wrote on one
that has it.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import json
import pickle
import statistics
from pathlib import Path
from typing import Any

from about import about, gpu_name

SHAPES = {
    "mlp 3x64 tanh": (10, (64, 64, 64), "tanh", 1),
    "mlp 3x64 relu": (10, (64, 64, 64), "relu", 1),
    "mlp 2x32 relu": (8, (32, 32), "relu", 4),
    "mlp 3x128 relu": (16, (128, 128, 128), "relu", 8),
}


def networks() -> dict[str, Any]:
    """Emitted headers and their weights, from Keras."""
    import numpy as np

    from warpsmith.codegen.keras import Sample, cuda, reader

    keras = reader.keras()
    out = {}
    for name, (inputs, widths, activation, outputs) in SHAPES.items():
        keras.utils.set_random_seed(0)
        layers = [keras.layers.Dense(w, activation=activation) for w in widths]
        model = keras.Sequential([keras.Input((inputs,)), *layers, keras.layers.Dense(outputs)])
        network = reader.read(model)
        sample = Sample([np.zeros(inputs)], [np.zeros(outputs)])
        header = cuda.write(network, "net", "float", sample, "benchmark")
        weights = [np.asarray(keras.ops.convert_to_numpy(w)) for w in model.weights]
        out[name] = {"text": header.text, "launch": header.launch, "weights": weights}
    return out


def peer(weights: list, activation: str, place: str) -> Any:
    """The same network in PyTorch."""
    import torch

    kinds = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}
    layers: list[Any] = []
    for i in range(0, len(weights), 2):
        kernel, bias = torch.tensor(weights[i]), torch.tensor(weights[i + 1])
        linear = torch.nn.Linear(*kernel.shape)
        with torch.no_grad():
            linear.weight.copy_(kernel.T)
            linear.bias.copy_(bias)
        layers += [linear, kinds[activation]()]
    return torch.nn.Sequential(*layers[:-1]).to(place)


def measure(name: str, network: dict[str, Any], count: int) -> dict[str, Any]:
    import torch

    from warpsmith.emission import launch_of
    from warpsmith.runtime import cuda

    on_gpu = torch.cuda.is_available()
    place = "cuda" if on_gpu else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    inputs, _, activation, outputs = SHAPES[name]
    model = peer(network["weights"], activation, place)
    sets = 8 if on_gpu else 1
    xs = [torch.randn(count, inputs, device=place) for _ in range(sets)]
    y = torch.empty(count, outputs, device=place)
    grid, threads, shared, _ = launch_of(network["launch"], count)
    kernel = cuda(network["text"], kernel="net_predict")
    with torch.no_grad():
        kernel[grid, threads, shared](xs[0], y, count)
        exact = model.double()(xs[0].double())
        model.float()
        error = float((y - exact).abs().max() / exact.abs().max())
        row: dict[str, Any] = {"network": name, "samples": count, "max_rel_err": error}
        if not on_gpu:
            return row
        compiled = torch.compile(model)
        calls = {
            "warpsmith": lambda x: kernel[grid, threads, shared](x, y, count),
            "torch.compile": compiled,
            "eager": model,
        }
        times = _times(calls, xs)
    row |= {f"{k}_us": statistics.median(v) for k, v in times.items()}
    row |= {f"{k}_spread_us": [min(v), max(v)] for k, v in times.items()}
    row["speed_up_against_compile"] = row["torch.compile_us"] / row["warpsmith_us"]
    return row


def _times(
    calls: dict[str, Any], xs: list[Any], blocks: int = 15, per_block: int = 20
) -> dict[str, list]:
    import torch

    times: dict[str, list[float]] = {k: [] for k in calls}
    for call in calls.values():
        for x in xs[:3]:
            call(x)
    for _ in range(blocks):
        for name, call in calls.items():
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            for i in range(per_block):
                call(xs[i % len(xs)])
            stop.record()
            torch.cuda.synchronize()
            times[name].append(start.elapsed_time(stop) * 1e3 / per_block)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--save", type=Path, help="Write the networks and end.")
    parser.add_argument("--networks", type=Path, help="Read the networks that --save wrote.")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = pickle.loads(options.networks.read_bytes()) if options.networks else networks()
    if options.save:
        options.save.write_bytes(pickle.dumps(found))
        return
    rows = [measure(name, network, options.samples) for name, network in found.items()]
    result = {"about": about(gpu_name()), "rows": rows}
    text = json.dumps(result, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
