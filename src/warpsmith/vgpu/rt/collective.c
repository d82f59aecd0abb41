/* Shuffles, votes, matches and reductions of a warp.
 * SPDX-License-Identifier: Apache-2.0 */
#include "collective.h"
#include "lane.h"

#define LANES for (uint32_t l = 0; l < VG_LANES; l++)

static void put(uint32_t mask, uint32_t *d, const uint32_t *values) {
  if (!d) return;
  if (mask == VG_FULL) {
    memcpy(d, values, VG_LANES * sizeof *d);
    return;
  }
  LANES if (mask >> l & 1) d[l] = values[l];
}

void vg_fill(uint32_t mask, uint32_t *d, uint32_t value) {
  if (d) LANES d[l] = mask >> l & 1 ? value : d[l];
}

/* The lanes of `left` that name the same member mask as its lowest lane. */
static uint32_t next_group(uint32_t left, const uint32_t *members) {
  if (!members) return left;
  uint32_t named = members[__builtin_ctz(left)], same = 0;
  LANES same |= (uint32_t)(members[l] == named) << l;
  return left & same;
}
#define GROUPS(g, mask, members)                                                                   \
  for (uint32_t left_ = (mask), g; left_ && (g = next_group(left_, members), 1); left_ &= ~g)

/* ------------------------------------------------------------------------------------ shuffles */

/* The manual's pseudocode, with `high` and `low` the last and the first lane of the segment. One
 * loop for each mode, so that it vectorizes. */
#define SHUFFLE(J, GOOD)                                                                           \
  LANES {                                                                                          \
    int32_t lane = (int32_t)l, by = (int32_t)(b[l] & 31);                                          \
    int32_t clamp = (int32_t)(c[l] & 31), segment = (int32_t)(c[l] >> 8 & 31);                     \
    int32_t low = lane & segment, high = low | (clamp & ~segment), j = J, good = GOOD;             \
    (void)low;                                                                                     \
    source[l] = good ? j & 31 : lane;                                                              \
    in_range[l] = (uint32_t)good;                                                                  \
  }

void vg_shfl(VgShuffle mode, uint32_t mask, uint32_t *d, uint32_t *p, const uint32_t *a,
             const uint32_t *b, const uint32_t *c) {
  uint32_t values[VG_LANES], in_range[VG_LANES];
  int32_t source[VG_LANES];
  switch (mode) {
  case VG_SHFL_UP: SHUFFLE(lane - by, j >= high) break;
  case VG_SHFL_DOWN: SHUFFLE(lane + by, j <= high) break;
  case VG_SHFL_BFLY: SHUFFLE(lane ^ by, j <= high) break;
  case VG_SHFL_IDX: SHUFFLE(low | (by & ~segment), j <= high) break;
  }
  LANES values[l] = a[source[l]];
  put(mask, d, values);
  put(mask, p, in_range);
}

/* --------------------------------------------------------------------------- votes and matches */

void vg_vote(VgVote kind, uint32_t mask, uint32_t *d, const uint32_t *a, const uint32_t *members) {
  uint32_t set = vg_bits(a);
  GROUPS(g, mask, members) {
    uint32_t yes = set & g;
    uint32_t answers[4] = {yes == g, yes != 0, yes == g || yes == 0, yes};
    vg_fill(g, d, answers[kind]);
  }
}

void vg_match(int all, uint32_t bytes, uint32_t mask, uint32_t *d, uint32_t *p, const void *a,
              const uint32_t *members) {
  uint32_t equal[VG_LANES] = {0};
  const uint32_t *a32 = a;
  const uint64_t *a64 = a;
  for (uint32_t o = 0; o < VG_LANES; o++) {
    if (bytes == 8) LANES equal[l] |= a64[l] == a64[o] ? 1u << o : 0;
    else LANES equal[l] |= a32[l] == a32[o] ? 1u << o : 0;
  }
  GROUPS(g, mask, members) {
    uint32_t agree = (equal[__builtin_ctz(g)] & g) == g;
    LANES {
      if (!(g >> l & 1)) continue;
      if (d) d[l] = all ? (agree ? g : 0) : equal[l] & g;
      if (p) p[l] = agree;
    }
  }
}

void vg_elect(uint32_t mask, uint32_t *d, uint32_t *p, const uint32_t *members) {
  GROUPS(g, mask, members) {
    uint32_t leader = (uint32_t)__builtin_ctz(g);
    vg_fill(g, d, leader);
    vg_fill(g, p, 0);
    if (p) p[leader] = 1;
  }
}

/* ---------------------------------------------------------------------------------- reductions */

static uint32_t joined(VgRedux kind, uint32_t flags, uint32_t x, uint32_t y) {
  switch (kind) {
  case VG_REDUX_ADD: return x + y;
  case VG_REDUX_MIN_U: return x < y ? x : y;
  case VG_REDUX_MAX_U: return x > y ? x : y;
  case VG_REDUX_MIN_S: return (int32_t)x < (int32_t)y ? x : y;
  case VG_REDUX_MAX_S: return (int32_t)x > (int32_t)y ? x : y;
  case VG_REDUX_AND: return x & y;
  case VG_REDUX_OR: return x | y;
  case VG_REDUX_XOR: return x ^ y;
  case VG_REDUX_MIN_F: return flags & VG_REDUX_NAN ? w_min_nan_f32(x, y) : w_min_f32(x, y);
  default: return flags & VG_REDUX_NAN ? w_max_nan_f32(x, y) : w_max_f32(x, y);
  }
}

void vg_redux(VgRedux kind, uint32_t flags, uint32_t mask, uint32_t *d, const uint32_t *a,
              const uint32_t *members) {
  uint32_t keep = flags & VG_REDUX_ABS ? 0x7fffffffu : ~0u;
  GROUPS(g, mask, members) {
    uint32_t first = (uint32_t)__builtin_ctz(g), total = a[first] & keep;
    for (uint32_t l = first + 1; l < VG_LANES; l++)
      if (g >> l & 1) total = joined(kind, flags, total, a[l] & keep);
    vg_fill(g, d, total);
  }
}
