"""How much of a corpus of CUDA programs the virtual GPU takes: every distinct kernel, translated.

Run: python benchmarks/corpus.py --path FOLDER[%N] [--path …] [--json OUT]. Folders may also come from
`$WARPSMITH_EXTERNAL`, separated as in PATH; of FOLDER%N every N-th file is taken. Every .cu file below them is compiled by nvcc to
PTX for each architecture (kept by content hash in --work, so that a second run only translates),
kernels with equal code count once, and each is translated; --build also compiles what the
translations need. Headers that this machine lacks (windows, images) are replaced by empty ones made
in --work; a file that does not compile all the same is listed with its reason and counts nowhere.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "benchmarks"))

from about import about  # noqa: E402

from warpsmith.errors import PtxError, UnsupportedInstruction  # noqa: E402
from warpsmith.vgpu import analysis, build  # noqa: E402
from warpsmith.vgpu.ptx import ir  # noqa: E402
from warpsmith.vgpu.ptx.parse import parse  # noqa: E402
from warpsmith.vgpu.translate import translate  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "corpus.json"
BARS = {"80": 0.97, "90a": 0.95}
COMMON = ("Common", "common", "include", "inc", "src")
_MISSING = re.compile(r"fatal error: (\S+): No such file")


@dataclass
class Compiled:
    """One file for one architecture: its PTX, or why there is none."""

    source: Path
    ptx: str = ""
    why: str = ""


@dataclass
class Tally:
    """What became of the distinct kernels of one architecture."""

    kernels: int = 0
    translated: int = 0
    refused: list[dict] = field(default_factory=list)
    handlers: dict[str, str] = field(default_factory=dict)
    instructions: int = 0


# ------------------------------------------------------------------------------------ compiling


def chosen(given: list[str]) -> dict[Path, list[Path]]:
    """The .cu files below each folder; of FOLDER%N every N-th one."""
    found = {}
    for text in given:
        name, _, every = text.partition("%")
        folder = Path(name).resolve()
        files = sorted(p for p in folder.rglob("*.cu") if p.is_file())
        found[folder] = files[:: int(every or 1)]
    return found


def includes(source: Path, folders: list[Path]) -> list[Path]:
    """Where the file's own headers may be: its folder, its neighbors, and shared ones above."""
    top = next(f for f in folders if f in source.parents)
    places = [source.parent]
    for parent in source.parents:
        places += [parent / name for name in COMMON]
        if parent == top:
            break
        places.append(parent)
    return [p for p in dict.fromkeys(places) if p.is_dir()]


class Compiler:
    """nvcc, with a cache of PTX by content and a folder of empty headers for what is missing."""

    def __init__(self, work: Path, folders: list[Path], system: list[Path], seconds: float):
        self.work, self.folders, self.system, self.seconds = work, folders, system, seconds
        self.stubs = work / "stubs"
        self.stubs.mkdir(parents=True, exist_ok=True)

    def __call__(self, source: Path, arch: str) -> Compiled:
        digest = hashlib.sha256(f"{arch}\n{source}\n".encode() + source.read_bytes()).hexdigest()
        kept = self.work / arch / f"{digest[:24]}.ptx"
        kept.parent.mkdir(exist_ok=True)
        failed = kept.with_suffix(".why")
        if kept.exists():
            return Compiled(source, kept.read_text())
        if failed.exists():
            return Compiled(source, why=failed.read_text())
        why = self._compile(source, arch, kept)
        if why:
            failed.write_text(why)
            return Compiled(source, why=why)
        return Compiled(source, kept.read_text())

    def _compile(self, source: Path, arch: str, target: Path) -> str:
        command = ["nvcc", "-ptx", f"-arch=sm_{arch}", "-std=c++17", "-w", "-lineinfo", "-Xcudafe",
                   "--diag_suppress=177", "-diag-suppress", "20012"]  # fmt: skip
        command += [f"-I{p}" for p in includes(source, self.folders)]
        command += [x for p in self.system for x in ("-isystem", str(p))]
        command += ["-isystem", str(self.stubs), "-o", str(target), str(source)]
        for _ in range(12):
            try:
                done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                                      timeout=self.seconds, stdin=subprocess.DEVNULL)  # fmt: skip
            except subprocess.TimeoutExpired:
                return f"nvcc took more than {self.seconds:.0f} s"
            if done.returncode == 0:
                return ""
            if "separate compilation mode" in done.stderr and "-rdc=true" not in command:
                command.insert(1, "-rdc=true")  # kernels that launch kernels
                continue
            missing = _MISSING.search(done.stderr)
            if not missing or not self._stub(missing[1]):
                break
        lines = [x for x in done.stderr.splitlines() if "error" in x]
        return (lines or [done.stderr.strip()[-200:] or "nvcc failed"])[0][-300:]

    def _stub(self, header: str) -> bool:
        """Make an empty header; False when it is there already, or is the program's own."""
        path = (self.stubs / header).resolve()
        if self.stubs.resolve() not in path.parents or path.exists():
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#pragma once\n")
        return True


# ---------------------------------------------------------------------------------- translating


def fingerprint(module: ir.Module, kernel: str) -> str:
    """A hash of a kernel's code with all it calls, blind to names, lines and the order of files."""
    names: dict[str, str] = {}
    digest = hashlib.sha256()
    for function in analysis.closure(module, kernel):
        for item in function.body:
            text = f"{item.name}:" if isinstance(item, ir.Label) else str(item)
            digest.update(_WORD.sub(lambda m: _numbered(names, m[0]), text).encode() + b"\n")
    return digest.hexdigest()


_WORD = re.compile(r"[$%_A-Za-z][\w$%@]*")
_OPAQUE = re.compile(r"%(?!tid|ntid|ctaid|nctaid|laneid|clock|envreg)|[$_A-Z].{12}|.*@")


def _numbered(names: dict[str, str], word: str) -> str:
    if not _OPAQUE.match(word):
        return word
    return names.setdefault(word, f"n{len(names)}")


def take(compiled: list[Compiled], seen: set[str], tally: Tally, folders: list[Path]) -> None:
    """Translate the kernels of the files that were not seen before."""
    for item in compiled:
        if not item.ptx:
            continue
        name = short(item.source, folders)
        try:
            module = parse(item.ptx)
        except PtxError as error:
            tally.kernels += 1
            tally.refused.append({"file": name, "kernel": "*", "instruction": "(parse)",
                                  "why": str(error)})  # fmt: skip
            continue
        for function in list(module.functions.values()):
            if not function.entry or not function.defined:
                continue
            mark = fingerprint(module, function.name)
            if mark not in seen:
                seen.add(mark)
                _one(item.ptx, module, function.name, name, tally)


def _one(ptx: str, module: ir.Module, kernel: str, name: str, tally: Tally) -> None:
    tally.kernels += 1
    try:
        program = translate(module, kernel)
    except PtxError as error:
        refused = error if isinstance(error, UnsupportedInstruction) else None
        tally.refused.append({
            "file": name, "kernel": kernel,
            "instruction": refused.instruction if refused else "(module)",
            "line": refused.line if refused else 0,
            "why": refused.why if refused else str(error),
        })  # fmt: skip
    except Exception as error:  # a defect of the translator: counted, never hidden
        tally.refused.append({"file": name, "kernel": kernel, "instruction": "(defect)",
                              "why": f"{type(error).__name__}: {error}"})  # fmt: skip
    else:
        tally.translated += 1
        tally.instructions += len(program.instructions)
        tally.handlers |= program.handlers


def short(source: Path, folders: list[Path]) -> str:
    top = next(f for f in folders if f in source.parents)
    return f"{top.name}/{source.relative_to(top)}"


def build_handlers(handlers: dict[str, str]) -> dict:
    """Compile what the translations need: one that does not compile ends the run."""
    build.HANDLERS.resolve(handlers, [])
    return {"handlers": len(handlers)}


# --------------------------------------------------------------------------------------- report


def opcode(refusal: dict) -> str:
    """The opcode with its first modifier, or a called function: what a refusal is tabled by."""
    text = re.sub(r"^@!?\S+ ", "", refusal["instruction"])
    if text.startswith("call"):
        called = re.search(r"function '(\w+)'", refusal["why"])
        return f"call {called[1] if called else '(pointer)'}"
    return ".".join(text.split(" ")[0].split(".")[:2]) or text


def summary(tally: Tally, compiled: list[Compiled], arch: str, folders: list[Path]) -> dict:
    share = tally.translated / max(1, tally.kernels)
    return {
        "files": len(compiled),
        "files_compiled": sum(bool(c.ptx) for c in compiled),
        "distinct_kernels": tally.kernels,
        "translated": tally.translated,
        "share": round(share, 4),
        "bar": BARS.get(arch),
        "instructions": tally.instructions,
        "refused_by_instruction": dict(Counter(map(opcode, tally.refused)).most_common()),
        "refused": tally.refused,
        "does_not_compile": {short(c.source, folders): c.why for c in compiled if not c.ptx},
    }


def nvcc_version() -> str:
    said = subprocess.run(["nvcc", "--version"], capture_output=True, text=True).stdout
    found = re.search(r"V([\d.]+)", said)
    return found[1] if found else "unknown"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", action="append", default=[], metavar="FOLDER[%%N]")
    parser.add_argument("--include", action="append", type=Path, default=[], metavar="FOLDER")
    parser.add_argument("--arch", action="append", default=[], help="80, 90a (both by default)")
    parser.add_argument("--work", type=Path, default=build.cache_root() / "corpus")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=120, help="for nvcc, a file")
    parser.add_argument("--build", action="store_true", help="compile the handlers too")
    parser.add_argument("--json", type=Path, default=None)
    given = parser.parse_args()
    external = os.environ.get("WARPSMITH_EXTERNAL", "")
    given.path += [p for p in external.split(os.pathsep) if p]
    if not given.path:
        parser.error("no sources: pass --path FOLDER or set WARPSMITH_EXTERNAL")
    return given


def run(given: argparse.Namespace) -> dict:
    by_folder = chosen(given.path)
    folders, files = list(by_folder), [p for found in by_folder.values() for p in found]
    compiler = Compiler(given.work, folders, given.include, given.seconds)
    found = about("virtual", nvcc=nvcc_version(),
                  folders={f.name: len(p) for f, p in by_folder.items()}, arch={})  # fmt: skip
    for arch in given.arch or ["80", "90a"]:
        with ThreadPoolExecutor(given.jobs) as pool:
            compiled = list(pool.map(lambda s, a=arch: compiler(s, a), files))
        tally = Tally()
        take(compiled, set(), tally, folders)
        found["arch"][arch] = summary(tally, compiled, arch, folders)
        if given.build:
            found["arch"][arch] |= build_handlers(tally.handlers)
    return found


def main() -> None:
    given = options()
    found = run(given)
    for arch, table in found["arch"].items():
        print(
            f"sm_{arch}: {table['translated']} of {table['distinct_kernels']} distinct kernels "
            f"({100 * table['share']:.1f} %), {table['files_compiled']} of {table['files']} files"
        )
        for name, count in table["refused_by_instruction"].items():
            print(f"  {count:4d}  {name}")
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
