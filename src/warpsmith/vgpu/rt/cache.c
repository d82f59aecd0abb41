/* The cache model: record the accesses of a wave of blocks, replay them through L1s and the L2.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Caches have lines of 128 bytes with four sectors of 32, 16 ways, the least recently used goes
 * first; sets are chosen by a hash. L1 is written through and takes a line for a store, which hits
 * where the line is there, as the hardware counts it. L2 is written back; a store of any part of a
 * sector needs nothing from DRAM, an atomic does.
 */
#include "cache.h"

#include <stdlib.h>

#include "reach.h"

#define LINE 7
#define WAYS 16
#define NOBODY UINT32_MAX
#define AHEAD 4   /* entries: how far the replay looks */

enum { MASK_AT = 48, KIND_AT = 52, HINT_AT = 54 };
#define LAST (1ull << 63)   /* entry: the last of its request */
#define LINE_OF(entry) ((entry) & ((1ull << MASK_AT) - 1))

typedef struct Set {
  uint32_t tag[WAYS], stamp[WAYS];
  uint8_t valid[WAYS], dirty[WAYS];
} Set;

typedef struct Table {
  Set *sets;
  uint32_t count, clock;
} Table;

/* A stretch of the trace that one warp recorded. */
typedef struct Run {
  uint64_t first, end;
  uint32_t stream, next;
} Run;

typedef struct Stream { uint32_t head, tail; } Stream;
typedef struct Cursor { uint64_t at, end; uint32_t run, sm; } Cursor;

typedef struct State {
  Table l1, l2;              /* l1: `count` sets for each SM, one SM after another */
  uint64_t *trace, used;
  Run *runs;
  uint32_t run_count, run_room;
  Stream *streams;
  Cursor *cursors;
  uint32_t stream_count, warps, wave_blocks, open;   /* open: the stream recorded last */
  uint64_t wave;
} State;

/* ------------------------------------------------------------------------------------ tables */

static uint64_t mixed(uint64_t x) {
  x ^= x >> 31, x *= 0x7fb5d329728ea185ull, x ^= x >> 27, x *= 0x81dadef4bc2dd44dull;
  return x ^ x >> 33;
}

static Set *set_of(const Table *table, uint64_t first, uint64_t hash) {
  return &table->sets[first + ((hash >> 32) * table->count >> 32)];
}

static uint32_t tag_of(uint64_t hash) { return (uint32_t)hash | 1; }

/* The way with this tag, or -1; like `oldest` a maximum or minimum, which compilers vectorize. */
static int find(const Set *set, uint32_t tag) {
  int way = -1;
  for (int i = 0; i < WAYS; i++) {
    int mine = set->tag[i] == tag ? i : -1;
    way = mine > way ? mine : way;
  }
  return way;
}

static int oldest(const Set *set) {
  uint32_t least = UINT32_MAX;
  for (uint32_t i = 0; i < WAYS; i++) {
    uint32_t mine = set->stamp[i] | i;
    least = mine < least ? mine : least;
  }
  return (int)(least % WAYS);
}

/* Stamps are multiples of the number of ways. */
static void touch(Table *table, Set *set, int way, uint32_t hint) {
  uint32_t now = table->clock += WAYS;
  set->stamp[way] = hint & VG_HINT_EVICT_FIRST ? 0 : now;
}

static uint32_t sectors(uint32_t mask) { return (uint32_t)__builtin_popcount(mask); }

/* ------------------------------------------------------------------------------------- L2, L1 */

/* The sectors that DRAM gives when these are missed. */
static uint32_t fetched(const VgCache *c, uint32_t missed) {
  if (c->fetch_sectors == 4) return missed ? 15 : 0;
  if (c->fetch_sectors == 2) return (missed & 3 ? 3 : 0) | (missed & 12 ? 12 : 0);
  return missed;
}

static void second_level(VgCache *c, State *s, uint64_t hash, uint32_t mask, VgTraffic kind,
                         uint32_t hint) {
  Set *set = set_of(&s->l2, 0, hash);
  uint32_t tag = tag_of(hash);
  int way = find(set, tag);
  if (way < 0) {
    way = oldest(set);
    c->dram_writes += sectors(set->dirty[way]), c->dirty -= sectors(set->dirty[way]);
    set->tag[way] = tag, set->valid[way] = set->dirty[way] = 0;
  }
  touch(&s->l2, set, way, hint);
  uint32_t hits = set->valid[way] & mask, n = sectors(mask);
  if (kind == VG_TRAFFIC_LOAD) c->l2_reads += n, c->l2_read_hits += sectors(hits);
  else c->l2_writes += n, c->l2_write_hits += kind == VG_TRAFFIC_STORE ? n : sectors(hits);
  if (kind != VG_TRAFFIC_STORE) {
    uint32_t more = fetched(c, mask & ~hits) & ~(uint32_t)set->valid[way];
    c->dram_reads += sectors(more), set->valid[way] |= more;
  }
  if (kind == VG_TRAFFIC_LOAD) return;
  c->dirty += sectors(mask & ~(uint32_t)set->dirty[way]);
  set->valid[way] |= mask, set->dirty[way] |= mask;
}

/* A load's sectors that L1 does not have. */
static uint32_t first_level(VgCache *c, State *s, uint32_t sm, uint64_t hash, uint32_t mask,
                            uint32_t hint) {
  c->l1_sectors += sectors(mask);
  if (hint & VG_HINT_PAST_L1 || !s->l1.count) return mask;
  Set *set = set_of(&s->l1, (uint64_t)sm * s->l1.count, hash);
  uint32_t tag = tag_of(hash);
  int way = find(set, tag);
  uint32_t hits = way < 0 ? 0 : set->valid[way] & mask;
  c->l1_hits += sectors(hits);
  if (way < 0 && hint & VG_HINT_NO_ALLOCATE) return mask;
  if (way < 0) way = oldest(set), set->tag[way] = tag, set->valid[way] = 0;
  touch(&s->l1, set, way, hint);
  set->valid[way] |= mask;
  return mask & ~hits;
}

/* A store writes through and leaves its line. */
static void written_through(VgCache *c, State *s, uint32_t sm, uint64_t hash, uint32_t mask,
                            uint32_t hint) {
  c->l1_sectors += sectors(mask);
  if (!s->l1.count) return;
  Set *set = set_of(&s->l1, (uint64_t)sm * s->l1.count, hash);
  int way = find(set, tag_of(hash));
  if (way >= 0) c->l1_hits += sectors(mask);
  else if (hint & VG_HINT_NO_ALLOCATE) return;
  else way = oldest(set), set->tag[way] = tag_of(hash), set->valid[way] = 0;
  touch(&s->l1, set, way, hint);
  set->valid[way] |= mask;
}

static void replay_entry(VgCache *c, State *s, uint32_t sm, uint64_t entry) {
  uint64_t hash = mixed(LINE_OF(entry));
  uint32_t mask = entry >> MASK_AT & 15, hint = entry >> HINT_AT & 31;
  VgTraffic kind = entry >> KIND_AT & 3;
  if (kind == VG_TRAFFIC_LOAD && !(hint & VG_HINT_NO_L1)) mask = first_level(c, s, sm, hash, mask, hint);
  else if (kind == VG_TRAFFIC_STORE && !(hint & VG_HINT_NO_L1)) written_through(c, s, sm, hash, mask, hint);
  if (mask) second_level(c, s, hash, mask, kind, hint);
}

/* ------------------------------------------------------------------------------------- replay */

/* Go to the first run from `run` on that has entries; 0 when there is none. */
static int enter(const State *s, Cursor *cursor, uint32_t run) {
  while (run != NOBODY && s->runs[run].first == s->runs[run].end) run = s->runs[run].next;
  if (run == NOBODY) return 0;
  cursor->run = run, cursor->at = s->runs[run].first, cursor->end = s->runs[run].end;
  return 1;
}

static uint32_t start(VgCache *c, State *s) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < s->stream_count; i++) {
    Cursor cursor = {.sm = i / s->warps % c->sms};
    if (enter(s, &cursor, s->streams[i].head)) s->cursors[count++] = cursor;
    s->streams[i] = (Stream){NOBODY, NOBODY};
  }
  return count;
}

/* The host's own caches miss these tables: ask for the sets of an entry that comes soon. */
static void expect(const State *s, uint32_t sm, uint64_t at) {
  uint64_t hash = mixed(LINE_OF(s->trace[at]));
  if (s->l1.count) __builtin_prefetch(set_of(&s->l1, (uint64_t)sm * s->l1.count, hash));
  const Set *set = set_of(&s->l2, 0, hash);
  __builtin_prefetch(set), __builtin_prefetch(set->stamp), __builtin_prefetch(set->valid);
}

/* One request of a warp; 0 when it has no other. */
static int turn(VgCache *c, State *s, Cursor *cursor) {
  uint64_t entry;
  do {
    if (cursor->at + AHEAD < cursor->end) expect(s, cursor->sm, cursor->at + AHEAD);
    replay_entry(c, s, cursor->sm, entry = s->trace[cursor->at++]);
  } while (!(entry & LAST));
  return cursor->at < cursor->end || enter(s, cursor, s->runs[cursor->run].next);
}

static void replay(VgCache *c, State *s) {
  uint32_t left = start(c, s);
  while (left) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < left; i++) {
      Cursor cursor = s->cursors[i];
      if (i + AHEAD < left) expect(s, s->cursors[i + AHEAD].sm, s->cursors[i + AHEAD].at);
      if (turn(c, s, &cursor)) s->cursors[kept++] = cursor;
    }
    left = kept;
  }
  s->used = s->run_count = 0, s->open = NOBODY;
}

/* ------------------------------------------------------------------------------------- record */

static void *fresh(uint64_t count, uint64_t size) { return calloc(count ? count : 1, size); }

static State *begin(VgCache *c, uint32_t warps) {
  State *s = c->state = fresh(1, sizeof *s);
  if (!s) return NULL;
  uint32_t cluster = c->cluster_blocks ? c->cluster_blocks : 1;
  uint32_t blocks = c->sms * c->blocks_per_sm / cluster * cluster;
  s->warps = warps, s->wave_blocks = blocks ? blocks : cluster;
  s->stream_count = s->wave_blocks * warps, s->open = NOBODY, s->run_room = 1 << 12;
  s->l1.count = (c->l1_bytes >> LINE >> c->sample_shift) / WAYS;
  s->l2.count = (uint32_t)((c->l2_bytes >> LINE >> c->sample_shift) / WAYS);
  if (!s->l2.count) s->l2.count = 1;
  s->l1.sets = fresh((uint64_t)s->l1.count * c->sms, sizeof(Set));
  s->l2.sets = fresh(s->l2.count, sizeof(Set));
  s->trace = malloc((c->trace_entries + VG_LANES) * sizeof *s->trace);
  s->runs = malloc(s->run_room * sizeof *s->runs);
  s->streams = malloc(s->stream_count * sizeof *s->streams);
  s->cursors = malloc(s->stream_count * sizeof *s->cursors);
  if (!s->l1.sets || !s->l2.sets || !s->trace || !s->runs || !s->streams || !s->cursors) return NULL;
  memset(s->streams, 0xff, s->stream_count * sizeof *s->streams);
  return s;
}

static int open_run(State *s, uint32_t stream) {
  if (s->run_count == s->run_room) {
    Run *more = realloc(s->runs, 2ull * s->run_room * sizeof *more);
    if (!more) return 1;
    s->runs = more, s->run_room *= 2;
  }
  uint32_t run = s->run_count++;
  s->runs[run] = (Run){s->used, s->used, stream, NOBODY};
  if (s->streams[stream].head == NOBODY) s->streams[stream].head = run;
  else s->runs[s->streams[stream].tail].next = run;
  s->streams[stream].tail = run, s->open = stream;
  return 0;
}

/* Where this warp's next request goes; NULL when it is not recorded. */
static State *recording(VgCache *c, const VgWarp *w, uint32_t site, uint64_t entries) {
  if (c->failed || c->hints[site] & VG_HINT_NONE) return NULL;
  State *s = c->state ? c->state : begin(c, w->block->warp_count);
  if (!s) return c->failed = 1, NULL;
  uint64_t wave = w->block->number / s->wave_blocks;
  if (wave != s->wave) replay(c, s), s->wave = wave;
  if (s->used + entries > c->trace_entries) replay(c, s), c->early++;
  uint32_t stream = w->block->number % s->wave_blocks * s->warps + w->index;
  if (stream != s->open && open_run(s, stream)) return c->failed = 1, NULL;
  return s;
}

static int followed(const VgCache *c, uint64_t line) {
  return !c->sample_shift || !(mixed(line ^ 0x5bd1e995) & ((1u << c->sample_shift) - 1));
}

static uint64_t entry_of(const VgCache *c, uint32_t site, uint64_t line, uint32_t mask, VgTraffic kind) {
  return line | (uint64_t)mask << MASK_AT | (uint64_t)kind << KIND_AT |
         (uint64_t)c->hints[site] << HINT_AT;
}

static void close_request(State *s, uint64_t first) {
  if (s->used == first) return;
  s->trace[s->used - 1] |= LAST;
  s->runs[s->run_count - 1].end = s->used;
}

void vg_cache_lanes(VgWarp *w, uint32_t site, const uint64_t *at, uint32_t lanes, VgTraffic kind) {
  VgCache *c = w->worker->launch->cache;
  State *s = recording(c, w, site, VG_LANES);
  if (!s) return;
  uint64_t first = s->used, line = UINT64_MAX, mask = 0;
  VG_EACH(l, lanes) {
    uint64_t mine = at[l] >> LINE;
    if (mine != line) {
      if (mask && followed(c, line)) s->trace[s->used++] = entry_of(c, site, line, (uint32_t)mask, kind);
      line = mine, mask = 0;
    }
    mask |= 1u << (at[l] >> 5 & 3);
  }
  if (mask && followed(c, line)) s->trace[s->used++] = entry_of(c, site, line, (uint32_t)mask, kind);
  close_request(s, first);
}

void vg_cache_span(VgWarp *w, uint32_t site, uint64_t begin, uint64_t bytes, VgTraffic kind) {
  VgCache *c = w->worker->launch->cache;
  uint64_t last = (begin + bytes - 1) >> 5, sector = begin >> 5;
  while (sector <= last) {   /* a bulk copy may be larger than what is left of the trace */
    State *s = recording(c, w, site, VG_LANES);
    if (!s) return;
    uint64_t first = s->used;
    for (int i = 0; i < VG_LANES && sector <= last; i++) {
      uint64_t line = sector >> 2, end = (line << 2) + 3 < last ? (line << 2) + 3 : last;
      uint32_t mask = (2u << (end & 3)) - (1u << (sector & 3));
      if (followed(c, line)) s->trace[s->used++] = entry_of(c, site, line, mask, kind);
      sector = end + 1;
    }
    close_request(s, first);
  }
}

uint64_t vg_cache_local(const VgWarp *w) {
  const VgCache *c = w->worker->launch->cache;
  uint64_t wave = (uint64_t)c->sms * c->blocks_per_sm;
  uint64_t slot = w->block->number % wave * w->block->warp_count + w->index;
  return (1ull << 54) + slot * VG_LANES * (w->local_stride + 127 & ~127ull);
}

/* ---------------------------------------------------------------------------------------- end */

void vg_cache_close(VgCache *c) {
  State *s = c->state;
  if (!s) return;
  if (!c->failed) replay(c, s);
  free(s->l1.sets), free(s->l2.sets), free(s->trace), free(s->runs);
  free(s->streams), free(s->cursors), free(s);
  c->state = NULL;
}

uint64_t vg_cache_size(void) { return sizeof(VgCache); }
