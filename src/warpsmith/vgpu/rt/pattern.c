/* Recognize an access pattern that a site repeats.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include "window.h"

enum { PATIENCE = 16 };   /* misses in a row after which a site is looked at only now and then */

VgPattern *vg_patterns(VgWorker *worker) {
  size_t bytes = (worker->launch->site_count + 1) * sizeof(VgPattern);
  void *all = NULL;
  if (posix_memalign(&all, 64, bytes)) return NULL;
  return worker->patterns = memset(all, 0, bytes);
}

void vg_learn(VgPattern *p, const uint64_t *address) {
  if (p->misses++ > PATIENCE && p->misses % PATIENCE) return;
  int64_t low = 0, high = 0;
  uint64_t first = address[0], bits = 0, step = address[1] - first, uneven = 0;
  for (int l = 0; l < VG_LANES; l++) {
    uint64_t delta = address[l] - first;
    p->delta[l] = delta, bits |= delta, uneven |= delta ^ (uint64_t)l * step;
    low = (int64_t)delta < low ? (int64_t)delta : low;
    high = (int64_t)delta > high ? (int64_t)delta : high;
  }
  p->stride = uneven ? UINT64_MAX : step;
  p->low = low, p->high = high, p->bits = bits, p->known = 1, p->counted = 0, p->window_words = 0;
}

void vg_find_window(VgPattern *p, uint32_t words) {
  uint64_t reach = (uint64_t)(p->high - p->low) / 4 + words;
  p->window_words = words, p->vectors = VG_WINDOW_NONE, p->wanted = 0;
  if (reach > VG_WINDOW_WORDS || (p->bits & 3)) return;
  for (int l = 0; l < VG_LANES; l++) {
    p->index[l] = (uint32_t)((p->delta[l] - (uint64_t)p->low) / 4);
    for (uint32_t i = 0; i < words; i++) p->wanted |= 1ull << (p->index[l] + i);
  }
  p->vectors = (uint32_t)(reach + 15) / 16;
}
