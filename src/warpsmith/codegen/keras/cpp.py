"""Write a network as one C++17 header without dependencies."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from . import ir, nest_cpp, passes
from .ir import Loop, Nest, View
from .reader import Network

LANES = {"float": 8, "double": 4}
_DTYPE = {"float": np.float32, "double": np.float64}
_PRELUDE = Path(__file__).with_name("templates") / "lanes.h"
BLOCK = 8  # samples that predict_batch takes through the network at once


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
    weights: bytes | None = (
        None  # what the symbol `<namespace>_weights` must hold, if not in the text
    )


def write(
    network: Network,
    namespace: str,
    dtype: str,
    sample: Sample,
    version: str,
    *,
    outside: bool = False,
) -> Header:
    """The header for a network.

    dtype: "float" or "double". sample: becomes the self-test. outside: the header declares its
    weights and leaves their bytes to an object file.
    """
    return _Header(network, namespace, dtype, sample, version, outside).header()


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


class _Header:
    def __init__(self, network: Network, namespace: str, dtype: str, sample: Sample, version: str,
                 outside: bool):  # fmt: skip
        self.network, self.namespace, self.dtype = network, namespace, dtype
        self.sample, self.version, self.outside = sample, version, outside
        self.program = passes.optimize(network.program)
        self.constants: dict[tuple[int, bytes], str] = {}
        self.arrays: dict[str, np.ndarray] = {}
        self.functions: list[str] = []

    def header(self) -> Header:
        single, workspace = self._network(self.program, "n")
        pieces = [single]
        batch = 0
        if self._worth_blocks():
            several, batch = self._network(blocked(self.program, BLOCK), "b")
            pieces.append(several)
        weights = sum(a.nbytes for a in self.arrays.values())
        text = "\n".join(
            [
                self._opening(), self._sizes(max(workspace, batch)), self._prelude(),
                "namespace detail {\n", *self._weights(), *self.functions,
                "} // namespace detail\n", *pieces, self._batch(bool(batch)), self._self_test(),
                f"}} // namespace {self.namespace}\n\n#endif\n",
            ]
        )  # fmt: skip
        blob = self._blob() if self.outside else None
        return Header(text, max(workspace, batch), weights, blob)

    # ------------------------------------------------------------------------------ weights

    def _weights(self) -> list[str]:
        if not self.outside:
            return [self._array(item) for item in self.arrays.items()]
        places = self._places()
        symbol = f"{self.namespace}_weights"
        total = sum(-(-a.size // 16) * 16 for a in self.arrays.values())
        return [f'extern "C" const Scalar {symbol}[{total}];\n'] + [
            f"inline constexpr const Scalar *{name} = {symbol} + {at};\n"
            for name, at in places.items()
        ]

    def _places(self) -> dict[str, int]:
        """Where each array lies in the object, in scalars: each begins a cache line."""
        places, at = {}, 0
        for name, array in self.arrays.items():
            places[name] = at
            at += -(-array.size // 16) * 16
        return places

    def _blob(self) -> bytes:
        parts = [np.pad(a, (0, -a.size % 16)).tobytes() for a in self.arrays.values()]
        return b"".join(parts)

    # ------------------------------------------------------------------------------- pieces

    def _opening(self) -> str:
        guard = f"WARPSMITH_KERAS_{self.namespace.upper()}_H"
        kinds = ", ".join(dict.fromkeys(self.network.layers))
        return (
            f"// {self.network.name}: a trained network as plain C++17, generated by warpsmith {self.version}.\n"
            f"// {self.network.parameters} parameters; layers: {kinds}.\n"
            "// Nothing is allocated; calls with different workspaces may run at the same time.\n"
            f"#ifndef {guard}\n#define {guard}\n\n"
            "#include <cmath>\n#include <cstddef>\n#include <cstdint>\n#include <cstring>\n#include <limits>\n\n"
            f"namespace {self.namespace} {{\n\n"
            f"using Scalar = {self.dtype};\n"
        )

    def _sizes(self, workspace: int) -> str:
        lines = [
            f"// Scalars that `workspace` must hold.\ninline constexpr std::size_t workspace_size = {workspace};"
        ]
        for kind, ports in (("input", self.program.inputs), ("output", self.program.outputs)):
            for port in ports:
                shape = " x ".join(map(str, port.shape)) or "1"
                lines.append(
                    f"inline constexpr std::size_t {port.name}_{kind}_size = {port.size}; // {shape}"
                )
        if self.program.states:
            total = sum(a.size for a in self.program.states.values())
            lines.append(
                "// Scalars of the state that lives on between calls; begin with zeros.\n"
                f"inline constexpr std::size_t state_size = {total};"
            )
        return "\n".join(lines) + "\n"

    def _prelude(self) -> str:
        integer = "std::int32_t" if self.dtype == "float" else "std::int64_t"
        return f"namespace detail {{ using Int = {integer}; }}\n\n{_PRELUDE.read_text()}"

    def _array(self, item: tuple[str, np.ndarray]) -> str:
        name, array = item
        suffix = "f" if self.dtype == "float" else ""
        values = ", ".join(_number(x, suffix) for x in array)
        return f"alignas(64) inline constexpr Scalar {name}[{array.size}] = {{{values}}};\n"

    # ------------------------------------------------------------------------------ functions

    def _network(self, program: ir.Program, prefix: str) -> tuple[str, int]:
        """The function that runs a program, and its workspace in scalars."""
        offsets, size = passes.plan(program)
        states = _offsets(program.states)
        lines: list[str] = []
        self._statements(program, program.statements, prefix, {**offsets}, states, lines, 1)
        name = "predict" if prefix == "n" else "detail_block"
        used = set(re.findall(r"\w+", "\n".join(lines)))
        names = [*(p.name for p in program.inputs), *(p.name for p in program.outputs), "workspace"]
        names += ["state"] if program.states else []
        unused = "".join(f"  (void){n};\n" for n in names if n not in used)
        note = (
            "// One sample. Inputs and outputs are dense and row-major.\n" if prefix == "n" else
            f"// {BLOCK} samples, each dense, one after another.\n"
        )  # fmt: skip
        return (
            f"{note}inline void {name}({self._parameters(program)}) noexcept {{\n{unused}"
            + "\n".join(lines) + "\n}\n",
            size,
        )  # fmt: skip

    def _parameters(self, program: ir.Program) -> str:
        parts = [f"const Scalar *{p.name}" for p in program.inputs]
        parts += [f"Scalar *{p.name}" for p in program.outputs]
        parts += ["Scalar *state"] if program.states else []
        return ", ".join([*parts, "Scalar *workspace"])

    def _statements(self, program, statements, prefix, offsets, states, lines, depth) -> None:
        pad = "  " * depth
        for s in statements:
            if isinstance(s, Loop):
                lines.append(
                    f"{pad}for (std::ptrdiff_t {s.variable} = 0; {s.variable} < {s.extent}; ++{s.variable}) {{"
                )
                self._statements(program, s.body, prefix, offsets, states, lines, depth + 1)
                lines.append(f"{pad}}}")
                continue
            lines.append(
                pad + self._call(program, s, f"{prefix}{len(self.functions)}", offsets, states)
            )

    def _call(self, program: ir.Program, n: Nest, name: str, offsets, states) -> str:
        def weights(i: int) -> np.ndarray | None:
            v = n.loads[i]
            return None if v.outer else program.constants.get(v.buffer)

        made = nest_cpp.write(n, name, LANES[self.dtype], weights)
        self.functions.append(made.text)
        arguments = []
        for i, v in enumerate(n.loads):
            if i in made.layouts:
                arguments.append(f"detail::{self._constant(made.layouts[i])}")
            elif v.buffer in program.constants:
                arguments.append(
                    f"detail::{self._constant(program.constants[v.buffer])}{_shift(v)}"
                )
            else:
                arguments.append(self._memory(program, v, offsets, states))
        arguments.append(self._memory(program, n.out, offsets, states))
        return f"detail::{name}({', '.join(arguments)});"

    def _constant(self, array: np.ndarray) -> str:
        array = np.asarray(array, _DTYPE[self.dtype])
        key = (array.size, array.tobytes())
        name = self.constants.setdefault(key, f"w{len(self.constants)}")
        self.arrays[name] = array
        return name

    def _memory(self, program: ir.Program, v: View, offsets, states) -> str:
        for port in (*program.inputs, *program.outputs):
            if port.buffer == v.buffer:
                return port.name + _shift(v)
        if v.buffer in states:
            return "state" + _shift(v, states[v.buffer])
        return "workspace" + _shift(v, offsets[v.buffer])

    # ------------------------------------------------------------------------------- batches

    def _worth_blocks(self) -> bool:
        """Do some weights serve one position only, so that a second sample would reuse them?"""
        if self.program.states:
            return False
        return any(
            n.combine == "add"
            and any(v.buffer in self.program.constants and _full(n, v) for v in n.loads)
            for n in ir.nests(self.program.statements)
        )

    def _batch(self, blocks: bool) -> str:
        if self.program.states:
            return ""
        ports = [*self.program.inputs, *self.program.outputs]
        parts = [f"const Scalar *{p.name}" for p in self.program.inputs]
        parts += [f"Scalar *{p.name}" for p in self.program.outputs]
        moved = ", ".join(f"{p.name} + i * {p.size}" for p in ports)
        lines = [
            "// `count` samples, each dense, one after another.",
            f"inline void predict_batch(std::size_t count, {', '.join(parts)}, Scalar *workspace) noexcept {{",
            "  std::size_t i = 0;",
        ]
        if blocks:
            lines.append(
                f"  for (; i + {BLOCK} <= count; i += {BLOCK}) detail_block({moved}, workspace);"
            )
        lines += [f"  for (; i < count; ++i) predict({moved}, workspace);", "}\n"]
        return "\n".join(lines)

    # ------------------------------------------------------------------------------ self-test

    def _self_test(self) -> str:
        text, names = [], []
        for kind, ports, arrays in (
            ("input", self.program.inputs, self.sample.inputs),
            ("output", self.program.outputs, self.sample.outputs),
        ):
            for i, (port, array) in enumerate(zip(ports, arrays)):
                name = f"test_{kind}_{i}"
                names.append(name)
                values = np.asarray(array, _DTYPE[self.dtype]).reshape(-1)
                assert values.size == port.size
                text.append(self._array((name, values)))
        outputs = self.program.outputs
        memory = [f"  static Scalar got_{i}[{p.size}];" for i, p in enumerate(outputs)]
        call = [f"detail::test_input_{i}" for i in range(len(self.program.inputs))]
        call += [f"got_{i}" for i in range(len(outputs))]
        if self.program.states:
            memory.append(
                "  static Scalar state[state_size];\n  std::memset(state, 0, sizeof state);"
            )
            call.append("state")
        checks = [
            f"  worst = detail::worse(worst, got_{i}, detail::test_output_{i}, {p.size});"
            for i, p in enumerate(outputs)
        ]
        return (
            "namespace detail {\n"
            + "".join(text)
            + "inline Scalar worse(Scalar worst, const Scalar *got, const Scalar *want, std::size_t n) noexcept {\n"
            "  Scalar largest = 0, error = 0;\n"
            "  for (std::size_t i = 0; i < n; ++i) {\n"
            "    largest = std::fmax(largest, std::fabs(want[i]));\n"
            "    const Scalar e = std::fabs(got[i] - want[i]);\n"
            "    error = e >= error ? e : (e != e ? std::numeric_limits<Scalar>::infinity() : error);\n"
            "  }\n"
            "  return std::fmax(worst, largest > 0 ? error / largest : error);\n"
            "}\n"
            "} // namespace detail\n\n"
            "// The largest error against Keras on one embedded sample, relative to the largest output.\n"
            "inline Scalar self_test() noexcept {\n"
            "  static Scalar workspace[workspace_size + 1];\n"
            + "\n".join(memory)
            + f"\n  predict({', '.join([*call, 'workspace'])});\n"
            "  Scalar worst = 0;\n" + "\n".join(checks) + "\n  return worst;\n}\n"
        )


def _full(n: Nest, v: View) -> bool:
    """Does the load move along every parallel dimension?"""
    return n.parallel > 0 and all(v.strides[: n.parallel])


def _offsets(arrays: dict[str, np.ndarray]) -> dict[str, int]:
    out, at = {}, 0
    for name, array in arrays.items():
        out[name] = at
        at += array.size
    return out


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
