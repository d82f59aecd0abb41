"""The task's reference as a function of inputs and state: values, shapes under fake tensors, gradients."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import OperatorError
from ..spec import Task


class Reference:
    """A task's model with its weights taken out: `reference(inputs, state)`.

    state: the model's parameters, then its buffers, by name, in the module's order. The module's
    own tensors are moved to the meta device, so that a big model costs no memory here. It stays in
    the mode that its constructor leaves it in, which is the mode that candidates are judged in.
    """

    def __init__(self, task: Task):
        import torch

        self.task = task
        self.init_inputs = tuple(task.get_init_inputs())
        self.module = task.model(*self.init_inputs)
        self.is_module = isinstance(self.module, torch.nn.Module)
        self.state: dict[str, Any] = {}
        self.trainable: frozenset[str] = frozenset()  # weights that candidates give gradients of
        if self.is_module:
            self.state = state_of(self.module)
            self.trainable = frozenset(n for n, t in self.state.items() if t.requires_grad)
            self.module = self.module.to("meta")
            self.state = {name: like(tensor) for name, tensor in self.state.items()}

    @property
    def training(self) -> bool:
        """The mode that the constructor leaves the module in."""
        return bool(self.is_module and self.module.training)

    def __call__(self, inputs: Sequence[Any], state: Mapping[str, Any]) -> Any:
        """What the model returns. Autocast is off: an operator's dtypes follow from its inputs."""
        import torch

        with torch.autocast(device_of(inputs, state), enabled=False):
            if not self.is_module:
                return self.module(*inputs)
            return torch.func.functional_call(self.module, dict(state), tuple(inputs))

    def in_mode(self, training: bool, inputs: Sequence[Any], state: Mapping[str, Any]) -> Any:
        """The same with the module put in training or evaluation mode for this call."""
        if not self.is_module or self.module.training == training:
            return self(inputs, state)
        modes = {m: m.training for m in self.module.modules()}
        self.module.train(training)
        try:
            return self(inputs, state)
        finally:
            for module, mode in modes.items():
                module.training = mode

    def argument_names(self, count: int) -> list[str]:
        """Names for the first `count` inputs: those of the model's forward, else input0, input1, …"""
        forward = self.module.forward if self.is_module else self.module
        named = [p.name for p in _positional(forward)][:count]
        return named + [f"input{i}" for i in range(len(named), count)]

    def optional_names(self) -> set[str]:
        """Names of forward's arguments whose default is None."""
        forward = self.module.forward if self.is_module else self.module
        return {p.name for p in _positional(forward) if p.default is None}

    def gradients(
        self, inputs: Sequence[Any], state: Mapping[str, Any], of_outputs: Sequence[Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Gradients of the inputs (None where there is none) and of the state, by recomputation."""
        import torch

        with torch.enable_grad():
            fresh, weights = [differentiable(v) for v in inputs], {}
            weights = {name: differentiable(tensor) for name, tensor in state.items()}
            outputs = outputs_of(self(fresh, weights))
            pairs = [(o, g) for o, g in zip(outputs, of_outputs) if o.requires_grad]
            wanted = [t for v in (*fresh, *weights.values()) for t in tensors_of(v)]
            wanted = [t for t in wanted if t.requires_grad]
            found = iter(
                torch.autograd.grad(
                    [o for o, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True
                )
                if pairs and wanted
                else [None] * len(wanted)
            )
        return [_take(v, found) for v in fresh], {n: _take(t, found) for n, t in weights.items()}


def state_of(module: Any) -> dict[str, Any]:
    """Parameters, then buffers, of a module by name; shared tensors once."""
    return dict(module.named_parameters()) | dict(module.named_buffers())


def like(tensor: Any) -> Any:
    """A meta tensor of the same shape, dtype and strides."""
    import torch

    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def tensors_of(value: Any) -> list[Any]:
    """The tensors in one argument: itself, the items of a list, or none."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [v for v in value if isinstance(v, torch.Tensor)]
    return []


def device_of(inputs: Sequence[Any], state: Mapping[str, Any]) -> str:
    """The type of the device that the first tensor lives on: 'cpu', 'cuda', …; 'cpu' for none."""
    for value in (*inputs, *state.values()):
        for tensor in tensors_of(value):
            return "cpu" if tensor.device.type == "meta" else str(tensor.device.type)
    return "cpu"


def outputs_of(returned: Any) -> tuple[Any, ...]:
    """The tensors in what a model returned, in order. Raises OperatorError for anything else."""
    import torch

    if isinstance(returned, torch.Tensor):
        return (returned,)
    outputs = tuple(_leaves(returned))
    if not outputs:
        raise OperatorError("the reference returns no tensor; an operator must return some")
    return outputs


def form_of(returned: Any) -> Any:
    """How the tensors are nested, as JSON: null for a tensor, else [kind, names, forms of the parts].

    Named tuples become tuples.
    """
    if isinstance(returned, Mapping):
        return ["dict", list(returned), [form_of(v) for v in returned.values()]]
    if isinstance(returned, (list, tuple)):
        kind = "list" if isinstance(returned, list) else "tuple"
        return [kind, None, [form_of(v) for v in returned]]
    return None


def formed(form: Any, outputs: Iterator[Any]) -> Any:
    """The inverse: the tensors put back as the reference returns them."""
    if form is None:
        return next(outputs)
    kind, names, parts = form
    values = [formed(part, outputs) for part in parts]
    if kind == "dict":
        return dict(zip(names, values))
    return values if kind == "list" else tuple(values)


def _leaves(returned: Any) -> Iterator[Any]:
    import torch

    if isinstance(returned, Mapping):
        returned = tuple(returned.values())
    if isinstance(returned, (list, tuple)):
        for part in returned:
            yield from _leaves(part)
    elif isinstance(returned, torch.Tensor):
        yield returned
    else:
        raise OperatorError(
            f"the reference returns a {type(returned).__name__}; an operator returns tensors, alone "
            "or in tuples, lists and dicts"
        )


def differentiable(value: Any) -> Any:
    """A detached copy that records gradients if it is floating point."""
    import torch

    if isinstance(value, (list, tuple)):
        return [differentiable(v) for v in value]
    if not isinstance(value, torch.Tensor):
        return value
    fresh = value.detach()
    return fresh.requires_grad_(fresh.is_floating_point() or fresh.is_complex())


def _take(value: Any, found: Any) -> Any:
    if isinstance(value, list):  # a list of numbers has no gradient, not a list of none
        return [_take(v, found) for v in value] if tensors_of(value) else None
    return next(found) if getattr(value, "requires_grad", False) else None


def _positional(function: Any) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p for p in parameters if p.kind in kinds and p.name != "self"]
