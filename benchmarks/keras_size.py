"""How long emitting and compiling takes and how large the result is, from small networks to 24 million weights.

python benchmarks/keras_size.py --out benchmarks/results/keras_size.json
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from about import about, processor


def networks() -> dict[str, Any]:
    """Name -> model; the largest beyond a million weights, so that they leave the header."""
    from warpsmith.codegen.keras import reader

    keras = reader.keras()
    dense = keras.layers.Dense

    def chain(inputs: int, *widths: int) -> Any:
        return keras.Sequential(
            [keras.Input((inputs,)), *(dense(w, activation="relu") for w in widths)], name="net"
        )

    conv = [keras.layers.Conv2D(64, 3, padding="same", activation="relu") for _ in range(8)]
    return {
        "MLP 3x64": chain(10, 64, 64, 64),
        "MLP 3x256": chain(32, 256, 256, 256),
        "MLP 3x512": chain(64, 512, 512, 512),
        "8 convolutions of 64": keras.Sequential([keras.Input((32, 32, 64)), *conv], name="net"),
        "24M weights": chain(1000, 4000, 4000, 1000),
    }


def measure(name: str, model: Any, folder: Path) -> dict[str, Any]:
    import warpsmith as ws

    started = time.perf_counter()
    report = ws.emit(model, folder / "net.hpp", samples=2, namespace="net")
    emitted = time.perf_counter() - started
    objects = [f for f in report.files if f.endswith(".o")]
    (folder / "main.cpp").write_text(
        '#include "net.hpp"\n#include <cstdio>\nint main() { std::printf("%g", double(net::self_test())); }\n'
    )
    command = ["c++", "-std=c++17", "-O3", "-march=native", "main.cpp", *objects, "-o", "main"]
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True)
    compiled = time.perf_counter() - started
    error = subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, check=True)
    return {
        "network": name,
        "parameters": report.parameters,
        "weights": "object file" if objects else "header",
        "emit_and_check_s": round(emitted, 2),
        "compile_s": round(compiled, 2),
        "header_bytes": os.path.getsize(folder / "net.hpp"),
        "program_bytes": os.path.getsize(folder / "main"),
        "self_test": float(error.stdout),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for name, model in networks().items():
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(name, model, Path(folder)))
    text = json.dumps({"about": about(processor()), "rows": rows}, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
