"""Run a candidate in this process: fresh guarded inputs, poisoned memory, typed endings."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import dataclasses
import random
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import CandidateError, DeviceError, DeviceUnavailable, MissingTool
from ..spec import Candidate, Outcome, Run, Samples, Target, Task, TimingPlan, Work, to_plain
from . import host, memory
from .endings import ending_of
from .findings import ordered
from .observe import observe
from .trace import recorded

TORCH_DEVICE = {"virtual": "cpu", "cuda": "cuda"}


class Local:
    """A Device without isolation: a crash of the candidate is a crash of this process.

    For debugging, and for the inside of a worker. `folder` is where candidates' files go; without
    one a temporary folder is made, and removed with the device.
    """

    def __init__(self, name: str, target: Target, *, folder: Path | None = None):
        self.name, self.target, self.modelled = name, target, name == "virtual"
        if name not in TORCH_DEVICE:
            raise DeviceUnavailable(f"no local device named {name!r}: expected virtual or cuda")
        self._device = TORCH_DEVICE[name]
        self._folder = folder or Path(tempfile.mkdtemp(prefix="warpsmith-"))
        self._programs: dict[str, host.Program] = {}
        self._close = weakref.finalize(self, _remove, None if folder else self._folder)

    def __repr__(self) -> str:
        return f"Local({self.name!r}, {self.target.name!r})"

    def run(
        self,
        work: Work,
        *,
        max_seconds: float = 60.0,
        count: bool | None = None,
        sanitize: Mapping[str, Any] | None = None,
    ) -> Run:
        """Run once; see `spec.Device.run`.

        count: collect the virtual GPU's counters; None does so for all but hidden cases.
        sanitize: run under the sanitizer of the virtual GPU, with these fields of `vgpu.Checks` and
        `schedule` and `seed`; what it finds is in `details["findings"]`, as plain data.

        Raises MissingTool where this machine lacks a compiler: that is not the candidate's fault.
        """
        start = time.monotonic()
        count = not work.case.hidden if count is None else count
        try:
            with observe(
                target=self.target, count=count, max_seconds=max_seconds, **_checks(sanitize)
            ) as seen:
                run = self._run(work, count)
        except MissingTool:
            raise
        except (Exception, SystemExit) as error:
            ending = ending_of(error, self._place(work.candidate))
            run = Run(ending.outcome, message=ending.message, source=ending.source)
            run = _with(run, details={"healthy": ending.healthy})
        return _with(
            run,
            launches=tuple(seen.launches),
            kernels=tuple(seen.kernels),
            printed="".join(seen.printed),
            details={**run.details, "notes": list(seen.notes), **_found(seen, sanitize)},
            seconds=time.monotonic() - start,
        )

    def time(self, task: Task, work: Work, plan: TimingPlan) -> Samples:
        """See `spec.Device.time`; only a real GPU has a clock."""
        from .timing import time_on_cuda

        if self.modelled:
            raise DeviceError(
                "the virtual GPU has no clock: measure models its times from counters"
            )
        return time_on_cuda(task, work, plan, self.program(work.candidate))

    def operators_of(self, call: Callable[[], Any]) -> list[dict[str, Any]]:
        """What PyTorch operators `call` is made of, and what each one moves and computes."""
        found: list[dict[str, Any]] = []
        with recorded(found):
            call()
        return found

    def program(self, candidate: Candidate) -> host.Program:
        """The candidate's loaded module, kept while the device lives."""
        if candidate.id not in self._programs:
            self._programs[candidate.id] = host.load(candidate, self._place(candidate))
        return self._programs[candidate.id]

    def close(self) -> None:
        self._close()

    def _place(self, candidate: Candidate) -> Path:
        return self._folder / candidate.id

    def _run(self, work: Work, count: bool) -> Run:
        operators: list[Any] = []
        with memory.poisoned(self._device) as tailed:
            _seed(work.seed)
            program = self.program(work.candidate)
            call = _Call(work, program, self._device)
            with recorded(operators) if self.modelled and count else contextlib.nullcontext():
                outputs = call.forward()
                gradients = call.backward(outputs)
            if self._device != "cpu":
                _synchronize()
        past = [i for i, t in enumerate(outputs) if memory.tail_written(t, tailed)]
        if past:
            said = f"wrote past the end of output {past[0]}: is the index checked against the size?"
            return Run(Outcome.OUT_OF_BOUNDS, message=said)
        return call.report(outputs, gradients, operators)


def _checks(sanitize: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of `observe` for a run under the sanitizer."""
    if sanitize is None:
        return {}
    from ..vgpu import Checks

    options = {n: v for n, v in sanitize.items() if n in ("schedule", "seed")}
    return options | {"checks": Checks(**{n: v for n, v in sanitize.items() if n not in options})}


def _found(seen: Any, sanitize: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if sanitize is None else {"findings": [to_plain(f) for f in ordered(seen.findings)]}


class _Call:
    """One call of a candidate: its copies of the inputs, and what became of them."""

    def __init__(self, work: Work, program: host.Program, device: str):
        self.work, self.device = work, device
        copies: dict[int, memory.Placed] = {}  # one tensor given twice is copied once
        self.inputs = [_placed(v, device, copies) for v in work.inputs]
        self.state = {n: memory.place(t, device) for n, t in work.state.items()}
        init_inputs = [_tensor(_placed(v, device, copies)) for v in work.init_inputs]
        given = {n: p.tensor for n, p in self.state.items()}
        self.bound = program.bind(init_inputs, given, device)
        self.bound.train(work.training)

    @property
    def _arguments(self) -> list[Any]:
        return [_tensor(v) for v in self.inputs]

    def forward(self) -> tuple[Any, ...]:
        import torch

        wants_gradients = self.work.gradients is not None
        if wants_gradients:
            for tensor in self._differentiable():
                tensor.requires_grad_()
        with torch.set_grad_enabled(wants_gradients and self.bound.grad is None):
            return host.outputs_of(self.bound(self._arguments), self.device)

    def backward(self, outputs: Sequence[Any]) -> tuple[Any, ...]:
        """Gradients of the floating-point inputs, then of the state that requires grad, in order.

        None where there is none.
        """
        if self.work.gradients is None:
            return ()
        gradients = [_tensor(_placed(g, self.device, {})) for g in self.work.gradients]
        if self.bound.grad is not None:
            state = self.bound.state
            given = self.bound.grad(gradients, self._arguments, outputs, state)
            return host.outputs_of(given, self.device)
        return self._autograd(outputs, gradients)

    def _autograd(self, outputs: Sequence[Any], gradients: Sequence[Any]) -> tuple[Any, ...]:
        import torch

        pairs = [(o, g) for o, g in zip(outputs, gradients) if g is not None]
        cut = [i for i, (o, _) in enumerate(pairs) if not getattr(o, "requires_grad", False)]
        if cut:
            raise CandidateError(
                f"output {cut[0]} has no gradient: define grad(gradients, inputs, outputs, state), or "
                "compute with torch operators or an autograd.Function"
            )
        wanted = self._differentiable()
        return torch.autograd.grad(
            [o for o, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True
        )

    def _differentiable(self) -> list[Any]:
        import torch

        tensors = [t for t in self._arguments if isinstance(t, torch.Tensor)]
        learned = [self.bound.state[n] for n, t in self.work.state.items() if t.requires_grad]
        return [t for t in tensors if t.is_floating_point()] + learned

    def report(
        self, outputs: Sequence[Any], gradients: Sequence[Any], operators: Sequence[Any]
    ) -> Run:
        changed = {
            i: v for i, v in enumerate(self.inputs) if isinstance(v, memory.Placed) and v.changed()
        }
        details: dict[str, Any] = {
            "after": {str(i): _to_cpu(v.tensor) for i, v in changed.items()},
            "changed_state": [n for n, v in self.state.items() if self._state_changed(n, v)],
            "aliases": _aliases(outputs, self._arguments),
            "poison": [memory.POISON_WORD, memory.POISON_BYTE],
            "operators": list(operators),
        }
        broken = self._broken_guards()
        if broken:
            message = f"wrote outside {broken}: bytes just before or after it have changed"
            return Run(Outcome.OUT_OF_BOUNDS, message=message, details=details)
        return Run(
            Outcome.RIGHT,
            outputs=tuple(_to_cpu(o) for o in outputs),
            gradients=tuple(_to_cpu(g) for g in gradients),
            changed_inputs=tuple(changed),
            details=details,
        )

    def _state_changed(self, name: str, placed: memory.Placed) -> bool:
        used = self.bound.state.get(name)
        return dataclasses.replace(placed, tensor=placed.tensor if used is None else used).changed()

    def _broken_guards(self) -> str:
        names = {f"input {i}": v for i, v in enumerate(self.inputs)}
        names |= {f"state {n!r}": v for n, v in self.state.items()}
        for name, value in names.items():
            if isinstance(value, memory.Placed) and value.guards_broken():
                return name
        return ""


def _placed(value: Any, device: str, copies: dict[int, memory.Placed]) -> Any:
    """Tensors become guarded copies; lists and tuples keep their form with plain copies inside."""
    import torch

    if isinstance(value, torch.Tensor):
        if id(value) not in copies:
            copies[id(value)] = memory.place(value, device)
        return copies[id(value)]
    if isinstance(value, (list, tuple)):
        return type(value)(_tensor(_placed(v, device, copies)) for v in value)
    return value


def _tensor(value: Any) -> Any:
    return value.tensor if isinstance(value, memory.Placed) else value


def _to_cpu(value: Any) -> Any:
    """A contiguous CPU copy that shares no memory with the candidate."""
    if not hasattr(value, "detach"):
        return value
    import torch

    return value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)


def _aliases(outputs: Sequence[Any], inputs: Sequence[Any]) -> list[list[int]]:
    """Pairs (output, input) that share memory."""
    homes = [_home(t) for t in inputs]
    pairs = (
        (o, i) for o, t in enumerate(outputs) for i, h in enumerate(homes) if h and h == _home(t)
    )
    return [list(pair) for pair in pairs]


def _home(tensor: Any) -> int:
    return tensor.untyped_storage().data_ptr() if hasattr(tensor, "untyped_storage") else 0


def _seed(seed: int) -> None:
    import torch

    torch.manual_seed(seed)
    random.seed(seed)


def _synchronize() -> None:
    import torch

    torch.cuda.synchronize()


def _with(run: Run, **changes: Any) -> Run:
    return dataclasses.replace(run, **changes)


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
