"""How much of a part's on-chip memory its caches have: L1 beside shared memory, L2 of two partitions."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from warpsmith.spec.target import Target

KIB = 1024
# compute capability: unified memory of an SM and the sizes that shared memory may take of it, in KiB
# (CUDA C++ programming guide, "Compute Capabilities": shared memory of each architecture)
_UNIFIED: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {
    (7, 0): (128, (0, 8, 16, 32, 64, 96)),
    (7, 5): (96, (32, 64)),
    (8, 0): (192, (0, 8, 16, 32, 64, 100, 132, 164)),
    (8, 6): (128, (0, 8, 16, 32, 64, 100)),
    (8, 7): (192, (0, 8, 16, 32, 64, 100, 132, 164)),
    (8, 9): (128, (0, 8, 16, 32, 64, 100)),
    (9, 0): (256, (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)),
    (10, 0): (256, (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)),
    (10, 3): (256, (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)),
    (11, 0): (256, (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)),
    (12, 0): (128, (0, 8, 16, 32, 64, 100)),
    (12, 1): (128, (0, 8, 16, 32, 64, 100)),
}


def l1_bytes(target: Target, shared_per_sm_bytes: int) -> int:
    """What is left for L1 when the resident blocks of an SM need so much shared memory.

    The driver is taken to choose the smallest carve-out that holds them; a program may ask for
    another.

    >>> from warpsmith import targets
    >>> l1_bytes(targets.get("h100"), 0) // 1024, l1_bytes(targets.get("h100"), 70_000) // 1024
    (256, 156)
    """
    unified, sizes = _UNIFIED[target.compute_capability]
    fits = [size for size in sizes if size * KIB >= shared_per_sm_bytes]
    return (unified - (fits[0] if fits else sizes[-1])) * KIB


_TWO_PARTITIONS = {(8, 0), (9, 0), (10, 0), (10, 3)}


def l2_bytes(target: Target) -> int:
    """What L2 holds of data that all SMs use: half where two partitions each keep a line.

    Measured on an H200 (60 MB): of 96 MiB updated in place, 27 MB were still dirty at the end.
    """
    return target.l2_bytes // (2 if target.compute_capability in _TWO_PARTITIONS else 1)
