"""Enter an operator in torch.library: schema, CPU and CUDA bodies, fake tensors, gradients."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import collections
import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import CandidateError, OperatorError, ToolchainError
from ..spec import ENTRY
from ..spec.load import execute
from .domain import Argument, Domain, unique
from .reference import Reference, device_of, outputs_of, state_of, tensors_of

NAMESPACE = "warpsmith"
CPU_WAYS = ("reference", "virtual")
CHOSEN = "chosen"  # the reference by choice: no fallback


class OperatorFallback(UserWarning):
    """A saved operator was called outside its verified domain and used the reference instead."""


class Body:
    """What the torch operator of one name runs: the kernel where it was verified, else the reference.

    cpu: what CPU tensors run on, "reference" or "virtual" (the virtual GPU).
    fallbacks: calls that should have run the kernel and did not; `reasons` counts them by one word
    (shape, dtype, layout, alignment, device, value, toolchain).
    """

    def __init__(self, name: str, reference: Reference, domain: Domain, folder: Path, count: int):
        from . import direct

        self.name, self.reference, self.domain, self.folder = name, reference, domain, folder
        self.domains = [domain]  # of every loaded verdict on this candidate: any of them will do
        self.count = count  # of outputs
        self._cpu = "reference"
        self.reasons: collections.Counter[str] = collections.Counter()
        self.last_fallback = ""
        self._module: dict[str, Any] | None = None
        self._broken = ""
        self._decisions: dict[Any, tuple[str, str]] = {}
        self._direct = direct

    @property
    def cpu(self) -> str:
        return self._cpu

    @cpu.setter
    def cpu(self, way: str) -> None:
        self._cpu = way
        self._decisions.clear()

    @property
    def fallbacks(self) -> int:
        return sum(self.reasons.values())

    def replace_by(self, other: Body) -> None:
        """Take over a freshly loaded equal body: its folder may have moved, its verdict be new."""
        self.folder, self._module, self._broken = other.folder, None, ""
        if other.domain not in self.domains:
            self.domains.append(other.domain)
        self._decisions.clear()

    def split(self, flat: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """The operator's arguments as inputs and state."""
        count = len(self.domain.arguments)
        if len(flat) == count:
            return list(flat), {}
        return list(flat[:count]), dict(zip(self.domain.state, flat[count:]))

    def forward(self, *flat: Any) -> Any:
        """The values, contiguous and sharing no memory with the arguments, as torch asks for."""
        away = self._direct.elsewhere(flat)  # torch calls this below autograd: nothing is recorded
        if away is None:
            return self._answer(flat)
        import torch

        with torch.cuda.device(away):
            return self._answer(flat)

    def direct(self, *flat: Any) -> Any:
        """`forward` without the trip through torch's dispatcher, for calls that nobody watches."""
        before = self._direct.recording()
        self._direct.set_recording(False)
        try:
            return self.forward(*flat)
        finally:
            self._direct.set_recording(before)

    def _answer(self, flat: Sequence[Any]) -> Any:
        inputs, state = self.split(flat)
        outputs = self._outputs("run", flat, (inputs, state))
        if outputs is None:
            outputs = outputs_of(self.reference(inputs, state))
        return self.pack(self._direct.own(outputs, flat))

    def fake(self, *flat: Any) -> Any:
        """Shapes and dtypes, from the reference on fake tensors."""
        import torch

        outputs = outputs_of(self.reference(*self.split(flat)))
        return self.pack([torch.empty(o.shape, dtype=o.dtype, device=o.device) for o in outputs])

    def pack(self, outputs: Sequence[Any]) -> Any:
        if len(outputs) != self.count:
            raise CandidateError(
                f"{self.name} returned {len(outputs)} outputs, the task has {self.count}"
            )
        return outputs[0] if self.count == 1 else tuple(outputs)

    def backward(self, gradients: Sequence[Any], outputs: Sequence[Any], *flat: Any) -> list[Any]:
        """Gradients of the floating arguments, in order, from the candidate's own
        `grad(gradients, inputs, outputs, state)`."""
        import torch

        inputs, state = self.split(flat)
        given = (list(gradients), inputs, list(outputs), state)
        away = self._direct.elsewhere(flat)
        with contextlib.nullcontext() if away is None else torch.cuda.device(away):
            found = self._outputs("grad", flat, given)
            if found is None:
                found = self._recomputed(inputs, state, gradients)
            wanted = [t for v in self.graded(flat) for t in tensors_of(v)]
            if len(found) != len(wanted):
                raise CandidateError(
                    f"{self.name}: grad returned {len(found)} gradients for {len(wanted)} floating "
                    "inputs and trainable weights"
                )
            filled = [torch.zeros_like(t) if g is None else g for g, t in zip(found, wanted)]
            return self._direct.own(
                filled, [*flat, *outputs, *(g for g in gradients if g is not None)]
            )

    def fake_backward(
        self, gradients: Sequence[Any], outputs: Sequence[Any], *flat: Any
    ) -> list[Any]:
        import torch

        wanted = [t for v in self.graded(flat) for t in tensors_of(v)]
        return [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in wanted]

    def graded(self, flat: Sequence[Any]) -> list[Any]:
        """The arguments, with None for those that a candidate gives no gradient of."""
        flags = [True] * len(self.domain.arguments)
        flags += [name in self.reference.trainable for name in self.domain.state]
        return [v if flag and _is_floating(v) else None for flag, v in zip(flags, flat)]

    def _recomputed(
        self, inputs: Sequence[Any], state: Mapping[str, Any], gradients: Sequence[Any]
    ) -> tuple[Any, ...]:
        """The reference's gradients. torch.func works below autograd, where autograd.grad cannot."""
        import torch

        flat = [*inputs, *state.values()]

        graded = self.graded(flat)

        def of(*varied: Any) -> Any:
            fresh = iter(varied)
            full = [v if g is None else _refill(v, fresh) for v, g in zip(flat, graded)]
            outputs = outputs_of(self.reference(*self.split(full)))
            return tuple(o for o in outputs if o.is_floating_point())

        pull: Any = torch.func.vjp(of, *(t for v in graded for t in tensors_of(v)))[1]
        return tuple(pull(tuple(g for g in gradients if g is not None)))

    def _outputs(
        self, function: str, flat: Sequence[Any], given: tuple[Any, ...]
    ) -> tuple[Any, ...] | None:
        """The kernel's answer, or None where the reference must answer."""
        word, why = self._decision(flat)
        if word == CHOSEN:
            return None
        if word:
            self._count(word, why)
            return None
        try:
            returned = self._function(function)(*given)
        except (ToolchainError, ImportError) as error:
            self._broken = f"its kernel cannot be built here: {error}"
            self._decisions.clear()
            self._count("toolchain", self._broken)
            return None
        if function == "run":
            return outputs_of(returned)
        return tuple(returned) if isinstance(returned, (list, tuple)) else (returned,)

    def _decision(self, flat: Sequence[Any]) -> tuple[str, str]:
        """("", "") for the kernel; CHOSEN, or a reason against the kernel, for the reference.

        Remembered for calls that look the same.
        """
        key = self._direct.looks(flat)
        found = self._decisions.get(key)
        if found is None:
            if len(self._decisions) >= 4096:
                self._decisions.clear()
            found = self._decisions[key] = self._decide(flat)
        return found

    def _decide(self, flat: Sequence[Any]) -> tuple[str, str]:
        if self.cpu == "reference" and not any(t.is_cuda for v in flat for t in tensors_of(v)):
            return CHOSEN, ""
        if self._broken:
            return "toolchain", self._broken
        answers = [domain.why_outside(*self.split(flat)) for domain in self.domains]
        return min(answers, key=lambda found: found[0] != "")

    def _count(self, word: str, why: str) -> None:
        first = not self.reasons
        self.reasons[word] += 1
        self.last_fallback = why
        if first:
            warnings.warn(
                f"{NAMESPACE}::{self.name} uses its reference: {why}. Further calls like this are "
                "counted in `fallbacks` without a warning.",
                OperatorFallback,
                stacklevel=5,
            )

    def _function(self, name: str) -> Callable[..., Any]:
        if self._module is None:
            self._module = _execute(self.folder / "kernel" / ENTRY)
        if name in self._module:
            return self._module[name]
        if name == "run" and "ModelNew" in self._module:
            self._module["run"] = _run_of_model(self._module, self.reference)
            return self._module["run"]
        raise CandidateError(f"{self.folder / 'kernel' / ENTRY} defines no {name!r}")


def schema_of(domain: Domain, outputs: int) -> str:
    """The operator's schema without its name.

    Inputs keep the names of the reference's forward; weights follow, dots made underscores.
    """
    names = unique([*(a.name for a in domain.arguments), *domain.state])
    kinds = [*(_schema_type(a) for a in domain.arguments), *("Tensor" for _ in domain.state)]
    listed = ", ".join(f"{kind} {name}" for kind, name in zip(kinds, names))
    result = "Tensor" if outputs == 1 else "(" + ", ".join(["Tensor"] * outputs) + ")"
    return f"({listed}) -> {result}"


def register(body: Body, schema: str, differentiable: bool, own_gradient: bool) -> Any:
    """Enter the operator and give its overload `torch.ops.warpsmith.<name>.default`.

    The torch library is kept alive by the table of loaded operators.
    """
    import torch

    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    backward = None
    try:
        _define(library, body.name, schema, body.forward, body.fake)
        if differentiable and own_gradient:
            backward = f"{body.name}_backward"
            inner = schema.split(")")[0].removeprefix("(")
            _define(
                library,
                backward,
                f"(Tensor?[] gradients, Tensor[] outputs, {inner}) -> Tensor[]",
                body.backward,
                body.fake_backward,
            )
        _add_gradient(library, body, differentiable, backward)
    except RuntimeError as error:
        raise OperatorError(f"torch refuses {NAMESPACE}::{body.name}{schema}: {error}") from error
    return getattr(getattr(torch.ops, NAMESPACE), body.name).default, library


def _define(library: Any, name: str, schema: str, run: Any, fake: Any) -> None:
    import torch

    tags = [torch.Tag.pt2_compliant_tag]
    if hasattr(torch.Tag, "needs_exact_strides"):
        tags.append(torch.Tag.needs_exact_strides)
    library.define(name + schema, tags=tuple(tags))
    for key in ("CPU", "CUDA"):
        library.impl(name, run, key)
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)


def _add_gradient(library: Any, body: Body, differentiable: bool, backward: str | None) -> None:
    import torch

    def remember(ctx: Any, inputs: Any, output: Any) -> None:
        # a tensor leaves a 0, a list of tensors its length, any other argument itself in a tuple
        ctx.kept = [
            len(v) if _is_tensor_list(v) else 0 if isinstance(v, torch.Tensor) else (v,)
            for v in inputs
        ]
        kept_outputs = outputs_of(output) if backward is not None else ()
        ctx.save_for_backward(*(t for v in inputs for t in tensors_of(v)), *kept_outputs)
        if not differentiable:
            ctx.mark_non_differentiable(*outputs_of(output))

    def gradients(ctx: Any, *of_outputs: Any) -> tuple[Any, ...]:
        flat, outputs = _restore(ctx)
        if not differentiable:
            return tuple(None for _ in flat)
        ungraded = (n and g is None for n, g in zip(ctx.needs_input_grad, body.graded(flat)))
        if backward is not None and not any(ungraded):
            operator = getattr(getattr(torch.ops, NAMESPACE), backward)
            given = [
                g.contiguous() if o.is_floating_point() else None
                for o, g in zip(outputs, of_outputs)
            ]
            found = iter(operator(given, outputs, *flat))
            return tuple(_refill(value, found) for value in body.graded(flat))
        inputs, state = body.split(flat)
        of_inputs, of_state = body.reference.gradients(inputs, state, of_outputs)
        return (*of_inputs, *of_state.values())

    torch.library.register_autograd(
        f"{NAMESPACE}::{body.name}", gradients, setup_context=remember, lib=library
    )
    if backward is not None:
        torch.library.register_autograd(
            f"{NAMESPACE}::{backward}", _no_second_gradient, lib=library
        )


def _no_second_gradient(ctx: Any, *gradients: Any) -> Any:
    raise OperatorError(
        "this operator's own backward kernel has no second derivative; differentiate "
        "`operator.reference` instead"
    )


def _restore(ctx: Any) -> tuple[list[Any], list[Any]]:
    """The arguments, and the outputs where they were kept."""
    saved, flat = iter(ctx.saved_tensors), []
    for kept in ctx.kept:
        if isinstance(kept, tuple):
            flat.append(kept[0])
        else:
            flat.append([next(saved) for _ in range(kept)] if kept else next(saved))
    return flat, list(saved)


def _schema_type(argument: Argument) -> str:
    return argument.kind + ("?" if argument.optional else "")


def _is_tensor_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(tensors_of(value))


def _is_floating(value: Any) -> bool:
    tensors = tensors_of(value)
    return bool(tensors) and all(t.is_floating_point() for t in tensors)


def _refill(value: Any, fresh: Iterator[Any]) -> Any:
    """The value with each of its tensors replaced by the next fresh one; None stays None."""
    if _is_tensor_list(value):
        return [next(fresh) for _ in value]
    return None if value is None else next(fresh)


def _execute(entry: Path) -> dict[str, Any]:
    """Run a candidate's host module; it may import its own files."""
    sys.path.insert(0, str(entry.parent))
    try:
        return execute(entry.read_text(), entry)
    finally:
        sys.path.remove(str(entry.parent))


def _run_of_model(module: Mapping[str, Any], reference: Reference) -> Callable[..., Any]:
    """`run` made of the KernelBench form: ModelNew with the state put in."""
    import torch

    models: dict[Any, tuple[Any, set[str]]] = {}  # one for each device

    def model_on(device: Any) -> tuple[Any, set[str]]:
        if device not in models:
            model = module["ModelNew"](*reference.init_inputs)
            if not isinstance(model, torch.nn.Module):
                return models.setdefault(device, (model, set()))
            model = model.to(device).train(reference.training)
            models[device] = model, set(state_of(model))
        return models[device]

    def run(inputs: Sequence[Any], state: Mapping[str, Any]) -> Any:
        model, names = model_on(device_of(inputs, state))
        if not names:
            return model(*inputs)
        weights = {name: tensor for name, tensor in state.items() if name in names}
        return torch.func.functional_call(model, weights, tuple(inputs))

    return run
