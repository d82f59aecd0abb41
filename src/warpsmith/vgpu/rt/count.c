/* Exact counts of one warp's access: sectors of global memory, bank wavefronts of shared memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sectors are distinct aligned 32-byte pieces; the ideal is ceil(distinct bytes / 32). Shared
 * accesses go in passes of 32, 16, 8 lanes for 4, 8, 16 bytes a lane; a pass costs the most distinct
 * 4-byte words that any of the 32 banks must give.
 */
#include "cache.h"
#include "pattern.h"

#define SECTOR 5 /* log2 of its bytes */
#define BANKS 32

/* ------------------------------------------------------------------------ sectors touched */

static void mark(uint64_t *bits, uint64_t sector, int parallel) {
  uint64_t bit = 1ull << (sector & 63), *word = &bits[sector >> 6];
  if (*word & bit) return;
  if (parallel) __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
  else *word |= bit;
}

static void see(const VgLaunch *launch, const VgAllocation *row, uint64_t first, uint64_t bytes,
                int is_store) {
  uint64_t *bits = is_store ? row->seen_written : row->seen_read;
  if (!bits) return;
  uint64_t base = row->begin >> SECTOR;
  for (uint64_t s = first >> SECTOR; s <= (first + bytes - 1) >> SECTOR; s++)
    mark(bits, s - base, (int)launch->parallel);
}

/* Mark the sectors of these lanes; an aligned access lies in one. */
static void see_lanes(VgWarp *w, uint32_t site, const VgReach *r, uint32_t lanes, int is_store) {
  const VgLaunch *launch = w->worker->launch;
  const VgAllocation *row = vg_row(w->worker, site);
  VG_EACH(l, lanes) {
    if (r->at[l] - row->begin >= row->end - row->begin) row = vg_find(launch, r->at[l]);
    if (!row) return;
    uint64_t *bits = is_store ? row->seen_written : row->seen_read;
    if (bits) mark(bits, (r->at[l] >> SECTOR) - (row->begin >> SECTOR), (int)launch->parallel);
  }
}

/* --------------------------------------------------------------------------- the cache model */

static inline void trace(VgWarp *w, uint32_t site, const VgReach *r, uint32_t lanes, VgTraffic kind) {
  if (__builtin_expect(w->worker->launch->cache != NULL, 0))
    vg_cache_lanes(w, site, r->at, lanes, kind);
}

static inline void trace_span(VgWarp *w, uint32_t site, uint64_t first, uint64_t bytes, int is_store) {
  if (__builtin_expect(w->worker->launch->cache != NULL, 0))
    vg_cache_span(w, site, first, bytes, is_store ? VG_TRAFFIC_STORE : VG_TRAFFIC_LOAD);
}

/* -------------------------------------------------------------------------------- distinct */

/* The first lane of every different value of key[l] >> shift: found at the changes where values only
 * rise or only fall, else by a hash set whose used slots are bits of a word. */
static uint32_t distinct(const uint64_t *key, uint32_t mask, int shift) {
  uint64_t last = ~(key[__builtin_ctz(mask)] >> shift);
  uint32_t first = 0, up = 0, down = 0;
  VG_EACH(l, mask) {
    uint64_t value = key[l] >> shift;
    uint32_t differs = value != last;
    up |= (value > last) & (first != 0), down |= (value < last) & (first != 0);
    first |= differs << l;
    last = value;
  }
  if (!(up & down)) return first;
  uint64_t slot[64], used = 0;
  first = 0;
  VG_EACH(l, mask) {
    uint64_t value = key[l] >> shift;
    uint32_t h = (uint32_t)(value * 0x9e3779b97f4a7c15ull >> 58);
    while (used >> h & 1 && slot[h] != value) h = (h + 1) & 63;
    first |= (uint32_t)(~used >> h & 1) << l;
    used |= 1ull << h, slot[h] = value;
  }
  return first;
}

static uint32_t lanes_in(uint32_t mask) { return (uint32_t)__builtin_popcount(mask); }

/* Different addresses of an atomic's lanes; `most`: the lanes that share the busiest one. */
static uint32_t crowds(const VgReach *r, uint32_t *most) {
  uint64_t slot[64], used = 0;
  uint32_t lanes[64], busiest = 0;
  VG_EACH(l, r->mask) {
    uint32_t h = (uint32_t)(r->at[l] * 0x9e3779b97f4a7c15ull >> 58);
    while (used >> h & 1 && slot[h] != r->at[l]) h = (h + 1) & 63;
    lanes[h] = used >> h & 1 ? lanes[h] + 1 : 1;
    busiest = lanes[h] > busiest ? lanes[h] : busiest;
    used |= 1ull << h, slot[h] = r->at[l];
  }
  *most = busiest;
  return (uint32_t)__builtin_popcountll(used);
}

/* --------------------------------------------------------------------------- shared memory */

typedef struct Banks {
  uint32_t words[BANKS][VG_LANES * 4];
  uint32_t count[BANKS];
} Banks;

/* Add a 4-byte word to its bank unless it is there; the new depth of the bank. */
static uint32_t put(Banks *banks, uint32_t word) {
  uint32_t bank = word % BANKS, n = banks->count[bank];
  for (uint32_t i = 0; i < n; i++)
    if (banks->words[bank][i] == word) return 0;
  banks->words[bank][n] = word;
  return banks->count[bank] = n + 1;
}

/* Does no bank hold two different words? The common case, and cheap to see. */
static int no_conflict(const VgReach *r, uint32_t lanes, uint32_t words) {
  uint32_t used = 0, held[BANKS];
  VG_EACH(l, lanes) for (uint32_t i = 0; i < words; i++) {
    uint32_t word = (uint32_t)(r->at[l] / 4 + i), bank = word % BANKS;
    if (used >> bank & 1 && held[bank] != word) return 0;
    used |= 1u << bank, held[bank] = word;
  }
  return 1;
}

static void count_pass(VgSite *row, const VgReach *r, uint32_t lanes, uint32_t words) {
  Banks banks;
  uint32_t deepest = 0, total = 0;
  memset(banks.count, 0, sizeof banks.count);
  VG_EACH(l, lanes) for (uint32_t i = 0; i < words; i++) {
    uint32_t depth = put(&banks, (uint32_t)(r->at[l] / 4 + i));
    deepest = depth > deepest ? depth : deepest;
    total += depth > 0;
  }
  row->wavefronts += deepest;
  row->wavefronts_ideal += (total + BANKS - 1) / BANKS;
}

void vg_count_shared(VgSite *row, const VgReach *r, uint32_t lanes_per_pass) {
  uint32_t words = r->width <= 4 ? 1 : r->width / 4;
  for (uint32_t start = 0; start < VG_LANES; start += lanes_per_pass) {
    uint32_t all = lanes_per_pass == 32 ? VG_FULL : ((1u << lanes_per_pass) - 1) << start;
    if (!(r->mask & all)) continue;
    if (no_conflict(r, r->mask & all, words)) row->wavefronts++, row->wavefronts_ideal++;
    else count_pass(row, r, r->mask & all, words);
  }
}

/* Does every lane want what its neighbor `step` lanes off (by xor) wants, where that one is active? */
static int twins(const VgReach *r, uint32_t step) {
  VG_EACH(l, r->mask)
    if (r->mask >> (l ^ step) & 1 && r->at[l] != r->at[l ^ step]) return 0;
  return 1;
}

/* Lanes of one pass: half a warp for 8 bytes each, a quarter for 16. Loads whose lanes agree in
 * pairs take twice as many, as an H200 was seen to do in each of 13 layouts. */
static uint32_t lanes_at_once(const VgReach *r) {
  if (r->width <= 4) return 32;
  uint32_t lanes = 128 / r->width;
  return !r->is_store && (twins(r, 1) || twins(r, 2)) ? 2 * lanes : lanes;
}

/* ------------------------------------------------------------------------------ local memory */

static void trace_local(VgWarp *w, uint32_t site, uint64_t *at, uint32_t lanes, int is_store) {
  uint64_t base = vg_cache_local(w);
  VG_EACH(l, lanes) at[l] += base;
  vg_cache_lanes(w, site, at, lanes, is_store ? VG_TRAFFIC_STORE : VG_TRAFFIC_LOAD);
}

/* Local memory is interleaved by lanes: word i of lane l lies at i * 128 + 4 * l. */
static void count_local(VgWarp *w, uint32_t site, VgSite *row, const VgReach *r) {
  uint32_t words = r->width <= 4 ? 1 : r->width / 4, lanes = (uint32_t)__builtin_popcount(r->mask);
  for (uint32_t i = 0; i < words; i++) {
    uint64_t at[VG_LANES];
    VG_EACH(l, r->mask) {
      uint64_t offset = r->at[l] - (uint64_t)(uintptr_t)w->local - l * w->local_stride;
      at[l] = (offset / 4 + i) * 128 + 4 * l;
    }
    uint32_t first = distinct(at, r->mask, SECTOR);
    row->sectors += lanes_in(first);
    if (w->worker->launch->cache) trace_local(w, site, at, first, r->is_store);
  }
  row->sectors_ideal += ((uint64_t)lanes * r->width + 31) / 32;
}

/* ------------------------------------------------------------------------------------ entry */

static VgSite *count_lanes(VgWarp *w, uint32_t site, const VgReach *r) {
  VgSite *row = &w->worker->sites[site];
  uint32_t lanes = (uint32_t)__builtin_popcount(r->mask);
  row->requests++, row->threads += lanes, row->bytes += (uint64_t)lanes * r->width;
  return row;
}

/* Counts sectors; the first lane of each. */
static uint32_t count_sectors(VgSite *row, const VgReach *r) {
  uint32_t sectors = distinct(r->at, r->mask, SECTOR);
  uint32_t apart = sectors == r->mask ? r->mask : distinct(r->at, r->mask, 0);
  row->sectors += lanes_in(sectors);
  row->sectors_ideal += ((uint64_t)lanes_in(apart) * r->width + 31) / 32;
  return sectors;
}

static void count_global(VgWarp *w, uint32_t site, VgSite *row, const VgReach *r) {
  uint32_t sectors = count_sectors(row, r);
  if (r->space == VG_CONST) return;
  see_lanes(w, site, r, sectors, r->is_store);
  trace(w, site, r, sectors, r->is_store ? VG_TRAFFIC_STORE : VG_TRAFFIC_LOAD);
}

void vg_count(VgWarp *w, uint32_t site, const VgReach *r) {
  if (r->space == VG_PARAM) return;
  VgSite *row = count_lanes(w, site, r);
  switch (r->space) {
    case VG_SHARED: vg_count_shared(row, r, lanes_at_once(r)); break;
    case VG_LOCAL: count_local(w, site, row, r); break;
    default: count_global(w, site, row, r);
  }
}

/* Count the pattern's first access as any other, and keep what it added. */
static void count_afresh(VgSite *row, const VgReach *r, VgPattern *p, uint64_t first) {
  VgSite before = *row;
  p->phase = first & 31, p->counted = 1;
  if (r->space == VG_SHARED) {
    vg_count_shared(row, r, lanes_at_once(r));
    p->transactions = (uint32_t)(row->wavefronts - before.wavefronts);
    p->ideal = (uint32_t)(row->wavefronts_ideal - before.wavefronts_ideal);
    return;
  }
  p->leaders = count_sectors(row, r);
  p->transactions = (uint32_t)(row->sectors - before.sectors);
  p->ideal = (uint32_t)(row->sectors_ideal - before.sectors_ideal);
}

void vg_count_pattern(VgWarp *w, uint32_t site, const VgReach *r, VgPattern *p, uint64_t first) {
  VgSite *row = count_lanes(w, site, r);
  int is_shared = r->space == VG_SHARED;
  if (!p->counted || (!is_shared && p->phase != (first & 31))) count_afresh(row, r, p, first);
  else if (is_shared) row->wavefronts += p->transactions, row->wavefronts_ideal += p->ideal;
  else row->sectors += p->transactions, row->sectors_ideal += p->ideal;
  if (is_shared) return;
  see_lanes(w, site, r, p->leaders, r->is_store);
  trace(w, site, r, p->leaders, r->is_store ? VG_TRAFFIC_STORE : VG_TRAFFIC_LOAD);
}

void vg_count_span(VgWarp *w, uint32_t site, const VgAllocation *allocation, uint64_t first,
                   uint64_t bytes, uint32_t lanes, int is_store) {
  VgSite *row = &w->worker->sites[site];
  row->requests++, row->threads += lanes, row->bytes += bytes;
  row->sectors += ((first + bytes - 1) >> SECTOR) - (first >> SECTOR) + 1;
  row->sectors_ideal += (bytes + 31) / 32;
  see(w->worker->launch, allocation, first, bytes, is_store);
  trace_span(w, site, first, bytes, is_store);
}

void vg_count_broadcast(VgWarp *w, uint32_t site, uint8_t space, uint64_t address, uint32_t width) {
  VgSite *row = &w->worker->sites[site];
  uint32_t passes = width <= 8 ? 1 : width / 8;
  row->requests++, row->threads += VG_LANES, row->bytes += VG_LANES * width;
  if (space == VG_SHARED) {
    row->wavefronts += passes, row->wavefronts_ideal += passes;
    return;
  }
  row->sectors++, row->sectors_ideal++;
  if (space == VG_CONST) return;
  see(w->worker->launch, vg_row(w->worker, site), address, width, 0);
  trace_span(w, site, address, width, 0);
}

/* Lanes on one word are combined before the banks see them: passes are those of a store. */
void vg_count_atomic(VgWarp *w, uint32_t site, const VgReach *r) {
  VgSite *row = count_lanes(w, site, r);
  uint32_t most, kinds = crowds(r, &most);
  row->conflicts += (uint32_t)__builtin_popcount(r->mask) - kinds;
  if (r->space == VG_SHARED) {
    vg_count_shared(row, r, lanes_at_once(r));
    return;
  }
  row->wavefronts += most, row->wavefronts_ideal++;
  uint32_t sectors = count_sectors(row, r);
  see_lanes(w, site, r, sectors, 0);
  see_lanes(w, site, r, sectors, 1);
  trace(w, site, r, sectors, VG_TRAFFIC_ATOMIC);
}
