"""Memory that tells on a candidate: aligned copies between guard bytes, and poison where nothing is written."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError

ALIGNMENT = 256  # bytes, what cudaMalloc promises and vector loads rely on
GUARD_BYTES = 256
GUARD = 0xA5
# A NaN in float16, bfloat16, float32 and float64 that no arithmetic gives; 0x7F in one-byte types.
POISON_WORD = 0x7FFE
POISON_BYTE = 0x7F
TAIL_BYTES = 4096  # of poison past tensors that a candidate allocates on a GPU


@dataclass(frozen=True)
class Placed:
    """A tensor's copy on a device, and what surrounds it."""

    tensor: Any
    original: Any  # the CPU tensor it was copied from
    before: Any  # guard bytes, uint8
    after: Any

    def changed(self) -> bool:
        """Whether any byte of the copy differs from the original."""
        import torch

        now = flat_bytes(self.tensor.detach())
        return not torch.equal(now.cpu(), flat_bytes(self.original))

    def guards_broken(self) -> bool:
        return bool((self.before != GUARD).any() or (self.after != GUARD).any())


def place(tensor: Any, device: str) -> Placed:
    """Copy a CPU tensor, strides included, to 256-byte-aligned memory between guard bytes.

    On the CPU the copy's storage is exactly as long as the tensor, so that a device that checks
    bounds by storage sees the first byte past it. Raises UsageError for sparse or quantized tensors.
    """
    import torch

    if tensor.layout != torch.strided or tensor.is_quantized:
        raise UsageError(f"inputs must be dense tensors, got layout {tensor.layout}")
    source = flat_bytes(tensor.detach())
    before, room, after = _reserve(source.numel(), device)
    room.copy_(source)
    if source.numel() == 0:
        copy = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
    else:
        copy = room.view(tensor.dtype).as_strided(tensor.shape, tensor.stride())
    return Placed(copy, tensor.detach(), before, after)


def flat_bytes(tensor: Any) -> Any:
    """The bytes between a tensor's first and last element, as a uint8 tensor that shares memory."""
    import torch

    if tensor.numel() == 0:
        return torch.empty(0, dtype=torch.uint8, device=tensor.device)
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    return tensor.as_strided((extent,), (1,), tensor.storage_offset()).view(torch.uint8)


def _reserve(size: int, device: str) -> tuple[Any, Any, Any]:
    """Guard bytes, `size` free bytes and guard bytes again; all uint8."""
    import numpy
    import torch

    total = size + 2 * GUARD_BYTES + ALIGNMENT
    if device != "cpu":
        whole = torch.full((total,), GUARD, dtype=torch.uint8, device=device)
        start = GUARD_BYTES
        return whole[:start], whole[start : start + size], whole[start + size :]
    raw = numpy.full(total, GUARD, dtype=numpy.uint8)
    start = GUARD_BYTES + (-raw.ctypes.data - GUARD_BYTES) % ALIGNMENT
    # slices of the array, not of a tensor: each gets a storage of exactly its own length
    parts = raw[:start], raw[start : start + size], raw[start + size :]
    return tuple(torch.from_numpy(part) for part in parts)  # type: ignore[return-value]


def poison(tensor: Any) -> Any:
    """Overwrite a tensor's whole storage with the poison pattern (True in bools). Gives the tensor."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    if tensor.is_meta or tensor.layout != torch.strided or type(tensor) is not torch.Tensor:
        return tensor
    if tensor.dtype == torch.bool:
        word, value = torch.uint8, 1
    elif tensor.element_size() == 1:
        word, value = torch.uint8, POISON_BYTE
    else:
        word, value = torch.int16, POISON_WORD
    with torch.no_grad(), _disable_current_modes():
        torch.zeros(0, dtype=word, device=tensor.device).set_(tensor.untyped_storage()).fill_(value)
    return tensor


_ALLOCATORS = (
    ("torch", "empty"),
    ("torch", "empty_like"),
    ("torch", "empty_strided"),
    ("torch", "empty_permuted"),
    ("Tensor", "new_empty"),
    ("Tensor", "new_empty_strided"),
)


@contextlib.contextmanager
def poisoned(device: str) -> Iterator[dict[int, int]]:
    """While open, memory that `torch.empty` and its kin hand out is full of poison.

    On CUDA the caching allocator's free blocks are filled, too, and tensors get a tail of poison
    that shows writes past their end: gives address -> bytes of those, for `tail_written`. (On the
    CPU the virtual GPU checks bounds, and a tail would hide them from it.)
    """
    import torch

    homes = {"torch": torch, "Tensor": torch.Tensor}
    tailed: dict[int, int] = {}
    originals = {(h, n): getattr(homes[h], n) for h, n in _ALLOCATORS}
    if device != "cpu":
        _poison_free_blocks(device)
    for (home, name), allocate in originals.items():
        setattr(homes[home], name, _poisoning(allocate, originals["torch", "empty"], tailed))
    try:
        yield tailed
    finally:
        for (home, name), allocate in originals.items():
            setattr(homes[home], name, allocate)


def tail_written(tensor: Any, tailed: Mapping[int, int]) -> bool:
    """Whether the poison past a tensor's memory has been overwritten."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        return False
    storage = tensor.untyped_storage()
    size = tailed.get(storage.data_ptr())
    if size is None or storage.nbytes() != size + TAIL_BYTES:
        return False
    everything = torch.zeros(0, dtype=torch.int16, device=tensor.device).set_(storage)
    return bool((everything[-(TAIL_BYTES // 2) :] != POISON_WORD).any())


def _add_tail(tensor: Any, empty: Any, tailed: dict[int, int]) -> None:
    """Give a CUDA tensor new memory with a tail. Types of one byte have no telling poison."""
    import torch

    size = tensor.untyped_storage().nbytes()
    if type(tensor) is not torch.Tensor or not size or size % 2 or tensor.element_size() == 1:
        return
    shape, stride = tensor.shape, tensor.stride()
    room = empty(size + TAIL_BYTES, dtype=torch.uint8, device=tensor.device).untyped_storage()
    with torch.no_grad():
        tensor.set_(room, 0, shape, stride)
    tailed[room.data_ptr()] = size


def _poisoning(allocate: Any, empty: Any, tailed: dict[int, int]) -> Any:
    import functools

    import torch

    @functools.wraps(allocate)
    def poisoned_allocation(*arguments: Any, **options: Any) -> Any:
        tensor = allocate(*arguments, **options)
        if torch.compiler.is_compiling():
            return tensor
        if tensor.is_cuda:
            _add_tail(tensor, empty, tailed)
        return poison(tensor)

    return poisoned_allocation


def _poison_free_blocks(device: str) -> None:
    """Take blocks of every size class out of the allocator's free memory, fill them, give them back."""
    import torch

    free = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    taken, size = [], 1 << 28
    while size >= 512 and free > 0:
        if size <= free:
            taken.append(poison(torch.empty(size, dtype=torch.float16, device=device)))
            free -= 2 * size
        else:
            size //= 4
