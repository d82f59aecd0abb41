/* What a site's last whole-warp access looked like: most sites repeat one pattern of lane addresses.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Bounds, alignment, bank passes and sectors depend on the differences between lane addresses (and,
 * for sectors, on where in a sector the first one lies). When an access repeats the differences of
 * its site's last one, all of them are known without looking at the lanes again.
 */
#ifndef VGPU_PATTERN_H
#define VGPU_PATTERN_H

#include "reach.h"
#ifdef __AVX512F__
#include <immintrin.h>
#endif

typedef struct VgPattern {
  _Alignas(64) uint64_t delta[VG_LANES]; /* address of lane l minus that of lane 0 */
  int64_t low, high;        /* least and greatest delta */
  uint64_t bits;            /* all deltas or-ed: with the first address, the alignment */
  uint64_t phase;           /* sectors: first address modulo 32 */
  uint64_t stride;          /* between neighbors, where it is one: 0 broadcast; else UINT64_MAX */
  uint32_t known;           /* deltas are valid */
  uint32_t misses;          /* accesses in a row with other deltas */
  uint32_t counted;         /* the counts below are valid (for `phase`) */
  uint32_t leaders;         /* the first lane of each sector */
  uint32_t transactions, ideal;   /* wavefronts or sectors of one access */
  uint32_t window_words;    /* words of an access that the window below is for; 0: none yet */
  uint32_t vectors;         /* of 64 bytes, from `low` on, that hold all lanes' words (window.h) */
  uint64_t wanted;          /* the words of them that some lane asks for */
  _Alignas(64) uint32_t index[VG_LANES];   /* of each lane's first word */
} VgPattern;

/* Note another pattern than the site's last one, unless the site shows none. */
void vg_learn(VgPattern *p, const uint64_t *address);
VgPattern *vg_patterns(VgWorker *worker);

/* Do the lanes differ from lane 0 as they did before? */
static inline int vg_same_pattern(const VgPattern *p, const uint64_t *address) {
#ifdef __AVX512F__
  __m512i first = _mm512_set1_epi64((long long)address[0]);
  __mmask8 wrong = 0;
  for (int l = 0; l < VG_LANES; l += 8)
    wrong |= _mm512_cmpneq_epi64_mask(_mm512_sub_epi64(_mm512_loadu_si512(address + l), first),
                                      _mm512_load_si512(p->delta + l));
  return !wrong && p->known;
#else
  uint64_t first = address[0], wrong = !p->known;
  for (int l = 0; l < VG_LANES; l++) wrong |= (address[l] - first) ^ p->delta[l];
  return !wrong;
#endif
}

static inline int vg_inside(const VgAllocation *row, uint64_t first, uint64_t bytes) {
  uint64_t size = row->end - row->begin;
  return size >= bytes && first - row->begin <= size - bytes;
}

/* The host address of lane 0, at `first`, of a whole warp's access with pattern `p` when all of it lies in
 * shared memory, or in the allocation that the site met last; else 0. */
static inline uint64_t vg_admitted(const VgWarp *w, const VgAccess *a, const VgPattern *p,
                                   const VgAllocation *row, uint64_t first, uint64_t width, int is_store) {
  first += (uint64_t)a->offset;
  uint64_t low = first + (uint64_t)p->low, bytes = (uint64_t)(p->high - p->low) + width;
  if ((first | p->bits) & (width - 1)) return 0;
  if (a->space == VG_SHARED) {
    uint64_t limit = w->block->shared_bytes;
    return limit < bytes || low > limit - bytes ? 0 : (uint64_t)(uintptr_t)w->block->shared + first;
  }
  return vg_inside(row, low, bytes) && !(is_store && row->readonly) ? first : 0;
}

/* The site's pattern, compared with a whole warp's addresses; NULL when it is another one, which is
 * then remembered. */
static inline VgPattern *vg_pattern(VgWarp *w, uint32_t site, const uint64_t *address) {
  VgPattern *all = w->worker->patterns;
  if (__builtin_expect(!all, 0) && !(all = vg_patterns(w->worker))) return NULL;
  VgPattern *p = &all[site];
  if (__builtin_expect(vg_same_pattern(p, address), 1)) return p->misses = 0, p;
  vg_learn(p, address);
  return NULL;
}

/* vg_count of an admitted access with this pattern; `first`: lane 0's address or offset. */
void vg_count_pattern(VgWarp *w, uint32_t site, const VgReach *r, VgPattern *p, uint64_t first);

#endif
