/* wmma: loads, stores and products of fragments whose layout is ours to choose.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Element i of a matrix in row-major order lies in lane i % 32, place i / 32; narrow elements of
 * a lane are packed into registers in the order of their places. A fragment with more registers
 * than that needs (f16 of older shapes) uses the first ones; the rest repeat them. */
#include "lane.h"
#include "mma.h"

#define LANES for (uint32_t l = 0; l < VG_LANES; l++)
enum { MAX_ELEMENTS = 32 * 32 };

static uint32_t default_stride(const VgWmma *s) { return s->column_major ? s->rows : s->columns; }

/* Addresses of the elements of one place. */
static uint32_t place(const VgWmma *s, uint32_t bytes, uint32_t at, const uint64_t *address,
                      const uint32_t *stride, uint64_t *out) {
  uint32_t active = 0;
  LANES {
    uint32_t i = at * VG_LANES + l;
    if (i >= (uint32_t)s->rows * s->columns) continue;
    uint32_t row = i / s->columns, column = i % s->columns;
    uint32_t pitch = stride ? stride[l] : default_stride(s);
    uint64_t index = s->column_major ? (uint64_t)column * pitch + row : (uint64_t)row * pitch + column;
    out[l] = address[l] + index * bytes;
    active |= 1u << l;
  }
  return active;
}

typedef struct Walk {
  VgAccess access;
  uint32_t bytes, places, per_register;
} Walk;

static Walk walk(const VgWmma *s, uint32_t site) {
  uint32_t bytes = vg_element_bits(s->element) / 8;
  Walk walk = {.bytes = bytes, .places = (s->rows * s->columns + VG_LANES - 1u) / VG_LANES};
  walk.per_register = bytes > 4 ? 1 : 4 / bytes;
  walk.access = (VgAccess){.site = site, .space = s->space, .bytes = (uint8_t)bytes, .count = 1,
                           .reg_bytes = (uint8_t)(bytes == 1 ? 2 : bytes)};
  return walk;
}

int vg_wmma_load(VgWarp *w, uint32_t site, const VgWmma *s, uint32_t mask, void *const *d,
                 const uint64_t *address, const uint32_t *stride) {
  Walk k = walk(s, site);
  uint64_t at[VG_LANES], lanes[VG_LANES];
  for (uint32_t i = 0; i < k.places; i++) {
    uint32_t active = place(s, k.bytes, i, address, stride, at) & mask;
    if (active && vg_load(w, &k.access, active, at, (void *const[]){lanes})) return 1;
    uint32_t r = i / k.per_register, shift = i % k.per_register * k.bytes * 8;
    LANES {
      if (!(active >> l & 1)) continue;
      if (k.bytes == 8) ((uint64_t *)d[r])[l] = lanes[l];
      else {
        uint32_t x = k.bytes == 4 ? ((uint32_t *)lanes)[l] : ((uint16_t *)lanes)[l];
        uint32_t *to = (uint32_t *)d[r] + l;
        *to = shift ? *to | x << shift : x;
      }
    }
  }
  uint32_t needed = (k.places + k.per_register - 1) / k.per_register;
  for (uint32_t r = needed; r < s->registers; r++)
    LANES if (mask >> l & 1) ((uint32_t *)d[r])[l] = ((uint32_t *)d[r % needed])[l];
  return 0;
}

int vg_wmma_store(VgWarp *w, uint32_t site, const VgWmma *s, uint32_t mask, void *const *a,
                  const uint64_t *address, const uint32_t *stride) {
  Walk k = walk(s, site);
  uint64_t at[VG_LANES], lanes[VG_LANES];
  for (uint32_t i = 0; i < k.places; i++) {
    uint32_t active = place(s, k.bytes, i, address, stride, at) & mask;
    uint32_t r = i / k.per_register, shift = i % k.per_register * k.bytes * 8;
    LANES {
      if (k.bytes == 8) lanes[l] = ((uint64_t *)a[r])[l];
      else if (k.bytes == 4) ((uint32_t *)lanes)[l] = ((uint32_t *)a[r])[l];
      else ((uint16_t *)lanes)[l] = (uint16_t)(((uint32_t *)a[r])[l] >> shift);
    }
    if (active && vg_store(w, &k.access, active, at, (const void *const[]){lanes})) return 1;
  }
  return 0;
}

/* ------------------------------------------------------------------------------------ products */

/* A fragment as 32-bit values in row-major order. */
static void gather(VgElement e, void *const *fragment, uint32_t elements, uint32_t *out) {
  uint32_t per = 32 / vg_element_bits(e), values[4];
  for (uint32_t r = 0; r * per * VG_LANES < elements || r == 0; r++)
    LANES {
      const uint32_t *word = (const uint32_t *)fragment[r] + l;
      if (e == VG_E_S32) values[0] = *word;
      else if (vg_is_integer(e)) vg_unpack_integers(e, word, 1, (int32_t *)values);
      else vg_unpack_floats(e, word, 1, (float *)values);
      for (uint32_t i = 0; i < per; i++) {
        uint32_t at = (r * per + i) * VG_LANES + l;
        if (at < elements) out[at] = values[i];
      }
    }
}

static void scatter(VgElement e, uint32_t mask, void *const *fragment, uint32_t registers,
                    uint32_t elements, const uint32_t *in) {
  uint32_t per = 32 / vg_element_bits(e);
  uint32_t needed = (elements / VG_LANES + per - 1) / per;
  for (uint32_t r = 0; r < registers; r++)
    LANES {
      if (!(mask >> l & 1)) continue;
      const uint32_t *from = in + r % needed * per * VG_LANES + l;
      uint32_t x = *from;
      if (e == VG_E_F16)
        x = w_f2h(w_f32(from[0])) | w_f2h(w_f32(from[VG_LANES])) << 16;
      ((uint32_t *)fragment[r])[l] = x;
    }
}

static void multiply_f64(const VgMma *s, uint32_t mask, void *const *d, void *const *a,
                         void *const *b, void *const *c) {
  double sums[64];
  for (uint32_t i = 0; i < 64; i++) {
    double sum = ((const double *)c[i / 32])[i % 32];
    for (uint32_t k = 0; k < 4; k++)
      sum = __builtin_fma(((const double *)a[0])[i / 8 * 4 + k],
                          ((const double *)b[0])[k * 8 + i % 8], sum);
    sums[i] = sum;
  }
  (void)s;
  for (uint32_t i = 0; i < 64; i++)
    if (mask >> i % 32 & 1) ((double *)d[i / 32])[i % 32] = sums[i];
}

void vg_wmma_mma(const VgMma *s, const uint8_t registers[4], uint32_t mask, void *const *d,
                 void *const *a, void *const *b, void *const *c) {
  if (s->a == VG_E_F64) {
    multiply_f64(s, mask, d, a, b, c);
    return;
  }
  uint32_t left[MAX_ELEMENTS], right[MAX_ELEMENTS], sums[MAX_ELEMENTS], products[MAX_ELEMENTS] = {0};
  uint32_t integer = (uint32_t)vg_is_integer(s->a), total = (uint32_t)s->m * s->n;
  gather(s->a, a, (uint32_t)s->m * s->k, left);
  gather(s->b, b, (uint32_t)s->k * s->n, right);
  gather(s->c, c, total, sums);
  for (uint32_t n = 0; n < s->n; n += 8)
    if (integer)
      vg_product_integers(s->m, s->k, (int32_t *)left, s->k, (int32_t *)right + n, s->n,
                          (int32_t *)products + n, s->n);
    else
      vg_product_floats(s->m, s->k, (float *)left, s->k, (float *)right + n, s->n, (float *)sums + n,
                        s->n);
  for (uint32_t i = 0; integer && i < total; i++)
    sums[i] = s->flags & VG_MMA_SATURATE
                  ? (uint32_t)vg_add_saturated((int32_t)sums[i], (int32_t)products[i])
                  : sums[i] + products[i];
  scatter(s->d, mask, d, registers[0], total, sums);
}
