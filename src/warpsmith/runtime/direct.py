"""What every call of a saved operator asks of its arguments, asked as cheaply as Python can."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch  # imported with the first saved operator, not with warpsmith
from torch.autograd import forward_ad

from .domain import ALIGNMENT_BYTES
from .reference import tensors_of

_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
recording, set_recording = torch.is_grad_enabled, torch._C._set_grad_enabled


def nobody_watches(flat: Sequence[Any]) -> bool:
    """Whether calling the body is the same as calling the torch operator, which costs more.

    It is when nothing traces, records gradients, profiles, or stands between tensors and dispatcher.
    """
    if torch.compiler.is_compiling():
        return False
    recorded = torch.is_grad_enabled()
    for value in flat:
        for tensor in (value,) if type(value) in _PLAIN else tensors_of(value):
            if type(tensor) not in _PLAIN or (recorded and tensor.requires_grad):
                return False
    return not _watchers()


def _watchers() -> bool:
    """A tracer, modes, transforms, dual levels or a profiler. Where torch cannot be asked: yes."""
    try:
        return bool(
            torch._C._len_torch_dispatch_stack()
            or torch._C._functorch.peek_interpreter_stack() is not None
            or forward_ad._current_level >= 0
            or torch.autograd._profiler_enabled()
            or torch._C._is_tracing()
        )
    except AttributeError:  # private names of torch 2.11 … 2.13
        return True


def looks(flat: Sequence[Any]) -> tuple[Any, ...]:
    """What a decision on a call depends on, for each argument: see `look`."""
    return tuple(
        [
            (v.shape, v.stride(), v.dtype, v.device, v.data_ptr() % ALIGNMENT_BYTES)
            if type(v) in _PLAIN
            else look(v)
            for v in flat
        ]
    )


def look(value: Any) -> Any:
    """Shape, strides, type, device and alignment of a tensor; a number and its type."""
    try:
        start = value.data_ptr() % ALIGNMENT_BYTES
    except AttributeError:
        return tuple(map(look, value)) if isinstance(value, (list, tuple)) else (type(value), value)
    return value.shape, value.stride(), value.dtype, value.device, start


def elsewhere(flat: Sequence[Any]) -> Any:
    """The GPU of the first tensor where it is not the current one, else None.

    A dispatcher call does not make it current.
    """
    for value in flat:
        for tensor in (value,) if type(value) in _PLAIN else tensors_of(value):
            if tensor.is_cuda and tensor.get_device() != torch.cuda.current_device():
                return tensor.device
            return None
    return None


def own(outputs: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """Contiguous outputs; one that shares memory with an argument or an earlier output is copied."""
    taken = set()
    for value in arguments:
        for tensor in (value,) if type(value) in _PLAIN else tensors_of(value):
            taken.add(tensor.untyped_storage().data_ptr())
    taken.discard(0)
    owned = []
    for output in outputs:
        start = output.untyped_storage().data_ptr()
        fresh = output.clone() if start in taken else output
        fresh = fresh if fresh.is_contiguous() else fresh.contiguous()
        taken.add(start if fresh is output else fresh.untyped_storage().data_ptr())
        owned.append(fresh)
    return owned
