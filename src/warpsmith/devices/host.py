"""Load a candidate's host module, give it its weights, call it, and make a tuple of what it returns."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import difflib
import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CandidateError
from ..spec import ENTRY, Candidate
from ..spec.load import execute


@dataclass(frozen=True)
class Program:
    """A candidate whose host module has been executed."""

    candidate: Candidate
    folder: Path
    names: Mapping[str, Any]

    def bind(self, init_inputs: Sequence[Any], state: Mapping[str, Any], device: str) -> Bound:
        """Ready to be called: `run` with the state, or `ModelNew` built and given its weights.

        Raises CandidateError when the weights do not fit, and whatever ModelNew raises.
        """
        run, grad = self.names.get("run"), self.names.get("grad")
        if callable(run):
            return Bound(run, dict(state), grad if callable(grad) else None)
        model = self.names["ModelNew"](*init_inputs)
        if hasattr(model, "to") and hasattr(model, "named_parameters"):
            model = model.to(device)
            give_weights(model, state)
        return Bound(model, _own_state(model, state), None, takes_state=False)


@dataclass(frozen=True)
class Bound:
    """A candidate that can be called with inputs. `state` holds the tensors it computes with."""

    function: Any
    state: dict[str, Any]
    grad: Any
    takes_state: bool = True

    def __call__(self, inputs: Sequence[Any]) -> Any:
        return self.function(inputs, self.state) if self.takes_state else self.function(*inputs)

    def train(self, training: bool) -> None:
        if not self.takes_state and hasattr(self.function, "train"):
            self.function.train(training)


def load(candidate: Candidate, folder: Path) -> Program:
    """Write a candidate's files into `folder` and execute `candidate.py` there.

    Raises CandidateError without `run` or `ModelNew`, SyntaxError, and whatever the module raises.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in candidate.files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise CandidateError(
                f"file name {name!r} leaves the candidate's folder: use a plain name"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    entry = folder / ENTRY
    compile(candidate.entry, str(entry), "exec")  # a SyntaxError keeps its type
    sys.path.insert(0, str(folder))  # sibling modules
    try:
        names = execute(candidate.entry, entry)
    finally:
        sys.path.remove(str(folder))
    if not callable(names.get("run")) and not callable(names.get("ModelNew")):
        raise CandidateError(
            f"{ENTRY} defines neither 'run(inputs, state)' nor 'class ModelNew(nn.Module)'; "
            f"it defines {', '.join(n for n in names if not n.startswith('_')) or 'nothing'}"
        )
    return Program(candidate, folder, names)


def give_weights(model: Any, state: Mapping[str, Any]) -> None:
    """Copy the reference's parameters and buffers into `model`, by name and shape.

    Buffers of its own that the reference does not have stay as they are. Raises CandidateError for
    a parameter without a namesake of equal shape, on either side.
    """
    import torch

    parameters = dict(model.named_parameters())
    own = parameters | dict(model.named_buffers())
    for name in parameters:
        if name not in state:
            raise CandidateError(
                f"ModelNew has a parameter {name!r} {_shape(own[name])} that the reference does not "
                f"have.{_nearest(name, state)} Weights are shared by name and shape."
            )
    with torch.no_grad():
        for name, value in state.items():
            if name not in own:
                if isinstance(value, torch.nn.Parameter) or value.is_floating_point():
                    raise CandidateError(
                        f"the reference has {name!r} {_shape(value)}, which ModelNew does not "
                        f"have.{_nearest(name, own)} Weights are shared by name and shape."
                    )
                continue
            if own[name].shape != value.shape:
                raise CandidateError(
                    f"ModelNew's {name!r} is {_shape(own[name])}, the reference's is "
                    f"{_shape(value)}: shapes must be equal for the weights to be shared"
                )
            own[name].copy_(value)


def _shape(tensor: Any) -> str:
    return str(tuple(tensor.shape))


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.2) or list(known)[:1]
    return f" The nearest name there is {near[0]!r} {_shape(known[near[0]])}." if near else ""


def _own_state(model: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """The model's tensors in the order of the reference's state, for gradients and change checks."""
    if not hasattr(model, "named_parameters"):
        return dict(state)
    own = dict(model.named_parameters()) | dict(model.named_buffers())
    return {name: own.get(name, value) for name, value in state.items()}


def outputs_of(value: Any, device: str) -> tuple[Any, ...]:
    """What a candidate returned, flattened: a tensor, or a tuple, list or dict of them, nested or not.

    Numbers and None stay as they are. Raises CandidateError for anything else: tensor subclasses
    (they can compute later), tensors on another device, other objects.
    """
    flat = tuple(_leaves(value))
    for index, leaf in enumerate(flat):
        _check_leaf(leaf, index, device)
    return flat


def _leaves(value: Any) -> Any:
    if isinstance(value, Mapping):
        return itertools.chain.from_iterable(_leaves(v) for v in value.values())
    if isinstance(value, (tuple, list)):
        return itertools.chain.from_iterable(_leaves(v) for v in value)
    return (value,)


def _check_leaf(leaf: Any, index: int, device: str) -> None:
    import torch

    if leaf is None or isinstance(leaf, (bool, int, float)):
        return
    if type(leaf) not in (torch.Tensor, torch.nn.Parameter):
        raise CandidateError(
            f"output {index} is a {type(leaf).__name__}: expected a plain torch.Tensor"
        )
    if leaf.device.type != device.partition(":")[0]:
        raise CandidateError(
            f"output {index} is on {leaf.device}, expected {device}, where the inputs are"
        )
    if leaf.layout != torch.strided:
        raise CandidateError(f"output {index} has layout {leaf.layout}: expected a dense tensor")
