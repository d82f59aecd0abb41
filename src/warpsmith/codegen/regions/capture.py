"""Take a task's reference apart into ATen operations with symbolic shapes, without running it."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import logging
import re
import warnings
from dataclasses import dataclass
from typing import Any

from ...errors import TaskError
from ...spec import Task


@dataclass(frozen=True)
class Captured:
    """A reference as a graph of ATen operations.

    graph: torch.fx.Graph. sources: placeholder name -> host expression ("inputs[0]",
    "state['weight']"). sizes: symbol name -> host expression ("inputs[0].shape[1]").
    scalars: placeholders that are numbers among the inputs. dropped: outputs that only write
    buffers back (running statistics).
    """

    graph: Any
    sources: dict[str, str]
    sizes: dict[str, str]
    scalars: frozenset[str]
    outputs: tuple[Any, ...]  # fx nodes or constants, in the order of the reference
    single: bool  # the reference gives one tensor, not a tuple
    dropped: tuple[str, ...]
    constants: dict[str, Any]  # placeholders that are numbers written in the model
    traced: dict[str, int]  # symbol name -> its size at the main case


class NotCaptured(Exception):
    """torch.export cannot trace the reference; the message says why and where."""


def capture(task: Task) -> Captured:
    """The graph of the task's reference at its main case, every input size a symbol.

    Inputs and weights are fake tensors, so that a reference of any size costs no memory. Raises
    NotCaptured with torch's reason if the reference cannot be traced.
    """
    import torch

    errors = []
    for fake in (True, False):
        try:
            return _capture(task, fake)
        except (TaskError, NotCaptured):
            raise
        except Exception as error:
            errors.append(error)
            if isinstance(error, torch.OutOfMemoryError):
                break
    raise NotCaptured(f"{task.name}: torch.export cannot trace the reference: {_short(errors[-1])}")


def _capture(task: Task, fake: bool) -> Captured:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True) if fake else contextlib.nullcontext()
    with mode, torch.random.fork_rng(devices=[]), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.fx.experimental.symbolic_shapes").setLevel(logging.ERROR)
        model = as_module(task.model(*task.get_init_inputs()))
        given = list(task.get_inputs(**tracing_sizes(task)))
        scalars = [i for i, x in enumerate(given) if isinstance(x, float)]
        for i in scalars:
            given[i] = torch.tensor(given[i], dtype=torch.float64)
        dynamic = _by_parameter(model, tuple(_dynamic(x) for x in given))
        with mode if not fake else contextlib.nullcontext():
            program = torch.export.export(model, tuple(given), dynamic_shapes=dynamic, strict=False)
        program = program.run_decompositions(decompositions())
    return _read(program, len(given), scalars)


def as_module(model: Any) -> Any:
    """The reference as an nn.Module: torch.export takes nothing else."""
    import torch

    if isinstance(model, torch.nn.Module):
        return model

    class Function(torch.nn.Module):
        def forward(self, *inputs: Any) -> Any:
            return model(*inputs)

    return Function()


def tracing_sizes(task: Task) -> dict[str, int]:
    """Sizes to trace at: none is 0 or 1, which torch.export would take for a constant."""
    import inspect

    sizes = {}
    try:
        defaults = dict(inspect.signature(task.get_inputs).parameters)
    except (TypeError, ValueError):
        defaults = {}
    for name, limits in task.ranges.items():
        default = defaults[name].default if name in defaults else limits.low
        if isinstance(default, int) and default < 2:
            step = limits.multiple
            sizes[name] = min(limits.high, max(limits.low, step * -(-2 // step)))
    return sizes


def _by_parameter(model: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """torch.export wants what goes into `*args` as one nested tuple."""
    import inspect

    kinds = [p.kind for p in inspect.signature(model.forward).parameters.values()]
    star = inspect.Parameter.VAR_POSITIONAL
    if star not in kinds:
        return given
    fixed = kinds.index(star)
    return (*given[:fixed], given[fixed:])


def _dynamic(x: Any) -> Any:
    import torch

    if isinstance(x, torch.Tensor):
        return tuple(torch.export.Dim.AUTO for _ in x.shape)
    if isinstance(x, (list, tuple)):
        return type(x)(_dynamic(item) for item in x)
    return None


def decompositions() -> dict[Any, Any]:
    """Core ATen, and further: norms, softmax and losses become pointwise operations and reductions."""
    import torch
    from torch._decomp import core_aten_decompositions, get_decompositions

    aten = torch.ops.aten
    table = dict(core_aten_decompositions())
    table.update(
        get_decompositions(
            [
                aten._softmax,
                aten._log_softmax,
                aten._safe_softmax,
                aten.native_layer_norm,
                aten.native_batch_norm,
                aten._native_batch_norm_legit,
                aten._native_batch_norm_legit_functional,
                aten._native_batch_norm_legit_no_training,
                aten._fused_rms_norm,
                aten.nll_loss_forward,
                aten.addmm,
                aten.baddbmm,
                aten.leaky_relu,
                aten.elu,
                aten.hardtanh,
                aten.hardswish,
                aten.hardsigmoid,
                aten.smooth_l1_loss,
                aten.huber_loss,
                aten.mse_loss,
                aten.mv,
                aten.dot,
                aten.lerp,
                aten.addcmul,
                aten.addcdiv,
                aten.logaddexp,
                aten.log_sigmoid_forward,
                aten.glu,
                aten.sign,
            ]
        )
    )
    keep = (
        aten.gelu.default,
        aten.sigmoid.default,
        aten.clamp.default,
        aten.var.correction,
        aten.sign.default,
    )
    for op in keep:
        table.pop(op, None)
    table[aten.native_group_norm.default] = _group_norm
    return table


def _group_norm(
    x: Any, weight: Any, bias: Any, n: Any, c: Any, hw: Any, groups: int, eps: float
) -> Any:
    """torch's decomposition goes through as_strided; this one reshapes."""
    import torch

    grouped = x.reshape(n, groups, c // groups, hw).float()
    variance, mean = torch.var_mean(grouped, dim=(2, 3), correction=0, keepdim=True)
    rstd = torch.rsqrt(variance + eps)
    result = ((grouped - mean) * rstd).reshape(x.shape)
    shape = (c, *[1] * (x.dim() - 2))
    if weight is not None:
        result = result * weight.reshape(shape)
    if bias is not None:
        result = result + bias.reshape(shape)
    return result.to(x.dtype), mean.reshape(n, groups), rstd.reshape(n, groups)


def _read(program: Any, count: int, scalars: list[int]) -> Captured:
    """Names, symbols and outputs out of an exported program."""
    import torch
    from torch.export.graph_signature import InputKind, OutputKind

    nodes = {node.name: node for node in program.graph.nodes}
    sources: dict[str, str] = {}
    numbers: list[str] = []
    constants: dict[str, Any] = {}
    users = [s for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT]
    places = _places(program, count)
    for spec in program.graph_signature.input_specs:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            sources[spec.arg.name] = f"state[{spec.target!r}]"
        elif spec.kind == InputKind.CONSTANT_TENSOR:
            number = _number(program.constants.get(spec.target))
            if number is not None:
                constants[spec.arg.name] = number
        elif spec.kind == InputKind.USER_INPUT:
            index = users.index(spec)
            sources[spec.arg.name] = places[index]
            if places[index] in {f"inputs[{i}]" for i in scalars}:
                numbers.append(spec.arg.name)
    sizes: dict[str, str] = {}
    traced: dict[str, int] = {}
    for name, source in sources.items():
        value = nodes[name].meta.get("val")
        if isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                held = getattr(size, "node", None)
                expr, hint = getattr(held, "expr", None), getattr(held, "hint", None)
                if expr is not None and expr.is_Symbol:
                    sizes.setdefault(str(expr), f"{source}.shape[{dim}]")
                    if isinstance(hint, int):
                        traced[str(expr)] = hint
    outputs, dropped = [], []
    for spec in program.graph_signature.output_specs:
        if spec.kind == OutputKind.USER_OUTPUT:
            outputs.append(
                nodes.get(getattr(spec.arg, "name", None), getattr(spec.arg, "value", None))
            )
        elif spec.kind == OutputKind.BUFFER_MUTATION:
            dropped.append(spec.target)
        else:
            raise NotCaptured(f"the reference writes into {spec.target!r}, an input")
    single = str(program.call_spec.out_spec).replace("TreeSpec(", "").replace(", None)", "")[
        :1
    ] == "*" or (program.call_spec.out_spec.num_children == 0 and len(outputs) == 1)
    return Captured(
        program.graph,
        sources,
        sizes,
        frozenset(numbers),
        tuple(outputs),
        single,
        tuple(dropped),
        constants,
        traced,
    )


def _number(tensor: Any) -> Any:
    """The number in a tensor of one element, where it is known; else None."""
    import torch

    constant = getattr(tensor, "constant", None)  # of a fake tensor
    tensor = tensor if constant is None else constant
    if tensor is None or tensor.numel() != 1 or type(tensor) is not torch.Tensor:
        return None
    return tensor.item()


def _places(program: Any, count: int) -> list[str]:
    """Host expressions of the flattened user inputs, in order."""
    from torch.utils import _pytree as pytree

    spec = program.call_spec.in_spec
    dummy = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    paths, _ = pytree.tree_flatten_with_path(dummy[0])
    return [f"inputs{pytree.keystr(path)}" for path, _ in paths]


def line_of(node: Any) -> str:
    """'file:line: text' of the user's own code that made an fx node, or ''."""
    trace = (getattr(node, "meta", {}) or {}).get("stack_trace") or ""
    frames = re.findall(r'File "([^"]+)", line (\d+), in [^\n]+\n\s*([^\n]*)', trace)
    own = [f for f in frames if "/torch/" not in f[0]] or frames
    if not own:
        return ""
    file, line, text = own[-1]
    return f"{file}:{line}: {text.strip()}"


def _short(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:400]
