"""Compile many instruction rules into one C library and run them over columns of raw bits."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import warpsmith.vgpu
from warpsmith.vgpu.isa import alu, registry  # noqa: F401  (importing alu registers the rules)
from warpsmith.vgpu.ptx.ir import Immediate, Instruction, Pair, Register

RUNTIME = Path(warpsmith.vgpu.__file__).parent / "rt"
FLAGS = ["-std=gnu11", "-O1", "-march=native", "-ffp-contract=off", "-fno-math-errno",
         "-fno-trapping-math", "-fno-strict-aliasing", "-fwrapv", "-fPIC", "-shared",
         f"-I{RUNTIME}"]  # fmt: skip


@dataclass(frozen=True)
class Op:
    """An instruction to test: its opcode, the widths of its sources (0: the literal in `literals`),
    the widths of its destinations."""

    name: str
    sources: tuple[int, ...]
    results: tuple[int, ...]
    literals: tuple[int, ...] = ()


def op(name: str, sources: str | int, results: str | int, *literals: int) -> Op:
    """`op("setp.eq.s32", "32 32", "1 1")`."""
    return Op(
        name, tuple(map(int, str(sources).split())), tuple(map(int, str(results).split())), literals
    )


def instruction(name: str, destinations: int = 1) -> Instruction:
    opcode, *modifiers = name.split(".")
    first = Register("%d", "b32")
    if destinations > 1 and ".cc" not in name:
        first = Pair(first, Register("%e", "b32"))
    return Instruction(opcode, tuple(modifiers), (first, Immediate(0)), line=7)


def _storage(bits: int) -> str:
    return f"u{ {1: 32, 8: 16}.get(bits, bits) }".replace(" ", "")


def function_text(number: int, item: Op) -> str:
    """A C function that applies the instruction to `n` rows."""
    literals = iter(item.literals)
    args = [f"x{i}" if bits else str(next(literals)) for i, bits in enumerate(item.sources)]
    rule = registry.ALU[item.name.split(".")[0]]
    exprs = rule.emit(instruction(item.name, len(item.results)), args)
    exprs = (exprs,) if isinstance(exprs, str) else exprs
    assert len(exprs) == len(item.results), (item, exprs)
    loads = "".join(
        f"{_storage(b)} x{i} = ({_storage(b)})in[{i}][l];" for i, b in enumerate(item.sources) if b
    )
    stores = "".join(
        f"out[{i}][l] = (u{max(b, 8)})({e});" for i, (e, b) in enumerate(zip(exprs, item.results))
    )
    return f"void f{number}(const u64 **in, u64 **out, long n)\n{{ for (long l = 0; l < n; l++) {{ {loads}\n {stores} }} }}"  # fmt: skip


@cache
def compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert found, "the ISA tests need a C compiler"
    return found


class Library:
    """The compiled functions of a list of instructions."""

    def __init__(self, ops: list[Op], folder: Path, name: str):
        self.ops = {item.name: i for i, item in enumerate(ops)}
        self.items = ops
        source = folder / f"{name}.c"
        texts = [function_text(i, item) for i, item in enumerate(ops)]
        source.write_text('#include "lane.h"\n' + "\n".join(texts))
        target = folder / f"{name}.so"
        command = [
            compiler(),
            *FLAGS,
            str(source),
            str(RUNTIME / "rare.c"),
            "-lm",
            "-o",
            str(target),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr[:4000]
        self.lib = ctypes.CDLL(str(target))

    def __call__(self, name: str, *columns: np.ndarray) -> list[np.ndarray]:
        """Run one instruction over columns of uint64; literal operands take no column."""
        number = self.ops[name]
        item = self.items[number]
        rows = len(columns[0])
        given = iter(columns)
        ins = [
            np.ascontiguousarray(next(given) if b else columns[0], np.uint64) for b in item.sources
        ]
        outs = [np.zeros(rows, np.uint64) for _ in item.results]
        pointers = [(ctypes.c_void_p * len(a))(*(x.ctypes.data for x in a)) for a in (ins, outs)]
        function = getattr(self.lib, f"f{number}")
        function(pointers[0], pointers[1], ctypes.c_long(rows))
        return outs


def product(*values: list[int]) -> list[np.ndarray]:
    """Columns of every combination of the values, as raw bits."""
    rows = list(itertools.product(*values))
    return [np.array(column, np.uint64) for column in zip(*rows)]
