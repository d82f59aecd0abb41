"""From paired blocks to medians and confidence intervals. Inside the noise there is no claim."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from ..errors import UsageError
from ..spec import CaseTime, Ratio, Samples

RESAMPLES = 2000
CONFIDENCE = 0.95
SYSTEMATIC = (
    0.005  # what blocks do not average out; a kernel against itself differed by up to 0.2 %
)
CANDIDATE = "candidate"


def summarize(case: str, samples: Samples, *, seed: int = 0) -> CaseTime:
    """One case's samples as medians, 20th and 80th percentile, and a speed-up for each baseline.

    Raises UsageError without a single block.
    """
    times = _times(samples, CANDIDATE)
    if not len(times):
        raise UsageError(f"no timed block for {case}: nothing can be said about its speed")
    names = sorted({name for block in samples.blocks for name in block} - {CANDIDATE})
    low, median, high = (float(v) for v in numpy.percentile(times, (20, 50, 80)))
    return CaseTime(
        case,
        median_us=median,
        low_us=low,
        high_us=high,
        samples=len(times),
        baselines_us={name: float(numpy.median(_times(samples, name))) for name in names},
        speedups={name: speedup(samples.blocks, name, seed=seed) for name in names},
        missing=dict(samples.missing),
    )


def _times(samples: Samples, name: str) -> Any:
    return numpy.array([block[name] for block in samples.blocks if name in block])


def speedup(blocks: Sequence[Mapping[str, float]], baseline: str, *, seed: int = 0) -> Ratio:
    """Baseline time over candidate time: the median over blocks, with a bootstrap interval.

    Ratios are taken within a block, on the log scale, so that drift of the clock cancels; the
    interval is the percentile bootstrap over blocks (Efron and Tibshirani, 1993, ch. 13), widened
    by SYSTEMATIC on both sides: placement in memory and order of building last a whole session.

    >>> speedup([{"candidate": 1.0, "eager": 2.0}] * 5, "eager")
    Ratio(value=2.0, low=1.990025, high=2.010025)
    """
    pairs = [(b[CANDIDATE], b[baseline]) for b in blocks if baseline in b and CANDIDATE in b]
    if not pairs:
        raise UsageError(f"no block has times of both the candidate and {baseline!r}")
    if any(time <= 0 for pair in pairs for time in pair):
        raise UsageError(
            f"a time of {min(min(p) for p in pairs)} µs cannot be: the clock is broken"
        )
    mine, theirs = numpy.array(pairs).T
    logs = numpy.log(theirs) - numpy.log(mine)
    draw = numpy.random.default_rng(seed)
    picks = draw.integers(len(logs), size=(RESAMPLES, len(logs)))
    medians = numpy.median(logs[picks], axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = numpy.quantile(medians, (tail, 1 - tail))
    ends = numpy.median(logs), low - SYSTEMATIC, high + SYSTEMATIC
    return Ratio(*(round(float(numpy.exp(end)), 6) for end in ends))


def verdict(ratio: Ratio, *, margin: float = 0.01) -> str:
    """'faster', 'slower', 'equal' (within the margin, surely) or 'no claim'.

    >>> verdict(Ratio(1.5, 1.4, 1.6)), verdict(Ratio(1.02, 0.9, 1.2))
    ('faster', 'no claim')
    """
    if ratio.low > 1 + margin:
        return "faster"
    if ratio.high < 1 - margin:
        return "slower"
    if ratio.low >= 1 - margin and ratio.high <= 1 + margin:
        return "equal"
    return "no claim"
