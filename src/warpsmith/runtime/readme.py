"""A saved operator's README: its provenance in words and tables."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..spec import from_plain
from .domain import Domain


def template(name: str) -> str:
    """A file that goes into saved operators."""
    return (Path(__file__).parent / "template" / name).read_text()


def readme(provenance: Mapping[str, Any], folder: str) -> str:
    import jinja2

    domain = from_plain(Domain, provenance["domain"])
    timing = provenance["timing"] or {"cases": []}
    errors = [c["error"] for c in provenance["verdict"]["cases"] if c["error"] is not None]
    page = jinja2.Template(template("README.md.j2"), keep_trailing_newline=True)
    return page.render(
        p=provenance,
        folder=folder,
        importable=folder.isidentifier(),
        arguments=[a.name for a in domain.arguments],
        worst=f"{max(map(float, errors)):.3g}" if errors else "not recorded",
        gradients=_gradients_text(provenance),
        domain=_domain_text(domain),
        times=_time_table(timing["cases"]),
    )


def _gradients_text(provenance: Mapping[str, Any]) -> str:
    if not provenance["differentiable"]:
        return "none: the reference is not differentiable"
    if provenance["own_gradient"]:
        return "the candidate's own `grad`"
    return "by running the reference again and differentiating it"


def _domain_text(domain: Domain) -> str:
    lines = []
    for argument in domain.arguments:
        types = ", ".join(argument.dtypes) or argument.kind
        fixed = f", one of {list(argument.values)}" if argument.values else ""
        lines.append(f"- `{argument.name}`: {types}{fixed}")
    for name, (shape, dtype) in domain.state.items():
        lines.append(f"- weight `{name}`: {dtype}, {'×'.join(map(str, shape)) or 'scalar'}")
    if domain.formulas is not None:
        ranges = (f"{n} {r.low} … {r.high} step {r.multiple}" for n, r in domain.ranges.items())
        lines.append(f"- sizes: {', '.join(ranges)}")
    else:
        shapes = "; ".join(
            ", ".join("×".join(map(str, s)) for s in sizes if s) for sizes in domain.shapes
        )
        lines.append(f"- sizes: exactly {shapes} ({domain.note})")
    if domain.compute_capability:
        lines.append(f"- compute capability {'.'.join(map(str, domain.compute_capability))}")
    lines.append("- memory laid out as in the task, starting at a multiple of 32 bytes")
    return "\n".join(lines)


def _time_table(cases: Sequence[Mapping[str, Any]]) -> str:
    """A row for each case: this kernel, then each baseline and the speed-up over it."""
    baselines = sorted({b for case in cases for b in case["baselines_us"]})
    head = ["case", "this kernel, µs"]
    for name in baselines:
        head += [f"{name}, µs", f"speed-up over {name}"]
    rows = [head, ["---"] * len(head), *(_time_row(case, baselines) for case in cases)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _time_row(case: Mapping[str, Any], baselines: Sequence[str]) -> list[str]:
    row = [case["case"], f"{float(case['median_us']):.4g}"]
    for name in baselines:
        time, ratio = case["baselines_us"].get(name), case["speedups"].get(name)
        row.append("—" if time is None else f"{float(time):.4g}")
        row.append(
            f"{float(ratio['value']):.3g}× ({float(ratio['low']):.3g} … {float(ratio['high']):.3g})"
            if ratio
            else "—"
        )
    return row
