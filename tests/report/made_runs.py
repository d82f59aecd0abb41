"""Runs made by hand, with every kind of outcome, for tests that need a journal but no GPU."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from pathlib import Path

from warpsmith.spec import (
    Analysis,
    Built,
    Candidate,
    CaseResult,
    CaseTime,
    Journal,
    Launch,
    Outcome,
    Ratio,
    Record,
    Task,
    Timing,
    Verdict,
)

SOFTMAX = """\
/* host.py
def run(inputs, state):
    (x,) = inputs
    out = torch.empty_like(x)
    kernel[x.shape[0], 256](x, out, x.shape[1])
    return out
*/
extern "C" __global__ void softmax(const float* x, float* out, int cols) {
    float sum = 0;
    for (int i = threadIdx.x; i <= cols; i += blockDim.x)
        sum += __expf(x[blockIdx.x * cols + i]);
    if (a < b && "quoted & <angled>") { }
}
"""
HOST = "def run(inputs, state):\n    return inputs[0].softmax(-1)\n"
TASK_SOURCE = "class Model: ...\ndef get_inputs(rows=1024, cols=1024): ...\n"


def task(name: str = "softmax") -> Task:
    return Task(
        name, lambda: None, lambda rows=4: [rows], ranges={"rows": (1, 64)}, source=TASK_SOURCE
    )


def candidate(name: str, kernel: str = SOFTMAX, **changes) -> Candidate:
    given = {"language": "cuda", "files": {"candidate.py": HOST, "softmax.cu": kernel}}
    return Candidate(name, **(given | changes))


def record(candidate: Candidate, **fields) -> Record:
    given = {
        "task": task().id,
        "task_name": "softmax",
        "device": "virtual",
        "target": "h100",
        "started": "2026-12-01T10:00:00.000+00:00",
        "seconds": 1.5,
    }
    return Record(candidate=candidate, **(given | fields))


def wrong(name: str, outcome: Outcome, message: str, *, source: str = "", **changes) -> Record:
    verdict = Verdict(
        outcome,
        message,
        source,
        (CaseResult("rows=31 cols=65 seed=1", outcome, 7.5e4, 0.3, message),),
    )
    return record(candidate(name, kernel=f"// {name}\n{SOFTMAX}", **changes), verdict=verdict)


def right(
    name: str, time_us: float, *, modelled: bool = True, roofline: bool = True, **changes
) -> Record:
    cases = tuple(
        CaseResult(f"rows={rows} cols=4097 seed={seed}", Outcome.RIGHT, 0.031 * (seed + 1), 1.2e-7)
        for seed, rows in enumerate((1, 31, 1024))
    )
    launch = Launch(
        "softmax", (1024, 1, 1), (256, 1, 1), 0, 32, counters={"flops": 5e6}, time_us=time_us
    )
    spread = 0.0 if modelled else 0.04
    timing = Timing(
        modelled=modelled,
        device="virtual GPU, modelled for NVIDIA H100 SXM" if modelled else "NVIDIA H200",
        cases=(
            CaseTime(
                "rows=1024 cols=4096 seed=0",
                time_us,
                time_us * (1 - spread),
                time_us * (1 + spread),
                1 if modelled else 20,
                baselines_us={"eager": 41.5, "compile": 20.25},
                speedups={
                    "eager": Ratio(
                        41.5 / time_us, 41.5 / time_us - spread, 41.5 / time_us + spread
                    ),
                    "compile": Ratio(
                        20.25 / time_us, 20.25 / time_us - spread, 20.25 / time_us + spread
                    ),
                },
                missing={"cudagraph": "the reference synchronizes"},
                launches=(launch,),
            ),
        ),
        method="roofline model on exact counters"
        if modelled
        else "CUDA events, 20 interleaved blocks",
        environment={"model_error": "±18 % (median of 40 kernels)"}
        if modelled
        else {"clock_mhz": 1755},
    )
    roof = {
        "flops": 2.1e7,
        "bytes": 3.36e7,
        "time_us": time_us,
        "peak_gflops": 66900.0,
        "peak_gbps": 3350.0,
    }
    return record(
        candidate(name, kernel=f"// {name}\n{SOFTMAX}", **changes),
        built=Built(
            (
                {
                    "name": "softmax",
                    "arch": "sm_90a",
                    "registers": 32,
                    "spill_bytes": 0,
                    "shared_bytes": 1024,
                },
            ),
            0.4,
        ),
        verdict=Verdict(Outcome.RIGHT, "right on 3 cases", "", cases, seconds=0.8),
        timing=timing,
        analysis=Analysis(
            bound="dram",
            roofline=roof if roofline else {},
            advice=("Loads are 4 bytes wide: load float4 to halve the instructions.",),
        ),
    )


def story(modelled: bool = True) -> list[Record]:
    """Nine candidates: four right ones that get faster, and five that fail in four ways."""
    return [
        wrong("naive", Outcome.COMPILE_FAILED, "softmax.cu:13: identifier \"a\" is undefined", source="softmax.cu:13", origin="llm"),
        right("row-per-warp", 31.4, modelled=modelled, parameters={"threads": 128}, origin="template"),
        wrong("off-by-one", Outcome.OUT_OF_BOUNDS, "read of 4 bytes, 4 bytes past the end of x (1024 x 4097 float32)", source="softmax.cu:12", origin="llm"),
        right("online", 18.2, modelled=modelled, parameters={"threads": 256, "vector": 1}, origin="template"),
        wrong("fast-exp", Outcome.WRONG_VALUE, "element (3, 17) is 0.25, the truth is 0.2471: 7.5e+04 times the tolerance", origin="mutate"),
        wrong("fast-exp-2", Outcome.WRONG_VALUE, "element (3, 17) is 0.25, the truth is 0.2471: 7.5e+04 times the tolerance", origin="mutate"),
        right("two-pass", 44.0, modelled=modelled, roofline=False, origin="mutate"),
        wrong("early-exit", Outcome.DEADLOCK, "threads 0-30 of block 0 wait at a barrier that thread 31 never reaches", source="softmax.cu:11"),
        right("vector-4", 12.75, modelled=modelled, parameters={"threads": 256, "vector": 4}, origin="template", note="four values a load"),
    ]  # fmt: skip


def journal(path: Path, records: list[Record] | None = None, **settings) -> Journal:
    settings = {
        "proposer": "greedy",
        "candidates": 40,
        "seconds": 600.0,
        "device": "virtual",
        "target": "h100",
    } | settings
    made = Journal.create(path, task=task(), settings=settings)
    for one in story() if records is None else records:
        made.append(one)
        made.log_time(2.0)
    return made
