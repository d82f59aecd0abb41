"""Write candidate.py: the host code that takes tensors, allocates results and launches the kernels."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .handling import size_text
from .ir import Buffer, Region, Size, Text, TorchCall, buffers_in
from .kernel import Kernel, render
from .plan import Plan
from .writer import Argument


class Host:
    """Lines of the host function, written step by step."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.ready: set[Buffer] = set()
        self.taking: list[str] = []
        self.checks: list[str] = []
        self.lines: list[str] = []
        named = {b.source: b.name for b in plan.inputs}
        self.symbols = {}
        for symbol, source in plan.captured.sizes.items():
            tensor, _, dim = source.rpartition(".shape")
            self.symbols[symbol] = f"{named[tensor]}.shape{dim}"

    def size(self, size: Size) -> str:
        return size_text(size, self.symbols)

    def shape(self, sizes: Iterable[Size]) -> str:
        inner = ", ".join(self.size(s) for s in sizes)
        return f"({inner},)" if inner and "," not in inner else f"({inner})"

    def take(self) -> None:
        """Bind the inputs and parameters that are used, and check the sizes that were folded in."""
        for buffer in self.plan.inputs:
            text = f"float({buffer.source})" if buffer.scalar else f"{buffer.source}.contiguous()"
            self.taking.append(f"{buffer.name} = {text}")
            self.ready.add(buffer)
            if buffer.source.startswith("inputs") and not buffer.scalar:
                self._check(buffer)

    def _check(self, buffer: Buffer) -> None:
        own = {f"{buffer.name}.shape[{d}]" for d in range(len(buffer.shape))}
        texts = [self.size(s) for s in buffer.shape]
        if set(texts) <= own and len(set(texts)) == len(texts):
            return
        shape = f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
        self.checks.append(f"if {buffer.name}.shape != {shape}:")
        self.checks += [
            "    raise ValueError(",
            f'        f"{buffer.name} is {{tuple({buffer.name}.shape)}}; "',
            f'        f"this kernel was made for {{{shape}}}"',
            "    )",
        ]

    def need(self, buffers: Iterable[Buffer]) -> None:
        """Take the views that the next step reads."""
        for buffer in buffers:
            if buffer in self.ready or buffer.base is None:
                continue
            self.need([buffer.base])
            self.lines.append(f"{buffer.name} = {buffer.view}")
            self.ready.add(buffer)

    @property
    def device(self) -> str:
        return f"{next(b.name for b in self.plan.inputs if not b.scalar)}.device"

    def allocate(self, buffer: Buffer) -> None:
        self.lines.append(
            f"{buffer.name} = torch.empty({self.shape(buffer.shape)}, "
            f"dtype=torch.{buffer.dtype}, device={self.device})"
        )
        self.ready.add(buffer)

    def launch(self, region: Region, kernel: Kernel, language: str) -> None:
        """Allocate what a region writes and launch its kernel on it."""
        loads = [a.host for a in kernel.arguments if a.kind == "load"]
        self.need(loads)
        for _, _, buffer in region.stores:
            self.allocate(buffer)
        for argument in kernel.arguments:
            if argument.kind in ("size", "number"):
                self.lines.append(f"{argument.name} = {self.size(argument.host)}")
        self.lines += kernel.setup
        names = {a.name for a in kernel.arguments if a.kind == "size"}
        space = " * ".join(n for n in ("batches", "rows", "cols") if n in names)
        if language == "cuda":
            tensors = [
                f"{b.name if b.base is None else b.base.name}.numel()" for b in dict.fromkeys(loads)
            ]
            self.lines.append(
                f"bits = 32 if max({', '.join([space, *tensors])}) < 2**30 else 64"
                if tensors
                else f"bits = 32 if {space} < 2**30 else 64"
            )
        arguments = [self.argument(a) for a in kernel.arguments]
        guard = space if region.kind == "contract" else "rows"
        self.lines.append(f"if {guard} > 0:")
        if kernel.scratch:
            self.lines.append(
                f"    scratch = torch.empty({kernel.scratch}, dtype=torch.uint8, device={self.device})"
            )
            arguments.append("scratch")
        current: Kernel | None = kernel
        while current is not None:
            self.lines.append("    " + self.call(current, arguments, language))
            current = current.second

    def call(self, kernel: Kernel, arguments: list[str], language: str) -> str:
        if language == "cuda":
            return f"{kernel.name}[bits][{kernel.grid}, {kernel.block}]({', '.join(arguments)})"
        options = ", ".join(f"{k}={v}" for k, v in (kernel.parameters or {}).items())
        return f"{kernel.block or kernel.name}[{kernel.grid}]({', '.join(arguments)}, {options})"

    def argument(self, argument: Argument) -> str:
        if argument.kind == "stride":
            buffer, place = argument.host
            return f"{buffer.name}.stride({place})"
        if argument.kind in ("load", "store"):
            return str(argument.host.name)
        return argument.name

    def torch_call(self, call: TorchCall) -> None:
        self.need(buffers_in((call.arguments, call.keywords)))
        parts = [self.python(a) for a in call.arguments]
        parts += [f"{k}={self.python(v)}" for k, v in call.keywords.items()]
        names = ", ".join(b.name for b in call.outputs)
        self.lines.append(f"{names} = torch.ops.{call.target}({', '.join(parts)})")
        wanted = [b for b in call.outputs if b in self.plan.read]
        self.lines += [f"{b.name} = {b.name}.contiguous()" for b in wanted]
        self.ready.update(call.outputs)

    def python(self, value: Any) -> str:
        if isinstance(value, Buffer):
            return value.name
        if isinstance(value, Text):
            return value.code
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(self.python(v) for v in value)}]"
        if type(value).__name__ == "device":
            return self.device
        if isinstance(value, float) and not abs(value) < float("inf"):
            return f"float('{value}')"
        return repr(value)

    def result(self) -> str:
        self.need([o for o in self.plan.outputs if isinstance(o, Buffer)])
        names = [o.name if isinstance(o, Buffer) else repr(o) for o in self.plan.outputs]
        return (
            names[0]
            if self.plan.captured.single
            else f"({', '.join(names)}{',' if len(names) == 1 else ''})"
        )


def host_code(plan: Plan, kernels: dict[Region, Kernel], language: str, about: str) -> str:
    """The text of candidate.py. kernels: one for each region of the plan."""
    host = Host(plan)
    host.take()
    for step in plan.steps:
        if isinstance(step, TorchCall):
            host.torch_call(step)
        else:
            host.launch(step, kernels[step], language)
    result = host.result()
    chained = [k for kernel in kernels.values() for k in _chain(kernel)]
    return render(
        "candidate.py.j2",
        about=about,
        language=language,
        kernels=chained,
        texts=[k.text for k in kernels.values()],
        file_of={
            k.name: f"{kernel.name}.cu" for kernel in kernels.values() for k in _chain(kernel)
        },
        libdevice=any("libdevice." in k.text for k in kernels.values()),
        blocks=any("blocks(" in k.grid for k in chained),
        taking=host.taking,
        checks=host.checks,
        lines=host.lines,
        result=result,
    )


def _chain(kernel: Kernel) -> list[Kernel]:
    chain = [kernel]
    while chain[-1].second is not None:
        chain.append(chain[-1].second)
    return chain
