"""Kernels of the CuTe DSL, compiled without a GPU where that package is installed."""
# SPDX-License-Identifier: Apache-2.0

import os
import tempfile

import numpy as np
import pytest

os.environ.setdefault("CUTE_DSL_ARCH", "sm_90a")
os.environ.setdefault("CUTE_DSL_KEEP", "ptx")
os.environ.setdefault("CUTE_DSL_DUMP_DIR", tempfile.gettempdir())
cutlass = pytest.importorskip("cutlass")
cute = pytest.importorskip("cutlass.cute")
from cutlass.cute.runtime import make_fake_compact_tensor  # noqa: E402

from warpsmith import vgpu  # noqa: E402
from warpsmith.vgpu.memory import copy_of  # noqa: E402

pytestmark = pytest.mark.virtual


@cute.kernel
def row_sums_kernel(x: cute.Tensor, out: cute.Tensor):
    row, _, _ = cute.arch.thread_idx()
    total = cutlass.Float32(0.0)
    for column in cutlass.range(cute.size(x, mode=[1]), unroll=1):
        total += x[row, column]
    out[row] = total


@cute.jit
def row_sums(x: cute.Tensor, out: cute.Tensor):
    row_sums_kernel(x, out).launch(grid=[1, 1, 1], block=[64, 1, 1])


def test_a_loop_over_a_tensor():
    types = [make_fake_compact_tensor(cutlass.Float32, s) for s in ((64, 33), (64,))]
    ptx = cute.compile(row_sums, *types).artifacts.PTX
    x = np.random.default_rng(0).integers(-9, 9, (33, 64)).astype(np.float32)  # column-major
    arrays, memory = [copy_of(x), copy_of(np.zeros(64, np.float32))], vgpu.Memory()
    for name, a in zip(("x", "out"), arrays):
        memory.register(a.ctypes.data, a.nbytes, name)
    module = vgpu.load(ptx)
    pointers = [int(a.ctypes.data).to_bytes(8, "little") for a in arrays]
    result = module.launch(
        next(iter(module.kernels)), (1,), (64,), pointers, memory=memory, max_seconds=10
    )
    assert result.fault is None, result.fault.message
    np.testing.assert_array_equal(arrays[1], x.sum(0))
