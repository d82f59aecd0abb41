/* wgmma.mma_async: one warp's 16 rows of a 64-row product, with operands in shared memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A descriptor is that of tile.h with the swizzle in bits 62-63: none, 128, 64, 32 bytes. The product
 * is computed when the instruction is issued. */
#include "check.h"
#include "mma.h"
#include "lane.h"
#include "tile.h"

enum { MAX_K = 64, LINE = 256 + 16 }; /* lines are not a power of two: they would share cache sets */

static VgTile tile(uint64_t descriptor, VgElement e, uint32_t transposed) {
  static const uint8_t swizzles[4] = {0, 3, 2, 1};
  return vg_tile(descriptor, swizzles[descriptor >> 62], vg_element_bits(e) / 8, transposed);
}

/* The part of a tile from `row` on, as values[row][depth] or, turned, values[depth][row]. */
static int read_tile(VgWarp *w, uint32_t site, const VgTile *t, VgElement e, uint32_t row,
                     uint32_t rows, uint32_t depths, int turned, uint32_t *out, uint32_t ld) {
  uint32_t per = 16 / t->bytes, values[16];
  uint32_t down = t->transposed ? per : 1, across = t->transposed ? 1 : per;
  for (uint32_t r = 0; r < rows; r += down)
    for (uint32_t k = 0; k < depths; k += across) {
      uint64_t at = vg_chunk(t, row + r, k);
      if (at + 16 > w->block->shared_bytes) {
        if (vg_fault(w, VG_FAULT_OUT_OF_BOUNDS, site, w->mask)) {
          VgFault *f = &w->worker->fault;
          f->space = VG_SHARED, f->bytes = 16, f->address = at, f->limit = w->block->shared_bytes;
        }
        return 1;
      }
      uint32_t packed[4];
      if (vg_checking(w)) vg_check_product(w, site, (uint64_t)(uintptr_t)w->block->shared + at, 16);
      memcpy(packed, w->block->shared + at, 16);
      if (vg_is_integer(e)) vg_unpack_integers(e, packed, 4, (int32_t *)values);
      else vg_unpack_floats(e, packed, 4, (float *)values);
      for (uint32_t i = 0; i < per; i++) {
        uint32_t y = r + (t->transposed ? i : 0), x = k + (t->transposed ? 0 : i);
        out[turned ? x * ld + y : y * ld + x] = values[i];
      }
    }
  return 0;
}

static void negate(uint32_t *values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) values[i] ^= 0x80000000u;
}

static void load_sums(const VgMma *s, uint32_t *const *d, uint32_t *sums) {
  for (uint32_t j = 0; j < s->n / 8u; j++)
    for (uint32_t half = 0; half < 2; half++)
      for (uint32_t l = 0; l < VG_LANES; l++) {
        uint32_t *to = sums + (8 * half + l / 4) * LINE + 8 * j + 2 * (l % 4);
        if (s->d == VG_E_F16) vg_unpack_floats(VG_E_F16, &d[2 * j + half][l], 1, (float *)to);
        else to[0] = d[4 * j + 2 * half][l], to[1] = d[4 * j + 2 * half + 1][l];
      }
}

static void store_sums(const VgMma *s, uint32_t mask, uint32_t *const *d, const uint32_t *sums) {
  for (uint32_t j = 0; j < s->n / 8u; j++)
    for (uint32_t half = 0; half < 2; half++)
      for (uint32_t l = 0; l < VG_LANES; l++) {
        const uint32_t *from = sums + (8 * half + l / 4) * LINE + 8 * j + 2 * (l % 4);
        const float *value = (const float *)from;
        if (!(mask >> l & 1)) continue;
        if (s->d == VG_E_F16)
          d[2 * j + half][l] =
              vg_pack_float(VG_E_F16, value[0]) | vg_pack_float(VG_E_F16, value[1]) << 16;
        else d[4 * j + 2 * half][l] = from[0], d[4 * j + 2 * half + 1][l] = from[1];
      }
}

/* Bits: |a and b|, byte by byte. */
static void count_bits(uint32_t n, const uint32_t *left, const uint32_t *right, uint32_t *sums) {
  for (uint32_t row = 0; row < 16; row++)
    for (uint32_t k = 0; k < 32; k++)
      for (uint32_t i = 0; i < n; i++)
        sums[row * LINE + i] += w_popc32(left[row * MAX_K + k] & right[k * LINE + i]);
}

static void multiply(const VgMma *m, uint32_t *left, uint32_t *right, uint32_t *sums) {
  if (m->a == VG_E_B1) {
    count_bits(m->n, left, right, sums);
    return;
  }
  for (uint32_t n = 0; n < m->n; n += 8)
    if (vg_is_integer(m->a)) vg_product_integers(16, m->k, (int32_t *)left, MAX_K, (int32_t *)right + n, LINE,
                                                 (int32_t *)sums + n, LINE);
    else vg_product_floats(16, m->k, (float *)left, MAX_K, (float *)right + n, LINE, (float *)sums + n, LINE);
}

/* The warp's rows of A; bits are read as bytes, and a sparse A has half of the depth. */
static int read_left(VgWarp *w, uint32_t site, const VgWgmma *s, VgElement e, uint32_t depth, uint32_t lane,
                     uint32_t *const *a, const uint64_t *descriptor, uint32_t *left) {
  if (a) {
    vg_read_fragment(e, 4, a, left, MAX_K);
    return 0;
  }
  VgTile t = tile(descriptor[lane], e, s->transpose_a);
  return read_tile(w, site, &t, e, w->index % 4 * 16, 16, depth, 0, left, MAX_K);
}

typedef struct Scratch {
  uint32_t left[16 * MAX_K], packed[16 * MAX_K], right[MAX_K * LINE], sums[16 * LINE], old[16 * LINE];
} Scratch;

int vg_wgmma_sparse(VgWarp *w, uint32_t site, const VgWgmma *s, uint32_t mask, uint32_t *const *d,
                    uint32_t *const *a, const uint64_t *a_descriptor, const uint64_t *b_descriptor,
                    const uint32_t *scale_d, const uint32_t *meta, uint32_t selector) {
  const VgMma *m = &s->shape;
  VgElement left_type = m->a == VG_E_B1 ? VG_E_U8 : m->a, right_type = m->b == VG_E_B1 ? VG_E_U8 : m->b;
  uint32_t lane = (uint32_t)__builtin_ctz(mask), integer = (uint32_t)vg_is_integer(m->a);
  uint32_t depth = m->a == VG_E_B1 ? m->k / 8u : m->k;
  static _Thread_local Scratch scratch;   /* its address is asked for once: that is a call */
  uint32_t *left = scratch.left, *packed = scratch.packed, *right = scratch.right, *sums = scratch.sums;
  if (read_left(w, site, s, left_type, meta ? depth / 2 : depth, lane, a, a_descriptor, meta ? packed : left))
    return 1;
  if (meta) vg_expand(m->a, m->k, meta, selector, packed, MAX_K, left, MAX_K);
  VgTile t = tile(b_descriptor[lane], right_type, s->transpose_b);
  if (read_tile(w, site, &t, right_type, 0, m->n, depth, 1, right, LINE)) return 1;
  if (s->scale_a * s->scale_b < 0) negate(left, 16 * MAX_K);
  if (scale_d[lane] && !integer) load_sums(m, d, sums);
  else for (uint32_t row = 0; row < 16; row++) memset(sums + row * LINE, 0, m->n * sizeof *sums);
  multiply(m, left, right, sums);
  if (scale_d[lane] && integer) {
    uint32_t *old = scratch.old;
    load_sums(m, d, old);
    for (uint32_t i = 0; i < 16 * LINE; i++)
      sums[i] = m->flags & VG_MMA_SATURATE
                    ? (uint32_t)vg_add_saturated((int32_t)sums[i], (int32_t)old[i])
                    : sums[i] + old[i];
  }
  store_sums(m, mask, d, sums);
  return 0;
}

int vg_wgmma(VgWarp *w, uint32_t site, const VgWgmma *s, uint32_t mask, uint32_t *const *d,
             uint32_t *const *a, const uint64_t *a_descriptor, const uint64_t *b_descriptor,
             const uint32_t *scale_d) {
  return vg_wgmma_sparse(w, site, s, mask, d, a, a_descriptor, b_descriptor, scale_d, NULL, 0);
}
