/* Unpacking of matrix fragments, and the small products that mma, wgmma and wmma share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_MMA_H
#define VG_MMA_H

#include "collective.h"

typedef float VgFloat8 __attribute__((vector_size(32), aligned(4)));
typedef int32_t VgInt8 __attribute__((vector_size(32), aligned(4)));

static inline uint32_t vg_element_bits(VgElement e) {
  static const uint8_t bits[] = {16, 16, 32, 8, 8, 8, 8, 4, 4, 1, 32, 32, 64, 6, 6, 4};
  return bits[e];
}

static inline int vg_is_integer(VgElement e) { return e >= VG_E_S8 && e <= VG_E_B1; }

/* `words` 32-bit words of packed elements, as floats or integers in order. */
void vg_unpack_floats(VgElement e, const uint32_t *packed, uint32_t words, float *out);
void vg_unpack_integers(VgElement e, const uint32_t *packed, uint32_t words, int32_t *out);
/* One float as an element's raw bits, rounded to nearest even. */
uint32_t vg_pack_float(VgElement e, float x);

/* C[rows][ldc] += A[rows][lda] B[k][ldb] for 8 columns. */
void vg_product_floats(uint32_t rows, uint32_t k, const float *a, uint32_t lda, const float *b,
                       uint32_t ldb, float *c, uint32_t ldc);
void vg_product_integers(uint32_t rows, uint32_t k, const int32_t *a, uint32_t lda, const int32_t *b,
                         uint32_t ldb, int32_t *c, uint32_t ldc);
/* mma_floats.c: vg_mma of a whole warp's f16, bf16 or tf32 into f32; 0 where it is not for it. */
int vg_mma_floats(const VgMma *s, uint32_t mask, uint32_t *const *d, uint32_t *const *a,
                  uint32_t *const *b, uint32_t *const *c);
int32_t vg_add_saturated(int32_t a, int32_t b);
/* sparse.c: 16 rows of k / 2 packed elements to rows of k, with zeros between. */
void vg_expand(VgElement e, uint32_t k, const uint32_t *meta, uint32_t selector,
               const uint32_t *packed, uint32_t ld_packed, uint32_t *out, uint32_t ld);
/* Four 32-bit registers of A, or two, as 16 rows of values. */
void vg_read_fragment(VgElement e, uint32_t registers, uint32_t *const *a, uint32_t *out, uint32_t ld);

#endif
