"""A launch like an earlier one skips what was checked then; whatever changed is caught all the same."""
# SPDX-License-Identifier: Apache-2.0

import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cuda.bindings.driver")
pytest.importorskip("cuda.bindings.nvrtc")

from test_cuda_driver import CPU, FILL, VirtualDriver, needs_gpu  # noqa: E402

from warpsmith.devices import arguments  # noqa: E402
from warpsmith.devices import cuda as path  # noqa: E402
from warpsmith.devices.observe import observe  # noqa: E402
from warpsmith.devices.staging import Staging  # noqa: E402
from warpsmith.errors import DeviceLost, DtypeError, KernelFault, LaunchError  # noqa: E402
from warpsmith.runtime.kernel import cuda  # noqa: E402
from warpsmith.targets import get  # noqa: E402

FLAG = "__global__ void k(float* x, bool flag, float by) { x[threadIdx.x] += flag ? by : 0; }\n"


class Bench:
    """Kernels on a stand-in GPU, and how many launches went the long way."""

    def __init__(self, monkeypatch):
        self.gpu = path.Gpu(CPU, get("h100"), VirtualDriver())
        self.gpu.retain()
        self.long = 0
        whole = path.Function.launch

        def counted(function, request):
            self.long += 1
            whole(function, request)

        def index(args):
            return CPU if any(isinstance(a, torch.Tensor) for a in args) else None

        monkeypatch.setattr(path, "gpu_at", lambda at: self.gpu)
        monkeypatch.setattr(path.Gpu, "stream", lambda gpu: 77)
        monkeypatch.setattr(path.Function, "launch", counted)
        monkeypatch.setattr(arguments, "cuda_index", index)

    def kernel(self, source):
        kernel = cuda(source, target="h100")
        self.gpu.driver.ptx = kernel.ptx
        return kernel

    def launches(self):
        return sum(call[0].startswith("cuLaunchKernel") for call in self.gpu.driver.calls)


@pytest.fixture
def bench(monkeypatch):
    return Bench(monkeypatch)


@pytest.fixture
def fill(bench):
    """FILL, launched once: k(float* x, char c, double d, int n) sets x to c + d + n."""
    kernel = bench.kernel(FILL)
    kernel[1, 32](torch.zeros(32), 1, 1.0, 1)
    return kernel


@pytest.mark.virtual
def test_later_launches_take_the_short_way(bench, fill):
    for n in range(3):
        x = torch.zeros(32)
        fill[1, 32](x, -n, 0.5, 10 * n)
        assert x.tolist() == [9 * n + 0.5] * 32
    assert (bench.long, bench.launches()) == (1, 4)


@pytest.mark.virtual
@pytest.mark.parametrize("parameter", [torch.zeros(32), torch.nn.Parameter(torch.zeros(32))])
def test_other_sizes_are_checked_once_each(bench, fill, parameter):
    x = parameter.detach()
    for _ in range(2):
        fill[(1, 1), 32](x, 1, 1.0, 1)
        fill[1, (8, 4, 1), 0](x, 1, 1.0, 1)
    assert bench.long == 3


CHANGED = {
    "dtype": ((torch.zeros(32).double(), 1, 1.0, 1), DtypeError, "float64 tensor"),
    "int overflow": ((torch.zeros(32), 1, 1.0, 1 << 31), LaunchError, "does not fit"),
    "char overflow": ((torch.zeros(32), 128, 1.0, 1), LaunchError, "does not fit"),
    "float for int": ((torch.zeros(32), 1, 1.0, 1.0), DtypeError, r"int\(1.0\)"),
    "tensor for int": ((torch.zeros(32), 1, 1.0, torch.tensor(1)), DtypeError, "a number"),
    "number for pointer": ((4096, 1, 1.0, torch.zeros(1)), DtypeError, "takes a tensor"),
    "too few": ((torch.zeros(32), 1, 1.0), LaunchError, "takes 4 arguments"),
    "too many": ((torch.zeros(32), 1, 1.0, 1, 2), LaunchError, "takes 4 arguments"),
    "sparse": ((torch.zeros(4, 8).to_sparse(), 1, 1.0, 1), DtypeError, "to_dense"),
    "negated": ((torch.zeros(32, dtype=torch.cfloat).conj().imag, 1, 1.0, 1), DtypeError, "neg"),
    "no tensor": ((None, 1, 1.0, 1), KernelFault, "null"),
}


@pytest.mark.virtual
@pytest.mark.parametrize("case", CHANGED)
def test_what_changed_since_the_first_launch_is_caught(bench, fill, case):
    args, error, words = CHANGED[case]
    before = bench.launches()
    with pytest.raises(error, match=words):
        fill[1, 32](*args)
    assert bench.launches() == before


SIZES = {
    "bool": ((True, 32), "grid is True"),
    "float": ((1.0, 32), "grid is 1.0"),
    "in a tuple": ((1, (32, True)), "block is"),
    "threads": ((1, 2048), "at most 1024"),
    "shared": ((1, 32, 1 << 20), "shared memory"),
    "shared is a bool": ((1, 32, False), "shared_bytes is False"),
}


@pytest.mark.virtual
@pytest.mark.parametrize("case", SIZES)
def test_sizes_that_only_equal_good_ones_are_caught(fill, case):
    shape, words = SIZES[case]
    fill[1, (32, 1)](torch.zeros(32), 1, 1.0, 1)
    with pytest.raises(LaunchError, match=words):
        fill[shape](torch.zeros(32), 1, 1.0, 1)


@pytest.mark.virtual
def test_a_bool_takes_0_and_1_alone_and_floats_their_range(bench):
    kernel, x = bench.kernel(FLAG), torch.zeros(32)
    for flag in (True, False, 1, True):
        kernel[1, 32](x, flag, 0.5)
    assert x.tolist() == [1.5] * 32
    with pytest.raises(LaunchError, match="does not fit"):
        kernel[1, 32](x, 2, 0.5)
    with pytest.raises(LaunchError, match="too large"):
        kernel[1, 32](x, True, 1e39)
    assert x.tolist() == [1.5] * 32


@pytest.mark.virtual
def test_addresses_are_read_anew(bench, fill):
    x, other = torch.zeros(32), torch.zeros(64)
    fill[1, 32](x, 1, 1.0, 1)
    x.set_(other.untyped_storage(), 32, (32,))
    fill[1, 32](x, 0, 0.0, 5)
    assert other.tolist() == [0.0] * 32 + [5.0] * 32
    x.resize_(4096)
    fill[1, 32](x, 0, 0.0, 6)
    assert x[:32].tolist() == [6.0] * 32
    x = torch.zeros(32)
    x.untyped_storage().resize_(0)  # freed: a null pointer, which the driver is given as such
    staging = fill._loaded.staging
    assert staging.again((x, 0, 0.0, 7), CPU)
    assert staging._bytes[:8] == bytes(8)


@pytest.mark.plain
def test_another_device_is_not_like_an_earlier_launch():
    staging, x = Staging(cuda(FILL).artifact("h100")), torch.zeros(32)
    staging.first("k", (x, 1, 1.0, 1), CPU)
    assert staging.again((x, 1, 1.0, 1), CPU)
    assert not staging.again((x, 1, 1.0, 1), 0)
    with pytest.raises(LaunchError, match="not on CUDA device 0"):
        staging.first("k", (x, 1, 1.0, 1), 0)


@pytest.mark.virtual
def test_a_session_sees_launches_from_its_first_to_its_last(bench, fill):
    x = torch.zeros(32)
    with observe() as seen:
        fill[1, 32](x, 1, 1.0, 1)
        with observe(synchronous=True) as inner:
            fill[1, 32](x, 1, 1.0, 1)
    fill[1, 32](x, 1, 1.0, 1)
    assert (len(seen.launches), len(inner.launches)) == (1, 1)
    assert [c for c in bench.gpu.driver.calls if c[0] == "cuStreamSynchronize"]
    assert bench.long == 3


@pytest.mark.virtual
def test_after_launches_on_a_gpu_the_virtual_one_still_follows_its_session(bench):
    kernel = cuda(FILL)
    bench.gpu.driver.ptx = kernel.artifact("h100").ptx
    for _ in range(2):
        kernel[1, 32](torch.zeros(32), 1, 1.0, 1)
    for name in ("a100", "h100"):
        with observe(target=name) as seen:
            kernel[1, 32](np.zeros(32, np.float32), 1, 1.0, 1)
        assert seen.kernels[0]["arch"] == get(name).arch


@pytest.mark.virtual
def test_a_lost_device_stays_lost(bench, fill):
    bench.gpu.driver.fail = {"cuLaunchKernel": [700]}
    with pytest.raises(KernelFault):
        fill[1, 32](torch.zeros(32), 1, 1.0, 1)
    assert bench.long == 1
    with pytest.raises(DeviceLost):
        fill[1, 32](torch.zeros(32), 1, 1.0, 1)


@pytest.mark.virtual
def test_the_context_is_pushed_where_it_is_not_current(bench, fill):
    pushed = []
    bench.gpu.driver.cuCtxPushCurrent = lambda c: (
        pushed.append(c), bench.gpu.driver.stack.append(c), (0,)
    )[2]  # fmt: skip
    fill[1, 32](torch.zeros(32), 1, 1.0, 1)
    assert (len(pushed), bench.gpu.driver.stack) == (1, [0])
    bench.gpu.driver.stack.append(bench.gpu.context)
    fill[1, 32](torch.zeros(32), 1, 1.0, 1)
    assert len(pushed) == 1


@pytest.mark.virtual
def test_threads_do_not_mix_their_arguments(bench, fill):
    wrong = []

    def work(n):
        x = torch.zeros(32)
        for _ in range(30):
            fill[1, 32](x, 0, 0.0, n)
            if x.tolist() != [n] * 32:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (wrong, bench.long) == ([], 1)


@pytest.mark.gpu
@needs_gpu
def test_gpu_streams_graphs_and_mixed_devices():
    add = cuda(
        "__global__ void add(float* x, const float* y) { x[threadIdx.x] += y[threadIdx.x]; }\n"
    )
    x, y = torch.zeros(32, device="cuda"), torch.ones(32, device="cuda")
    add[1, 32](x, y)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        add[1, 32](x, y)
        assert not stream.query()
    stream.synchronize()
    with torch.cuda.graph(graph):
        add[1, 32](x, y)
    assert x.tolist() == [2.0] * 32
    graph.replay()
    assert x.tolist() == [3.0] * 32
    with pytest.raises(LaunchError, match="different devices"):
        add[1, 32](x, y.cpu())
    with pytest.raises(DtypeError):
        add[1, 32](x, y.half())
    worker = threading.Thread(target=lambda: add[1, 32](x, y))
    worker.start()
    worker.join()
    assert x.tolist() == [4.0] * 32
