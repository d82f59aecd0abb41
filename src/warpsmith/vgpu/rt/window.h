/* A warp's words out of a few vectors: loads whose lanes all lie within 256 bytes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A site whose pattern of lane addresses repeats needs no 32 loads of one word: the words between the
 * lowest and the highest lane are read as vectors (only those that some lane asked for, so nothing
 * beyond the access is touched) and shuffled into place. Rows, columns and broadcasts of tiles in
 * shared memory are of this kind. Machines without AVX-512 take the words one by one. */
#ifndef VGPU_WINDOW_H
#define VGPU_WINDOW_H

#include "pattern.h"
#ifdef __AVX512F__
#include <immintrin.h>
#endif

enum { VG_WINDOW_WORDS = 64, VG_WINDOW_NONE = 0xff };

/* Find the window of a pattern of accesses of `words` words of four bytes. */
void vg_find_window(VgPattern *p, uint32_t words);

/* Element i of each lane into to[i]; `base`: lane 0's address. Returns 0 where there is no window. */
static inline int vg_load_window(VgPattern *p, uint64_t base, uint32_t words, void *const *to) {
#ifdef __AVX512F__
  if (__builtin_expect(p->window_words != words, 0)) vg_find_window(p, words);
  if (p->vectors == VG_WINDOW_NONE) return 0;
  const char *from = (const char *)(uintptr_t)(base + (uint64_t)p->low);
  __m512i v[4];
  for (int i = 0; i < 4; i++) v[i] = _mm512_setzero_si512();
  for (int i = 0; i < 4 && i < p->vectors; i++)
    v[i] = _mm512_maskz_loadu_epi32((__mmask16)(p->wanted >> 16 * i), from + 64 * i);
  for (int half = 0; half < 2; half++) {
    __m512i index = _mm512_load_si512(p->index + 16 * half);
    for (uint32_t i = 0; i < words; i++, index = _mm512_add_epi32(index, _mm512_set1_epi32(1))) {
      if (!to[i]) continue;
      __m512i r = p->vectors == 1 ? _mm512_permutexvar_epi32(index, v[0])
                                  : _mm512_permutex2var_epi32(v[0], index, v[1]);
      if (p->vectors > 2)
        r = _mm512_mask_mov_epi32(r, _mm512_test_epi32_mask(index, _mm512_set1_epi32(32)),
                                  _mm512_permutex2var_epi32(v[2], index, v[3]));
      _mm512_storeu_si512((uint32_t *)to[i] + 16 * half, r);
    }
  }
  return 1;
#else
  (void)p, (void)base, (void)words, (void)to;
  return 0;
#endif
}

#endif
