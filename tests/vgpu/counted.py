"""Launch CUDA C++ on named numpy arrays and keep what the virtual GPU says about it."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from functools import cache

import numpy as np
from compile import cuda

from warpsmith import vgpu
from warpsmith.vgpu.memory import copy_of


@cache
def module(source: str, arch: str = "sm_80") -> vgpu.Module:
    return vgpu.load(cuda(source, arch), name="kernel.cu")


def launch(
    source: str,
    kernel: str,
    grid,
    block,
    arch: str = "sm_80",
    shared_bytes=0,
    options=None,
    **arguments,
):
    """The LaunchResult; arrays are registered by their argument's name and written back.

    A name that ends in "_const" is registered read-only; `None` is a null pointer.
    """
    memory, values, copies = vgpu.Memory(), [], []
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            device = copy_of(value)
            memory.register(
                device.ctypes.data, device.nbytes, name, name.endswith("_const"),
                element_bytes=device.itemsize,
            )  # fmt: skip
            copies.append((value, device))
            value = device.ctypes.data
        values.append(value.tobytes() if isinstance(value, np.generic) else value or 0)
    result = module(source, arch).launch(
        kernel, grid, block, values, memory=memory, shared_bytes=shared_bytes, **(options or {})
    )
    for host, device in copies:
        host[...] = device
    return result


def counters(*args, **kwargs) -> vgpu.Counters:
    """Of a launch that must not fault."""
    result = launch(*args, **kwargs)
    assert result.fault is None, result.fault.message
    return result.counters
