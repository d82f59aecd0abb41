"""Who finds what: compute-sanitizer on a GPU, and the virtual GPU, on the seeded faults.

Each fault runs under the tool that NVIDIA made for its kind; its mended twin too, for false reports.
Kernels that may never end come last, one at a time: they would take the GPU from the others.

python benchmarks/sanitizer_agreement.py gpu OUT.json      needs nvcc, compute-sanitizer, a GPU
python benchmarks/sanitizer_agreement.py table OUT.json    adds the virtual GPU's column, prints Markdown
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "sanitizer"), str(ROOT / "src")]

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
SECONDS = 30  # of one run under one tool
SECONDS_LAST = 4  # of one that may never end
WORKERS = 8
MAY_SPIN = {"step-budget", "deadlock", "divergent-barrier", "barrier-mismatch"}
DEADLINE_S = 200  # after which what has not run is left out of the table
TOOL = {"race": "racecheck", "missing-syncwarp": "racecheck", "async-copy-not-awaited": "racecheck",
        "uninitialized": "initcheck", "divergent-barrier": "synccheck", "barrier-mismatch": "synccheck",
        "deadlock": "synccheck"}  # fmt: skip
OPTIONS = {"memcheck": ["--leak-check=full"], "racecheck": ["--racecheck-report=all"]}
CTYPES = {"f4": "float", "f8": "double", "i4": "int", "i8": "long long", "u1": "unsigned char",
          "u2": "unsigned short", "u4": "unsigned"}  # fmt: skip


def host_program(path: Path, kernels, mended: bool) -> str:
    """A CUDA program that launches the kernel named by its first argument."""
    import corpus

    kept, dropped = ("MEND", "BAD") if mended else ("BAD", "MEND")
    text = f"#define {kept}(...) __VA_ARGS__\n#define {dropped}(...)\n#include <cstdio>\n#include <cstring>\n"
    text += f'#include <vector>\n#include "{path}"\ncudaError_t launched, ended;\nvoid sync() {{ launched = cudaGetLastError(), ended = cudaDeviceSynchronize(); }}\nint main(int, char** argv) {{\n'
    for kernel in kernels:
        pairs, options = corpus.given(kernel, mended)
        text += f'  if (!strcmp(argv[1], "{kernel.name}")) {{\n'
        for i, (_, value) in enumerate(pairs):
            text += _argument(corpus, i, value)
        dims = ["dim3(" + ",".join(map(str, d)) + ")" for d in (kernel.grid, kernel.block)]
        given = ", ".join(f"&a{i}" for i in range(len(pairs)))
        call = "cudaLaunchCooperativeKernel" if options.get("cooperative") else "cudaLaunchKernel"
        text += f"    void* args[] = {{{given}}};\n"
        text += f"    {call}((void*){kernel.name}, {dims[0]}, {dims[1]}, args, {options.get('shared', 0)}, (cudaStream_t)0);\n"
        text += "    sync();\n" + "".join(
            f"    cudaFree(a{i});\n"
            for i, (_, v) in enumerate(pairs)
            if corpus.array(v) is not None
        )
        text += "  }\n"
    return text + (
        '  printf("launch %s, end %s\\n", cudaGetErrorName(launched), cudaGetErrorName(ended));\n'
        "  cudaDeviceReset();\n  return launched || ended;\n}\n"
    )


def _argument(corpus, i: int, value: str) -> str:
    made = corpus.array(value)
    if made is None:
        return f"    {'void*' if value == 'null' else 'int'} a{i} = {corpus.number(value)};\n"
    kind, data = made
    ctype = CTYPES[f"{data.dtype.kind}{data.dtype.itemsize}"]
    text = f"    {ctype}* a{i}; cudaMalloc(&a{i}, {data.nbytes});\n"
    if kind == "fresh":
        return text
    numbers = ",".join(str(v) for v in data.reshape(-1).tolist())
    return (
        text + f"    {{ std::vector<{ctype}> h = {{{numbers}}}; "
        f"cudaMemcpy(a{i}, h.data(), {data.nbytes}, cudaMemcpyHostToDevice); }}\n"
    )


def compiled(folder: Path, path: Path, kernels, mended: bool) -> Path:
    stem = folder / f"{path.stem}{'_mended' if mended else ''}"
    stem.with_suffix(".cu").write_text(host_program(path, kernels, mended))
    command = [
        "nvcc",
        "-arch=sm_90a",
        "-lineinfo",
        "-std=c++17",
        "-w",
        "-o",
        str(stem),
        f"{stem}.cu",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(path.name, mended, done.stderr[-2000:], file=sys.stderr)
    return stem


def run_tool(program: Path, kernel: str, tool: str, seconds: int) -> dict:
    """What one tool said of one kernel, in a process of its own."""
    command = [
        "compute-sanitizer",
        f"--tool={tool}",
        "--print-limit=3",
        *OPTIONS.get(tool, []),
        str(program),
        kernel,
    ]
    try:
        done = subprocess.run(
            ["timeout", "-s", "KILL", str(seconds), *command],
            capture_output=True, text=True, timeout=seconds + 5,
        )  # fmt: skip
        said, ended = done.stdout + done.stderr, done.returncode not in (137, -9)
    except subprocess.TimeoutExpired:
        said, ended = "", False
    counts = [int(n) for n in re.findall(r"SUMMARY: (\d+) (?:error|hazard)", said)]
    lines = [x[10:].strip() for x in said.splitlines() if x.startswith("========= ")]
    first = next(
        (
            x
            for x in lines
            if re.match(r"Error|Warning|Invalid|Uninit|Barrier|Leaked|Malloc|Double|Program", x)
        ),
        "",
    )
    at = re.search(r"\((\w+\.cu):(\d+)\)|(\w+\.cu):(\d+)", said)
    line = int(at[2] or at[4]) if at else 0
    end = re.search(r"launch (\w+), end (\w+)", said)
    return {
        "found": sum(counts),
        "ended": ended,
        "first": first[:160],
        "line": line,
        "status": end[2] if end else "",
    }


def tools_for(kinds: set[str]) -> list[str]:
    """The tools that NVIDIA made for these kinds; memcheck for what has none of its own."""
    return sorted({TOOL.get(kind, "memcheck") for kind in kinds})


def on_gpu(out: Path) -> None:
    import corpus

    files = sorted((corpus.HERE / "faulty").glob("*.cu"))
    read = {path: corpus.read(path) for path in files}
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(WORKERS) as pool:
        builds = {
            (p, m): pool.submit(compiled, Path(name), p, read[p], m)
            for m in (False, True)
            for p in files
        }
        jobs = {}  # (kernel, mended, tool) -> (program, may spin)
        for (path, mended), build in builds.items():
            for kernel in read[path]:
                kinds = {w.kind for w in kernel.expected}
                for tool in tools_for(kinds):
                    key = (kernel.id, kernel.name, mended, tool)
                    jobs[key] = (build.result(), bool(kinds & MAY_SPIN))
        started = time.monotonic()
        made = {
            key: pool.submit(run_tool, program, key[1], key[3], SECONDS)
            for key, (program, spins) in jobs.items()
            if not spins
        }
        wait(made.values(), timeout=DEADLINE_S * 0.75)
        results = {key: job.result() for key, job in made.items() if job.done()}
        for job in made.values():
            job.cancel()
        for key, (program, spins) in jobs.items():
            if spins and time.monotonic() - started < DEADLINE_S:
                results[key] = run_tool(program, key[1], key[3], SECONDS_LAST)
        rows = {
            kernel.id: {
                "expected": [w.kind for w in kernel.expected if w.needed],
                "lines": sorted({n for w in kernel.expected for n in w.lines}),
            }
            for path in files
            for kernel in read[path]
        }
        for (identity, _, mended, tool), result in results.items():
            rows[identity].setdefault("mended" if mended else "faulty", {})[tool] = result
        print(len(results), "of", len(jobs), "runs in", round(time.monotonic() - started), "s")
    facts = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
    ).stdout.strip()
    version = subprocess.run(
        ["compute-sanitizer", "--version"], capture_output=True, text=True
    ).stdout
    out.write_text(
        json.dumps(
            {
                "device": facts,
                "compute_sanitizer": version.strip().splitlines()[-1:],
                "kernels": rows,
            },
            indent=1,
        )
    )
    print(len(rows), "kernels")


COLUMNS = {
    "seeded": "seeded", "virtual": "virtual GPU finds", "run": "runs that ended", "found": "NVIDIA's tool finds",
    "mended_run": "mended, ended", "mended_reported": "reported though mended",
    "virtual_mended_reported": "by the virtual GPU",
}  # fmt: skip


def _found(result: dict) -> bool:
    """Did the tool report more than memory that the host program had not freed?"""
    return bool(result["found"]) and not result["first"].startswith("Leaked")


def table(path: Path) -> None:
    """Add what the virtual GPU finds, and print one row for each kind."""
    import corpus

    data = json.loads(path.read_text())
    kinds: dict = {}
    for file in sorted((corpus.HERE / "faulty").glob("*.cu")):
        for kernel in corpus.read(file):
            row = data["kernels"].get(kernel.id)
            if row is None:
                continue
            row["virtual"] = not corpus.complaints(kernel, corpus.launch(kernel).findings)
            row["virtual_mended"] = sum(
                f.severity != "info" for f in corpus.launch(kernel, mended=True).findings
            )
            tally = kinds.setdefault(row["expected"][0], dict.fromkeys(COLUMNS, 0))
            tally["seeded"] += 1
            tally["virtual"] += row["virtual"]
            found = [_found(r) for r in row.get("faulty", {}).values() if r["ended"]]
            mended = [_found(r) for r in row.get("mended", {}).values() if r["ended"]]
            tally["run"] += bool(found)
            tally["found"] += any(found)
            tally["mended_run"] += bool(mended)
            tally["mended_reported"] += any(mended)
            tally["virtual_mended_reported"] += row["virtual_mended"] > 0
    data["by_kind"] = kinds
    path.write_text(json.dumps(data, indent=1) + "\n")
    print("| kind | " + " | ".join(COLUMNS.values()) + " |\n| --- |" + " ---: |" * len(COLUMNS))
    for kind, tally in sorted(kinds.items()):
        print(f"| {kind} | " + " | ".join(str(tally[c]) for c in COLUMNS) + " |")


if __name__ == "__main__":
    {"gpu": on_gpu, "table": table}[sys.argv[1]](Path(sys.argv[2]))
