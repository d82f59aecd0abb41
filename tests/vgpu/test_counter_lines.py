"""Counters by source line and by class of work equal what pencil and paper say, and add up."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from counted import counters
from test_classify import ins

from warpsmith.vgpu.classify import KINDS, access, operand_bytes, reductions, work_kind
from warpsmith.vgpu.counters import Counters
from warpsmith.vgpu.metrics import FAMILIES, METRICS, metric_of, section_of
from warpsmith.vgpu.ptx.ir import Register, Vector
from warpsmith.vgpu.ptx.parse import parse

pytestmark = pytest.mark.virtual

MIXED = """
__device__ __forceinline__ float twice(const float* p, int i) {
  return p[i] * 2.0f;
}
extern "C" __global__ void mixed(const float* x, float* out, int* bins, int* slots, int stride) {
  __shared__ float tile[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = twice(x, i * stride);
  __syncthreads();
  atomicAdd(&bins[i % 4], 1);
  int at = atomicAdd(&slots[0], 1);
  out[at] = tile[255 - threadIdx.x];
}
"""


def mixed(blocks: int = 2, stride: int = 2) -> Counters:
    n = 256 * blocks
    x = np.arange(n * stride, dtype=np.float32)
    out, bins, slots = np.zeros(n, np.float32), np.zeros(4, np.int32), np.zeros(1, np.int32)
    found = counters(
        MIXED, "mixed", blocks, 256, x=x, out=out, bins=bins, slots=slots, stride=stride
    )
    assert sorted(out) == sorted(2 * x[::stride])
    assert bins.tolist() == [n // 4] * 4
    return found


def line(found: Counters, number: int):
    return next(x for x in found.by_line() if x.source == f"kernel.cu:{number}")


def test_lines_say_what_each_did():
    found, warps = mixed(), 16
    load = line(found, 3)  # inlined, and told at the line of the helper itself
    assert (load.global_requests, load.global_sectors, load.global_ideal_sectors) == (
        warps,
        8 * warps,
        4 * warps,
    )
    assert load.excess_sectors == 4 * warps
    assert load.sectors_per_request == 8
    assert load.flops == 32 * warps
    assert (line(found, 8).shared_requests, line(found, 8).shared_wavefronts) == (warps, warps)
    assert line(found, 9).barriers == warps
    assert (line(found, 10).atomic_requests, line(found, 10).atomic_conflicts) == (
        warps,
        28 * warps,
    )
    assert line(found, 11).atomic_conflicts == 31 * warps
    assert (line(found, 12).global_requests, line(found, 12).shared_requests) == (warps, warps)


TOTALS = {
    "warp_instructions": "warp_instructions",
    "thread_instructions_pred_on": "thread_instructions_pred_on",
    "flops": "flops",
    "shared_wavefronts": "shared_wavefronts",
    "branches": "branches",
    "divergent_branches": "divergent_branches",
    "barriers": "barriers",
}


@pytest.mark.parametrize("name", TOTALS)
@pytest.mark.parametrize("rows", ["by_line", "by_ptx_line"])
def test_lines_add_up_to_the_launch(name, rows):
    found = mixed()
    assert sum(getattr(x, name) for x in getattr(found, rows)()) == getattr(found, TOTALS[name])


def test_lines_of_launches_add_up():
    one = mixed()
    both = one + one
    assert [2 * x.warp_instructions for x in one.by_line()] == [
        x.warp_instructions for x in both.by_line()
    ]


def test_ptx_lines_keep_their_source():
    found = mixed()
    loads = [x for x in found.by_ptx_line() if x.global_requests and x.source == "kernel.cu:3"]
    assert len(loads) == 1
    assert loads[0].instructions == 1


def test_rows_go_into_json_and_csv():
    rows = mixed().rows()
    assert json.loads(json.dumps(rows)) == rows
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    read = list(csv.DictReader(io.StringIO(text.getvalue())))
    assert [int(r["global_sectors"]) for r in read] == [r["global_sectors"] for r in rows]


def test_atomics_that_nobody_asks_are_reductions():
    found = mixed()
    assert (found.global_atomic_requests, found.global_reduction_requests) == (32, 16)
    flat = found.as_dict()
    assert flat["l1tex__t_requests_pipe_lsu_mem_global_op_red.sum"] == 16
    assert flat["l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum"] == 16
    assert flat["l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum"] == 16  # 4 bins in one sector
    assert found.kinds["memory"] == sum(
        32 * (x.global_requests + x.shared_requests) for x in found.by_line()
    )


def test_every_thread_instruction_has_one_class():
    found = mixed()
    assert sum(found.kinds.values()) == found.thread_instructions_pred_on
    assert tuple(found.kinds) == KINDS


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("add.s32", "integer"),
        ("mad.lo.u32", "integer"),
        ("setp.lt.s32", "integer"),
        ("and.b32", "bit"),
        ("shf.l.wrap.b32", "bit"),
        ("popc.b32", "bit"),
        ("cvt.rn.f32.s32", "conversion"),
        ("fma.rn.f32", "fp32"),
        ("min.f32", "fp32"),
        ("setp.lt.f64", "fp64"),
        ("fma.rn.bf16x2", "fp16"),
        ("shfl.sync.bfly.b32", "inter_thread_communication"),
        ("vote.sync.ballot.b32", "inter_thread_communication"),
        ("ld.global.f32", "memory"),
        ("ld.param.u64", "misc"),
        ("mov.u32", "misc"),
        ("bra", "control"),
        ("bar.sync", "control"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "tensor"),
    ],
)
def test_classes_of_work(name, kind):
    assert work_kind(ins(name)) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cp.async.ca.shared.global", "async_copy"),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", "bulk_load"),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", "bulk_load"),
        ("cp.async.bulk.global.shared::cta.bulk_group", "bulk_store"),
        ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group", "bulk_store"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32", "bulk_store"),
        ("cp.async.bulk.prefetch.L2.global", "bulk_load"),
    ],
)  # fmt: skip
def test_copies_have_a_direction(name, kind):
    assert access(ins(name)) == kind


def test_what_wgmma_reads_of_shared_memory():
    product = ins("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16")
    product.operands = (Vector(()), Register("%rd1", "b64"), Register("%rd2", "b64"))
    assert 4 * operand_bytes(product) == 2 * (64 * 16 + 128 * 16)
    product.operands = (Vector(()), Vector(()), Register("%rd2", "b64"))
    assert 4 * operand_bytes(product) == 2 * 128 * 16
    assert operand_bytes(ins("wgmma.fence.sync.aligned")) == 0


def test_an_answer_makes_an_atomic_of_a_reduction():
    old, other = Register("%r1", "b32"), Register("%r2", "b32")
    asked, unasked, red = (
        ins("atom.global.add.u32"),
        ins("atom.global.add.u32"),
        ins("red.global.add.u32"),
    )
    exchange, use = ins("atom.global.exch.b32"), ins("add.s32")
    asked.operands, unasked.operands, use.operands = (old,), (Register("%r3", "b32"),), (other, old)
    exchange.operands = (Register("%r4", "b32"),)
    found = reductions([asked, unasked, red, exchange, use])
    assert found.tolist() == [False, True, True, False, False]


LOCAL = """
extern "C" __global__ void table(const int* x, int* out) {
  int table[8], i = threadIdx.x;
  for (int k = 0; k < 8; k++) table[k] = x[(i + k) % 32];
  out[i] = table[x[i] & 7];
}
"""


def test_local_memory_lies_by_lanes():
    x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    found = counters(LOCAL, "table", 1, 32, x=x, out=out)
    # one word of all 32 lanes is 128 bytes; the lookup by lane scatters over 8 rows of them
    assert found.local_store_sectors == 8 * 4
    assert found.local_load_sectors == 32


def test_the_table_knows_every_name_once():
    found = mixed()
    flat = found.as_dict()
    assert all(metric.family in FAMILIES and metric.definition for metric in METRICS)
    assert len({m.key for m in METRICS}) == len(METRICS)
    for key in flat:
        assert section_of(key), key
        assert metric_of(key) is not None
    assert metric_of("nothing") is None
    assert section_of("nothing") == ""


CHAIN = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k() {
  .reg .b32 %r<3>;
  .loc 1 15 0 // kernel.py:15:0
  mov.u32 %r1, %tid.x;
  .loc 2 170 27 // standard.py:170:27 @[ standard.py:191:40 @[ kernel.py:19:45 ] ]
  add.s32 %r2, %r1, 1;
  .loc 2 12 3 // standard.py:12:3 @[ other.py:4:45 ]
  add.s32 %r2, %r1, 1;
  .loc 1 20 4 // kernel.py:20:4
  ret;
}
.file 1 "/somewhere/kernel.py"
.file 2 "/elsewhere/standard.py"
"""


def test_a_chain_in_a_comment_leads_to_the_kernels_own_line():
    """LLVM, so Triton, names the callers of an inlined line in a comment only."""
    body = parse(CHAIN).functions["k"].body
    assert [str(x.source) for x in body] == [
        "/somewhere/kernel.py:15",
        "/somewhere/kernel.py:19",
        "/elsewhere/standard.py:12",
        "/somewhere/kernel.py:20",
    ]
