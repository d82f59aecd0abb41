/* mma.sync of f16, bf16 and tf32 into f32, whole warps: the product straight from and to registers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Row g of an accumulator block lies in lanes 4 g … 4 g + 3: its even columns in one register, its odd
 * ones in the next. Eight columns in the order 0 2 4 6 1 3 5 7 are therefore two loads of four lanes,
 * and nothing is interleaved as long as B's columns stand in that order too. Every element is summed
 * over the depth in the order of vg_mma, so the bits are the same. */
#include "mma.h"
#include "lane.h"
#if defined(__AVX512VL__) && defined(__AVX512F__)
#include <immintrin.h>

enum { MAX_DEPTH = 16 };

/* Word t of column n (lane 4 n + t) as word n' of line t. */
static void turn_words(const uint32_t *b, uint32_t *lines) {
  const __m512i columns = _mm512_setr_epi32(0, 8, 16, 24, 4, 12, 20, 28, 1, 9, 17, 25, 5, 13, 21, 29);
  __m512i low = _mm512_loadu_si512(b), high = _mm512_loadu_si512(b + 16);
  __m512i two = _mm512_add_epi32(columns, _mm512_set1_epi32(2));
  _mm512_storeu_si512(lines, _mm512_permutex2var_epi32(low, columns, high));
  _mm512_storeu_si512(lines + 16, _mm512_permutex2var_epi32(low, two, high));
}

/* One line of eight words: the elements of a depth each; returns how many depths there are. */
static inline uint32_t widen(VgElement e, __m256i words, __m256 *out) {
  if (e == VG_E_TF32) {   /* the hardware reads 10 bits of the mantissa and drops the rest */
    out[0] = _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32((int)0xffffe000u)));
    return 1;
  }
  if (e == VG_E_BF16) {
    out[0] = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
    out[1] = _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32((int)0xffff0000u)));
    return 2;
  }
  __m256i lower = _mm256_and_si256(words, _mm256_set1_epi32(0xffff)), upper = _mm256_srli_epi32(words, 16);
  out[0] = _mm256_cvtph_ps(_mm256_cvtepi32_epi16(lower));
  out[1] = _mm256_cvtph_ps(_mm256_cvtepi32_epi16(upper));
  return 2;
}

static uint32_t read_right(const VgMma *s, uint32_t *const *b, uint32_t registers, __m256 *right) {
  uint32_t lines[32], depth = 0;
  for (uint32_t r = 0; r < registers; r++) {
    turn_words(b[r], lines);
    for (uint32_t t = 0; t < 4; t++)
      depth += widen(s->b, _mm256_loadu_si256((const __m256i *)(lines + 8 * t)), right + depth);
  }
  return depth;
}

/* Eight rows: sum += left[8][width] right[width][8], depth by depth. Products of f16 are exact in f32, so
 * fusing changes nothing; those of the others may underflow. */
static inline __attribute__((always_inline)) void multiply(const float *left, const __m256 *right,
                                                           uint32_t width, int exact, __m256 *sum) {
  for (uint32_t j = 0; j < width; j++)
    for (uint32_t i = 0; i < 8; i++) {
      __m256 x = _mm256_broadcast_ss(left + i * width + j);
      sum[i] = exact ? _mm256_fmadd_ps(x, right[j], sum[i])
                     : _mm256_add_ps(sum[i], _mm256_mul_ps(x, right[j]));
    }
}

static void product(const VgMma *s, const float *left, const __m256 *right, __m256 *rows) {
  __m256 sum[8];
  for (int i = 0; i < 8; i++) sum[i] = rows[i];
  if (s->a == VG_E_F16) multiply(left, right, 8, 1, sum);
  else if (s->a == VG_E_BF16) multiply(left, right, 8, 0, sum);
  else multiply(left, right, 4, 0, sum);
  for (int i = 0; i < 8; i++) rows[i] = sum[i];
}

static void load_rows(const uint32_t *even, const uint32_t *odd, __m256 *rows) {
  for (int i = 0; i < 8; i++) {
    __m128 low = _mm_loadu_ps((const float *)even + 4 * i), high = _mm_loadu_ps((const float *)odd + 4 * i);
    rows[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
  }
}

static void store_rows(const __m256 *rows, uint32_t *even, uint32_t *odd) {
  for (int i = 0; i < 8; i++) {
    _mm_storeu_ps((float *)even + 4 * i, _mm256_castps256_ps128(rows[i]));
    _mm_storeu_ps((float *)odd + 4 * i, _mm256_extractf128_ps(rows[i], 1));
  }
}

int vg_mma_floats(const VgMma *s, uint32_t mask, uint32_t *const *d, uint32_t *const *a,
                  uint32_t *const *b, uint32_t *const *c) {
  int known = s->a == s->b && (s->a == VG_E_F16 || s->a == VG_E_BF16 || s->a == VG_E_TF32);
  if (!known || s->c != VG_E_F32 || s->d != VG_E_F32 || mask != VG_FULL || s->k > MAX_DEPTH) return 0;
  uint32_t width = 4 * (32 / vg_element_bits(s->a)), registers = s->k / width, tall = s->m / 8u;
  __m256 right[MAX_DEPTH], rows[2][8];
  float left[8 * 8];
  read_right(s, b, registers, right);
  for (uint32_t half = 0; half < tall; half++) {
    load_rows(c[2 * half], c[2 * half + 1], rows[half]);
    for (uint32_t r = 0; r < registers; r++) {
      vg_unpack_floats(s->a, a[tall * r + half], 32, left);
      product(s, left, right + r * width, rows[half]);
    }
  }
  for (uint32_t half = 0; half < tall; half++) store_rows(rows[half], d[2 * half], d[2 * half + 1]);
  return 1;
}
#else
int vg_mma_floats(const VgMma *s, uint32_t mask, uint32_t *const *d, uint32_t *const *a,
                  uint32_t *const *b, uint32_t *const *c) {
  (void)s, (void)mask, (void)d, (void)a, (void)b, (void)c;
  return 0;
}
#endif
