"""Compile CUDA C++ (NVRTC) and Triton kernels to PTX, for tests of the virtual GPU."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


@cache
def cuda(source: str, arch: str = "sm_80", *options: str) -> str:
    """PTX of CUDA C++ text, with line information."""
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    flags = [f"--gpu-architecture=compute_{arch[3:]}", "-lineinfo", "-std=c++17", "-default-device"]
    flags += [f"-I{path}" for path in _includes()] + list(options)
    (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [f.encode() for f in flags])
    if int(status):
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = b" " * size
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.rstrip(b"\0 ").decode()


def cuda_file(name: str, arch: str = "sm_80", *options: str) -> str:
    """PTX of a .cu file in tests/vgpu/kernels."""
    return cuda((HERE / "kernels" / name).read_text(), arch, *options)


@cache
def _includes() -> list[Path]:
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(p) for p in spec.submodule_search_locations or []] if spec else []
    return [path for root in roots for path in (root / "cu13" / "include", root / "cu13" / "include" / "cccl")
            if path.is_dir()]  # fmt: skip


def triton_ptx(function, signature: dict, constants: dict, arch: int = 80, attrs=None, **options):
    """(PTX, metadata) of a @triton.jit function, compiled without a GPU."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source = ASTSource(function, signature=signature, constexprs=constants, attrs=attrs)
    built = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    return built.asm["ptx"], built.metadata
