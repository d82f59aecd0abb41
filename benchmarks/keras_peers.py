"""What the emitted header is measured against: each peer as a function that runs `reps` calls.

A peer is built for a model and a batch and gives (bench, result): bench(reps) -> CPU seconds of reps
calls, result() -> the outputs. C++ peers are compiled with the same flags and time themselves.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FLAGS = ("-std=c++17", "-O3", "-march=native", "-DNDEBUG")
Bench = tuple[Callable[[int], float], Callable[[], np.ndarray]]

_TIMED = """
#include <time.h>
static double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}
extern "C" __attribute__((visibility("default")))
double bench(std::size_t reps, std::size_t count, const float *in, float *out) {
  const double start = now();
  for (std::size_t r = 0; r < reps; ++r) {
    __asm__ volatile("" : : "r"(in), "r"(out) : "memory");
    CALL
  }
  return now() - start;
}
"""


class Unavailable(Exception):
    """This peer cannot run this network, and why."""


def _library(source: str, files: dict[str, str | bytes], flags: tuple[str, ...]) -> Any:
    from warpsmith.toolchains import cpp

    library = ctypes.CDLL(str(cpp.library(source, files, flags=flags)))
    library.bench.restype = ctypes.c_double
    return library


def _timed(library: Any, x: np.ndarray, shape: tuple[int, ...]) -> Bench:
    x = np.ascontiguousarray(x, np.float32)
    y = np.full((len(x), *shape), np.nan, np.float32)

    def bench(reps: int) -> float:
        return library.bench(
            ctypes.c_size_t(reps), ctypes.c_size_t(len(x)), ctypes.c_void_p(x.ctypes.data),
            ctypes.c_void_p(y.ctypes.data),
        )  # fmt: skip

    def result() -> np.ndarray:
        bench(1)
        return y.copy()

    return bench, result


def _python(call: Callable[[], Any], array: Callable[[Any], np.ndarray]) -> Bench:
    def bench(reps: int) -> float:
        start = time.process_time()
        for _ in range(reps):
            call()
        return time.process_time() - start

    return bench, lambda: array(call())


# -------------------------------------------------------------------------------- warpsmith


def warpsmith(model: Any, x: np.ndarray, _: Path | None) -> Bench:
    from warpsmith.codegen.keras import Sample, cpp, read

    network = read(model)
    program = network.program
    sample = Sample([np.zeros(program.inputs[0].shape)], [np.zeros(program.outputs[0].shape)])
    header = cpp.write(network, "net", "float", sample, "benchmark")
    call = (
        "if (count == 1) net::predict(in, out, memory);\n"
        "    else net::predict_batch(count, in, out, memory);"
    )
    source = (
        '#include "net.hpp"\nalignas(64) static float memory[net::workspace_size + 1];\n'
        + _TIMED.replace("CALL", call)
    )
    library = _library(source, {"net.hpp": header.text}, FLAGS)
    return _timed(library, x, program.outputs[0].shape)


# ------------------------------------------------------------------------------------ Keras


def keras_eager(model: Any, x: np.ndarray, _: Path | None) -> Bench:
    import torch

    given = torch.tensor(x)

    def call() -> Any:
        with torch.inference_mode():
            return model(given, training=False)

    return _python(call, lambda y: y.numpy())


def keras_jit(model: Any, x: np.ndarray, _: Path | None) -> Bench:
    model.compile(jit_compile=True)
    return _python(lambda: model.predict_on_batch(x), np.asarray)


def torch_compile(model: Any, x: np.ndarray, _: Path | None) -> Bench:
    """The call of the model alone, without what predict_on_batch does around it."""
    import torch

    given = torch.tensor(x)
    made = torch.compile(lambda v: model(v, training=False), dynamic=False)

    def call() -> Any:
        with torch.inference_mode():
            return made(given)

    return _python(call, lambda y: y.numpy())


# ------------------------------------------------------------------------------------- ONNX


def _session(path: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def onnx_runtime(model: Any, x: np.ndarray, _: Path | None) -> Bench:
    """Inputs and outputs bound once: the least that a call from Python can cost."""
    with tempfile.TemporaryDirectory() as scratch:
        path = f"{scratch}/net.onnx"
        model(x)
        try:
            model.export(path, format="onnx", verbose=False)
        except Exception:  # Keras's own export cannot take attention; PyTorch's newer one can
            _export(model, x, path)
        session = _session(path)
    return _bound(session, x)


def _export(model: Any, x: np.ndarray, path: str) -> None:
    import torch

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, v: Any) -> Any:
            return self.inner(v, training=False)

    torch.onnx.export(Module().eval(), (torch.tensor(x),), path, dynamo=True, verbose=False)


def identity(x: np.ndarray) -> Bench:
    """A graph that does nothing: what a call of ONNX Runtime from Python costs."""
    from onnx import TensorProto, helper

    shape = list(x.shape)
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", "y")]
    node = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([node], "identity", ports[:1], ports[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return _bound(_session(made.SerializeToString()), x)  # type: ignore[arg-type]


def _bound(session: Any, x: np.ndarray) -> Bench:
    binding = session.io_binding()
    binding.bind_cpu_input(session.get_inputs()[0].name, x)
    binding.bind_output(session.get_outputs()[0].name)
    return _python(
        lambda: session.run_with_iobinding(binding), lambda _: binding.copy_outputs_to_cpu()[0]
    )


# ------------------------------------------------------------------------------ C++ libraries


def frugally_deep(model: Any, x: np.ndarray, folder: Path | None) -> Bench:
    root = _sources(folder, "fdeep")
    with tempfile.TemporaryDirectory() as scratch:
        source, target = f"{scratch}/net.keras", f"{scratch}/net.json"
        model.save(source)
        done = subprocess.run(
            [sys.executable, str(root / "fdeep/keras_export/convert_model.py"), source, target],
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            raise Unavailable("not converted: " + done.stderr.strip().splitlines()[-1][:200])
        text = Path(target).read_text()
    call = "for (std::size_t i = 0; i < count; ++i) one(in + i * inputs, out + i * outputs);"
    source = _FDEEP + _TIMED.replace("CALL", call)
    includes = ("fdeep/include", "fplus/include", "deb/usr/include/eigen3", "deb/usr/include")
    library = _library(source, {}, (*FLAGS, "-w", *(f"-I{root / i}" for i in includes)))
    shape = (ctypes.c_size_t * 3)(*([1] * (3 - x.ndim + 1)), *x.shape[1:])
    library.start.restype = ctypes.c_char_p
    if failed := library.start(text.encode(), ctypes.c_size_t(x.ndim - 1), shape):
        raise Unavailable(f"not loaded: {failed.decode()[:200]}")
    return _timed(library, x, tuple(model.output_shape[1:]))


_FDEEP = """
#include <fdeep/fdeep.hpp>
#include <cstring>
#include <memory>
#include <string>
static std::unique_ptr<fdeep::model> net;
static std::size_t inputs, outputs, rank, dims[3];
static fdeep::tensor_shape shape() {
  if (rank == 1) return fdeep::tensor_shape(dims[2]);
  if (rank == 2) return fdeep::tensor_shape(dims[1], dims[2]);
  return fdeep::tensor_shape(dims[0], dims[1], dims[2]);
}
static void one(const float *in, float *out) {
  const auto made = net->predict({fdeep::tensor(shape(), std::vector<float>(in, in + inputs))});
  std::memcpy(out, made[0].as_vector()->data(), outputs * sizeof(float));
}
extern "C" __attribute__((visibility("default")))
const char *start(const char *text, std::size_t r, const std::size_t *d) {
  static std::string failed;
  try {
    net = std::make_unique<fdeep::model>(
        fdeep::read_model_from_string(text, true, fdeep::dev_null_logger));
    rank = r;
    std::memcpy(dims, d, sizeof dims);
    inputs = shape().volume();
    const auto made = net->predict({fdeep::tensor(shape(), std::vector<float>(inputs, 0.0f))});
    outputs = made[0].shape().volume();
    return nullptr;
  } catch (const std::exception &e) {
    failed = e.what();
    return failed.c_str();
  }
}
"""

_RTNEURAL_KINDS = {"Dense": "Dense", "LSTM": "LSTMLayer", "GRU": "GRULayer"}


def rtneural(model: Any, x: np.ndarray, folder: Path | None) -> Bench:
    """Its compile-time interface, Eigen back end; only chains of Dense, LSTM, GRU."""
    root = _sources(folder, "rtneural")
    types, layers, width = [], [], x.shape[-1]
    for layer in model.layers:
        kind = type(layer).__name__
        if kind not in _RTNEURAL_KINDS:
            raise Unavailable(f"no {kind} in its compile-time models used here")
        units = layer.units
        weights = [w.tolist() for w in layer.get_weights()]
        entry = {"type": kind.lower(), "activation": "", "shape": [None, units], "weights": weights}
        activation = layer.activation.__name__ if kind == "Dense" else "linear"
        types.append(f"RTNeural::{_RTNEURAL_KINDS[kind]}T<float, {width}, {units}>")
        if activation != "linear":
            entry["activation"] = activation
            name = {"relu": "ReLu", "tanh": "Tanh"}[activation]
            types.append(f"RTNeural::{name}ActivationT<float, {units}>")
        layers.append(entry)
        width = units
    steps = x.shape[1] if x.ndim == 3 else 1
    head = (
        "#define RTNEURAL_DEFAULT_ALIGNMENT 32\n#define EIGEN_STACK_ALLOCATION_LIMIT 0\n#define RTNEURAL_USE_EIGEN 1\n"
        f"#include <RTNeural/RTNeural.h>\n#include <cstring>\nusing Net = RTNeural::ModelT<float, {x.shape[-1]}, {width}, "
        + ", ".join(types) + ">;\nstatic Net net;\n"
        'extern "C" __attribute__((visibility("default"))) void start(const char *text) {\n'
        "  net.parseJson(nlohmann::json::parse(text));\n  net.reset();\n}\n"
    )  # fmt: skip
    body = (
        "for (std::size_t i = 0; i < count; ++i) {\n      net.reset();\n"
        f"      for (int s = 0; s < {steps}; ++s) {{\n"
        f"        alignas(64) float step[{x.shape[-1]}];\n"
        f"        std::memcpy(step, in + (i * {steps} + s) * {x.shape[-1]}, sizeof step);\n"
        "        net.forward(step);\n      }\n"
        f"      std::memcpy(out + i * {width}, net.getOutputs(), {width} * sizeof(float));\n    }}"
    )
    if steps == 1:
        body = body.replace("net.reset();", "")
    source = head + _TIMED.replace("CALL", body)
    library = _library(source, {}, (*FLAGS, "-w", f"-I{root / 'rtneural'}",
                                    f"-I{root / 'rtneural/modules/Eigen'}"))  # fmt: skip
    text = json.dumps({"in_shape": [None, *x.shape[1:]], "layers": layers})
    library.start(text.encode())
    return _timed(library, x, (width,))


def _sources(folder: Path | None, name: str) -> Path:
    if folder is None or not (folder / name).is_dir():
        raise Unavailable("its sources are not here (--peers)")
    return folder


PEERS: dict[str, Callable[[Any, np.ndarray, Path | None], Bench]] = {
    "warpsmith": warpsmith,
    "Keras eager": keras_eager,
    "Keras jit_compile": keras_jit,
    "torch.compile": torch_compile,
    "ONNX Runtime": onnx_runtime,
    "frugally-deep": frugally_deep,
    "RTNeural": rtneural,
}

# ------------------------------------------------------------------------------------ limits

_LIMITS = """
#include <cstddef>
#include <immintrin.h>
#include <time.h>
typedef float V __attribute__((vector_size(LANES * 4)));
static double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}
extern "C" __attribute__((visibility("default")))
double bench(std::size_t reps, std::size_t count, const float *in, float *out) {
  V a[8] = {};
  const double start = now();
  for (std::size_t r = 0; r < reps; ++r) {
    __asm__ volatile("" : : "r"(in) : "memory");
    for (std::size_t i = 0; i + 8 * LANES <= count; i += 8 * LANES)
      for (int k = 0; k < 8; ++k) a[k] += *(const V *)(in + i + k * LANES);
  }
  const double t = now() - start;
  for (int k = 1; k < 8; ++k) a[0] += a[k];
  *(V *)out = a[0];
  return t;
}
extern "C" __attribute__((visibility("default"))) double peak(std::size_t reps, float *out) {
  V a[12] = {}, x, y;
  for (int k = 0; k < LANES; ++k) x[k] = out[k], y[k] = out[k + 1];
  const double start = now();
  for (std::size_t r = 0; r < reps; ++r) {
    for (int k = 0; k < 12; ++k) a[k] += x * y;
    __asm__ volatile("" : "+v"(x), "+v"(y));
  }
  const double t = now() - start;
  for (int k = 1; k < 12; ++k) a[0] += a[k];
  *(V *)out = a[0];
  return t;
}
"""


def limits(sizes: list[int]) -> dict[str, Any]:
    """Measured: bytes a second that one core reads again and again from a buffer of each size, and its
    float multiply-adds a second."""
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    lanes = 16 if "avx512f" in flags else 8
    library = _library(_LIMITS.replace("LANES", str(lanes)), {}, FLAGS)
    library.peak.restype = ctypes.c_double
    out: dict[str, Any] = {"bandwidth": {}}
    for size in sorted({max(1024, s // 1024 * 1024) for s in sizes}):
        raw = np.zeros(size // 4 + 32, np.float32)
        x = raw[(-raw.ctypes.data % 64) // 4 :][: size // 4]
        y = np.zeros(64, np.float32)
        yy = y[(-y.ctypes.data % 64) // 4 :]
        reps = max(1, 200_000_000 // size)
        best = min(
            library.bench(
                ctypes.c_size_t(reps), ctypes.c_size_t(x.size), ctypes.c_void_p(x.ctypes.data),
                ctypes.c_void_p(yy.ctypes.data),
            )
            for _ in range(7)
        )  # fmt: skip
        out["bandwidth"][size] = size * reps / best
    y = np.zeros(64, np.float32)
    reps = 2_000_000
    yy = y[(-y.ctypes.data % 64) // 4 :]
    best = min(
        library.peak(ctypes.c_size_t(reps), ctypes.c_void_p(yy.ctypes.data)) for _ in range(7)
    )
    out["multiply_adds_per_second"] = reps * 12 * lanes / best
    return out


def compiler() -> str:
    from warpsmith.toolchains import cpp

    return re.sub(r"\s+", " ", cpp.version())
