"""Compile CUDA text to PTX by NVRTC alone, for tests that only ask whether it compiles."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re


def compile_cuda(text: str, arch: str = "sm_90a") -> str:
    """The PTX of every kernel of a text, for both index types. Raises AssertionError with the log."""
    from cuda import pathfinder
    from cuda.bindings import nvrtc

    names = re.findall(r"__global__ void __launch_bounds__\([^)]*\)\s+(\w+)\(", text)
    assert names, "no kernel in the text"
    folders = [pathfinder.find_nvidia_header_directory(name) for name in ("cudart", "nvrtc")]
    options = [f"--gpu-architecture={arch}", "-std=c++17", *(f"-I{f}" for f in folders if f)]
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], [])
    for name in names:
        for index in ("int", "long long"):
            nvrtc.nvrtcAddNameExpression(program, f"{name}<{index}>".encode())
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytearray(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    assert int(result) == 0, log.decode() + "\n" + text
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = bytearray(size)
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.decode()
