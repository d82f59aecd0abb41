"""The nouns: plain data that every other room knows. No torch, no device, no compiler in here."""
# SPDX-License-Identifier: Apache-2.0

from .artifact import Artifact, Parameter, Resources
from .candidate import ENTRY, Candidate
from .journal import Event, Journal
from .load import load_candidate, load_task
from .plain import from_plain, to_plain
from .record import (
    Analysis,
    Built,
    CaseResult,
    CaseTime,
    Launch,
    Outcome,
    Ratio,
    Record,
    Timing,
    Verdict,
)
from .roles import (
    Device,
    Proposer,
    Run,
    Samples,
    TimingPlan,
    Toolchain,
    Work,
    load_plugin,
    plugin_names,
)
from .target import Target
from .task import Case, Range, Task, Tolerance

__all__ = [
    "ENTRY",
    "Analysis",
    "Artifact",
    "Built",
    "Candidate",
    "Case",
    "CaseResult",
    "CaseTime",
    "Device",
    "Event",
    "Journal",
    "Launch",
    "Outcome",
    "Parameter",
    "Proposer",
    "Range",
    "Ratio",
    "Record",
    "Resources",
    "Run",
    "Samples",
    "Target",
    "Task",
    "Timing",
    "TimingPlan",
    "Tolerance",
    "Toolchain",
    "Verdict",
    "Work",
    "from_plain",
    "load_candidate",
    "load_plugin",
    "load_task",
    "plugin_names",
    "to_plain",
]
