"""Read a Keras model, from memory or from a file, and write it as a loop program."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import inspect
import os
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import MissingTool, UnsupportedLayer, UsageError
from . import ir
from .errors import refuse
from .layers import Call, options, table
from .tensors import Builder, Tensor


@dataclass(frozen=True)
class Network:
    """A loop program and what it came from."""

    program: ir.Program
    name: str
    layers: tuple[str, ...]  # class names, in the order that they were written
    parameters: int
    notes: tuple[str, ...] = field(default=())


def load(source: Any) -> Any:
    """A model from a `.keras` or `.h5` file, or the model itself.

    Files are read in Keras's safe mode: code that a file carries is refused. Raises UsageError for
    weights-only files and anything that is no model.
    """
    if not isinstance(source, (str, os.PathLike)):
        return source
    path = Path(source)
    if not path.exists():
        raise UsageError(f"no model file {str(path)!r}: expected a .keras or .h5 file.")
    _check_is_model(path)
    try:
        return keras().models.load_model(path, compile=False, safe_mode=True)
    except (ValueError, TypeError, KeyError, OSError) as error:
        raise UsageError(f"{path.name} does not load as a Keras model: {error}") from error


def keras() -> Any:
    """The keras package; with no backend chosen, on torch."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    try:
        import keras
    except ImportError as error:
        raise MissingTool("keras", str(error), "pip install 'warpsmith[keras]'") from None
    return keras


def _check_is_model(path: Path) -> None:
    weights = (
        f"{path.name} holds weights and no model: load them into the model in Python "
        "(model.load_weights(...)) and emit the model, or save it whole with model.save('net.keras')."
    )
    if path.name.endswith(".weights.h5"):
        raise UsageError(weights)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if "config.json" not in archive.namelist():
                raise UsageError(
                    f"{path.name} is a zip file without a config.json: no Keras model."
                )
        return
    import h5py

    if not h5py.is_hdf5(path):
        raise UsageError(f"{path.name} is neither a .keras nor an HDF5 file.")
    with h5py.File(path) as file:
        if "model_config" not in file.attrs:
            raise UsageError(weights)


def read(source: Any) -> Network:
    """A Keras model as a loop program.

    Raises UnsupportedLayer, with the layer's name and what to use instead, before anything is
    written; UsageError for what is no functional or sequential model.
    """
    model = load(source)
    graph = _functional(model)
    b = Builder()
    table()
    tensors = [b.input(name, shape) for name, shape in _ports(graph)]
    layers: list[str] = []
    outputs = _run(b, graph, tensors, layers)
    for i, (name, x) in enumerate(zip(_output_names(graph, len(outputs)), outputs)):
        b.note = f"output {i}"
        b.output(name, x)
    return Network(b.program, model.name, tuple(layers), int(model.count_params()))


def _functional(model: Any) -> Any:
    k = keras()
    if isinstance(model, k.Sequential):
        if not model.built:
            raise UsageError(
                f"the sequential model {model.name!r} has no input shape yet: begin it with "
                "keras.Input(shape), or call model.build((None, …))."
            )
        return model._functional
    if isinstance(model, k.Model) and hasattr(model, "_nodes_by_depth"):
        return model
    if isinstance(model, k.Model):
        raise UsageError(
            f"{type(model).__name__} is a subclassed model: its call() is Python code and cannot be "
            "emitted. Write it with the functional API (keras.Model(inputs, outputs))."
        )
    raise UsageError(f"expected a Keras model or a file of one, got {type(model).__name__}.")


def _ports(graph: Any) -> list[tuple[str, tuple[int, ...]]]:
    ports = []
    for i, x in enumerate(graph.inputs):
        shape = tuple(x.shape[1:])
        if any(n is None for n in shape):
            raise UsageError(
                f"input {x.name!r} has the shape {tuple(x.shape)}: C++ needs every extent but the "
                "batch's. Build the model with a fixed keras.Input(shape)."
            )
        ports.append((identifier(x._keras_history.operation.name, f"input{i}"), shape))
    return _distinct(ports)


def _output_names(graph: Any, count: int) -> list[str]:
    names = list(getattr(graph, "output_names", []) or [])
    names += [f"output{i}" for i in range(len(names), count)]
    return [name for name, _ in _distinct([(identifier(n, "output"), ()) for n in names])]


def _distinct(ports: list) -> list:
    used: set[str] = set()
    out = []
    for name, shape in ports:
        unique, k = name, 2
        while unique in used:
            unique, k = f"{name}_{k}", k + 1
        used.add(unique)
        out.append((unique, shape))
    return out


_RESERVED = frozenset(
    [
        "alignas",
        "alignof",
        "and",
        "asm",
        "auto",
        "bool",
        "break",
        "case",
        "catch",
        "char",
        "class",
        "const",
        "constexpr",
        "continue",
        "default",
        "delete",
        "do",
        "double",
        "else",
        "enum",
        "explicit",
        "export",
        "extern",
        "false",
        "float",
        "for",
        "friend",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "namespace",
        "new",
        "noexcept",
        "not",
        "nullptr",
        "operator",
        "or",
        "private",
        "protected",
        "public",
        "register",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "template",
        "this",
        "throw",
        "true",
        "try",
        "typedef",
        "typename",
        "union",
        "unsigned",
        "using",
        "virtual",
        "void",
        "volatile",
        "while",
        "xor",
        "workspace",
        "states",
        "count",
    ]
)
# what the generated code calls its own
_OURS = frozenset(
    ("state", "predict", "predict_batch", "self_test", "detail", "detail_block", "Scalar", "workspace_size",
     "state_size", "i", "std", "threads", "samples_of_block", "shared_bytes", "own", "memory")
)  # fmt: skip


def identifier(text: str, otherwise: str) -> str:
    """A C++ name from any text.

    >>> identifier("dense 1/relu:0", "x"), identifier("3d", "x"), identifier("class", "x")
    ('dense_1_relu_0', 'n3d', 'class_')
    """
    name = re.sub(r"_{2,}", "_", re.sub(r"[^0-9A-Za-z]", "_", text)).strip("_")
    name = name or otherwise
    name = f"n{name}" if name[0].isdigit() else name
    return f"{name}_" if name in _RESERVED or name in _OURS else name


# ----------------------------------------------------------------------------------- the graph


def _run(b: Builder, graph: Any, inputs: list[Tensor], layers: list[str]) -> list[Tensor]:
    """The graph's nodes in order, on our tensors; the outputs, flat."""
    values = {id(x): t for x, t in zip(graph.inputs, inputs)}
    depths = graph._nodes_by_depth
    for depth in sorted(depths, reverse=True):
        for node in depths[depth]:
            if node.is_input or any(id(x) not in values for x in node.input_tensors):
                continue
            args, kwargs = node.arguments.fill_in(values)
            with _noted(b, node.operation):
                made = _node(b, node.operation, list(args), kwargs, layers)
            values |= {id(x): t for x, t in zip(node.outputs, _flat(made))}
    return [values[id(x)] for x in graph.outputs]


def _node(b: Builder, operation: Any, args: list, kwargs: dict, layers: list[str]) -> Any:
    layers.append(type(operation).__name__)
    return lower_operation(b, operation, args, kwargs, layers)


@contextlib.contextmanager
def _noted(b: Builder, operation: Any):
    before, b.note = b.note, f"{operation.name} ({type(operation).__name__})"
    yield
    b.note = before


def lower_operation(
    b: Builder, operation: Any, args: list, kwargs: dict, layers: list[str] | None = None
) -> Any:
    """A layer, a nested model or an operation of keras.ops, found by its class."""
    k = keras()
    if isinstance(operation, k.Model):
        layers = layers if layers is not None else []
        outputs = _run(b, _functional(operation), _flat(args[0]), layers)
        return outputs[0] if len(outputs) == 1 else outputs
    kind, module = type(operation).__name__, type(operation).__module__
    is_layer = isinstance(operation, k.layers.Layer)
    lower = table().get(kind if is_layer else f"ops.{kind}")
    if lower is None or not module.startswith("keras."):
        raise _unknown(operation, is_layer)
    kwargs = {n: v for n, v in kwargs.items() if n != "training"}
    if is_layer:
        options.check(operation)
        args, kwargs = _positional(operation, args, kwargs)
        kwargs = _with_masks(operation, args, kwargs)
    return lower(b, operation, Call(args, kwargs))


# what a call may name besides its inputs; each is read by the lowerings that it concerns
_CALL = frozenset(
    ("mask", "initial_state", "use_causal_mask", "return_attention_scores", "attention_mask",
     "query_mask", "value_mask", "key_mask", "value", "key")
)  # fmt: skip


def _positional(layer: Any, args: list, kwargs: dict) -> tuple[list, dict]:
    """The first input by its place, however the call named it. Refuses arguments nobody would read."""
    first = next(iter(inspect.signature(layer.call).parameters), None)
    if not args and first in kwargs:
        args = [kwargs[first]]
        kwargs = {n: v for n, v in kwargs.items() if n != first}
    for name, value in kwargs.items():
        if name not in _CALL and value is not None:
            raise refuse(layer, f"a call with {name}=…", "the layer called without it")
    return args, kwargs


def _with_masks(layer: Any, args: list, kwargs: dict) -> dict:
    """Keras hands a layer the mask of its first argument where the layer takes one."""
    if not getattr(layer, "_call_has_mask_arg", False) or kwargs.get("mask") is not None:
        return kwargs
    first = args[0]
    if isinstance(first, Tensor):
        return kwargs | {"mask": first.mask}
    masks = [t.mask for t in _flat(first)]
    return kwargs | ({"mask": masks} if any(m is not None for m in masks) else {})


def _unknown(operation: Any, is_layer: bool) -> UnsupportedLayer:
    kind = type(operation).__name__
    if kind == "Lambda":
        return refuse(operation, "Python code", "a layer or an operation of keras.ops")
    own = not type(operation).__module__.startswith("keras.")
    what = (
        "a class of your own" if own else f"{'the layer' if is_layer else 'the operation'} {kind}"
    )
    return refuse(operation, what, "layers that docs/keras.md lists, or move it out of the model")


def _flat(value: Any) -> list[Tensor]:
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _flat(v)]
    if isinstance(value, dict):
        return [t for n in sorted(value) for t in _flat(value[n])]
    return [value]
