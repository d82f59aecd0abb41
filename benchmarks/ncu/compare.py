"""Hold the virtual GPU's counters against ncu's of the same launches on an H200, and say why they differ.

    python benchmarks/ncu/collect.py --out …       # on the machine with a GPU: ncu_h200.json
    python benchmarks/ncu/compare.py               # anywhere: ncu_compare.json, and the tables of docs/counters.md

Every difference in the exact families must have a reason in REASONS; one without fails the run.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = ROOT / "benchmarks" / "results"
sys.path.insert(0, str(HERE))

Counts = Mapping[str, float]
GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
OPERATION = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"


def same(name: str) -> Callable[[Counts], float]:
    return lambda ours: ours.get(name, 0.0)


def added(*names: str) -> Callable[[Counts], float]:
    return lambda ours: sum(ours.get(name, 0.0) for name in names)


def less(name: str, other: str) -> Callable[[Counts], float]:
    return lambda ours: ours.get(name, 0.0) - ours.get(other, 0.0)


# ncu's metric -> what it is in our counters
PAIRS: dict[str, Callable[[Counts], float]] = {
    "launch__grid_size": same("launch__grid_size"),
    "launch__thread_count": same("launch__thread_count"),
    "smsp__warps_launched.sum": same("warps"),
    GLOBAL.format("requests", "ld"): added(
        GLOBAL.format("requests", "ld"), "smsp__sass_inst_executed_op_ldgsts.sum"
    ),
    GLOBAL.format("sectors", "ld"): added(GLOBAL.format("sectors", "ld"), "cp_async_sectors"),
    **{
        name: same(name)
        for op in ("st", "red", "atom")
        for what in ("requests", "sectors")
        if (name := GLOBAL.format(what, op))
    },
    "smsp__sass_inst_executed_op_ldgsts.sum": same("smsp__sass_inst_executed_op_ldgsts.sum"),
    "smsp__inst_executed_op_ldsm.sum": same("smsp__inst_executed_op_ldsm.sum"),
    "smsp__sass_inst_executed_op_shared_ld.sum": less(
        "smsp__sass_inst_executed_op_shared_ld.sum", "smsp__inst_executed_op_ldsm.sum"
    ),
    "smsp__sass_inst_executed_op_shared_st.sum": same("smsp__sass_inst_executed_op_shared_st.sum"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": same(
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
    ),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": same(
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"
    ),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum": same("shared_atomic_wavefronts"),
    "smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared.sum": same("memory_l1_wavefronts_shared"),
    **{
        OPERATION.format(op): same(OPERATION.format(op))
        for op in ("fadd", "fmul", "ffma", "dadd", "dmul", "dfma")
    },
    **{
        OPERATION.format(op): added(OPERATION.format(op), OPERATION.format(f"{op}2"))
        for op in ("hadd", "hmul", "hfma")
    },
    "sm__ops_path_tensor_src_fp16.sum": same("tensor_flops_fp16"),
}

FUSED = "ptxas fuses mul.f32 and add.f32 that have no rounding modifier"
EXPANDED = "div, sqrt, ex2 and tanh become sequences of these in machine code"
MERGED = "ptxas joins neighboring shared loads into wider ones"
KEPT = "ptxas keeps a value that the PTX loads again in a register"
CONSTANT = "ptxas makes constants with HFMA2, which ncu counts as half-precision arithmetic"
COLLIDING = "the hardware sends a reduction's sector again for lanes that meet on an address"
ORDER = "where a thread appends depends on the order of the atomics"
ARBITRATION = "a hardware counter: waits for other users of the data pipe are in it"
SWIZZLED = (
    "not understood: ncu's SASS counter charges about 8 passes for a cp.async into swizzled rows, its "
    "hardware counter fewer, we 4"
)
IF_CONVERTED = "ptxas computes both sides of a short branch, or moves code across it"

# (case or "*", part of a metric's name) -> why ours may differ; the first that fits
EMPTY = "a cp.async whose lanes all have a source size of 0 asks L1 for nothing; we count the instruction"
REASONS: tuple[tuple[str, str, str], ...] = (
    ("*", "op_hfma_pred_on", CONSTANT),
    ("stencil", "op_f", FUSED),
    ("gelu", "op_ffma", IF_CONVERTED),
    ("reduce_shuffle", "op_fadd", IF_CONVERTED),
    ("softmax", "op_f", EXPANDED),
    ("tri_softmax", "op_f", EXPANDED),
    ("tri_attention", "op_f", EXPANDED),
    ("tri_layer_norm", "op_f", f"{FUSED}; {EXPANDED}"),
    ("softmax", "shared", MERGED),
    ("sgemm_tiled", "shared", MERGED),
    ("reduce_strided", "shared", KEPT),
    ("hist_global", "sectors_pipe_lsu_mem_global_op_red", COLLIDING),
    ("append", "sectors_pipe_lsu_mem_global_op_st", ORDER),
    ("tri_matmul_32", "smsp__sass_l1tex_pipe_lsu_wavefronts", SWIZZLED),
    ("tri_matmul_64", "smsp__sass_l1tex_pipe_lsu_wavefronts", SWIZZLED),
    ("tri_matmul_128", "smsp__sass_l1tex_pipe_lsu_wavefronts", SWIZZLED),
    ("tri_attention", "smsp__sass_l1tex_pipe_lsu_wavefronts", SWIZZLED),
    ("tri_attention", "wavefronts_mem_shared_op_st", ARBITRATION),
    *(
        (f"tri_{case}", "requests_pipe_lsu_mem_global_op_ld", EMPTY)
        for case in ("matmul_32", "matmul_64", "matmul_128", "attention")
    ),
)


def counted() -> dict[str, dict[str, float]]:
    """Our counters of every case, in the shape of an H200."""
    from cases import CASES

    from warpsmith import targets
    from warpsmith.devices.observe import observe

    found = {}
    for name, run in CASES.items():
        with observe(targets.get("h200"), caches=True) as seen:
            run("cpu")
        found[name] = dict(seen.launches[0].counters)
    return found


def reason(case: str, metric: str) -> str:
    return next((why for c, part, why in REASONS if c in ("*", case) and part in metric), "")


def exact(theirs: Mapping[str, Any], ours: Mapping[str, Counts]) -> dict[str, Any]:
    """Equal pairs, and each difference with its reason."""
    rows, pairs, equal = [], 0, 0
    cases = dict.fromkeys(theirs, True)
    for case, measured in theirs.items():
        for metric, of in PAIRS.items():
            value = measured["metrics"].get(metric)
            if value is None:
                continue
            pairs += 1
            mine = of(ours[case])
            if mine == value:
                equal += 1
                continue
            cases[case] = False
            rows.append({"case": case, "metric": metric, "ncu": value, "ours": mine,
                         "reason": reason(case, metric)})  # fmt: skip
    return {
        "cases": len(cases),
        "cases_equal_throughout": sum(cases.values()),
        "pairs": pairs,
        "equal": equal,
        "pairs_not_zero": sum(
            1 for c, m in theirs.items() for metric in PAIRS if m["metrics"].get(metric)
        ),
        "differences": rows,
    }


def estimates(theirs: Mapping[str, Any], ours: Mapping[str, Counts]) -> dict[str, Any]:
    """Our cache model and ncu, case by case, and the spread of the errors."""
    rows = {}
    for case, measured in theirs.items():
        if case.startswith("shared"):
            continue
        got, mine = measured["metrics"], ours[case]
        hits = got["lts__t_sectors_srcunit_tex_lookup_hit.sum"]
        all_ = hits + got["lts__t_sectors_srcunit_tex_lookup_miss.sum"]
        rows[case] = {
            "l1_hit_percent": (got["l1tex__t_sector_hit_rate.pct"],
                               mine["estimated_l1tex__t_sector_hit_rate.pct"]),
            "l2_hit_percent": (100 * hits / max(all_, 1),
                               mine["estimated_lts__t_sectors_srcunit_tex_hit_rate.pct"]),
            "l1_from_l2_sectors": (got["l1tex__m_xbar2l1tex_read_sectors.sum"],
                                   mine["estimated_l1tex__m_xbar2l1tex_read_sectors.sum"]),
            "dram_read_bytes": (got["dram__bytes_read.sum"], mine["estimated_dram__bytes_read.sum"]),
            "dram_write_bytes": (got["dram__bytes_write.sum"],
                                 mine["estimated_dram__bytes_write.sum"]),
        }  # fmt: skip
    return {"cases": rows, "errors": errors(rows)}


def errors(rows: Mapping[str, Mapping[str, tuple[float, float]]]) -> dict[str, dict[str, float]]:
    found = {}
    for name in ("l1_hit_percent", "l2_hit_percent"):
        apart = [abs(row[name][1] - row[name][0]) for row in rows.values()]
        found[name] = {"median_points": statistics.median(apart), "worst_points": max(apart)}
    for name in ("l1_from_l2_sectors", "dram_read_bytes"):
        off = [abs(b - a) / a for row in rows.values() for a, b in [row[name]] if a >= 1e5]
        found[name] = {"median_relative": statistics.median(off), "worst_relative": max(off),
                       "cases": len(off)}  # fmt: skip
    return found


def main() -> None:
    measured = json.loads((RESULTS / "ncu_h200.json").read_text())
    theirs, ours = measured["cases"], counted()
    result = {
        "device": measured["device"],
        "ncu": measured["ncu"],
        "made": measured["made"],
        "exact": exact(theirs, ours),
        "estimates": estimates(theirs, ours),
    }
    (RESULTS / "ncu_compare.json").write_text(json.dumps(result, indent=1) + "\n")
    import page

    (ROOT / "docs" / "counters.md").write_text(page.text(result))
    found = result["exact"]
    unknown = [row for row in found["differences"] if not row["reason"]]
    print(f"{found['equal']} of {found['pairs']} pairs equal over {found['cases']} cases; "
          f"{found['cases_equal_throughout']} cases throughout")  # fmt: skip
    print(json.dumps(result["estimates"]["errors"], indent=1))
    for row in unknown:
        print("unexplained:", row)
    sys.exit(1 if unknown else 0)


if __name__ == "__main__":
    main()
