"""Launches on CPU tensors: right results, faults with a line, and a session that saw everything."""
# SPDX-License-Identifier: Apache-2.0

import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cuda.bindings.nvrtc")

from warpsmith.devices.launch import launch  # noqa: E402
from warpsmith.devices.observe import current, observe  # noqa: E402
from warpsmith.devices.virtual import VirtualGpu, _Tensors  # noqa: E402
from warpsmith.errors import DeviceTimeout, KernelFault, UsageError  # noqa: E402
from warpsmith.spec import Parameter  # noqa: E402
from warpsmith.targets import get  # noqa: E402
from warpsmith.toolchains.cuda import compile_source  # noqa: E402

pytestmark = pytest.mark.virtual

VADD = """__global__ void vadd(const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    GUARD out[i] = x[i] + y[i];
}
"""


def compiled(source, part="h100", **defines):
    (artifact,) = compile_source(source, get(part), name="k.cu", defines=defines)
    return artifact


@pytest.fixture(scope="module")
def vadd():
    return compiled(VADD, GUARD="if (i < n)")


@pytest.mark.parametrize("n", [1, 31, 1000])
def test_torch_and_numpy_agree(vadd, n):
    x, y = torch.randn(n), torch.randn(n)
    out = torch.full((n,), 7.0)
    launch(vadd, -(-n // 128), 128, 0, (x, y, out, n))
    assert torch.equal(out, x + y)
    result = np.full(n, 7.0, np.float32)
    launch(vadd, -(-n // 128), 128, 0, (x.numpy(), y.numpy(), result, n))
    assert np.array_equal(result, (x + y).numpy())


@pytest.mark.parametrize("shift", [0, 1, 3, 63])
def test_views_and_unaligned_storage_give_the_same(vadd, shift):
    raw = np.zeros(300, np.float32)
    x, y = torch.randn(64 + shift)[shift:], torch.randn(128)[::2].contiguous()
    out = torch.from_numpy(raw)[100 + shift : 164 + shift]
    launch(vadd, 1, 64, 0, (x, y, out, 64))
    assert torch.equal(out, x + y)
    assert not raw[: 100 + shift].any()
    assert not raw[164 + shift :].any()


def test_an_alias_of_an_input_is_written(vadd):
    x = torch.randn(64)
    expected = x + x
    launch(vadd, 1, 64, 0, (x, x, x, 64))
    assert torch.equal(x, expected)


def test_storages_that_overlap_stay_one():
    raw = np.zeros(4096, np.uint8)
    tensors = _Tensors()
    from warpsmith.devices.arguments import pack

    one, two = raw[8:100].view(np.float32), raw[96:200].view(np.float32)
    for name, part in (("one", one), ("two", two)):
        tensors.value(Parameter("pointer", name), pack("f", 0, Parameter("pointer", name), part))
    tensors.place()
    assert len(tensors.storages) == 1


def test_a_fault_names_line_tensor_block_and_thread():
    x = torch.randn(1000)
    with observe() as seen, pytest.raises(KernelFault) as caught:
        launch(compiled(VADD, GUARD=""), 4, 256, 0, (x, x, torch.empty(1000), 1000))
    fault = caught.value
    assert (fault.kind, fault.kernel, fault.source) == ("out-of-bounds", "vadd", "k.cu:3")
    assert fault.block == (3, 0, 0)
    assert fault.thread == (232, 0, 0)
    assert "x" in fault.message
    assert len(seen.launches) == 1  # it was made


def test_writing_a_const_tensor_is_a_fault():
    source = "__global__ void f(const float* x) { ((float*)x)[0] = 1; }\n"
    x = torch.zeros(4)
    with pytest.raises(KernelFault, match="read-only"):
        launch(compiled(source), 1, 1, 0, (x,))
    assert not x.any()


def test_a_null_pointer_is_passed_and_faults_only_where_it_is_used():
    source = "__global__ void f(float* x, const float* bias) { x[0] = bias ? bias[0] : 5; }\n"
    x = torch.zeros(1)
    launch(compiled(source), 1, 1, 0, (x, None))
    assert x.item() == 5
    source = "__global__ void f(float* x) { x[0] = 1; }\n"
    with pytest.raises(KernelFault) as caught:
        launch(compiled(source), 1, 1, 0, (None,))
    assert caught.value.kind == "null-pointer"


STRUCTS = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
struct Box { int a; double b; char c; };
__global__ void f(double* out, Box box, half h, __nv_bfloat16 b, float3 v, char c, bool flag,
                  unsigned long long big, const Box* boxes) {
    double all[] = {double(box.a), box.b, double(box.c), __half2float(h), __bfloat162float(b), v.x,
                    v.y, v.z, double(c), double(flag), double(big >> 32), boxes[1].b};
    for (int i = 0; i < 12; ++i) out[i] = all[i];
}
"""


def test_every_kind_of_argument_arrives():
    box = np.zeros(2, np.dtype([("a", "i4"), ("b", "f8"), ("c", "i1")], align=True))
    box[0], box[1] = (-3, 0.25, -7), (0, 12.5, 0)
    out = torch.zeros(12, dtype=torch.float64)
    args = (out, box[0], 1.5, -2.0, (1.0, 2.0, 3.0), -5, True, 7 << 32, box)
    launch(compiled(STRUCTS), 1, 1, 0, args)
    assert out.tolist() == [-3, 0.25, -7, 1.5, -2, 1, 2, 3, -5, 1, 7, 12.5]


def test_dynamic_shared_memory_is_as_large_as_asked():
    source = """__global__ void f(float* x, int n) {
    extern __shared__ float s[];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[n - 1 - threadIdx.x];
}
"""
    x = torch.arange(64.0)
    launch(compiled(source), 1, 64, 256, (x, 64))
    assert torch.equal(x, torch.arange(63.0, -1, -1))
    with pytest.raises(KernelFault) as caught:
        launch(compiled(source), 1, 64, 128, (x, 64))
    assert caught.value.kind == "out-of-bounds"


def test_a_session_sees_launches_counts_and_build_facts(vadd):
    x = torch.randn(1024)
    with observe("h100", count=True) as seen:
        launch(vadd, 4, 256, 0, (x, x, torch.empty(1024), 1024))
        launch(vadd, (2, 1), (512, 1, 1), 0, (x, x, torch.empty(1024), 1024))
    first, second = seen.launches
    assert (first.kernel, first.grid, first.block) == ("vadd", (4, 1, 1), (256, 1, 1))
    assert second.grid == (2, 1, 1)
    assert first.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 2 * 1024 * 4 / 32
    assert first.registers == vadd.resources.registers
    assert first.artifact == vadd.id
    (facts,) = seen.kernels
    assert facts["arch"] == "sm_90a"
    assert set(seen.tensors[0]) == {"x", "y", "out"}
    assert seen.seconds > 0
    assert len(seen.counters) == 2


def test_without_counting_there_are_no_counters(vadd):
    x = torch.randn(32)
    with observe(count=False) as seen:
        launch(vadd, 1, 32, 0, (x, x, torch.empty(32), 32))
    assert seen.launches[0].counters == {}


def test_what_a_kernel_prints_is_kept(capfd):
    with observe() as seen:
        launch(compiled('__global__ void f(int n) { printf("n = %d\\n", n); }\n'), 1, 1, 0, (42,))
    assert "".join(seen.printed) == "n = 42\n"
    assert capfd.readouterr().out == ""


def test_strides_are_noted_not_forbidden(vadd):
    x = torch.randn(64, 2)[:, 0]
    with observe() as seen:
        launch(vadd, 1, 32, 0, (x, x, torch.empty(32), 32))
    assert seen.notes[0] == "vadd: 'x' is not contiguous: shape (64,), strides (2,)"


def test_sessions_nest_and_close(vadd):
    x = torch.randn(32)
    args = (x, x, torch.empty(32), 32)
    with observe() as outer:
        with observe() as inner:
            launch(vadd, 1, 32, 0, args)
        launch(vadd, 1, 32, 0, args)
    launch(vadd, 1, 32, 0, args)
    assert (len(outer.launches), len(inner.launches)) == (1, 1)
    assert current() is None


def test_an_ordinary_thread_is_not_watched(vadd):
    x = torch.randn(32)
    with observe() as seen:
        worker = threading.Thread(target=launch, args=(vadd, 1, 32, 0, (x, x, torch.empty(32), 32)))
        worker.start()
        worker.join()
    assert seen.launches == []


def test_budgets_stop_a_kernel_that_does_not_end():
    endless = compiled("__global__ void f(volatile int* x) { while (x[0] == 0) {} }\n")
    x = torch.zeros(1, dtype=torch.int32)
    with observe(max_instructions=10_000), pytest.raises(KernelFault) as caught:
        launch(endless, 1, 32, 0, (x,))
    assert caught.value.kind == "step-budget"
    with observe(max_seconds=0.05) as seen:
        with pytest.raises(KernelFault):
            launch(endless, 1, 32, 0, (x,))
        with pytest.raises(DeviceTimeout, match=r"1 launches took the 0\.05 s"):
            launch(endless, 1, 32, 0, (x,))
    assert len(seen.launches) == 1


def test_unknown_options_of_a_session_are_refused():
    with pytest.raises(UsageError, match="schedul"), observe(schedul="random"):
        pass


def test_a_part_is_shown_so_that_it_can_be_pasted():
    assert repr(VirtualGpu(get("a100"))) == "VirtualGpu(targets.get('a100'))"


def test_a_grid_barrier_works_in_a_cooperative_launch():
    source = """#include <cooperative_groups.h>
__global__ void f(int* x, int* y) {
    if (threadIdx.x == 0) x[blockIdx.x] = blockIdx.x + 1;
    cooperative_groups::this_grid().sync();
    if (threadIdx.x == 0) y[blockIdx.x] = x[(blockIdx.x + 1) % gridDim.x];
}
"""
    x, y = torch.zeros(2, 8, dtype=torch.int32).unbind()
    x, y = x.clone(), y.clone()
    launch(compiled(source), 8, 32, 0, (x, y), cooperative=True)
    assert y.tolist() == [2, 3, 4, 5, 6, 7, 8, 1]
