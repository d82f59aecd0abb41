"""Call NVRTC: CUDA C++ text in, PTX and machine code out, with no driver and no GPU."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import MissingTool, ToolchainError

INSTALL = "pip install 'warpsmith[cuda]'"
INCLUDE = Path(__file__).parent / "include"  # what host compilers bring and NVRTC does not


@dataclass(frozen=True, slots=True)
class Compiled:
    """What NVRTC gave. `ptx` and `cubin` are empty where it refused the source."""

    ok: bool
    log: str
    ptx: str = ""
    cubin: bytes = b""
    lowered: Mapping[str, str] = field(default_factory=dict)  # name expression -> entry in the PTX


def compile_program(
    text: str,
    name: str,
    *,
    options: Sequence[str],
    headers: Mapping[str, str],
    expressions: Sequence[str] = (),
) -> Compiled:
    """Compile one translation unit.

    name: the file's name in messages and line tables. headers: text by the name in the #include
    directive. expressions: instantiations and functions that must be in the output, as C++.
    Raises MissingTool without NVRTC, ToolchainError where it refuses the options themselves.
    """
    nvrtc = bindings()
    program = _call(
        nvrtc.nvrtcCreateProgram,
        text.encode(),
        name.encode(),
        len(headers),
        [h.encode() for h in headers.values()],
        [n.encode() for n in headers],
    )
    try:
        for expression in expressions:
            _call(nvrtc.nvrtcAddNameExpression, program, expression.encode())
        given = [o.encode() for o in options]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
        log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        if status == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
            raise ToolchainError(f"NVRTC {'.'.join(map(str, version()))} refuses: {log.strip()}")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            return Compiled(False, log or str(status))
        return Compiled(
            True,
            log,
            _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program),
            _data(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program),
            {
                e: _call(nvrtc.nvrtcGetLoweredName, program, e.encode()).decode()
                for e in expressions
            },
        )
    finally:
        nvrtc.nvrtcDestroyProgram(program)


@functools.cache
def bindings() -> Any:
    """The module `cuda.bindings.nvrtc`. Raises MissingTool where it or the library is not there."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except Exception as error:  # the loader's own errors share no base class
        raise MissingTool("NVRTC", f"{type(error).__name__}: {error}", INSTALL) from None
    return nvrtc


@functools.cache
def version() -> tuple[int, int]:
    """(13, 0) for CUDA 13.0."""
    _, major, minor = bindings().nvrtcVersion()
    return major, minor


@functools.cache
def supported() -> tuple[int, ...]:
    """The architectures this NVRTC compiles for: (75, 80, …, 90, …)."""
    return tuple(_call(bindings().nvrtcGetSupportedArchs))


@functools.cache
def include_folders() -> tuple[str, ...]:
    """CUDA's headers (runtime, crt and cccl share one folder), cccl's own, and `INCLUDE`, last."""
    try:
        from cuda.pathfinder import find_nvidia_header_directory as find

        runtime, cccl = find("cudart"), find("cccl")
    except Exception as error:
        raise MissingTool("the CUDA headers", f"{type(error).__name__}: {error}", INSTALL) from None
    if not runtime:
        raise MissingTool("the CUDA headers", "no folder with cuda_runtime.h was found", INSTALL)
    folders = [runtime, cccl or "", str(Path(runtime) / "cccl"), str(INCLUDE)]
    return tuple(dict.fromkeys(f for f in folders if f and Path(f).is_dir()))


def _call(function: Any, *arguments: Any) -> Any:
    status, *values = function(*arguments)
    if int(status) != 0:
        raise ToolchainError(f"{function.__name__}: {status}")
    return values[0] if values else None


def _data(size_of: Any, read: Any, program: Any) -> bytes:
    # a bytearray of our own: NVRTC writes into what it gets, and bytes may be shared by CPython
    data = bytearray(_call(size_of, program))
    _call(read, program, data)
    return bytes(data)


def _text(size_of: Any, read: Any, program: Any) -> str:
    return _data(size_of, read, program).rstrip(b"\0").decode(errors="replace").rstrip(" ")
