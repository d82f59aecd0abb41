/* mma.sync of the kinds f8f6f4, mxf8f6f4, mxf4 and mxf4nvf4: small floats, with scales of blocks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Fragments are those of mma.c: elements of 4 and 6 bits lie in bytes (4 bits in the middle), but 8 in
 * a word for the kinds of 4 bits alone. Lane 4 g + 2 i of a quad holds the scales of row g of A, the
 * next lane those of row g + 8; lane 4 n + i those of column n of B. Each block of the depth is
 * summed in f32, then scaled. */
#include "lane.h"
#include "mma.h"

enum { ROWS = 16, COLUMNS = 8, DEPTH = 64 };

static float value_of(VgElement e, int packed, uint32_t bits) {
  switch (e) {
  case VG_E_E4M3: return (float)w_decode(W_E4M3, bits);
  case VG_E_E5M2: return (float)w_decode(W_E5M2, bits);
  case VG_E_E2M3: return (float)w_decode(W_E2M3, bits & 63);
  case VG_E_E3M2: return (float)w_decode(W_E3M2, bits & 63);
  default: return (float)w_decode(W_E2M1, packed ? bits & 15 : bits >> 2 & 15);
  }
}

/* Elements of word `word` of a row. */
static void unpack_word(VgElement e, int packed, uint32_t word, float *out) {
  uint32_t count = packed ? 8 : 4;
  for (uint32_t i = 0; i < count; i++) out[i] = value_of(e, packed, word >> 32 / count * i & 0xff);
}

static void read_a(const VgMmaScaled *s, uint32_t *const *a, float *out) {
  uint32_t each = s->packed ? 8 : 4;
  for (uint32_t r = 0; r < 4; r++)
    for (uint32_t l = 0; l < VG_LANES; l++)
      unpack_word(s->a, s->packed, a[r][l], out + (l / 4 + r % 2 * 8) * DEPTH + (r / 2 * 4 + l % 4) * each);
}

static void read_b(const VgMmaScaled *s, uint32_t *const *b, float *out) {
  uint32_t each = s->packed ? 8 : 4;
  float values[8];
  for (uint32_t r = 0; r < 2; r++)
    for (uint32_t l = 0; l < VG_LANES; l++) {
      unpack_word(s->b, s->packed, b[r][l], values);
      for (uint32_t i = 0; i < each; i++) out[((r * 4 + l % 4) * each + i) * COLUMNS + l / 4] = values[i];
    }
}

static double scale_of(const VgMmaScaled *s, uint32_t word, uint32_t byte) {
  uint32_t bits = word >> 8 * (byte & 3) & 0xff;
  if (s->ue4m3) return w_decode(W_E4M3, bits);
  return bits == 255 ? __builtin_nan("") : __builtin_ldexp(1., (int)bits - 127);
}

static float *sum_at(float *sums, uint32_t l, uint32_t i) { /* i: register of f32 */
  return sums + (l / 4 + i / 2 * 8) * COLUMNS + l % 4 * 2 + i % 2;
}

void vg_mma_scaled(const VgMmaScaled *s, uint32_t mask, uint32_t *const *d, uint32_t *const *a,
                   uint32_t *const *b, uint32_t *const *c, const uint32_t *scale_a,
                   uint16_t *const *id_a, const uint32_t *scale_b, uint16_t *const *id_b) {
  float left[ROWS * DEPTH], right[DEPTH * COLUMNS], sums[ROWS * COLUMNS];
  uint32_t depth = s->packed ? 64 : 32, block = s->block ? s->block : depth;
  uint32_t lead = (uint32_t)__builtin_ctz(mask);
  read_a(s, a, left), read_b(s, b, right);
  for (uint32_t l = 0; l < VG_LANES; l++)
    for (uint32_t i = 0; i < 4; i++)
      *sum_at(sums, l, i) = s->f16 ? w_h2f(c[i / 2][l] >> 16 * (i % 2) & 0xffff) : w_f32(c[i][l]);
  for (uint32_t j = 0; j * block < depth; j++) {
    float part[ROWS * COLUMNS] = {0};
    vg_product_floats(ROWS, block, left + j * block, DEPTH, right + j * block * COLUMNS, COLUMNS, part, COLUMNS);
    for (uint32_t i = 0; i < ROWS * COLUMNS; i++) {
      uint32_t row = i / COLUMNS, n = i % COLUMNS;
      double scaled = part[i];
      if (s->block) {
        uint32_t at_a = row % 8 * 4 + id_a[1][lead] % 2 * 2 + row / 8, at_b = n * 4 + id_b[1][lead] % 4;
        scaled *= scale_of(s, scale_a[at_a], id_a[0][lead] + j) * scale_of(s, scale_b[at_b], id_b[0][lead] + j);
      }
      sums[i] += (float)scaled;
    }
  }
  for (uint32_t l = 0; l < VG_LANES; l++)
    for (uint32_t i = 0; i < (s->f16 ? 2u : 4u) && (mask >> l & 1); i++)
      d[i][l] = s->f16 ? w_f2h(*sum_at(sums, l, 2 * i)) | w_f2h(*sum_at(sums, l, 2 * i + 1)) << 16
                       : w_b32(*sum_at(sums, l, i));
}
