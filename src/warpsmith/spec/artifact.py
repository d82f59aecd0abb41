"""What a toolchain makes of source: PTX, machine code, and the compiler's own report."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    """One kernel parameter as the launch sees it. kind is 'pointer', 'scalar' or 'struct'."""

    kind: str
    name: str = ""
    ctype: str = ""  # "float", "int", "unsigned long long", "half", …; element type of a pointer
    size: int = 8  # bytes
    const: bool = False  # a pointer to const: the kernel promises not to write


@dataclass(frozen=True, slots=True)
class Resources:
    """ptxas's report for one kernel; None where no assembler was at hand."""

    registers: int | None = None
    spill_bytes: int | None = None
    stack_bytes: int | None = None
    static_shared_bytes: int = 0
    barriers: int = 1


@dataclass(frozen=True, slots=True)
class Artifact:
    """One compiled kernel for one architecture.

    threads and shared_bytes are set where the language fixes them (Triton's num_warps and its
    dynamic shared memory); 0 where the launch chooses.
    """

    language: str
    kernel: str  # the entry's name in the PTX
    arch: str  # "sm_90a"
    ptx: str
    parameters: tuple[Parameter, ...]
    resources: Resources = Resources()
    cubin: bytes | None = None
    source_name: str = ""
    source: str = ""
    threads: int = 0
    shared_bytes: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)

    @property
    def id(self) -> str:
        return hashlib.sha256(f"{self.arch}:{self.kernel}:{self.ptx}".encode()).hexdigest()[:12]
