"""Refuse a launch that the target cannot make, before it is made, with the same words everywhere."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import re
from typing import Any

from .. import targets
from ..errors import LaunchError
from ..spec import Artifact, Target

Triple = tuple[int, int, int]

GRID_LIMIT: Triple = (2**31 - 1, 65535, 65535)
BLOCK_LIMIT: Triple = (1024, 1024, 64)
STATIC_SHARED_LIMIT = 48 * 1024  # what may be declared with a size; more must be dynamic
PORTABLE_CLUSTER = 8  # blocks; 16 is not portable


def triple(kernel: str, what: str, given: Any) -> Triple:
    """Grid or block as three positive integers. Raises LaunchError that names `what`."""
    if type(given) is int and 0 < given <= BLOCK_LIMIT[0]:
        return given, 1, 1
    sizes = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if not 1 <= len(sizes) <= 3 or not all(map(_is_integer, sizes)):
        raise LaunchError(
            f"{kernel}: {what} is {given!r}; expected an int or a tuple of 1 to 3 ints"
        )
    limit = GRID_LIMIT if what == "grid" else BLOCK_LIMIT
    full = tuple([*map(int, sizes), 1, 1][:3])
    for axis, size, most in zip("xyz", full, limit):
        if size < 1:
            empty = " Skip the launch when there is nothing to do" if what == "grid" else ""
            raise LaunchError(f"{kernel}: {what} is {full}; every size must be 1 or more.{empty}")
        if size > most:
            raise LaunchError(
                f"{kernel}: {what} is {full}; {what}.{axis} may be at most {most}. "
                + ("Let each block do more" if what == "grid" else "Use more blocks")
            )
    return full  # type: ignore[return-value]


def check(
    target: Target,
    artifact: Artifact,
    name: str,
    grid: Triple,
    block: Triple,
    shared_bytes: int,
    cooperative: bool,
) -> None:
    """Raises LaunchError where this launch cannot run on this target."""
    _check_arch(target, artifact, name)
    _check_threads(target, artifact, name, block)
    _check_shared(target, artifact, name, shared_bytes)
    _check_registers(target, artifact, name, block)
    _check_cluster(target, artifact, name, grid)
    if cooperative:
        _check_cooperative(target, artifact, name, grid, block, shared_bytes)


def runs_on(arch: str, capability: tuple[int, int]) -> bool:
    """Whether code for `arch` runs on a device of this capability, by PTX if not by machine code.

    >>> runs_on("sm_80", (9, 0)), runs_on("sm_90a", (10, 0)), runs_on("sm_90", (8, 6))
    (True, False, False)
    """
    found = re.fullmatch(r"(?:sm|compute)_(\d+)(\d)([af]?)", arch)
    if not found:
        return True
    major, minor = int(found[1]), int(found[2])
    if found[3] == "a":
        return (major, minor) == capability
    if found[3] == "f":
        return major == capability[0] and minor <= capability[1]
    return (major, minor) <= capability


def _check_arch(target: Target, artifact: Artifact, name: str) -> None:
    if not runs_on(artifact.arch, target.compute_capability):
        raise LaunchError(
            f"{name} was compiled for {artifact.arch} and does not run on {target.title} "
            f"({target.arch}). Compile it for this target: kernel.artifact({target.name!r})"
        )


def _check_threads(target: Target, artifact: Artifact, name: str, block: Triple) -> None:
    threads = block[0] * block[1] * block[2]
    if threads > target.threads_per_block:
        raise LaunchError(
            f"{name}: block is {block}, {threads} threads; a block may have at most "
            f"{target.threads_per_block}. Use a smaller block and more of them"
        )
    required, most = bounds(artifact.ptx, artifact.kernel)
    if artifact.threads and threads != artifact.threads:
        raise LaunchError(
            f"{name}: block is {block}; this kernel was compiled for {artifact.threads} threads"
        )
    if required and block != required:
        raise LaunchError(f"{name}: block is {block}; the kernel requires exactly {required}")
    if most and threads > most:
        raise LaunchError(
            f"{name}: block is {block}, {threads} threads; __launch_bounds__ allows {most}. "
            "Launch fewer threads, or raise the bound"
        )


def _check_shared(target: Target, artifact: Artifact, name: str, shared_bytes: int) -> None:
    static = artifact.resources.static_shared_bytes if artifact.language != "triton" else 0
    if static > STATIC_SHARED_LIMIT:
        raise LaunchError(
            f"{name} declares {static} bytes of shared memory; at most {STATIC_SHARED_LIMIT} may be "
            "declared with a size. Make it 'extern __shared__' and pass the bytes at launch: "
            "kernel[grid, block, bytes](…)"
        )
    if static + shared_bytes > target.shared_per_block_bytes:
        parts = f"{shared_bytes} dynamic + {static} static" if static else f"{shared_bytes}"
        fix = "fewer num_stages or smaller blocks" if artifact.threads else "a smaller tile"
        raise LaunchError(
            f"{name} needs {parts} bytes of shared memory per block; {target.title} has at most "
            f"{target.shared_per_block_bytes}. Use {fix}"
        )


def _check_registers(target: Target, artifact: Artifact, name: str, block: Triple) -> None:
    registers = artifact.resources.registers
    threads = block[0] * block[1] * block[2]
    if not registers:
        return
    found = targets.occupancy(target, threads, registers, 0, 0)
    if found.limits["registers"] < 1:
        raise LaunchError(
            f"{name}: {threads} threads × {registers} registers are more than the "
            f"{target.registers_per_sm} of an SM of {target.title}. Launch fewer threads, or add "
            f"__launch_bounds__({threads}) so that the compiler uses fewer registers"
        )


def _check_cluster(target: Target, artifact: Artifact, name: str, grid: Triple) -> None:
    cluster = artifact.cluster
    blocks = cluster[0] * cluster[1] * cluster[2]
    if blocks == 1:
        return
    if target.compute_capability < (9, 0):
        raise LaunchError(
            f"{name} uses clusters of {cluster}; {target.title} has none (9.0 and later do)"
        )
    if blocks > PORTABLE_CLUSTER:
        raise LaunchError(
            f"{name} uses clusters of {cluster}, {blocks} blocks; at most {PORTABLE_CLUSTER} are portable"
        )
    if any(g % c for g, c in zip(grid, cluster)):
        raise LaunchError(f"{name}: grid {grid} is not a multiple of its cluster {cluster}")


def _check_cooperative(
    target: Target, artifact: Artifact, name: str, grid: Triple, block: Triple, shared_bytes: int
) -> None:
    needs = artifact.resources
    fits = targets.occupancy(
        target,
        block[0] * block[1] * block[2],
        needs.registers or 32,
        needs.static_shared_bytes + shared_bytes,
        max(needs.barriers, 1),
    )
    blocks, most = grid[0] * grid[1] * grid[2], fits.blocks_per_sm * target.sms
    if blocks > most:
        raise LaunchError(
            f"{name}: a cooperative grid of {blocks} blocks; at most {most} are resident at once on "
            f"{target.title} ({fits.blocks_per_sm} on each of {target.sms} SMs). Let each do more"
        )


@functools.lru_cache(maxsize=256)
def bounds(ptx: str, kernel: str) -> tuple[Triple | None, int | None]:
    """The exact block a kernel requires and the most threads it allows, as its PTX says."""
    found = re.search(rf"\.entry\s+{re.escape(kernel)}\b(.*?)\n\{{", ptx, re.DOTALL)
    head = found[1] if found else ""
    most = _directive(head, "maxntid")
    required = _directive(head, "reqntid")
    return required, most[0] * most[1] * most[2] if most else None


def _directive(head: str, name: str) -> Triple | None:
    found = re.search(rf"\.{name}\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", head)
    return tuple(int(n or 1) for n in found.groups()) if found else None  # type: ignore[return-value]


def _is_integer(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)
