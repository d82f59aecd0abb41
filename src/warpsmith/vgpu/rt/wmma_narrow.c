/* wmma of 4-bit and 1-bit elements: rows of A and columns of B as words.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lane l has word l % 4 of line l / 4 of A or B (8 lines of 16 bytes); the sums are those of wmma.c.
 */
#include "lane.h"
#include "mma.h"
#include "reach.h"

int vg_wmma_narrow_load(VgWarp *w, uint32_t site, uint32_t space, uint32_t element_bits, uint32_t mask,
                        uint32_t *d, const uint64_t *address, const uint32_t *stride) {
  uint64_t at[VG_LANES];
  VgAccess access = {.site = site, .space = (uint8_t)space, .bytes = 4, .count = 1, .reg_bytes = 4};
  for (uint32_t l = 0; l < VG_LANES; l++) {
    uint64_t pitch = stride ? (uint64_t)stride[l] * element_bits / 8 : 16;
    at[l] = address[l] + l / 4 * pitch + l % 4 * 4;
  }
  return vg_load(w, &access, mask, at, (void *const[]){d});
}

static int32_t line_product(const VgMma *s, const uint32_t *a, const uint32_t *b) {
  int32_t sum = 0, left[8], right[8];
  for (uint32_t t = 0; t < 4; t++) {
    if (s->a == VG_E_B1) {
      sum += (int32_t)w_popc32(s->flags & VG_MMA_AND ? a[t] & b[t] : a[t] ^ b[t]);
      continue;
    }
    vg_unpack_integers(s->a, a + t, 1, left), vg_unpack_integers(s->b, b + t, 1, right);
    for (uint32_t i = 0; i < 8; i++) sum += left[i] * right[i];
  }
  return sum;
}

void vg_wmma_narrow(const VgMma *s, uint32_t mask, uint32_t *const *d, const uint32_t *a,
                    const uint32_t *b, uint32_t *const *c) {
  uint32_t sums[64];
  for (uint32_t i = 0; i < 64; i++) {
    int32_t product = line_product(s, a + i / 8 * 4, b + i % 8 * 4), old = (int32_t)c[i / 32][i % 32];
    sums[i] = s->flags & VG_MMA_SATURATE ? (uint32_t)vg_add_saturated(product, old)
                                         : (uint32_t)product + (uint32_t)old;
  }
  for (uint32_t i = 0; i < 64; i++)
    if (mask >> i % 32 & 1) d[i / 32][i % 32] = sums[i];
}
