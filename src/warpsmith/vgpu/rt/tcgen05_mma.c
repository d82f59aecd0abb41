/* tcgen05.mma: D = A B + D, D in tensor memory, A there or in shared memory, B in shared memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every instruction multiplies 32 bytes of depth. The instruction descriptor says the element types,
 * M, N, signs and majors (PTX ISA, tcgen05 instruction descriptor). Sums of float types are f32, in
 * the order of the depth; a scaled block is summed before it is scaled. */
#include "lane.h"
#include "tcgen05.h"
#include "tile.h"

enum { DEPTH = 64, LINE = 256 + 16 };

typedef struct Product {
  const VgTensorMma *s;
  uint32_t descriptor;
  VgElement a, b;
  uint32_t m, n, k;           /* of one block; n of all */
  uint32_t f16;               /* D is f16, in the low halves of its columns */
  float scale[2];             /* D's */
} Product;

static uint32_t field(uint32_t word, uint32_t first, uint32_t bits) {
  return word >> first & ((1u << bits) - 1);
}

static int element_of(VgWarp *w, uint32_t site, uint32_t lane, const VgTensorMma *s, uint32_t code,
                      VgElement *found) {
  static const int8_t types[][8] = {
      [VG_TENSOR_F16] = {VG_E_F16, VG_E_BF16, -1, -1, -1, -1, -1, -1},
      [VG_TENSOR_TF32] = {-1, -1, VG_E_TF32, -1, -1, -1, -1, -1},
      [VG_TENSOR_F8] = {VG_E_E4M3, VG_E_E5M2, -1, VG_E_E2M3, VG_E_E3M2, VG_E_E2M1, -1, -1},
      [VG_TENSOR_I8] = {VG_E_U8, VG_E_S8, -1, -1, -1, -1, -1, -1},
      [VG_TENSOR_F4] = {-1, VG_E_E2M1, -1, -1, -1, -1, -1, -1},
  };
  int type = types[s->kind][code];
  *found = (VgElement)type;
  if (type >= 0) return 0;
  return vg_tmem_fault(w, VG_FAULT_ILLEGAL_ACCESS, site, 1u << lane, "the instruction descriptor has element type %u, which this kind has not", code);
}

static int describe(VgWarp *w, uint32_t site, uint32_t lane, const VgTensorMma *s, uint32_t word,
                    Product *p) {
  uint32_t blocks = s->pair ? 2 : 1, m = field(word, 24, 5) << 4;
  *p = (Product){.s = s, .descriptor = word, .m = m / blocks, .n = field(word, 17, 6) << 3,
                 .k = 32 / (s->kind == VG_TENSOR_F16 ? 2 : s->kind == VG_TENSOR_TF32 ? 4 : 1)};
  if (s->kind == VG_TENSOR_F4) p->k = 64;
  p->f16 = !s->block && s->kind != VG_TENSOR_I8 && field(word, 4, 2) == 0;
  uint32_t wanted = s->kind == VG_TENSOR_I8 ? 2 : p->f16 ? 0 : 1;
  if (!s->block && field(word, 4, 2) != wanted)
    return vg_tmem_fault(w, VG_FAULT_ILLEGAL_ACCESS, site, 1u << lane, "the instruction descriptor %#x has a type of D that this kind has not", word);
  int small = s->stationary && m == 32, tall = m == 64 || m == 128 || (s->pair && m == 256) || small;
  if (!tall || (s->pair && m == 64) || !p->n || p->n > 256 || p->n % (s->block || (m == 64 && !s->stationary) ? 8 : 16))
    return vg_tmem_fault(w, VG_FAULT_ILLEGAL_ACCESS, site, 1u << lane, "the instruction descriptor %#x asks for M = %u and N = %u", word, m, p->n);
  if (word >> 2 & 1)
    return vg_tmem_fault(w, VG_FAULT_ILLEGAL_ACCESS, site, 1u << lane, "the instruction descriptor %#x asks for a sparse A", word);
  return element_of(w, site, lane, s, field(word, 7, 3), &p->a) ||
         element_of(w, site, lane, s, field(word, 10, s->kind == VG_TENSOR_F4 ? 2 : 3), &p->b);
}

/* ---------------------------------------------------------------------------------- elements */

static float small_value(VgElement e, uint32_t bits) {
  return (float)w_decode(e == VG_E_E2M1 ? W_E2M1 : e == VG_E_E2M3 ? W_E2M3 : W_E3M2, bits);
}

/* 16 bytes as they lie in shared memory (packed) or in containers of 8 bits; gives their number. */
static uint32_t unpack(VgElement e, int packed, int containers, const uint32_t words[4], uint32_t *out) {
  uint32_t bits = vg_element_bits(e);
  if (vg_is_integer(e)) return vg_unpack_integers(e, words, 4, (int32_t *)out), 128 / bits;
  if (bits >= 8) return vg_unpack_floats(e, words, 4, (float *)out), 128 / bits;
  uint32_t count = packed ? 32 : 16;
  uint8_t bytes[18] = {0};
  memcpy(bytes, words, 16);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = containers ? 8 * i + (bits == 4 ? 2 : 0) : bits * i;
    uint32_t pair = bytes[at / 8] | (uint32_t)bytes[at / 8 + 1] << 8;
    ((float *)out)[i] = small_value(e, pair >> at % 8 & ((1u << bits) - 1));
  }
  return count;
}

/* Rows `first` … of a matrix in a block's shared memory, as out[row][depth] or, turned, out[depth][row]. */
static int read_shared(VgWarp *w, uint32_t site, uint32_t lane, const Product *p, const VgBlock *b,
                       uint64_t descriptor, VgElement e, uint32_t transposed, uint32_t rows, int turned,
                       uint32_t *out, uint32_t ld) {
  uint32_t swizzle, values[32], packed = p->s->kind == VG_TENSOR_F4, bits = vg_element_bits(e);
  if (vg_tmem_swizzle(w, site, lane, descriptor, &swizzle)) return 1;
  VgTile t = vg_tile(descriptor, swizzle, bits > 8 ? bits / 8 : 1, transposed);
  uint32_t per = 16 / t.bytes, down = transposed ? per : 1, across = transposed ? 1 : per;
  uint32_t depths = packed ? 32 : p->k;
  for (uint32_t r = 0; r < rows; r += down)
    for (uint32_t k = 0; k < depths; k += across) {
      uint32_t words[4];
      uint32_t used = packed || bits >= 8 ? 16 : 2 * bits;   /* the rest is padding */
      if (vg_tmem_shared(w, site, lane, b, vg_chunk(&t, r, k), used, words)) return 1;
      uint32_t count = unpack(e, (int)packed, 0, words, values), k0 = packed ? 2 * k : k;
      for (uint32_t i = 0; i < count; i++) {
        uint32_t y = r + (transposed ? i : 0), x = k0 + (transposed ? 0 : i);
        if (y < rows) out[turned ? x * ld + y : y * ld + x] = values[i];
      }
    }
  return 0;
}

/* ------------------------------------------------------------------------------------ layouts */

/* Lane of a row, for D and for A in tensor memory (layouts A to G of the manual). */
static uint32_t lane_of(const Product *p, uint32_t row) {
  return p->m == 64 && !p->s->stationary && !p->s->pair ? row / 16 * 32 + row % 16 : row;
}

/* Into how many groups of lanes the columns of D are folded. */
static uint32_t folds_of(const Product *p) {
  if (p->m == 32) return 4;
  return p->m == 64 && (p->s->stationary || p->s->pair) ? 2 : 1;
}

static int read_tensor(VgWarp *w, uint32_t site, uint32_t lane, const Product *p, const VgBlock *b,
                       uint32_t address, uint32_t *out) {
  const VgTensor *t = vg_tmem_reach(w, site, 1u << lane, b, address & 0xffff, 8);
  if (!t) return 1;
  for (uint32_t row = 0; row < p->m; row++) {
    const uint32_t *words = &t->cell[((address >> 16) + lane_of(p, row)) % VG_TENSOR_LANES][address & 0xffff];
    uint32_t *to = out + row * DEPTH, packed = p->s->kind == VG_TENSOR_F4;
    to += unpack(p->a, (int)packed, 1, words, to);
    unpack(p->a, (int)packed, 1, words + 4, to);
  }
  return 0;
}

/* ------------------------------------------------------------------------------------- scales */

/* The scale of a row for one block of the depth: 4 bytes of a column belong to 32 rows. */
static double scale_of(const VgTensor *t, const Product *p, uint32_t address, uint32_t row,
                       uint32_t id, uint32_t block) {
  uint32_t word = t->cell[row % 32][(address & 0xffff) + row / 32], at = id + block;
  uint32_t byte = word >> 8 * (at & 3) & 0xff;
  if (field(p->descriptor, 23, 1) == 0) return w_decode(W_E4M3, byte);
  return byte == 255 ? __builtin_nan("") : __builtin_ldexp(1., (int)byte - 127);
}

typedef struct Scales { double a[128][4], b[256][4]; uint32_t blocks; } Scales;

static int read_scales(VgWarp *w, uint32_t site, uint32_t lane, const Product *p, const VgBlock *b,
                       uint32_t scale_a, uint32_t scale_b, Scales *out) {
  uint32_t id[2] = {field(p->descriptor, 29, 2), field(p->descriptor, 4, 2)};
  uint32_t at[2] = {scale_a, scale_b}, rows[2] = {p->m, p->n};
  out->blocks = p->k / p->s->block;
  for (uint32_t i = 0; i < 2; i++) {
    const VgTensor *t = vg_tmem_reach(w, site, 1u << lane, b, at[i] & 0xffff, (rows[i] + 31) / 32);
    if (!t) return 1;
    for (uint32_t row = 0; row < rows[i]; row++)
      for (uint32_t j = 0; j < out->blocks; j++)
        (i ? out->b : out->a)[row][j] = scale_of(t, p, at[i], row, id[i], j);
  }
  return 0;
}

/* ------------------------------------------------------------------------------------ products */

static void load_rows(const Product *p, const VgTensor *t, uint32_t lane, uint32_t column,
                      uint32_t columns, uint32_t enable, uint32_t *sums) {
  for (uint32_t row = 0; row < 8; row++)
    for (uint32_t n = 0; n < columns; n++) {
      uint32_t x = t->cell[lane + row][column + n];
      if (!enable) x = 0;
      else if (p->f16) x = w_b32(w_h2f(x & 0xffff) * p->scale[0]);
      else if (p->s->kind != VG_TENSOR_I8) x = w_b32(w_f32(x) * p->scale[0]);
      sums[row * LINE + n] = x;
    }
}

static void store_rows(const Product *p, VgTensor *t, uint32_t lane, uint32_t column, uint32_t columns,
                       const uint32_t *disabled, const uint32_t *sums) {
  for (uint32_t row = 0; row < 8; row++) {
    if (disabled && disabled[(lane + row) / 32] >> (lane + row) % 32 & 1) continue;
    for (uint32_t n = 0; n < columns; n++) {
      uint32_t x = sums[row * LINE + n];
      t->cell[lane + row][column + n] = p->f16 ? w_f2h(w_f32(x)) : x;
    }
  }
}

static void multiply(const Product *p, const uint32_t *left, const uint32_t *right, uint32_t columns,
                     uint32_t *sums) {
  for (uint32_t n = 0; n < columns; n += 8)
    if (p->s->kind == VG_TENSOR_I8)
      vg_product_integers(8, p->k, (const int32_t *)left, DEPTH, (const int32_t *)right + n, LINE, (int32_t *)sums + n, LINE);
    else
      vg_product_floats(8, p->k, (const float *)left, DEPTH, (const float *)right + n, LINE, (float *)sums + n, LINE);
}

/* Eight rows from `row` on; each block of the depth is summed, then scaled. */
static void multiply_scaled(const Product *p, const Scales *s, uint32_t row, uint32_t first,
                            const uint32_t *left, const uint32_t *right, uint32_t columns, float *sums) {
  for (uint32_t j = 0; j < s->blocks; j++)
    for (uint32_t n = 0; n < columns; n += 8) {
      float part[8 * 8] = {0};
      uint32_t depth = j * p->s->block;
      vg_product_floats(8, p->s->block, (const float *)left + depth, DEPTH,
                        (const float *)right + depth * LINE + n, LINE, part, 8);
      for (uint32_t i = 0; i < 64; i++) {
        double scaled = part[i] * s->a[row + i / 8][j] * s->b[first + n + i % 8][j];
        sums[i / 8 * LINE + n + i % 8] += (float)scaled;
      }
    }
}

static void saturate(const VgTensor *t, uint32_t lane, uint32_t column, uint32_t columns, uint32_t enable,
                     uint32_t *sums) {
  for (uint32_t row = 0; row < 8; row++)
    for (uint32_t n = 0; n < columns && enable; n++) {
      int32_t before = (int32_t)t->cell[lane + row][column + n], *x = (int32_t *)&sums[row * LINE + n];
      *x = vg_add_saturated((int32_t)((uint32_t)*x - (uint32_t)before), before);
    }
}

static void multiply_block(const Product *p, const Scales *scales, VgTensor *t, uint32_t d,
                           uint32_t enable, const uint32_t *disabled, const uint32_t *left,
                           const uint32_t *right) {
  static _Thread_local uint32_t sums[8 * LINE];
  uint32_t folds = folds_of(p), columns = p->n / folds, column = d & 0xffff;
  for (uint32_t row = 0; row < p->m; row += 8)
    for (uint32_t f = 0; f < folds; f++) {
      uint32_t lane = ((d >> 16) + lane_of(p, row) + f * (VG_TENSOR_LANES / folds)) % VG_TENSOR_LANES;
      const uint32_t *a = left + row * DEPTH, *b = right + f * columns;
      load_rows(p, t, lane, column, columns, enable, sums);
      if (p->s->block) multiply_scaled(p, scales, row, f * columns, a, b, columns, (float *)sums);
      else multiply(p, a, b, columns, sums);
      if (p->s->kind == VG_TENSOR_I8 && field(p->descriptor, 3, 1))
        saturate(t, lane, column, columns, enable, sums);
      store_rows(p, t, lane, column, columns, disabled, sums);
    }
}

/* D is written, A and the scales in tensor memory are read, until a commit has been waited for. */
static void note(const Product *p, const VgBlock *issuer, VgTensor *t, const VgTensorOperands *o) {
  int half = lane_of(p, 16) == 32; /* 64 rows in 16 of every 32 lanes */
  vg_tmem_touch(t, issuer, half ? vg_tmem_half(o->d >> 16) : VG_TMEM_BOTH, o->d & 0xffff, p->n / folds_of(p), 1);
  if (p->s->a_in_tensor)
    vg_tmem_touch(t, issuer, half ? vg_tmem_half((uint32_t)o->a >> 16) : VG_TMEM_BOTH, o->a & 0xffff, 8, 0);
  if (!p->s->block) return;
  vg_tmem_touch(t, issuer, VG_TMEM_BOTH, o->scale_a & 0xffff, (p->m + 31) / 32, 0);
  vg_tmem_touch(t, issuer, VG_TMEM_BOTH, o->scale_b & 0xffff, (p->n + 31) / 32, 0);
}

int vg_tmem_mma(VgWarp *w, uint32_t site, const VgTensorMma *s, uint32_t lane, const VgTensorOperands *o) {
  static _Thread_local uint32_t left[128 * DEPTH], right[DEPTH * LINE];
  static _Thread_local Scales scales;
  VgBlock *blocks[2];
  Product p;
  uint32_t count = vg_tmem_pair(w, site, s->pair, blocks);
  if (!count || describe(w, site, lane, s, o->descriptor, &p)) return 1;
  p.scale[0] = w_f32((127u - o->scale_d) << 23);
  for (uint32_t i = 0; i < count; i++) /* each block of a pair holds its part of B's columns */
    if (read_shared(w, site, lane, &p, blocks[i], o->b, p.b, field(o->descriptor, 16, 1), p.n / count, 1,
                    right + i * (p.n / count), LINE))
      return 1;
  vg_tmem_issue(w->block);
  for (uint32_t i = 0; i < count; i++) {
    VgTensor *t = vg_tmem_reach(w, site, 1u << lane, blocks[i], o->d & 0xffff, p.n / folds_of(&p));
    if (!t) return 1;
    note(&p, w->block, t, o);
    if (s->a_in_tensor ? read_tensor(w, site, lane, &p, blocks[i], (uint32_t)o->a, left)
                       : read_shared(w, site, lane, &p, blocks[i], o->a, p.a, field(o->descriptor, 15, 1), p.m, 0, left, DEPTH))
      return 1;
    if (s->block && read_scales(w, site, lane, &p, blocks[i], o->scale_a, o->scale_b, &scales)) return 1;
    if (field(o->descriptor, 13, 1) != field(o->descriptor, 14, 1) && s->kind != VG_TENSOR_I8)
      for (uint32_t j = 0; j < p.m * DEPTH; j++) left[j] ^= 0x80000000u;
    multiply_block(&p, &scales, t, o->d, o->enable, o->disabled ? o->disabled + 4 * i : NULL, left, right);
  }
  return 0;
}
