"""Check, time and profile the cases of cases.py on a GPU; count them on the virtual GPU.

    python benchmarks/kernels/collect.py gpu --out runs/kernels          # a GPU's machine: all of it
    python benchmarks/kernels/collect.py count --out runs/kernels        # anywhere

Results are lines of JSON, one a case, written as they come: check.jsonl, time.jsonl, ncu.csv and
counts.jsonl. `fit.py` reads them.

Times: a CUDA graph of several launches and one of a quarter of them, both replayed between events;
the difference divided by the difference in launches is the time of one launch, its place in a graph
included. Cold: every launch has tensors of its own, and a read of 256 MiB goes before each replay.
Warm: all launches use the same tensors.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from cases import Case, Inputs, cases

sys.path.insert(0, str(Path(__file__).parents[1]))
from about import about

HERE = Path(__file__)
SHARDS = 12
REPEATS = 11
MOST_BYTES = 12 << 30
METRICS = (
    "gpu__time_duration.sum", "sm__cycles_elapsed.max", "dram__bytes_read.sum", "dram__bytes_write.sum",
    "lts__t_sector_hit_rate.pct", "l1tex__t_sector_hit_rate.pct", "lts__t_sectors.sum",
    "lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum",
    "sm__warps_active.avg.pct_of_peak_sustained_active", "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "smsp__inst_executed.sum", "launch__registers_per_thread", "launch__occupancy_limit_registers",
    "launch__waves_per_multiprocessor", "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__throughput.avg.pct_of_peak_sustained_active", "sm__inst_executed_pipe_alu.sum",
    "sm__inst_executed_pipe_fma.sum", "sm__inst_executed_pipe_fp64.sum", "sm__inst_executed_pipe_xu.sum",
    "sm__inst_executed_pipe_lsu.sum", "sm__inst_executed_pipe_tensor.sum",
    "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=["gpu", "check", "time", "once", "count"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shard", type=int, default=0, help="of the checks, which run in parallel")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--target", default="h200", help="what the virtual GPU counts for")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--blocks", type=int, default=12, help="that the virtual GPU runs of a grid"
    )
    parser.add_argument("--seconds", type=float, default=480, help="that the GPU's stages may take")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    globals()[f"stage_{options.stage}"](options)


def chosen(options: argparse.Namespace) -> list[Case]:
    found = [case for case in cases() if options.only in case.name]
    return found[options.shard :: options.shards]


def note(path: Path, **row: Any) -> None:
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def rows(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    return {row["case"]: row for row in map(json.loads, path.read_text().splitlines())}


# ------------------------------------------------------------------------------------------ GPU


def stage_gpu(options: argparse.Namespace) -> None:
    """Checks in parallel, which also fill the compilers' caches; then times, alone; then ncu, and the
    virtual GPU's counts of the same builds beside it."""
    begin = time.monotonic()
    head = about(torch.cuda.get_device_name())
    (options.out / "about.json").write_text(json.dumps(head | {"clocks": clocks()}, indent=1))
    command = [sys.executable, str(HERE)]
    rest = ["--out", str(options.out), "--only", options.only, "--target", options.target]
    shards = [
        subprocess.Popen([*command, "check", *rest, "--shard", str(i), "--shards", str(SHARDS)])
        for i in range(SHARDS)
    ]
    for shard in shards:
        ended(shard, 0.5 * options.seconds - (time.monotonic() - begin))
    print(f"checked after {time.monotonic() - begin:.0f} s", flush=True)
    left = options.seconds - (time.monotonic() - begin) - 100
    ended(subprocess.Popen([*command, "time", *rest, "--seconds", str(left)]), left + 30)
    print(f"timed after {time.monotonic() - begin:.0f} s", flush=True)
    counting = [
        subprocess.Popen([*command, "count", *rest, "--shard", str(i), "--shards", str(SHARDS)])
        for i in range(SHARDS)
    ]
    left = options.seconds - (time.monotonic() - begin)
    ncu([*command, "once", *rest], options.out, left)
    print(f"profiled after {time.monotonic() - begin:.0f} s", flush=True)
    for shard in counting:
        ended(shard, options.seconds + 40 - (time.monotonic() - begin))
    print(f"counted after {time.monotonic() - begin:.0f} s", flush=True)


def ended(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait so long, then end it: what it wrote stays."""
    try:
        process.wait(timeout=max(1.0, seconds))
    except subprocess.TimeoutExpired:
        process.terminate()


def stage_check(options: argparse.Namespace) -> None:
    """Each case once against PyTorch. A CUDA error ends a process's context: begin a new process."""
    path = options.out / f"check-{options.shard}.jsonl"
    for case in chosen(options):
        if case.name in rows(path):
            continue
        try:
            note(path, case=case.name, error=error_of(case, options.device), message="")
        except Exception as error:
            note(path, case=case.name, error=None, message=f"{type(error).__name__}: {error}"[:500])
            if "CUDA" in str(error):
                os.execv(sys.executable, [sys.executable, *sys.argv])


def error_of(case: Case, device: str) -> float | None:
    """Largest difference over the largest expected value; ValueError beyond the tolerance."""
    args = case.make(Inputs(device))
    expected = case.expected(args).double() if case.expected else None
    case.launch(args)
    if device == "cuda":
        torch.cuda.synchronize()
    found = args[case.out].double()
    if expected is None:
        if not bool(found.isfinite().all()):
            raise ValueError("not finite")
        return None
    error = float((found.reshape(-1) - expected.reshape(-1)).abs().max() / expected.abs().max())
    if not error <= case.tolerance:
        raise ValueError(f"wrong: off by {error:.3g}, expected at most {case.tolerance:g}")
    return error


def checked(out: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(out.glob("check-*.jsonl")):
        found |= rows(path)
    return found


def stage_time(options: argparse.Namespace) -> None:
    begin, good = time.monotonic(), checked(options.out)
    path = options.out / "time.jsonl"
    flush = torch.empty(64 << 20, device="cuda").normal_()
    for number, case in enumerate(chosen(options)):
        if time.monotonic() - begin > options.seconds:
            print(f"out of time after {number} cases", flush=True)
            break
        if good.get(case.name, {"message": "not checked"})["message"]:
            continue
        try:
            row = timed(case, flush)
        except Exception as error:
            print(f"{case.name}: {error}"[:300], flush=True)
            continue
        extra = {"clocks": clocks()} if number % 25 == 0 else {}
        note(
            path,
            case=case.name,
            task=case.task,
            candidate=case.candidate,
            kind=case.kind,
            **row,
            **extra,
        )
        torch.cuda.empty_cache()


def timed(case: Case, flush: torch.Tensor) -> dict[str, Any]:
    args = case.make(Inputs("cuda"))
    case.launch(args)
    torch.cuda.synchronize()
    nbytes = sum(a.nbytes for a in args if isinstance(a, torch.Tensor))
    rough = min(replayed(graph(case, [args] * 4)) for _ in range(2)) / 4
    count = int(min(max(400 / rough, 4), 40))
    own = max(4, min(count, MOST_BYTES // max(nbytes, 1)))
    sets = [args] + [
        [a.clone() if isinstance(a, torch.Tensor) else a for a in args] for _ in range(own - 1)
    ]
    cold = samples(case, sets, flush)
    warm = samples(case, [args] * count, None)
    return {
        "cold_us": statistics.median(cold), "cold_samples_us": [round(t, 4) for t in cold],
        "warm_us": statistics.median(warm), "warm_samples_us": [round(t, 4) for t in warm],
        "launches": own, "bytes": nbytes,
    }  # fmt: skip


def samples(case: Case, sets: list[list[Any]], flush: torch.Tensor | None) -> list[float]:
    few = max(1, len(sets) // 4)
    short, whole = graph(case, sets[:few]), graph(case, sets)
    found = []
    for _ in range(REPEATS + 1):
        times = [replayed(g, flush) for g in (short, whole)]
        found.append((times[1] - times[0]) / (len(sets) - few))
    return found[1:]


def graph(case: Case, sets: list[list[Any]]) -> torch.cuda.CUDAGraph:
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        for args in sets:
            case.launch(args)
    return made


def replayed(made: torch.cuda.CUDAGraph, flush: torch.Tensor | None = None) -> float:
    """Microseconds of one replay."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    if flush is not None:
        flush.sum()
    begin.record()
    made.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000


def clocks() -> str:
    query = "--query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw"
    done = subprocess.run(
        ["nvidia-smi", query, "--format=csv,noheader"], capture_output=True, text=True
    )
    return done.stdout.strip()


def stage_once(options: argparse.Namespace) -> None:
    """One launch of every fifth right case, in order, for ncu to see."""
    good = checked(options.out)
    for case in chosen(options)[::5]:
        if good.get(case.name, {"message": "not checked"})["message"]:
            continue
        args = case.make(Inputs("cuda"))
        torch.cuda.synchronize()
        case.launch(args)
        torch.cuda.synchronize()
        note(options.out / "once.jsonl", case=case.name)
        del args
        torch.cuda.empty_cache()


def ncu(command: list[str], out: Path, seconds: float) -> None:
    """Metrics of the kernels named k_*, in the order of once.jsonl; a refusal goes to ncu.txt."""
    full = [
        "ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
        "-k", "regex:k_", "--metrics", ",".join(METRICS), *command,
    ]  # fmt: skip
    with (out / "ncu.csv").open("w") as file, (out / "ncu.txt").open("w") as errors:
        try:
            done = subprocess.run(full, stdout=file, stderr=errors, timeout=max(seconds, 5))
            errors.write(f"ncu ended with {done.returncode}\n")
        except (OSError, subprocess.TimeoutExpired) as error:
            errors.write(f"ncu did not end: {error}\n")


# ---------------------------------------------------------------------------------- virtual GPU


def stage_count(options: argparse.Namespace) -> None:
    """Counters of each case on the virtual GPU, from a sample of the blocks."""
    from warpsmith.devices.observe import observe

    path = options.out / "counts.jsonl"
    done = rows(path)
    for case in chosen(options):
        if case.name in done:
            continue
        try:
            args = case.make(Inputs("cpu"))
            with observe(
                options.target, count=True, sample=options.blocks, max_seconds=120
            ) as seen:
                case.launch(args)
        except Exception as error:
            print(f"{case.name}: {type(error).__name__}: {error}"[:400], flush=True)
            continue
        launch = seen.launches[0]
        facts = seen.kernels[0]
        note(
            path, case=case.name, task=case.task, candidate=case.candidate, kind=case.kind, grid=launch.grid,
            block=launch.block, shared_bytes=launch.shared_bytes, registers=launch.registers, facts=facts,
            counters={k: v for k, v in launch.counters.items() if v}, seconds=round(seen.seconds, 2),
        )  # fmt: skip


if __name__ == "__main__":
    main()
