"""Load PTX and launch its kernels on the virtual GPU."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from warpsmith.errors import LaunchError, UnknownName, UsageError

from . import build, layout
from .cache import CacheModel, CacheRun
from .checks import Checks
from .counters import Counters, collect
from .faults import Fault, Place, describe
from .findings import describe_finding, plain_name
from .loaded import Loaded
from .memory import Memory, empty
from .program import Program
from .ptx import ir
from .ptx.link import link
from .signature import Shape, info_of, pack
from .translate import translate
from .variables import Variables

if TYPE_CHECKING:
    from .textures import Surface, Texture

_SCHEDULES = ("default", "reverse", "random")


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """What a launch did. `fault` is the first error, or None; `findings` all distinct problems with
    checks, warnings too, in the order they were found (without checks: the fault alone)."""

    counters: Counters
    fault: Fault | None
    printed: str
    seconds: float
    early_collectives: int = 0  # `.sync` instructions that ran though member lanes were elsewhere
    findings: tuple[Fault, ...] = ()
    unchecked: int = 0  # tensors too large for the shadow memory of race checks: not checked
    scale: float = 1.0  # of the counters: blocks of the grid over blocks that ran, see `sample`


class Module:
    """A loaded PTX file: launch its kernels as often as wanted."""

    def __init__(self, ptx: str, name: str = "kernel.ptx", linked: Sequence[str] = ()):
        self.name = name
        self.text = ptx
        self._texts = (ptx, *linked)
        self.parsed = _parsed(*self._texts)
        self.kernels = {
            f.name: info_of(self.parsed, f)
            for f in self.parsed.functions.values()
            if f.entry and f.defined
        }
        self._variables: Variables | None = None
        self._loaded: dict[str, Loaded] = {}
        self._bound: dict[str, Texture | Surface] = {}

    def __repr__(self) -> str:
        return f"vgpu.load({self.name!r}): {', '.join(self.kernels)}"

    def prepare(self, kernel: str) -> Loaded:
        """Translate and build a kernel now instead of at its first launch."""
        if kernel not in self.kernels:
            raise UnknownName("kernel", kernel, self.kernels)
        if kernel not in self._loaded:
            if self._variables is None:
                self._variables = Variables(self.parsed)
            program = _translated(self._texts, kernel)
            self._loaded[kernel] = Loaded(program, self._variables)
        return self._loaded[kernel]

    def variable(self, name: str) -> np.ndarray:
        """The bytes of a `.global` or `.const` variable, to read or to write between launches."""
        if self._variables is None:
            self._variables = Variables(self.parsed)
        return self._variables.bytes_of(name)

    def bind(self, name: str, texture: Texture | Surface) -> None:
        """Let a module's own `.texref` or `.surfref` stand for a texture or surface from now on."""
        self.variable(name).view(np.uint64)[0] = texture.handle
        self._bound[name] = texture

    def launch(
        self, kernel: str, grid: Sequence[int], block: Sequence[int],
        args: Sequence[int | float | bytes], *, shared_bytes: int = 0,
        cluster: Sequence[int] = (1, 1, 1), cooperative: bool = False,
        memory: Memory | None = None, count: bool = True,
        max_instructions: int = 20_000_000_000, max_seconds: float = 60.0,
        schedule: str = "default", seed: int = 0, workers: int = 1, checks: Checks | None = None,
        cache: CacheModel | None = None, sample: int | None = None,
    ) -> LaunchResult:  # fmt: skip
        """Run a kernel on `grid` blocks of `block` threads and wait for it.

        args: one per parameter: host addresses as int, scalars as int or float, or the exact bytes.
        memory: the table that global accesses are checked against; None checks only null and
        alignment. count: keep the memory counters. schedule: "default", "reverse" or "random" order
        of warps, groups and blocks. The launch stops with a fault of kind "step-budget" after
        `max_instructions` thread instructions or `max_seconds`. checks: run under the sanitizer, in
        one worker whatever `workers` says; None: only bounds, alignment, null and const.
        cache: also estimate what L1, L2 and DRAM do (`Counters.cache`); it needs counting and the
        default schedule, and runs on one worker.
        sample: of a larger grid run only about so many blocks, from its beginning, middle and end, and
        scale their counters to the whole grid; outputs are then incomplete.

        Raises LaunchError when the launch does not fit the kernel, UnsupportedInstruction when the
        kernel uses what the virtual GPU does not have. What the kernel does wrong is a value:
        `result.fault`.
        """
        loaded = self.prepare(kernel)
        info = self.kernels[kernel]
        shape = Shape.of(info, loaded.program, grid, block, cluster, shared_bytes)
        params = pack(info, args)
        if schedule not in _SCHEDULES:
            raise UnknownName("schedule", schedule, _SCHEDULES)
        launch = _Launch(self, loaded, shape, params, memory, count)
        record = launch.record
        if cache is not None:
            if not count or schedule != "default":
                raise UsageError("a cache model needs count=True and schedule='default'")
            launch.follow(cache)
        if cooperative:
            record.grid_workspace = loaded.variables.fresh_grid_workspace()
        record.cooperative, record.seed = int(cooperative), seed
        record.schedule = _SCHEDULES.index(schedule)
        record.max_instructions, record.max_seconds = max_instructions, max_seconds
        if checks is not None and checks.bits:
            record.checks, record.max_findings = checks.bits, checks.max_findings
        if sample is not None:
            if sample < 1 or cooperative or cache is not None or record.checks:
                raise UsageError(
                    f"sample={sample}: expected at least one block, and no cooperative launch, cache "
                    "model or checks, which need every block."
                )
            launch.sample = sample
        return launch.run(workers)


@lru_cache(64)
def _parsed(*texts: str) -> ir.Module:
    return link(texts)


@lru_cache(256)
def _translated(texts: tuple[str, ...], kernel: str) -> Program:
    return translate(_parsed(*texts), kernel)


def load(ptx: str, *, name: str = "kernel.ptx", link: Sequence[str] = ()) -> Module:
    """Parse PTX. Kernels are translated and built when first launched, then kept.

    link: further PTX texts, as of `nvcc -rdc=true`, whose definitions meet the `.extern` ones here.
    Raises PtxSyntaxError for malformed text, PtxError for a name that two texts define.
    """
    return Module(ptx, name, link)


class _Launch:
    """One launch: fills the runtime's records, runs the workers, reads the results."""

    def __init__(self, module: Module, loaded: Loaded, shape: Shape, params: bytes,
                 memory: Memory | None, count: bool):  # fmt: skip
        self.module, self.loaded, self.shape = module, loaded, shape
        self.count = count
        self.cache: CacheRun | None = None
        self.sample: int | None = None  # blocks to run of a larger grid
        self.scale = 1.0  # of the whole grid to the blocks that ran
        room = empty(len(params) + 16)  # aligned, as tensor maps among the parameters must be
        room[:] = np.frombuffer(params + bytes(16), np.uint8)
        self.params = (ctypes.c_char * room.nbytes).from_buffer(room.data)
        self.fixed = loaded.with_parameters(params)
        self.allowed = loaded.variables.joined(memory or Memory())
        self.allowed.register(
            ctypes.addressof(self.params), len(self.params), "kernel parameters", readonly=True
        )
        ranks = shape.cluster[0] * shape.cluster[1] * shape.cluster[2]
        self.window_bytes = -(-shape.shared_bytes // 1024) * 1024 + 1024
        self.windows = empty(ranks * self.window_bytes + 1024) if ranks > 1 else None
        if self.windows is not None:  # blocks of a cluster reach each other's shared memory
            address = int(self.windows.ctypes.data)
            self.allowed.register(address, self.windows.nbytes, "shared memory of the cluster")
        self.table = self.allowed.table(count) if memory is not None else None
        self.record = self._record(len(params))

    def _record(self, param_bytes: int) -> layout.VgLaunch:
        shape, program, variables = self.shape, self.loaded.program, self.loaded.variables
        threads = shape.block[0] * shape.block[1] * shape.block[2]
        record = layout.VgLaunch(
            ops=self.loaded.ops.ctypes.data, threads_per_block=threads,
            warps_per_block=-(-threads // 32), block_count=program.block_count,
            site_count=len(program.instructions), frame_bytes=program.frame_bytes,
            stack_bytes=program.stack_bytes, fixed_bytes=len(program.fixed_image),
            local_bytes=program.local_bytes, frame_local_bytes=program.frame_local_bytes,
            dynamic_shared_bytes=shape.dynamic_bytes, shared_bytes=shape.shared_bytes,
            params=ctypes.addressof(self.params), param_bytes=param_bytes,
            fixed_image=self.fixed.ctypes.data, counting=int(self.count),
            heap=variables.heap.ctypes.data, heap_bytes=variables.heap.nbytes,
            heap_used=variables.heap_used.ctypes.data,
        )  # fmt: skip
        record.grid[:], record.block[:], record.cluster[:] = shape.grid, shape.block, shape.cluster
        record.special[:] = self.loaded.special
        if self.table is not None:
            record.table, record.table_count = self.table.address, self.table.count
        return record

    def follow(self, model: CacheModel) -> None:
        """Feed the launch's accesses to a cache model."""
        x, y, z = self.shape.cluster
        self.cache = CacheRun(model, self.loaded.program.instructions, x * y * z)
        self.record.cache = self.cache.address

    def run(self, workers: int) -> LaunchResult:
        record, shape = self.record, self.shape
        blocks = shape.grid[0] * shape.grid[1] * shape.grid[2]
        ranks = shape.cluster[0] * shape.cluster[1] * shape.cluster[2]
        record.resident_blocks = blocks if record.cooperative else ranks
        alone = record.cooperative or record.checks or ranks > 1 or self.cache
        workers = 1 if alone else max(1, min(workers, blocks // ranks))
        record.parallel = int(workers > 1)
        bounds = [ranks * (blocks // ranks * i // workers) for i in range(workers + 1)]
        spans = list(itertools.pairwise(bounds))
        if self.sample is not None and self.sample < blocks:
            spans, workers = sampled(blocks // ranks, self.sample // ranks, ranks), 1
            self.scale = blocks / sum(last - first for first, last in spans)
        parts = [_Worker(record, first, last) for first, last in spans]
        for part in parts:
            part.others = parts
            if self.windows is not None:
                part.raw.cluster_shared = -(-int(self.windows.ctypes.data) // 1024) * 1024
                part.raw.cluster_stride = self.window_bytes
        started = time.perf_counter()
        if workers == 1:
            for part in parts:
                part.run()
        else:
            threads = [threading.Thread(target=part.run) for part in parts]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        seconds = time.perf_counter() - started
        return self._result(parts, seconds)

    def _result(self, parts: list[_Worker], seconds: float) -> LaunchResult:
        findings = self._findings(parts)
        return LaunchResult(
            self._counters(parts), next((f for f in findings if f.severity == "error"), None),
            b"".join(p.printed for p in parts).decode(errors="replace"),
            seconds, sum(p.early_collectives for p in parts), findings,
            sum(int(p.raw.unchecked) for p in parts), self.scale,
        )  # fmt: skip

    def _findings(self, parts: list[_Worker]) -> tuple[Fault, ...]:
        """What the sanitizer recorded, then what ended the launch."""
        kernel = self.loaded.program.kernel
        found = [
            describe_finding(raw, self.allowed, kernel, self._place, self._shared())
            for part in parts
            for raw in part.findings
        ]
        fatal = next((p.fault for p in parts if p.fault is not None), None)
        if fatal is not None:
            found.append(describe(fatal, self.allowed, kernel, self._place))
        return tuple(found)

    def _place(self, site: int) -> Place:
        ins = self.loaded.program.instructions[site]
        source = ins.source
        if source is None:
            return Place("", 0, ins.line)
        return Place(PurePath(source.file).name, source.line, ins.line, source.inlined)

    def _shared(self) -> Memory:
        """The shared variables by their offsets, counted from 1: an address of 0 cannot be registered."""
        memory = Memory()
        for name, (offset, size) in self.loaded.program.shared_variables.items():
            rest = self.shape.shared_bytes - offset
            if size or rest > 0:
                memory.register(offset + 1, size or rest, plain_name(name))
        return memory

    def _counters(self, parts: list[_Worker]) -> Counters:

        program = self.loaded.program
        sites = np.sum([p.sites.view(np.uint64).reshape(-1, 9) for p in parts], axis=0)
        blocks = np.sum([p.blocks.view(np.uint64).reshape(-1, 2) for p in parts], axis=0)
        if self.scale != 1:
            sites = np.rint(sites * self.scale).astype(np.uint64)
            blocks = np.rint(blocks * self.scale).astype(np.uint64)
        of = np.asarray(program.instruction_blocks, np.intp)
        shape = self.shape
        return collect(
            program.instructions, blocks[of, 0], blocks[of, 1],
            sites.view(layout.SITE).reshape(-1),
            shape.grid, shape.block,
            unique_bytes=self.table.unique_bytes(self.scale) if self.table and self.count else (0, 0),
            cache=self.cache.results(build.runtime()) if self.cache else None,
        )  # fmt: skip


def sampled(clusters: int, wanted: int, ranks: int) -> list[tuple[int, int]]:
    """Up to three spans of blocks, at the beginning, middle and end of a grid: neighbors share data.

    >>> sampled(100, 12, 1)
    [(0, 4), (48, 52), (96, 100)]
    """
    each = max(1, wanted // 3)
    if 3 * each >= clusters:
        return [(0, clusters * ranks)]
    middle = (clusters - each) // 2
    return [(ranks * at, ranks * (at + each)) for at in (0, middle, clusters - each)]


class _Worker:
    """One host thread's part of a launch, and what it found."""

    def __init__(self, record: layout.VgLaunch, first: int, last: int):
        self.sites = np.zeros(max(1, record.site_count), layout.SITE)
        self.blocks = np.zeros(max(1, record.block_count), layout.BLOCK)
        self.raw = layout.VgWorker(
            launch=ctypes.pointer(record), sites=self.sites.ctypes.data,
            blocks=self.blocks.ctypes.data, first_block=first, last_block=last,
        )  # fmt: skip
        self.rows = (layout.VgFinding * (2 * record.max_findings))()
        self.raw.findings = ctypes.addressof(self.rows) if record.max_findings else None
        self.printed = b""
        self.others: list[_Worker] = []

    def run(self) -> None:
        library, raw = build.runtime(), ctypes.byref(self.raw)
        try:
            if library.vg_worker_open(raw):
                raise LaunchError("not enough memory for the launch's resident blocks.")
            library.vg_worker_run(raw)
            if (
                self.raw.fault.kind
            ):  # the launch is over: the other workers stop at their next check
                for other in self.others:
                    other.raw.stop = 1
            if self.raw.printed:
                self.printed = ctypes.string_at(self.raw.printed, self.raw.printed_bytes)
        finally:
            library.vg_worker_close(raw)

    @property
    def fault(self) -> layout.VgFault | None:
        return self.raw.fault if self.raw.fault.kind else None

    @property
    def findings(self) -> list[layout.VgFinding]:
        return list(self.rows[: self.raw.finding_count])

    @property
    def early_collectives(self) -> int:
        return int(self.raw.early_collectives)
