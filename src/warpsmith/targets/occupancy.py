"""How many blocks of a kernel live on one SM, and what keeps out the next."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.errors import LaunchError
from warpsmith.spec.target import Target


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Resident blocks and warps of one SM; `limits` gives the blocks each resource would allow."""

    blocks_per_sm: int
    warps_per_sm: int
    fraction: float  # of the SM's warp slots
    limiter: str  # "registers", "shared", "barriers", "threads" or "blocks"
    limits: dict[str, int]


def occupancy(
    target: Target, threads: int, registers: int, shared_bytes: int, barriers: int = 1
) -> Occupancy:
    """Theoretical occupancy by the rules of cuda_occupancy.h, with the largest shared carveout.

    threads: per block; registers: per thread; shared_bytes: static plus dynamic, per block.
    A launch that cannot run gives 0 blocks and names the limiter; LaunchError is for arguments
    that mean nothing.

    >>> from warpsmith import targets
    >>> targets.occupancy(targets.get("a100"), threads=256, registers=64, shared_bytes=0).fraction
    0.5
    """
    if threads < 1 or registers < 0 or shared_bytes < 0 or not 0 <= barriers <= 16:
        raise LaunchError(
            f"occupancy of threads={threads}, registers={registers}, shared_bytes={shared_bytes}, "
            f"barriers={barriers}: expected threads >= 1, 0 <= barriers <= 16 and no negative size."
        )
    warps = -(-threads // 32)
    limits = {
        "registers": _by_registers(target, warps, registers),
        "shared": _by_shared(target, shared_bytes),
        "barriers": target.barriers_per_sm // max(barriers, 1),
        "threads": _by_threads(target, threads, warps),
        "blocks": target.blocks_per_sm,
    }
    limiter = min(limits, key=lambda resource: limits[resource])
    blocks = limits[limiter]
    return Occupancy(blocks, blocks * warps, blocks * warps / target.warps_per_sm, limiter, limits)


def _by_threads(target: Target, threads: int, warps: int) -> int:
    return 0 if threads > target.threads_per_block else target.warps_per_sm // warps


def _by_registers(target: Target, warps: int, registers: int) -> int:
    if registers > target.registers_per_thread:
        return 0
    granule, schedulers = target.register_granule, target.schedulers_per_sm
    per_warp = -(-max(registers, 1) * 32 // granule) * granule
    if per_warp * -(-warps // schedulers) * schedulers > target.registers_per_sm:
        return 0
    warps_per_scheduler = target.registers_per_sm // schedulers // per_warp
    return warps_per_scheduler * schedulers // warps


def _by_shared(target: Target, shared_bytes: int) -> int:
    if shared_bytes > target.shared_per_block_bytes:
        return 0
    granule = target.shared_granule_bytes
    per_block = -(-(shared_bytes + target.shared_reserved_bytes) // granule) * granule
    return target.shared_per_sm_bytes // per_block if per_block else target.blocks_per_sm
