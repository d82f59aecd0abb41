"""Optimize every example on one device and keep all numbers: winners, losers and failures.

    python benchmarks/examples.py --device virtual --candidates 6
    python benchmarks/examples.py --device cuda --candidates 30 --seconds 300

Writes benchmarks/results/examples-<device>.json after each example, so that a run that is stopped
keeps what it has. Times on the virtual device are modelled, and named so in the file.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import collections
import json
import math
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from about import about, gpu_name

import warpsmith as ws

ROOT = Path(__file__).parents[1]
# example -> task file, kernels that are judged before the proposer's
EXAMPLES = {
    "softmax": ("softmax/task.py", ("softmax/softmax.cu", "softmax/softmax_triton.py")),
    "bias_gelu": ("bias_gelu/task.py", ("bias_gelu/bias_gelu.cu",)),
    "layer_norm": (
        "layer_norm/task.py",
        ("layer_norm/layer_norm.cu", "layer_norm/layer_norm_triton.py"),
    ),
    "matmul_bias_relu": ("matmul_bias_relu/task.py", ("matmul_bias_relu/matmul_bias_relu.cu",)),
    "reduction": ("reduction/task.py", ("reduction/reduction.cu",)),
    "my_triton": ("my_triton/task.py", ("my_triton/swiglu_triton.py",)),
    "kernelbench_form": ("kernelbench_form/residual_tanh.py", ("kernelbench_form/model_new.py",)),
    "racy": ("racy/task.py", ("racy/row_sum.cu", "racy/row_sum_fixed.cu")),
    "out_of_bounds": ("out_of_bounds/task.py", ("out_of_bounds/scale.cu", "out_of_bounds/scale_fixed.cu")),
}  # fmt: skip


def main() -> None:
    options = arguments()
    target = options.out / f"examples-{options.device}.json"
    found: dict[str, Any] = head(options) | {"examples": {}}
    for name in options.only or EXAMPLES:
        begin = time.monotonic()
        found["examples"][name] = one(name, options) | {"seconds": time.monotonic() - begin}
        found["summary"] = summary(found["examples"])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(found, indent=1) + "\n")
        print(line(name, found["examples"][name]), flush=True)
    print(f"written to {target}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("virtual", "cuda"), default="virtual")
    parser.add_argument("--target", help="the GPU that the virtual device stands for")
    parser.add_argument("--proposer", default="greedy")
    parser.add_argument("--candidates", type=int, default=12, help="judged, for each example")
    parser.add_argument("--seconds", type=float, default=180.0, help="for each example")
    parser.add_argument("--only", nargs="+", choices=EXAMPLES, metavar="EXAMPLE")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--runs", type=Path, help="where journals go [default: runs/examples-…]")
    return parser.parse_args()


def one(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One example's run, or the error that ended it."""
    task_file, kernels = EXAMPLES[name]
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    runs = options.runs or Path("runs") / f"examples-{options.device}-{stamp}"
    try:
        result = ws.optimize(
            ROOT / "examples" / task_file,
            proposer=options.proposer,
            device=options.device,
            target=options.target,
            budget=ws.Budget(candidates=options.candidates, seconds=options.seconds),
            kernels=[ROOT / "examples" / kernel for kernel in kernels],
            out=runs / name,
        )
    except ws.WarpsmithError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    with ws.Journal.open(result.journal) as journal:
        records = journal.records()
    best = result.best
    return {
        "stopped": result.reason,
        "winner": None if best is None else plain(best),
        "outcomes": collections.Counter(outcome(r) for r in records),
        "candidates": [plain(r) for r in records],
        "operator": result.operator is not None,
    }


def outcome(record: ws.Record) -> str:
    return record.verdict.outcome.name if record.verdict else "NOT_JUDGED"


def plain(record: ws.Record) -> dict[str, Any]:
    """What a reader compares: who, right or not, times with intervals, against which baselines."""
    return {
        "candidate": record.candidate.name,
        "id": record.candidate.id,
        "language": record.candidate.language,
        "origin": record.candidate.origin,
        "outcome": outcome(record),
        "message": record.verdict.message if record.verdict else "",
        "modelled": record.timing.modelled if record.timing else None,
        "device": record.timing.device if record.timing else record.device,
        "method": record.timing.method if record.timing else "",
        "bound": record.analysis.bound if record.analysis else "",
        "cases": [case_time(c) for c in record.timing.cases] if record.timing else [],
    }


def case_time(case: Any) -> dict[str, Any]:
    return {
        "case": case.case,
        "median_us": case.median_us,
        "p20_us": case.low_us,
        "p80_us": case.high_us,
        "blocks": case.samples,
        "baselines_us": dict(case.baselines_us),
        "speedups": {
            name: {"value": r.value, "low": r.low, "high": r.high, "claims": r.claims}
            for name, r in case.speedups.items()
        },
        "missing": dict(case.missing),
    }


def summary(examples: dict[str, Any]) -> dict[str, Any]:
    """Per baseline over the winners' main cases: geometric mean, median, share slower, failures."""
    ratios = collections.defaultdict(list)
    for example in examples.values():
        winner = example.get("winner")
        for name, ratio in (winner["cases"][0]["speedups"] if winner else {}).items():
            ratios[name].append(ratio["value"])
    failed = [n for n, e in examples.items() if not e.get("winner")]
    return {
        "failed": failed,
        "baselines": {
            name: {
                "examples": len(values),
                "geometric_mean": math.exp(statistics.fmean(map(math.log, values))),
                "median": statistics.median(values),
                "share_slower": sum(v < 1 for v in values) / len(values),
            }
            for name, values in ratios.items()
        },
    }


def line(name: str, example: dict[str, Any]) -> str:
    if "error" in example:
        return f"{name}: {example['error']}"
    outcomes = ", ".join(f"{count} {word}" for word, count in example["outcomes"].items())
    if example["winner"] is None:
        return f"{name}: no winner ({outcomes})"
    winner = example["winner"]
    case = winner["cases"][0]
    ratios = ", ".join(
        f"{r['value']:.2f}× ({r['low']:.2f} … {r['high']:.2f}) over {b}"
        for b, r in case["speedups"].items()
    )
    kind = "modelled" if winner["modelled"] else "measured"
    return f"{name}: {winner['candidate']} {case['median_us']:.2f} µs {kind}, {ratios} ({outcomes})"


def head(options: argparse.Namespace) -> dict[str, Any]:
    return about(
        gpu_name() if options.device == "cuda" else f"virtual {options.target or 'h100'}, modelled",
        proposer=options.proposer,
        budget={"candidates": options.candidates, "seconds": options.seconds},
    )


if __name__ == "__main__":
    main()
