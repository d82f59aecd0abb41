"""The copy engine across blocks: multicast, remote copies, stores and reductions, groups, barriers."""
# SPDX-License-Identifier: Apache-2.0

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_tma_tiles import map_of, values

from warpsmith import vgpu
from warpsmith.errors import UnsupportedInstruction
from warpsmith.vgpu.memory import copy_of

pytestmark = pytest.mark.virtual
SCHEDULES = pytest.mark.parametrize("schedule", ["default", "reverse", "random"])

# %t thread, %rank in the cluster, %pa … %pd pointers, %da … %dd the same plus 4 t, bar an mbarrier
FRAME = """.version 8.7
.target {arch}
.address_size 64
.extern .shared .align 1024 .b8 tile[];
.visible .entry kernel(.param .align 64 .b8 map[128], .param .u64 pa, .param .u64 pb, .param .u64 pc)
{{
  .reg .pred %p, %q, %zero, %done; .reg .b16 %h<9>; .reg .b32 %t, %rank, %block, %r<30>, %at, %bar, %mine;
  .reg .b64 %pa, %pb, %pc, %da, %db, %dc, %d<20>, %map; .reg .f32 %f<9>;
  .shared .align 8 .b64 bar;
  ld.param.b64 %pa, [pa]; ld.param.b64 %pb, [pb]; ld.param.b64 %pc, [pc]; mov.u64 %map, map;
  mov.u32 %t, %tid.x; mov.u32 %rank, %cluster_ctarank; mov.u32 %block, %ctaid.x;
  mad.wide.u32 %da, %t, 4, %pa; mad.wide.u32 %db, %t, 4, %pb; mad.wide.u32 %dc, %t, 4, %pc;
  setp.eq.u32 %zero, %t, 0; mov.u32 %at, tile; mov.u32 %bar, bar; shl.b32 %mine, %t, 2; add.u32 %mine, %mine, %at;
  @%zero mbarrier.init.shared::cta.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
{body}
  ret;
}}"""
WAIT = """
WAIT: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %done, [bar], 0, 1000;
  @!%done bra WAIT;"""
LEAVE = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


def run(
    body,
    arrays,
    *,
    grid=1,
    block=32,
    cluster=1,
    raw_map=bytes(128),
    shared=4096,
    arch="sm_90a",
    **options,
):
    """Launch; arrays are copied in and back. Gives the launch's result."""
    memory, device = vgpu.Memory(), [copy_of(a) for a in arrays]
    for i, x in enumerate(device):
        memory.register(x.ctypes.data, x.nbytes, f"p{'abc'[i]}", element_bytes=x.itemsize)
    pointers = [x.ctypes.data for x in device] + [0] * (3 - len(device))
    module = vgpu.load(FRAME.format(body=body, arch=arch))
    raw = raw_map(device) if callable(raw_map) else raw_map
    result = module.launch("kernel", (grid,), (block,), [raw, *pointers], memory=memory,
                           cluster=(cluster, 1, 1), shared_bytes=shared, **options)  # fmt: skip
    for a, x in zip(arrays, device):
        a[...] = x
    return result


def right(*args, **options):
    result = run(*args, **options)
    assert result.fault is None, result.fault.message
    return result


READ_TILE = (
    "ld.shared.b32 %r9, [%mine]; mad.wide.u32 %d9, %block, 128, %db; st.global.b32 [%d9], %r9;"
)


@SCHEDULES
@pytest.mark.parametrize("tensor", [False, True])
def test_multicast_fills_the_same_place_in_every_block_of_the_mask(schedule, tensor):
    source, out = np.arange(32, dtype=np.int32).reshape(1, 32), np.zeros((8, 32), np.int32)
    copy = (
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%at], [%map, {0, 0}], [%bar], %h1;"
        if tensor
        else "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%at], [%pa], 128, [%bar], %h1;"
    )
    body = f"""
  mov.u16 %h1, 13; mov.b32 %r1, -7; st.shared.b32 [%mine], %r1;
  setp.ne.u32 %q, %rank, 1; and.pred %p, %zero, %q;
  @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
  barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;
  setp.eq.u32 %p, %rank, 2; and.pred %p, %p, %zero;
  @%p {copy}
  @!%q bra SKIP;
  {WAIT}
SKIP:
  {READ_TILE}
  {LEAVE}"""
    raw = lambda device: map_of(device[0], "int32", (1, 32)).encode(device[0].ctypes.data)  # noqa: E731
    result = right(body, [source, out], grid=8, cluster=4, raw_map=raw, schedule=schedule)
    want = np.tile(source, (8, 1))
    want[[1, 5]] = -7
    np.testing.assert_array_equal(out, want)
    assert result.counters.bulk_load_requests == 2  # one a cluster, whatever the number of blocks
    assert result.counters.bulk_load_bytes == 2 * 128


def test_a_multicast_to_a_block_that_is_not_there_is_a_fault():
    body = """mov.u16 %h1, 16;
  @%zero cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%at], [%pa], 128, [%bar], %h1;"""
    fault = run(body, [np.zeros(32, np.int32)], grid=4, cluster=4).fault
    assert fault.kind == "illegal-access"
    assert "multicast mask" in fault.message


@SCHEDULES
def test_shared_memory_goes_to_a_neighbor_with_its_barrier(schedule):
    """cp.async.bulk.shared::cluster.shared::cta: the barrier is the receiver's."""
    out = np.zeros((4, 32), np.int32)
    body = f"""
  mad.lo.u32 %r1, %rank, 100, %t; st.shared.b32 [%mine+1024], %r1;
  @%zero mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
  fence.proxy.async.shared::cta; bar.sync 0;
  add.u32 %r2, %rank, 1; and.b32 %r2, %r2, 3;
  mapa.shared::cluster.u32 %r3, %at, %r2; mapa.shared::cluster.u32 %r4, %bar, %r2; add.u32 %r5, %at, 1024;
  @%zero cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3], [%r5], 128, [%r4];
  {WAIT}
  {READ_TILE}
  {LEAVE}"""
    right(body, [np.zeros(32, np.int32), out], grid=4, cluster=4, schedule=schedule)
    np.testing.assert_array_equal(out, [100 * ((b - 1) % 4) + np.arange(32) for b in range(4)])


@SCHEDULES
@pytest.mark.parametrize(("form", "size", "values_"), [
    ("b32", 4, "%t"), ("b64", 8, "%d1"), ("v2.b32", 8, "{%t, %r8}"), ("v4.b32", 16, "{%t, %r8, %t, %r8}"),
    ("v2.b64", 16, "{%d1, %d2}"),
])  # fmt: skip
def test_remote_stores_complete_on_the_receivers_barrier(schedule, form, size, values_):
    out = np.zeros((2, 32, 4), np.int32)
    body = f"""
  add.u32 %r8, %t, 1000; cvt.u64.u32 %d1, %t; cvt.u64.u32 %d2, %r8;
  @%zero mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {32 * size};
  xor.b32 %r2, %rank, 1; mad.lo.u32 %r6, %t, 16, %at;
  mapa.shared::cluster.u32 %r3, %r6, %r2; mapa.shared::cluster.u32 %r4, %bar, %r2;
  st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.{form} [%r3], {values_}, [%r4];
  {WAIT}
  ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%r6];
  mad.wide.u32 %d9, %block, 512, %pb; mad.wide.u32 %d9, %t, 16, %d9;
  st.global.v4.b32 [%d9], {{%r10, %r11, %r12, %r13}};
  {LEAVE}"""
    right(body, [np.zeros(32, np.int32), out], grid=2, cluster=2, schedule=schedule)
    t = np.arange(32)
    words = {"b32": [t], "b64": [t, 0 * t], "v2.b32": [t, t + 1000], "v4.b32": [t, t + 1000, t, t + 1000],
             "v2.b64": [t, 0 * t, t + 1000, 0 * t]}[form]  # fmt: skip
    for i, word in enumerate(words):
        np.testing.assert_array_equal(out[:, :, i], [word, word])


REMOTE = {
    ("add", "u32"): lambda x: x.sum(), ("add", "s32"): lambda x: x.sum(), ("add", "u64"): lambda x: x.sum(),
    ("min", "u32"): lambda x: min(x.min(), 40), ("max", "s32"): lambda x: max(x.max(), 40),
    ("and", "b32"): lambda x: 40 & np.bitwise_and.reduce(x), ("or", "b32"): lambda x: 40 | np.bitwise_or.reduce(x),
    ("xor", "b32"): lambda x: 40 ^ np.bitwise_xor.reduce(x),
    ("inc", "u32"): None, ("dec", "u32"): None,
}  # fmt: skip


@pytest.mark.parametrize(("operation", "kind"), REMOTE)
def test_remote_reductions(operation, kind):
    out, bits = np.zeros(2, np.int64), int(kind[1:])
    register = "%d1" if bits == 64 else "%r8"
    body = f"""
  add.u32 %r8, %t, 5; cvt.u64.u32 %d1, %r8; mov.u64 %d3, 40;
  @%zero st.shared.b64 [%at], %d3;
  @%zero mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {32 * bits // 8};
  {LEAVE}
  xor.b32 %r2, %rank, 1; mapa.shared::cluster.u32 %r3, %at, %r2; mapa.shared::cluster.u32 %r4, %bar, %r2;
  red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{operation}.{kind} [%r3], {register}, [%r4];
  {WAIT}
  ld.shared.b64 %d4, [%at]; mad.wide.u32 %d9, %block, 8, %pb;
  @%zero st.global.b64 [%d9], %d4;
  {LEAVE}"""
    right(body, [np.zeros(32, np.int32), out], grid=2, cluster=2)
    x = np.arange(5, 37)
    if REMOTE[operation, kind] is not None:
        want = REMOTE[operation, kind](x) + (40 if operation == "add" else 0)
    else:
        want = 40
        for v in x:
            want = (
                (0 if want >= v else want + 1)
                if operation == "inc"
                else (v if want == 0 or want > v else want - 1)
            )
    assert (out == want).all()


SPANS = {
    ("add", "u32"): np.add, ("add", "s32"): np.add, ("add", "u64"): np.add, ("add", "f32"): np.add,
    ("add", "f64"): np.add, ("add.noftz", "f16"): np.add, ("min", "s64"): np.minimum, ("min", "f16"): np.minimum,
    ("max", "u32"): np.maximum, ("max", "s32"): np.maximum, ("max", "f16"): np.maximum,
    ("and", "b32"): np.bitwise_and, ("or", "b64"): np.bitwise_or, ("xor", "b32"): np.bitwise_xor,
}  # fmt: skip
NUMPY = {"u32": "u4", "s32": "i4", "u64": "u8", "s64": "i8", "f16": "f2", "f32": "f4", "f64": "f8", "b32": "u4",
         "b64": "u8"}  # fmt: skip


@pytest.mark.parametrize(("operation", "kind"), SPANS)
def test_bulk_reductions_of_spans_to_global_memory(operation, kind):
    rng = np.random.default_rng(1)
    dtype = np.dtype(NUMPY[kind])
    source, target = (rng.integers(0, 100, 128 // dtype.itemsize).astype(dtype) for _ in range(2))
    want = SPANS[operation, kind](target, source)
    body = f"""
  ld.global.b32 %r1, [%da]; st.shared.b32 [%mine], %r1; fence.proxy.async.shared::cta; bar.sync 0;
  @%zero cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.{kind} [%pb], [%at], 128;
  @%zero cp.async.bulk.commit_group;
  @%zero cp.async.bulk.wait_group 0;"""
    result = right(body, [source, target])
    np.testing.assert_array_equal(target, want)
    assert result.counters.bulk_store_bytes == 128


def test_bulk_reductions_to_shared_memory_of_the_cluster():
    out = np.zeros((2, 32), np.uint32)
    body = f"""
  st.shared.b32 [%mine], %t; add.u32 %r1, %t, 7; st.shared.b32 [%mine+1024], %r1;
  @%zero mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
  fence.proxy.async.shared::cta; {LEAVE}
  xor.b32 %r2, %rank, 1; mapa.shared::cluster.u32 %r3, %at, %r2; mapa.shared::cluster.u32 %r4, %bar, %r2;
  add.u32 %r5, %at, 1024;
  @%zero cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r3], [%r5], 128, [%r4];
  {WAIT}
  {READ_TILE}
  {LEAVE}"""
    right(body, [np.zeros(32, np.int32), out], grid=2, cluster=2)
    np.testing.assert_array_equal(out, [2 * np.arange(32) + 7] * 2)


def test_wait_group_lets_the_newest_groups_be():
    """After wait_group 1 the first of two groups has landed and the second has not."""
    out = np.zeros((4, 32), np.int32)
    body = """
  st.shared.b32 [%mine], %t; fence.proxy.async.shared::cta; bar.sync 0;
  add.u64 %d1, %pb, 128; add.u64 %d2, %pb, 256; add.u64 %d3, %pb, 384;
  @%zero cp.async.bulk.global.shared::cta.bulk_group [%pb], [%at], 128;
  @%zero cp.async.bulk.commit_group;
  @%zero cp.async.bulk.global.shared::cta.bulk_group [%d1], [%at], 128;
  @%zero cp.async.bulk.commit_group;
  @%zero cp.async.bulk.wait_group 1;
  bar.sync 0;
  ld.global.b32 %r1, [%db+4]; ld.global.b32 %r2, [%db+132];
  st.global.b32 [%db+256], %r1; st.global.b32 [%db+384], %r2;"""
    right(body, [np.zeros(32, np.int32), out])
    np.testing.assert_array_equal(out[0], np.arange(32))
    np.testing.assert_array_equal(out[1], np.arange(32))  # landed when the block ended
    assert out[2, 0] == 1
    assert out[3, 0] == 0


def test_a_source_overwritten_before_the_wait_shows():
    out = np.zeros(32, np.int32)
    body = """
  st.shared.b32 [%mine], %t; fence.proxy.async.shared::cta; bar.sync 0;
  @%zero cp.async.bulk.global.shared::cta.bulk_group [%pb], [%at], 128;
  @%zero cp.async.bulk.commit_group;
  bar.sync 0; mov.b32 %r1, -1; st.shared.b32 [%mine], %r1; bar.sync 0;
  @%zero cp.async.bulk.wait_group.read 0;"""
    right(body, [np.zeros(32, np.int32), out])
    assert (out == -1).all()


def test_byte_masks_and_fills():
    """cp_mask writes the bytes of each 16 that the mask names; st.bulk writes zeros (sm_100)."""
    out = np.full(128, 9, np.uint8)
    body = """
  mov.b32 %r1, 0x01010101; st.shared.b32 [%mine], %r1; mov.u16 %h1, 0x8003; mov.u64 %d1, 64; bar.sync 0;
  add.u32 %r2, %at, 64;
  @%zero st.bulk.weak.shared::cta [%r2], %d1, 0;
  fence.proxy.async.shared::cta;
  @%zero cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%pb], [%at], 128, %h1;
  @%zero cp.async.bulk.commit_group;
  @%zero cp.async.bulk.wait_group 0;"""
    right(body, [np.zeros(32, np.int32), out], arch="sm_100a")
    want = np.full((8, 16), 9)
    want[:, [0, 1, 15]] = [[1]] * 4 + [[0]] * 4
    np.testing.assert_array_equal(out, want.reshape(-1))


def test_prefetches_move_nothing_and_are_checked():
    source = np.zeros((8, 32), np.int32)
    body = """
  @%zero cp.async.bulk.prefetch.L2.global [%pa], 128;
  @%zero cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%map, {0, 4}];
  @%zero prefetch.tensormap [%map];"""
    raw = lambda device: map_of(device[0], "int32", (8, 32)).encode(device[0].ctypes.data)  # noqa: E731
    result = right(body, [source], raw_map=raw)
    assert result.counters.bulk_load_requests == 2
    fault = run("@%zero cp.async.bulk.prefetch.L2.global [%pa], 4096;", [source]).fault
    assert fault.kind == "out-of-bounds"


# ------------------------------------------------------------------------------- tensor maps

REPLACED = """
  mov.b32 %r1, 0; st.shared.b32 [%mine], %r1; bar.sync 0; cvt.u64.u32 %d1, %at;
  mov.b32 %r2, {rows}; mov.b32 %r3, {columns}; mov.u64 %d2, {pitch}; mov.b32 %r4, 1; mov.b32 %r5, {box};
  @%zero tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%d1], %pa;
  @%zero tensormap.replace.tile.rank.shared::cta.b1024.b32 [%d1], 1;
  @%zero tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%d1], 0, 32;
  @%zero tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%d1], 1, %r5;
  @%zero tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%d1], 0, %r3;
  @%zero tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%d1], 1, %r2;
  @%zero tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%d1], 0, %d2;
  @%zero tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%d1], 0, %r4;
  @%zero tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%d1], 1, %r4;
  @%zero tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%d1], {type};
  @%zero tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%d1], 0;
  @%zero tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%d1], {swizzle};
  @%zero tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%d1], {fill};
  bar.warp.sync -1;
"""


@pytest.mark.parametrize("swizzle", [0, 128])
@pytest.mark.parametrize("fill", ["zero", "nan"])
def test_a_map_made_by_replace_is_the_hosts_map(swizzle, fill):
    """Made in shared memory, copied to global memory by cp_fenceproxy, read back byte by byte."""
    source, out = np.zeros((20, 48), np.float32), np.zeros(32, np.uint32)
    body = REPLACED.format(rows=20, columns=48, pitch=192, box=4, type=7, swizzle={0: 0, 128: 3}[swizzle],
                           fill=int(fill == "nan")) + """
  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%pb], [%d1], 128;
  fence.proxy.tensormap::generic.acquire.gpu [%pb], 128;
  mov.u64 %d3, %pa; @%zero st.global.b64 [%pc], %d3;"""  # fmt: skip
    address = np.zeros(1, np.uint64)
    right(body, [source, out, address])
    want = map_of(source, "float32", (4, 32), swizzle=swizzle, fill=fill).encode(int(address[0]))
    assert out.tobytes() == want


def test_a_map_made_by_replace_copies():
    source, out = values((20, 48), "float32"), np.zeros((4, 32), np.float32)
    body = REPLACED.format(rows=20, columns=48, pitch=192, box=4, type=7, swizzle=0, fill=0) + f"""
  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%pc], [%d1], 128;
  fence.proxy.tensormap::generic.acquire.gpu [%pc], 128;
  mov.b32 %r8, 17;
  @%zero mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
  @%zero cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%at], [%pc, {{16, %r8}}], [%bar];
  {WAIT}
  ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%mine];
  mad.lo.u32 %r6, %t, 16, %at; ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%r6];
  mad.wide.u32 %d9, %t, 16, %pb; st.global.v4.b32 [%d9], {{%r10, %r11, %r12, %r13}};"""  # fmt: skip
    body = body.replace("  ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%mine];\n", "")
    right(body, [source, out, np.zeros(32, np.uint32)])
    want = np.zeros((4, 32), np.float32)
    want[:3] = source[17:, 16:48]
    np.testing.assert_array_equal(out, want)


# --------------------------------------------------------------------------------- mbarriers


def test_states_drops_and_transaction_counts():
    out = np.zeros(8, np.int32)
    body = """
  @!%zero bra END;
  mbarrier.init.shared::cta.b64 [%at], 3;
  mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %d1, [%at], 1;
  mbarrier.pending_count.b64 %r1, %d1; st.global.b32 [%pb], %r1;
  mbarrier.arrive_drop.shared::cta.b64 %d2, [%at];
  mbarrier.test_wait.shared::cta.b64 %p, [%at], %d2; selp.b32 %r2, 1, 0, %p; st.global.b32 [%pb+4], %r2;
  mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%at], 48;
  mbarrier.arrive.shared::cta.b64 %d3, [%at];
  mbarrier.test_wait.shared::cta.b64 %p, [%at], %d3; selp.b32 %r2, 1, 0, %p; st.global.b32 [%pb+8], %r2;
  mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%at], 48;
  mbarrier.test_wait.shared::cta.b64 %p, [%at], %d3; selp.b32 %r2, 1, 0, %p; st.global.b32 [%pb+12], %r2;
  mbarrier.arrive.shared::cta.b64 %d4, [%at]; mbarrier.pending_count.b64 %r1, %d4; st.global.b32 [%pb+16], %r1;
  mbarrier.arrive_drop.expect_tx.shared::cta.b64 %d5, [%at], 16;
  mbarrier.test_wait.parity.shared::cta.b64 %p, [%at], 1; selp.b32 %r2, 1, 0, %p; st.global.b32 [%pb+20], %r2;
  mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%at], 16;
  mbarrier.try_wait.parity.shared::cta.b64 %p, [%at], 1, 20; selp.b32 %r2, 1, 0, %p; st.global.b32 [%pb+24], %r2;
  mbarrier.arrive.shared::cta.b64 %d6, [%at]; mbarrier.pending_count.b64 %r1, %d6; st.global.b32 [%pb+28], %r1;
  mbarrier.inval.shared::cta.b64 [%at];
END:"""
    right(body, [np.zeros(32, np.int32), out])
    # two of three left; after a drop one; the phase waits for 48 bytes; then two a phase; then one
    assert out.tolist() == [3, 0, 0, 1, 2, 0, 1, 1]


def test_arrivals_from_another_block():
    out = np.zeros(32, np.int32)
    body = f"""
  setp.eq.u32 %q, %rank, 0; and.pred %q, %q, %zero;
  @%q mbarrier.init.shared::cta.b64 [bar], 32;
  {LEAVE}
  setp.eq.u32 %q, %rank, 1; mov.b32 %r2, 0;
  mapa.shared::cluster.u32 %r4, %bar, %r2; mapa.shared::cluster.u32 %r3, %mine, %r2;
  @!%q bra ASLEEP;
  st.shared::cluster.b32 [%r3], %t;
  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
  bra END;
ASLEEP: {WAIT}
  ld.shared.b32 %r9, [%mine]; st.global.b32 [%db], %r9;
END:
  {LEAVE}"""
    right(body, [np.zeros(32, np.int32), out], grid=2, cluster=2)
    np.testing.assert_array_equal(out, np.arange(32))


# --------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(("text", "why"), [
    ("multimem.red.relaxed.gpu.global.add.u32 [%pa], %r1;", "several GPUs"),
    ("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2"
     " [%at], [%map, {0, 0}], [%bar];", "cta_group::2"),
    ("cp.reduce.async.bulk.global.shared::cta.bulk_group.inc.s32 [%pa], [%at], 128;", "inc"),
    ("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.s64 [%at], %d1, [%bar];", "add"),
])  # fmt: skip
def test_refusals_name_instruction_and_line(text, why):
    ptx = FRAME.format(body=text, arch="sm_90a")
    line = next(i for i, row in enumerate(ptx.splitlines(), 1) if text[:20] in row)
    with pytest.raises(
        UnsupportedInstruction, match=rf"{text.split('.')[0]}.*{why}.*PTX line {line}"
    ):
        vgpu.load(ptx).prepare("kernel")


def test_a_whole_warp_that_issues_one_copy_is_no_race():
    """CuTe's epilogues do not elect a lane: the same copy 32 times writes the same values."""
    out = np.zeros(32, np.int32)
    body = """
  st.shared.b32 [%mine], %t; fence.proxy.async.shared::cta; bar.sync 0;
  cp.async.bulk.global.shared::cta.bulk_group [%pb], [%at], 128;
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    result = right(body, [np.zeros(32, np.int32), out], checks=vgpu.Checks.all())
    np.testing.assert_array_equal(out, np.arange(32))
    assert not result.findings
