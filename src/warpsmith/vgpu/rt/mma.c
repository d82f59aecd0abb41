/* mma.sync: fragments to blocks of floats or integers, a small product, and back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lane l = 4 g + t. Word t of row g of an 8-row block lies in lane l, so that the 32 lanes of one
 * register of A are 8 rows of 4 words in row-major order; those of B are 8 columns of 4 words.
 * Register r of A has rows 8 (r % 2) … of 16 and words 4 (r / 2) …; register r of B has words 4 r …
 * of the depth. Accumulators: lane l has columns 2 t and 2 t + 1 of row g. */
#include "mma.h"
#include "lane.h"
#if defined(__F16C__) && defined(__AVX__)
#include <immintrin.h>
#endif

#define LANES for (uint32_t l = 0; l < VG_LANES; l++)
enum { MAX_K = 256 };

/* ----------------------------------------------------------------------------------- elements */

static float small_float[2][256]; /* e4m3, e5m2 */

__attribute__((constructor)) static void fill_small_floats(void) {
  for (uint32_t i = 0; i < 256; i++) {
    small_float[0][i] = (float)w_decode(W_E4M3, i);
    small_float[1][i] = (float)w_decode(W_E5M2, i);
  }
}

static void unpack_halves(const uint16_t *in, uint32_t count, float *out) {
  uint32_t i = 0;
#if defined(__F16C__) && defined(__AVX__)
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(in + i))));
#endif
  for (; i < count; i++) out[i] = w_h2f(in[i]);
}

void vg_unpack_floats(VgElement e, const uint32_t *packed, uint32_t words, float *out) {
  const uint16_t *halves = (const uint16_t *)packed;
  const uint8_t *bytes = (const uint8_t *)packed;
  switch (e) {
  case VG_E_F16: unpack_halves(halves, 2 * words, out); break;
  case VG_E_BF16:
    for (uint32_t i = 0; i < 2 * words; i++) out[i] = w_f32((uint32_t)halves[i] << 16);
    break;
  case VG_E_TF32: /* the hardware reads 10 bits of the mantissa and drops the rest */
    for (uint32_t i = 0; i < words; i++) out[i] = w_f32(packed[i] & 0xffffe000u);
    break;
  case VG_E_F32: memcpy(out, packed, words * sizeof *out); break;
  default:
    for (uint32_t i = 0; i < 4 * words; i++) out[i] = small_float[e == VG_E_E5M2][bytes[i]];
  }
}

void vg_unpack_integers(VgElement e, const uint32_t *packed, uint32_t words, int32_t *out) {
  const uint8_t *bytes = (const uint8_t *)packed;
  switch (e) {
  case VG_E_S8:
    for (uint32_t i = 0; i < 4 * words; i++) out[i] = (int8_t)bytes[i];
    break;
  case VG_E_U8:
    for (uint32_t i = 0; i < 4 * words; i++) out[i] = bytes[i];
    break;
  case VG_E_B1:
    for (uint32_t i = 0; i < 32 * words; i++) out[i] = (int32_t)(packed[i / 32] >> i % 32 & 1);
    break;
  default:
    for (uint32_t i = 0; i < 8 * words; i++) {
      int32_t x = (int32_t)(packed[i / 8] >> i % 8 * 4 & 15);
      out[i] = e == VG_E_S4 ? (x ^ 8) - 8 : x;
    }
  }
}

uint32_t vg_pack_float(VgElement e, float x) {
  return e == VG_E_F16 ? w_f2h(x) : e == VG_E_BF16 ? w_f2b(x) : w_b32(x);
}

int32_t vg_add_saturated(int32_t a, int32_t b) {
  return (int32_t)w_add_sat_s32((uint32_t)a, (uint32_t)b);
}

/* ----------------------------------------------------------------------------------- products */

/* Eight rows of vectors stay in registers; products are exact in f32, so fusing changes nothing. */
#define PRODUCT(NAME, TYPE, VECTOR)                                                                \
  void NAME(uint32_t rows, uint32_t k, const TYPE *a, uint32_t lda, const TYPE *b, uint32_t ldb,   \
            TYPE *c, uint32_t ldc) {                                                               \
    for (uint32_t row = 0; row < rows; row += 8, a += 8 * lda, c += 8 * ldc) {                     \
      VECTOR sum[8];                                                                               \
      for (int i = 0; i < 8; i++) sum[i] = *(const VECTOR *)(c + (uint32_t)i * ldc);               \
      for (uint32_t j = 0; j < k; j++) {                                                           \
        VECTOR line = *(const VECTOR *)(b + j * ldb);                                              \
        for (int i = 0; i < 8; i++) sum[i] += a[(uint32_t)i * lda + j] * line;                     \
      }                                                                                            \
      for (int i = 0; i < 8; i++) *(VECTOR *)(c + (uint32_t)i * ldc) = sum[i];                     \
    }                                                                                              \
  }
PRODUCT(vg_product_floats, float, VgFloat8)
PRODUCT(vg_product_integers, int32_t, VgInt8)

/* ------------------------------------------------------------------------------------ mma.sync */

static void load_sums(const VgMma *s, uint32_t *const *c, uint32_t *out) {
  for (uint32_t half = 0; half < s->m / 8u; half++, out += 64) {
    if (s->c == VG_E_F16) {
      unpack_halves((const uint16_t *)c[half], 64, (float *)out);
      continue;
    }
    LANES out[2 * l] = c[2 * half][l], out[2 * l + 1] = c[2 * half + 1][l];
  }
}

static void store_sums(const VgMma *s, uint32_t mask, uint32_t *const *d, const uint32_t *in) {
  for (uint32_t half = 0; half < s->m / 8u; half++, in += 64) {
    if (s->d == VG_E_F16) {
      LANES {
        uint32_t pair = w_f2h(w_f32(in[2 * l])) | w_f2h(w_f32(in[2 * l + 1])) << 16;
        d[half][l] = mask >> l & 1 ? pair : d[half][l];
      }
      continue;
    }
    uint32_t *even = d[2 * half], *odd = d[2 * half + 1];
    LANES even[l] = mask >> l & 1 ? in[2 * l] : even[l];
    LANES odd[l] = mask >> l & 1 ? in[2 * l + 1] : odd[l];
  }
}

/* 4-byte columns [8][width] to rows [width][8] */
static void turn(const uint32_t *in, uint32_t width, uint32_t *out) {
  for (uint32_t n = 0; n < 8; n++)
    for (uint32_t j = 0; j < width; j++) out[8 * j + n] = in[n * width + j];
}

static void multiply_floats(const VgMma *s, uint32_t *const *a, uint32_t *const *b, float *sums) {
  uint32_t width = 4 * (32 / vg_element_bits(s->a)), tall = s->m / 8u; /* elements of a block row */
  float left[8 * 32], columns[8 * 32], right[32 * 8];
  for (uint32_t j = 0; j * width < s->k; j++) {
    vg_unpack_floats(s->b, b[j], 32, columns);
    turn((const uint32_t *)columns, width, (uint32_t *)right);
    for (uint32_t half = 0; half < tall; half++) {
      vg_unpack_floats(s->a, a[tall * j + half], 32, left);
      vg_product_floats(8, width, left, width, right, 8, sums + 64 * half, 8);
    }
  }
}

static void multiply_integers(const VgMma *s, uint32_t *const *a, uint32_t *const *b, int32_t *sums) {
  uint32_t width = 4 * (32 / vg_element_bits(s->a)), tall = s->m / 8u;
  int32_t left[8 * 128], columns[8 * 128], right[128 * 8];
  for (uint32_t j = 0; j * width < s->k; j++) {
    vg_unpack_integers(s->b, b[j], 32, columns);
    turn((const uint32_t *)columns, width, (uint32_t *)right);
    for (uint32_t half = 0; half < tall; half++) {
      vg_unpack_integers(s->a, a[tall * j + half], 32, left);
      vg_product_integers(8, width, left, width, right, 8, sums + 64 * half, 8);
    }
  }
}

/* xor.popc counts unequal bits: |a| + |b| - 2 |a and b| */
static void multiply_bits(const VgMma *s, uint32_t *const *a, uint32_t *const *b, int32_t *sums) {
  uint32_t tall = s->m / 8u;
  for (uint32_t j = 0; j * 128 < s->k; j++)
    for (uint32_t row = 0; row < s->m; row++)
      for (uint32_t n = 0; n < 8; n++)
        for (uint32_t t = 0; t < 4; t++) {
          uint32_t x = a[tall * j + row / 8][row % 8 * 4 + t], y = b[j][n * 4 + t];
          sums[row * 8 + n] += (int32_t)w_popc32(s->flags & VG_MMA_AND ? x & y : x ^ y);
        }
}

static void add_sums(const VgMma *s, int32_t *sums, const int32_t *c) {
  for (uint32_t i = 0; i < s->m * 8u; i++)
    sums[i] = s->flags & VG_MMA_SATURATE ? vg_add_saturated(sums[i], c[i])
                                         : (int32_t)((uint32_t)sums[i] + (uint32_t)c[i]);
}

void vg_mma(const VgMma *s, uint32_t mask, uint32_t *const *d, uint32_t *const *a,
            uint32_t *const *b, uint32_t *const *c) {
  if (vg_mma_floats(s, mask, d, a, b, c)) return;
  uint32_t sums[16 * 8];
  load_sums(s, c, sums);
  if (vg_is_integer(s->a)) {
    int32_t products[16 * 8] = {0};
    if (s->a == VG_E_B1) multiply_bits(s, a, b, products);
    else multiply_integers(s, a, b, products);
    add_sums(s, (int32_t *)sums, products);
  } else {
    multiply_floats(s, a, b, (float *)sums);
  }
  store_sums(s, mask, d, sums);
}

void vg_read_fragment(VgElement e, uint32_t registers, uint32_t *const *a, uint32_t *out, uint32_t ld) {
  uint32_t width = 4 * (32 / vg_element_bits(e)), block[8 * 32];
  for (uint32_t r = 0; r < registers; r++) {
    if (vg_is_integer(e)) vg_unpack_integers(e, a[r], 32, (int32_t *)block);
    else vg_unpack_floats(e, a[r], 32, (float *)block);
    for (uint32_t g = 0; g < 8; g++)
      memcpy(out + (g + 8 * (r & 1)) * ld + r / 2 * width, block + g * width, width * 4);
  }
}

void vg_mma_sparse(const VgMma *s, uint32_t mask, uint32_t *const *d, uint32_t *const *a,
                   uint32_t *const *b, uint32_t *const *c, const uint32_t *meta, uint32_t selector) {
  enum { DEPTH = 128 };
  uint32_t packed[16 * DEPTH / 2], left[16 * DEPTH], right[DEPTH * 8], columns[8 * 32], sums[16 * 8];
  uint32_t bits = vg_element_bits(s->a), width = 4 * (32 / bits);
  vg_read_fragment(s->a, s->k / 2 * bits * 16 / 1024, a, packed, DEPTH / 2);
  vg_expand(s->a, s->k, meta, selector, packed, DEPTH / 2, left, DEPTH);
  for (uint32_t j = 0; j * width < s->k; j++) {
    if (vg_is_integer(s->b)) vg_unpack_integers(s->b, b[j], 32, (int32_t *)columns);
    else vg_unpack_floats(s->b, b[j], 32, (float *)columns);
    turn(columns, width, right + j * width * 8);
  }
  load_sums(s, c, sums);
  if (vg_is_integer(s->a)) {
    int32_t products[16 * 8] = {0};
    vg_product_integers(16, s->k, (int32_t *)left, DEPTH, (int32_t *)right, 8, products, 8);
    add_sums(s, (int32_t *)sums, products);
  } else {
    vg_product_floats(16, s->k, (float *)left, DEPTH, (float *)right, 8, (float *)sums, 8);
  }
  store_sums(s, mask, d, sums);
}

void vg_mma_f64(const VgMma *s, uint32_t mask, uint64_t *const *d, uint64_t *const *a,
                uint64_t *const *b, uint64_t *const *c) {
  uint32_t tall = s->m / 8u;
  double sums[16][8];
  for (uint32_t half = 0; half < tall; half++)
    LANES for (uint32_t i = 0; i < 2; i++)
      sums[8 * half + l / 4][2 * (l % 4) + i] = w_f64(c[2 * half + i][l]);
  for (uint32_t row = 0; row < s->m; row++)
    for (uint32_t n = 0; n < 8; n++)
      for (uint32_t k = 0; k < s->k; k++)
        sums[row][n] = __builtin_fma(w_f64(a[tall * (k / 4) + row / 8][row % 8 * 4 + k % 4]),
                                     w_f64(b[k / 4][n * 4 + k % 4]), sums[row][n]);
  for (uint32_t half = 0; half < tall; half++)
    LANES if (mask >> l & 1) for (uint32_t i = 0; i < 2; i++)
      d[2 * half + i][l] = w_b64(sums[8 * half + l / 4][2 * (l % 4) + i]);
}
