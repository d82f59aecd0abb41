/* Arithmetic of one PTX lane on raw bits, inlined into every generated kernel.
   SPDX-License-Identifier: Apache-2.0

   Values are unsigned bit patterns of the operand's width. Hot functions are branch-free and call
   nothing, so a 32-lane loop over them vectorizes; rare ones (directed rounding, 8-bit floats)
   are declared at the end and live, compiled once, in rare.c.
   Compile with -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-strict-aliasing -fwrapv. */
#ifndef WARPSMITH_LANE_H
#define WARPSMITH_LANE_H
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

#define W_FN static inline __attribute__((always_inline, unused))

/* bits <-> floats */
W_FN float w_f32(u32 x) { union { u32 u; float f; } v = {x}; return v.f; }
W_FN u32 w_b32(float x) { union { float f; u32 u; } v = {x}; return v.u; }
W_FN double w_f64(u64 x) { union { u64 u; double f; } v = {x}; return v.f; }
W_FN u64 w_b64(double x) { union { double f; u64 u; } v = {x}; return v.u; }

/* flush subnormals to zero of the same sign; clamp to [0, 1] with NaN and -0 to +0 */
W_FN u32 w_ftz_f32(u32 x) { return x & 0x7f800000u ? x : x & 0x80000000u; }
W_FN u32 w_ftz_f16(u32 x) { return x & 0x7c00u ? x : x & 0x8000u; }
W_FN u32 w_sat_f32(u32 x) { float f = w_f32(x); return f > 0.f ? (f < 1.f ? x : 0x3f800000u) : 0; }
W_FN u64 w_sat_f64(u64 x) {
  double f = w_f64(x);
  return f > 0. ? (f < 1. ? x : 0x3ff0000000000000ull) : 0;
}
W_FN u32 w_sat_f16(u32 x) { return (s16)x > 0 && x <= 0x7c00u ? (x < 0x3c00u ? x : 0x3c00u) : 0; }
W_FN u32 w_sat_bf16(u32 x) { return (s16)x > 0 && x <= 0x7f80u ? (x < 0x3f80u ? x : 0x3f80u) : 0; }
/* The canonical NaN that a GPU's arithmetic gives whatever NaN it was given. Arithmetic of f64 keeps the
   payload and sets the quiet bit, as a CPU's does. */
W_FN u32 w_nan_f32(u32 x) { float f = w_f32(x); return f != f ? 0x7fffffffu : x; }
W_FN u32 w_nan_f16(u32 x) { return (x & 0x7fffu) > 0x7c00u ? 0x7fffu : x; }
W_FN u32 w_nan_bf16(u32 x) { return (x & 0x7fffu) > 0x7f80u ? 0x7fffu : x; }
/* `changed` (a negation, a magnitude), or x made quiet where it is a NaN */
W_FN u64 w_quiet_f64(u64 x, u64 changed) { double f = w_f64(x); return f != f ? x | 1ull << 51 : changed; }
/* negative to +0, NaN to the canonical NaN */
W_FN u32 w_relu_f32(u32 x) { float f = w_f32(x); return f != f ? 0x7fffffffu : f > 0.f ? x : 0; }
W_FN u32 w_relu_f16(u32 x) { return (x & 0x7fffu) > 0x7c00u ? 0x7fffu : x & 0x8000u ? 0 : x; }
W_FN u32 w_relu_bf16(u32 x) { return (x & 0x7fffu) > 0x7f80u ? 0x7fffu : x & 0x8000u ? 0 : x; }

/* f16 and bf16 <-> f32; to nearest even, NaN to 0x7fff */
W_FN float w_h2f(u32 h) {
  u32 o = (h & 0x7fffu) << 13, e = o & 0x0f800000u;
  u32 wide = o + (e == 0x0f800000u ? 0x70000000u : 0x38000000u);
  u32 tiny = w_b32(w_f32(o + 0x38800000u) - w_f32(0x38800000u));
  return w_f32((e ? wide : tiny) | (h & 0x8000u) << 16);
}
W_FN u32 w_f2h(float x) {
  u32 b = w_b32(x), f = b & 0x7fffffffu;
  u32 wide = (f + 0xc8000fffu + ((f >> 13) & 1)) >> 13;
  u32 tiny = w_b32(w_f32(f) + 0.5f) - 0x3f000000u;
  u32 huge = f > 0x7f800000u ? 0x7fffu : 0x7c00u;
  u32 sign = f > 0x7f800000u ? 0 : b >> 16 & 0x8000u;
  return (f >= 0x47800000u ? huge : f < 0x38800000u ? tiny : wide) | sign;
}
W_FN float w_b2f(u32 x) { return w_f32(x << 16); }
W_FN u32 w_f2b(float x) {
  u32 b = w_b32(x);
  return (b & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : (b + 0x7fffu + (b >> 16 & 1)) >> 16;
}
/* toward zero */
W_FN u32 w_f2h_rz(float x) {
  u32 b = w_b32(x), f = b & 0x7fffffffu, n = 113 - (f >> 23);
  u32 tiny = n > 11 ? 0 : ((f & 0x7fffffu) | 0x800000u) >> (13 + (n > 11 ? 0 : n));
  u32 huge = f > 0x7f800000u ? 0x7fffu : f == 0x7f800000u ? 0x7c00u : 0x7bffu;
  u32 sign = f > 0x7f800000u ? 0 : b >> 16 & 0x8000u;
  return (f >= 0x47800000u ? huge : f < 0x38800000u ? tiny : (f - 0x38000000u) >> 13) | sign;
}
W_FN u32 w_f2b_rz(float x) {
  u32 b = w_b32(x);
  return (b & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : b >> 16;
}
/* Round to odd: an inexact result gets an odd last bit, so that one further rounding to a format
   at least two bits shorter is a correct single rounding (Boldo and Melquiond, 2008). */
W_FN float w_odd_f32(double x) {
  float f = (float)x;
  u32 b = w_b32(f);
  double back = (double)f;
  u32 inexact = back == x ? 0 : 1, up = (back < 0 ? -back : back) < (x < 0 ? -x : x) ? 1 : 0;
  return w_f32(b + (inexact & ~b & 1) * (2 * up - 1));
}
W_FN double w_odd_sum(double a, double b) { /* a + b, rounded to odd; error term by Knuth */
  double s = a + b, t = s - a, e = (a - (s - t)) + (b - t);
  u64 bits = w_b64(s), sign = w_b64(e) ^ bits;
  u64 inexact = (e < 0 ? 1 : 0) | (e > 0 ? 1 : 0), down = sign >> 63; /* e is NaN where s is not finite */
  return w_f64(bits + (inexact & ~bits & 1) * (1 - 2 * down));
}
W_FN double w_odd_u64(u64 x) {
  return x >> 53 ? (double)(s64)(x >> 11 | ((x & 0x7ff) != 0)) * 2048. : (double)(s64)x;
}
W_FN double w_odd_s64(u64 x) { return (s64)x < 0 ? -w_odd_u64(0 - x) : w_odd_u64(x); }
W_FN u32 w_d2h(double x) { return w_f2h(w_odd_f32(x)); }
W_FN u32 w_d2b(double x) { return w_f2b(w_odd_f32(x)); }
/* cvt from f64 keeps a NaN's sign and the top of its payload */
W_FN u32 w_payload_f16(u64 x, u32 r) {
  return x << 1 > 0xffe0000000000000ull ? (u32)(x >> 48 & 0x8000) | 0x7e00u | (u32)(x >> 42 & 0x1ff) : r;
}
W_FN u32 w_payload_bf16(u64 x, u32 r) {
  return x << 1 > 0xffe0000000000000ull ? (u32)(x >> 48 & 0x8000) | 0x7fc0u | (u32)(x >> 45 & 0x3f) : r;
}

/* 8-bit floats, saturated to the largest finite; subnormals round where their unit is a float's */
#define W_SMALL(NAME, MANT, BIAS, UNIT, MAX)                                                       \
  W_FN u32 w_f2##NAME(float x) {                                                                   \
    u32 b = w_b32(x), f = b & 0x7fffffffu, cut = 23 - MANT;                                        \
    u32 wide = (f - ((127u - BIAS) << 23) + (1u << (cut - 1)) - 1 + (f >> cut & 1)) >> cut;        \
    u32 tiny = w_b32(w_f32(f) + UNIT) - w_b32(UNIT);                                               \
    u32 r = f < (128u - BIAS) << 23 ? tiny : wide;                                                 \
    r = f >= (127u + 16) << 23 ? MAX : r > MAX ? MAX : r;                                          \
    return f > 0x7f800000u ? 0x7f : r | (b >> 24 & 0x80);                                          \
  }
W_SMALL(e4m3, 3, 7, 16384.f, 0x7e)
W_SMALL(e5m2, 2, 15, 128.f, 0x7b)
#undef W_SMALL
W_FN u32 w_relu_8(u32 x) { return x & 0x80 ? 0 : x; } /* a NaN has no sign by then */
W_FN u32 w_e5m2_to_f16(u32 x) { return (x & 0x7f) > 0x7c ? 0x7fff : x << 8; }
W_FN u32 w_e4m3_to_f16(u32 x) { /* the same bits read as f16 are 2**8 too small */
  u32 c = x & 0x7f, h = w_f2h(w_h2f(c << 7) * 256.f);
  return c == 0x7f ? 0x7fff : h | (x & 0x80) << 8;
}

/* f16 sums and products are exact enough in f32 (24 >= 2 * 11 + 2 bits), and a f16 fma in f64;
   a bf16 fma spans too many exponents and needs the odd rounding. */
W_FN u32 w_fma_f16(u32 a, u32 b, u32 c) {
  return w_d2h((double)w_h2f(a) * (double)w_h2f(b) + (double)w_h2f(c));
}
W_FN u32 w_mul_bf16(u32 a, u32 b) { return w_d2b((double)w_b2f(a) * (double)w_b2f(b)); }
W_FN u32 w_fma_bf16(u32 a, u32 b, u32 c) {
  return w_d2b(w_odd_sum((double)w_b2f(a) * (double)w_b2f(b), (double)w_b2f(c)));
}
W_FN float w_fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
W_FN double w_fma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }

/* min and max: -0 < +0; a NaN loses, or wins in the _nan forms */
#define W_MINMAX(T, U, S, SIGN, INF, QNAN)                                                         \
  W_FN S w_key_##T(U x) { return (S)(x & SIGN ? x ^ (SIGN - 1) : x); }                             \
  W_FN U w_is_nan_##T(U x) { return (x & (SIGN - 1)) > INF; }                                      \
  W_FN U w_min_##T(U a, U b) {                                                                     \
    U r = w_key_##T(a) < w_key_##T(b) ? a : b, n = w_is_nan_##T(a) ? b : r;                        \
    return w_is_nan_##T(b) ? (w_is_nan_##T(a) ? QNAN : a) : n;                                     \
  }                                                                                                \
  W_FN U w_max_##T(U a, U b) {                                                                     \
    U r = w_key_##T(a) > w_key_##T(b) ? a : b, n = w_is_nan_##T(a) ? b : r;                        \
    return w_is_nan_##T(b) ? (w_is_nan_##T(a) ? QNAN : a) : n;                                     \
  }                                                                                                \
  W_FN U w_min_nan_##T(U a, U b) {                                                                 \
    return w_is_nan_##T(a) | w_is_nan_##T(b) ? QNAN : w_key_##T(a) < w_key_##T(b) ? a : b;         \
  }                                                                                                \
  W_FN U w_max_nan_##T(U a, U b) {                                                                 \
    return w_is_nan_##T(a) | w_is_nan_##T(b) ? QNAN : w_key_##T(a) > w_key_##T(b) ? a : b;         \
  }
W_MINMAX(f32, u32, s32, 0x80000000u, 0x7f800000u, 0x7fffffffu)
W_MINMAX(f64, u64, s64, 0x8000000000000000ull, 0x7ff0000000000000ull, 0x7fffffffffffffffull)
W_MINMAX(f16, u16, s16, 0x8000, 0x7c00, 0x7fff)
W_MINMAX(bf16, u16, s16, 0x8000, 0x7f80, 0x7fff)
#undef W_MINMAX

/* `.ftz` flushes a product or fma that is subnormal before it is rounded: one that rounds up to the
   least normal number is flushed too. */
W_FN u32 w_ftz_product_f32(u32 a, u32 b, u32 r) {
  double p = (double)w_f32(a) * (double)w_f32(b);
  return (p < 0 ? -p : p) < 0x1p-126 ? r & 0x80000000u : r;
}
W_FN u32 w_ftz_fma_f32(u32 a, u32 b, u32 c, u32 r) {
  double p = w_odd_sum((double)w_f32(a) * (double)w_f32(b), (double)w_f32(c));
  return (p < 0 ? -p : p) < 0x1p-126 ? r & 0x80000000u : r;
}
W_FN u32 w_ftz_product_f16(u32 a, u32 b, u32 r) {
  float p = w_h2f(a) * w_h2f(b);
  return (p < 0 ? -p : p) < 0x1p-14f ? r & 0x8000u : r;
}
W_FN u32 w_ftz_fma_f16(u32 a, u32 b, u32 c, u32 r) {
  double p = (double)w_h2f(a) * (double)w_h2f(b) + (double)w_h2f(c);
  return (p < 0 ? -p : p) < 0x1p-14 ? r & 0x8000u : r;
}

/* Special functions, in f32, within the errors that the PTX manual documents. */
W_FN u32 w_rcp_f32(u32 x) { return w_b32(1.f / w_f32(x)); }
W_FN u32 w_sqrt_f32(u32 x) { return w_b32(__builtin_sqrtf(w_f32(x))); }
W_FN u32 w_rsqrt_f32(u32 x) { return w_b32(1.f / __builtin_sqrtf(w_f32(x))); }
W_FN u32 w_div_approx_f32(u32 a, u32 b) { /* a divisor above 2**126 has a subnormal reciprocal: 0 */
  u32 m = b & 0x7fffffffu;
  u32 zero = m > 0x7e800000u && m < 0x7f800000u;
  float q = w_f32(a) / w_f32(b), z = w_f32(a) * w_f32(b & 0x80000000u);
  return w_b32(zero ? z : q);
}
W_FN u32 w_ex2_f32(u32 bits) { /* 2**n by exponent bits in two halves, 2**r by its Taylor series */
  float x = w_f32(bits), c = x > -160.f ? x : -160.f;
  c = c < 160.f ? c : 160.f;
  float near = c + 12582912.f, r = c - (near - 12582912.f); /* 1.5 * 2**23 rounds to an integer */
  s32 n = (s32)(w_b32(near) - 0x4b400000u), h = n >> 1;
  float p = 1.52527338e-5f;
  p = __builtin_fmaf(p, r, 1.54035304e-4f);
  p = __builtin_fmaf(p, r, 1.33335581e-3f);
  p = __builtin_fmaf(p, r, 9.61812911e-3f);
  p = __builtin_fmaf(p, r, 5.55041087e-2f);
  p = __builtin_fmaf(p, r, 2.40226507e-1f);
  p = __builtin_fmaf(p, r, 6.93147181e-1f);
  p = __builtin_fmaf(p, r, 1.f);
  p = p * w_f32((u32)(h + 127) << 23) * w_f32((u32)(n - h + 127) << 23);
  return w_b32(x != x ? x : p);
}
W_FN u32 w_lg2_f32(u32 bits) { /* log2(m 2**n) = n + 2/ln2 atanh((m - 1)/(m + 1)) */
  float x = w_f32(bits);
  u32 small = bits < 0x00800000u, b = small ? w_b32(x * 8388608.f) : bits;
  s32 n = (s32)(b - 0x3f3504f3u) >> 23;
  float m = w_f32(b - ((u32)n << 23));
  float s = (m - 1.f) / (m + 1.f), t = s * s;
  float p = 0.32059890f;
  p = __builtin_fmaf(p, t, 0.41219858f);
  p = __builtin_fmaf(p, t, 0.57707802f);
  p = __builtin_fmaf(p, t, 0.96179669f);
  p = __builtin_fmaf(p * t, s, 2.88539008f * s);
  float r = (float)(small ? n - 23 : n) + p;
  r = bits == 0x7f800000u ? x : r;
  r = x == 0.f ? -__builtin_inff() : r;
  return x >= 0.f ? w_b32(r) : 0x7fffffffu;
}
W_FN float w_sincos(float x, s32 shift) { /* sin of x + shift pi/2; reduced in f64 */
  double y = w_f32(w_b32(x) & 0x7fffffffu) < 1e15f ? (double)x : (double)(x - x);
  double near = y * 0.63661977236758134 + 6755399441055744.; /* 1.5 * 2**52 rounds to an integer */
  double n = near - 6755399441055744.;
  float r = (float)(y - n * 1.5707963267948966 - n * 6.123233995736766e-17), t = r * r;
  u32 k = (u32)w_b64(near) + (u32)shift;
  float s = __builtin_fmaf(__builtin_fmaf(2.7183114e-6f, t, -1.9839336e-4f), t, 8.3333293e-3f);
  s = __builtin_fmaf(__builtin_fmaf(s, t, -1.6666667e-1f), t, 1.f) * r; /* keeps the sign of -0 */
  float c = __builtin_fmaf(__builtin_fmaf(2.4390449e-5f, t, -1.3886763e-3f), t, 4.1666642e-2f);
  c = __builtin_fmaf(__builtin_fmaf(c, t, -0.5f), t, 1.f);
  float v = k & 1 ? c : s;
  return k & 2 ? -v : v;
}
W_FN u32 w_sin_f32(u32 x) { return w_b32(w_sincos(w_f32(x), 0)); }
W_FN u32 w_cos_f32(u32 x) { return w_b32(w_sincos(w_f32(x), 1)); }
W_FN u32 w_tanh_f32(u32 bits) { /* odd series below 0.6, 1 - 2/(1 + e**2x) above */
  float x = w_f32(bits), a = w_f32(bits & 0x7fffffffu), t = x * x;
  float p = __builtin_fmaf(-5.70498872e-3f, t, 2.06390887e-2f);
  p = __builtin_fmaf(p, t, -5.37397155e-2f);
  p = __builtin_fmaf(p, t, 1.33314422e-1f);
  p = __builtin_fmaf(p, t, -3.33332819e-1f);
  p = __builtin_fmaf(p * t, a, a);
  float e = w_f32(w_ex2_f32(w_b32(a * 2.88539008f)));
  float r = a < 0.6f ? p : 1.f - 2.f / (1.f + e);
  return x != x ? 0x7fffffffu : w_b32(r) | (bits & 0x80000000u);
}

/* float -> integer: clamped to the type, NaN to 0, or to the top bit alone where 64 bits are in play */
W_FN u32 w_f32_to_s32(float x) {
  float y = x > -2147483648.f ? x : -2147483648.f;
  y = y < 2147483520.f ? y : 2147483520.f;
  return x != x ? 0 : x >= 2147483648.f ? 0x7fffffffu : (u32)(s32)y;
}
W_FN u32 w_f32_to_u32(float x) {
  float y = x > 0.f ? x : 0.f;
  y = y < 4294967040.f ? y : 4294967040.f;
  return x >= 4294967296.f ? 0xffffffffu : (u32)y;
}
W_FN u64 w_f64_to_s64(double x) {
  double y = x > -9223372036854775808. ? x : -9223372036854775808.;
  y = y < 9223372036854774784. ? y : 9223372036854774784.;
  return x >= 9223372036854775808. ? 0x7fffffffffffffffull : (u64)(s64)y;
}
W_FN u64 w_f64_to_u64(double x) {
  double y = x > 0. ? x : 0.;
  y = y < 18446744073709549568. ? y : 18446744073709549568.;
  return x != x ? 1ull << 63 : x >= 18446744073709551616. ? ~0ull : (u64)y;
}
W_FN s64 w_clamp_s64(u64 x, s64 lo, s64 hi) { return (s64)x < lo ? lo : (s64)x > hi ? hi : (s64)x; }
W_FN u64 w_clamp_u64(u64 x, u64 hi) { return x > hi ? hi : x; }
/* f64 source: through s64, so that NaN gives the top bit of a destination of `bits` bits */
W_FN u64 w_f64_to_s(double x, s32 bits) {
  s64 top = (s64)1 << (bits - 1);
  return x != x ? (u64)-top : (u64)w_clamp_s64(w_f64_to_s64(x), -top, top - 1);
}
W_FN u64 w_f64_to_u(double x, s32 bits) {
  return x != x ? 1ull << (bits - 1) : w_clamp_u64(w_f64_to_u64(x), (1ull << bits) - 1);
}

/* integers */
W_FN u32 w_mulhi_u32(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
W_FN u32 w_mulhi_s32(u32 a, u32 b) { return (u32)((s64)(s32)a * (s32)b >> 32); }
W_FN u64 w_mulhi_u64(u64 a, u64 b) {
#ifdef __SIZEOF_INT128__
  return (u64)((unsigned __int128)a * b >> 64);
#else
  u64 al = (u32)a, ah = a >> 32, bl = (u32)b, bh = b >> 32;
  u64 m = ah * bl + (al * bl >> 32), n = al * bh + (u32)m;
  return ah * bh + (m >> 32) + (n >> 32);
#endif
}
W_FN u64 w_mulhi_s64(u64 a, u64 b) {
  return w_mulhi_u64(a, b) - ((s64)a < 0 ? b : 0) - ((s64)b < 0 ? a : 0);
}
/* A division by zero gives all ones, as the code that ptxas emits does. 32-bit quotients go through
   f64, which is exact for them (two quotients differ by 2**-32 at least) and has vector division. */
W_FN u32 w_quotient_u32(u32 a, u32 b) {
  double x = (double)(s32)(a ^ 0x80000000u) + 2147483648., y = (double)(s32)(b ^ 0x80000000u) + 2147483648.;
  return (u32)(s32)(__builtin_trunc(x / y) - 2147483648.) ^ 0x80000000u;
}
W_FN s32 w_quotient_s32(s32 a, s32 b) { return (s32)((double)a / (double)b); }
W_FN u64 w_quotient_u64(u64 a, u64 b) { return a / b; }
W_FN s64 w_quotient_s64(s64 a, s64 b) { return a / b; }
#define W_DIVREM(U, S, N)                                                                          \
  W_FN U w_div_u##N(U a, U b) { return b ? w_quotient_u##N(a, b ? b : 1) : ~(U)0; }                \
  W_FN U w_rem_u##N(U a, U b) { return b ? a - b * w_quotient_u##N(a, b ? b : 1) : ~(U)0; }        \
  W_FN U w_div_s##N(U a, U b) {                                                                    \
    U plain = b + 1 > 1, q = (U)w_quotient_s##N((S)a, plain ? (S)b : 1);                           \
    return plain ? q : b ? 0 - a : ~(U)0;                                                          \
  }                                                                                                \
  W_FN U w_rem_s##N(U a, U b) { return b ? a - b * w_div_s##N(a, b) : ~(U)0; }
W_DIVREM(u32, s32, 32)
W_DIVREM(u64, s64, 64)
#undef W_DIVREM
W_FN u32 w_sext24(u32 a) { return (u32)((s32)(a << 8) >> 8); }
W_FN u32 w_clz32(u32 a) { return a ? (u32)__builtin_clz(a | !a) : 32; }
W_FN u32 w_clz64(u64 a) { return a ? (u32)__builtin_clzll(a | !a) : 64; }
W_FN u32 w_popc32(u32 x) { /* spelled out: the builtin is a library call below x86-64-v2 */
  x -= x >> 1 & 0x55555555u;
  x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
  return ((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}
W_FN u32 w_popc64(u64 x) { return w_popc32((u32)x) + w_popc32((u32)(x >> 32)); }
W_FN u32 w_brev32(u32 x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  x = (x >> 8 & 0x00ff00ffu) | (x & 0x00ff00ffu) << 8;
  return x >> 16 | x << 16;
}
W_FN u64 w_brev64(u64 x) { return (u64)w_brev32((u32)x) << 32 | w_brev32((u32)(x >> 32)); }
W_FN u32 w_bfind_u32(u32 a) { return 31 - w_clz32(a); }
W_FN u32 w_bfind_s32(u32 a) { return 31 - w_clz32(a ^ (u32)((s32)a >> 31)); }
W_FN u32 w_bfind_u64(u64 a) { return 63 - w_clz64(a); }
W_FN u32 w_bfind_s64(u64 a) { return 63 - w_clz64(a ^ (u64)((s64)a >> 63)); }
/* shift amounts are not taken modulo the width: too much leaves nothing, or the sign */
W_FN u32 w_shl32(u32 a, u32 n) { return n > 31 ? 0 : a << (n & 31); }
W_FN u64 w_shl64(u64 a, u32 n) { return n > 63 ? 0 : a << (n & 63); }
W_FN u32 w_shr_u32(u32 a, u32 n) { return n > 31 ? 0 : a >> (n & 31); }
W_FN u64 w_shr_u64(u64 a, u32 n) { return n > 63 ? 0 : a >> (n & 63); }
W_FN u32 w_shr_s32(u32 a, u32 n) { return (u32)((s32)a >> (n > 31 ? 31 : n)); }
W_FN u64 w_shr_s64(u64 a, u32 n) { return (u64)((s64)a >> (n > 63 ? 63 : n)); }
W_FN u32 w_funnel(u32 lo, u32 hi, u32 n) { return (u32)(((u64)hi << 32 | lo) >> n); } /* n <= 32 */
W_FN u32 w_mask32(u32 n) { return n > 31 ? ~0u : (1u << (n & 31)) - 1; }
W_FN u64 w_mask64(u32 n) { return n > 63 ? ~0ull : (1ull << (n & 63)) - 1; }
W_FN u32 w_bfe_u32(u32 a, u32 pos, u32 len) {
  return w_shr_u32(a, pos & 255) & w_mask32(len & 255);
}
/* 64-bit fields take the whole of position and length; 32-bit ones their low byte */
W_FN u64 w_bfe_u64(u64 a, u32 pos, u32 len) { return w_shr_u64(a, pos) & w_mask64(len); }
W_FN u32 w_bfe_s32(u32 a, u32 pos, u32 len) { /* the field's top bit, or the word's, fills up */
  u32 p = pos & 255, n = len & 255, m = w_mask32(n), top = p + n - 1;
  u32 s = n && (a >> (top > 31 ? 31 : top) & 1) ? ~m : 0;
  return n ? (w_shr_s32(a, p) & m) | s : 0;
}
W_FN u64 w_bfe_s64(u64 a, u32 pos, u32 len) {
  u32 p = pos > 64 ? 64 : pos, n = len > 64 ? 64 : len, top = p + n - 1;
  u64 m = w_mask64(n), s = n && (a >> (top > 63 ? 63 : top) & 1) ? ~m : 0;
  return n ? (w_shr_s64(a, p) & m) | s : 0;
}
W_FN u32 w_bfi32(u32 a, u32 b, u32 pos, u32 len) {
  u32 m = w_shl32(w_mask32(len & 255), pos & 255);
  return (w_shl32(a, pos & 255) & m) | (b & ~m);
}
W_FN u64 w_bfi64(u64 a, u64 b, u32 pos, u32 len) {
  u64 m = w_shl64(w_mask64(len), pos);
  return (w_shl64(a, pos) & m) | (b & ~m);
}
W_FN u32 w_szext_s32(u32 a, u32 n) { /* sign-extend from bit n - 1 */
  u32 k = n > 31 ? 0 : 32 - n;
  return n ? (u32)((s32)(a << (k & 31)) >> (k & 31)) : 0;
}
W_FN u32 w_prmt_byte(u64 pool, u32 sel) { /* one selector nibble; bit 3 replicates the sign */
  u32 b = (u32)(pool >> ((sel & 7) * 8)) & 255;
  return sel & 8 ? (b & 128 ? 255 : 0) : b;
}
W_FN u32 w_prmt(u32 a, u32 b, u32 s) {
  u64 p = (u64)b << 32 | a;
  return w_prmt_byte(p, s) | w_prmt_byte(p, s >> 4) << 8 | w_prmt_byte(p, s >> 8) << 16 |
         w_prmt_byte(p, s >> 12) << 24;
}
W_FN u32 w_add_sat_s32(u32 a, u32 b) {
  s64 r = (s64)(s32)a + (s32)b;
  return (u32)w_clamp_s64((u64)r, -2147483648ll, 2147483647ll);
}
W_FN u32 w_sub_sat_s32(u32 a, u32 b) {
  s64 r = (s64)(s32)a - (s32)b;
  return (u32)w_clamp_s64((u64)r, -2147483648ll, 2147483647ll);
}
W_FN u32 w_pack16(u32 lo, u32 hi) { return (lo & 0xffffu) | hi << 16; }
W_FN u64 w_pack32(u32 lo, u32 hi) { return (u64)hi << 32 | lo; }

/* Rounding toward zero (mode 1), down (2) or up (3) of p + c, where p and c are doubles that hold f32
   operands or their exact product: the sum's error tells on which side of the exact value the
   nearest float lies. An exact zero is -0 when rounding down, unless both addends are +0. */
W_FN u32 w_round_f32(u32 mode, double p, double c) {
  double s = p + c, part = s - p, error = (p - (s - part)) + (c - part);
  float nearest = (float)s;
  u32 r = w_b32(nearest);
  double d = (double)nearest;
  u32 over = (u32)(d > s) | ((u32)(d == s) & (u32)(error < 0));
  u32 under = (u32)(d < s) | ((u32)(d == s) & (u32)(error > 0));
  u32 negative = (u32)(s < 0) | ((u32)(s == 0) & (u32)(error < 0));
  u32 down = over & (mode == 2 ? 1u : mode == 1 ? !negative : 0u);
  u32 up = under & (mode == 3 ? 1u : mode == 1 ? negative : 0u);
  u32 sign = r >> 31, zero = (u32)(r << 1 == 0);
  u32 less = zero ? 0x80000001u : sign ? r + 1 : r - 1;
  u32 more = zero ? 1u : sign ? r - 1 : r + 1;
  u32 signs = (u32)((w_b64(p) | w_b64(c)) >> 63) << 31;
  u32 exact = (mode == 2) & (u32)(s == 0) & (u32)(error == 0) ? signs : r;
  return down ? less : up ? more : exact;
}
W_FN u32 w_add_directed_f32(u32 mode, u32 a, u32 b) {
  return w_round_f32(mode, (double)w_f32(a), (double)w_f32(b));
}
W_FN u32 w_sub_directed_f32(u32 mode, u32 a, u32 b) {
  return w_round_f32(mode, (double)w_f32(a), -(double)w_f32(b));
}
W_FN u32 w_mul_directed_f32(u32 mode, u32 a, u32 b) {
  double p = (double)w_f32(a) * (double)w_f32(b);
  return w_round_f32(mode, p, w_f64(w_b64(p) & 0x8000000000000000ull));
}
W_FN u32 w_fma_directed_f32(u32 mode, u32 a, u32 b, u32 c) {
  return w_round_f32(mode, (double)w_f32(a) * (double)w_f32(b), (double)w_f32(c));
}

/* rare.c: `mode` is 0 to nearest even, 1 toward zero, 2 down, 3 up */
enum { W_ADD, W_SUB, W_MUL, W_DIV, W_FMA, W_SQRT };
u32 w_directed_f32(u32 op, u32 mode, u32 a, u32 b, u32 c);
u64 w_directed_f64(u32 op, u32 mode, u64 a, u64 b, u64 c);
u32 w_directed_f64_to_f32(u32 mode, u64 x);
u32 w_directed_s64_to_f32(u32 mode, u64 x);
u32 w_directed_u64_to_f32(u32 mode, u64 x);
u64 w_directed_s64_to_f64(u32 mode, u64 x);
u64 w_directed_u64_to_f64(u32 mode, u64 x);
/* Small formats: `format` indexes the table of rare.c; `saturate` clamps to the largest finite. */
enum { W_F16, W_BF16, W_E4M3, W_E5M2, W_E2M1, W_E2M3, W_E3M2 };
u32 w_encode(u32 format, u32 mode, u32 saturate, u32 relu, double x);
double w_decode(u32 format, u32 bits);
u32 w_encode_ue8m0(u32 mode, u32 saturate, float x);
u32 w_fns(u32 mask, u32 base, u32 offset);
/* SIMD video: `lanes` 2 or 4 per word; flags W_SIGNED_A | W_SIGNED_B | W_SIGNED_D | W_SATURATE */
enum { W_VADD, W_VSUB, W_VAVRG, W_VABSDIFF, W_VMIN, W_VMAX };
enum { W_SIGNED_A = 1, W_SIGNED_B = 2, W_SIGNED_D = 4, W_SATURATE = 8, W_ACCUMULATE = 16 };
u32 w_video(u32 op, u32 lanes, u32 flags, u32 a, u32 b, u32 c);
u32 w_set_video(u32 how, u32 lanes, u32 flags, u32 a, u32 b, u32 c);
u32 w_scalar_video(u32 op, u32 how, u32 flags, u32 parts, u32 second, u32 a, u32 b, u32 c);
u32 w_video_mad(u32 how, u32 shift, u32 flags, u32 parts, u32 a, u32 b, u32 c);
#endif
