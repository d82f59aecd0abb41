"""Read a corpus file: its kernels, how each is launched, and the lines where a fault is expected.

A kernel is introduced by `// run: GRID BLOCK name=value …`. A line that a finding must name carries
`// expect: KIND`, or `// expect: KIND in kernel, kernel` in a helper, with `warning` before a kind
that is one; `// also:` marks what may be found there besides. `BAD(…)` is compiled in the faulty build alone, `MEND(…)` in the mended one alone, whose arguments `mended_name=` gives where
they differ.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

import warpsmith
from warpsmith import vgpu
from warpsmith.vgpu.memory import copy_of

HERE = Path(__file__).parent
WARNINGS = frozenset({"missing-syncwarp", "leak"})
_RUN = re.compile(r"^(?://|#) run: (.*)")
_EXPECT = re.compile(r"(?://|#) (expect|also): (.*)")
_NAME = re.compile(r"(\w+)\(")
_ARCH = re.compile(r"^// arch: (\w+)", re.M)
_ARRAY = re.compile(r"(?:([\w()]+):)?([fiub]\d+)\[([\d,]+)\]")
_OPTIONS = ("shared", "max_instructions", "cooperative", "schedule", "seed")
_DTYPES = {"f": np.float32, "i": np.int32, "u": np.uint32}


@dataclass(frozen=True)
class Expected:
    """A kind, and the lines of which a finding must name one, unless it is only allowed."""

    kind: str
    severity: str
    lines: frozenset[int]
    needed: bool = True


@dataclass(frozen=True)
class Seeded:
    """One kernel of a corpus file."""

    path: Path
    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[tuple[str, str], ...]
    options: dict[str, str] = field(default_factory=dict)
    expected: tuple[Expected, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.path.stem}-{self.name}"


def read(path: Path) -> list[Seeded]:
    """The kernels of a file, with their expectations by kernel."""
    lines = path.read_text().splitlines()
    starts = [i for i, line in enumerate(lines) if _RUN.match(line)]
    heads = {_name_after(lines, i): i for i in starts}
    marked: dict[str, dict[tuple[str, str], set[int]]] = {name: {} for name in heads}
    for number, line in enumerate(lines, 1):
        found = _EXPECT.search(line)
        here = [n for n, start in heads.items() if start < number]
        for clause in found[2].split(";") if found else ():
            kind, _, named = clause.strip().partition(" in ")
            for name in re.split(r",\s*", named.strip()) if named else here[-1:]:
                marked[name].setdefault((found[1], kind.strip()), set()).add(number)
    return [_seeded(path, n, _RUN.match(lines[i])[1], marked[n]) for n, i in heads.items()]


def _name_after(lines: list[str], start: int) -> str:
    head = next(line for line in lines[start + 1 :] if re.search(r"__global__|^def |\.entry", line))
    names = [n for n in _NAME.findall(head) if n not in ("__cluster_dims__", "__launch_bounds__")]
    return names[0]


def _expected(word: str, said: str, lines: set[int]) -> Expected:
    kind = said.removeprefix("warning ")
    severity = "warning" if kind in WARNINGS or kind != said else "error"
    return Expected(kind, severity, frozenset(lines), word == "expect")


def _seeded(path: Path, name: str, run: str, marked: dict[tuple[str, str], set[int]]) -> Seeded:
    grid, block, *rest = run.split()
    pairs = [part.partition("=")[::2] for part in rest]
    mine = [p for p in pairs if p[0].removeprefix("mended_") not in _OPTIONS]
    options = {n: v for n, v in pairs if n.removeprefix("mended_") in _OPTIONS}
    expected = tuple(_expected(word, said, lines) for (word, said), lines in marked.items())
    return Seeded(path, name, _dims(grid), _dims(block), tuple(mine), options, expected)


def _dims(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def given(kernel: Seeded, mended: bool) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Arguments and options of one of the two builds."""
    other = {n.removeprefix("mended_"): v for n, v in kernel.arguments if n.startswith("mended_")}
    own = [(n, v) for n, v in kernel.arguments if not n.startswith("mended_")]
    options = {n: v for n, v in kernel.options.items() if not n.startswith("mended_")}
    if mended:
        own = [(n, other.get(n, v)) for n, v in own]
        options |= {n[7:]: v for n, v in kernel.options.items() if n.startswith("mended_")}
    return own, options


def array(text: str) -> tuple[str, np.ndarray] | None:
    """The kind and the values that `kind:dtype[dims]` stands for; None if it is a number.

    >>> array("rand(4):i32[3]")[0], array("f32[2,2]")[1].shape
    ('rand(4)', (2, 2))
    """
    found = _ARRAY.fullmatch(text)
    if found is None:
        return None
    kind, dtype, shape = (
        found[1] or "",
        np.dtype(f"{found[2][0]}{int(found[2][1:]) // 8}"),
        found[3],
    )
    count = int(np.prod(_dims(shape)))
    if kind == "zero":
        values = np.zeros(count)
    elif kind == "arange":
        values = np.arange(count)
    elif kind.startswith("rand("):
        values = np.random.default_rng(0).integers(0, int(kind[5:-1]), count)
    else:  # not constant, and exact in every type
        values = np.arange(count) % 7
    return kind, values.astype(dtype).reshape(_dims(shape))


def number(text: str) -> int | float:
    return 0 if text == "null" else float(text) if "." in text else int(text)


def defines(mended: bool) -> list[str]:
    kept, dropped = ("MEND", "BAD") if mended else ("BAD", "MEND")
    return [f"-D{kept}(...)=__VA_ARGS__", f"-D{dropped}(...)="]


@cache
def module(path: Path, mended: bool = False) -> vgpu.Module:
    """A CUDA or PTX file, loaded. A PTX file marks its lines with `//@bad` and `//@mend`."""
    text = path.read_text()
    if path.suffix == ".ptx":
        return vgpu.load(ptx_build(text, mended), name=path.name)
    arch = _ARCH.search(text)
    return vgpu.load(
        compiled(text, path.name, arch[1] if arch else "sm_80", mended), name=path.name
    )


def ptx_build(text: str, mended: bool) -> str:
    """The lines of one of the two builds; the other's are blanked, so that numbers stay."""
    dropped = "//@bad" if mended else "//@mend"
    return "\n".join("" if dropped in line else line for line in text.splitlines()) + "\n"


def compiled(text: str, name: str, arch: str, mended: bool) -> str:
    """PTX of CUDA C++ text with line information, by NVRTC."""
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(text.encode(), name.encode(), 0, [], [])
    flags = [f"--gpu-architecture=compute_{arch[3:]}", "-lineinfo", "-std=c++17", "-default-device",
             *defines(mended), *(f"-I{p}" for p in _includes())]  # fmt: skip
    (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [f.encode() for f in flags])
    if int(status):
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = b" " * size
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.rstrip(b"\0 ").decode()


@cache
def _includes() -> list[Path]:
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(p) for p in spec.submodule_search_locations or []] if spec else []
    folders = [root / "cu13" / "include" for root in roots]
    stand_ins = Path(warpsmith.__file__).parent / "toolchains" / "include"  # of host headers
    return [p for f in folders for p in (f, f / "cccl") if p.is_dir()] + [stand_ins]


def launch(kernel: Seeded, mended: bool = False, **more) -> vgpu.LaunchResult:
    """Run one kernel with all checks."""
    pairs, options = given(kernel, mended)
    memory, values, kept = vgpu.Memory(), [], []
    for name, text in pairs:
        made = array(text)
        if made is None:
            values.append(number(text))
            continue
        kind, host = made
        device = copy_of(host)
        kept.append(device)
        memory.register(device.ctypes.data, device.nbytes, name, kind == "const",
                        element_bytes=device.itemsize, initialized=kind != "fresh")  # fmt: skip
        values.append(device.ctypes.data)
    limit = int(options.get("max_instructions", 20_000_000))
    settings = {"checks": vgpu.Checks.all(), "count": False, "max_instructions": limit} | more
    return module(kernel.path, mended).launch(
        kernel.name, kernel.grid, kernel.block, values, memory=memory,
        shared_bytes=int(options.get("shared", 0)), cooperative=bool(options.get("cooperative")), **settings,
    )  # fmt: skip


def complaints(kernel: Seeded, findings) -> list[str]:
    """What of the findings is not as the file expects; empty if all is.

    Warnings may come along with an expected error: where threads of a block race, lanes of a warp do.
    """
    said = [
        f"{wanted.severity} {wanted.kind} at line {sorted(wanted.lines)} was not found"
        for wanted in kernel.expected
        if wanted.needed and not any(_meets(wanted, f, kernel) for f in findings)
    ]
    errors = any(w.severity == "error" for w in kernel.expected)
    for found in findings:
        if found.severity == "info" or (found.severity == "warning" and errors):
            continue
        if not any(_meets(w, found, kernel) for w in kernel.expected) and not _early(found, kernel):
            said.append(
                f"unexpected {found.severity} {found.kind} at {found.source}: {found.message}"
            )
    return said


def _meets(wanted: Expected, found: vgpu.Fault, kernel: Seeded) -> bool:
    if (wanted.kind, wanted.severity) != (found.kind, found.severity):
        return False
    return any(_at(p, kernel) in wanted.lines for p in (found, found.other) if p is not None)


def _early(found: vgpu.Fault, kernel: Seeded) -> bool:
    """Whether it is the reading side of an expected race, which ran before the writing one: what it
    reads has not been written yet."""
    races = [w for w in kernel.expected if w.kind in ("race", "missing-syncwarp")]
    return found.kind == "uninitialized" and any(_at(found, kernel) in w.lines for w in races)


def _at(place, kernel: Seeded) -> int:
    if kernel.path.suffix == ".ptx":
        return place.ptx_line
    return place.source_line if place.source_file == kernel.path.name else 0
