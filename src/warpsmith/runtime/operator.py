"""What ships: save the best record as an importable folder, load it as an ordinary PyTorch operator."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
import json
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import OperatorError, UsageError
from ..spec import Record, Task, from_plain, load_task, to_plain
from ..spec.load import defines
from . import saved
from .domain import Domain, domain_of
from .gather import source_of
from .reference import Reference, form_of, formed, outputs_of, tensors_of
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
        provenance = _provenance(record, task, source, journal)
    files = {
        "__init__.py": _template("package.py.txt"),
        "reference.py": source,
        **{f"kernel/{saved.below(name)}": text for name, text in record.candidate.files.items()},
    }
    files["README.md"] = _readme(provenance, folder.name)
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
        self._body = body
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
        values = self._bind(inputs, named) if named or len(inputs) != len(self._names) else inputs
        returned = self.torch_op(*values, *self._weights(state))
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
        given = {} if state is None else state
        missing = [n for n in self._state_names if n not in given]
        extra = [n for n in given if n not in self._state_names]
        if missing or extra:
            raise UsageError(
                f"{self.name}: state has {sorted(given)}, expected {sorted(self._state_names)}. "
                "Pass state=model.state_dict() of the reference's model, or use operator.Model."
            )
        return [given[n] for n in self._state_names]

    def _bind(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
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
            state = dict(self.named_parameters()) | dict(self.named_buffers())
            if self.training in modes:
                return operator(*inputs, state=state, **named)
            values = operator._bind(inputs, named)
            return body.reference.in_mode(self.training, values, state)

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


def _provenance(record: Record, task: Task, source: str, journal: str) -> dict[str, Any]:
    from ..targets import get

    reference = Reference(task)
    domain = domain_of(task, record, reference, get(record.target).compute_capability)
    facts = _try_reference(task)
    name = operator_name(task, record)
    candidate = record.candidate
    identity = saved.digest(json.dumps([name, source, dict(candidate.files)], sort_keys=True))
    return {
        "format": saved.FORMAT,
        "namespace": NAMESPACE,
        "name": name,
        "identity": identity,
        "schema": name + schema_of(domain, facts["outputs"]["count"]),
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "task": {"name": task.name, "id": task.id, "source_sha256": saved.digest(source)},
        "candidate": {
            "id": candidate.id,
            "name": candidate.name,
            "language": candidate.language,
            "origin": candidate.origin,
            "parents": list(candidate.parents),
            "parameters": to_plain(candidate.parameters),
            "note": candidate.note,
        },
        "run": {
            "journal": journal,
            "number": record.number,
            "started": record.started,
            "device": record.device,
            "target": record.target,
            "environment": to_plain(record.environment),
        },
        "verdict": to_plain(record.verdict),
        "timing": to_plain(record.timing),
        "versions": versions(),
        "domain": to_plain(domain),
        "own_gradient": bool(task.backward and defines(candidate.entry, "grad")),
        **facts,
    }


def operator_name(task: Task, record: Record) -> str:
    """<task>_<candidate id>, as torch allows it."""
    name = re.sub(r"\W", "_", task.name)
    return f"{'task_' if not name or name[0].isdigit() else ''}{name}_{record.candidate.id}"


def versions() -> dict[str, str]:
    """Versions of what computes: warpsmith, Python, torch, Triton, CUDA bindings where present."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for package in ("warpsmith", "torch", "triton", "numpy", "cuda-bindings"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _try_reference(task: Task) -> dict[str, Any]:
    """Run the reference once, on the main case: outputs, whether gradients flow, its modes.

    Raises OperatorError when it cannot be an operator.
    """
    import torch

    model, inputs = task.model(*task.get_init_inputs()), list(task.get_inputs())
    module = model if isinstance(model, torch.nn.Module) else None
    state = [*module.parameters(), *module.buffers()] if module else []
    leaves = [_leaf(v) for v in inputs]
    watched = [*state, *(t for v in leaves for t in tensors_of(v))]
    before = [t._version for t in watched]
    with torch.enable_grad():
        returned = model(*leaves)
    outputs = outputs_of(returned)
    if [t._version for t in watched] != before:
        raise OperatorError(
            f"task {task.name!r}: the reference writes its inputs or its own buffers in forward "
            "(batch norm in training mode does); an operator only computes. Call self.eval() in "
            "its __init__, or let it work on a clone."
        )
    modes = [True, False]
    if module is not None and not _same_in_both_modes(module, inputs, outputs):
        modes = [module.training]
    return {
        "outputs": {"form": form_of(returned), "count": len(outputs)},
        "differentiable": any(o.requires_grad for o in outputs),
        "modes": modes,
    }


def _leaf(value: Any) -> Any:
    """A copy that records gradients if it is floating point, and may be written."""
    import torch

    if isinstance(value, (list, tuple)):
        return type(value)(_leaf(v) for v in value)
    if not isinstance(value, torch.Tensor):
        return value
    copy = value.detach().clone()
    return copy.requires_grad_() * 1 if copy.is_floating_point() else copy


def _same_in_both_modes(module: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
    import torch

    training = module.training
    module.train(not training)
    try:
        with torch.no_grad():
            other = outputs_of(module(*inputs))
    finally:
        module.train(training)
    return all(torch.equal(a, b) or _both_nan(a, b) for a, b in zip(outputs, other))


def _both_nan(a: Any, b: Any) -> bool:
    import torch

    return a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))


def _template(name: str) -> str:
    return (Path(__file__).parent / "template" / name).read_text()


def _readme(provenance: Mapping[str, Any], folder: str) -> str:
    import jinja2

    domain = from_plain(Domain, provenance["domain"])
    timing = provenance["timing"] or {"cases": []}
    baselines = sorted({b for case in timing["cases"] for b in case["baselines_us"]})
    errors = [c["error"] for c in provenance["verdict"]["cases"] if c["error"] is not None]
    template = jinja2.Template(_template("README.md.j2"), keep_trailing_newline=True)
    return template.render(
        p=provenance,
        folder=folder,
        importable=folder.isidentifier(),
        arguments=[a.name for a in domain.arguments],
        worst=f"{max(map(float, errors)):.3g}" if errors else "not recorded",
        gradients=_gradients_text(provenance),
        domain=_domain_text(domain),
        baselines=baselines,
        times=[_time_row(case, baselines) for case in timing["cases"]],
    )


def _gradients_text(provenance: Mapping[str, Any]) -> str:
    if not provenance["differentiable"]:
        return "none: the reference is not differentiable"
    if provenance["own_gradient"]:
        return "the candidate's own `grad`"
    return "by running the reference again and differentiating it"


def _domain_text(domain: Domain) -> str:
    lines = []
    for argument in domain.arguments:
        types = ", ".join(argument.dtypes) or argument.kind
        fixed = f", one of {list(argument.values)}" if argument.values else ""
        lines.append(f"- `{argument.name}`: {types}{fixed}")
    for name, (shape, dtype) in domain.state.items():
        lines.append(f"- weight `{name}`: {dtype}, {'×'.join(map(str, shape)) or 'scalar'}")
    if domain.formulas is not None:
        ranges = (f"{n} {r.low} … {r.high} step {r.multiple}" for n, r in domain.ranges.items())
        lines.append(f"- sizes: {', '.join(ranges)}")
    else:
        shapes = "; ".join(
            ", ".join("×".join(map(str, s)) for s in sizes if s) for sizes in domain.shapes
        )
        lines.append(f"- sizes: exactly {shapes} ({domain.note})")
    if domain.compute_capability:
        lines.append(f"- compute capability {'.'.join(map(str, domain.compute_capability))}")
    lines.append("- memory laid out as in the task, starting at a multiple of 32 bytes")
    return "\n".join(lines)


def _time_row(case: Mapping[str, Any], baselines: Sequence[str]) -> list[str]:
    row = [case["case"], f"{float(case['median_us']):.4g}"]
    for name in baselines:
        time, ratio = case["baselines_us"].get(name), case["speedups"].get(name)
        row.append("—" if time is None else f"{float(time):.4g}")
        row.append(
            f"{float(ratio['value']):.3g}× ({float(ratio['low']):.3g} … {float(ratio['high']):.3g})"
            if ratio
            else "—"
        )
    return row
