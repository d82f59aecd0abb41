"""What became of a candidate: one immutable record, one typed field per stage that it went through."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import UsageError
from .candidate import Candidate


class Outcome(enum.Enum):
    """How the judgement of a candidate ended. Only RIGHT candidates are timed."""

    RIGHT = "right"
    # it gave an answer, and the answer is not the task's
    WRONG_VALUE = "wrong value"
    WRONG_SHAPE = "wrong shape"
    WRONG_DTYPE = "wrong dtype"
    NON_FINITE = "NaN or infinity where the reference has a number"
    INPUT_CHANGED = "changed its inputs"
    NOT_WRITTEN = "left part of its output unwritten"
    NOT_REPEATABLE = "gives different results on equal inputs"
    # it gave no answer
    COMPILE_FAILED = "does not compile"
    BAD_CANDIDATE = "the host code raised an error"
    BAD_LAUNCH = "launch refused"
    OUT_OF_BOUNDS = "out-of-bounds access"
    MISALIGNED = "misaligned access"
    FAULT = "illegal operation"
    RACE = "race"
    UNINITIALIZED = "uses memory that nothing has written"
    DEADLOCK = "deadlock"
    TIMED_OUT = "did not finish in its budget"
    CRASHED = "crashed its process"
    OUT_OF_MEMORY = "out of memory"
    UNSUPPORTED = "uses an instruction the virtual GPU does not have"

    @property
    def right(self) -> bool:
        return self is Outcome.RIGHT


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch that a candidate made, as a device saw it.

    counters: exact counts from the virtual GPU under ncu's names where they mean the same; empty on
    a GPU. time_us: modelled or measured time of this launch, None when nobody timed it.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0  # dynamic
    registers: int | None = None
    artifact: str = ""  # id
    counters: Mapping[str, float] = field(default_factory=dict)
    time_us: float | None = None
    bound: str = ""  # "dram", "launch", "tensor", …: the largest term of the model


@dataclass(frozen=True, slots=True)
class Built:
    """The compiler's side of a candidate: what each kernel needs. Sources stay in the candidate."""

    kernels: tuple[Mapping[str, Any], ...] = ()  # name, arch, registers, spill_bytes, shared_bytes
    seconds: float = 0.0
    log: str = ""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case that a candidate was checked on.

    error: the largest abs(out - truth) / (atol + rtol * abs(truth)) over all outputs; 1 is the limit.
    """

    case: str
    outcome: Outcome
    error: float | None = None
    max_abs_error: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Is it right? `message` is one sentence a person can act on; `source` is file:line when known."""

    outcome: Outcome
    message: str = ""
    source: str = ""
    cases: tuple[CaseResult, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        return self.outcome.right


@dataclass(frozen=True, slots=True)
class Ratio:
    """A speed-up: baseline time / candidate time, with a confidence interval (equal ends if modelled)."""

    value: float
    low: float
    high: float

    @property
    def claims(self) -> bool:
        """Whether the interval excludes 1: inside the noise there is no claim."""
        return self.low > 1.0 or self.high < 1.0


@dataclass(frozen=True, slots=True)
class CaseTime:
    """Times on one case, in microseconds. `modelled` times come from counters, not from a clock."""

    case: str
    median_us: float
    low_us: float  # 20th percentile of the blocks; equal to the median if modelled
    high_us: float  # 80th percentile
    samples: int
    baselines_us: Mapping[str, float] = field(default_factory=dict)  # name -> median
    speedups: Mapping[str, Ratio] = field(default_factory=dict)  # name -> ratio
    missing: Mapping[str, str] = field(default_factory=dict)  # baselines that failed -> why
    launches: tuple[Launch, ...] = ()


@dataclass(frozen=True, slots=True)
class Timing:
    """How fast? One entry per timed case; the first is the main case."""

    modelled: bool
    device: str  # "NVIDIA H200", or "virtual GPU, modelled for H100 SXM"
    cases: tuple[CaseTime, ...]
    method: str = ""  # "CUDA events, 20 interleaved blocks", "roofline model on exact counters"
    environment: Mapping[str, Any] = field(default_factory=dict)  # clocks, driver, versions
    seconds: float = 0.0

    @property
    def median_us(self) -> float:
        return self.cases[0].median_us

    @property
    def speedups(self) -> Mapping[str, Ratio]:
        return self.cases[0].speedups


@dataclass(frozen=True, slots=True)
class Analysis:
    """Why, and what next? Plain data from `analyze`."""

    bound: str = ""
    roofline: Mapping[str, float] = field(default_factory=dict)
    advice: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """A candidate's walk through the workshop: built -> verdict -> timing -> analysis.

    Each stage fills its own field. A timing without a RIGHT verdict cannot be constructed.
    """

    task: str  # id
    task_name: str
    candidate: Candidate
    device: str
    target: str
    number: int = -1  # position in the journal, from 1; -1 before it is appended
    built: Built | None = None
    verdict: Verdict | None = None
    timing: Timing | None = None
    analysis: Analysis | None = None
    started: str = ""  # ISO 8601, UTC
    seconds: float = 0.0
    environment: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.timing is not None and (self.verdict is None or not self.verdict.right):
            raise UsageError(
                f"record of {self.candidate.name!r}: a timing needs a RIGHT verdict, "
                f"got {self.verdict.outcome.name if self.verdict else 'none'}"
            )

    @property
    def right(self) -> bool:
        return self.verdict is not None and self.verdict.right

    @property
    def failed(self) -> bool:
        """True once a stage has found the candidate not right: later stages are skipped."""
        return self.verdict is not None and not self.verdict.right

    @property
    def time_us(self) -> float | None:
        return self.timing.median_us if self.timing else None

    def better_of(self, other: Record | None) -> Record:
        """The faster of two right records; a right one beats one that is not."""
        if other is None or other.time_us is None:
            return self
        if self.time_us is None or other.time_us < self.time_us:
            return other
        return self
