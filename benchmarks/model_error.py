"""Hold modelled times against measured ones: the candidates of runs on a GPU, modelled for that GPU.

    python benchmarks/examples.py --device cuda --runs runs/on-gpu      # on the machine with a GPU
    python benchmarks/model_error.py runs/on-gpu                        # anywhere

Every right candidate of every journal found is run on the virtual GPU with the journal's target, on
the same cases, and its modelled time is divided by the measured one. Nothing is fitted here. Writes
benchmarks/results/model_error-examples.json with every pair. The error that reports state comes from
more kinds of kernels: kernels/fit.py.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from about import about

import warpsmith as ws
from warpsmith.measure import measure
from warpsmith.spec import Record

ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, help="a folder with journals of runs on a GPU")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "benchmarks/results/model_error-examples.json"
    )
    options = parser.parse_args()
    pairs: list[dict[str, Any]] = []
    for path in sorted(options.runs.rglob("journal.sqlite")):
        found = pairs_of(path)
        pairs += found
        print(f"{path.parent.name}: {len(found)} pairs", flush=True)
    if not pairs:
        raise SystemExit(f"no right, measured candidate in any journal under {options.runs}")
    result = about("virtual, modelled, against journals of a GPU") | summary(pairs)
    options.out.write_text(json.dumps(result | {"pairs": pairs}, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def pairs_of(path: Path) -> list[dict[str, Any]]:
    """Measured and modelled times of every right candidate of a journal, case by case."""
    with ws.Journal.open(path) as journal, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{journal.task_name}.py"
        file.write_text(journal.task_source)
        task = ws.load_task(file, name=journal.task_name)
        records = [r for r in journal.records() if r.timing and not r.timing.modelled]
        target = journal.settings["target"]
        with ws.open_device("virtual", target) as device:
            return [pair for r in records for pair in pairs_of_record(task, r, device)]


def pairs_of_record(task: ws.Task, record: Record, device: Any) -> list[dict[str, Any]]:
    assert record.timing
    modelled = measure(task, replace(record, timing=None, analysis=None), device)
    if modelled.timing is None:
        return []
    measured = {case.case: case.median_us for case in record.timing.cases}
    return [
        {
            "task": record.task_name,
            "candidate": record.candidate.name,
            "parameters": dict(record.candidate.parameters),
            "language": record.candidate.language,
            "case": case.case,
            "measured_us": measured[case.case],
            "modelled_us": case.median_us,
            "bound": max(case.launches, key=lambda x: x.time_us or 0).bound
            if case.launches
            else "",
        }
        for case in modelled.timing.cases
        if case.case in measured
    ]


def summary(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    errors = [abs(p["modelled_us"] / p["measured_us"] - 1) for p in pairs]
    logs = [math.log(p["modelled_us"] / p["measured_us"]) for p in pairs]
    picks = list(regrets(pairs).values())
    return {
        "pairs_count": len(pairs),
        "median_absolute_error": statistics.median(errors),
        "worst_absolute_error": max(errors),
        "geometric_mean_ratio": math.exp(statistics.fmean(logs)),
        "spearman": spearman([p["measured_us"] for p in pairs], [p["modelled_us"] for p in pairs]),
        "tasks_and_cases": len(picks),
        "picks_within_10_percent_of_the_best": sum(r <= 1.1 for r in picks) / len(picks),
        "median_regret": statistics.median(picks),
        "worst_regret": max(picks),
    }


def regrets(pairs: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Measured time of the candidate that the model ranks first, over the best measured time."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for pair in pairs:
        groups.setdefault((pair["task"], pair["case"]), []).append(pair)
    return {
        key: min(group, key=lambda p: p["modelled_us"])["measured_us"]
        / min(p["measured_us"] for p in group)
        for key, group in groups.items()
        if len(group) > 1
    }


def spearman(one: list[float], two: list[float]) -> float:
    """Rank correlation; ties take their mean rank."""
    return statistics.correlation(ranks(one), ranks(two))


def ranks(values: list[float]) -> list[float]:
    order = sorted(values)
    first = {value: order.index(value) for value in set(values)}
    count = {value: values.count(value) for value in set(values)}
    return [first[value] + (count[value] - 1) / 2 for value in values]


if __name__ == "__main__":
    main()
