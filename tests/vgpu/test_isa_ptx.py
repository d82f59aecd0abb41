"""PTX spellings that meet the translator: immediates, pairs, sinks, carries, guards, wide registers."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from launching import Bench

from warpsmith.errors import UnsupportedInstruction

pytestmark = pytest.mark.virtual

# lane number in %r1, %p1 where it is above 7, result in %r9
KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .b64 %rd<4>; .reg .b32 %r<20>; .reg .pred %p<9>; .reg .b16 %h<5>; .reg .f32 %f<9>;
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
setp.gt.u32 %p1, %r1, 7;
BODY
mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r9; ret; }
"""
L = np.arange(32)
ONES = 0xFFFFFFFF
_IGNORE = """.shared .b32 cell[32];
mov.u32 %r3, cell; mad.lo.u32 %r2, %r1, 4, %r3; st.shared.u32 [%r2], 7;
mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], 3;
cp.async.ca.shared.global [%r2], [%rd3], 4, P;
cp.async.wait_all; ld.shared.u32 %r9, [%r2];"""
CASES = {
    "@%p1 vote.sync.ballot.b32 %r9, %p1, 0xffffff00; @!%p1 mov.u32 %r9, 5;": np.where(L > 7, 0xFFFFFF00, 5),
    "vote.sync.ballot.b32 %r9, !%p1, -1;": 0xFF,
    "mov.u32 %r9, 5; @%p1 vote.sync.ballot.b32 %r9, !%p1, 0xffffff00;": np.where(L > 7, 0, 5),
    "mov.u32 %r9, 5; @!%p1 vote.sync.ballot.b32 %r9, !%p1, 0xff;": np.where(L > 7, 5, 0xFF),
    "vote.sync.any.pred %p2, !%p1, -1; selp.u32 %r9, 1, 0, %p2;": 1,
    "vote.sync.all.pred %p2, !%p1, -1; selp.u32 %r9, 1, 0, %p2;": 0,
    "vote.sync.uni.pred %p2, !%p1, -1; selp.u32 %r9, 1, 0, %p2;": 0,
    "vote.ballot.b32 %r9, !%p1;": 0xFF,
    "setp.lt.and.u32 %p2|%p3, %r1, 20, !%p1; selp.u32 %r9, 3, 4, %p2; @%p3 mov.u32 %r9, 9;": np.where(L > 7, 4, 3),
    "setp.lt.u32 %p2|%p3, %r1, 20; selp.u32 %r9, 3, 4, %p2; @%p3 mov.u32 %r9, 9;": np.where(L < 20, 3, 9),
    "lop3.b32 %r9, %r1, 3, 5, 0x96;": L ^ 3 ^ 5,
    "lop3.or.b32 %r9|%p2, %r1, 3, 5, 0x80, %p1; selp.u32 %r9, %r9, 77, %p2;": np.where((L & 1) | (L > 7), L & 1, 77),
    "shfl.sync.bfly.b32 %r9|%p2, %r1, 3, 0x1f, -1;": L ^ 3,
    "shfl.sync.up.b32 %r9|%p2, %r1, 2, 0, -1; @!%p2 mov.u32 %r9, 99;": np.where(L < 2, 99, L - 2),
    "add.cc.u32 %r2, %r1, 0xfffffff0; addc.u32 %r9, 0, 0;": L >= 16,
    "sub.cc.u32 %r2, %r1, 9; addc.u32 %r9, 0, 0;": L >= 9,
    "add.cc.u32 %r2, %r1, 0xfffffff0; subc.u32 %r9, 0, 0;": np.where(L >= 16, 0, ONES),
    "sub.cc.u32 %r2, %r1, 9; subc.cc.u32 %r9, 0, 0;": np.where(L < 9, ONES, 0),
    "mad.lo.cc.u32 %r2, %r1, 0x10000000, 0x80000000; madc.hi.u32 %r9, %r1, 0x10000000, 0;": (L * 0x10000000 + 0x80000000) >> 32,
    "elect.sync _|%p2, -1; selp.u32 %r9, 1, 0, %p2;": L == 0,
    "match.all.sync.b32 %r9|%p2, 5, -1;": ONES,
    "redux.sync.add.s32 %r9, %r1, -1;": 496,
    "activemask.b32 %r9; @%p1 activemask.b32 %r9;": np.where(L > 7, 0xFFFFFF00, ONES),
    "vote.all.pred %p2, %p1; selp.u32 %r9, 1, 0, %p2;": 0,
    "cvt.rn.f32.u32 %f1, %r1; fma.rn.f32 %f3, %f1, 2.0, 0f3F800000; cvt.rzi.u32.f32 %r9, %f3;": 2 * L + 1,
    "mov.b32 {%h1, %h2}, %r1; add.s16 %h3, %h1, -3; cvt.s32.s16 %r9, %h3;": L - 3,
    "cvt.u16.u32 %h1, %r1; cvt.s32.s8 %r9, %h1;": L,
    "sub.s32 %r2, 0, %r1; cvt.s64.s32 %rd2, %r2; shr.s64 %rd2, %rd2, 1; cvt.u32.u64 %r9, %rd2;": -((L + 1) // 2),
    "prmt.b32 %r9, %r1, %r1, 0x0123;": L << 24,
    "mul24.lo.s32 %r9, %r1, -2;": -2 * L,
    "mad.lo.s32 %r9, %r1, -3, 7;": 7 - 3 * L,
    "min.s32 %r9, %r1, -5;": -5,
    "div.s32 %r9, %r1, -3;": -(L // 3),
    "rem.u32 %r9, %r1, 5;": L % 5,
    "set.gt.u32.u32 %r9, %r1, 4;": np.where(L > 4, ONES, 0),
    "slct.u32.s32 %r9, 1, 2, -1;": 2,
    "shf.l.wrap.b32 %r9, %r1, %r1, 33;": L * 2,
    "bfi.b32 %r9, %r1, 0xffffffff, 4, 8;": 0xFFFFF00F | L << 4,
    "dp4a.u32.u32 %r9, %r1, 0x01010101, 5;": L + 5,
    "copysign.f32 %f1, 0fBF800000, 0f40000000; mov.b32 %r9, %f1;": 0xC0000000,
    # the zeros of ignored sources overwrite the 7 in shared memory
    _IGNORE.replace("P", "%p1"): np.where(L > 7, 0, 3),
    _IGNORE.replace("P", "!%p1"): np.where(L > 7, 3, 0),
    "wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mov.u32 %r9, 1;": 1,
}  # fmt: skip


@pytest.mark.parametrize("body", CASES)
def test_spelling(body):
    out = np.zeros(32, np.uint32)
    Bench(KERNEL.replace("BODY", body)).right("k", (1,), (32,), out)
    want = np.broadcast_to(np.asarray(CASES[body], np.int64) & ONES, 32)
    assert np.array_equal(out, want.astype(np.uint32))


@pytest.mark.parametrize("body", [
    "vadd.s64.s32.s32 %r9, %r1, %r1;",
    "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%r2,%r3}, {%r2,%r3}, {%r2,%r3}, {%r2,%r3};",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r1,%r1,%r1}, {%r1,%r1}, {%f1,%f2,%f3,%f4};",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r1}, {%r1,%r1}, {%f1,%f2,%f3,%f4};",
    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [%r2];",
    "redux.sync.add.f32 %r9, %r1, -1;",
    "shfl.sync.sideways.b32 %r9, %r1, 3, 0x1f, -1;",
])  # fmt: skip
def test_what_is_not_there_is_refused_with_its_line(body):
    with pytest.raises(UnsupportedInstruction) as caught:
        Bench(KERNEL.replace("BODY", body)).right("k", (1,), (32,), np.zeros(32, np.uint32))
    assert body.split()[0] in str(caught.value)
    assert caught.value.line == 9
