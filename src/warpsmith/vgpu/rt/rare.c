/* Arithmetic that kernels seldom use, compiled once: directed rounding, small floats, video.
   SPDX-License-Identifier: Apache-2.0 */
#include "lane.h"
#include <fenv.h>
#include <math.h>

/* volatile operands keep the compiler from computing under another rounding mode */
static int enter(u32 mode) {
  static const int modes[4] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  int old = fegetround();
  fesetround(modes[mode & 3]);
  return old;
}

#define DIRECTED(NAME, BITS, FLOAT, FROM, TO, FMA, SQRT)                                           \
  BITS NAME(u32 op, u32 mode, BITS a, BITS b, BITS c) {                                            \
    volatile FLOAT x = FROM(a), y = FROM(b), z = FROM(c), r = 0;                                   \
    int old = enter(mode);                                                                         \
    switch (op) {                                                                                  \
    case W_ADD: r = x + y; break;                                                                  \
    case W_SUB: r = x - y; break;                                                                  \
    case W_MUL: r = x * y; break;                                                                  \
    case W_DIV: r = x / y; break;                                                                  \
    case W_FMA: r = FMA(x, y, z); break;                                                           \
    case W_SQRT: r = SQRT(x); break;                                                               \
    }                                                                                              \
    fesetround(old);                                                                               \
    return TO(r);                                                                                  \
  }
DIRECTED(w_directed_f32, u32, float, w_f32, w_b32, fmaf, sqrtf)
DIRECTED(w_directed_f64, u64, double, w_f64, w_b64, fma, sqrt)

#define CONVERT(NAME, BITS, FLOAT, TO, SOURCE, FROM)                                               \
  BITS NAME(u32 mode, u64 bits) {                                                                  \
    volatile SOURCE x = FROM(bits);                                                                \
    int old = enter(mode);                                                                         \
    volatile FLOAT r = (FLOAT)x;                                                                   \
    fesetround(old);                                                                               \
    return TO(r);                                                                                  \
  }
CONVERT(w_directed_f64_to_f32, u32, float, w_b32, double, w_f64)
CONVERT(w_directed_s64_to_f32, u32, float, w_b32, s64, (s64))
CONVERT(w_directed_s64_to_f64, u64, double, w_b64, s64, (s64))

/* Compilers convert u64 in two steps that are only right to nearest: shift, keeping a sticky bit. */
u32 w_directed_u64_to_f32(u32 mode, u64 x) {
  if (x >> 63 == 0) return w_directed_s64_to_f32(mode, x);
  u32 half = w_directed_s64_to_f32(mode, x >> 1 | (x & 1));
  return half + 0x00800000u;
}
u64 w_directed_u64_to_f64(u32 mode, u64 x) {
  if (x >> 63 == 0) return w_directed_s64_to_f64(mode, x);
  u64 half = w_directed_s64_to_f64(mode, x >> 1 | (x & 1));
  return half + 0x0010000000000000ull;
}

static const struct { s32 mant, emin; u32 bits, max, inf, nan; } FORMATS[] = {
    [W_F16] = {10, -14, 16, 0x7bff, 0x7c00, 0x7fff}, [W_BF16] = {7, -126, 16, 0x7f7f, 0x7f80, 0x7fff},
    [W_E4M3] = {3, -6, 8, 0x7e, 0x7f, 0x7f},         [W_E5M2] = {2, -14, 8, 0x7b, 0x7c, 0x7f},
    [W_E2M1] = {1, 0, 4, 0x7, 0x7, 0x7},             [W_E2M3] = {3, 0, 6, 0x1f, 0x1f, 0x1f},
    [W_E3M2] = {2, -2, 6, 0x1f, 0x1f, 0x1f},
};

u32 w_encode(u32 format, u32 mode, u32 saturate, u32 relu, double x) {
  s32 mant = FORMATS[format].mant, emin = FORMATS[format].emin;
  if (x != x) return FORMATS[format].nan;
  u32 negative = signbit(x) != 0;
  if (relu && negative) return 0;
  u32 sign = negative << (FORMATS[format].bits - 1), down = mode == 1 || mode == 2u + negative;
  u32 finite = sign | FORMATS[format].max, infinite = sign | FORMATS[format].inf;
  if (x == 0) return sign;
  if (isinf(x)) return saturate ? finite : infinite;
  int exponent;
  frexp(x, &exponent);
  s32 unit = exponent - 1 > emin ? exponent - 1 - mant : emin - mant; /* of the last place */
  double scaled = ldexp(fabs(x), -unit), whole = floor(scaled), rest = scaled - whole;
  u64 n = (u64)whole;
  n += mode == 0 ? rest > 0.5 || (rest == 0.5 && (n & 1)) : rest > 0 && !down;
  u64 code = ((u64)(unit - emin + mant) << mant) + n;
  if (code > FORMATS[format].max) return saturate || down ? finite : infinite;
  return sign | (u32)code;
}

double w_decode(u32 format, u32 bits) {
  s32 mant = FORMATS[format].mant, emin = FORMATS[format].emin;
  u32 sign = bits >> (FORMATS[format].bits - 1) & 1;
  u32 code = bits & ((1u << (FORMATS[format].bits - 1)) - 1), e = code >> mant;
  double value;
  if (code > FORMATS[format].max)
    value = FORMATS[format].inf != FORMATS[format].nan && code == FORMATS[format].inf ? INFINITY : NAN;
  else
    value = e ? ldexp((code & ((1u << mant) - 1)) + (1u << mant), (s32)e - 1 + emin - mant)
              : ldexp(code, emin - mant);
  return sign ? -value : value;
}

u32 w_encode_ue8m0(u32 mode, u32 saturate, float x) { /* the exponent of |x| alone; 0xff is NaN */
  if (x != x) return 0xff;
  if (x == 0) return 0;
  int exponent;
  double m = frexp(fabs((double)x), &exponent);
  if (isinf(x)) return saturate ? 0xfe : 0xff;
  s32 code = exponent - 1 + 127 + (mode == 3 && m > 0.5);
  return code < 0 ? 0 : code > 254 ? (saturate ? 254 : 255) : (u32)code;
}

u32 w_fns(u32 mask, u32 base, u32 offset) { /* find the offset-th set bit from `base` */
  s32 n = (s32)offset, step = n < 0 ? -1 : 1, pos = (s32)(base & 31);
  if (n == INT32_MIN) return 0; /* as an H200 gives; its magnitude is no int */
  if (n == 0) return mask >> pos & 1 ? (u32)pos : ~0u;
  for (s32 left = n < 0 ? -n : n; pos >= 0 && pos < 32; pos += step)
    if (mask >> pos & 1 && --left == 0) return (u32)pos;
  return ~0u;
}

static s64 part(u32 word, u32 bits, u32 i, u32 is_signed) {
  u32 field = word >> (i * bits) & ((1u << bits) - 1);
  return is_signed && field >> (bits - 1) ? (s64)field - (1ll << bits) : (s64)field;
}

static s64 video_op(u32 op, s64 x, s64 y) {
  switch (op) {
  case W_VADD: return x + y;
  case W_VSUB: return x - y;
  case W_VAVRG: return (x + y + (x + y >= 0)) >> 1;
  case W_VABSDIFF: return x > y ? x - y : y - x;
  case W_VMIN: return x < y ? x : y;
  default: return x > y ? x : y;
  }
}

u32 w_video(u32 op, u32 lanes, u32 flags, u32 a, u32 b, u32 c) {
  u32 bits = 32 / lanes, packed = 0, total = c, d_signed = flags & W_SIGNED_D;
  s64 lo = d_signed ? -(1ll << (bits - 1)) : 0, hi = d_signed ? ~lo : (1ll << bits) - 1;
  for (u32 i = 0; i < lanes; i++) {
    s64 r = video_op(op, part(a, bits, i, flags & W_SIGNED_A), part(b, bits, i, flags & W_SIGNED_B));
    if (flags & W_SATURATE) r = w_clamp_s64((u64)r, lo, hi);
    packed |= ((u32)r & ((1u << bits) - 1)) << (i * bits);
    total += (u32)r;
  }
  return flags & W_ACCUMULATE ? total : packed;
}
