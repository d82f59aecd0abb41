"""Fit the constants of the performance model to measured kernels, and hold it against tasks left out.

    python benchmarks/kernels/fit.py runs/kernels                   # error of the model as it is
    python benchmarks/kernels/fit.py runs/kernels --fit             # and the constants it should have

runs/kernels: what collect.py wrote. Tasks, not cases, are dealt into two halves by a hash of their
name without size and type, so that no candidate or size of a fitted task is tested. The model's
constants are those fitted to one half; the error stated is that of the other. `--fit` holds out each
half in turn, as a cross-check. Writes benchmarks/results/model_error.json.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import math
import statistics
import sys
import zlib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from model_error import spearman

from warpsmith import targets
from warpsmith.measure import model

RESULT = Path(__file__).parents[1] / "results/model_error.json"
# where each begins (white papers, single measurements, guesses), and how far it may move, as a factor.
# Facts, the launch's cost and the tensor units' sustained rates, measured alone, stay.
FREE = {
    "overlap_power": (4.0, 1.5), "latency_power": (2.5, 2.0), "dram_sustained": (0.923, 1.03),
    "pipe_sustained": (0.95, 1.05), "int_sustained": (1.2, 1.6), "issue_sustained": (1.15, 1.3),
    "l1_reread_hits": (0.7, 1.4), "l2_reread_misses": (0.2, 4.0), "l2_sustained": (1.0, 1.5),
    "l2_port": (45.0, 1.5), "atomics_per_l2_cycle": (0.2, 4.0), "same_address_ns": (1.77, 1.5),
    "shared_atomic_cycles": (1.0, 2.0), "dram_latency": (0.6, 1.5), "l2_latency": (280.0, 1.5),
    "shared_latency": (35.0, 2.0), "barrier_latency": (60.0, 2.0), "instructions_in_flight": (1.7, 1.7),
    "loads_in_flight": (4.0, 2.0), "copies_in_flight": (16.0, 2.0), "shared_in_flight": (8.0, 2.5),
    "block_latency": (0.15, 3.0),
}  # fmt: skip
PULL = 0.01  # of the loss, for each squared logarithm of the way from where a constant begins
STEPS = (0.35, 0.2, 0.1)
HELD = 1
VARIANTS = ("float16", "bfloat16", "tf32", "float8", "float", "double", "half", "uniform", "narrow",
            "random", "near", "fast")  # fmt: skip


class Pair:
    """A measured launch, cold or warm, and its work for the model."""

    def __init__(self, counts: dict[str, Any], times: dict[str, Any], cold: bool, target: Any):
        self.case, self.task = times["case"], times["task"]
        self.candidate, self.kind, self.cold = times["candidate"], times["kind"], cold
        self.measured_us = times["cold_us" if cold else "warm_us"]
        shared = counts["shared_bytes"] + counts["facts"]["static_shared_bytes"]
        self.shape = model.LaunchShape(
            tuple(counts["grid"]), tuple(counts["block"]), shared, counts["registers"]
        )
        self.counters, self.target = counts["counters"], target
        fit = model._resident(self.shape, target)
        self.work = model._Work(self.counters, self.shape, target, fit, cold)

    def modelled_us(self) -> float:
        terms = {name: term(self.work) for name, term in model._TERMS.items()}
        return model._total(terms | {"launch": model._value("launch")})

    @property
    def half(self) -> int:
        return zlib.crc32(family(self.task).encode()) % 2


def family(task: str) -> str:
    """A task's name without its size, type and kind of data: what is dealt out as one."""
    words = [w for w in task.split() if w.isalpha() or w == "float32" or w[1:] == "-D"]
    return " ".join(w for w in words if w not in VARIANTS)


def read(folder: Path, target: Any) -> list[Pair]:
    times = [json.loads(line) for line in (folder / "time.jsonl").read_text().splitlines()]
    packed = folder / "counts.jsonl.gz"
    text = (
        gzip.decompress(packed.read_bytes()).decode()
        if packed.exists()
        else (folder / "counts.jsonl").read_text()
    )
    counts = {row["case"]: row for row in map(json.loads, text.splitlines())}
    missing = [row["case"] for row in times if row["case"] not in counts]
    if missing:
        raise SystemExit(f"measured but not counted: {', '.join(missing)}; run collect.py count")
    return [Pair(counts[row["case"]], row, cold, target) for row in times for cold in (True, False)]


def loss(pairs: list[Pair]) -> float:
    """Mean absolute logarithm of modelled over measured, a far outlier counting no more than e-fold."""
    error = statistics.fmean(
        min(1.0, abs(math.log(p.modelled_us() / p.measured_us))) for p in pairs
    )
    moved = (
        math.log(model.CONSTANTS[name].value / begin) ** 2 for name, (begin, _) in FREE.items()
    )
    return error + PULL * sum(moved)


def fitted(pairs: list[Pair]) -> dict[str, float]:
    """Coordinate descent in the logarithms of the constants, by ever smaller steps."""
    kept = dict(model.CONSTANTS)
    use({name: begin for name, (begin, _) in FREE.items()})
    try:
        best = loss(pairs)
        for step in STEPS:
            for name in FREE:
                for factor in (math.exp(step), math.exp(-step)):
                    best = walked(pairs, name, factor, best)
            print(f"step {step}: {best:.4f}", flush=True)
        return {name: model.CONSTANTS[name].value for name in FREE}
    finally:
        model.CONSTANTS.update(kept)


def walked(pairs: list[Pair], name: str, factor: float, best: float) -> float:
    """Move one constant by `factor` as long as the loss falls."""
    begin, room = FREE[name]
    while True:
        kept = model.CONSTANTS[name].value
        if abs(math.log(kept * factor / begin)) > math.log(room):
            return best
        use({name: kept * factor})
        found = loss(pairs)
        if found >= best - 1e-6:
            use({name: kept})
            return best
        best = found


def use(values: dict[str, float]) -> None:
    for name, value in values.items():
        model.CONSTANTS[name] = model.CONSTANTS[name]._replace(value=value)


def summary(pairs: list[Pair]) -> dict[str, Any]:
    errors = [abs(p.modelled_us() / p.measured_us - 1) for p in pairs]
    picks = list(regrets(pairs).values())
    return {
        "pairs_count": len(pairs),
        "tasks": len({p.task for p in pairs}),
        "median_absolute_error": statistics.median(errors),
        "worst_absolute_error": max(errors),
        "worst_factor": max(
            max(p.modelled_us() / p.measured_us, p.measured_us / p.modelled_us()) for p in pairs
        ),
        "within_a_factor_of_two": sum(0.5 <= p.modelled_us() / p.measured_us <= 2 for p in pairs)
        / len(pairs),
        "spearman": spearman([p.measured_us for p in pairs], [p.modelled_us() for p in pairs]),
        "tasks_with_three_candidates": len(picks),
        "picks_within_10_percent_of_the_best": sum(r <= 1.1 for r in picks) / max(len(picks), 1),
        "worst_regret": max(picks, default=1.0),
    }


def regrets(pairs: list[Pair]) -> dict[str, float]:
    """Measured time of the candidate that the model ranks first, over the best measured time."""
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(pair.task, []).append(pair)
    return {
        task: min(group, key=Pair.modelled_us).measured_us / min(p.measured_us for p in group)
        for task, group in groups.items()
        if len(group) >= 3
    }


def by_kind(pairs: list[Pair]) -> dict[str, Any]:
    kinds: dict[str, list[float]] = {}
    for pair in pairs:
        kinds.setdefault(pair.kind, []).append(pair.modelled_us() / pair.measured_us)
    return {
        kind: {
            "pairs": len(ratios),
            "median_absolute_error": statistics.median(abs(r - 1) for r in ratios),
            "geometric_mean_ratio": math.exp(statistics.fmean(map(math.log, ratios))),
            "smallest_ratio": min(ratios),
            "largest_ratio": max(ratios),
        }
        for kind, ratios in kinds.items()
    }


# our bound -> the class that ncu's percentages of peak give
CLASSES = {
    "launch": "latency", "latency": "latency", "atomics": "latency", "dram": "dram", "l2": "l2", "l1": "l1",
}  # fmt: skip
PEAKS = {
    "dram": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",),
    "l2": ("lts__throughput.avg.pct_of_peak_sustained_elapsed",),
    "l1": ("l1tex__throughput.avg.pct_of_peak_sustained_active",
           "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"),
    "compute": ("sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active",
                "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
                "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active",
                "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
                "smsp__issue_active.avg.pct_of_peak_sustained_active",
                "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
}  # fmt: skip
BUSY_PERCENT = 60.0  # ncu's own guidance: below it in all units, latency is the limit


def bounds(pairs: list[Pair], folder: Path) -> dict[str, Any]:
    """How often the model's bound is the class of the busiest unit by ncu, for the profiled cases."""
    order = [json.loads(line)["case"] for line in (folder / "once.jsonl").read_text().splitlines()]
    text = (folder / "ncu.csv").read_text()
    table = list(csv.DictReader(io.StringIO(text[text.index('"ID"') :])))[1:]  # without the units
    if len(order) != len(table):
        raise SystemExit(f"{len(order)} cases launched, {len(table)} profiled: cannot pair them")
    by_name = {pair.case: pair for pair in pairs}
    found = []
    for case, line in zip(order, table):
        said = row(by_name[case])["bound"]
        busy = {
            kind: max(number(line.get(name)) for name in names) for kind, names in PEAKS.items()
        }
        best = max(busy, key=lambda kind: busy[kind])
        theirs = best if busy[best] >= BUSY_PERCENT else "latency"
        found.append({"case": case, "model": said, "ncu": theirs, "percent": busy,
                      "agree": CLASSES.get(said, "compute") == theirs})  # fmt: skip
    one = {
        "dram": "memory",
        "l2": "memory",
    }  # a stream from DRAM is busier in L2 by ncu's percentages
    together = [f["agree"] or one.get(f["model"], 0) == one.get(f["ncu"], 1) for f in found]
    return {
        "cases": len(found),
        "agree": sum(f["agree"] for f in found) / len(found),
        "agree_with_dram_and_l2_as_one": sum(together) / len(found),
        "all": found,
    }


def number(text: str | None) -> float:
    try:
        return float((text or "0").replace(",", ""))
    except ValueError:
        return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="h200", help="the part that was measured")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    pairs = read(options.folder, targets.get(options.target))
    if options.fit:
        for half in (HELD, 1 - HELD):
            found = fitted([p for p in pairs if p.half != half])
            kept = dict(model.CONSTANTS)
            use(found)
            other = [p for p in pairs if p.half == half and p.cold]
            print(
                f"fitted without half {half}:",
                json.dumps({n: float(f"{v:.3g}") for n, v in found.items()}, indent=1),
            )
            print("error on that half, cold:", json.dumps(summary(other), indent=1), flush=True)
            model.CONSTANTS.update(kept)
        return
    write(pairs, options)


def write(pairs: list[Pair], options: argparse.Namespace) -> None:
    head = json.loads((options.folder / "about.json").read_text())
    cold, warm = ([p for p in pairs if p.cold is c] for c in (True, False))
    held = [p for p in cold if p.half == HELD]
    result = {
        "measured": head,
        "held": "cold launches of the tasks that no constant was fitted to",
        **summary(held),
        "by_kind": by_kind(held),
        "held_out_warm": summary([p for p in warm if p.half == HELD]),
        "fitted_cold": summary([p for p in cold if p.half != HELD]),
        "fitted_warm": summary([p for p in warm if p.half != HELD]),
        "all_cold": summary(cold),
        "all_cold_by_kind": by_kind(cold),
        "bounds": bounds(cold, options.folder),
        "constants": {name: constant.value for name, constant in model.CONSTANTS.items()},
        "pairs": [row(p) for p in pairs],
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({k: v for k, v in result.items() if k not in ("pairs", "bounds")}, indent=1))


def row(pair: Pair) -> dict[str, Any]:
    found = model.model_time(pair.counters, pair.shape, pair.target, cold=pair.cold)
    return {
        "task": pair.task, "candidate": pair.candidate, "kind": pair.kind, "cold": pair.cold,
        "held_out": pair.half == HELD, "measured_us": pair.measured_us, "modelled_us": found.total_us,
        "bound": found.bound,
    }  # fmt: skip


if __name__ == "__main__":
    main()
