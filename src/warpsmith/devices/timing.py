"""Clock a candidate and its baselines on a CUDA GPU: rotated inputs, interleaved blocks, settled clocks.

Two modes, named in the samples. "device": every arm is run the faster of two ways, replayed from a
CUDA graph of many calls or as a batch of plain calls, so host time counts for none. (Graphs are not
always faster: a copy node moved 2.8 TB/s on an H200 where the plain copy moved 4.2.) "wall": batches
only, where the candidate or the reference cannot be captured; host time counts wherever the GPU
waits for it. GPU settings are never changed.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import DeviceError, UnknownName
from ..spec import Samples, Task, TimingPlan, Work
from . import memory
from .gpu_state import clocks, environment
from .host import Program, outputs_of

CANDIDATE = "candidate"
MOST_SETS = 128  # of inputs; tiny inputs then stay in L2, and the samples say so
FRESH_SETS = 4  # made by get_inputs; further ones are copies at other addresses
GRAPH_CALLS = 20  # at least, in one graph
LEAST_BLOCKS = 5
_WINDOW_MS, _WINDOWS, _AGREE = 50.0, 3, 0.01
_WARM_UP_SECONDS = 3.0


def time_on_cuda(task: Task, work: Work, plan: TimingPlan, program: Program) -> Samples:
    """See `spec.Device.time`. Runs in the process that owns the GPU.

    Raises DeviceError when the candidate fails, or gives another result while it is timed;
    UnknownName for a baseline that does not exist.
    """
    for name in plan.baselines:
        if name not in BASELINES:
            raise UnknownName("baseline", name, BASELINES)
    import torch

    with torch.no_grad():
        sets = _make_sets(task, work)
        arms, missing = _arms(task, work, plan, program, sets)
        mode = "device" if _capture_all(arms, sets, missing) else "wall"
        if mode == "wall":
            for arm in arms.values():
                arm.batch(sets)
        warm_seconds = _warm_up(arms[CANDIDATE])
        facts = environment() | _facts(mode, sets, warm_seconds)
        facts["ways"] = {name: "graph" if arm.graph else "batch" for name, arm in arms.items()}
        blocks, readings = _blocks(arms, plan, sets, work.seed)
        _recheck(arms[CANDIDATE], sets)
    return Samples(
        blocks=tuple(blocks),
        missing=missing,
        environment=facts | _clock_facts(readings),
        method=f"CUDA events, {len(blocks)} interleaved blocks, {_METHODS[mode]}",
    )


_METHODS = {
    "device": "each arm the faster of CUDA graph and plain batch (device time)",
    "wall": "batches of calls (device time, and host time where the GPU waits)",
}


# ── what is called ──


@dataclass
class _Sets:
    """Several sets of inputs at different addresses, so that calls find their data in DRAM."""

    inputs: list[list[Any]]
    bytes_each: int

    def __len__(self) -> int:
        return len(self.inputs)

    def rotate_contents(self) -> None:
        """Move every set's contents to the next set: new data at old addresses, same structure."""
        import torch

        for tensors in zip(*self.inputs):
            if not isinstance(tensors[0], torch.Tensor):
                continue
            last = tensors[-1].clone()
            for target, source in zip(reversed(tensors[1:]), reversed(tensors[:-1])):
                memory.flat_bytes(target).copy_(memory.flat_bytes(source))
            memory.flat_bytes(tensors[0]).copy_(memory.flat_bytes(last))


def set_count(bytes_each: int, l2_bytes: int, free_bytes: int) -> int:
    """How many sets of inputs: together twice the L2 cache, at least 2, within memory.

    >>> set_count(bytes_each=20 << 20, l2_bytes=50 << 20, free_bytes=80 << 30)
    5
    """
    wanted = max(2, math.ceil(2 * l2_bytes / max(bytes_each, 1)))
    fits = max(1, free_bytes // (4 * max(bytes_each, 1)))
    return min(wanted, fits, MOST_SETS)


def _make_sets(task: Task, work: Work) -> _Sets:
    import torch

    first = [_to_cuda(v) for v in work.inputs]
    size = sum(t.numel() * t.element_size() for t in first if isinstance(t, torch.Tensor))
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    count = set_count(size, l2_bytes, torch.cuda.mem_get_info()[0])
    sets = [first]
    for index in range(1, min(count, FRESH_SETS)):
        torch.manual_seed(work.seed + index)
        sets.append([_to_cuda(v) for v in task.get_inputs(**work.case.dims)])
    while len(sets) < count:
        sets.append([_to_cuda(v) for v in sets[len(sets) % FRESH_SETS]])
    return _Sets(sets, size)


def _to_cuda(value: Any) -> Any:
    """A copy with the same strides, in memory of its own."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    return memory.place(value.detach().cpu(), "cuda").tensor


@dataclass
class _Arm:
    """One thing that is timed: `call` on a set of inputs, and `launch`, which makes `calls` calls."""

    name: str
    call: Callable[[Sequence[Any]], Any]
    launch: Callable[[], Any] = lambda: None
    calls: int = 0
    graph: Any = None
    results: dict[int, Any] = field(default_factory=dict)  # by set, of the last call in a graph

    def capture(self, sets: _Sets) -> None:
        """Raises whatever a capture can raise; the arm can then still be batched."""
        import torch

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for index in range(3):
                self.call(sets.inputs[index % len(sets)])
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph, calls = torch.cuda.CUDAGraph(), graph_calls(len(sets))
        with torch.cuda.graph(graph):
            for index in range(calls):
                result = self.call(sets.inputs[index % len(sets)])
                if index == calls - 1:
                    self.results = {index % len(sets): result}
        graph.replay()
        torch.cuda.synchronize()
        self.graph, self.calls, self.launch = graph, calls, graph.replay

    def settle(self, sets: _Sets) -> None:
        """Keep the graph or go back to plain calls, whichever is faster."""
        replayed = min(_us_per_call(self, _WINDOW_MS / 5) for _ in range(3))
        graph, launch, results = self.graph, self.launch, self.results
        self.batch(sets)
        if replayed <= min(_us_per_call(self, _WINDOW_MS / 5) for _ in range(3)):
            self.graph, self.launch, self.results = graph, launch, results

    def batch(self, sets: _Sets) -> None:
        """Plain calls, as many as a graph has."""
        self.drop_graph()
        self.calls = graph_calls(len(sets))

        def launch() -> None:
            for index in range(self.calls):
                self.call(sets.inputs[index % len(sets)])

        self.launch = launch

    def drop_graph(self) -> None:
        self.graph, self.calls, self.launch, self.results = None, 0, lambda: None, {}


def graph_calls(sets: int) -> int:
    """A multiple of the number of sets, at least GRAPH_CALLS.

    >>> graph_calls(3), graph_calls(128)
    (21, 128)
    """
    return sets * math.ceil(GRAPH_CALLS / sets)


def _arms(
    task: Task, work: Work, plan: TimingPlan, program: Program, sets: _Sets
) -> tuple[dict[str, _Arm], dict[str, str]]:
    arms, missing = {CANDIDATE: _candidate(work, program, sets)}, {}
    for name in plan.baselines:
        try:
            function = BASELINES[name](_reference(task, work), sets)
            _call_once(function, sets)
            arms[name] = _Arm(name, function)
        except Exception as error:
            missing[name] = f"{type(error).__name__}: {str(error)[:300]}"
    return arms, missing


def _candidate(work: Work, program: Program, sets: _Sets) -> _Arm:
    import torch

    torch.manual_seed(work.seed)
    state = {n: _to_cuda(t) for n, t in work.state.items()}
    init_inputs = [_to_cuda(v) for v in work.init_inputs]
    try:
        bound = program.bind(init_inputs, state, "cuda")
        bound.train(work.training)
        _call_once(bound, sets)
    except Exception as error:
        raise DeviceError(f"the candidate was right and fails now: {error!r}") from error
    return _Arm(CANDIDATE, bound)


def _reference(task: Task, work: Work) -> Any:
    """The reference on the GPU, with the weights that the candidate has."""
    import torch

    torch.manual_seed(work.seed)
    model = task.model(*work.init_inputs)
    if hasattr(model, "named_parameters"):
        model = model.cuda().train(work.training)
        own = dict(model.named_parameters()) | dict(model.named_buffers())
        for name, value in work.state.items():
            own[name].copy_(value)
    return model


def _call_once(function: Callable[[Sequence[Any]], Any], sets: _Sets) -> None:
    import torch

    outputs_of(function(sets.inputs[0]), "cuda")
    torch.cuda.synchronize()


def _eager(model: Any, sets: _Sets) -> Callable[[Sequence[Any]], Any]:
    return lambda inputs: model(*inputs)


def _compiled(**options: Any) -> Callable[[Any, _Sets], Callable[[Sequence[Any]], Any]]:
    def make(model: Any, sets: _Sets) -> Callable[[Sequence[Any]], Any]:
        import torch

        function = torch.compile(model, dynamic=False, **options)
        return lambda inputs: function(*inputs)

    return make


def _graphed(model: Any, sets: _Sets) -> Callable[[Sequence[Any]], Any]:
    """One graph for each set of inputs."""
    import torch

    graphs: dict[int, Any] = {}
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for inputs in sets.inputs[:3]:
            model(*inputs)
    torch.cuda.synchronize()
    for inputs in sets.inputs:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = model(*inputs)
        graphs[id(inputs)] = graph, result

    def call(inputs: Sequence[Any]) -> Any:
        graph, result = graphs[id(inputs)]
        graph.replay()
        return result

    return call


BASELINES: Mapping[str, Callable[[Any, _Sets], Callable[[Sequence[Any]], Any]]] = {
    "eager": _eager,
    "compile": _compiled(),
    "compile-max-autotune": _compiled(mode="max-autotune-no-cudagraphs"),
    "cuda-graph": _graphed,
}


def _capture_all(arms: dict[str, _Arm], sets: _Sets, missing: dict[str, str]) -> bool:
    """Whether the candidate and the reference can be replayed from graphs; then all arms are.

    A compiled baseline that cannot be captured is then missing: its host time would not compare.
    """
    import torch

    graphed = arms.pop("cuda-graph", None)
    for name, arm in list(arms.items()):
        try:
            arm.capture(sets)
            arm.settle(sets)
        except Exception as error:
            torch.cuda.synchronize()
            if name in (CANDIDATE, "eager"):
                for other in arms.values():
                    other.drop_graph()
                if graphed:
                    arms["cuda-graph"] = graphed
                return False
            missing[name] = f"cannot be captured in a CUDA graph: {str(error)[:200]}"
            del arms[name]
    if graphed:
        missing["cuda-graph"] = "here every arm may be replayed from a CUDA graph: see 'eager'"
    return True


# ── the clock ──


def _warm_up(arm: _Arm) -> float:
    """Run until three successive windows agree within 1 %, or three seconds. Gives the seconds."""
    begin, windows = time.monotonic(), list[float]()
    while time.monotonic() - begin < _WARM_UP_SECONDS and not settled(windows):
        windows.append(_us_per_call(arm, _WINDOW_MS))
    return time.monotonic() - begin


def settled(windows: Sequence[float]) -> bool:
    """Whether the last three times agree within 1 %.

    >>> settled([9.0, 5.0, 5.01, 5.02]), settled([5.0, 5.0])
    (True, False)
    """
    last = windows[-_WINDOWS:]
    return len(last) == _WINDOWS and max(last) <= min(last) * (1 + _AGREE)


def _us_per_call(arm: _Arm, target_ms: float) -> float:
    """Microseconds per call over at least `target_ms` of work, between two events."""
    repeats = max(1, math.ceil(target_ms * 1e3 / max(_launch_us(arm, 1), 1.0)))
    return _launch_us(arm, repeats) / arm.calls


def _launch_us(arm: _Arm, repeats: int) -> float:
    import torch

    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(repeats):
        arm.launch()
    stop.record()
    torch.cuda.synchronize()  # the whole device: work on other streams counts against nobody else
    return float(start.elapsed_time(stop)) * 1e3 / repeats


def block_orders(names: Sequence[str], blocks: int, seed: int) -> Iterator[list[str]]:
    """For each block, the arms in random order; every pair goes first about equally often."""
    draw = random.Random(seed)
    for _ in range(blocks):
        order = list(names)
        draw.shuffle(order)
        yield order


def _blocks(
    arms: dict[str, _Arm], plan: TimingPlan, sets: _Sets, seed: int
) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    begin = time.monotonic()
    blocks: list[dict[str, float]] = []
    readings: list[dict[str, float]] = []
    for order in block_orders(list(arms), plan.blocks, seed):
        if len(blocks) >= LEAST_BLOCKS and time.monotonic() - begin > plan.max_seconds:
            break
        if len(sets) > 1:
            sets.rotate_contents()
        blocks.append({name: _us_per_call(arms[name], plan.block_ms) for name in order})
        readings.append(clocks())
    return blocks, readings


def _recheck(arm: _Arm, sets: _Sets) -> None:
    """The last timed call must have given what a plain call gives on the same data."""
    import torch

    if arm.graph is None:
        return
    arm.launch()
    torch.cuda.synchronize()
    for index, result in arm.results.items():
        timed = [_copied(t) for t in outputs_of(result, "cuda")]
        plain = outputs_of(arm.call(sets.inputs[index]), "cuda")
        for number, (one, two) in enumerate(zip(timed, plain)):
            if not _alike(one, two):
                raise DeviceError(
                    f"output {number} differs between the timed calls and a plain call: work on "
                    "another stream, or results kept from an earlier call"
                )


def _copied(value: Any) -> Any:
    return copy.copy(value) if not hasattr(value, "clone") else value.clone()


def _alike(one: Any, two: Any) -> bool:
    """Equal up to the order of atomic additions."""
    import torch

    if not isinstance(one, torch.Tensor):
        return bool(one == two)
    if not one.is_floating_point():
        return bool(torch.equal(one, two))
    ok = torch.isfinite(one) & torch.isfinite(two)
    gap = (one[ok].double() - two[ok].double()).square().sum()
    same_pattern = bool(torch.equal(torch.isnan(one), torch.isnan(two)))
    return same_pattern and float(gap) <= 1e-4 * float(two[ok].double().square().sum())


def _facts(mode: str, sets: _Sets, warm_seconds: float) -> dict[str, Any]:
    import torch

    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    return {
        "mode": mode,
        "input_sets": len(sets),
        "rotated_bytes": len(sets) * sets.bytes_each,
        "l2_bytes": l2_bytes,
        "cold": len(sets) * sets.bytes_each >= 2 * l2_bytes,
        "warm_up_seconds": round(warm_seconds, 3),
    }


def _clock_facts(readings: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Median and minimum of what was read after each block; throttling bits of all of them."""
    facts: dict[str, Any] = {}
    for key in ("sm_mhz", "memory_mhz", "power_w", "temperature_c"):
        values = [r[key] for r in readings if key in r]
        if values:
            facts[key] = statistics.median(values)
            facts[f"{key}_min"] = min(values)
    bits = 0
    for reading in readings:
        bits |= int(reading.get("throttle_bits", 0))
    return facts | {"throttle_bits": bits}
