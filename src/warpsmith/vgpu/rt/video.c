/* Scalar video instructions and comparisons of SIMD ones: PTX ISA, "Video Instructions".
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lane.h"

enum { NO_PART, BYTE_0, BYTE_1, BYTE_2, BYTE_3, HALF_0, HALF_1 };   /* selectors, as isa/video.py counts them */
enum { S_ADD, S_SUB, S_ABSDIFF, S_MIN, S_MAX, S_SHL, S_SHR, S_SET };
enum { SECOND_NONE, SECOND_ADD, SECOND_MIN, SECOND_MAX };

static u32 shift_of(u32 part) { return part >= HALF_0 ? 16 * (part - HALF_0) : 8 * (part - BYTE_0); }
static u32 bits_of(u32 part) { return part == NO_PART ? 32 : part >= HALF_0 ? 16 : 8; }

static s64 selected(u32 word, u32 part, u32 is_signed) {
  u32 bits = bits_of(part), value = part ? word >> shift_of(part) : word;
  if (bits < 32) value &= (1u << bits) - 1;
  s64 wide = value;
  return is_signed && wide >> (bits - 1) & 1 ? wide - (1ll << bits) : wide;
}

static s64 clamped(s64 x, u32 bits, u32 is_signed) {
  s64 most = is_signed ? (1ll << (bits - 1)) - 1 : (1ll << bits) - 1, least = is_signed ? ~most : 0;
  return x < least ? least : x > most ? most : x;
}

u32 w_compare_video(u32 how, s64 a, s64 b) {   /* eq ne lt le gt ge */
  const u32 all[] = {a == b, a != b, a < b, a <= b, a > b, a >= b};
  return all[how];
}

static s64 first(u32 op, u32 how, s64 a, s64 b) {
  u32 amount = how ? (u32)b & 31 : (u32)b > 32 ? 32 : (u32)b;   /* shifts: wrap or clamp */
  switch (op) {
  case S_ADD: return a + b;
  case S_SUB: return a - b;
  case S_ABSDIFF: return a > b ? a - b : b - a;
  case S_MIN: return a < b ? a : b;
  case S_MAX: return a > b ? a : b;
  case S_SHL: return (s64)((u64)a << amount);
  case S_SHR: return a >> amount;
  }
  return w_compare_video(how, a, b);
}

/* parts: selectors of a, b and d, 4 bits each; flags as of w_video. */
u32 w_scalar_video(u32 op, u32 how, u32 flags, u32 parts, u32 second, u32 a, u32 b, u32 c) {
  u32 part = parts >> 8 & 15, d_signed = flags & W_SIGNED_D;
  s64 t = first(op, how, selected(a, parts & 15, flags & W_SIGNED_A), selected(b, parts >> 4 & 15, flags & W_SIGNED_B));
  if (flags & W_SATURATE) t = clamped(t, bits_of(part), d_signed);
  if (part) {
    u32 mask = ((1u << bits_of(part)) - 1) << shift_of(part);
    return ((u32)t << shift_of(part) & mask) | (c & ~mask);
  }
  s64 x = d_signed ? (s32)t : (s64)(u32)t, y = d_signed ? (s32)c : (s64)c;
  switch (second) {
  case SECOND_ADD: return (u32)t + c;
  case SECOND_MIN: return (u32)(x < y ? x : y);
  case SECOND_MAX: return (u32)(x > y ? x : y);
  }
  return (u32)t;
}

/* how: 1 adds one more, 2 and 4 negate the product and c; shift: 0, 7 or 15. */
u32 w_video_mad(u32 how, u32 shift, u32 flags, u32 parts, u32 a, u32 b, u32 c) {
  u32 is_signed = (flags & (W_SIGNED_A | W_SIGNED_B)) || how & 6;
  __int128 t = (__int128)selected(a, parts & 15, flags & W_SIGNED_A) * selected(b, parts >> 4 & 15, flags & W_SIGNED_B);
  __int128 more = is_signed ? (__int128)(s32)c : (__int128)c;
  t = (how & 2 ? -t : t) + (how & 4 ? -more : more) + (how & 1);
  t >>= shift;
  if (!(flags & W_SATURATE)) return (u32)t;
  __int128 most = is_signed ? 0x7fffffff : (__int128)0xffffffffu, least = is_signed ? -(__int128)0x80000000ll : 0;
  return (u32)(t < least ? least : t > most ? most : t);
}

u32 w_set_video(u32 how, u32 lanes, u32 flags, u32 a, u32 b, u32 c) {
  u32 bits = 32 / lanes, packed = 0, total = c;
  for (u32 i = 0; i < lanes; i++) {
    u32 part = lanes == 2 ? HALF_0 + i : BYTE_0 + i;
    u32 r = w_compare_video(how, selected(a, part, flags & W_SIGNED_A), selected(b, part, flags & W_SIGNED_B));
    packed |= r << (i * bits), total += r;
  }
  return flags & W_ACCUMULATE ? total : packed;
}
