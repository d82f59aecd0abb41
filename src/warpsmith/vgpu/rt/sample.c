/* Sample a texture: texel formats, addressing, filtering with 8-bit weights, levels, cube faces.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: CUDA C++ Programming Guide, "Texture Fetching": a linear filter's weight is a fixed-point
 * number with 8 bits of fraction, and x_B = x - 0.5 is where it starts.
 */
#include <math.h>
#include "lane.h"
#include "texture.h"

float vg_half_to_float(uint16_t h) { return w_h2f(h); }
uint16_t vg_float_to_half(float x) { return (uint16_t)w_f2h(x); }

static uint32_t axes(uint32_t geometry) {
  static const uint8_t count[] = {1, 2, 3, 1, 2, 2, 2};
  return count[geometry];
}

/* ------------------------------------------------------------------------------- texels */

static float linear_of_srgb(float c) {
  return c <= 0.04045f ? c / 12.92f : powf((c + 0.055f) / 1.055f, 2.4f);
}

static void channel(const VgTexture *t, const char *p, int i, VgTexelValue *out) {
  int32_t s = 0;
  switch (t->format) {
  case VG_T_U8: s = ((const uint8_t *)p)[i]; break;
  case VG_T_S8: s = ((const int8_t *)p)[i]; break;
  case VG_T_U16: s = ((const uint16_t *)p)[i]; break;
  case VG_T_S16: s = ((const int16_t *)p)[i]; break;
  case VG_T_F16: out->f[i] = w_h2f(((const uint16_t *)p)[i]); return;
  default: memcpy(&out->u[i], p + 4 * i, 4); return;
  }
  static const float most[] = {255.0f, 127.0f, 65535.0f, 32767.0f};
  if (!t->scaled) { out->u[i] = (uint32_t)s; return; }
  out->f[i] = fmaxf((float)s / most[t->format], -1.0f);
  if (t->srgb && i < 3) out->f[i] = linear_of_srgb(out->f[i]);
}

static int is_float(const VgTexture *t) { return t->format >= VG_T_F16 || t->scaled; }

/* What the channels that a texture has not are read as: 0, 0, 0, 1. */
static VgTexelValue nothing(const VgTexture *t) {
  VgTexelValue v = {.u = {0, 0, 0, 0}};
  if (is_float(t)) v.f[3] = 1.0f;
  else v.u[3] = 1;
  return v;
}

static VgTexelValue load(const VgTexture *t, uint32_t layer, const int64_t at[3], const VgLevel *v) {
  VgTexelValue out = nothing(t);
  const char *p = v->data + layer * v->layer + (uint64_t)at[2] * v->slice + (uint64_t)at[1] * v->row +
                  (uint64_t)at[0] * t->texel_bytes;
  for (uint32_t i = 0; i < t->channels; i++) channel(t, p, (int)i, &out);
  return out;
}

/* The index of a texel along an axis of n, -1 for the border's color. */
static int64_t addressed(uint32_t mode, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  switch (mode) {
  case VG_BORDER: return -1;
  case VG_CLAMP: return i < 0 ? 0 : n - 1;
  case VG_WRAP: return (i % n + n) % n;
  }
  int64_t j = (i % (2 * n) + 2 * n) % (2 * n);
  return j < n ? j : 2 * n - 1 - j;
}

static VgTexelValue addressed_texel(const VgTexture *t, uint32_t layer, const int64_t at[3], const VgLevel *v) {
  const int64_t size[3] = {v->width, v->height, v->depth};
  int64_t where[3] = {0, 0, 0};
  for (uint32_t i = 0; i < axes(t->geometry); i++) {
    where[i] = addressed(t->addressing[i], at[i], size[i]);
    if (where[i] < 0) {
      VgTexelValue border;
      memcpy(border.f, t->border, sizeof border);
      return border;
    }
  }
  return load(t, layer, where, v);
}

/* Integer coordinates. Linear memory, the one kind CUDA reads so in one dimension, is 0 outside. */
VgTexelValue vg_texel(const VgTexture *t, uint32_t layer, const int64_t at[3], uint32_t level) {
  const VgLevel *v = &t->level[level < t->levels ? level : t->levels - 1];
  if (t->geometry == VG_1D && (at[0] < 0 || at[0] >= v->width)) return (VgTexelValue){.u = {0, 0, 0, 0}};
  return addressed_texel(t, layer, at, v);
}

/* ------------------------------------------------------------------------------ filtering */

static float in_texels(const VgTexture *t, float x, uint32_t size) {
  if (x != x) return 0.0f;
  float scaled = t->normalized ? x * (float)size : x;
  return fminf(fmaxf(scaled, -1e15f), 1e15f);
}

/* The weight of the upper neighbor, rounded to 8 bits of fraction (256 is exactly 1). */
static float weight(float fraction) { return floorf(fraction * 256.0f + 0.5f) / 256.0f; }

static VgTexelValue nearest(const VgTexture *t, uint32_t layer, const float at[3], const int32_t shift[3],
                            const VgLevel *v) {
  const uint32_t size[3] = {v->width, v->height, v->depth};
  int64_t where[3] = {0, 0, 0};
  for (uint32_t i = 0; i < axes(t->geometry); i++)
    where[i] = (int64_t)floorf(in_texels(t, at[i], size[i])) + shift[i];
  return addressed_texel(t, layer, where, v);
}

/* The lower neighbor along each axis, and the weight of the upper one. */
static void footprint(const VgTexture *t, const float at[3], const int32_t shift[3], const VgLevel *v,
                      int64_t low[3], float upper[3]) {
  const uint32_t size[3] = {v->width, v->height, v->depth};
  for (uint32_t i = 0; i < axes(t->geometry); i++) {
    float b = in_texels(t, at[i], size[i]) - 0.5f, whole = floorf(b);
    low[i] = (int64_t)whole + shift[i], upper[i] = weight(b - whole);
  }
}

static VgTexelValue blended(const VgTexture *t, uint32_t layer, const float at[3], const int32_t shift[3],
                            const VgLevel *v) {
  int64_t low[3] = {0, 0, 0};
  float upper[3] = {0, 0, 0};
  uint32_t n = axes(t->geometry);
  footprint(t, at, shift, v, low, upper);
  VgTexelValue sum = {.f = {0, 0, 0, 0}};
  for (uint32_t corner = 0; corner < 1u << n; corner++) {
    int64_t where[3] = {0, 0, 0};
    float share = 1.0f;
    for (uint32_t i = 0; i < n; i++) {
      uint32_t up = corner >> i & 1;
      where[i] = low[i] + up;
      share *= up ? upper[i] : 1.0f - upper[i];
    }
    if (share == 0.0f) continue;   /* what is not asked for must not bring a NaN */
    VgTexelValue texel = addressed_texel(t, layer, where, v);
    for (int c = 0; c < 4; c++) sum.f[c] += share * texel.f[c];
  }
  return sum;
}

static VgTexelValue of_level(const VgTexture *t, uint32_t layer, const float at[3], const int32_t shift[3],
                             uint32_t level) {
  const VgLevel *v = &t->level[level];
  return t->linear ? blended(t, layer, at, shift, v) : nearest(t, layer, at, shift, v);
}

VgTexelValue vg_sample(const VgTexture *t, uint32_t layer, const float at[3], const int32_t shift[3],
                       float level) {
  float most = fminf(t->most_level, (float)(t->levels - 1));
  float detail = fminf(fmaxf(level + t->bias, t->least_level), most);
  if (!(detail > 0.0f)) detail = 0.0f;
  if (!t->mip_linear) return of_level(t, layer, at, shift, (uint32_t)floorf(detail + 0.5f));
  uint32_t low = (uint32_t)floorf(detail);
  float upper = weight(detail - (float)low);
  VgTexelValue a = of_level(t, layer, at, shift, low);
  if (upper == 0.0f) return a;
  VgTexelValue b = of_level(t, layer, at, shift, low + 1);
  for (int c = 0; c < 4; c++) a.f[c] = (1.0f - upper) * a.f[c] + upper * b.f[c];
  return a;
}

/* The four texels that a linear filter would blend, one channel: (0,1), (1,1), (1,0), (0,0). */
VgTexelValue vg_gather(const VgTexture *t, uint32_t layer, const float at[3], const int32_t shift[3],
                       uint32_t component) {
  static const uint8_t dx[] = {0, 1, 1, 0}, dy[] = {1, 1, 0, 0};
  int64_t low[3] = {0, 0, 0};
  float upper[3];
  VgTexelValue out;
  footprint(t, at, shift, &t->level[0], low, upper);
  for (int i = 0; i < 4; i++) {
    int64_t where[3] = {low[0] + dx[i], low[1] + dy[i], 0};
    out.u[i] = addressed_texel(t, layer, where, &t->level[0]).u[component];
  }
  return out;
}

uint32_t vg_cube_face(const float d[3], float at[2]) {
  float ax = fabsf(d[0]), ay = fabsf(d[1]), az = fabsf(d[2]), s, v, major;
  uint32_t face;
  if (ax >= ay && ax >= az) face = d[0] < 0, major = ax, s = d[0] < 0 ? d[2] : -d[2], v = -d[1];
  else if (ay >= az) face = 2 + (d[1] < 0), major = ay, s = d[0], v = d[1] < 0 ? -d[2] : d[2];
  else face = 4 + (d[2] < 0), major = az, s = d[2] < 0 ? -d[0] : d[0], v = -d[1];
  at[0] = major > 0 ? (s / major + 1.0f) / 2.0f : 0.5f;
  at[1] = major > 0 ? (v / major + 1.0f) / 2.0f : 0.5f;
  return face;
}
