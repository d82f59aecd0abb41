"""docs/keras-speed.md from benchmarks/results/keras_speed.json; nothing is measured here."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

COLUMNS = (
    "warpsmith", "ONNX Runtime", "ONNX Runtime, identity", "RTNeural", "frugally-deep",
    "torch.compile", "Keras jit_compile", "Keras eager",
)  # fmt: skip


def page(data: dict[str, Any]) -> str:
    lines = [
        "# Speed of emitted networks",
        "",
        "Written by `python benchmarks/keras_speed.py --docs docs/keras-speed.md` from "
        "`benchmarks/results/keras_speed.json`.",
        "",
        f"One core of {data['machine']}, float32, {data['compiler']} with `{' '.join(data['flags'])}` for "
        "everything in C++. Microseconds of CPU time for one call, medians over blocks in which the "
        "contenders took turns; in brackets half the distance of the quartiles. ONNX Runtime is called "
        "from Python with bound memory; the column after it is what such a call costs for a graph that "
        "does nothing. The limit is the larger of weight bytes over the bandwidth with which this core "
        "reads that many bytes again and again, and multiply-adds over its measured peak; a network "
        "whose weights are read once a sample cannot be faster. "
        + (f"The file holds {data['note']}." if "note" in data else ""),
        "",
    ]
    for batch in sorted({r["batch"] for r in data["rows"]}):
        rows = [r for r in data["rows"] if r["batch"] == batch]
        lines += _table(batch, rows)
    return "\n".join([*lines, *_losses(data["rows"]), *_absent(data["rows"])]) + "\n"


def _table(batch: int, rows: list[dict[str, Any]]) -> list[str]:
    lines = [f"## {'One sample' if batch == 1 else f'{batch} samples in a call'}", ""]
    lines.append("| network | limit | " + " | ".join(COLUMNS) + " |")
    lines.append("| --- " * (len(COLUMNS) + 2) + "|")
    for r in rows:
        peers = {k: v["median_us"] for k, v in r["times"].items() if "identity" not in k}
        best = min(peers, key=lambda k: peers[k])
        cells = [_cell(r["times"].get(c), c == best) for c in COLUMNS]
        lines.append(f"| {r['network']} | {_short(r['limit_us'])} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _cell(t: dict[str, float] | None, best: bool) -> str:
    if t is None:
        return "–"
    text = f"{_short(t['median_us'])} ({_short((t['q3_us'] - t['q1_us']) / 2)})"
    return f"**{text}**" if best else text


def _short(x: float) -> str:
    """
    >>> _short(0.0513), _short(12.34), _short(1234.5)
    ('0.051', '12', '1234')
    """
    return f"{x:.0f}" if x >= 10 else f"{x:.2g}"


def _losses(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["## Where a peer is faster", ""]
    for r in rows:
        mine = r["times"]["warpsmith"]["median_us"]
        for peer, t in r["times"].items():
            if "identity" not in peer and t["median_us"] < mine:
                lines.append(
                    f"- {r['network']}, {r['batch']}: {peer}, {mine / t['median_us']:.2f} times as fast"
                )
    return [*(lines if len(lines) > 2 else [*lines, "Nowhere in this run."]), ""]


def _absent(rows: list[dict[str, Any]]) -> list[str]:
    """Which peer, why, and for which networks and batches."""
    found: dict[tuple[str, str], list[str]] = {}
    for r in rows:
        for peer, why in r["absent"].items():
            found.setdefault((peer, why), []).append(f"{r['network']} ({r['batch']})")
    lines = [f"- {peer}: {why}: {', '.join(where)}" for (peer, why), where in found.items()]
    return ["## What was not measured", "", *lines]
