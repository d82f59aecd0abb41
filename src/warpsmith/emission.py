"""Emit a trained network as C++, and say how far it is from what the framework computes."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import MissingTool, UsageError

if TYPE_CHECKING:
    import numpy as np

    from .codegen.keras.cpp import Header
    from .codegen.keras.reader import Network

DTYPES = ("float", "double")
TARGETS = ("cpp17", "cuda")
GLOBAL_BLOCKS = 132 * 4  # of a CUDA launch whose working memory is global
LARGE = 1_000_000  # weights; more go into an object file, since compilers read text slowly


@dataclass(frozen=True)
class EmitReport:
    """What was emitted. Errors are the largest over all samples and outputs.

    max_abs_err: |C++ - Keras|. max_rel_err: the same over the largest |output| of the sample.
    checked_by: "compiled" (the header itself ran), "interpreted" (no C++ compiler here: its loops ran
    in numpy at the same precision), "virtual GPU" or "GPU". bytes: of the weights. workspace: scalars
    that a call (CUDA: a thread) needs. launch: of a CUDA kernel, for `launch_of`.
    """

    files: tuple[str, ...]
    namespace: str
    dtype: str
    target: str
    layers: tuple[str, ...]
    parameters: int
    bytes: int
    workspace: int
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: tuple[tuple[str, tuple[int, ...]], ...]
    max_abs_err: float
    max_rel_err: float
    samples: int
    checked_by: str
    launch: dict[str, int] = field(default_factory=dict)
    text: str = field(default="", repr=False)

    def __str__(self) -> str:
        where = ", ".join(self.files) or "not written"
        return (
            f"{where}: {self.parameters} parameters, {self.bytes} bytes of weights, workspace "
            f"{self.workspace} {self.dtype}s; largest error against Keras {self.max_abs_err:.2g} "
            f"({self.max_rel_err:.2g} of the largest output, {self.samples} samples, {self.checked_by})"
        )


def emit(
    model: Any, out: str | os.PathLike[str] | None = None, *, dtype: str = "float",
    target: str = "cpp17", namespace: str | None = None, weights: str = "auto", samples: int = 16,
    seed: int = 0, fast_math: bool = False,
) -> EmitReport:  # fmt: skip
    """Write a trained Keras model as one self-contained C++17 header, and check it against Keras.

    model: a functional or sequential model, or the path of a `.keras` or `.h5` file (read in Keras's
    safe mode). out: the header to write; None writes nothing and leaves the text in the report.
    dtype: "float" or "double". target: "cpp17" or "cuda". namespace: of the generated code; by
    default made from the model's name. weights: "header" as arrays in the text, "object" in an
    object file beside it, "auto" by their number. samples: random inputs that are compared, some of
    them extreme. fast_math: shorter polynomials for exponentials (C++ alone); the report's errors are
    those of what was emitted.

    Raises UnsupportedLayer before anything is written when a layer cannot be emitted; UsageError
    for what is no such model; MissingTool when Keras is not installed, or a compiler is needed for
    an object file and there is none.
    """
    from .codegen import keras

    _check("dtype", dtype, DTYPES)
    _check("target", target, TARGETS)
    _check("weights", weights, ("auto", "header", "object"))
    if fast_math and target == "cuda":
        raise UsageError("fast_math is for target='cpp17'; for CUDA compile with --use_fast_math.")
    if samples < 1:
        raise UsageError(f"samples={samples}: expected 1 or more.")
    loaded = keras.load(model)
    network = keras.read(loaded)
    name = keras.identifier(namespace or network.name, "net")
    if namespace is not None and name != namespace:
        raise UsageError(f"namespace {namespace!r} is no C++ name: try {name!r}.")
    outside = target == "cpp17" and (
        weights == "object" or (weights == "auto" and _count(network) > LARGE)
    )
    if outside and out is None:
        raise UsageError("weights in an object file need a place: pass out='net.hpp'.")
    cases = [_reference(loaded, network, inputs) for inputs in _inputs(network, samples, seed)]
    header = _write(network, name, dtype, target, cases[0], outside, fast_math)
    absolute, relative, how = _compare(network, header, name, dtype, target, cases)
    files = _save(header, name, Path(out)) if out is not None else ()
    program = network.program
    return EmitReport(
        files, name, dtype, target, network.layers, network.parameters, header.bytes_of_weights,
        header.workspace, tuple((p.name, p.shape) for p in program.inputs),
        tuple((p.name, p.shape) for p in program.outputs), absolute, relative, len(cases), how,
        header.launch, header.text,
    )  # fmt: skip


def _check(what: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise UsageError(f"{what}={value!r}: expected one of {', '.join(map(repr, known))}.")


def _count(network: Network) -> int:
    return sum(a.size for a in network.program.constants.values())


def _write(
    network: Network,
    name: str,
    dtype: str,
    target: str,
    sample: Any,
    outside: bool,
    fast_math: bool,
) -> Header:
    from . import __version__
    from .codegen.keras import Sample, cpp

    if target == "cuda":
        from .codegen.keras import cuda

        return cuda.write(network, name, dtype, Sample(*sample), __version__)
    return cpp.write(
        network, name, dtype, Sample(*sample), __version__, outside=outside, fast_math=fast_math
    )


# ------------------------------------------------------------------------- inputs and the truth


def _inputs(network: Network, count: int, seed: int) -> list[list[np.ndarray]]:
    """Random samples: standard normal, every fourth a hundred times as large, the last one zero.

    Inputs that pick rows of a table get valid row numbers.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    rows = _rows(network)
    scales = [100.0 if i % 4 == 3 else 1.0 for i in range(count)]
    if count > 1:
        scales[-1] = 0.0
    out = []
    for scale in scales:
        case = []
        for port in network.program.inputs:
            if port.buffer in rows:
                case.append(rng.integers(0, rows[port.buffer], port.shape).astype(np.float64))
            else:  # values that both precisions hold
                case.append(
                    (scale * rng.standard_normal(port.shape)).astype(np.float32).astype(np.float64)
                )
        out.append(case)
    return out


def _rows(network: Network) -> dict[str, int]:
    """Input buffers whose values pick rows, with how many rows there are."""
    from .codegen.keras import ir

    ports = {p.buffer for p in network.program.inputs}
    found: dict[str, int] = {}
    for n in ir.nests(network.program.statements):
        for e in ir.walk(n.body):
            if e.op != "at":
                continue
            for x in ir.walk(e.args[1]):
                if x.op == "load" and (buffer := n.loads[x.args[0]].buffer) in ports:
                    found[buffer] = min(e.args[3], found.get(buffer, e.args[3]))
    return found


def _reference(model: Any, network: Network, inputs: list[np.ndarray]) -> tuple[list, list]:
    """What Keras computes for one sample."""
    import numpy as np
    from keras import ops, tree

    given = [ops.convert_to_tensor(x[None], dtype=t.dtype) for x, t in zip(inputs, model.inputs)]
    packed = (
        tree.pack_sequence_as(model._inputs_struct, given)
        if hasattr(model, "_inputs_struct")
        else given
    )
    packed = packed[0] if isinstance(packed, (list, tuple)) and len(packed) == 1 else packed
    outputs = tree.flatten(model(packed, training=False))
    return inputs, [np.asarray(ops.convert_to_numpy(y), np.float64)[0] for y in outputs]


# --------------------------------------------------------------------------------- comparison


def _compare(
    network: Network, header: Header, name: str, dtype: str, target: str, cases: list
) -> tuple[float, float, str]:
    import numpy as np

    if target == "cuda":
        made, how = _launched(network, header, name, dtype, cases)
    else:
        try:
            call, how = _compiled(network, header, name, dtype), "compiled"
        except MissingTool:
            call, how = _interpreted(network, dtype), "interpreted"
        made = [call(inputs) for inputs, _ in cases]
    absolute = relative = 0.0
    for outputs, (_, wanted) in zip(made, cases):
        for got, want in zip(outputs, wanted):
            if want.size == 0:
                continue
            same = (got == want) | (np.isnan(got) & np.isnan(want))
            error = float(np.max(np.where(same, 0.0, np.abs(got - want))))
            largest = float(np.max(np.abs(want), where=np.isfinite(want), initial=0.0))
            absolute = max(absolute, error) if error == error else float("inf")
            relative = max(relative, error / largest if largest else error)
    return absolute, relative, how


def _interpreted(network: Network, dtype: str) -> Any:
    import numpy as np

    from .codegen.keras import run

    kind = np.float32 if dtype == "float" else np.float64
    return lambda inputs: [y.astype(np.float64) for y in run(network.program, inputs, kind)]


def _compiled(network: Network, header: Header, name: str, dtype: str) -> Any:
    """The header, compiled here, as a Python function of one sample."""
    import numpy as np

    from .toolchains import cpp

    kind = np.float32 if dtype == "float" else np.float64
    program = network.program
    files: dict[str, str | bytes] = {"net.hpp": header.text}
    objects: tuple[str, ...] = ()
    if header.weights is not None:
        files |= {"net.S": assembly(name, "net.bin"), "net.bin": header.weights}
        objects = ("net.S",)
    library = ctypes.CDLL(str(cpp.library(_caller(network, name, dtype), files, objects=objects)))
    states = sum(a.size for a in program.states.values())

    def call(inputs: list[np.ndarray]) -> list[np.ndarray]:
        arrays = [np.ascontiguousarray(x, kind) for x in inputs]
        outputs = [np.full(p.shape, np.nan, kind) for p in program.outputs]
        memory = np.full(header.workspace + 16, np.nan, kind), np.zeros(states + 1, kind)
        pointers = [
            (ctypes.c_void_p * len(group))(*(a.ctypes.data for a in group))
            for group in (arrays, outputs, memory)
        ]
        library.call(*pointers)
        return [y.astype(np.float64) for y in outputs]

    return call


def _launched(
    network: Network, header: Header, name: str, dtype: str, cases: list
) -> tuple[list[list[np.ndarray]], str]:
    """All samples in one launch: on the GPU if there is one, else on the virtual GPU."""
    import numpy as np
    import torch

    from .runtime import cuda

    on_gpu = torch.cuda.is_available()
    kind, place = (
        (torch.float32 if dtype == "float" else torch.float64),
        "cuda" if on_gpu else "cpu",
    )
    inputs = [
        torch.tensor(np.stack(column), dtype=kind, device=place)
        for column in zip(*(x for x, _ in cases))
    ]
    outputs = [
        torch.full((len(cases), *p.shape), float("nan"), dtype=kind, device=place)
        for p in network.program.outputs
    ]
    grid, threads, shared, workspace = launch_of(header.launch, len(cases))
    memory = [torch.empty(workspace, dtype=kind, device=place)] if workspace else []
    kernel = cuda(header.text, kernel=f"{name}_predict")
    kernel[grid, threads, shared](*inputs, *outputs, *memory, len(cases))
    arrays = [y.double().cpu().numpy() for y in outputs]
    return [[a[i] for a in arrays] for i in range(len(cases))], "GPU" if on_gpu else "virtual GPU"


def launch_of(launch: dict[str, int], count: int) -> tuple[int, int, int, int]:
    """Grid, threads of a block, dynamic shared bytes and scalars of global workspace for `count`
    samples."""
    threads = launch["threads"]
    grid = max(1, -(-count // launch["samples_of_block"]))
    if not launch["workspace_of_thread"]:
        return grid, threads, launch["shared_bytes"], 0
    grid = min(grid, GLOBAL_BLOCKS)
    return grid, threads, 0, grid * threads * launch["workspace_of_thread"]


def _caller(network: Network, name: str, dtype: str) -> str:
    program = network.program
    arguments = [f"in[{i}]" for i in range(len(program.inputs))]
    arguments += [f"out[{i}]" for i in range(len(program.outputs))]
    arguments += ["memory[1]"] if program.states else []
    return (
        f'#include "net.hpp"\nextern "C" __attribute__((visibility("default"))) void call('
        f"const {dtype} **in, {dtype} **out, {dtype} **memory) {{\n"
        f"  {name}::predict({', '.join([*arguments, 'memory[0]'])});\n}}\n"
    )


# -------------------------------------------------------------------------------------- files


def assembly(name: str, data: str) -> str:
    """An assembly text that puts a binary file under the symbol `<name>_weights`."""
    return (
        "#if defined(__APPLE__)\n#define NAME(x) _##x\n.const\n#else\n#define NAME(x) x\n"
        '.section .rodata, "a"\n#endif\n'
        f".balign 64\n.globl NAME({name}_weights)\nNAME({name}_weights):\n"
        f'.incbin "{data}"\n'
        '#if defined(__ELF__)\n.section .note.GNU-stack, "", %progbits\n#endif\n'
    )


def _save(header: Header, name: str, out: Path) -> tuple[str, ...]:
    """The header, and with weights outside an object file, each whole or not at all."""
    files: dict[Path, bytes] = {out: header.text.encode()}
    if header.weights is not None:
        from .toolchains import cpp

        made = cpp.object_file(assembly(name, "weights.bin"), {"weights.bin": header.weights})
        files[out.with_suffix(".weights.o")] = made
    for path, data in files.items():
        scratch = path.with_name(path.name + f".{os.getpid()}")
        try:
            scratch.write_bytes(data)
            os.replace(scratch, path)
        except OSError as error:
            scratch.unlink(missing_ok=True)
            raise UsageError(f"cannot write {path}: {error.strerror}") from error
    return tuple(str(path) for path in files)


__all__ = ["EmitReport", "emit"]
