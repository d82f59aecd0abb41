"""Model the time of a launch on a named target from exact counters: a roofline with a latency term.

Every result is a *modelled* time. Each term is the time one resource would need alone; the body of
the kernel is their p-norm, so that the largest decides and every saved byte still shows, and the
total adds the launch floor. `CONSTANTS` holds every number that is not a fact of the target.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, prod
from typing import Any, NamedTuple

from warpsmith.errors import LaunchError, UsageError
from warpsmith.spec.target import Target
from warpsmith.targets import Occupancy, occupancy


class Constant(NamedTuple):
    value: float
    unit: str
    source: str


_FIT = "fitted"  # by benchmarks/kernels/fit.py, to the H200 times of one half of the tasks: docs/model.md
_EAGER = "PyTorch's own kernel beyond its roofline: 14 cases of the examples on an H200"

CONSTANTS: dict[str, Constant] = {
    # of the whole
    "launch": Constant(
        1.0, "µs", "H200: 1.01 µs a kernel in a graph of 100 small copies, measured"
    ),
    "host_op": Constant(5.0, "µs", "eager PyTorch dispatch and launch of one operator: 4–8 µs"),
    "eager_rows": Constant(1.5, "µs", _EAGER),
    "eager_reduction": Constant(3.4, "µs", _EAGER),
    "eager_product": Constant(13.0, "µs", _EAGER),
    "overlap_power": Constant(2.82, "", f"p of the busy units' p-norm: 1 adds them up; {_FIT}"),
    "latency_power": Constant(1.59, "", f"the same, of the busiest units with the latency; {_FIT}"),
    # sustained rates
    "dram_sustained": Constant(0.923, "of the pins' rate", _FIT),
    "l2_sustained": Constant(1.11, "of the catalogue's rate", _FIT),
    "l2_port": Constant(38.7, "B/cycle/SM", f"from L2 to one SM; {_FIT}, white papers say 64"),
    "tensor_sustained": Constant(0.8, "of peak", "H200 bf16 8192³: 790 of 989 TFLOP/s, measured"),
    "warp_mma_sustained": Constant(
        0.62, "of 0.8 peak", "mma.sync on 9.0 tops out at 60–65 % of wgmma"
    ),
    "pipe_sustained": Constant(
        0.95, "of peak", f"of fp32, fp64, fp16 and special functions; {_FIT}"
    ),
    "int_sustained": Constant(
        1.7, "PTX instructions per peak one", f"{_FIT}; ptxas fuses, and shifts on the fp32 pipe"
    ),
    "issue_sustained": Constant(
        1.15,
        "PTX instructions a cycle",
        f"{_FIT}; above 1 as PTX has more of them than machine code",
    ),
    # caches
    "l1_reread_hits": Constant(0.855, "of re-read sectors", _FIT),
    "l2_reread_misses": Constant(0.2, "of re-reads beyond L2", _FIT),
    # atomics
    "atomics_per_l2_cycle": Constant(0.2, "operations/cycle/SM", f"where they spread out; {_FIT}"),
    "same_address_ns": Constant(2.51, "ns/operation", f"where they meet in a sector; {_FIT}"),
    "shared_atomic_cycles": Constant(1.0, "cycles/wavefront", _FIT),
    # latencies
    "dram_latency": Constant(0.6, "µs", f"under load; {_FIT}"),
    "l2_latency": Constant(360.0, "cycles", f"under load; {_FIT}"),
    "shared_latency": Constant(35.0, "cycles", f"under load; {_FIT}"),
    "barrier_latency": Constant(77.0, "cycles", f"of bar.sync, waiting for the last warp; {_FIT}"),
    "block_latency": Constant(0.15, "µs", f"from a block's end to its successor's start; {_FIT}"),
    "issue_latency": Constant(4.0, "cycles", "dependent ALU instructions issue 4 cycles apart"),
    # what one warp overlaps
    "instructions_in_flight": Constant(1.39, "per warp", _FIT),
    "loads_in_flight": Constant(4.0, "loads/thread", f"what ptxas hoists before a use; {_FIT}"),
    "copies_in_flight": Constant(16.0, "copies/thread", f"stages of cp.async or TMA; {_FIT}"),
    "shared_in_flight": Constant(8.0, "loads/thread", _FIT),
}

_GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
_LOADS, _STORES = _GLOBAL.format("requests", "ld"), _GLOBAL.format("requests", "st")
_LOAD_SECTORS, _STORE_SECTORS = _GLOBAL.format("sectors", "ld"), _GLOBAL.format("sectors", "st")
_SHARED_LOADS = "smsp__sass_inst_executed_op_shared_ld.sum"
_SHARED_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_TENSOR = "tensor_flops_"
_KNOWN = (_LOAD_SECTORS, _STORE_SECTORS, "warp_instructions", "unique_bytes_read")


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """What was launched; `registers` is per thread, `shared_bytes` static plus dynamic per block."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int = 0
    registers: int = 32


@dataclass(frozen=True, slots=True)
class ModelledTime:
    """A time that no clock measured. `terms` are microseconds by resource; `bound` names the
    largest; `assumptions` says what was taken for granted."""

    total_us: float
    terms: dict[str, float]
    bound: str
    assumptions: tuple[str, ...]


def model_time(
    counters: Mapping[str, float] | Any, launch: LaunchShape, target: Target, *, cold: bool = True
) -> ModelledTime:
    """The modelled time of one launch on `target`.

    counters: a mapping with the names of `vgpu.Counters.as_dict`, or an object with `as_dict()`.
    cold: inputs come from DRAM (rotated buffers); False keeps a footprint that fits in L2 there.
    Raises LaunchError for an empty grid and a block that does not fit on an SM, UsageError for empty counters.
    """
    work = _Work(_mapping(counters), launch, target, _resident(launch, target), cold)
    terms = {"launch": _value("launch")} | {name: term(work) for name, term in _TERMS.items()}
    terms = {name: time_us for name, time_us in terms.items() if time_us > 0}
    return ModelledTime(
        _total(terms), terms, max(terms, key=lambda t: terms[t]), _assumptions(cold)
    )


def _value(name: str) -> float:
    return CONSTANTS[name].value


def _mapping(counters: Mapping[str, float] | Any) -> Mapping[str, float]:
    flat = counters if isinstance(counters, Mapping) else counters.as_dict()
    if not any(flat.get(name, 0) for name in _KNOWN):
        raise UsageError(
            f"cannot model a launch from counters with {sorted(flat)[:5]}: expected at least one of "
            f"{', '.join(_KNOWN)}. Run the kernel on the virtual GPU with counting on."
        )
    return flat


def _resident(launch: LaunchShape, target: Target) -> Occupancy:
    if prod(launch.grid) < 1:
        raise LaunchError(f"grid {launch.grid} has no block: expected at least one.")
    fit = occupancy(target, prod(launch.block), launch.registers, launch.shared_bytes)
    if fit.blocks_per_sm == 0:
        raise LaunchError(
            f"a block of {launch.block} threads with {launch.registers} registers each and "
            f"{launch.shared_bytes} bytes of shared memory does not fit on {target.name}: "
            f"the limit is {fit.limiter}."
        )
    return fit


def _total(terms: Mapping[str, float]) -> float:
    latency_us = terms.get("latency", 0.0)
    busy = [us for name, us in terms.items() if name not in ("launch", "latency")]
    body = _norm([_norm(busy, _value("overlap_power")), latency_us], _value("latency_power"))
    return terms["launch"] + body


def _norm(times_us: Sequence[float], power: float) -> float:
    return sum(us**power for us in times_us) ** (1 / power)


def _assumptions(cold: bool) -> tuple[str, ...]:
    return (
        "inputs start in DRAM" if cold else "a footprint that fits in L2 starts there",
        "clocks stay at boost; PTX instructions stand for SASS instructions",
        "resources overlap as a p-norm; blocks cost the same and are dealt out as SMs free up",
        *(f"{name}: {c.value:g} {c.unit} ({c.source})" for name, c in CONSTANTS.items()),
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """A launch's counts, spread over a target; times in microseconds."""

    counts: Mapping[str, float]
    launch: LaunchShape
    target: Target
    resident: Occupancy
    cold: bool
    blocks: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", prod(self.launch.grid))

    def __getitem__(self, name: str) -> float:
        return float(self.counts.get(name, 0))

    def sm_us(self, cycles: float) -> float:
        """`cycles` of SM work of the whole grid, at the pace of the SM with the most blocks."""
        sms = self.target.sms
        busiest = ceil(self.blocks / sms) / self.blocks
        return cycles * busiest / self.target.boost_mhz

    @property
    def warps(self) -> int:
        return self.blocks * ceil(prod(self.launch.block) / 32)

    @property
    def generations(self) -> int:
        """How often the resident blocks of the busiest SM are replaced."""
        return ceil(ceil(self.blocks / self.target.sms) / self.resident.blocks_per_sm)

    @property
    def unique_bytes(self) -> float:
        return self["unique_bytes_read"] + self["unique_bytes_written"]

    @property
    def loaded_bytes(self) -> float:
        return 32 * (self[_LOAD_SECTORS] + self["async_copy_sectors"])

    @property
    def reread_bytes(self) -> float:
        """Loaded more than once, by plain loads (asynchronous copies go past L1)."""
        first = max(0.0, self["unique_bytes_read"] - 32 * self["async_copy_sectors"])
        return max(0.0, 32 * self[_LOAD_SECTORS] - first)

    @property
    def first_touch(self) -> float:
        """Share of loaded sectors that come from DRAM: met for the first time, and not left in L2."""
        if not self.compulsory:
            return 0.0
        loaded = min(32 * self[_LOAD_SECTORS], 128 * self[_LOADS]) + 32 * self["async_copy_sectors"]
        return min(1.0, self["unique_bytes_read"] / loaded) if loaded else 1.0

    @property
    def compulsory(self) -> bool:
        """Whether the first touch of data goes to DRAM."""
        return self.cold or self.unique_bytes > self.target.l2_bytes


def _dram(work: _Work) -> float:
    target, footprint = work.target, work.unique_bytes
    missing = max(0.0, 1 - target.l2_bytes / footprint) if footprint else 0.0
    compulsory = footprint if work.compulsory else 0.0
    again = max(0.0, work.loaded_bytes - work["unique_bytes_read"])
    moved = compulsory + again * missing * _value("l2_reread_misses")
    return moved / (target.memory_gbps * _value("dram_sustained") * 1e3)


def _l2_bytes(work: _Work) -> float:
    hits = work.reread_bytes * _value("l1_reread_hits")
    return work.loaded_bytes - hits + 32 * work[_STORE_SECTORS]


def _l2(work: _Work) -> float:
    moved = _l2_bytes(work)
    rate = work.target.l2_gbps * _value("l2_sustained") * 1e3
    return max(moved / rate, work.sm_us(moved / _value("l2_port")))


def _l1(work: _Work) -> float:
    """Cycles of the load/store data path: shared wavefronts, and 128 bytes of global data each."""
    requests = work[_LOADS] + work[_STORES]
    sectors = work[_LOAD_SECTORS] + work[_STORE_SECTORS]
    shared = work[_SHARED_WAVEFRONTS.format("ld")] + work[_SHARED_WAVEFRONTS.format("st")]
    shared += work["shared_atomic_wavefronts"] * _value("shared_atomic_cycles")
    shared += max(work["async_copy_wavefronts"], work["async_copy_sectors"] / 4)
    width = 128 / work.target.shared_bytes_per_cycle
    return work.sm_us(width * (shared + max(requests, sectors / 4)))


def _issue(work: _Work) -> float:
    rate = work.target.schedulers_per_sm * _value("issue_sustained")
    return work.sm_us(work["warp_instructions"] / rate)


def _pipe(pipe: str, lanes: str, sustained: str = "pipe_sustained") -> Any:
    def term(work: _Work) -> float:
        rate = getattr(work.target, lanes) / 32 * _value(sustained)
        return work.sm_us(work[f"pipe_{pipe}_warp_instructions"] / rate)

    return term


def _fp16(work: _Work) -> float:
    """Packed half arithmetic: its rate in instructions follows from the fp16 peak."""
    target = work.target
    per_cycle = target.fp16_tflops * 1e6 / (target.boost_mhz * target.sms * 4 * 32)
    rate = per_cycle * _value("pipe_sustained")
    return work.sm_us(work["pipe_fp16_warp_instructions"] / rate)


def _tensor(work: _Work) -> float:
    """FLOPs by input type over the dense peak; a type without a unit falls to the fp16 one."""
    total = 0.0
    for name, flops in work.counts.items():
        if name.startswith(_TENSOR):
            kind = name.removeprefix(_TENSOR)
            total += float(flops) / tensor_flops_per_us(work.target, kind)
    slow = work.target.compute_capability == (9, 0) and not work["warpgroup_mma_flops"]
    share = _value("warp_mma_sustained") if slow else 1.0
    return total / share * ceil(work.blocks / work.target.sms) * work.target.sms / work.blocks


def tensor_flops_per_us(target: Target, kind: str) -> float:
    """Sustained dense tensor rate in FLOP/µs; LaunchError when the part has no such unit."""
    peak = target.tensor_tflops(kind)
    if not peak:
        raise LaunchError(f"{target.name} has no tensor unit for {kind}: choose another target.")
    return peak * 1e6 * _value("tensor_sustained")


def _atomics(work: _Work) -> float:
    """Operations through the L2's units, and one after another where they meet in one sector.

    An operation is a sector of a request, or a lane that shares its address with an earlier one.
    They are taken to spread evenly over the sectors that the launch writes.
    """
    target = work.target
    operations = work["global_atomic_sectors"] + work["global_atomic_conflicts"]
    rate = target.sms * target.boost_mhz * _value("atomics_per_l2_cycle")
    sectors = max(1.0, work["unique_bytes_written"] / 32)
    return max(operations / rate, operations / sectors * _value("same_address_ns") / 1e3)


def _latency(work: _Work) -> float:
    """One warp's chain of dependent steps, times the generations of resident blocks."""
    warps = max(work.warps, 1)
    cycles = (
        _rounds(work[_SHARED_LOADS] / warps, "shared_in_flight") * _value("shared_latency")
        + work["barriers"] / warps * _value("barrier_latency")
        + work["warp_instructions"]
        / warps
        * _value("issue_latency")
        / _value("instructions_in_flight")
    )
    loads = _rounds(work[_LOADS] / warps, "loads_in_flight")
    copies = _rounds(work["async_copy_requests"] / warps, "copies_in_flight")
    atomics = work["global_atomic_requests"] / warps / _value("loads_in_flight")
    chain = cycles / work.target.boost_mhz + _memory_us(work, loads + copies + atomics)
    return (chain + _value("block_latency")) * work.generations


def _rounds(requests: float, in_flight: str) -> float:
    return max(min(requests, 1.0), requests / _value(in_flight))


def _memory_us(work: _Work, rounds: float) -> float:
    """Rounds to DRAM for data met first, to L2 for the rest."""
    first, l2_us = work.first_touch, _value("l2_latency") / work.target.boost_mhz
    return rounds * (first * _value("dram_latency") + (1 - first) * l2_us)


_TERMS = {
    "dram": _dram,
    "l2": _l2,
    "l1": _l1,
    "issue": _issue,
    "fp32": _pipe("fp32", "fp32_lanes_per_sm"),
    "fp64": _pipe("fp64", "fp64_lanes_per_sm"),
    "int": _pipe("int", "int32_lanes_per_sm", "int_sustained"),
    "sfu": _pipe("sfu", "sfu_lanes_per_sm"),
    "fp16": _fp16,
    "tensor": _tensor,
    "atomics": _atomics,
    "latency": _latency,
}


@dataclass(frozen=True, slots=True)
class OpCost:
    """One operator of an eager baseline: bytes it must move and operations it must do.

    pipe: "fp64", "fp32", "fp16", or "tensor_" and an input type ("tensor_bf16").
    """

    name: str
    bytes_read: float
    bytes_written: float
    flops: float = 0.0
    pipe: str = "fp32"
    kernels: int = 1


def model_ops(
    ops: Sequence[OpCost], target: Target, *, graphed: bool = False, cold: bool = True
) -> ModelledTime:
    """The modelled time of operators run one after another, each at its own roofline.

    The device waits for the host when dispatch is slower than the kernels; `graphed` (a CUDA
    graph) takes the host away. cold: False lets a footprint that fits in L2 stay there.
    Terms are by operator, in order, plus "host". Raises UsageError without operators.
    """
    if not ops:
        raise UsageError("cannot model an empty list of operators: expected at least one OpCost.")
    terms: dict[str, float] = {}
    for op in ops:
        terms[op.name] = terms.get(op.name, 0.0) + _op_us(op, target, cold)
    device_us = sum(terms.values())
    host_us = 0.0 if graphed else len(ops) * _value("host_op")
    waiting = {"host": host_us - device_us} if host_us > device_us else {}
    terms |= waiting
    return ModelledTime(
        max(device_us, host_us), terms, _ops_bound(ops, target, cold, waiting), _assumptions(cold)
    )


def _op_rooflines(op: OpCost, target: Target, cold: bool) -> dict[str, float]:
    moved = op.bytes_read + op.bytes_written
    resident = not cold and moved <= target.l2_bytes
    terms = {"launch": op.kernels * _value("launch")}
    if resident:
        terms["l2"] = moved / (target.l2_gbps * 1e3)
    else:
        terms["dram"] = moved / (target.memory_gbps * _value("dram_sustained") * 1e3)
    terms["latency"] = op.kernels * _value("dram_latency")
    if op.flops:
        name = "tensor" if op.pipe.startswith("tensor_") else op.pipe
        terms[name] = op.flops / _flops_per_us(op.pipe, target)
    return terms


def _flops_per_us(pipe: str, target: Target) -> float:
    if pipe.startswith("tensor_"):
        return tensor_flops_per_us(target, pipe.removeprefix("tensor_"))
    if pipe not in ("fp64", "fp32", "fp16"):
        raise UsageError(f"no pipe {pipe!r}: expected fp64, fp32, fp16 or tensor_<type>.")
    return getattr(target, f"{pipe}_tflops") * 1e6 * _value("pipe_sustained")


# operators of PyTorch whose own kernels take longer than a roofline says, by the constant that says so
_EAGER_KINDS = {
    "eager_rows": ("_softmax", "_log_softmax", "native_layer_norm", "native_group_norm", "cumsum"),
    "eager_reduction": ("sum", "mean", "amax", "amin", "max", "min", "var", "std", "prod", "argmax",
                        "argmin", "logsumexp", "linalg_vector_norm"),
    "eager_product": ("mm", "addmm", "bmm", "baddbmm", "convolution"),
}  # fmt: skip
_EAGER_KIND = {name: kind for kind, names in _EAGER_KINDS.items() for name in names}


def _op_us(op: OpCost, target: Target, cold: bool) -> float:
    kind = _EAGER_KIND.get(op.name)
    return _total(_op_rooflines(op, target, cold)) + (_value(kind) if kind else 0.0)


def _ops_bound(
    ops: Sequence[OpCost], target: Target, cold: bool, waiting: Mapping[str, float]
) -> str:
    """The resource that takes the most time over all operators."""
    if waiting:
        return "host"
    totals: dict[str, float] = {}
    for op in ops:
        for name, time_us in _op_rooflines(op, target, cold).items():
            totals[name] = totals.get(name, 0.0) + time_us
    return max(totals, key=lambda name: totals[name])
