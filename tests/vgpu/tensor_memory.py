"""Run one tcgen05 instruction between a tensor memory and a shared memory that a test fills and reads."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
from launching import Bench

KERNEL = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 tensor, .param .u64 shared, .param .u64 out, .param .u64 words)
{{
  .reg .pred %p<10>; .reg .b16 %h<4>; .reg .b32 %r<300>; .reg .b64 %rd<20>;
  .shared .align 1024 .b8 memory[{shared_bytes}];
  .shared .align 8 .b64 barrier;
  .shared .align 4 .b32 slot;
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 31;
  shr.u32 %r3, %r1, 5;
  mov.u32 %r4, %cluster_ctarank;
  setp.eq.u32 %p1, %r3, 0;
  setp.eq.u32 %p2, %r1, 0;
  ld.param.u64 %rd1, [tensor];
  ld.param.u64 %rd2, [shared];
  ld.param.u64 %rd3, [out];
  ld.param.u64 %rd4, [words];
  mad.wide.u32 %rd1, %r4, {tensor_bytes}, %rd1;
  mad.wide.u32 %rd2, %r4, {shared_bytes}, %rd2;
  mad.wide.u32 %rd3, %r4, {tensor_bytes}, %rd3;
  mad.wide.u32 %rd1, %r1, {line_bytes}, %rd1;
  mad.wide.u32 %rd3, %r1, {line_bytes}, %rd3;
  mov.u32 %r10, memory;
  shl.b32 %r5, %r1, 2;
COPY:
  setp.ge.u32 %p3, %r5, {shared_bytes};
  @%p3 bra COPIED;
  cvt.u64.u32 %rd5, %r5;
  add.u64 %rd5, %rd5, %rd2;
  ld.global.u32 %r6, [%rd5];
  add.u32 %r7, %r10, %r5;
  st.shared.u32 [%r7], %r6;
  add.u32 %r5, %r5, 512;
  bra COPY;
COPIED:
  @%p2 mbarrier.init.shared::cta.b64 [barrier], 1;
  @%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], {columns};
  @%p1 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
  bar.sync 0;
  ld.shared.u32 %r8, [slot];
  shl.b32 %r9, %r3, 21;
  add.u32 %r9, %r9, %r8;
{fill}
  tcgen05.wait::st.sync.aligned;
  {meet}
{body}
  {meet}
{dump}
  tcgen05.wait::ld.sync.aligned;
  bar.sync 0;
  @%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, {columns};
  ret;
}}
"""
ISSUE = """  setp.eq.and.u32 %p6, %r4, {rank}, %p2;
  @!%p6 bra ISSUED;
{statements}
  tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster.b64 [barrier];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p4, [barrier], 0;
  @!%p4 bra WAIT;
ISSUED:"""


def text_of(body: str, columns: int, shared_bytes: int, blocks: int = 1) -> str:
    """The kernel around `body`: %r8 is the tensor memory, %r9 the warp's part of it, %r10 the shared
    memory, %r4 the block's rank, %p2 the first thread, %rd4 room for words."""
    lines = range(columns)
    fill = "\n".join(
        f"  ld.global.u32 %r20, [%rd1+{4 * c}];\n"
        f"  tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9+{c}], {{%r20}};" for c in lines)  # fmt: skip
    dump = "\n".join(
        f"  tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r20}}, [%r9+{c}];\n"
        f"  st.global.u32 [%rd3+{4 * c}], %r20;" for c in lines)  # fmt: skip
    cluster = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    return KERNEL.format(
        fill=fill, dump=dump, body=body, columns=columns, shared_bytes=shared_bytes,
        tensor_bytes=128 * columns * 4, line_bytes=columns * 4, meet=cluster if blocks > 1 else "bar.sync 0;",
    )  # fmt: skip


def issue(statements: str, pair: bool = False) -> str:
    """Statements of the first thread (of the first block of a pair), committed and waited for."""
    return ISSUE.format(statements=statements, group=2 if pair else 1, rank=0 if pair else "%r4")


def run(body, tensor, shared, words=0, *, right=True):
    """Run a body on tensor [blocks, 128, columns] uint32 and shared [blocks, bytes] uint8.

    Gives the tensor memory afterwards and the words that the body wrote at %rd4, or with right=False
    the result of the launch."""
    blocks, _, columns = tensor.shape
    out, extra = np.zeros_like(tensor), np.zeros(max(words, 1), np.uint32)
    bench = Bench(text_of(body, columns, shared.shape[1], blocks))
    launch = bench.right if right else bench
    result = launch("k", (blocks,), (128,), tensor, shared, out, extra, cluster=(blocks, 1, 1))
    return (out, extra) if right else result
