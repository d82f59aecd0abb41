"""clusterlaunchcontrol: blocks that take the work of blocks that have not started; mov.b128."""
# SPDX-License-Identifier: Apache-2.0

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from launching import Bench

pytestmark = pytest.mark.virtual

STEALING = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry steal(.param .u64 done, .param .u64 by)
{
  .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<10>; .reg .b128 %q1;
  .shared .align 16 .b8 answer[16];
  .shared .align 8 .b64 barrier;
  ld.param.u64 %rd1, [done];
  ld.param.u64 %rd2, [by];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ctaid.y;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %nctaid.x;
  mov.u32 %r12, answer;
  mov.u32 %r13, barrier;
  mad.lo.u32 %r5, %r2, %r4, %r1;
  setp.eq.u32 %p1, %r3, 0;
  @%p1 mbarrier.init.shared::cta.b64 [%r13], 1;
  mov.u32 %r6, 0;
  bar.sync 0;
NEXT:
  @%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r12], [%r13];
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13], 16;
  mad.lo.u32 %r7, %r2, %r4, %r1;
  mul.wide.u32 %rd3, %r7, 4;
  add.u64 %rd4, %rd1, %rd3;
  add.u64 %rd5, %rd2, %rd3;
  @%p1 red.global.add.u32 [%rd4], 1;
  @%p1 st.global.u32 [%rd5], %r5;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r13], %r6;
  @!%p2 bra WAIT;
  xor.b32 %r6, %r6, 1;
  ld.shared.b128 %q1, [%r12];
  bar.sync 0;
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q1;
  @!%p3 ret;
  clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r1, %r2, %r8, _}, %q1;
  clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r9, %q1;
  setp.ne.u32 %p3, %r1, %r9;
  @%p3 trap;
  bra NEXT;
}
"""


@pytest.mark.parametrize("schedule", ["default", "reverse", "random"])
def test_every_block_is_done_once_though_most_are_taken(schedule):
    done, by = np.zeros(15, np.uint32), np.full(15, 99, np.uint32)
    Bench(STEALING).right("steal", (5, 3), (64,), done, by, schedule=schedule, seed=3)
    assert np.array_equal(done, np.ones(15))
    assert len(set(by)) == 1  # the first block to run found all others still waiting


WIDE = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry wide(.param .u64 out)
{
  .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .b128 %q<3>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mad.wide.u32 %rd1, %r1, 32, %rd1;
  cvt.u64.u32 %rd2, %r1;
  not.b64 %rd3, %rd2;
  mov.b128 %q1, {%rd2, %rd3};
  mov.b128 %q2, %q1;
  mov.b128 {%rd4, %rd5}, %q2;
  st.global.v2.u64 [%rd1], {%rd5, %rd4};
  st.global.b128 [%rd1+16], %q2;
  ret;
}
"""


def test_registers_of_128_bits():
    out = np.zeros((48, 4), np.uint64)
    Bench(WIDE).right("wide", (1,), (48,), out)
    i = np.arange(48, dtype=np.uint64)
    assert np.array_equal(out, np.stack([~i, i, i, ~i], 1))
