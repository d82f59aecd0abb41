"""Run kernels under the virtual GPU's sanitizer, and say what it found: `ws.sanitize`."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .devices.findings import ordered
from .errors import CandidateError, KernelFault, UnknownName, UsageError, WarpsmithError
from .report import findings as words
from .spec import Candidate, Task, Work, from_plain, load_candidate, load_task, to_plain
from .vgpu.checks import SWITCHES, Checks
from .vgpu.faults import Fault

SCHEDULES: dict[str, tuple[str, ...]] = {
    "default": ("default",),
    "reverse": ("reverse",),
    "random": ("random",),
    "all": ("default", "reverse", "random"),
}
MAX_SECONDS = 120.0
SMALL_ELEMENTS = 1 << 14  # of the inputs of a task's hidden cases
Works = Callable[[Candidate], Sequence[Work]]


@dataclass(frozen=True, slots=True)
class SanitizeReport:
    """What the sanitizer found in the launches of one run, errors first.

    ended: why the run stopped without a finding that says it, such as a compiler's error; "" if it
    came to its end. sources: the text of the kernels' files, for excerpts.
    """

    name: str
    findings: tuple[Fault, ...]
    launches: int
    schedules: tuple[str, ...]
    seconds: float = 0.0
    ended: str = ""
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def errors(self) -> tuple[Fault, ...]:
        return tuple(f for f in self.findings if f.severity == "error")

    @property
    def warnings(self) -> tuple[Fault, ...]:
        return tuple(f for f in self.findings if f.severity == "warning")

    @property
    def clean(self) -> bool:
        """No error was found, and the run came to its end. Warnings do not count."""
        return not self.errors and not self.ended

    def raise_if_dirty(self, *, strict: bool = False) -> None:
        """Raise KernelFault for the first error; with `strict` for a warning too.

        Raises CandidateError where the run ended for another reason.
        """
        bad = self.errors or (self.warnings if strict else ())
        if bad:
            raise replace(bad[0].error(), message=f"{bad[0].message}\n\n{self}")
        if self.ended:
            raise CandidateError(f"{self.name}: {self.ended}")

    def to_json(self) -> dict[str, Any]:
        """Plain data, with each finding's `source` as file:line."""
        return {
            "name": self.name,
            "clean": self.clean,
            "errors": len(self.errors),
            "warnings": len(self.warnings),
            "launches": self.launches,
            "schedules": list(self.schedules),
            "seconds": self.seconds,
            "ended": self.ended,
            "findings": [_plain(f) for f in self.findings],
        }

    def __str__(self) -> str:
        shown = [words.text(f, self.sources) for f in self.findings if f.severity != "info"]
        return "\n\n".join([*shown, self.summary()])

    def summary(self) -> str:
        """One line: how many findings, in how many launches, under which schedules."""
        ran = f"{self.launches} launch{'' if self.launches == 1 else 'es'}"
        order = "/".join(self.schedules)
        ended = f"; ended early: {self.ended}" if self.ended else ""
        return f"{self.name}: {words.tally(self.findings)} in {ran}, schedule {order}{ended}"


def sanitize(
    what: Any,
    *args: Any,
    grid: Any = None,
    block: Any = None,
    shared_bytes: int = 0,
    kernel: str | None = None,
    task: Task | str | Path | None = None,
    cases: int = 1,
    checks: Checks | Iterable[str] | str | None = None,
    schedule: str = "default",
    seed: int = 0,
    target: Any = None,
    max_findings: int = 64,
    max_seconds: float = MAX_SECONDS,
    watch: Callable[[str], None] | None = None,
    **kwargs: Any,
) -> SanitizeReport:
    """Run kernels on the virtual GPU with every check, and report what they do wrong.

    what: `kernel[grid, block]` with its arguments, or any function that launches kernels on CPU
    tensors; a `Candidate`, or the path of one (.cu, .py or a folder), whose `run` is called with the
    arguments, or on the `cases` smallest cases of a `task`, or else with what its `example()` returns;
    or a .ptx file with grid, block and, where it has several entries, `kernel`.
    checks: a `vgpu.Checks`, or names of what to look for ("races", "uninitialized", …); None: all.
    schedule: the order of warps and blocks: "default", "reverse", "random" (with `seed`), or "all"
    three, each on the arguments as they were given. max_seconds: for one run. watch: called with a
    line of progress before each run.

        report = ws.sanitize(row_sum[rows, 256], x, out, cols)
        print(report); report.raise_if_dirty()

    Raises UsageError for what cannot be run. What a kernel does wrong is in the report.
    """
    orders = SCHEDULES.get(schedule)
    if orders is None:
        raise UnknownName("schedule", schedule, SCHEDULES)
    works = _cases(task, cases, seed) if task is not None else None
    job = _job(what, args, kwargs, grid, block, shared_bytes, kernel, target, works)
    chosen = chosen_checks(checks, max_findings)
    begin, runs = time.monotonic(), []
    for order in orders:
        if watch:
            watch(f"{job.name}: schedule {order}")
        runs.append(job.run(_Plan(chosen, order, seed, max_seconds)))
    return SanitizeReport(
        job.name, merged(f for r in runs for f in r.findings), sum(r.launches for r in runs), orders,
        time.monotonic() - begin, next((r.ended for r in runs if r.ended), ""),
        {n: t for r in runs for n, t in r.sources.items()},
    )  # fmt: skip


def chosen_checks(given: Checks | Iterable[str] | str | None, max_findings: int = 64) -> Checks:
    """The checks that names stand for: "races,leaks" or ["races", "leaks"]; None and "all": all.

    >>> chosen_checks("leaks").races
    False
    """
    if isinstance(given, Checks):
        return given
    names = given.replace(",", " ").split() if isinstance(given, str) else given
    named = list(names) if names is not None else ["all"]
    for name in named:
        if name not in (*SWITCHES, "all"):
            raise UnknownName("check", name, [*SWITCHES, "all"])
    if "all" in named:
        return Checks.all(max_findings)
    return Checks(**{n: n in named for n in SWITCHES}, max_findings=max_findings)


def merged(found: Iterable[Fault]) -> tuple[Fault, ...]:
    """Findings of several runs: each once, errors first, and else as they came."""
    kept: dict[Any, Fault] = {}
    for finding in found:
        places = frozenset((finding.source, finding.other.source if finding.other else ""))
        kept.setdefault((finding.kind, finding.severity, finding.kernel, places), finding)
    return tuple(ordered(kept.values()))


def _plain(finding: Fault) -> dict[str, Any]:
    return {**to_plain(finding), "source": finding.source}


# --------------------------------------------------------------------------------- what can be run


@dataclass(frozen=True, slots=True)
class _Plan:
    checks: Checks
    schedule: str
    seed: int
    max_seconds: float

    def options(self) -> dict[str, Any]:
        return {"checks": self.checks, "schedule": self.schedule, "seed": self.seed}


@dataclass(frozen=True, slots=True)
class _Ran:
    findings: Sequence[Fault]
    launches: int
    ended: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Job:
    name: str
    run: Callable[[_Plan], _Ran]


def _job(
    what: Any, args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any, block: Any,
    shared_bytes: int, kernel: str | None, target: Any, works: Works | None,
) -> _Job:  # fmt: skip
    if isinstance(what, str | Path) and Path(what).suffix == ".ptx":
        return _ptx_job(Path(what), kernel, grid, block, shared_bytes, args)
    if isinstance(what, str | Path):
        what = load_candidate(what)
    if isinstance(what, Candidate):
        made = works or (lambda c: [Work(c, list(args) or example_of(c))])
        return _Job(what.name, lambda plan: _candidate(made(what), target, plan))
    if works is not None:
        raise UsageError(
            "a task goes with a candidate or its path, not with a kernel or a function"
        )
    if grid is not None and block is not None and hasattr(what, "__getitem__"):
        what = what[grid, block, shared_bytes]
    if not callable(what):
        raise UsageError(
            f"cannot sanitize {what!r}: give kernel[grid, block] with its arguments, a function that "
            "launches kernels, a candidate or its path, or a .ptx file with grid= and block="
        )
    _refuse_cuda(args)
    saved = [(v, _copy(v)) for v in [*args, *kwargs.values()] if hasattr(v, "shape")]
    return _Job(_name_of(what), lambda plan: _call(what, args, kwargs, target, plan, saved))


def _refuse_cuda(args: Sequence[Any]) -> None:
    if any(getattr(value, "is_cuda", False) for value in args):
        raise UsageError(
            "the sanitizer is the virtual GPU's: pass CPU tensors, such as x.cpu(). On a GPU, "
            "NVIDIA's compute-sanitizer does this work"
        )


def _name_of(what: Any) -> str:
    inner = getattr(what, "kernel", what)
    return str(getattr(inner, "name", None) or getattr(inner, "__name__", None) or repr(inner))


def _copy(value: Any) -> Any:
    return value.detach().clone() if hasattr(value, "detach") else value.copy()


def _call(
    what: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], target: Any,
    plan: _Plan, saved: Sequence[tuple[Any, Any]],
) -> _Ran:  # fmt: skip
    """Call a launcher or a function; its arguments are first put back as they were given."""
    from .devices.observe import observe

    for value, kept in saved:
        (value.data if hasattr(value, "detach") else value)[...] = kept
    with observe(target, count=False, max_seconds=plan.max_seconds, **plan.options()) as seen:
        try:
            what(*args, **kwargs)
        except KernelFault as fault:
            if not seen.findings:
                raise
            _ = fault  # it is the first of the findings
    return _Ran(seen.findings, len(seen.launches), sources=sources_of(seen.sources, seen.findings))


def sources_of(known: Mapping[str, str], found: Iterable[Fault]) -> dict[str, str]:
    """The text of the files that findings name: CUDA files as compiled, Python files as imported."""
    names = {p.source_file for f in found for p in (f, f.other) if p is not None and p.source_file}
    texts = {n: known[n] for n in names if n in known and not n.endswith(".py")}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and Path(file).name in names - texts.keys():
            texts[Path(file).name] = Path(file).read_text(errors="replace")
    return texts


def _cases(task: Task | str | Path, cases: int, seed: int) -> Works:
    """The smallest declared and hidden cases of a task, as work for a candidate."""
    from .verify.reference import Reference
    from .verify.trials import make_inputs, plan

    task = task if isinstance(task, Task) else load_task(task)
    reference = Reference(task, seed)
    trials = plan(task, hidden=max(cases, 4), seed=seed, max_elements=SMALL_ELEMENTS)[:cases]
    given = [(t.case, make_inputs(task, t)) for t in trials]
    return lambda candidate: [
        Work(candidate, inputs, reference.state, reference.init_inputs, case, seed=seed)
        for case, inputs in given
    ]


def _candidate(works: Sequence[Work], target: Any, plan: _Plan) -> _Ran:
    """Run a candidate in a process of its own, as `warpsmith run` does."""
    from .devices import open_device

    wanted = {**to_plain(plan.checks), "schedule": plan.schedule, "seed": plan.seed}
    device = open_device("virtual", target)
    try:
        runs = [
            device.run(w, max_seconds=plan.max_seconds, count=False, sanitize=wanted)  # type: ignore[call-arg]
            for w in works
        ]
    finally:
        device.close()
    found = [from_plain(Fault, f) for r in runs for f in r.details.get("findings", ())]
    known = any(f.severity == "error" for f in found)
    bad = next((f"{r.outcome.value}: {r.message}" for r in runs if not r.outcome.right), "")
    sources = dict(works[0].candidate.files)
    return _Ran(found, sum(len(r.launches) for r in runs), "" if known else bad, sources)


def example_of(candidate: Candidate) -> list[Any]:
    """What a candidate's own `example()` returns, called in this process. CandidateError without one."""
    import tempfile

    from .devices import host

    with tempfile.TemporaryDirectory(prefix="warpsmith-") as folder:
        try:
            made = host.load(candidate, Path(folder)).names.get("example")
            if callable(made):
                return list(made())
        except WarpsmithError:
            raise
        except Exception as error:
            raise CandidateError(
                f"{candidate.name} raised {type(error).__name__}: {error}"
            ) from error
    raise CandidateError(
        f"{candidate.name} defines no example(): add one that returns the list of inputs, or give "
        "them, or launch its __global__ function with a grid and a block"
    )


def _ptx_job(
    path: Path, kernel: str | None, grid: Any, block: Any, shared_bytes: int, args: Sequence[Any]
) -> _Job:
    from .vgpu import load

    if grid is None or block is None:
        raise UsageError(
            f"{path.name} needs grid and block: a PTX file does not say how to launch it"
        )
    if not path.is_file():
        raise UsageError(f"no PTX file at {path}")
    _refuse_cuda(args)
    module = load(path.read_text(), name=path.name)
    if kernel is None and len(module.kernels) != 1:
        names = ", ".join(module.kernels) or "no entry"
        raise UsageError(f"{path.name} has {names}: say which one with kernel=")
    entry = kernel or next(iter(module.kernels))
    sizes = _dims(grid), _dims(block)
    return _Job(entry, lambda plan: _ptx(module, entry, *sizes, shared_bytes, args, plan))


def _dims(given: Any) -> tuple[int, ...]:
    return tuple(given) if isinstance(given, Iterable) else (int(given),)


def _ptx(
    module: Any, entry: str, grid: Sequence[int], block: Sequence[int], shared_bytes: int,
    args: Sequence[Any], plan: _Plan,
) -> _Ran:  # fmt: skip
    """Launch an entry on copies of its arguments."""
    from .vgpu import Memory
    from .vgpu.memory import copy_of

    memory, values, kept = Memory(), [], []
    names = [p.name for p in module.kernels[entry].parameters] if entry in module.kernels else []
    for index, value in enumerate(args):
        if not hasattr(value, "shape"):
            values.append(0 if value is None else value)
            continue
        kept.append(copy_of(value.numpy() if hasattr(value, "numpy") else value))
        name = names[index] if index < len(names) else f"argument {index}"
        start = kept[-1].ctypes.data
        memory.register(start, kept[-1].nbytes, name, element_bytes=kept[-1].itemsize)
        values.append(start)
    result = module.launch(
        entry, grid, block, values, shared_bytes=shared_bytes, memory=memory, count=False,
        max_seconds=plan.max_seconds, **plan.options(),
    )  # fmt: skip
    return _Ran(result.findings, 1, sources={module.name: module.text})
