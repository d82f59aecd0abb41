"""Run a launch on CPU tensors in the virtual GPU: register their memory, count, and raise its faults."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import KernelFault
from ..spec import Artifact, Target
from ..targets.carveout import l1_bytes, l2_bytes
from ..targets.occupancy import occupancy
from . import arguments, limits
from .arguments import Buffer, Mapped
from .findings import ordered
from .launch import Request
from .observe import Session

ALIGNMENT_BYTES = 256  # of every allocation on a GPU; less would change sectors, or trap
USUAL_REGISTERS = 32  # where no assembler was at hand
_MODULES_KEPT = 256

_modules: OrderedDict[str, Any] = OrderedDict()


class VirtualGpu:
    """The virtual GPU in the shape of one target. Nothing is kept between launches but code."""

    def __init__(self, target: Target):
        self.target = target

    def __repr__(self) -> str:
        return f"VirtualGpu(targets.get({self.target.name!r}))"

    def run(self, request: Request, session: Session | None = None) -> None:
        """Run a launch to its end. Raises KernelFault with source line, block and thread."""
        artifact = request.artifact
        limits.check(
            self.target, artifact, request.name, request.grid, request.block,
            request.shared_bytes, request.cooperative,
        )  # fmt: skip
        packed = [
            arguments.pack(request.name, i, p, a)
            for i, (p, a) in enumerate(zip(artifact.parameters, request.args))
        ]
        tensors = _Tensors()
        values = [tensors.value(p, v) for p, v in zip(artifact.parameters, packed)]
        tensors.place()
        result = module(artifact).launch(
            artifact.kernel,
            request.grid,
            request.block,
            [v.value() if isinstance(v, _Pointer | _Map) else v for v in values],
            shared_bytes=request.shared_bytes,
            cluster=artifact.cluster,
            cooperative=request.cooperative,
            memory=tensors.memory(session),
            count=session.count if session else False,
            **self._caches(request, tensors, session),
            **_budgets(session),
        )
        tensors.give_back()
        if session:
            _record(session, request, tensors, result)
        if result.fault is not None:
            raise _raised(ordered([result.fault, *result.findings])[0], request.name)

    def _caches(
        self, request: Request, tensors: _Tensors, session: Session | None
    ) -> dict[str, Any]:
        """The cache model of this launch on this target, where the session wants it."""
        if session is None or not (session.caches and session.count):
            return {}
        from ..vgpu.cache import CacheModel

        target, needs = self.target, request.artifact.resources
        shared = request.shared_bytes + needs.static_shared_bytes
        threads = request.block[0] * request.block[1] * request.block[2]
        registers = needs.registers or USUAL_REGISTERS
        fit = occupancy(target, threads, registers, shared, min(needs.barriers, 16))
        blocks = max(fit.blocks_per_sm, 1)
        reserved = target.shared_reserved_bytes if shared else 0
        l1 = l1_bytes(target, blocks * (shared + reserved))
        lines = sum(storage.nbytes for storage in tensors.storages) // 128
        return {
            "cache": CacheModel(target.sms, blocks, l1, l2_bytes(target), sample=_sample(lines))
        }


def _sample(lines: int) -> int:
    """Follow about 4096 lines of the tensors, and never less than one in 16."""
    return int(min(max(1 << (max(lines // 4096, 1).bit_length() - 1), 1), 16))


def module(artifact: Artifact) -> Any:
    """The artifact's PTX, loaded; the last few hundred stay loaded."""
    from ..vgpu.launch import load

    key = artifact.ptx
    if key not in _modules:
        _modules[key] = load(artifact.ptx, name=artifact.source_name or artifact.kernel)
        while len(_modules) > _MODULES_KEPT:
            _modules.popitem(last=False)
    _modules.move_to_end(key)
    return _modules[key]


@dataclass
class _Storage:
    """One stretch of host memory that tensors of a launch live in, and its aligned stand-in."""

    start: int
    nbytes: int
    readonly: bool = True
    copy: Any = None

    @property
    def end(self) -> int:
        return self.start + self.nbytes

    @property
    def shift(self) -> int:
        """From an address in the tensor's own memory to the one that the kernel sees."""
        return self.copy.ctypes.data - self.start if self.copy is not None else 0


@dataclass(frozen=True)
class _Pointer:
    buffer: Buffer
    tensors: _Tensors

    def value(self) -> int:
        if self.buffer.nbytes == 0:
            return 0 if self.buffer.address == 0 else self.buffer.address
        return self.buffer.address + self.tensors.storage(self.buffer).shift


@dataclass(frozen=True)
class _Map:
    mapped: Mapped
    tensors: _Tensors

    def value(self) -> bytes:
        address = _Pointer(self.mapped.buffer, self.tensors).value()
        return self.mapped.argument.map.encode(address)


@dataclass
class _Tensors:
    """The tensors of one launch. Storages that overlap count as one, so that aliases stay aliases."""

    named: list[tuple[str, Buffer]] = field(default_factory=list)
    storages: list[_Storage] = field(default_factory=list)

    def value(self, parameter: Any, packed: bytes | Buffer | Mapped | None) -> Any:
        if packed is None:
            return 0
        if isinstance(packed, Mapped):
            self.named.append((parameter.name or "tensor", packed.buffer))
            return _Map(packed, self)
        if isinstance(packed, bytes):
            return packed
        self.named.append((parameter.name or "tensor", packed))
        return _Pointer(packed, self)

    def place(self) -> None:
        """Join overlapping storages and copy those that a GPU's allocator would have aligned."""
        spans = sorted((b.start, b.start + b.nbytes, b.readonly) for _, b in self.named if b.nbytes)
        for start, end, readonly in spans:
            last = self.storages[-1] if self.storages else None
            if last is not None and start < last.end:
                last.nbytes = max(last.end, end) - last.start
                last.readonly = last.readonly and readonly
            else:
                self.storages.append(_Storage(start, end - start, readonly))
        for storage in self.storages:
            if storage.start % ALIGNMENT_BYTES:
                storage.copy = _aligned_copy(storage)

    def storage(self, buffer: Buffer) -> _Storage:
        return next(s for s in self.storages if s.start <= buffer.start < s.end)

    def memory(self, session: Session | None = None) -> Any:
        """The allocation table: every tensor under its parameter's name, and its storage's rest."""
        from ..vgpu.memory import Memory

        memory = Memory()
        for storage in self.storages:
            inside = [(n, b) for n, b in self.named if b.nbytes and self.storage(b) is storage]
            name, first = inside[0]
            names = "/".join(dict.fromkeys(n for n, _ in inside))
            memory.register(
                storage.start + storage.shift, storage.nbytes, names if len(inside) > 1 else name,
                storage.readonly, element_bytes=first.element_bytes,
                initialized=session is None or not session.takes_fresh(storage.start, dict(inside)),
            )  # fmt: skip
        return memory

    def give_back(self) -> None:
        """Write what the kernel wrote into aligned stand-ins back to the tensors."""
        for storage in self.storages:
            if storage.copy is not None and not storage.readonly:
                ctypes.memmove(storage.start, storage.copy.ctypes.data, storage.nbytes)

    def registrations(self) -> dict[str, tuple[int, int]]:
        return {name: (b.start, b.nbytes) for name, b in self.named}


def _aligned_copy(storage: _Storage) -> Any:
    from ..vgpu.memory import empty

    copy = empty(storage.nbytes)
    ctypes.memmove(copy.ctypes.data, storage.start, storage.nbytes)
    return copy


def _budgets(session: Session | None) -> dict[str, Any]:
    """What the session limits, under vgpu's names; its own defaults for the rest."""
    if session is None:
        return {}
    given = {
        "max_instructions": session.max_instructions,
        "max_seconds": session.remaining_seconds(),
        **{name: value for name, value in session.options.items() if name != "fresh"},
    }
    return {name: value for name, value in given.items() if value is not None}


def _record(session: Session, request: Request, tensors: _Tensors, result: Any) -> None:
    session.seconds += result.seconds
    session.tensors.append(tensors.registrations())
    session.findings.extend(result.findings)
    session.written.update(s.start for s in tensors.storages if not s.readonly)
    if result.printed:
        session.printed.append(result.printed)
    if session.count:
        session.counters.append(result.counters)
    request.seen_by(session, result.counters.as_dict() if session.count else None)


def _raised(fault: Any, name: str) -> KernelFault:
    error: KernelFault = fault if isinstance(fault, KernelFault) else fault.error()
    return replace(error, kernel=name)
