"""Recognize the shape of a mistake: which elements are wrong, and how, so that it can be found."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_MOST = 1 << 22  # elements looked at: hints are for people, not for the verdict


def hint(output: Any, truth: Any, wrong: Any) -> str:
    """What the wrong elements have in common, in words; "" when nothing stands out.

    All three have one shape; `wrong` is boolean.
    """
    if output.numel() == 0 or output.numel() > _MOST:
        return _region(wrong) if output.numel() else ""
    out, want = output.double(), truth.double()
    for rule in _RULES:
        if said := rule(out, want, wrong):
            return said
    return _region(wrong)


def _close(a: Any, b: Any) -> bool:
    import torch

    finite = b[torch.isfinite(b)]
    small = 1e-3 * float(finite.abs().mean()) if finite.numel() else 0.0
    return bool(torch.allclose(a, b, rtol=2e-2, atol=small + 1e-30))


def _zeros(out: Any, want: Any, wrong: Any) -> str:
    if not bool((out == 0).all()):
        return ""
    return "every element is 0: was the kernel launched, and does it write to this output?"


def _constant(out: Any, want: Any, wrong: Any) -> str:
    same = out.numel() > 1 and bool((out == out.flatten()[0]).all())
    return f"every element is {float(out.flatten()[0]):.6g}" if same else ""


def _factor(out: Any, want: Any, wrong: Any) -> str:
    """All wrong elements off by one factor."""
    import torch

    usable = wrong & torch.isfinite(out) & torch.isfinite(want) & (want != 0)
    if not bool(usable.any()):
        return ""
    usable &= want.abs() > 0.1 * want[usable].abs().mean()
    if int(usable.sum()) < 3:
        return ""
    ratios = out[usable] / want[usable]
    middle = ratios.median()
    spread = float((ratios - middle).abs().max())
    if abs(float(middle)) < 1e-3 or spread > 1e-3 * abs(float(middle)):
        return ""
    return f"the wrong elements are {float(middle):.6g} times what they should be"


def _offset(out: Any, want: Any, wrong: Any) -> str:
    import torch

    usable = wrong & torch.isfinite(out) & torch.isfinite(want)
    if int(usable.sum()) < 3:
        return ""
    steps = (out - want)[usable]
    middle = steps.median()
    if float((steps - middle).abs().max()) > 1e-3 * abs(float(middle)):
        return ""
    return f"the wrong elements are off by {float(middle):+.6g}"


def _transposed(out: Any, want: Any, wrong: Any) -> str:
    if out.dim() < 2 or min(out.shape[-2:]) < 2:
        return ""
    rows, columns = out.shape[-2:]
    turned = out.reshape(*out.shape[:-2], columns, rows).transpose(-1, -2)
    return "the result is transposed (its last two axes)" if _close(turned, want) else ""


def _shifted(out: Any, want: Any, wrong: Any) -> str:
    got, need = out.flatten(), want.flatten()
    if got.numel() < 4:
        return ""
    for step, words in ((1, "one element late"), (-1, "one element early")):
        cut = slice(1, -1)
        if _close(got.roll(-step)[cut], need[cut]):
            return f"the result is shifted: it comes {words}"
    return ""


def _negated(out: Any, want: Any, wrong: Any) -> str:
    return "the sign is turned" if _close(-out, want) and bool((want != 0).any()) else ""


_RULES: tuple[Callable[[Any, Any, Any], str], ...] = (
    _zeros,
    _negated,
    _transposed,
    _constant,
    _factor,
    _offset,
    _shifted,
)


def _region(wrong: Any) -> str:
    """Where the wrong elements lie: the end or the start of an axis, or every n-th index."""
    said = []
    for axis, size in enumerate(wrong.shape):
        others = [a for a in range(wrong.dim()) if a != axis]
        hit = wrong.any(dim=others) if others else wrong
        where = hit.nonzero().flatten()
        if size > 1 and len(where) and (text := _span(where, size)):
            said.append(f"{text} of axis {axis} (size {size})")
    return "all wrong elements are at " + " and ".join(said) if said else ""


def _span(where: Any, size: int) -> str:
    first, last, count = int(where[0]), int(where[-1]), len(where)
    if count == size:
        return ""
    if count == 1:
        return f"index {first}"
    if count == last - first + 1:
        if last == size - 1:
            return f"indices >= {first}"
        return f"indices <= {last}" if first == 0 else f"indices {first} to {last}"
    step = int(where[1]) - first
    if count > 2 and step > 1 and bool((where.diff() == step).all()):
        return f"indices {first}, {first + step}, {first + 2 * step}, … (every {step})"
    return f"indices >= {first}" if first > size // 2 else ""
