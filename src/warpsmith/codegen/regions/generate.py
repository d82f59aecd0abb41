"""From a plan, a rung and its parameters to the files of a candidate."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...spec import ENTRY, Candidate, Task
from .families import LADDERS, Rung, ladder_text
from .host import Host, host_code
from .ir import Region, product
from .kernel import Kernel
from .plan import Plan
from .staged import staged

NOUNS = {"pointwise": "elements", "rows": "rows", "contract": "product"}  # in kernels' names


@dataclass(frozen=True)
class Family:
    """One rung of a plan's ladder in one language, and the grid of its parameters.

    parameters: name -> values worth trying, the default first. With several regions a name carries
    its region: "2.block" is the block size of the second.
    """

    language: str
    rung: int  # from 1
    title: str
    parameters: Mapping[str, tuple[Any, ...]]
    staged: bool = (
        False  # of the plan whose row programs are cut, so that long rows have many blocks
    )

    @property
    def name(self) -> str:
        return f"{self.language} {self.rung}"

    @property
    def default(self) -> dict[str, Any]:
        return {name: values[0] for name, values in self.parameters.items()}


def families(plan: Plan, language: str) -> list[Family]:
    """The ladder of a whole plan: rung k uses rung k of each region, or the region's last.

    Where a row program has several passes, one more rung works in stages.
    """
    ladders = [LADDERS[language](r) for r in plan.regions]
    found = [_family(ladders, language, k) for k in range(max(map(len, ladders)))]
    cut = staged(plan) if language == "cuda" else None
    if cut is None:
        return found
    last = [LADDERS[language](r)[-1:] for r in cut.regions]
    whole = _family(last, language, 0)
    title = "in stages: every row on many blocks"
    return [*found, Family(language, len(found) + 1, title, whole.parameters, staged=True)]


def _family(ladders: list[list[Rung]], language: str, k: int) -> Family:
    chosen = [ladder[min(k, len(ladder) - 1)] for ladder in ladders]
    parameters = {
        prefix + name: values
        for prefix, rung in zip(_prefixes(len(ladders)), chosen)
        for name, values in rung.parameters.items()
    }
    titles = list(dict.fromkeys(rung.title for rung in chosen))
    return Family(language, k + 1, "; ".join(titles), parameters)


def _prefixes(count: int) -> list[str]:
    return [""] if count == 1 else [f"{k}." for k in range(1, count + 1)]


def candidate(
    plan: Plan, task: Task, family: Family, point: Mapping[str, Any], origin: str
) -> Candidate:
    """The candidate of one rung at one point of its parameters."""
    if family.staged:
        plan = staged(plan) or plan
    stem = identifier(task.name)
    several = len(plan.regions) > 1
    kernels: dict[Region, Kernel] = {}
    titles: list[str] = []
    for k, (region, prefix) in enumerate(zip(plan.regions, _prefixes(len(plan.regions))), 1):
        ladder = LADDERS[family.language](region)
        place = len(ladder) if family.staged else min(family.rung, len(ladder))
        rung = ladder[place - 1]
        titles.append(rung.title)
        own = {name: point[prefix + name] for name in rung.parameters}
        about = {
            "title": f"{task.name}: {operations(region)}",
            "ladder": ladder_text(ladder),
            "rung": f"{place}, {rung.title}",
            "shape": shape_text(plan, region),
        }
        name = f"{stem}_{k}_{NOUNS[region.kind]}" if several else f"{stem}_{NOUNS[region.kind]}"
        kernels[region] = rung.make(region, name, own, about)
    first = f"{task.name}: {family.language} rung {family.rung}"
    files = {ENTRY: host_code(plan, kernels, family.language, headline(first, titles))}
    if family.language == "cuda":
        files |= {f"{kernel.name}.cu": kernel.text for kernel in kernels.values()}
    return Candidate(
        name=f"{stem}-{family.language}-{family.rung}",
        language=family.language,
        files=files,
        parameters={"rung": family.rung, **point},
        origin=origin,
        note=note(plan, family),
    )


def headline(first: str, titles: list[str]) -> str:
    """A docstring's text: one sentence, or a list where there are several kernels.

    >>> headline("softmax: cuda rung 1", ["naive"])
    'softmax: cuda rung 1, naive.'
    """
    if len(titles) == 1:
        return f"{first}, {titles[0]}."
    listed = "\n".join(f"{k} {title}" for k, title in enumerate(titles, 1))
    return f"{first}.\n\n{listed}\n"


def note(plan: Plan, family: Family) -> str:
    """One sentence: the idea, and what is left to torch."""
    text = f"rung {family.rung}: {family.title}"
    if not plan.unmatched:
        return text
    return f"hybrid, {len(plan.unmatched)} left to torch ({'; '.join(plan.unmatched)}); {text}"


def identifier(name: str) -> str:
    """A name that Python and C++ both accept.

    >>> identifier("23_Softmax")
    'k23_softmax'
    """
    text = re.sub(r"\W+", "_", name).strip("_").lower() or "kernel"
    return f"k{text}" if text[0].isdigit() else text


def operations(region: Region) -> str:
    """The operations of a region in words, for its header: 'max, sub, exp, sum, div'."""
    names = [
        value.detail[0]
        if value.op == "reduce"
        else "matmul"
        if value.op == "contract"
        else value.op
        for value in region.values()
        if value.op not in ("load", "const", "size", "iota", "welford_mean", "welford_m2")
    ]
    return ", ".join(dict.fromkeys(names)) or "copy"


def shape_text(plan: Plan, region: Region) -> str:
    """'Rows: x.shape[0]; columns: x.shape[1].'"""
    host = Host(plan)

    def text(axes: Any) -> str:
        return host.size(product(a.size for a in axes))

    if region.kind == "pointwise":
        return f"Elements: {text(region.rows)}."
    what = ("Outputs", "inner") if region.kind == "contract" else ("Rows", "columns")
    return f"{what[0]}: {text(region.rows)}; {what[1]}: {text(region.columns)}."


def points(family: Family) -> Iterator[dict[str, Any]]:
    """All points of a family's grid, the default first, then by distance from it."""
    import itertools

    names = list(family.parameters)
    ranked = itertools.product(*(range(len(family.parameters[n])) for n in names))
    for places in sorted(ranked, key=lambda p: (sum(p), p)):
        yield {n: family.parameters[n][k] for n, k in zip(names, places)}
