"""Which Triton programs of the corpus run right on the virtual GPU, for each compute capability.

Run: python benchmarks/triton_corpus.py [ARCH …] [--docs]. Writes benchmarks/results/triton_corpus.json
and, with --docs, the table of docs/triton.md. A program is right, wrong (its own check failed, or a
fault), refused (an instruction that the virtual GPU lacks), or Triton does not compile it. Times are
CPU seconds of the second run, with everything compiled, check included.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "triton_corpus.json"
PAGE = ROOT / "docs" / "triton.md"
sys.path.insert(0, str(ROOT / "tests"))
from triton_corpus import corpus  # noqa: E402
from warpsmith.errors import CompileError, KernelFault, UnsupportedInstruction, UsageError  # noqa: E402

ENDINGS = (
    (UnsupportedInstruction, "refused"), (CompileError, "not compiled"), (UsageError, "refused"),
    (KernelFault, "wrong"), (AssertionError, "wrong"),
)  # fmt: skip
LETTERS = {
    "right": "✓",
    "refused": "refused",
    "wrong": "WRONG",
    "not compiled": "Triton ✗",
    "": "·",
}


def judge(program: corpus.Entry, arch: int) -> dict:
    """How a program ends for a compute capability, with why and how long."""
    start = time.process_time()
    try:
        corpus.run_virtually(program, arch, max_seconds=120)
    except tuple(kind for kind, _ in ENDINGS) as error:
        ending = next(name for kind, name in ENDINGS if isinstance(error, kind))
        return {"ending": ending, "why": str(error).strip().splitlines()[0][:400]}
    first, start = time.process_time() - start, time.process_time()
    corpus.run_virtually(program, arch, max_seconds=120)
    return {"ending": "right", "first_s": round(first, 3), "again_s": round(time.process_time() - start, 3)}  # fmt: skip


def head() -> dict:
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True)  # fmt: skip
    return {
        "device": "virtual GPU on " + (platform.processor() or platform.machine()),
        "python": platform.python_version(), "triton": version("triton"), "torch": version("torch"),
        "commit": commit.stdout.strip(), "targets": corpus.TARGETS,
    }  # fmt: skip


def page(report: dict) -> str:
    """The table as a page of the documentation."""
    rows, programs = report["programs"], corpus.ENTRIES
    archs = sorted({int(a) for row in rows.values() for a in row})
    lines = [
        "# Triton on the virtual GPU", "",
        "Every program of `tests/triton_corpus`, compiled by Triton for each compute capability, run on",
        "the virtual GPU and checked against PyTorch. Made by `benchmarks/triton_corpus.py --docs` with",
        f"Triton {report['triton']} and PyTorch {report['torch']}. `·`: the program is not for that GPU.", "",
        "| compute capability | " + " | ".join(f"sm_{a}" for a in archs) + " |",
        "|---|" + "---|" * len(archs),
    ]  # fmt: skip
    for ending in ("right", "refused", "wrong", "not compiled"):
        counts = [sum(row.get(str(a), {}).get("ending") == ending for row in rows.values()) for a in archs]  # fmt: skip
        lines.append(f"| {ending} | " + " | ".join(map(str, counts)) + " |")
    for theme in corpus.THEMES:
        lines += ["", f"## {theme.capitalize()}", "", "| program | " + " | ".join(f"sm_{a}" for a in archs) + " |", "|---|" + "---|" * len(archs)]  # fmt: skip
        for name, program in programs.items():
            if program.theme != theme or name not in rows:
                continue
            cells = [LETTERS[rows[name].get(str(a), {}).get("ending", "")] for a in archs]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    reasons = [f"- `{n}`: {programs[n].why}" for n in rows if programs[n].why]
    lines += ["", "## Why some programs are not for every GPU", "", *reasons]
    refused = [f"- `{n}` on sm_{a}: {r['why']}" for n, row in rows.items() for a, r in row.items() if r["ending"] != "right"]  # fmt: skip
    if refused:
        lines += ["", "## What does not run, and why", "", *refused]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("archs", nargs="*", type=int, default=[], metavar="ARCH")
    parser.add_argument("--docs", action="store_true", help="write docs/triton.md too")
    options = parser.parse_args()
    report = head() | {"programs": {}}
    for name, program in corpus.load().items():
        row = report["programs"][name] = {}
        for arch in options.archs or corpus.ARCHS:
            if arch in program.archs:
                row[str(arch)] = judge(program, arch)
                print(f"sm_{arch:<4} {name:40} {row[str(arch)]}", flush=True)
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    if options.docs:
        PAGE.write_text(page(report))


if __name__ == "__main__":
    main()
