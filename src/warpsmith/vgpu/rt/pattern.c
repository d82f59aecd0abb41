/* Recognize an access pattern that a site repeats.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include "pattern.h"

static int same(const uint64_t *delta, const uint64_t *address) {
  uint64_t first = address[0], wrong = 0;
  for (int l = 0; l < VG_LANES; l++) wrong |= (address[l] - first) ^ delta[l];
  return !wrong;
}

static void learn(VgPattern *p, const uint64_t *address) {
  int64_t low = 0, high = 0;
  uint64_t first = address[0], bits = 0;
  for (int l = 0; l < VG_LANES; l++) {
    uint64_t delta = address[l] - first;
    p->delta[l] = delta, bits |= delta;
    low = (int64_t)delta < low ? (int64_t)delta : low;
    high = (int64_t)delta > high ? (int64_t)delta : high;
  }
  p->low = low, p->high = high, p->bits = bits, p->known = 1, p->counted = 0;
}

VgPattern *vg_pattern(VgWarp *w, uint32_t site, const uint64_t *address) {
  VgPattern *all = w->worker->patterns;
  if (!all) {
    w->worker->patterns = all = calloc(w->worker->launch->site_count + 1, sizeof *all);
    if (!all) return NULL;
  }
  VgPattern *p = &all[site];
  if (p->known && same(p->delta, address)) return p;
  learn(p, address);
  return NULL;
}
