"""The functions of a program and the weights they read, for C++ and for CUDA."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from . import ir, nest_cpp, passes
from .ir import Loop, Nest, View

DTYPES = {"float": np.float32, "double": np.float64}


@dataclass(frozen=True)
class Sample:
    """What a self-test gives in and expects out: arrays of the ports' shapes."""

    inputs: Sequence[np.ndarray]
    outputs: Sequence[np.ndarray]


@dataclass(frozen=True)
class Header:
    """The text of the header, and facts about it."""

    text: str
    workspace: int  # scalars
    bytes_of_weights: int
    weights: bytes | None = None  # of the symbol `<namespace>_weights`, if they are not in the text
    launch: dict[str, int] = field(default_factory=dict)  # of a CUDA kernel


def blocked(program: ir.Program, count: int) -> ir.Program:
    """The program for `count` samples at once: one more dimension, the samples'."""
    sizes = dict(program.buffers)
    sizes |= {p.buffer: p.size for p in (*program.inputs, *program.outputs)}

    def view(v: View) -> View:
        return replace(v, strides=(sizes.get(v.buffer, 0), *v.strides))

    def widened(s: ir.Statement) -> ir.Statement:
        if isinstance(s, Loop):
            return replace(s, body=tuple(map(widened, s.body)))
        return passes.collapse(
            replace(
                s, extents=(count, *s.extents), parallel=s.parallel + 1,
                loads=tuple(map(view, s.loads)), out=view(s.out),
            )
        )  # fmt: skip

    return replace(
        program,
        statements=[widened(s) for s in program.statements],
        buffers={k: v * count for k, v in program.buffers.items()},
    )


class Body:
    """Collects the functions and the constants of the programs that one header holds."""

    def __init__(self, dtype: str, machine: nest_cpp.Machine, index: str = "std::ptrdiff_t"):
        self.dtype, self.machine, self.index = dtype, machine, index
        self.arrays: dict[str, np.ndarray] = {}
        self.functions: list[str] = []
        self._names: dict[tuple[int, bytes], str] = {}

    @property
    def bytes_of_weights(self) -> int:
        return sum(a.nbytes for a in self.arrays.values())

    def run(self, program: ir.Program, prefix: str) -> tuple[list[str], int]:
        """Lines that run a program, calling functions named by `prefix`, and its workspace."""
        offsets, size = passes.plan(program)
        lines: list[str] = []
        self._statements(program, program.statements, prefix, offsets, lines, 1)
        return lines, size

    def _statements(self, program, statements, prefix, offsets, lines, depth) -> None:
        pad = "  " * depth
        for s in statements:
            if isinstance(s, Loop):
                t = s.variable
                lines.append(f"{pad}for ({self.index} {t} = 0; {t} < {s.extent}; ++{t}) {{")
                self._statements(program, s.body, prefix, offsets, lines, depth + 1)
                lines.append(f"{pad}}}")
            else:
                name = f"{prefix}{len(self.functions)}"
                lines.append(pad + self._call(program, s, name, offsets))

    def _call(self, program: ir.Program, n: Nest, name: str, offsets) -> str:
        def weights(i: int) -> np.ndarray | None:
            v = n.loads[i]
            return None if v.outer else program.constants.get(v.buffer)

        made = nest_cpp.write(n, name, self.machine, weights)
        self.functions.append(made.text)
        arguments = []
        for i, v in enumerate(n.loads):
            if i in made.layouts:
                arguments.append(f"detail::{self.constant(made.layouts[i])}")
            elif v.buffer in program.constants:
                constant = self.constant(program.constants[v.buffer])
                arguments.append(f"detail::{constant}{_shift(v)}")
            else:
                arguments.append(_memory(program, v, offsets))
        arguments.append(_memory(program, n.out, offsets))
        return f"detail::{name}({', '.join(arguments)});"

    def constant(self, array: np.ndarray) -> str:
        """The name of an array with these numbers."""
        array = np.asarray(array, DTYPES[self.dtype])
        key = (array.size, array.tobytes())
        name = self._names.setdefault(key, f"w{len(self._names)}")
        self.arrays[name] = array
        return name

    def values(self, array: np.ndarray) -> str:
        """An array's numbers as an initializer; each reads back as the same number."""
        suffix = "f" if self.dtype == "float" else ""
        flat = np.asarray(array, DTYPES[self.dtype]).reshape(-1)
        return "{" + ", ".join(_number(x, suffix) for x in flat) + "}"


def _memory(program: ir.Program, v: View, offsets: dict[str, int]) -> str:
    for port in (*program.inputs, *program.outputs):
        if port.buffer == v.buffer:
            return port.name + _shift(v)
    at = 0
    for name, array in program.states.items():
        if name == v.buffer:
            return "state" + _shift(v, at)
        at += array.size
    return "workspace" + _shift(v, offsets[v.buffer])


def _shift(v: View, base: int = 0) -> str:
    terms = [str(base + v.offset)] if base + v.offset else []
    terms += [f"{s} * {t}" if s != 1 else t for t, s in v.outer]
    return "".join(f" + {t}" for t in terms)


def _number(x, suffix: str) -> str:
    """The shortest text that reads back as the same number."""
    if not np.isfinite(x):
        sign = "-" if x < 0 else ""
        name = "quiet_NaN" if np.isnan(x) else "infinity"
        return f"{sign}std::numeric_limits<Scalar>::{name}()"
    text = np.format_float_scientific(x, unique=True, trim="0", exp_digits=1).replace("e+0", "")
    return text + suffix
