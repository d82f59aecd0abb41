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

/* The site's pattern, compared with a whole warp's addresses; NULL when it is another one, which is
 * then remembered. */
static inline VgPattern *vg_pattern(VgWarp *w, uint32_t site, const uint64_t *address) {
  VgPattern *all = w->worker->patterns;
  if (__builtin_expect(!all, 0) && !(all = vg_patterns(w->worker))) return NULL;
  VgPattern *p = &all[site];
  uint64_t first = address[0], wrong = !p->known;
  for (int l = 0; l < VG_LANES; l++) wrong |= (address[l] - first) ^ p->delta[l];
  if (__builtin_expect(!wrong, 1)) return p->misses = 0, p;
  vg_learn(p, address);
  return NULL;
}

/* vg_count of an admitted access with this pattern; `first`: lane 0's address or offset. */
void vg_count_pattern(VgWarp *w, uint32_t site, const VgReach *r, VgPattern *p, uint64_t first);

#endif
