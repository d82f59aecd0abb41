"""The driver path: on a GPU where there is one, else on a driver that runs launches virtually."""
# SPDX-License-Identifier: Apache-2.0

import ctypes
import struct
import threading
import types

import pytest

torch = pytest.importorskip("torch")
real = pytest.importorskip("cuda.bindings.driver")
pytest.importorskip("cuda.bindings.nvrtc")

from warpsmith.devices import cuda as path  # noqa: E402
from warpsmith.devices.launch import Request, launch  # noqa: E402
from warpsmith.devices.observe import observe  # noqa: E402
from warpsmith.errors import (  # noqa: E402
    DeviceError,
    DeviceLost,
    DeviceTimeout,
    DeviceUnavailable,
    DtypeError,
    KernelFault,
    LaunchError,
)
from warpsmith.targets import get  # noqa: E402
from warpsmith.toolchains.cuda import compile_source  # noqa: E402
from warpsmith.vgpu.launch import load  # noqa: E402

CPU = -1  # what get_device() says of CPU tensors: here they play the GPU's
OK = real.CUresult.CUDA_SUCCESS


class VirtualDriver:
    """As much of the driver API as a launch needs, on host memory and the virtual GPU.

    It reads the parameters as the driver does: from the addresses in kernelParams, with the sizes
    that the kernel declares. `fail` maps a function's name to the statuses of its next calls.
    """

    CUlaunchConfig, CUlaunchAttribute = real.CUlaunchConfig, real.CUlaunchAttribute
    CUlaunchAttributeID, CUstream, CUresult = real.CUlaunchAttributeID, real.CUstream, real.CUresult
    CUfunction_attribute = real.CUfunction_attribute

    def __init__(self):
        self.stack, self.loaded, self.calls, self.fail = [0], [], [], {}

    def _status(self, name, *details):
        self.calls.append((name, *details))
        waiting = self.fail.get(name, [])
        return real.CUresult(waiting.pop(0)) if waiting else OK

    def cuInit(self, flags):
        return (self._status("cuInit"),)

    def cuDeviceGet(self, index):
        return self._status("cuDeviceGet"), index

    def cuDevicePrimaryCtxRetain(self, device):
        return self._status("cuDevicePrimaryCtxRetain"), 100 + device

    def cuCtxGetCurrent(self):
        return OK, self.stack[-1]

    def cuCtxPushCurrent(self, context):
        self.stack.append(context)
        return (OK,)

    def cuCtxPopCurrent(self):
        return OK, self.stack.pop()

    def cuModuleLoadData(self, image):
        return self._status("cuModuleLoadData", bytes(image[:4])), bytes(image)

    def cuModuleGetFunction(self, module, name):
        return self._status("cuModuleGetFunction"), name.decode()

    def cuFuncSetAttribute(self, function, attribute, value):
        return (self._status("cuFuncSetAttribute", value),)

    def cuStreamSynchronize(self, stream):
        return (self._status("cuStreamSynchronize", stream),)

    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
        status = self._status("cuLaunchKernel", stream)
        if status == OK:
            self.execute(function, (gx, gy, gz), (bx, by, bz), shared, params)
        return (status,)

    def cuLaunchKernelEx(self, config, function, params, extra):
        attributes = {int(a.id): a.value for a in config.attrs}
        status = self._status("cuLaunchKernelEx", sorted(attributes), config.numAttrs)
        grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
        block = (config.blockDimX, config.blockDimY, config.blockDimZ)
        cooperative = 2 in attributes and attributes[2].cooperative == 1
        cluster = (1, 1, 1)
        if 4 in attributes:
            size = attributes[4].clusterDim
            cluster = (size.x, size.y, size.z)
        self.execute(
            function,
            grid,
            block,
            config.sharedMemBytes,
            params,
            cooperative=cooperative,
            cluster=cluster,
        )
        return (status,)

    def execute(self, function, grid, block, shared, params, **more):
        module = load(self.ptx)
        sizes = [p.size for p in module.kernels[function].parameters]
        pointers = (ctypes.c_void_p * len(sizes)).from_address(params)
        values = [ctypes.string_at(p, n) for p, n in zip(pointers, sizes)]
        result = module.launch(function, grid, block, values, shared_bytes=shared, **more)
        assert result.fault is None, result.fault


@pytest.fixture
def gpu(monkeypatch):
    driver = VirtualDriver()
    one = path.Gpu(CPU, get("h100"), driver)
    one.retain()
    monkeypatch.setattr(path, "gpu_at", lambda index: one)
    monkeypatch.setattr(path.Gpu, "stream", lambda self: 77)
    return one


def run(gpu, source, grid, block, shared, args, **more):
    (artifact,) = compile_source(source, get("h100"), name="k.cu")
    gpu.driver.ptx = artifact.ptx
    return run_artifact(artifact, grid, block, shared, args, **more)


def run_artifact(artifact, grid, block, shared, args, cooperative=False, session=None):
    request = Request(artifact, "k", grid, block, shared, args, cooperative)
    path.launch_on(CPU, request, session)


FILL = "__global__ void k(float* x, char c, double d, int n) { x[threadIdx.x] = c + d + n; }\n"
ONE, WARP = (1, 1, 1), (32, 1, 1)
MIXED = """
struct Box { char a; double b; };
__global__ void k(double* x, bool f, Box box, short s, const float* y) {
    x[0] = f; x[1] = box.a; x[2] = box.b; x[3] = s; x[4] = y ? y[0] : -1;
}
"""


@pytest.mark.virtual
def test_parameters_arrive_as_the_driver_reads_them(gpu):
    x = torch.zeros(32)
    run(gpu, FILL, ONE, WARP, 0, (x, -3, 0.5, 10))
    assert x.tolist() == [7.5] * 32
    x = torch.zeros(5, dtype=torch.float64)
    box = struct.pack("<b7xd", -4, 2.5)
    run(gpu, MIXED, ONE, ONE, 0, (x, True, box, -9, None))
    assert x.tolist() == [1, -4, 2.5, -9, -1]
    run(gpu, MIXED, ONE, ONE, 0, (x, False, box, 9, torch.tensor([6.0])))
    assert x.tolist() == [0, -4, 2.5, 9, 6]


@pytest.mark.virtual
def test_launches_go_to_the_stream_and_the_context_comes_back(gpu):
    x = torch.zeros(32)
    for _ in range(3):
        run(gpu, FILL, ONE, WARP, 0, (x, 1, 1.0, 1))
    assert [c for c in gpu.driver.calls if c[0] == "cuLaunchKernel"] == [("cuLaunchKernel", 77)] * 3
    assert sum(c[0] == "cuModuleLoadData" for c in gpu.driver.calls) == 1
    assert gpu.driver.stack == [0]


@pytest.mark.virtual
def test_a_dtype_that_fitted_once_does_not_let_another_in(gpu):
    run(gpu, FILL, ONE, WARP, 0, (torch.zeros(32), 1, 1.0, 1))
    with pytest.raises(DtypeError, match="float64 tensor"):
        run(gpu, FILL, ONE, WARP, 0, (torch.zeros(32).double(), 1, 1.0, 1))
    with pytest.raises(LaunchError, match="does not fit"):
        run(gpu, FILL, ONE, WARP, 0, (torch.zeros(32), 200, 1.0, 1))


SHARED = """__global__ void k(float* x, int n) {
    extern __shared__ float s[];
    s[n] = x[0];
    x[1] = s[n];
}
"""


@pytest.mark.virtual
def test_large_shared_memory_is_asked_for_once_per_size(gpu):
    x = torch.tensor([5.0, 0.0])
    for size in (1000, 48 * 1024, 50_000, 49_500, 60_000):
        run(gpu, SHARED, ONE, ONE, size, (x, 200))
    asked = [c[1] for c in gpu.driver.calls if c[0] == "cuFuncSetAttribute"]
    assert asked == [50_000, 60_000]
    assert x[1] == 5


@pytest.mark.virtual
def test_cooperative_and_cluster_launches_say_so(gpu):
    source = "__global__ void CLUSTER k(int* x) { atomicAdd(x, 1); }\n"
    x = torch.zeros(1, dtype=torch.int32)
    run(gpu, source.replace("CLUSTER", ""), (4, 1, 1), WARP, 0, (x,), cooperative=True)
    run(gpu, source.replace("CLUSTER", "__cluster_dims__(2, 1, 1)"), (4, 1, 1), WARP, 0, (x,))
    calls = [c for c in gpu.driver.calls if c[0] == "cuLaunchKernelEx"]
    assert calls == [("cuLaunchKernelEx", [2], 1), ("cuLaunchKernelEx", [4], 1)]
    assert x.item() == 256


@pytest.mark.virtual
def test_code_for_another_architecture_is_made_from_ptx(gpu):
    gpu.driver.fail = {"cuModuleLoadData": [209]}
    x = torch.zeros(32)
    run(gpu, FILL + "// jit\n", ONE, WARP, 0, (x, 1, 1.0, 1))
    images = [c[1] for c in gpu.driver.calls if c[0] == "cuModuleLoadData"]
    assert images[0] == b"\x7fELF"
    assert images[1].startswith(b"//")
    assert x[0] == 3


REFUSALS = {
    "launch": ({"cuLaunchKernel": [701]}, "LAUNCH_OUT_OF_RESOURCES.*registers or shared memory"),
    "invalid": ({"cuLaunchKernel": [1]}, "INVALID_VALUE"),
    "newer PTX": ({"cuModuleLoadData": [209, 222]}, "UNSUPPORTED_PTX_VERSION.*older tools"),
    "no such kernel": ({"cuModuleGetFunction": [500]}, "not in the module"),
}


@pytest.mark.plain
@pytest.mark.parametrize("case", REFUSALS)
def test_a_refused_launch_leaves_the_device_usable(gpu, case):
    gpu.driver.fail, words = {k: list(v) for k, v in REFUSALS[case][0].items()}, REFUSALS[case][1]
    (artifact,) = compile_source(FILL, get("h100"), name="k.cu")
    with pytest.raises(LaunchError, match=words):
        run_artifact(artifact, ONE, WARP, 0, (torch.zeros(32), 1, 1.0, 1))
    gpu.check_alive("k")


FAULTS = {
    700: "illegal-access",
    716: "misaligned",
    710: "assert",
    715: "trap",
    714: "stack-overflow",
}


@pytest.mark.virtual
@pytest.mark.parametrize("status", FAULTS)
def test_a_fault_is_typed_and_the_device_is_lost(gpu, status):
    x = torch.zeros(32)
    run(gpu, FILL, ONE, WARP, 0, (x, 1, 1.0, 1))
    gpu.driver.fail = {"cuLaunchKernel": [status]}
    with pytest.raises(KernelFault, match="made by a kernel before it: k") as caught:
        run(gpu, FILL, ONE, WARP, 0, (x, 1, 1.0, 1))
    assert (caught.value.kind, caught.value.kernel) == (FAULTS[status], "")
    with pytest.raises(DeviceLost, match="Start a new process"):
        run(gpu, FILL, ONE, WARP, 0, (x, 1, 1.0, 1))


@pytest.mark.virtual
def test_a_synchronous_session_names_the_kernel(gpu):
    gpu.driver.fail = {"cuStreamSynchronize": [0, 700]}
    x = torch.zeros(32)
    with observe(synchronous=True) as seen:
        run(gpu, FILL, ONE, WARP, 0, (x, 1, 1.0, 1), session=seen)
        with pytest.raises(KernelFault) as caught:
            run(gpu, FILL, ONE, WARP, 0, (x, 1, 1.0, 1), session=seen)
    assert (caught.value.kind, caught.value.kernel) == ("illegal-access", "k")
    assert [entry.grid for entry in seen.launches] == [ONE, ONE]
    assert seen.kernels[0]["registers"]


@pytest.mark.plain
def test_timeouts_and_unknown_errors(gpu):
    assert isinstance(gpu.failure(999, "k", at_launch=True), DeviceError)
    assert isinstance(gpu.failure(702, "k", at_launch=True), DeviceTimeout)
    with pytest.raises(DeviceLost):
        gpu.check_alive("k")


@pytest.mark.virtual
def test_two_threads_do_not_mix_their_arguments(gpu):
    (artifact,) = compile_source(FILL, get("h100"), name="k.cu")
    gpu.driver.ptx = artifact.ptx
    wrong = []

    def work(n):
        x = torch.zeros(32)
        for _ in range(20):
            run_artifact(artifact, ONE, WARP, 0, (x, 0, 0.0, n))
            if x[0] != n:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


@pytest.mark.plain
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_message_says_so():
    fake = types.SimpleNamespace(is_cuda=True, get_device=lambda: 0)
    (artifact,) = compile_source(
        "__global__ void k(float* x) { x[0] = 1; }\n", get("h100"), name="k.cu"
    )
    with pytest.raises(DeviceUnavailable, match="nvidia-smi"):
        launch(artifact, 1, 1, 0, (fake,))


# ------------------------------------------------------------------------------ on a real GPU

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU")


def on_gpu(source, grid, block, shared, args, **more):
    (artifact,) = compile_source(source, path.gpu_at(0).target, name="k.cu")
    launch(artifact, grid, block, shared, args, **more)


@pytest.mark.gpu
@needs_gpu
def test_gpu_parameters_and_streams():
    x = torch.zeros(32, device="cuda")
    on_gpu(FILL, 1, 32, 0, (x, -3, 0.5, 10))
    assert x.tolist() == [7.5] * 32
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        on_gpu(FILL, 1, 32, 0, (x, 1, 1.0, 1))
        assert not stream.query()  # the launch waits behind the sleep, on the same stream
    stream.synchronize()
    assert x.tolist() == [3.0] * 32


@pytest.mark.gpu
@needs_gpu
def test_gpu_struct_and_null_arguments():
    x = torch.zeros(5, dtype=torch.float64, device="cuda")
    on_gpu(MIXED, 1, 1, 0, (x, True, struct.pack("<b7xd", -4, 2.5), -9, None))
    assert x.tolist() == [1, -4, 2.5, -9, -1]


@pytest.mark.gpu
@needs_gpu
def test_gpu_large_shared_memory_and_limits():
    x = torch.tensor([5.0, 0.0], device="cuda")
    most = path.gpu_at(0).target.shared_per_block_bytes
    on_gpu(SHARED, 1, 1, most, (x, most // 4 - 1))
    assert x[1].item() == 5
    with pytest.raises(LaunchError, match="at most"):
        on_gpu(SHARED, 1, 1, most + 1, (x, 1))


@pytest.mark.gpu
@needs_gpu
def test_gpu_cooperative_grid():
    source = """#include <cooperative_groups.h>
__global__ void k(int* x, int* y) {
    if (threadIdx.x == 0) x[blockIdx.x] = blockIdx.x + 1;
    cooperative_groups::this_grid().sync();
    if (threadIdx.x == 0) y[blockIdx.x] = x[(blockIdx.x + 1) % gridDim.x];
}
"""
    x, y = (torch.zeros(64, dtype=torch.int32, device="cuda") for _ in range(2))
    on_gpu(source, 64, 128, 0, (x, y), cooperative=True)
    assert y.tolist() == [(i + 1) % 64 + 1 for i in range(64)]


@pytest.mark.gpu
@needs_gpu
def test_gpu_clusters():
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("clusters need 9.0")
    x = torch.zeros(1, dtype=torch.int32, device="cuda")
    source = "__global__ void __cluster_dims__(2, 1, 1) k(int* x) { atomicAdd(x, 1); }\n"
    on_gpu(source, 4, 32, 0, (x,))
    assert x.item() == 128


@pytest.mark.gpu
@needs_gpu
def test_gpu_launches_are_captured_in_graphs():
    x = torch.zeros(32, device="cuda")
    on_gpu(FILL, 1, 32, 0, (x, 0, 0.0, 1))  # load outside the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        on_gpu(FILL, 1, 32, 0, (x, 0, 0.0, 9))
    x.zero_()
    graph.replay()
    assert x.tolist() == [9.0] * 32


@pytest.mark.gpu
@needs_gpu
def test_gpu_a_thread_of_its_own_can_launch():
    x = torch.zeros(32, device="cuda")
    worker = threading.Thread(target=on_gpu, args=(FILL, 1, 32, 0, (x, 0, 0.0, 4)))
    worker.start()
    worker.join()
    assert x.tolist() == [4.0] * 32


CRASH = """
import sys, torch
from warpsmith.devices import cuda
from warpsmith.devices.launch import launch
from warpsmith.devices.observe import observe
from warpsmith.errors import DeviceLost, KernelFault
from warpsmith.toolchains.cuda import compile_source

(artifact,) = compile_source(sys.argv[1], cuda.gpu_at(0).target, name="k.cu")
x = torch.zeros(32, device="cuda")
try:
    with observe(synchronous=True):
        launch(artifact, 1, 32, 0, (x,))
except KernelFault as fault:
    print(fault.kind, fault.kernel)
try:
    launch(artifact, 1, 32, 0, (x,))
except DeviceLost:
    print("lost")
"""

CRASHES = {
    "illegal-access": "__global__ void k(float* x) { x[1ll << 40] = 1; }\n",
    "misaligned": "__global__ void k(float* x) { *(double*)(x + 1) = 1; }\n",
    "assert": "__global__ void k(float* x) { assert(x == nullptr); }\n",
}


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("kind", CRASHES)
def test_gpu_faults_are_typed(kind):
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", CRASH, CRASHES[kind]], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split("\n")[-3:-1] == [f"{kind} k", "lost"], done.stdout + done.stderr
