"""What ships: save the best record as an importable folder, load it as an ordinary PyTorch operator."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from ..errors import OperatorError, UsageError
from ..spec import Record, Task, from_plain, load_task
from . import saved
from .domain import Domain
from .gather import source_of
from .provenance import provenance_of
from .readme import readme, template
from .reference import Reference, formed, outputs_of
from .registration import CPU_WAYS, NAMESPACE, Body, register, schema_of

_LOADED: dict[str, tuple[str, Body, Any, Any]] = {}  # name -> identity, body, overload, library


def save(
    record: Record, task: Task, folder: str | Path, *, journal: str = "", overwrite: bool = False
) -> Path:
    """Write a right record's candidate as a folder that can be loaded, imported and read.

        kernel/           the candidate's files, unchanged
        reference.py      the task
        __init__.py       registers torch.ops.warpsmith.<task>_<candidate id>; op, Model, provenance
        provenance.json   what is known: verdict, times, versions, domain, a hash of every file
        README.md         the same for people

    journal: where the run is kept, for the provenance. Writing the same operator again refreshes
    it. Raises UsageError for a record that is not right or is of another task, OperatorError when
    the task cannot be an operator or when the folder holds something else (`overwrite` replaces
    another saved operator, never other files).
    """
    import torch

    _refuse_unproven(record, task)
    folder = Path(folder)
    source = source_of(task)
    with torch.random.fork_rng(devices=[]):
        provenance = provenance_of(record, task, source, journal)
    files = {
        "__init__.py": template("package.py.txt"),
        "reference.py": source,
        **{f"kernel/{saved.below(name)}": text for name, text in record.candidate.files.items()},
    }
    files["README.md"] = readme(provenance, folder.name)
    saved.write(folder, files, provenance, overwrite)
    return folder


def load(folder: str | Path, *, cpu: str = "reference") -> Operator:
    """The operator saved in a folder, registered in this process.

    cpu: what calls with CPU tensors run on, see `Operator.cpu`. The kernel itself is read and built
    at the first call that uses it. Loading again, also after the folder was moved, gives an equal
    operator. Raises OperatorError for missing or changed files and for newer formats.
    """
    folder = Path(folder).resolve()
    provenance = saved.read(folder)
    name, identity = provenance["name"], provenance["identity"]
    task = load_task(folder / "reference.py", provenance["task"]["name"])
    reference = Reference(task)
    domain = from_plain(Domain, provenance["domain"])
    body = Body(name, reference, domain, folder, provenance["outputs"]["count"])
    if name in _LOADED:
        body = _again(body, identity)
    else:
        overload, library = register(
            body,
            schema_of(domain, body.count),
            provenance["differentiable"],
            provenance["own_gradient"],
        )
        _LOADED[name] = (identity, body, overload, library)
    operator = Operator(folder, provenance, body, _LOADED[name][2])
    if cpu != "reference":
        operator.cpu = cpu
    return operator


class Operator:
    """A saved operator: `operator(*inputs, state=None)`, the same as `operator.op`.

    Model: nn.Module class with the reference's parameters and buffers; its forward calls the
        operator, its state_dict fits the reference's.
    provenance: the content of provenance.json. folder: where it was loaded from.
    torch_op: the registered overload, taking the inputs, then the weights in the order of
        `provenance["domain"]["state"]`.
    fallbacks: calls that used the reference because they lay outside the verified domain, in this
        process; `fallback_reasons` counts them by kind, `last_fallback` says it in words.
    """

    def __init__(self, folder: Path, provenance: Mapping[str, Any], body: Body, torch_op: Any):
        self.folder, self.provenance, self.torch_op = folder, provenance, torch_op
        from .direct import nobody_watches

        self._body, self._nobody_watches = body, nobody_watches
        self._form = provenance["outputs"]["form"]
        self._names = tuple(a.name for a in body.domain.arguments)
        self._optional = tuple(a.optional for a in body.domain.arguments)
        self._state_names = tuple(body.domain.state)
        self.Model = _model_class(self)

    def __call__(self, *inputs: Any, state: Mapping[str, Any] | None = None, **named: Any) -> Any:
        """The reference's result, computed by the kernel where it was verified.

        inputs: as the task's get_inputs gives them; also by the names of the reference's forward.
        state: its parameters and buffers by name, for example `model.state_dict()`; needed when
        it has any. Raises UsageError for wrong counts and names.
        """
        values = self._bind(inputs, named)
        return self._compute((*values, *self._weights(state)))

    def _compute(self, flat: tuple[Any, ...]) -> Any:
        call = self._body.direct if self._nobody_watches(flat) else self.torch_op
        returned = call(*flat)
        if self._form is None:
            return returned
        return formed(self._form, iter(outputs_of(returned)))

    @property
    def op(self) -> Operator:
        """The functional form: the operator itself."""
        return self

    @property
    def name(self) -> str:
        return f"{NAMESPACE}::{self._body.name}"

    @property
    def cpu(self) -> str:
        """What CPU tensors run on, for every operator of this name in the process.

        "reference" (the start): PyTorch's own operations; a simulated GPU would only be slow.
        "virtual": the kernel on the virtual GPU, to test a model with the kernel in it without a GPU.
        """
        return self._body.cpu

    @cpu.setter
    def cpu(self, way: str) -> None:
        if way not in CPU_WAYS:
            raise UsageError(f"cpu={way!r}; expected one of {', '.join(map(repr, CPU_WAYS))}")
        self._body.cpu = way

    @property
    def fallbacks(self) -> int:
        return self._body.fallbacks

    @property
    def fallback_reasons(self) -> dict[str, int]:
        return dict(self._body.reasons)

    @property
    def last_fallback(self) -> str:
        return self._body.last_fallback

    def reference(self, *inputs: Any, state: Mapping[str, Any] | None = None) -> Any:
        """The task's own model on the same arguments, differentiable any number of times."""
        return self._body.reference(inputs, dict(zip(self._state_names, self._weights(state))))

    def __repr__(self) -> str:
        return f"warpsmith.load({str(self.folder)!r})"

    def _weights(self, state: Mapping[str, Any] | None) -> list[Any]:
        if not state and not self._state_names:
            return []
        given = {} if state is None else state
        missing = [n for n in self._state_names if n not in given]
        extra = [n for n in given if n not in self._state_names]
        if missing or extra:
            raise UsageError(
                f"{self.name}: state has {sorted(given)}, expected {sorted(self._state_names)}. "
                "Pass state=model.state_dict() of the reference's model, or use operator.Model."
            )
        return [given[n] for n in self._state_names]

    def _bind(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
        if len(inputs) == len(self._names) and not named:
            return inputs
        rest = self._names[len(inputs) :]
        values = [*inputs, *(named.get(n) for n in rest)]
        absent = [n for n, o in zip(self._names, self._optional) if not o][len(inputs) :]
        unknown = [n for n in named if n not in rest]
        if len(values) > len(self._names) or unknown or any(n not in named for n in absent):
            raise UsageError(
                f"{self.name} takes ({', '.join(self._names)}); got {len(inputs)} inputs"
                + (f" and {', '.join(named)}" if named else "")
            )
        return values


def _model_class(operator: Operator) -> type[Any]:
    """The nn.Module class of an operator; built here so that importing warpsmith needs no torch."""
    import torch

    body = operator._body
    modes = operator.provenance["modes"]
    getters = [attrgetter(name) for name in operator._state_names]

    class Model(torch.nn.Module):
        """The reference's module with the operator as its forward.

        Model() takes no arguments: the operator was verified for the task's own init inputs.
        Values in the mode the candidate was not judged in come from the reference where the
        reference differs between training and evaluation.
        """

        def __init__(self, *init_inputs: Any):
            super().__init__()
            _refuse_other_init(operator, init_inputs)
            inner = body.reference.task.model(*body.reference.init_inputs)
            if isinstance(inner, torch.nn.Module):
                self.__dict__.update(inner.__dict__)

        def forward(self, *inputs: Any, **named: Any) -> Any:
            values = operator._bind(inputs, named)
            if self.training in modes:
                return operator._compute((*values, *self._warpsmith_weights()))
            state = dict(zip(operator._state_names, self._warpsmith_weights()))
            return body.reference.in_mode(self.training, values, state)

        def _warpsmith_weights(self) -> list[Any]:
            if torch.compiler.is_compiling():  # tracers follow modules, not attrgetter
                state = dict(self.named_parameters()) | dict(self.named_buffers())
                return [state[name] for name in operator._state_names]
            return [get(self) for get in getters]

        def extra_repr(self) -> str:
            return operator.name

    Model.forward.__signature__ = _signature(operator)  # type: ignore[attr-defined]
    return Model


def _signature(operator: Operator) -> inspect.Signature:
    """forward's signature with the inputs' own names, for torch.export and help()."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter("self", kind)]
    for name, optional in zip(operator._names, operator._optional):
        default = None if optional else inspect.Parameter.empty
        if default is not None and parameters[-1].default is None:
            default = None  # Python wants defaults last
        parameters.append(inspect.Parameter(name, kind, default=default))
    return inspect.Signature(parameters)


def _refuse_other_init(operator: Operator, init_inputs: Sequence[Any]) -> None:
    expected = operator._body.reference.init_inputs
    if init_inputs and repr(tuple(init_inputs)) != repr(tuple(expected)):
        raise UsageError(
            f"Model{tuple(init_inputs)!r}: the operator was verified for {tuple(expected)!r} only. "
            "Call Model() without arguments, or optimize a task with other get_init_inputs."
        )


def _again(body: Body, identity: str) -> Body:
    there, first, _, _ = _LOADED[body.name]
    if there != identity:
        raise OperatorError(
            f"{body.folder} and {first.folder} both define {NAMESPACE}::{body.name}, with different "
            "references; load them in separate processes, or save one under another "
            "task name"
        )
    first.replace_by(body)
    return first


def _refuse_unproven(record: Record, task: Task) -> None:
    if not record.right:
        outcome = record.verdict.outcome.name if record.verdict else "no verdict"
        raise UsageError(
            f"{record.candidate.name!r} has {outcome}; only a record that is RIGHT can be saved"
        )
    if record.task != task.id:
        raise UsageError(
            f"the record is of task {record.task_name!r} ({record.task}), not of {task.name!r} "
            f"({task.id}); pass the task it was judged on"
        )
