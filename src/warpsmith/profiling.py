"""Profile kernels on the virtual GPU: exact counters by line, a modelled time, and what bounds it."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import csv
import io
import linecache
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from .errors import UsageError
from .spec import Launch, Target

USUAL_REGISTERS = 32  # where no assembler was at hand


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """One launch: its counters by section, by line, and what the performance model makes of them.

    sections: section -> flat name -> value. lines: rows of `vgpu.Counters.rows`. terms: microseconds
    of each resource. measured: the numbers come from a GPU's own counters; nothing is modelled.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int  # dynamic
    registers: int | None
    sections: Mapping[str, Mapping[str, float]]
    lines: Sequence[Mapping[str, Any]] = ()
    time_us: float | None = None
    terms: Mapping[str, float] = field(default_factory=dict)
    bound: str = ""
    occupancy: Mapping[str, Any] = field(default_factory=dict)
    roofline: Mapping[str, float] = field(default_factory=dict)
    advice: Sequence[str] = ()
    measured: bool = False

    @property
    def counters(self) -> dict[str, float]:
        """All sections as one flat mapping."""
        return {
            name: value for section in self.sections.values() for name, value in section.items()
        }


@dataclass(frozen=True, slots=True)
class Profile:
    """What `profile` saw. `sources` are the texts of the files that lines refer to, by file name."""

    device: str
    target: str  # its name
    target_title: str
    provenance: str  # where the numbers come from, and what is modelled or estimated
    kernels: tuple[KernelProfile, ...]
    sources: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        return self.text()

    def text(
        self, *, top: int = 10, metrics: Sequence[str] = (), listing: bool = False, width: int = 100
    ) -> str:
        """As a terminal shows it: `top` hottest lines, the whole listing on request.

        metrics: only counters whose name contains one of these words.
        """
        from .report import profile_text

        return profile_text.text(
            self.as_dict(), top=top, metrics=metrics, listing=listing, width=width
        )

    def html(self, path: str | Path) -> Path:
        """Write one HTML file that needs nothing else, and give its path."""
        from .report import profile_page

        return profile_page.html(self.as_dict(), path)

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data, ready for json."""
        from .spec import to_plain

        plain: dict[str, Any] = to_plain(self)
        return plain

    def rows(self) -> list[dict[str, Any]]:
        """One row for each kernel and source line: for pandas.DataFrame."""
        return [
            {"kernel": kernel.kernel, "launch": number, **line}
            for number, kernel in enumerate(self.kernels)
            for line in kernel.lines
        ]

    def csv(self) -> str:
        """`rows` as CSV with a header; where there are no lines, one row for each counter."""
        rows = self.rows() or [
            {"kernel": kernel.kernel, "launch": number, "counter": name, "value": value}
            for number, kernel in enumerate(self.kernels)
            for name, value in kernel.counters.items()
        ]
        text = io.StringIO()
        writer = csv.DictWriter(text, rows[0] if rows else ["kernel"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()


def profile(
    kernel: Callable[..., Any],
    *args: Any,
    target: Target | str | None = None,
    caches: bool = True,
    max_seconds: float | None = None,
    **keywords: Any,
) -> Profile:
    """Call `kernel(*args, **keywords)` and profile every launch that it makes on the virtual GPU.

    kernel: a launcher (`k[grid, block]`) or any function that launches kernels on CPU tensors.
    target: what the virtual GPU stands for (default h100). caches: also estimate hit rates and DRAM
    bytes, which costs about as much time again. max_seconds: for all launches together.

        found = ws.profile(softmax[rows, 256], x, out, rows, cols)
        print(found)
        found.html("softmax.html")

    Raises UsageError when nothing was launched on the virtual GPU, and what the kernel raises.
    """
    from . import targets
    from .devices import DEFAULT_TARGET
    from .devices.observe import observe

    part = targets.get(target or DEFAULT_TARGET) if not isinstance(target, Target) else target
    with observe(part, count=True, caches=caches, max_seconds=max_seconds) as seen:
        kernel(*args, **keywords)
    return of_session(seen, part)


def of_session(seen: Any, target: Target, files: Mapping[str, str] | None = None) -> Profile:
    """The profile of an `observe` block's launches. files: name -> text of sources already at hand."""
    if not seen.launches:
        raise UsageError(
            "nothing was launched: give a kernel with its grid and block, as k[8, 256]"
        )
    if len(seen.counters) != len(seen.launches):
        raise UsageError(
            "a launch was on a CUDA device, where nothing is counted: give CPU tensors, or use "
            "`warpsmith profile KERNEL --device cuda`, which asks Nsight Compute"
        )
    needs = {kernel["artifact"]: kernel for kernel in seen.kernels}
    kernels = tuple(
        _kernel(launch, counted, needs.get(launch.artifact, {}), target)
        for launch, counted in zip(seen.launches, seen.counters)
    )
    return Profile(
        device="virtual",
        target=target.name,
        target_title=target.title,
        provenance=_provenance(target),
        kernels=kernels,
        sources=_sources(kernels, seen.sources, files or {}),
        notes=tuple(seen.notes),
    )


def _provenance(target: Target) -> str:
    from .measure import MODEL_ERROR

    return (
        "Counters are exact counts of what the PTX did on the virtual GPU, names starting with "
        "estimated_ are estimates of a cache model, and times are MODELLED for "
        f"{target.title}: no clock ran. The model was {MODEL_ERROR}"
    )


def _kernel(
    launch: Launch, counted: Any, needs: Mapping[str, Any], target: Target
) -> KernelProfile:
    from .analyze import advise, roofline
    from .measure.model import LaunchShape, model_time

    static = int(needs.get("static_shared_bytes") or 0)
    registers = launch.registers or USUAL_REGISTERS
    shape = LaunchShape(launch.grid, launch.block, launch.shared_bytes + static, registers)
    modelled = model_time(launch.counters, shape, target)
    roof = roofline([launch], modelled.total_us, target)
    return KernelProfile(
        kernel=launch.kernel,
        grid=launch.grid,
        block=launch.block,
        shared_bytes=launch.shared_bytes,
        registers=launch.registers,
        sections=sections_of(launch.counters),
        lines=counted.rows(),
        time_us=modelled.total_us,
        terms=dict(modelled.terms),
        bound=modelled.bound,
        occupancy=_occupancy(launch, static, needs, target),
        roofline=roof,
        advice=tuple(str(finding) for finding in advise([launch], target)),
    )


def sections_of(counters: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Counters by section of the table, in its order; counters that are zero stay."""
    from .vgpu.metrics import SECTIONS, section_of

    found: dict[str, dict[str, float]] = {name: {} for name in SECTIONS}
    for name, value in counters.items():
        found.setdefault(section_of(name) or "Other", {})[name] = value
    return {name: values for name, values in found.items() if values}


def _occupancy(
    launch: Launch, static: int, needs: Mapping[str, Any], target: Target
) -> dict[str, Any]:
    from .targets import occupancy

    threads = math.prod(launch.block)
    registers = launch.registers or USUAL_REGISTERS
    barriers = min(int(needs.get("barriers") or 1), 16)
    fit = occupancy(target, threads, registers, launch.shared_bytes + static, barriers)
    waves = math.prod(launch.grid) / (target.sms * max(fit.blocks_per_sm, 1))
    return {
        "blocks_per_sm": fit.blocks_per_sm,
        "warps_per_sm": fit.warps_per_sm,
        "warps_per_sm_most": target.warps_per_sm,
        "fraction": fit.fraction,
        "limiter": fit.limiter,
        "limits": dict(fit.limits),
        "waves": waves,
        "static_shared_bytes": static,
        "registers_known": launch.registers is not None,
        "spill_bytes": needs.get("spill_bytes"),
    }


def _sources(
    kernels: Sequence[KernelProfile], launched: Mapping[str, str], files: Mapping[str, str]
) -> dict[str, str]:
    """The whole texts of the files that lines are in; a file that cannot be found is left out."""
    wanted = dict.fromkeys(line["file"] for kernel in kernels for line in kernel.lines)
    found = {}
    for file in filter(None, wanted):
        name = PurePath(file).name
        text = files.get(name) or _text_of(file, name, launched.get(name, ""))
        if text:
            found[name] = text
    return found


def _text_of(file: str, name: str, part: str) -> str:
    """From disk, else from a loaded module (Triton keeps a function's own text only), else `part`."""
    if PurePath(file).is_absolute() and Path(file).is_file():
        return Path(file).read_text(errors="replace")
    if not name.endswith(".py"):
        return part
    if part.startswith("#line"):  # of a literal in a Python file
        part = part.partition("\n")[2]
    for path in _python_files(name):
        text = "".join(linecache.getlines(path))
        if part and part in text:
            return text
    return ""


def _python_files(name: str) -> list[str]:
    """Files of loaded modules with this name, and those whose lines have been looked up."""
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    paths = [str(path) for path in (*modules, *linecache.cache) if path]
    return [path for path in dict.fromkeys(paths) if PurePath(path).name == name]
