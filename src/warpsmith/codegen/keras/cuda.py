"""Write a network as one CUDA kernel for many samples: each thread takes a few of them through."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from ...errors import UsageError
from . import chain, expressions, nest_cpp, passes
from .body import Body, Header, Sample, blocked
from .reader import Network

MACHINE = nest_cpp.Machine(1, registers=32, wide=32, shared=16, positions=4, device=True)
SAMPLES = 2  # of one thread, where their working memory fits: weights are read once for both
SHARED_BYTES = 72 * 1024  # of a block, so that three share a multiprocessor of 227 KiB
THREADS = (128, 64, 32)
GLOBAL_THREADS = 128
_PRELUDE = Path(__file__).with_name("templates") / "samples.cuh"


def write(network: Network, namespace: str, dtype: str, sample: Sample, version: str) -> Header:
    """The header with the kernel `<namespace>_predict` and, for nvcc, a function that launches it.

    Working memory lies in shared memory where it fits, else in a global workspace that the caller
    gives. Raises UsageError for a network that keeps state between calls.
    """
    if network.program.states:
        raise UsageError(
            f"{network.name}: stateful layers keep one state, and a kernel for many samples has none: "
            "use stateful=False with return_state=True, or target='cpp17'."
        )
    header = _Header(network, namespace, dtype, sample, version)
    return header.tiled() if header.chain else header.header()


class _Header:
    def __init__(self, network: Network, namespace: str, dtype: str, sample: Sample, version: str):
        self.network, self.name, self.dtype = network, namespace, dtype
        self.sample, self.version = sample, version
        self.program = passes.optimize(network.program)
        self.body = Body(dtype, MACHINE, "int")
        self.chain = chain.find(self.program, dtype)
        self.width = 4 if dtype == "float" else 8
        single = max(1, passes.plan(self.program)[1])
        several = max(1, passes.plan(blocked(self.program, SAMPLES))[1])
        self.threads, self.samples, self.shared = self._shape(single, several)
        self.samples_of_block = self.threads * self.samples

    def _shape(self, single: int, several: int) -> tuple[int, int, bool]:
        """Threads of a block, samples of a thread, and whether working memory is shared memory."""
        for samples, size in ((SAMPLES, several), (1, single)):
            for threads in THREADS:
                if threads * size * self.width <= SHARED_BYTES:
                    return threads, samples, True
        return GLOBAL_THREADS, 1, False

    def header(self) -> Header:
        lines, workspace = self.body.run(self.program, "n")
        pieces = [self._function("one", lines)]
        if self.samples > 1:
            lines, workspace = self.body.run(blocked(self.program, self.samples), "b")
            pieces.append(self._function("several", lines))
        workspace = max(1, workspace)
        shared_bytes = self.threads * workspace * self.width if self.shared else 0
        parts = [
            self._opening(), self._sizes(workspace, shared_bytes), _PRELUDE.read_text(),
            "namespace detail {\n", *(self._array(*item) for item in self.body.arrays.items()),
            *self.body.functions, *pieces, "} // namespace detail\n", self._test(),
            f"}} // namespace {self.name}\n", self._kernel(), self._launcher(), "#endif\n",
        ]  # fmt: skip
        text = _as_device("\n".join(parts))
        launch = {
            "threads": self.threads, "samples_of_block": self.threads * self.samples,
            "shared_bytes": shared_bytes, "workspace_of_thread": 0 if self.shared else workspace,
        }  # fmt: skip
        return Header(text, workspace, self.body.bytes_of_weights, launch=launch)

    def tiled(self) -> Header:
        """A chain of dense layers: a block takes a tile of samples through all of them."""
        c = self.chain
        assert c is not None
        self.threads, self.samples, self.shared = c.threads, 1, True
        shared_bytes = c.shared_scalars * self.width
        functions, calls = [], []
        last = len(c.layers) - 1
        halves = self._halves()
        for i, layer in enumerate(c.layers):
            rows, columns = layer.weights.shape
            weights = self.body.constant(layer.padded.reshape(-1))
            values = {k: f"{self.body.constant(row)}[o]" for k, row in enumerate(layer.extras)}
            text = (
                expressions.text(layer.finish, values)
                .replace("<T>", "<Scalar>")
                .replace("T(", "Scalar(")
            )
            functions.append(
                f"// {layer.note}\nstruct Finish{i} {{\n"
                f"  WARPSMITH_INLINE Scalar operator()(Scalar acc, int o) const {{ (void)o; return {text}; }}\n}};\n"
            )
            source, target = halves[i % 2], halves[(i + 1) % 2]
            calls.append(
                f"  layer<{c.tile}, {self.threads}, {rows}, {columns}>({source}, {target}, {weights}, Finish{i}());"
            )
        (x,), (y,) = self.program.inputs, self.program.outputs
        run = [
            f"WARPSMITH_INLINE void tile(const Scalar *{x.name}, Scalar *{y.name}, int count, Scalar *memory) {{",
            f"  for (int i = threadIdx.x; i < {c.tile * x.size}; i += {self.threads}) {{",
            f"    const int k = i / {c.tile}, s = i % {c.tile};",
            f"    memory[k * {c.tile} + s] = s < count ? {x.name}[s * {x.size} + k] : Scalar(0);",
            "  }",
            "  __syncthreads();",
            *calls,
            f"  const Scalar *made = {halves[(last + 1) % 2]};",
            f"  for (int i = threadIdx.x; i < count * {y.size}; i += {self.threads}) "
            f"{y.name}[i] = made[i % {y.size} * {c.tile} + i / {y.size}];",
            "  __syncthreads();",
            "}\n",
        ]
        define = "#define WARPSMITH_KERAS_FLOAT\n" if self.dtype == "float" else ""
        undefine = "#undef WARPSMITH_KERAS_FLOAT\n" if self.dtype == "float" else ""
        self.samples_of_block = c.tile
        parts = [
            self._opening(), self._sizes(0, shared_bytes), _PRELUDE.read_text(), define,
            chain.PRELUDE.read_text(), undefine, "namespace detail {\n",
            *(self._array(*item) for item in self.body.arrays.items()), *functions, *run,
            "} // namespace detail\n", self._test(), f"}} // namespace {self.name}\n",
            self._tiled_kernel(), self._launcher(), "#endif\n",
        ]  # fmt: skip
        launch = {
            "threads": self.threads, "samples_of_block": c.tile, "shared_bytes": shared_bytes,
            "workspace_of_thread": 0,
        }  # fmt: skip
        return Header(_as_device("\n".join(parts)), 0, self.body.bytes_of_weights, launch=launch)

    def _halves(self) -> list[str]:
        """Where even and odd activations lie: each half as wide as its widest."""
        assert self.chain is not None
        widths = [layer.weights.shape[0] for layer in self.chain.layers]
        widths.append(self.chain.layers[-1].weights.shape[1])
        return ["memory", f"memory + {max(widths[::2]) * self.chain.tile}"]

    def _tiled_kernel(self) -> str:
        scalar = f"{self.name}::Scalar"
        (x,), (y,) = self.program.inputs, self.program.outputs
        tile = self.samples_of_block
        return "\n".join(
            [
                f'extern "C" __global__ void __launch_bounds__({self.threads}) {self.name}_predict(',
                f"    const {scalar} *{x.name}, {scalar} *{y.name}, long long count) {{",
                f"  extern __shared__ __align__(16) {scalar} {self.name}_memory[];",
                f"  for (long long at = (long long)blockIdx.x * {tile}; at < count; at += (long long)gridDim.x * {tile}) {{",
                f"    const int here = count - at < {tile} ? int(count - at) : {tile};",
                f"    {self.name}::detail::tile({x.name} + at * {x.size}, {y.name} + at * {y.size}, here, {self.name}_memory);",
                "  }",
                "}\n",
            ]
        )

    def _opening(self) -> str:
        guard = f"WARPSMITH_KERAS_{self.name.upper()}_CUH"
        kinds = ", ".join(dict.fromkeys(self.network.layers))
        return (
            f"// {self.network.name}: a trained network as a CUDA kernel, generated by warpsmith {self.version}.\n"
            f"// {self.network.parameters} parameters; layers: {kinds}.\n"
            f"// Kernel {self.name}_predict: samples are dense and row-major, one after another.\n"
            f"#ifndef {guard}\n#define {guard}\n\nnamespace {self.name} {{\n\nusing Scalar = {self.dtype};\n"
        )

    def _sizes(self, workspace: int, shared_bytes: int) -> str:
        lines = [
            f"constexpr int threads = {self.threads};  // of a block",
            f"constexpr int samples_of_block = {self.samples_of_block};",
            f"constexpr int shared_bytes = {shared_bytes};  // dynamic, of a block",
        ]
        if not self.shared:
            lines.append(
                f"constexpr int workspace_of_thread = {workspace};  // scalars in global memory"
            )
        for kind, ports in (("input", self.program.inputs), ("output", self.program.outputs)):
            for port in ports:
                shape = " x ".join(map(str, port.shape)) or "1"
                lines.append(f"constexpr int {port.name}_{kind}_size = {port.size};  // {shape}")
        return "\n".join(lines) + "\n"

    def _array(self, name: str, array) -> str:
        """Padded to whole vectors of 16 bytes: compilers widen loads up to their alignment."""
        padded = np.pad(array, (0, -array.size % 4))
        values = self.body.values(padded)
        return f"__device__ const Scalar __align__(64) {name}[{padded.size}] = {values};\n"

    def _ports(self) -> list[str]:
        return [f"const Scalar *{p.name}" for p in self.program.inputs] + [
            f"Scalar *{p.name}" for p in self.program.outputs
        ]

    def _names(self) -> list[str]:
        return [p.name for p in (*self.program.inputs, *self.program.outputs)]

    def _function(self, name: str, lines: list[str]) -> str:
        text = "\n".join(lines).replace("detail::", "")
        used = set(re.findall(r"\w+", text))
        unused = "".join(f"  (void){n};\n" for n in [*self._names(), "workspace"] if n not in used)
        return (
            f"WARPSMITH_INLINE void {name}({', '.join([*self._ports(), 'Strided workspace'])}) {{\n"
            f"{unused}{text}\n}}\n"
        )

    def _kernel(self) -> str:
        """A grid-stride loop; the last sample of an odd count goes alone."""
        scalar = f"{self.name}::Scalar"
        ports = [p.replace("Scalar", scalar) for p in self._ports()]
        extra = [] if self.shared else [f"{scalar} *workspace"]
        moved = ", ".join(f"{n} + at * {s}" for n, s in self._offsets())
        lines = [
            f'extern "C" __global__ void __launch_bounds__({self.threads}) {self.name}_predict(',
            f"    {', '.join([*ports, *extra, 'long long count'])}) {{",
        ]
        if self.shared:
            lines += [
                f"  extern __shared__ __align__(16) {scalar} {self.name}_memory[];",
                f"  const {self.name}::detail::Strided own = {{{self.name}_memory + threadIdx.x, {self.threads}}};",
                f"  const long long stride = (long long)gridDim.x * {self.threads * self.samples};",
                f"  long long at = ((long long)blockIdx.x * {self.threads} + threadIdx.x) * {self.samples};",
            ]
        else:
            lines += [
                "  const int all = gridDim.x * blockDim.x, me = blockIdx.x * blockDim.x + threadIdx.x;",
                f"  const {self.name}::detail::Strided own = {{workspace + me, all}};",
                "  const long long stride = all;",
                "  long long at = me;",
            ]
        lines.append("  for (; at < count; at += stride) {")
        if self.samples > 1:
            lines += [
                f"    if (at + {self.samples} <= count) {self.name}::detail::several({moved}, own);",
                "    else",
                f"      for (; at < count; ++at) {self.name}::detail::one({moved}, own);",
            ]
        else:
            lines.append(f"    {self.name}::detail::one({moved}, own);")
        return "\n".join([*lines, "  }", "}\n"])

    def _offsets(self) -> list[tuple[str, int]]:
        return [(p.name, p.size) for p in (*self.program.inputs, *self.program.outputs)]

    def _test(self) -> str:
        """One sample and what Keras gives for it, to check a build against."""
        text = []
        for kind, ports, arrays in (
            ("input", self.program.inputs, self.sample.inputs),
            ("output", self.program.outputs, self.sample.outputs),
        ):
            for port, array in zip(ports, arrays):
                values = self.body.values(array)
                text.append(f"constexpr Scalar test_{kind}_{port.name}[{port.size}] = {values};")
        return "\n".join(text) + "\n"

    def _launcher(self) -> str:
        """For nvcc: set the shared memory's size and launch."""
        ports = [p.replace("Scalar", f"{self.name}::Scalar") for p in self._ports()]
        extra = [] if self.shared else [f"{self.name}::Scalar *workspace, int blocks"]
        names = [*self._names(), *([] if self.shared else ["workspace"]), "count"]
        lines = [
            "#ifndef __CUDACC_RTC__",
            "#include <cuda_runtime.h>",
            f"namespace {self.name} {{",
        ]
        if not self.shared:
            lines.append("// workspace: blocks * threads * workspace_of_thread scalars.")
        lines += [
            "// `count` samples on a stream; returns what the launch returns.",
            f"inline cudaError_t predict({', '.join([*ports, *extra, 'long long count', 'cudaStream_t stream = 0'])}) {{",
        ]
        if self.shared:
            lines += [
                f"  cudaError_t e = cudaFuncSetAttribute({self.name}_predict,",
                "      cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);",
                "  if (e != cudaSuccess) return e;",
                "  const unsigned blocks = (unsigned)((count + samples_of_block - 1) / samples_of_block);",
            ]
        lines += [
            f"  if (count > 0) {self.name}_predict<<<blocks, threads, shared_bytes, stream>>>({', '.join(names)});",
            "  return cudaGetLastError();",
            "}",
            f"}} // namespace {self.name}",
            "#endif\n",
        ]
        return "\n".join(lines)


def _as_device(text: str) -> str:
    """The host library's names as the prelude's."""
    text = text.replace("std::numeric_limits<Scalar>::infinity()", "infinity()")
    text = text.replace("std::numeric_limits<Scalar>::quiet_NaN()", "not_a_number()")
    return text.replace("std::ptrdiff_t", "int").replace("Scalar(a0[lane])", "a0")
