"""Tensor maps as kernel arguments: right copies of CPU tensors, and misuse that says what to type."""
# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cuda.bindings.nvrtc")

import warpsmith as ws  # noqa: E402
from warpsmith.devices.launch import launch  # noqa: E402
from warpsmith.errors import DtypeError, KernelFault, LaunchError, UnknownName  # noqa: E402
from warpsmith.targets import get  # noqa: E402
from warpsmith.toolchains.cuda import compile_source  # noqa: E402

pytestmark = pytest.mark.virtual

SOURCE = """#include <cuda.h>
__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// out[tile] = 2 x[tile], one tile of 16 x 32 floats a block; FIRST moves the maps apart from 64 bytes
extern "C" __global__ void doubled(int first, const __grid_constant__ CUtensorMap x,
                                   const __grid_constant__ CUtensorMap out) {
  __shared__ alignas(1024) float tile[16 * 32];
  __shared__ alignas(8) unsigned long long barrier;
  unsigned bar = shared_address(&barrier), at = shared_address(tile);
  int column = 32 * blockIdx.x, row = 16 * blockIdx.y + first;
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 2048;" ::"r"(bar));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(at), "l"(&x), "r"(column), "r"(row), "r"(bar) : "memory");
  }
  asm volatile("{\\n.reg .pred done;\\nW:\\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\\n@!done bra W;\\n}"
               ::"r"(bar) : "memory");
  for (int i = threadIdx.x; i < 16 * 32; i += blockDim.x) tile[i] *= 2;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 ::"l"(&out), "r"(column), "r"(row), "r"(at) : "memory");
    asm volatile("cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}
"""


@pytest.fixture(scope="module")
def doubled():
    (artifact,) = compile_source(SOURCE, get("h100"), name="tma.cu")
    return artifact


@pytest.mark.parametrize("swizzle", [0, 128])
@pytest.mark.parametrize("shape", [(16, 32), (40, 72)])
def test_torch_and_numpy_tensors(doubled, swizzle, shape):
    x = torch.randn(shape)
    for make, out in ((lambda t: t, torch.zeros(shape)), (lambda t: t.numpy(), torch.zeros(shape))):
        maps = [ws.tensor_map(make(t), box=(16, 32), swizzle=swizzle) for t in (x, out)]
        launch(doubled, (-(-shape[1] // 32), -(-shape[0] // 16)), 64, 0, [0, *maps])
        torch.testing.assert_close(out, 2 * x)


def test_a_view_whose_memory_a_gpu_would_have_aligned(doubled):
    """A slice starts in the middle of its storage, which is copied to where a GPU would have put it."""
    store = torch.randn(41, 64)
    x, out = store[1:, 16:48], torch.zeros(40, 32)
    maps = [ws.tensor_map(t, box=(16, 32)) for t in (x, out)]
    launch(doubled, (1, 3), 64, 0, [0, *maps])
    torch.testing.assert_close(out, 2 * x)


def test_a_map_of_more_than_the_tensor_faults_by_the_parameters_name(doubled):
    x, out = torch.randn(16, 32), torch.zeros(16, 32)
    source = ws.tensor_map(x, box=(16, 32))
    object.__setattr__(source.map, "sizes", (32, 64))
    with pytest.raises(KernelFault, match=r"of block.*x\[512\]"):
        launch(doubled, (1, 1), 64, 0, [16, source, ws.tensor_map(out, box=(16, 32))])


def test_misuse_says_what_to_type(doubled):
    x = torch.zeros(64, 64)
    with pytest.raises(LaunchError, match="transposed view"):
        ws.tensor_map(x.T, box=(16, 32))
    with pytest.raises(LaunchError, match=r"multiples of 16\. Pad the rows"):
        ws.tensor_map(torch.zeros(8, 33), box=(8, 32))
    with pytest.raises(LaunchError, match="at most 32 elements"):
        ws.tensor_map(x, box=(16, 64), swizzle=128)
    with pytest.raises(LaunchError, match="1 to 256"):
        ws.tensor_map(x, box=(257, 32))
    with pytest.raises(LaunchError, match=r"box .* has 1 numbers, the tensor 2 axes"):
        ws.tensor_map(x, box=(32,))
    with pytest.raises(LaunchError, match="multiples of 16"):
        ws.tensor_map(x, box=(4, 3))
    with pytest.raises(LaunchError, match="one of 0, 32, 64, 128"):
        ws.tensor_map(x, box=(16, 32), swizzle=96)
    with pytest.raises(UnknownName, match="fill"):
        ws.tensor_map(x, box=(16, 32), fill="ones")
    with pytest.raises(DtypeError, match="view"):
        ws.tensor_map(torch.zeros(8, 8, dtype=torch.complex64), box=(8, 8))
    with pytest.raises(LaunchError, match="not a multiple of 16"):
        launch(doubled, (1, 1), 64, 0, [0, ws.tensor_map(torch.zeros(8, 36)[:, 1:33], box=(8, 32)),
                                        ws.tensor_map(x, box=(16, 32))])  # fmt: skip
    with pytest.raises(DtypeError, match="got a tensor map"):
        launch(
            doubled,
            (1, 1),
            64,
            0,
            [ws.tensor_map(x, box=(16, 32)), *[ws.tensor_map(x, box=(16, 32))] * 2],
        )
    with pytest.raises(DtypeError, match="takes"):
        launch(doubled, (1, 1), 64, 0, [0, x, x])


def test_other_types_and_strides_of_elements():
    half = ws.tensor_map(torch.zeros(32, 64, dtype=torch.float8_e4m3fn), box=(8, 64), swizzle=64)
    assert half.map.dtype == "uint8"
    assert half.box_bytes == 512
    tf32 = ws.tensor_map(
        np.zeros((32, 64), np.float32), box=(8, 32), dtype="tfloat32", element_strides=(2, 1)
    )
    assert tf32.box_bytes == 4 * 32 * 4


@pytest.mark.gpu
@pytest.mark.parametrize("swizzle", [0, 128])
@pytest.mark.parametrize("shape", [(16, 32), (40, 72)])
def test_tensors_on_a_gpu(doubled, swizzle, shape):
    x = torch.randn(shape, device="cuda")
    out = torch.zeros(shape, device="cuda")
    maps = [ws.tensor_map(t, box=(16, 32), swizzle=swizzle) for t in (x, out)]
    launch(doubled, (-(-shape[1] // 32), -(-shape[0] // 16)), 64, 0, [0, *maps])
    torch.testing.assert_close(out, 2 * x)
