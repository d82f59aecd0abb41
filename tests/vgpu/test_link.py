"""Several PTX texts as one module: declarations meet definitions, private names stay apart."""
# SPDX-License-Identifier: Apache-2.0

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from compile import cuda
from launching import Bench

from warpsmith import vgpu
from warpsmith.errors import PtxError, UnsupportedInstruction

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.virtual

CALLER = """
extern __device__ int scaled(int x);
extern __device__ int offset;
typedef int (*Op)(int);
extern __device__ Op chosen;
static __device__ int hidden[2] = {10, 20};
extern "C" __global__ void k(int* out) {
  int i = threadIdx.x;
  out[i] = scaled(i) + offset + hidden[i % 2] + chosen(i);
}
extern "C" __global__ void words() { printf("of the caller %d\\n", (int)threadIdx.x); }
"""
CALLEE = """
__device__ int offset = 1000;
static __device__ int hidden[2] = {3, 4};
__device__ __noinline__ int scaled(int x) { return x * hidden[x % 2]; }
static __device__ __noinline__ int cubed(int x) { return x * x * x; }
__device__ int (*chosen)(int) = cubed;
extern "C" __global__ void other() { printf("of the callee\\n"); }
"""


def texts(*sources):
    return [cuda(s, "sm_80", "-rdc=true") for s in sources]


def test_functions_variables_and_private_names():
    caller, callee = texts(CALLER, CALLEE)
    bench = Bench(caller)
    bench.module = vgpu.load(caller, link=[callee])
    out, i = np.zeros(32, np.int32), np.arange(32)
    bench.right("k", (1,), (32,), out)
    assert np.array_equal(out, i * np.where(i % 2, 4, 3) + 1000 + np.where(i % 2, 20, 10) + i**3)
    assert bench.right("other", (1,), (1,)).printed == "of the callee\n"
    assert bench.right("words", (1,), (2,)).printed == "of the caller 0\nof the caller 1\n"


def test_the_order_of_texts_does_not_matter():
    caller, callee = texts(CALLER, CALLEE)
    bench = Bench(caller)
    bench.module = vgpu.load(callee, link=[caller])
    out = np.zeros(2, np.int32)
    bench.right("k", (1,), (2,), out)
    assert list(out) == [1010, 4 + 1000 + 20 + 1]


def test_an_undefined_function_says_what_to_do():
    (caller,) = texts(CALLER)
    with pytest.raises(UnsupportedInstruction, match=r"'_Z6scaledi' is not defined.*link="):
        vgpu.load(caller).prepare("k")


HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
BODY = "{{ .reg .b32 %x; mov.u32 %x, {}; st.param.b32 [r], %x; ret; }}\n"
VALUE = ".func (.param .b32 r) value()"
KERNEL = """.visible .entry k(.param .u64 out) { .reg .b32 %x; .reg .b64 %d; .param .b32 r;
 ld.param.u64 %d, [out]; call (r), value, (); ld.param.b32 %x, [r]; st.global.u32 [%d], %x; ret; }
"""


def value_of(*parts):
    bench, out = Bench(HEAD), np.zeros(1, np.int32)
    bench.module = vgpu.load(HEAD + parts[0] + KERNEL, link=[HEAD + p for p in parts[1:]])
    bench.right("k", (1,), (1,), out)
    return out[0]


def test_weak_yields_to_strong():
    weak, strong = f".weak {VALUE}" + BODY.format(1), f".visible {VALUE}" + BODY.format(2)
    assert value_of(weak, strong) == 2
    assert value_of(strong, weak) == 2
    assert value_of(weak, f".weak {VALUE}" + BODY.format(3)) == 1
    assert value_of(f".extern {VALUE};\n", weak, strong) == 2
    with pytest.raises(PtxError, match="two of the linked texts"):
        value_of(strong, f".visible {VALUE}" + BODY.format(4))


def test_a_wrong_number_of_arguments_is_refused():
    text = (
        HEAD + f".visible {VALUE}" + BODY.format(1) + KERNEL.replace("(r), value, ()", "value, ()")
    )
    with pytest.raises(UnsupportedInstruction, match="0 arguments and gives 1 results"):
        vgpu.load(text).prepare("k")


@pytest.mark.parametrize(("name", "words"), [
    ("cudaLaunchDeviceV2", "device runtime"), ("cudaGetParameterBufferV2", "device runtime"),
    ("cudaGraphSetConditional", "node of a CUDA graph"), ("mine", "link="),
])  # fmt: skip
def test_why_a_function_cannot_be_called(name, words):
    text = HEAD + f".extern .func {name} ();\n.visible .entry k() {{ call {name}, (); ret; }}\n"
    with pytest.raises(UnsupportedInstruction, match=words) as caught:
        vgpu.load(text).prepare("k")
    assert caught.value.line == 5
