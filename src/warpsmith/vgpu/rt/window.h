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

enum { VG_WINDOW_WORDS = 64, VG_WINDOW_NONE = 0xff };

/* Find the window of a pattern of accesses of `words` words of four bytes. */
void vg_find_window(VgPattern *p, uint32_t words);

#ifdef __AVX512F__
typedef struct VgWindow { __m512i v[4]; } VgWindow;

static inline VgWindow vg_read_window(const VgPattern *p, uint64_t base) {
  const char *from = (const char *)(uintptr_t)(base + (uint64_t)p->low);
  VgWindow window;
  window.v[0] = _mm512_maskz_loadu_epi32((__mmask16)p->wanted, from);
  window.v[1] = _mm512_maskz_loadu_epi32((__mmask16)(p->wanted >> 16), from + 64);
  if (p->vectors <= 2) return window;
  window.v[2] = _mm512_maskz_loadu_epi32((__mmask16)(p->wanted >> 32), from + 128);
  window.v[3] = _mm512_maskz_loadu_epi32((__mmask16)(p->wanted >> 48), from + 192);
  return window;
}

static inline __m512i vg_pick_words(const VgWindow *window, uint32_t vectors, __m512i index) {
  __m512i low = _mm512_permutex2var_epi32(window->v[0], index, window->v[1]);
  if (vectors <= 2) return low;
  return _mm512_mask_mov_epi32(low, _mm512_test_epi32_mask(index, _mm512_set1_epi32(32)),
                               _mm512_permutex2var_epi32(window->v[2], index, window->v[3]));
}
#endif

/* Element i of each lane into to[i]; `base`: lane 0's address. Returns 0 where there is no window. */
static inline int vg_load_window(VgPattern *p, uint64_t base, uint32_t words, void *const *to) {
#ifdef __AVX512F__
  if (__builtin_expect(p->window_words != words, 0)) vg_find_window(p, words);
  if (p->vectors == VG_WINDOW_NONE) return 0;
  VgWindow window = vg_read_window(p, base);
  for (int half = 0; half < VG_LANES; half += 16) {
    __m512i index = _mm512_load_si512(p->index + half);
    for (uint32_t i = 0; i < words; i++, index = _mm512_add_epi32(index, _mm512_set1_epi32(1)))
      if (to[i]) _mm512_storeu_si512((uint32_t *)to[i] + half, vg_pick_words(&window, p->vectors, index));
  }
  return 1;
#else
  (void)p, (void)base, (void)words, (void)to;
  return 0;
#endif
}

/* The same for one word a lane. */
static inline int vg_load_word_window(VgPattern *p, uint64_t base, uint32_t *to) {
  void *one = to;
  return vg_load_window(p, base, 1, &one);
}

#endif
