"""Write docs/counters.md: the table of counters, and how they compare with ncu's on an H200."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from warpsmith.vgpu import metrics

HEAD = """\
# Counters

What `Counters.as_dict`, `warpsmith profile` and the journal call things. This page is made by
`benchmarks/ncu/compare.py` from `vgpu/metrics.py` and from counters of the same launches that Nsight
Compute (ncu) measured. Families:

"""
BY_LINE = """
`Counters.by_line()` and `by_ptx_line()` give the same by line of source and of PTX (`vgpu/lines.py`
has the columns); code that was inlined counts at the innermost line of the kernel's own file, so that
Triton's library functions count at the Python line that called them.
"""


def text(result: dict[str, Any]) -> str:
    return "\n".join([*_table(), *_exact(result), *_estimates(result)]) + "\n"


def table() -> str:
    """The first part alone, which depends on the code only."""
    return "\n".join(_table())


def _table() -> Iterator[str]:
    lines = (metrics.__doc__ or "").split("\n\n")[2].splitlines()
    yield HEAD + "```text\n" + "\n".join(lines) + "\n```"
    for section, rows in metrics.SECTIONS.items():
        yield f"\n## {section}\n\n| counter | family | definition |\n| --- | --- | --- |"
        for row in rows:
            yield f"| `{row.key}` | {row.family} | {row.definition} |"
    yield BY_LINE


def _exact(result: dict[str, Any]) -> Iterator[str]:
    found = result["exact"]
    yield f"## Against ncu {result['ncu']} on an {result['device']}\n"
    yield (
        f"{found['cases']} launches (elementwise, strided, transposes, reductions, SGEMM ladder, Triton "
        f"matmuls, attention, atomics, histograms, layouts of shared memory), {found['pairs']} pairs of "
        f"numbers of the exact and address families, {found['pairs_not_zero']} of them not zero: "
        f"{found['equal']} are equal. {found['cases_equal_throughout']} launches are equal throughout. "
        "The others, each with its reason:\n"
    )
    yield "| launch | ncu's metric | ncu | ours | why |\n| --- | --- | ---: | ---: | --- |"
    for row in found["differences"]:
        yield (
            f"| {row['case']} | `{row['metric']}` | {row['ncu']:,.0f} | {row['ours']:,.0f} "
            f"| {row['reason'] or 'unexplained'} |"
        )


def _estimates(result: dict[str, Any]) -> Iterator[str]:
    found = result["estimates"]
    off = found["errors"]
    yield "\n## The cache model against ncu\n"
    yield (
        "Estimates, and how wrong they were on these launches (caches cold in both): L1 hit rate "
        f"{off['l1_hit_percent']['median_points']:.1f} points in the median and "
        f"{off['l1_hit_percent']['worst_points']:.0f} at worst; L2 hit rate "
        f"{off['l2_hit_percent']['median_points']:.1f} and {off['l2_hit_percent']['worst_points']:.0f}; "
        "sectors that L1 asks of L2 "
        f"{off['l1_from_l2_sectors']['median_relative']:.1%} and "
        f"{off['l1_from_l2_sectors']['worst_relative']:.0%} (of {off['l1_from_l2_sectors']['cases']} "
        f"launches with 100,000 or more); DRAM bytes read {off['dram_read_bytes']['median_relative']:.1%} "
        f"and {off['dram_read_bytes']['worst_relative']:.0%} (of {off['dram_read_bytes']['cases']}). "
        "L2 hit rates differ most where several SMs read the same lines: Hopper merges such requests on "
        "their way to L2, so that ncu's L2 sees fewer hits. What the model takes for granted is in "
        "`vgpu/cache.py`.\n"
    )
    yield (
        "| launch | L1 hits % ncu | ours | L2 hits % ncu | ours | DRAM read ncu | ours "
        "| DRAM written ncu | ours |\n| --- |" + " ---: |" * 8
    )
    for case, row in found["cases"].items():
        cells = [
            f"{value:.1f}" for key in ("l1_hit_percent", "l2_hit_percent") for value in row[key]
        ]
        cells += [f"{v:,.0f}" for key in ("dram_read_bytes", "dram_write_bytes") for v in row[key]]
        yield f"| {case} | {' | '.join(cells)} |"
