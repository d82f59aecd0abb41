"""Memory that was freed, memory that nobody has written yet, inlining chains, clusters: told by name."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cuda.bindings.nvrtc")

import sanitizing

from warpsmith import vgpu
from warpsmith.vgpu.memory import copy_of

pytestmark = pytest.mark.virtual

SOURCE = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define KERNEL extern "C" __global__ void
KERNEL copies(const float* x, float* out) { out[threadIdx.x] = x[threadIdx.x]; }
__device__ __forceinline__ float inner(const float* s, int i) {
  return s[i];
}
__device__ __forceinline__ float outer(const float* s, int i) {
  return inner(s, i) + 1;
}
KERNEL inlined(const float* x, float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  out[threadIdx.x] = outer(tile, 63 - threadIdx.x);
}
KERNEL __cluster_dims__(2, 1, 1) neighbor(const float* x, float* out, int syncs) {
  __shared__ float box[32];
  auto cluster = cg::this_cluster();
  box[threadIdx.x] = x[threadIdx.x];
  if (syncs > 0) cluster.sync();
  float* other = cluster.map_shared_rank(box, cluster.block_rank() ^ 1);
  out[blockIdx.x * 32 + threadIdx.x] = other[threadIdx.x];
  if (syncs > 1) cluster.sync();
}
KERNEL __cluster_dims__(2, 1, 1) one_waits(float* out) {
  auto cluster = cg::this_cluster();
  if (cluster.block_rank() == 0) cluster.sync();
  out[threadIdx.x] = 1;
  asm volatile("bar.sync 1, 64;");
}
"""
X = np.arange(64, dtype=np.float32)


def module(arch: str = "sm_90") -> vgpu.Module:
    return sanitizing.module(SOURCE, arch)


def test_a_freed_tensor_is_told_by_its_name():
    memory, x, out = vgpu.Memory(), copy_of(X), copy_of(X)
    memory.register(x.ctypes.data, x.nbytes, "weights", element_bytes=4)
    memory.register(out.ctypes.data, out.nbytes, "out", element_bytes=4)
    memory.forget(x.ctypes.data)
    values = [x.ctypes.data, out.ctypes.data]
    found = module().launch("copies", 1, 64, values, memory=memory).fault
    assert (found.kind, found.tensor, found.index) == ("use-after-free", "weights", 0)
    assert "reads 4 bytes at weights[0], which was freed (64 elements × 4 bytes)" in found.message
    memory.register(x.ctypes.data, x.nbytes, "bias", element_bytes=4)
    assert module().launch("copies", 1, 64, values, memory=memory).fault is None


def test_memory_that_an_earlier_access_wrote_is_no_longer_fresh():
    out = np.zeros(64, np.float32)
    found = sanitizing.run(
        "copies", 1, 64, X, out, source=SOURCE, arch="sm_90", fresh=(0,)
    ).findings
    assert [(f.kind, f.tensor, f.index, f.count) for f in found] == [
        ("uninitialized", "arg0", 0, 64)
    ]
    assert not sanitizing.run(
        "copies", 1, 64, X, out, source=SOURCE, arch="sm_90", fresh=(1,)
    ).findings


def test_the_chain_of_inlined_places():
    found = sanitizing.run("inlined", 1, 64, X, X, source=SOURCE, arch="sm_90").findings
    read = next(f for f in found if f.kind == "race" and f.details["action"] == "read")
    line = {text: n for n, text in enumerate(SOURCE.splitlines(), 1)}
    inner, outer = line["  return s[i];"], line["  return inner(s, i) + 1;"]
    call = line["  out[threadIdx.x] = outer(tile, 63 - threadIdx.x);"]
    assert read.details["inlined"] == tuple(f"kernel.cu:{n}" for n in (inner, outer, call))
    assert read.source_line == inner


@pytest.mark.parametrize("schedule", ["default", "reverse", "random"])
@pytest.mark.parametrize(("syncs", "told"), [(0, True), (2, False)])
def test_blocks_of_a_cluster(syncs, told, schedule):
    result = sanitizing.run("neighbor", 4, 32, X, np.zeros(128, np.float32), syncs, source=SOURCE, arch="sm_90",
                            schedule=schedule)  # fmt: skip
    assert bool(result.findings) == told, [f.message for f in result.findings]
    assert {f.kind for f in result.findings} <= {"race", "uninitialized"}
    races = [f for f in result.findings if f.kind == "race"]
    assert all(f.other and f.other.block != f.block and f.tensor == "box" for f in races)


def test_a_deadlock_names_the_clusters_barrier():
    found = sanitizing.run("one_waits", 2, 32, X, source=SOURCE, arch="sm_90").fault
    assert found.kind == "deadlock"
    assert "the cluster's barrier" in found.message or "barrier 1" in found.message
    assert "barrier 16" not in found.message
