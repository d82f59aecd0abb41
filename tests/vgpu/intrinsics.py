"""CUDA expressions, each a kernel of its own, that between them use the whole arithmetic of NVRTC."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass

HEADERS = (
    "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuda_fp8.h>\n"
    "typedef long long s64; typedef unsigned long long u64; typedef unsigned u32;\n"
    "typedef __half half1; typedef __nv_bfloat16 bf16; typedef __nv_bfloat162 bf162;\n"
    "typedef __nv_fp8_e4m3 e4m3; typedef __nv_fp8_e5m2 e5m2; typedef __nv_fp8x2_e4m3 e4m3x2;\n"
    "typedef unsigned char u8; typedef signed char s8;\n"
)


@dataclass(frozen=True)
class Kernel:
    """`out[i] = expression(a[i], b[i], c[i])`."""

    name: str
    expression: str
    result: str
    sources: tuple[str, ...]

    @property
    def text(self) -> str:
        letters = "abc"
        parameters = "".join(f", const {t}* p{i}" for i, t in enumerate(self.sources))
        loads = " ".join(f"{t} {letters[i]} = p{i}[i];" for i, t in enumerate(self.sources))
        return (
            f'extern "C" __global__ void {self.name}({self.result}* out{parameters}) {{\n'
            f"  int i = blockIdx.x * blockDim.x + threadIdx.x; {loads}\n"
            f"  out[i] = {self.expression}; }}\n"
        )


# "result source source …": expressions between semicolons
EXPRESSIONS = {
    "int int int": """a+b; a-b; a*b; a/b; a%b; a<<b; a>>b; a&b; a|b; a^b; ~a; min(a,b); max(a,b);
        abs(a); a<b; a==b?a:b; __mulhi(a,b); __mul24(a,b); __sad(a,b,7); __clz(a); __ffs(a);
        __popc(a); __brev(a); __hadd(a,b); __rhadd(a,b); __byte_perm(a,b,0x5410);
        __byte_perm(a,b,a); __funnelshift_l(a,b,b); __funnelshift_r(a,b,b);
        __funnelshift_lc(a,b,b); __funnelshift_rc(a,b,b); __shfl_sync(~0u,a,b);
        __shfl_up_sync(~0u,a,1); __shfl_down_sync(~0u,a,b,16); __shfl_xor_sync(~0u,a,3,8);
        __all_sync(~0u,a); __any_sync(~0u,!(a<b)); __uni_sync(~0u,a); __ballot_sync(~0u,a>b);
        __match_any_sync(~0u,a&3); __activemask(); __reduce_add_sync(~0u,a);
        __reduce_min_sync(~0u,a); __reduce_max_sync(~0u,a)""",
    "u32 u32 u32": """a/b; a%b; a>>b; min(a,b); max(a,b); __umulhi(a,b); __umul24(a,b);
        __usad(a,b,9u); __uhadd(a,b); __urhadd(a,b); __vadd4(a,b); __vadd2(a,b); __vsub4(a,b);
        __vaddss4(a,b); __vaddus4(a,b); __vaddss2(a,b); __vsubus4(a,b); __vabsdiffu4(a,b);
        __vabsdiffs4(a,b); __vabsdiffu2(a,b); __vabs4(a); __vabsss2(a); __vneg4(a);
        __vavgu4(a,b); __vavgs2(a,b); __vhaddu4(a,b); __vmaxu4(a,b); __vmins4(a,b);
        __vmaxs2(a,b); __vminu2(a,b); __vsadu4(a,b); __vsads2(a,b); __vcmpeq4(a,b);
        __vcmpges4(a,b); __vcmpgtu2(a,b); __vsetltu4(a,b); __vsetges2(a,b); __fns(a,b&31,1);
        __fns(a,b&31,0); __fns(a,b&31,-2); __fns(a,b&31,5);
        __reduce_and_sync(~0u,a); __reduce_or_sync(~0u,a); __reduce_xor_sync(~0u,a)""",
    "u32 u32 u32 u32": """__dp4a(a,b,c); __dp2a_lo(a,b,c); __dp2a_hi(a,b,c); (a&b)|c; a^b^c;
        (a&b)|(~a&c); __viaddmax_u32(a,b,c); __viaddmin_u16x2(a,b,c); __vimax3_u32(a,b,c);
        __vimin3_u16x2(a,b,c); __viaddmax_s16x2(a,b,c); __viaddmax_s16x2_relu(a,b,c);
        __vimin3_s16x2_relu(a,b,c); a*b+c""",
    "int int int int": """__dp4a(a,b,c); __viaddmax_s32_relu(a,b,c); __vimin3_s32_relu(a,b,c);
        __mulhi(a,b)+c""",
    "s64 s64 s64": """a+b; a*b; a/b; a%b; a<<b; a>>b; min(a,b); llabs(a); __mul64hi(a,b);
        __clzll(a); __ffsll(a); __popcll(a); __brevll(a); a<b; (s64)((__int128)a*b>>7);
        (s64)((__int128)a*b-b); (s64)((__int128)a*b/3)""",
    "u64 u64 u64": "a/b; a%b; a>>b; __umul64hi(a,b); (u64)(((unsigned __int128)a*b+b)>>33)",
    "u64 u32 u32": "(u64)a*b; (u64)a<<32|b",
    "s64 int int": "(s64)a*b",
    "s64 s64 int": "__shfl_sync(~0u,a,b); __match_any_sync(~0u,a&1)",
    "short short short": "a+b; a*b; a/b; a%b; a>>b; min(a,b); a<b",
    "u8 u8 u8": "a+b; a*b; a/b; a<b",
    "s8 s8 s8": "a+b; a*b; a/b; a<b; a>>b",
    "float float float": """a+b; a-b; a*b; a/b; fminf(a,b); fmaxf(a,b); fabsf(a); -a; sqrtf(a);
        rsqrtf(a); 1.0f/a; expf(a); exp2f(a); exp10f(a); logf(a); log2f(a); log10f(a); log1pf(a);
        expm1f(a); sinf(a); cosf(a); tanf(a); asinf(a); acosf(a); atanf(a); atan2f(a,b); sinhf(a);
        coshf(a); tanhf(a); erff(a); erfcf(a); powf(a,b); fmodf(a,b); remainderf(a,b); floorf(a);
        ceilf(a); truncf(a); roundf(a); rintf(a); copysignf(a,b); hypotf(a,b); cbrtf(a);
        lgammaf(a); tgammaf(a); fdimf(a,b); ldexpf(a,3); logbf(a); nextafterf(a,b); __expf(a);
        __logf(a); __sinf(a); __cosf(a); __powf(a,b); __fdividef(a,b); __saturatef(a);
        __frcp_rz(a); __frcp_ru(a); __fsqrt_rz(a); __fsqrt_ru(a); __fadd_rz(a,b); __fadd_ru(a,b);
        __fadd_rd(a,b); __fmul_rz(a,b); __fmul_rn(a,b); __fsub_rd(a,b); __fdiv_rz(a,b);
        __fdiv_ru(a,b); isnan(a); isinf(a); signbit(a); a<b?a:b; a!=b; !(a<b)""",
    "float float float float": "fmaf(a,b,c); __fmaf_rz(a,b,c); __fmaf_ru(a,b,c); norm3df(a,b,c)",
    "double double double": """a+b; a-b; a*b; a/b; fmin(a,b); fabs(a); sqrt(a); rsqrt(a); 1.0/a;
        exp(a); log(a); sin(a); cos(a); tan(a); atan2(a,b); tanh(a); erf(a); pow(a,b); fmod(a,b);
        floor(a); round(a); rint(a); copysign(a,b); cbrt(a); __dadd_rz(a,b); __dmul_ru(a,b);
        __ddiv_rd(a,b); __dsqrt_ru(a); __drcp_rz(a); isnan(a)""",
    "double double double double": "fma(a,b,c); __fma_rz(a,b,c)",
    "int float": "__float2int_rn(a); __float2int_rz(a); __float2int_ru(a); __float2int_rd(a)",
    "u32 float": "__float2uint_rn(a); __float2uint_rz(a)",
    "s64 float": "__float2ll_rn(a); __float2ll_rd(a)",
    "u64 float": "__float2ull_rz(a)",
    "int double": "__double2int_rn(a); __double2int_rz(a); __double2hiint(a); __double2loint(a)",
    "u32 double": "__double2uint_rz(a)",
    "s64 double": "__double2ll_rn(a)",
    "u64 double": "__double2ull_ru(a)",
    "float int": "__int2float_rn(a); __int2float_rz(a); __int2float_ru(a); __int_as_float(a)",
    "float u32": "__uint2float_rn(a); __uint2float_rd(a)",
    "float s64": "__ll2float_rn(a); __ll2float_rz(a)",
    "float u64": "__ull2float_rn(a); __ull2float_ru(a)",
    "double int int": "(double)a; __hiloint2double(a,b)",
    "double s64": "__ll2double_rn(a); __ll2double_rz(a)",
    "double u64": "__ull2double_rn(a); __ull2double_ru(a)",
    "float double": "__double2float_rn(a); __double2float_rz(a); __double2float_ru(a)",
    "half1 half1 half1": """__hadd(a,b); __hsub(a,b); __hmul(a,b); __hdiv(a,b); __hneg(a); __habs(a);
        __hmin(a,b); __hmax_nan(a,b); __hadd_sat(a,b); hsqrt(a); hrsqrt(a); hrcp(a); hexp(a);
        hexp2(a); hexp10(a); hlog(a); hlog2(a); hsin(a); hcos(a); hfloor(a); htrunc(a); hrint(a);
        __hadd_rn(a,b); htanh(a); htanh_approx(a)""",
    "half1 half1 half1 half1": "__hfma(a,b,c); __hfma_sat(a,b,c); __hfma_relu(a,b,c)",
    "int half1 half1": """__heq(a,b); __hne(a,b); __hltu(a,b); __hgeu(a,b); __hisnan(a);
        __half2int_rn(a); __half2int_rz(a); __half2int_ru(a); __half2short_rn(a)""",
    "u64 half1": "__half2ull_rz(a)",
    "half2 half2 half2": """__hadd2(a,b); __hmul2(a,b); __h2div(a,b); __hneg2(a); __habs2(a);
        __hmin2(a,b); __hmax2_nan(a,b); h2sqrt(a); h2exp(a); h2rcp(a); __heq2(a,b); __hltu2(a,b);
        __lows2half2(a,b); h2tanh_approx(a); __shfl_xor_sync(~0u,a,5)""",
    "half2 half2 half2 half2": "__hfma2(a,b,c); __hfma2_relu(a,b,c); __hcmadd(a,b,c)",
    "u32 half2 half2": "__heq2_mask(a,b); __hgtu2_mask(a,b); __hbeq2(a,b)",
    "half1 float": "__float2half(a); __float2half_rz(a); __float2half_ru(a); __float2half_rd(a)",
    "half1 double": "__double2half(a)",
    "half1 int": "__int2half_rn(a); __int2half_rz(a)",
    "half1 u64": "__ull2half_rn(a); __ull2half_ru(a)",
    "float half1": "__half2float(a)",
    "bf16 bf16 bf16": """__hadd(a,b); __hsub(a,b); __hmul(a,b); __hdiv(a,b); __hneg(a); __hmin(a,b);
        __hmax_nan(a,b); hsqrt(a); hexp(a); hlog(a); hfloor(a); __hadd_sat(a,b); htanh_approx(a)""",
    "bf16 bf16 bf16 bf16": "__hfma(a,b,c); __hfma_relu(a,b,c)",
    "int bf16 bf16": "__hlt(a,b); __hltu(a,b); __bfloat162int_rn(a); __bfloat162int_rz(a)",
    "bf162 bf162 bf162": "__hadd2(a,b); __hmul2(a,b); __hmax2(a,b); h2exp(a); __hgt2(a,b)",
    "bf162 bf162 bf162 bf162": "__hfma2(a,b,c); __hfma2_relu(a,b,c)",
    "bf16 float": "__float2bfloat16(a); __float2bfloat16_rz(a); __float2bfloat16_ru(a)",
    "bf16 double": "__double2bfloat16(a)",
    "bf16 int": "__int2bfloat16_rn(a); __int2bfloat16_rz(a)",
    "bf16 u64": "__ull2bfloat16_rn(a)",
    "e4m3 float": "e4m3(a)",
    "e5m2 float": "e5m2(a)",
    "e4m3x2 float2": "e4m3x2(a)",
    "e4m3x2 half2": "e4m3x2(a)",
    "float e4m3": "float(a)",
    "float e5m2": "float(a)",
    "half1 e4m3": "__half(a)",
}


def kernels() -> list[Kernel]:
    """Every expression as a kernel."""
    found = []
    for types, expressions in EXPRESSIONS.items():
        result, *sources = types.split()
        for expression in expressions.split(";"):
            text = " ".join(expression.split())
            found.append(Kernel(f"k{len(found)}", text, result, tuple(sources)))
    return found


def source(chosen: list[Kernel]) -> str:
    return HEADERS + "".join(k.text for k in chosen)
