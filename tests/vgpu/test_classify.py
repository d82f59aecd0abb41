"""Each instruction counts on the right pipe, as the right operation and access."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from types import SimpleNamespace

import pytest

from warpsmith.errors import FAULT_KINDS
from warpsmith.vgpu.classify import PIPES, access, classify, operation, pipe, tensor_work
from warpsmith.vgpu.faults import describe
from warpsmith.vgpu.memory import Memory
from warpsmith.vgpu.ptx.ir import Guard, Instruction, Register

pytestmark = pytest.mark.plain


def ins(name: str, guard=None) -> Instruction:
    opcode, *modifiers = name.split(".")
    return Instruction(opcode, tuple(modifiers), (), guard)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("add.s32", "int"),
        ("mad.wide.u32", "int"),
        ("setp.lt.f32", "int"),  # comparisons, minima and selects run beside the integers
        ("min.f32", "int"),
        ("fma.rn.f32", "fp32"),
        ("add.rn.f32x2", "fp32"),
        ("fma.rn.f64", "fp64"),
        ("setp.lt.f64", "fp64"),
        ("fma.rn.f16x2", "fp16"),
        ("mul.bf16", "fp16"),
        ("ex2.approx.f32", "sfu"),
        ("popc.b32", "sfu"),
        ("cvt.rn.f32.s32", "sfu"),
        ("cvt.rzi.s32.f32", "sfu"),
        ("cvt.rn.f16.f32", "int"),
        ("cvt.u64.u32", "int"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "tensor"),
        ("ld.global.f32", "memory"),
        ("shfl.sync.bfly.b32", "memory"),
        ("bra", "control"),
        ("bar.sync", "control"),
    ],
)
def test_pipes(name, where):
    assert PIPES[pipe(ins(name))] == where


@pytest.mark.parametrize("name", ["mov.u32", "cvta.to.global.u64", "ld.param.u64"])
def test_what_machine_code_does_not_have_uses_no_pipe(name):
    assert pipe(ins(name)) == -1


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("add.f32", "fadd"),
        ("sub.rn.f32", "fadd"),
        ("mul.f64", "dmul"),
        ("fma.rn.f32", "ffma"),
        ("mad.rn.f32", "ffma"),
        ("fma.rn.f16", "hfma"),
        ("fma.rn.bf16x2", "hfma2"),
        ("add.rn.f32x2", "fadd2"),
        ("add.s32", ""),
        ("div.rn.f32", ""),
        ("min.f32", ""),
    ],
)
def test_operations(name, kind):
    assert operation(ins(name)) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ld.global.nc.v4.f32", "global_load"),
        ("st.global.f32", "global_store"),
        ("atom.global.add.u32", "global_atomic"),
        ("red.shared.add.u32", "shared_atomic"),
        ("ld.shared::cta.u32", "shared_load"),
        ("ld.local.u32", "local_load"),
        ("ld.u32", "generic_load"),
        ("ld.volatile.u32", "generic_load"),
        ("ld.param.u32", "none"),
        ("ld.const.f32", "none"),
        ("cp.async.cg.shared.global", "async_copy"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "shared_load"),
        ("stmatrix.sync.aligned.m8n8.x4.shared.b16", "shared_store"),
        ("bar.sync", "barrier"),
        ("bar.warp.sync", "none"),
        ("barrier.sync.aligned", "barrier"),
        ("bra.uni", "branch"),
        ("add.s32", "none"),
    ],
)
def test_accesses(name, kind):
    assert access(ins(name)) == kind


@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", ("fp16", 2 * 16 * 8 * 16)),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", ("tf32", 2 * 16 * 8 * 8)),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", ("int8", 2 * 16 * 8 * 32)),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", ("fp8", 2 * 16 * 8 * 32)),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", ("fp64", 2 * 8 * 8 * 4)),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", ("fp16", 2 * 16**3)),
        ("wmma.load.a.sync.aligned.row.m16n16k16.f16", None),
        ("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", ("bf16", 2 * 64 * 128 * 16 / 4)),
        ("wgmma.fence.sync.aligned", None),
        ("fma.rn.f32", None),
    ],
)
def test_tensor_work_of_one_warp(name, work):
    assert tensor_work(ins(name)) == work


def test_arrays_follow_the_order():
    guard = Guard(Register("%p1", "pred"))
    found = classify(
        [ins("fma.rn.f32"), ins("bra", guard), ins("wgmma.mma_async.m64n8k16.f32.f16.f16")]
    )
    assert found.guarded.tolist() == [False, True, False]
    assert found.operations["ffma"].tolist() == [0]
    assert found.tensor["fp16"].tolist() == [0, 0, 4096]
    assert found.warpgroup.tolist() == [0, 0, 4096]


@pytest.mark.parametrize("kind", FAULT_KINDS)
@pytest.mark.parametrize("space", [1, 2])
def test_every_kind_of_fault_has_a_sentence(kind, space):
    raw = SimpleNamespace(
        kind=FAULT_KINDS.index(kind) + 1, site=0, space=space, is_store=1, bytes=4, lanes=3,
        block=(1, 0, 0), thread=(2, 0, 0), address=1 << 40, limit=64, text=b"1:2:barrier:3:32\0junk",
    )  # fmt: skip
    found = describe(raw, Memory(), "k")
    assert found.kind == kind
    assert found.message.startswith("thread (2,0,0) of block (1,0,0)")
    assert len(found.message) > 50
    assert found.error().kind == kind
