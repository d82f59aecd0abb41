"""Emitted C++ against Keras, torch.compile, ONNX Runtime, frugally-deep and RTNeural, on one core.

    python benchmarks/keras_speed.py --out benchmarks/results/keras_speed.json [--peers FOLDER]
    python benchmarks/keras_speed.py --docs docs/keras-speed.md     # from the JSON, measures nothing

float32 everywhere, results compared with Keras's; CPU time of the calling thread (of the process for
Python peers, which have one thread), contenders taking turns in blocks, medians and quartiles.
FOLDER holds the C++ peers' sources: fdeep, fplus, rtneural and deb/usr/include (Eigen, nlohmann-json).
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
from pathlib import Path
from typing import Any

from about import about
from keras_networks import NETWORKS, build

BATCHES = (1, 32, 1024)
BLOCK = 0.02  # CPU seconds of a block, if a call is not longer
TOTAL = 0.3  # CPU seconds of a contender, if three blocks are not longer
DEADLINE = 40  # seconds to build a contender
SLOW = 4.0  # seconds of one call from which a contender is left out


def main() -> None:
    options = _options()
    if options.docs:
        from keras_speed_docs import page

        options.docs.write_text(page(json.loads(options.out.read_text())))
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch
    from keras_peers import FLAGS, compiler

    torch.set_num_threads(1)
    head = about("cpu", compiler=compiler(), flags=list(FLAGS), threads=1, dtype="float32")
    for package in ("keras", "onnxruntime"):
        from importlib.metadata import version

        head["versions"][package] = version(package)
    rows: list[dict[str, Any]] = []
    if options.keep and options.out.exists():
        rows = json.loads(options.out.read_text())["rows"]
    for batch in options.batches:
        for name in options.networks or NETWORKS:
            rows = [r for r in rows if (r["network"], r["batch"]) != (name, batch)]
            rows.append(_measure(name, batch, options))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
            options.out.write_text(json.dumps({**head, "rows": rows}, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    default = Path(__file__).with_name("results") / "keras_speed.json"
    parser.add_argument("--out", type=Path, default=default)
    parser.add_argument("--docs", type=Path, help="write the page of the JSON, measure nothing")
    parser.add_argument("--peers", type=Path, help="folder with the C++ peers' sources")
    parser.add_argument("--networks", nargs="*")
    parser.add_argument("--keep", action="store_true", help="rows of --out not measured again stay")
    parser.add_argument("--batches", nargs="*", type=int, default=BATCHES)
    parser.add_argument("--only", nargs="*", help="these contenders")
    return parser.parse_args()


def _measure(name: str, batch: int, options: argparse.Namespace) -> dict[str, Any]:
    import numpy as np
    from keras_peers import PEERS, identity, limits

    model = build(name)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((batch, *model.input_shape[1:])).astype(np.float32)
    want = PEERS["Keras eager"](model, x, None)[1]()
    contenders: dict[str, Any] = {}
    absent: dict[str, str] = {}
    for peer, make in PEERS.items():
        if options.only and peer not in options.only:
            absent[peer] = "not asked for in this run (--only)"
            continue
        try:
            contenders[peer] = _within(DEADLINE, lambda m=make: _made(m, model, x, options.peers))
        except Exception as error:
            absent[peer] = f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"
    errors = {}
    for peer, (_, result) in list(contenders.items()):
        got = result()
        errors[peer] = float(np.max(np.abs(got.reshape(want.shape) - want)) / np.max(np.abs(want)))
    if "ONNX Runtime" in contenders:
        contenders["ONNX Runtime, identity"] = identity(x)
    times = _turns({k: bench for k, (bench, _) in contenders.items()}, absent)
    from warpsmith.codegen.keras import ir, passes, read

    program = passes.optimize(read(model).program)
    weights = 4 * sum(a.size for a in program.constants.values())
    work = sum(int(np.prod(n.extents)) for n in _all(program.statements) if n.combine == "add")
    bound = limits([weights])
    bytes_per_second = next(iter(bound["bandwidth"].values()))
    return {
        "network": name, "batch": batch, "parameters": int(model.count_params()),
        "weight_bytes": weights, "multiply_adds": work, "bandwidth": bytes_per_second,
        "peak_multiply_adds": bound["multiply_adds_per_second"],
        "limit_us": 1e6 * max(
            weights / bytes_per_second, batch * work / bound["multiply_adds_per_second"]
        ),
        "times": times, "errors": errors, "absent": absent, "load": os.getloadavg()[0],
        "nests": len(list(ir.nests(program.statements))),
    }  # fmt: skip


def _made(make: Any, model: Any, x: Any, peers: Path | None) -> Any:
    bench, result = make(model, x, peers)
    bench(1)
    return bench, result


def _all(statements: Any, times: int = 1) -> Any:
    """Every nest as often as it runs."""
    from warpsmith.codegen.keras import ir

    for s in statements:
        if isinstance(s, ir.Loop):
            yield from _all(s.body, times * s.extent)
        else:
            yield from [s] * times


def _within(seconds: int, call: Any) -> Any:
    def late(*_: Any) -> None:
        raise TimeoutError(f"not built within {seconds} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        return call()
    finally:
        signal.alarm(0)


def _turns(benches: dict[str, Any], absent: dict[str, str]) -> dict[str, Any]:
    """Microseconds of one call: median, quartiles and the number of blocks."""
    reps, blocks = {}, {}
    for peer, bench in list(benches.items()):
        once = max(bench(1), 1e-7)
        if once > SLOW:
            absent[peer] = f"one call takes {once:.1f} s"
            del benches[peer]
            continue
        if once < BLOCK:
            once = bench(max(1, int(0.005 / once))) / max(1, int(0.005 / once))
        reps[peer] = max(1, int(BLOCK / once))
        blocks[peer] = max(3, min(11, int(TOTAL / (once * reps[peer]))))
    found: dict[str, list[float]] = {peer: [] for peer in benches}
    for turn in range(max(blocks.values())):
        for peer, bench in benches.items():
            if turn < blocks[peer]:
                found[peer].append(1e6 * bench(reps[peer]) / reps[peer])
    return {peer: _summary(values) for peer, values in found.items()}


def _summary(values: list[float]) -> dict[str, float]:
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median_us": middle, "q1_us": low, "q3_us": high, "blocks": len(values)}


if __name__ == "__main__":
    main()
