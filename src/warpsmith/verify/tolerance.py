"""How exact is exact enough: from dtype, reduction length and what the library itself gets wrong.

An element may be off by

    base * scale + FACTOR * noise,    base = relative * |truth| + absolute * rms(truth) + least

relative and absolute come from the output's dtype and the longest reduction; noise is the element's
own error in PyTorch at the task's precision, or how much the truth moves when the inputs move by one
rounding, whichever is larger; scale is FACTOR times the 99.9th percentile of noise / base, at least 1.
So a well-conditioned task is held to its dtype, and an ill-conditioned one to FACTOR times the library.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

FACTOR = 4.0  # times the library's own error
WIDE_FACTOR = 8.0  # on the floor, where there is no float64 truth and so no own error to go by
_OPERATION_ROUNDINGS = 16  # of the arithmetic that makes one element: fast exp, rsqrt, division
_QUANTILE = 0.999
_SAMPLE = 1 << 20


@dataclass(frozen=True)
class Allowance:
    """What one output is held to. `noise_factor` multiplies the element's own noise."""

    relative: float
    absolute: float  # times the rms is already taken: the output's own unit
    noise_factor: float = 0.0
    exact: bool = False
    origin: str = ""  # for people: "derived for float32, reductions of 4096"

    def of(self, truth: Any, noise: Any | None) -> Any:
        """Allowed absolute error of each element of a float64 tensor."""
        allowed = truth.abs() * self.relative + self.absolute
        return allowed if noise is None else allowed + self.noise_factor * noise


def floor(dtype: Any, length: int) -> tuple[float, float]:
    """Relative and absolute (times rms) error that any right kernel may have, in `dtype`.

    Two roundings of the result, plus rounding in the arithmetic (float32 for narrower types) that
    grows with the root of the reduction `length`, as random-walk summation errors do (Higham,
    Accuracy and Stability of Numerical Algorithms, 4.2).
    """
    import torch

    result = torch.finfo(dtype).eps
    arithmetic = min(result, torch.finfo(torch.float32).eps)
    grown = arithmetic * (_OPERATION_ROUNDINGS + math.sqrt(length))
    return 2 * result + grown, result / 2 + grown


def derive(truth: Any, noise: Any | None, dtype: Any, length: int) -> Allowance:
    """The allowance of one floating-point output.

    truth: float64. noise: float64 of the same shape, see the module; None without a float64 truth.
    """
    relative, absolute = floor(dtype, length)
    rms = _rms(truth)
    about = f"derived for {str(dtype).removeprefix('torch.')}, reductions of {length}"
    least = _least(dtype)
    if noise is None:
        wide = WIDE_FACTOR
        return Allowance(
            relative * wide, absolute * wide * rms + least, origin=f"{about}, no float64 truth"
        )
    least += FACTOR * _rms(noise) if rms == 0 else 0.0
    base = _sample(truth).abs() * relative + absolute * rms + least
    ratio = (_sample(noise) / base).nan_to_num(0.0, 0.0, 0.0)
    level = float(ratio.quantile(_QUANTILE)) if ratio.numel() else 0.0
    scale = max(1.0, FACTOR * level)
    return Allowance(
        relative * scale,
        (absolute * rms + least) * scale,
        FACTOR,
        origin=f"{about}, scale {scale:.3g}",
    )


def _least(dtype: Any) -> float:
    """Below this, numbers are subnormal and hardware may flush them."""
    import torch

    return float(torch.finfo(dtype).tiny)


def _rms(values: Any) -> float:
    import torch

    sample = _sample(values)
    finite = sample[torch.isfinite(sample)]
    return float(finite.square().mean().sqrt()) if finite.numel() else 0.0


def _sample(values: Any) -> Any:
    """At most about a million elements, evenly spread."""
    flat = values.reshape(-1)
    return flat[:: max(1, -(-flat.numel() // _SAMPLE))]


def reduction_length(call: Callable[[], Any]) -> int:
    """The longest reduction that PyTorch does within `call`; 1 for elementwise work.

    Matrix products count their inner size, convolutions one output's window, other reductions the
    elements that go into one result.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    longest = 1

    class Watch(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # True imports torch._dynamo, which takes seconds

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
            nonlocal longest
            result = function(*args, **(kwargs or {}))
            name = function.overloadpacket.__name__
            longest = max(longest, _length(name, args, result))
            return result

    with Watch():
        call()
    return longest


def _length(name: str, arguments: Sequence[Any], result: Any) -> int:
    tensors = [a for a in arguments if hasattr(a, "shape")]
    rule = next((rule for words, rule in _RULES if any(w in name for w in words)), None)
    return int(rule(tensors, result)) if rule and tensors else 1


def _inner(tensors: Sequence[Any], result: Any) -> int:
    """addmm and its kin have the bias first; the first matrix's last size is the inner one."""
    return tensors[-2 if len(tensors) > 1 else 0].shape[-1] if tensors[-1].dim() else 1


def _window(tensors: Sequence[Any], result: Any) -> int:
    return math.prod(tensors[1].shape[1:]) if len(tensors) > 1 else 1


def _last(tensors: Sequence[Any], result: Any) -> int:
    """Normalizations and scans: the longest axis, for want of the axis."""
    return max(tensors[0].shape, default=1)


def _whole(tensors: Sequence[Any], result: Any) -> int:
    return tensors[0].numel() // max(tensors[0].shape[0] if tensors[0].dim() else 1, 1)


def _per_result(tensors: Sequence[Any], result: Any) -> int:
    first = result[0] if isinstance(result, (tuple, list)) else result
    outputs = first.numel() if hasattr(first, "numel") else 1
    return tensors[0].numel() // max(outputs, 1)


_RULES: tuple[tuple[tuple[str, ...], Callable[[Sequence[Any], Any], int]], ...] = (
    (("convolution",), _window),
    (("attention",), _last),
    (("mm", "dot", "mv", "addr", "linear"), _inner),
    (("batch_norm", "group_norm"), _whole),
    (("softmax", "layer_norm", "cum", "logsumexp", "rms_norm"), _last),
    (("sum", "mean", "norm", "var", "std", "loss", "prod", "pool", "dist"), _per_result),
)
