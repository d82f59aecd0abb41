"""docs/virtual-gpu.md tells what the catalogue and the corpus say.

WARPSMITH_REFRESH=1 python -m pytest tests/vgpu/test_virtual_gpu_page.py   # writes its tables anew
"""
# SPDX-License-Identifier: Apache-2.0

import json
import os
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import isa_catalogue as catalogue
from test_isa_catalogue import refusal

pytestmark = pytest.mark.virtual
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "virtual-gpu.md"
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- made by tests/vgpu/test_virtual_gpu_page.py -->", "<!-- end -->"


def result(name):
    return json.loads((RESULTS / name).read_text())


def tables():
    groups: dict[str, list[str]] = {}
    for group, opcode, _, _ in catalogue.entries():
        groups.setdefault(group, []).append(f"`{opcode}`")
    lines = ["| instructions | taken |", "|---|---|"]
    lines += [f"| {g} | {' '.join(dict.fromkeys(o))} |" for g, o in groups.items()]
    lines += ["", "| refused | why |", "|---|---|"]
    for _, arch, line, _ in catalogue.REFUSED:
        error = refusal(arch, line)
        lines.append(f"| `{line.replace('|', '&#124;')}` | {error.why} |")
    return "\n".join([*lines, "", *corpus()])


def corpus():
    found = result("corpus.json")
    yield f"Of a corpus of CUDA programs ({', '.join(f'{n} files of {f}' for f, n in found['folders'].items())}):"
    yield ""
    yield "| for | files that compile | distinct kernels | translate | refused |"
    yield "|---|---|---|---|---|"
    for arch, table in found["arch"].items():
        refused = ", ".join(f"{n} × `{i}`" for i, n in table["refused_by_instruction"].items())
        yield (f"| sm_{arch} | {table['files_compiled']} of {table['files']} | {table['distinct_kernels']} | "
               f"{table['translated']} ({100 * table['share']:.1f} %) | {refused} |")  # fmt: skip


def test_the_page_tells_the_same():
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    wanted = f"{before}{BEGIN}\n{tables()}\n{END}{after}"
    if os.environ.get("WARPSMITH_REFRESH"):
        PAGE.write_text(wanted)
    assert PAGE.read_text() == wanted


def test_the_corpus_passes_its_bars():
    found = result("corpus.json")["arch"]
    assert found["80"]["share"] >= 0.97
    assert found["90a"]["share"] >= 0.95
    assert all(table["distinct_kernels"] >= 600 for table in found.values())
    assert all(re.search(r"\S", r["why"]) for table in found.values() for r in table["refused"])


def test_the_runs_are_right():
    runs = result("corpus_runs.json")["runs"]
    assert len(runs) >= 60
    assert all(r["right"] for r in runs.values())
    assert [name for name, r in runs.items() if "found" in r] == [
        "softmax_forward.cu:softmax_forward_kernel4"
    ]
    assert f"{len(runs)} of llm.c" in PAGE.read_text()
