"""Run a kernel on numpy arrays, for tests of the virtual GPU."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np

from warpsmith import vgpu
from warpsmith.vgpu.memory import copy_of


class Bench:
    """Launches kernels of a module on arrays: copies in, registers memory, copies back."""

    def __init__(self, ptx: str):
        self.module = vgpu.load(ptx)

    def __call__(self, kernel: str, grid, block, *args, **options) -> vgpu.LaunchResult:
        """args: arrays (written back in place), ints, or numpy scalars and bytes (exact)."""
        memory, values, arrays = vgpu.Memory(), [], []
        for i, arg in enumerate(args):
            if isinstance(arg, np.ndarray):
                device = copy_of(arg)
                memory.register(device.ctypes.data, device.nbytes, f"arg{i}")
                arrays.append((arg, device))
                values.append(device.ctypes.data)
            else:
                values.append(arg.tobytes() if isinstance(arg, np.generic) else arg)
        result = self.module.launch(kernel, grid, block, values, memory=memory, **options)
        for host, device in arrays:
            host[...] = device
        return result

    def right(self, *args, **options) -> vgpu.LaunchResult:
        """Launch, and raise the fault if there is one."""
        result = self(*args, **options)
        if result.fault:
            raise result.fault.error()
        return result
