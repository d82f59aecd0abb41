"""Every opcode of PTX with typical spellings: what the virtual GPU takes, and what it refuses and why.

An entry is a line of PTX for one architecture. Registers are %p (pred), %h (b16), %r (b32), %d
(b64), %q (b128), %f (f32), %g (f64), numbered from 0 to 31; `smem`, `gmem`, `cmem`, `lmem` are
variables, `out` is the kernel's only parameter, `L` a label, `T` a table of branch targets.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

SM_80, SM_90, SM_90A, SM_100, SM_100A = "sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a"

SHELL = """.version 9.0
.target {arch}
.address_size 64
.global .align 128 .b8 gmem[1024];
.const .align 128 .b8 cmem[1024];
.global .texref tref;
.global .surfref sref;
.func (.param .b32 r) callee (.param .b32 a) {{ .reg .b32 %x; ld.param.b32 %x, [a]; st.param.b32 [r], %x; ret; }}
.visible .entry k(.param .u64 out) {{
.reg .pred %p<32>; .reg .b16 %h<32>; .reg .b32 %r<32>; .reg .b64 %d<32>; .reg .b128 %q<8>;
.reg .f32 %f<32>; .reg .f64 %g<32>;
.shared .align 128 .b8 smem[1024];
.local .align 16 .b8 lmem[64];
{lines}
L:
ret;
}}
"""

# titles of groups; opcode, architecture, spellings separated by `;`
TAKEN: list[str | tuple[str, str, str]] = [
    "Control",
    ("bra", SM_80, "@%p0 bra L; bra.uni L; @!%p1 bra.uni L"),
    ("brx", SM_80, "T: .branchtargets L; brx.idx %r0, T; brx.idx.uni %r0, T"),
    ("call", SM_80, "{ .param .b32 a0; .param .b32 r0; st.param.b32 [a0], %r1; "
     "call.uni (r0), callee, (a0); ld.param.b32 %r2, [r0]; }"),
    ("ret", SM_80, "@%p0 ret; ret.uni"),
    ("exit", SM_80, "@%p0 exit; exit"),
    ("trap", SM_80, "@%p0 trap"),
    ("brkpt", SM_80, "@%p0 brkpt"),
    ("nanosleep", SM_80, "nanosleep.u32 %r0; nanosleep.u32 100"),
    ("pmevent", SM_80, "pmevent 7; pmevent.mask 3"),
    ("alloca", SM_80, "alloca.u64 %d0, %d1, 16; alloca.u64 %d0, %d1"),
    ("stacksave", SM_80, "stacksave.u64 %d0"),
    ("stackrestore", SM_80, "stackrestore.u64 %d0"),
    "Moves and addresses",
    ("mov", SM_80, "mov.b32 %r0, %r1; mov.f32 %f0, 0f3F800000; mov.u64 %d0, gmem; mov.u32 %r0, %tid.x; "
     "mov.b32 %r0, {%h0, %h1}; mov.b32 {%h0, %h1}, %r0; mov.b64 {%r0, %r1}, %d0; mov.pred %p0, %p1; "
     "mov.b64 %d0, {%r0, %r1}; mov.b128 %q0, {%d0, %d1}; mov.b128 {%d0, %d1}, %q0; mov.b128 %q0, %q1; "
     "mov.u32 %r0, %clock; mov.u64 %d0, %clock64; mov.u64 %d0, %globaltimer; mov.u32 %r0, %laneid; "
     "mov.u32 %r0, %lanemask_lt; mov.u32 %r0, %smid; mov.u32 %r0, %total_smem_size; "
     "mov.u32 %r0, %dynamic_smem_size; mov.u32 %r0, %envreg2; mov.u64 %d0, callee; mov.u32 %r0, WARP_SZ; "
     "mov.u32 %r0, %clock_hi; mov.u32 %r0, %nwarpid; mov.u64 %d0, %gridid"),
    ("cvta", SM_80, "cvta.global.u64 %d0, %d1; cvta.to.shared.u64 %d0, %d1; cvta.shared.u64 %d0, smem; "
     "cvta.local.u64 %d0, lmem; cvta.to.local.u64 %d0, %d1; cvta.const.u64 %d0, cmem; cvta.param.u64 %d0, %d1; "
     "cvta.shared.u64 %d0, smem+16; cvta.to.param.u64 %d0, %d1"),
    ("isspacep", SM_80, "isspacep.global %p0, %d0; isspacep.shared %p0, %d0; isspacep.local %p0, %d0"),
    ("istypep", SM_80, "istypep.texref %p0, %d0; istypep.surfref %p0, %d0; istypep.samplerref %p0, %d0"),
    ("mapa", SM_90, "mapa.shared::cluster.u32 %r0, %r1, %r2; mapa.u64 %d0, %d1, %r2"),
    ("getctarank", SM_90, "getctarank.shared::cluster.u32 %r0, %r1; getctarank.u64 %r0, %d1"),
    "Integers",
    ("add", SM_80, "add.s32 %r0, %r1, %r2; add.u64 %d0, %d1, -1; add.cc.u32 %r0, %r1, %r2; add.sat.s32 %r0, %r1, %r2; "
     "add.s16 %h0, %h1, %h2; add.f32 %f0, %f1, %f2; add.rn.ftz.sat.f32 %f0, %f1, %f2; add.rz.f64 %g0, %g1, %g2; "
     "add.f16 %h0, %h1, %h2; add.rn.f16x2 %r0, %r1, %r2; add.rm.f32 %f0, %f1, %f2"),
    ("add", SM_90, "add.u16x2 %r0, %r1, %r2; add.bf16 %h0, %h1, %h2; add.rn.bf16x2 %r0, %r1, %r2"),
    ("sub", SM_80, "sub.s32 %r0, %r1, %r2; sub.cc.u32 %r0, %r1, %r2; sub.f64 %g0, %g1, %g2; sub.f16x2 %r0, %r1, %r2"),
    ("mul", SM_80, "mul.lo.s32 %r0, %r1, %r2; mul.hi.u64 %d0, %d1, %d2; mul.wide.s16 %r0, %h1, %h2; mul.wide.u32 %d0, %r1, 3; "
     "mul.f32 %f0, %f1, %f2; mul.rz.f64 %g0, %g1, %g2; mul.f16 %h0, %h1, %h2"),
    ("mad", SM_80, "mad.lo.s32 %r0, %r1, %r2, %r3; mad.wide.u32 %d0, %r1, %r2, %d3; mad.hi.s32 %r0, %r1, %r2, %r3; "
     "mad.lo.cc.u32 %r0, %r1, %r2, %r3; mad.hi.sat.s32 %r0, %r1, %r2, %r3; mad.rn.f32 %f0, %f1, %f2, %f3"),
    ("madc", SM_80, "madc.lo.cc.u32 %r0, %r1, %r2, %r3; madc.hi.u32 %r0, %r1, %r2, %r3"),
    ("mul24", SM_80, "mul24.lo.s32 %r0, %r1, %r2; mul24.hi.u32 %r0, %r1, %r2"),
    ("mad24", SM_80, "mad24.lo.s32 %r0, %r1, %r2, %r3; mad24.hi.sat.s32 %r0, %r1, %r2, %r3"),
    ("addc", SM_80, "addc.cc.u32 %r0, %r1, %r2; addc.u64 %d0, %d1, %d2"),
    ("subc", SM_80, "subc.cc.u32 %r0, %r1, %r2; subc.u32 %r0, %r1, %r2"),
    ("sad", SM_80, "sad.u32 %r0, %r1, %r2, %r3; sad.s16 %h0, %h1, %h2, %h3"),
    ("div", SM_80, "div.s32 %r0, %r1, %r2; div.u64 %d0, %d1, %d2; div.rn.f32 %f0, %f1, %f2; div.full.f32 %f0, %f1, %f2; "
     "div.approx.ftz.f32 %f0, %f1, %f2; div.rn.f64 %g0, %g1, %g2"),
    ("rem", SM_80, "rem.s32 %r0, %r1, %r2; rem.u16 %h0, %h1, %h2; rem.s64 %d0, %d1, %d2"),
    ("abs", SM_80, "abs.s32 %r0, %r1; abs.f32 %f0, %f1; abs.ftz.f16 %h0, %h1; abs.bf16x2 %r0, %r1"),
    ("neg", SM_80, "neg.s64 %d0, %d1; neg.f64 %g0, %g1; neg.f16x2 %r0, %r1; neg.bf16 %h0, %h1"),
    ("min", SM_80, "min.s32 %r0, %r1, %r2; min.u64 %d0, %d1, %d2; min.f32 %f0, %f1, %f2; min.NaN.f32 %f0, %f1, %f2; "
     "min.f16x2 %r0, %r1, %r2; min.NaN.bf16 %h0, %h1, %h2"),
    ("min", SM_90, "min.xorsign.abs.f32 %f0, %f1, %f2; min.s16x2 %r0, %r1, %r2; min.relu.s32 %r0, %r1, %r2"),
    ("min", SM_100, "min.f32 %f0, %f1, %f2, %f3; min.NaN.abs.f32 %f0, %f1, %f2, %f3"),
    ("max", SM_80, "max.s32 %r0, %r1, %r2; max.f64 %g0, %g1, %g2; max.ftz.f32 %f0, %f1, %f2; max.NaN.f16 %h0, %h1, %h2"),
    ("popc", SM_80, "popc.b32 %r0, %r1; popc.b64 %r0, %d1"),
    ("clz", SM_80, "clz.b32 %r0, %r1; clz.b64 %r0, %d1"),
    ("bfind", SM_80, "bfind.u32 %r0, %r1; bfind.shiftamt.s64 %r0, %d1"),
    ("fns", SM_80, "fns.b32 %r0, %r1, %r2, %r3"),
    ("brev", SM_80, "brev.b32 %r0, %r1; brev.b64 %d0, %d1"),
    ("bfe", SM_80, "bfe.u32 %r0, %r1, %r2, %r3; bfe.s64 %d0, %d1, 3, 5"),
    ("bfi", SM_80, "bfi.b32 %r0, %r1, %r2, 4, 8; bfi.b64 %d0, %d1, %d2, %r3, %r4"),
    ("bmsk", SM_80, "bmsk.clamp.b32 %r0, %r1, %r2; bmsk.wrap.b32 %r0, %r1, %r2"),
    ("szext", SM_80, "szext.clamp.s32 %r0, %r1, %r2; szext.wrap.u32 %r0, %r1, %r2"),
    ("dp4a", SM_80, "dp4a.u32.u32 %r0, %r1, %r2, %r3; dp4a.s32.u32 %r0, %r1, %r2, %r3"),
    ("dp2a", SM_80, "dp2a.lo.s32.s32 %r0, %r1, %r2, %r3; dp2a.hi.u32.s32 %r0, %r1, %r2, %r3"),
    "Bits and logic",
    ("and", SM_80, "and.b32 %r0, %r1, 15; and.pred %p0, %p1, %p2; and.b64 %d0, %d1, %d2"),
    ("or", SM_80, "or.b16 %h0, %h1, %h2; or.pred %p0, %p1, !%p2"),
    ("xor", SM_80, "xor.b32 %r0, %r1, %r2; xor.pred %p0, %p1, %p2"),
    ("not", SM_80, "not.b32 %r0, %r1; not.pred %p0, %p1"),
    ("cnot", SM_80, "cnot.b32 %r0, %r1"),
    ("lop3", SM_80, "lop3.b32 %r0, %r1, %r2, %r3, 0x96; lop3.or.b32 %r0|%p0, %r1, %r2, %r3, 0x96, %p1"),
    ("shf", SM_80, "shf.l.wrap.b32 %r0, %r1, %r2, %r3; shf.r.clamp.b32 %r0, %r1, %r2, 7"),
    ("shl", SM_80, "shl.b32 %r0, %r1, 3; shl.b64 %d0, %d1, %r2; shl.b16 %h0, %h1, %r2"),
    ("shr", SM_80, "shr.s32 %r0, %r1, 3; shr.u64 %d0, %d1, %r2; shr.b16 %h0, %h1, 1"),
    ("prmt", SM_80, "prmt.b32 %r0, %r1, %r2, 0x5410; prmt.b32.f4e %r0, %r1, %r2, %r3; prmt.b32.ecl %r0, %r1, %r2, %r3"),
    "Comparison and selection",
    ("set", SM_80, "set.lt.u32.f32 %r0, %f1, %f2; set.eq.and.s32.s32 %r0, %r1, %r2, %p1; set.gt.f32.s32 %f0, %r1, %r2"),
    ("setp", SM_80, "setp.lt.s32 %p0, %r1, %r2; setp.eq.or.f32 %p0|%p1, %f1, %f2, %p2; setp.nan.f64 %p0, %g1, %g2; "
     "setp.lo.u32 %p0, %r1, 5; setp.ltu.f16 %p0, %h1, %h2; setp.gt.f16x2 %p0|%p1, %r1, %r2; setp.num.f32 %p0, %f1, %f2"),
    ("selp", SM_80, "selp.b32 %r0, %r1, %r2, %p0; selp.f64 %g0, %g1, %g2, %p0; selp.b16 %h0, %h1, 1, %p0"),
    ("slct", SM_80, "slct.s32.s32 %r0, %r1, %r2, %r3; slct.f64.f32 %g0, %g1, %g2, %f3"),
    ("testp", SM_80, "testp.finite.f32 %p0, %f1; testp.subnormal.f64 %p0, %g1; testp.notanumber.f32 %p0, %f1"),
    ("copysign", SM_80, "copysign.f32 %f0, %f1, %f2; copysign.f64 %g0, %g1, %g2"),
    "Floating point and conversion",
    ("fma", SM_80, "fma.rn.f32 %f0, %f1, %f2, %f3; fma.rz.f64 %g0, %g1, %g2, %g3; fma.rn.relu.f16x2 %r0, %r1, %r2, %r3; "
     "fma.rn.bf16 %h0, %h1, %h2, %h3; fma.rn.sat.f16 %h0, %h1, %h2, %h3; fma.rp.ftz.sat.f32 %f0, %f1, %f2, %f3"),
    ("fma", SM_100, "fma.rn.f32x2 %d0, %d1, %d2, %d3; add.rn.f32x2 %d0, %d1, %d2; mul.rn.f32x2 %d0, %d1, %d2"),
    ("rcp", SM_80, "rcp.approx.ftz.f32 %f0, %f1; rcp.rn.f32 %f0, %f1; rcp.rn.f64 %g0, %g1; rcp.approx.ftz.f64 %g0, %g1"),
    ("sqrt", SM_80, "sqrt.approx.f32 %f0, %f1; sqrt.rn.f32 %f0, %f1; sqrt.rz.f64 %g0, %g1"),
    ("rsqrt", SM_80, "rsqrt.approx.f32 %f0, %f1; rsqrt.approx.f64 %g0, %g1; rsqrt.approx.ftz.f64 %g0, %g1"),
    ("sin", SM_80, "sin.approx.f32 %f0, %f1"),
    ("cos", SM_80, "cos.approx.ftz.f32 %f0, %f1"),
    ("lg2", SM_80, "lg2.approx.f32 %f0, %f1"),
    ("ex2", SM_80, "ex2.approx.f32 %f0, %f1; ex2.approx.f16 %h0, %h1; ex2.approx.f16x2 %r0, %r1"),
    ("ex2", SM_90, "ex2.approx.ftz.bf16 %h0, %h1; ex2.approx.ftz.bf16x2 %r0, %r1"),
    ("tanh", SM_80, "tanh.approx.f32 %f0, %f1; tanh.approx.f16 %h0, %h1"),
    ("tanh", SM_90, "tanh.approx.bf16x2 %r0, %r1"),
    ("cvt", SM_80, "cvt.rn.f32.s32 %f0, %r1; cvt.rzi.s32.f32 %r0, %f1; cvt.u8.u32 %r0, %r1; cvt.sat.s8.s32 %r0, %r1; "
     "cvt.rn.f16.f32 %h0, %f1; cvt.f32.f16 %f0, %h1; cvt.rn.f16x2.f32 %r0, %f1, %f2; cvt.rn.bf16.f32 %h0, %f1; "
     "cvt.rn.relu.bf16x2.f32 %r0, %f1, %f2; cvt.rna.tf32.f32 %r0, %f1; cvt.f64.f32 %g0, %f1; cvt.rn.f32.f64 %f0, %g1; "
     "cvt.rni.f32.f32 %f0, %f1; cvt.rpi.s64.f64 %d0, %g1; cvt.s64.s32 %d0, %r1; cvt.pack.sat.u8.s32.b32 %r0, %r1, %r2, %r3"),
    ("cvt", SM_90, "cvt.f32.bf16 %f0, %h1; cvt.rn.satfinite.e4m3x2.f32 %h0, %f1, %f2; cvt.rn.f16x2.e5m2x2 %r0, %h1; "
     "cvt.rn.satfinite.relu.e5m2x2.f16x2 %h0, %r1"),
    ("cvt", SM_100A, "cvt.rn.satfinite.e2m3x2.f32 %h0, %f1, %f2; cvt.rz.ue8m0x2.f32 %h0, %f1, %f2"),
    "Video",
    ("vadd", SM_80, "vadd.s32.u32.s32.sat %r0, %r1.b0, %r2.h1; vadd.u32.u32.u32.add %r0, %r1, %r2, %r3"),
    ("vsub", SM_80, "vsub.s32.s32.s32 %r0, %r1, %r2; vsub.s32.u32.u32.sat.max %r0, %r1.b3, %r2.b1, %r3"),
    ("vabsdiff", SM_80, "vabsdiff.u32.u32.u32.add %r0, %r1.b0, %r2.b0, %r3"),
    ("vmin", SM_80, "vmin.s32.s32.s32 %r0, %r1, %r2.h0; vmin.s32.s32.s32 %r0.b1, %r1, %r2, %r3"),
    ("vmax", SM_80, "vmax.u32.u32.u32.max %r0, %r1, %r2, %r3; vmax.u32.u32.u32.sat %r0.h1, %r1, %r2, %r3"),
    ("vshl", SM_80, "vshl.u32.u32.u32.clamp %r0, %r1, %r2; vshl.s32.s32.u32.sat.wrap %r0, %r1.b1, %r2.b0"),
    ("vshr", SM_80, "vshr.u32.u32.u32.clamp %r0, %r1, %r2; vshr.s32.s32.u32.wrap.add %r0, %r1.h1, %r2, %r3"),
    ("vmad", SM_80, "vmad.s32.s32.u32 %r0, %r1.h0, %r2.h0, %r3; vmad.u32.u32.u32.sat.shr7 %r0, %r1.b0, %r2.b1, %r3; "
     "vmad.u32.u32.u32.po %r0, %r1.h0, %r2.h0, %r3; vmad.s32.s32.s32 %r0, %r1.h0, -%r2.h0, %r3"),
    ("vset", SM_80, "vset.s32.u32.lt %r0, %r1.b0, %r2; vset.u32.u32.ge.max %r0, %r1, %r2, %r3"),
    ("vadd2", SM_80, "vadd2.s32.s32.s32.sat %r0, %r1, %r2, %r3"),
    ("vsub2", SM_80, "vsub2.u32.u32.u32 %r0, %r1, %r2, %r3"),
    ("vavrg2", SM_80, "vavrg2.u32.u32.u32 %r0, %r1, %r2, %r3"),
    ("vabsdiff2", SM_80, "vabsdiff2.u32.u32.u32.add %r0, %r1, %r2, %r3"),
    ("vmin2", SM_80, "vmin2.s32.s32.s32 %r0, %r1, %r2, %r3"),
    ("vmax2", SM_80, "vmax2.s32.s32.s32 %r0, %r1, %r2, %r3"),
    ("vadd4", SM_80, "vadd4.s32.s32.s32.sat %r0, %r1, %r2, %r3"),
    ("vsub4", SM_80, "vsub4.u32.u32.u32 %r0, %r1, %r2, %r3"),
    ("vavrg4", SM_80, "vavrg4.u32.u32.u32 %r0, %r1, %r2, %r3"),
    ("vabsdiff4", SM_80, "vabsdiff4.u32.u32.u32.add %r0, %r1, %r2, %r3"),
    ("vmin4", SM_80, "vmin4.s32.s32.s32 %r0, %r1, %r2, %r3"),
    ("vmax4", SM_80, "vmax4.s32.s32.s32 %r0, %r1, %r2, %r3"),
    ("vset2", SM_80, "vset2.u32.u32.lt %r0, %r1, %r2, %r3; vset2.s32.s32.ge.add %r0, %r1, %r2, %r3"),
    ("vset4", SM_80, "vset4.u32.u32.eq %r0, %r1, %r2, %r3; vset4.s32.s32.ne.add %r0, %r1, %r2, %r3"),
    "Memory",
    ("ld", SM_80, "ld.global.u32 %r0, [%d0]; ld.v4.f32 {%f0, %f1, %f2, %f3}, [%d0+16]; ld.shared.b8 %h0, [smem+3]; "
     "ld.const.u64 %d1, [cmem+8]; ld.local.s16 %r0, [lmem]; ld.volatile.global.u32 %r0, [%d0]; ld.global.nc.f64 %g0, [%d0]; "
     "ld.relaxed.gpu.global.u32 %r0, [%d0]; ld.acquire.sys.u64 %d1, [%d0]; ld.global.ca.u32 %r0, [%d0]; ld.weak.u32 %r0, [%d0]; "
     "ld.global.L1::no_allocate.L2::128B.u32 %r0, [%d0]; ld.global.nc.L1::evict_last.v2.u64 {%d1, %d2}, [%d0]; "
     "ld.global.L2::cache_hint.u32 %r0, [%d0], %d1; ld.global.cs.u32 %r0, [%d0]; ld.global.lu.u32 %r0, [%d0]; ld.param.u64 %d0, [out]; "
     "ld.global.nc.L1::no_allocate.L2::256B.u8 %r0, [%d0]; ld.mmio.relaxed.sys.global.u32 %r0, [%d0]; ld.shared::cta.u32 %r0, [%r1]; "
     "ld.volatile.u32 %r0, [%d0]; ld.acquire.cta.shared.u32 %r0, [smem]; ld.global.v2.b16 {%h0, %h1}, [%d0]; ld.global.L1::evict_first.u32 %r0, [%d0]"),
    ("ld", SM_90, "ld.global.b128 %q0, [%d0]; ld.relaxed.cluster.global.u32 %r0, [%d0]; ld.shared::cluster.u32 %r0, [%r1]; ld.relaxed.gpu.global.b128 %q0, [%d0]"),
    ("ld", SM_100, "ld.global.v8.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, [%d0]; ld.global.v4.b64 {%d1, %d2, %d3, %d4}, [%d0]; "
     "ld.global.nc.L2::evict_first.v8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%d0]"),
    ("ldu", SM_80, "ldu.global.u32 %r0, [%d0]; ldu.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d0]"),
    ("st", SM_80, "st.global.u32 [%d0], %r0; st.v2.f64 [%d0], {%g0, %g1}; st.shared.b16 [smem], %h0; st.local.u64 [lmem], %d0; "
     "st.volatile.shared.u32 [smem], %r0; st.release.gpu.global.u32 [%d0], %r0; st.relaxed.sys.u32 [%d0], 5; st.global.cs.u32 [%d0], %r0; "
     "st.global.L1::no_allocate.u32 [%d0], %r0; st.global.L2::cache_hint.u32 [%d0], %r0, %d1; st.global.wt.u8 [%d0], %r0; "
     "st.global.v4.b32 [%d0], {%r0, %r1, 0, %r3}; st.mmio.relaxed.sys.global.u32 [%d0], %r0"),
    ("st", SM_90, "st.global.b128 [%d0], %q0; st.shared::cluster.u32 [%r1], %r0"),
    ("st", SM_100, "st.global.v8.f32 [%d0], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}; st.global.v4.b64 [%d0], {%d1, %d2, %d3, %d4}"),
    ("prefetch", SM_80, "prefetch.global.L1 [%d0]; prefetch.L2 [%d0]; prefetch.global.L2::evict_last [%d0]"),
    ("prefetchu", SM_80, "prefetchu.L1 [%d0]"),
    ("applypriority", SM_80, "applypriority.global.L2::evict_normal [%d0], 128"),
    ("discard", SM_80, "discard.global.L2 [%d0], 128"),
    ("createpolicy", SM_80, "createpolicy.fractional.L2::evict_last.b64 %d0, 0.5; createpolicy.range.global.L2::evict_last.b64 %d0, [%d1], %r0, %r1; "
     "createpolicy.cvt.L2.b64 %d0, %d1"),
    ("cp", SM_80, "cp.async.ca.shared.global [%r0], [%d0], 4; cp.async.cg.shared.global.L2::128B [%r0], [%d0], 16, %r1; cp.async.commit_group; "
     "cp.async.wait_group 1; cp.async.wait_all; cp.async.mbarrier.arrive.noinc.shared.b64 [%r0]"),
    ("atom", SM_80, "atom.global.add.u32 %r0, [%d0], %r1; atom.add.f64 %g0, [%d0], %g1; atom.shared.cas.b32 %r0, [smem], %r1, %r2; atom.exch.b64 %d1, [%d0], %d2; "
     "atom.global.min.s64 %d1, [%d0], %d2; atom.inc.u32 %r0, [%d0], 7; atom.global.add.noftz.f16x2 %r0, [%d0], %r1; atom.add.noftz.f16 %h0, [%d0], %h1; "
     "atom.acq_rel.gpu.global.or.b32 %r0, [%d0], %r1; atom.relaxed.sys.cas.b16 %h0, [%d0], %h1, %h2; atom.dec.u32 %r0, [%d0], 9; atom.xor.b64 %d1, [%d0], %d2; "
     "atom.global.L2::cache_hint.add.u32 %r0, [%d0], %r1, %d1; atom.add.f32 %f0, [%d0], %f1; atom.and.b32 _, [%d0], %r1"),
    ("atom", SM_90, "atom.global.add.noftz.bf16x2 %r0, [%d0], %r1; atom.global.v2.f32.add {%f0, %f1}, [%d0], {%f2, %f3}; "
     "atom.cas.b128 %q0, [%d0], %q1, %q2; atom.exch.b128 %q0, [%d0], %q1; atom.add.noftz.bf16 %h0, [%d0], %h1; "
     "atom.global.v4.f16x2.add.noftz {%r0, %r1, %r2, %r3}, [%d0], {%r4, %r5, %r6, %r7}; atom.global.v8.f16.max.noftz "
     "{%h0, %h1, %h2, %h3, %h4, %h5, %h6, %h7}, [%d0], {%h8, %h9, %h10, %h11, %h12, %h13, %h14, %h15}; atom.relaxed.cluster.shared::cluster.add.u32 %r0, [%r1], %r2"),
    ("red", SM_80, "red.global.add.f32 [%d0], %f0; red.shared.max.u32 [smem], %r0; red.global.add.noftz.f16x2 [%d0], %r0; red.release.gpu.and.b32 [%d0], %r0; red.add.u64 [%d0], %d1; red.global.add.f64 [%d0], %g0"),
    ("red", SM_90, "red.global.add.v4.f32 [%d0], {%f0, %f1, %f2, %f3}; red.global.add.noftz.v4.bf16x2 [%d0], {%r0, %r1, %r2, %r3}; "
     "red.global.min.noftz.v2.f16 [%d0], {%h0, %h1}; red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r0], %r1, [%r2]"),
    ("cp", SM_90, "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%d0], %r1, [%r2]; cp.async.bulk.commit_group; "
     "cp.async.bulk.wait_group.read 0; cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r0], 64; "
     "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r0], [%d0, {%r1, %r2}], [%r3]; "
     "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%d0], [%r0], 64; cp.async.bulk.prefetch.L2.global [%d0], 64"),
    ("st", SM_90, "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r0], %r1, [%r2]"),
    ("tensormap", SM_90A, "tensormap.replace.tile.global_address.global.b1024.b64 [%d0], %d1; "
     "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d0], [%r0], 128"),
    ("fence", SM_80, "fence.acq_rel.gpu; fence.sc.cta; fence.proxy.alias"),
    ("fence", SM_90, "fence.proxy.async; fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta"),
    ("membar", SM_80, "membar.cta; membar.gl; membar.sys"),
    "Textures and surfaces",
    ("tex", SM_80, "tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%d0, {%r0}]; tex.2d.v4.u32.f32 {%r0, %r1, %r2, %r3}, [%d0, {%f0, %f1}]; "
     "tex.3d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%d0, {%f0, %f1, %f2, %f2}]; tex.a2d.v4.s32.f32 {%r0, %r1, %r2, %r3}, [%d0, {%r0, %f0, %f1, %f1}]; "
     "tex.cube.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%d0, {%f0, %f1, %f2, %f2}]; tex.level.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [tref, {%f0, %f1}], %f4; "
     "tex.grad.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%d0, {%f0, %f1}], {%f4, %f5}, {%f6, %f7}; tex.base.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%d0, {%f0, %f1}]; "
     "tex.2d.v2.f16x2.f32 {%r0, %r1}, [%d0, {%f0, %f1}]; tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}|%p0, [%d0, {%f0, %f1}], {%r0, %r1}"),
    ("tld4", SM_80, "tld4.r.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%d0, {%f0, %f1}]; tld4.a.a2d.v4.u32.f32 {%r0, %r1, %r2, %r3}, [tref, {%r0, %f0, %f1, %f1}]"),
    ("txq", SM_80, "txq.width.b32 %r0, [tref]; txq.num_mipmap_levels.b32 %r0, [%d0]; txq.channel_order.b32 %r0, [tref]; txq.normalized_coords.b32 %r0, [%d0]; "
     "txq.level.height.b32 %r0, [tref], %r1"),
    ("suld", SM_80, "suld.b.1d.b32.trap %r0, [%d0, {%r1}]; suld.b.2d.v4.b8.clamp {%h0, %h1, %h2, %h3}, [%d0, {%r0, %r1}]; suld.b.3d.v2.b64.zero {%d1, %d2}, [sref, {%r0, %r1, %r2, %r2}]; "
     "suld.b.a1d.b16.trap %h0, [%d0, {%r0, %r1}]"),
    ("sust", SM_80, "sust.b.2d.v4.b32.trap [%d0, {%r0, %r1}], {%r2, %r3, %r4, %r5}; sust.p.1d.b32.clamp [%d0, {%r0}], %f0; sust.b.a2d.b8.zero [sref, {%r0, %r1, %r2, %r2}], %h0"),
    ("sured", SM_80, "sured.b.add.2d.u32.trap [%d0, {%r0, %r1}], %r2; sured.b.min.1d.s32.zero [sref, {%r0}], %r2; sured.b.and.2d.b32.clamp [%d0, {%r0, %r1}], %r2; sured.b.add.2d.u64.trap [%d0, {%r0, %r1}], %d2"),
    ("suq", SM_80, "suq.width.b32 %r0, [%d0]; suq.channel_data_type.b32 %r0, [sref]; suq.array_size.b32 %r0, [%d0]"),
    "Warps, blocks, clusters",
    ("bar", SM_80, "bar.sync 0; bar.sync %r0, 64; bar.arrive 1, 64; bar.red.popc.u32 %r0, 1, %p0; bar.red.and.pred %p0, 2, 64, !%p1; bar.warp.sync 0xffffffff; bar.cta.sync 0"),
    ("barrier", SM_80, "barrier.sync 0; barrier.sync.aligned 1, 32; barrier.cta.red.or.pred %p0, 0, %p1; barrier.arrive 2, 96"),
    ("barrier", SM_90, "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire; barrier.cluster.arrive.relaxed"),
    ("shfl", SM_80, "shfl.sync.up.b32 %r0, %r1, 1, 0, -1; shfl.sync.idx.b32 %r0|%p0, %r1, %r2, 31, %r3"),
    ("vote", SM_80, "vote.sync.all.pred %p0, %p1, -1; vote.sync.ballot.b32 %r0, !%p1, %r2; vote.sync.uni.pred %p0, %p1, -1"),
    ("match", SM_80, "match.any.sync.b32 %r0, %r1, -1; match.all.sync.b64 %r0|%p0, %d1, %r2"),
    ("activemask", SM_80, "activemask.b32 %r0"),
    ("redux", SM_80, "redux.sync.add.s32 %r0, %r1, -1; redux.sync.or.b32 %r0, %r1, %r2"),
    ("redux", SM_100A, "redux.sync.min.NaN.f32 %f0, %f1, -1; redux.sync.max.abs.f32 %f0, %f1, -1"),
    ("elect", SM_90, "elect.sync %r0|%p0, -1; elect.sync _|%p0, %r1"),
    ("clusterlaunchcontrol", SM_100, "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r0], [%r1]; "
     "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p0, %q0"),
    ("griddepcontrol", SM_90, "griddepcontrol.wait; griddepcontrol.launch_dependents"),
    ("setmaxnreg", SM_90A, "setmaxnreg.inc.sync.aligned.u32 232; setmaxnreg.dec.sync.aligned.u32 40"),
    ("mbarrier", SM_80, "mbarrier.init.shared.b64 [smem], 32; mbarrier.arrive.shared.b64 %d0, [smem]; mbarrier.test_wait.shared.b64 %p0, [smem], %d0; "
     "mbarrier.inval.shared.b64 [smem]; mbarrier.arrive_drop.shared.b64 %d0, [smem]; mbarrier.pending_count.b64 %r0, %d0"),
    ("mbarrier", SM_90, "mbarrier.arrive.expect_tx.shared.b64 _, [smem], %r0; mbarrier.try_wait.parity.shared.b64 %p0, [smem], %r0; mbarrier.expect_tx.relaxed.cta.shared.b64 [smem], 4"),
    "Matrices",
    ("ldmatrix", SM_80, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%r4]; ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r0}, [smem]"),
    ("stmatrix", SM_90, "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r0], {%r1, %r2}"),
    ("movmatrix", SM_80, "movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1"),
    ("mma", SM_80, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f4, %f5, %f6, %f7}"),
    ("wmma", SM_80, "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%d0], %r8"),
    ("wgmma", SM_90A, "wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0"),
    ("tcgen05", SM_100A, "tcgen05.wait::ld.sync.aligned; tcgen05.fence::before_thread_sync"),
]  # fmt: skip

REFUSED = [
    ("isspacep", SM_80, "isspacep.const %p0, %d0", "constant memory"),
    ("brx", SM_80, "T: .branchtargets L; @%p0 brx.idx %r0, T", "a guarded brx.idx"),
    ("bar", SM_80, "@%p0 bar.red.popc.u32 %r0, 1, %p1", "a guarded barrier reduction"),
    ("mov", SM_80, "mov.b32 %r0, %envreg7", "special register %envreg7"),
    ("multimem", SM_90, "multimem.ld_reduce.relaxed.sys.global.add.u32 %r0, [%d0]", "several GPUs"),
    ("multimem", SM_90, "multimem.red.relaxed.sys.global.add.u32 [%d0], %r0", "several GPUs"),
    ("tex", SM_80, "tex.2dms.v4.s32.s32 {%r0, %r1, %r2, %r3}, [%d0, {%r4, %r5, %r6, %r7}]", "1d, 2d, 3d"),
    ("tex", SM_80, "tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%d0, {%f0, %f1}], {%r0, %r1}, %f5", "depth"),
    ("tex", SM_80, "tex.grad.cube.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%d0, {%f0, %f1, %f2, %f2}], {%f4, %f5, %f6, %f6}, {%f7, %f8, %f9, %f9}", "gradients of a cube"),
]  # fmt: skip
"""Opcode, architecture, a line of PTX, and words of the reason."""


def spellings(text: str) -> list[str]:
    """The single statements of an entry of TAKEN."""
    if text.startswith("{"):
        return [text]
    first, *rest = (part.strip() for part in text.split(";"))
    return (
        [f"{first}; {x};" for x in rest]
        if first.startswith("T:")
        else [f"{x};" for x in (first, *rest)]
    )


def entries() -> list[tuple[str, str, str, str]]:
    """(group, opcode, architecture, one statement) of all of TAKEN."""
    found, group = [], ""
    for entry in TAKEN:
        if isinstance(entry, str):
            group = entry
        else:
            found += [(group, *entry[:2], line) for line in spellings(entry[2])]
    return found
