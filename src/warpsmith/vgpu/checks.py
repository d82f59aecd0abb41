"""What the sanitizer of the virtual GPU looks for in a launch."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass, fields

from warpsmith.errors import UsageError


@dataclass(frozen=True, slots=True)
class Checks:
    """Which problems a launch looks for besides the cheap ones (bounds, alignment, null, const).

    uninitialized: loads of shared, local or global bytes that nothing has written.
    races: two threads of a block, or of a cluster, touch shared memory unordered, one of them writing.
    global_races: the same in global memory, also between blocks.
    async_copies: shared memory is touched while a `cp.async` or bulk copy into it is not awaited.
    warp_sync: lanes of one warp pass values through memory without `__syncwarp()`: a warning.
    barriers: a barrier that part of a warp reaches, that is reached at two instructions, or with
    counts that cannot be met.
    leaks: blocks of device `malloc` that no `free` met at the end of the launch: a warning.
    max_findings: distinct errors and warnings after which the launch ends, 1 or more.

    With checks, problems that harm no memory are recorded and the launch goes on; a launch with
    checks runs in one worker, so that the order of events is the schedule's and can be repeated.
    """

    uninitialized: bool = True
    races: bool = True
    global_races: bool = True
    async_copies: bool = True
    warp_sync: bool = True
    barriers: bool = True
    leaks: bool = True
    max_findings: int = 64

    def __post_init__(self) -> None:
        if self.max_findings < 1:
            raise UsageError(f"max_findings is {self.max_findings}, expected 1 or more.")

    @classmethod
    def all(cls, max_findings: int = 64) -> Checks:
        """Everything."""
        return cls(max_findings=max_findings)

    @classmethod
    def none(cls) -> Checks:
        """Nothing but the cheap checks: what `checks=None` means too."""
        return cls(**dict.fromkeys(SWITCHES, False))

    @property
    def bits(self) -> int:
        """The VG_CHECK_… bits of rt/vgpu.h."""
        return sum(getattr(self, name) << i for i, name in enumerate(SWITCHES))


SWITCHES = tuple(f.name for f in fields(Checks) if f.type == "bool")
"""The checks that can be switched, in the order of the VG_CHECK_… bits."""
