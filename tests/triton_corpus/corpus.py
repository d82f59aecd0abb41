"""A corpus of Triton programs: each makes its inputs, launches its kernels and checks what they wrote.

A program takes a torch device and runs the same on the virtual GPU (CPU tensors) and on a GPU. It
says which compute capabilities it is for: what the others lack is Triton's limit, not ours.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

import warpsmith as ws
from warpsmith.devices.observe import observe

THEMES = ("elementwise", "reductions", "matmul", "attention", "atomics", "descriptors", "blackwell")
TARGETS = {75: "t4", 80: "a100", 86: "a10", 90: "h100", 100: "b200", 120: "rtx5090"}
ARCHS = tuple(TARGETS)


@dataclass(frozen=True, slots=True)
class Entry:
    """One program of the corpus: `run(device)` raises AssertionError where a result is wrong.

    archs: compute capabilities it is for; why: the reason where some are missing; since: the first
    version of Triton that compiles it.
    """

    name: str
    theme: str
    run: Callable[[str], None]
    archs: tuple[int, ...]
    why: str
    since: tuple[int, ...]


ENTRIES: dict[str, Entry] = {}


def entry(
    least: int = 75,
    *,
    archs: tuple[int, ...] = ARCHS,
    why: str = "",
    since: tuple[int, ...] = (3, 6),
) -> Callable[[Callable[[str], None]], Callable[[str], None]]:
    """Enter a program that needs compute capability `least`, or is for `archs` alone."""

    def register(run: Callable[[str], None]) -> Callable[[str], None]:
        theme = run.__module__.rpartition(".")[2]
        if run.__name__ in ENTRIES:
            raise ValueError(f"two programs are called {run.__name__}")
        here = tuple(a for a in archs if a >= least)
        ENTRIES[run.__name__] = Entry(run.__name__, theme, run, here, why, since)
        return run

    return register


def load() -> dict[str, Entry]:
    """All programs, by name."""
    for theme in THEMES:
        importlib.import_module(f"{__package__}.{theme}")
    return ENTRIES


def launch(kernel, grid, *args, **options) -> None:
    """Launch on wherever the tensors are."""
    ws.triton(kernel)[grid](*args, **options)


def run_virtually(program: Entry, arch: int, **options) -> None:
    """Run a program on the virtual GPU in the shape of a GPU of this compute capability."""
    with observe(target=TARGETS[arch], count=False, **options):
        program.run("cpu")


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def normal(*shape: int, seed: int = 0, dtype=torch.float32, device: str = "cpu") -> torch.Tensor:
    """Normal random numbers, the same on every device."""
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)
    return made.to(dtype).to(device)


def integers(low: int, high: int, *shape: int, seed: int = 0, dtype=torch.int32, device="cpu"):
    """Uniform random integers, low included, high not."""
    made = torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))
    return made.to(dtype).to(device)


def aligned(count: int, dtype: torch.dtype, device: str = "cpu") -> torch.Tensor:
    """An uninitialised vector whose storage begins at a multiple of 256 bytes, as on a GPU: the
    virtual GPU need not move it, so that other tensors may hold its address."""
    size = count * dtype.itemsize
    if device != "cpu":
        return torch.empty(count, dtype=dtype, device=device)
    room = np.empty(size + 256, np.uint8)
    first = -room.ctypes.data % 256
    return torch.from_numpy(room[first : first + size]).view(dtype)


def close(got: torch.Tensor, want: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    """Assert that values agree, compared as float64."""
    torch.testing.assert_close(got.double().cpu(), want.double().cpu(), rtol=rtol, atol=atol)


def same(got: torch.Tensor, want: torch.Tensor) -> None:
    """Assert that values are equal."""
    assert torch.equal(got.cpu(), want.cpu().to(got.dtype)), (got, want)
