/* Who knows of whom: the sanitizer's clocks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Time is the number of an event: each warp-level access makes one (or uses its last one again,
 * where nothing was released since). An event e of another thread happens before an access of mine
 * when I know of that thread's events up to e: by a barrier, or by acquiring what it released. Three
 * ways to know, from cheap to dear:
 *   - `floor` of the block: its last barrier of all threads orders everything before it;
 *   - `times` of a clock: for each warp of the resident blocks, what all its lanes did up to there;
 *   - `entry`s of a clock: single lanes, and blocks that have ended; a full list gives up its oldest
 *     entry to `all`, which claims too much knowledge: that can miss a race, never invent one.
 */
#ifndef VGPU_ORDER_H
#define VGPU_ORDER_H

#include "check.h"

/* A mark: event << 7 | async << 6 | atomic << 5 | lane. Event 0: never touched. */
enum { MARK_SHIFT = 7, MARK_ASYNC = 64, MARK_ATOMIC = 32, MARK_LANE = 31 };
enum { EVENT_NONE, EVENT_KNOWN, EVENT_FRESH, EVENT_FREED, EVENT_FIRST = 8 };
enum { ENTRIES = 12, EXTRAS = 6, PSEUDO = 16, GROUPS_KEPT = 16, EVENTS = 1 << 24, OBJECTS = 1 << 13 };
#define ANY_AGENT UINT32_MAX

/* What a granule of memory remembers. lanes: of the warp that made `read`; other: a reader of another
 * warp since the last write. */
typedef struct Cell { uint32_t write, read, other, lanes; } Cell;

/* Shadow of a stretch of memory, one cell for 1 << shift bytes. */
typedef struct Shadow {
  Cell *cells;
  uint64_t begin, bytes, room;  /* room: mapped bytes of cells */
  uint32_t shift;
  uint8_t fresh;        /* what was never written is uninitialized */
  uint8_t heap;         /* what was never allocated is out of bounds */
  uint8_t off;          /* too large, or nothing to find */
  uint8_t window;       /* of a block's shared memory */
} Shadow;

typedef struct Event { uint32_t block, agent, site; } Event;

typedef struct Entry { uint32_t block, agent, lanes, time; } Entry;

typedef struct Clock {
  uint32_t set;         /* the resident blocks that `times` speaks of */
  uint32_t all;         /* events of whatever thread up to here are known */
  uint32_t count;
  Entry entry[ENTRIES];
  uint32_t times[];     /* agents of each resident block */
} Clock;

/* What some lanes of a warp know and the others do not. */
typedef struct Extra { uint32_t lanes; Clock *clock; } Extra;

typedef struct WarpOrder {
  Clock *known;         /* what all live lanes know */
  Extra extra[EXTRAS];
  uint32_t extras;
  uint32_t full;        /* lanes know each other's events up to here */
  uint32_t together, together_lanes;  /* the same, if shuffles and votes ordered memory */
  uint32_t released;    /* events up to here are out: make a new one */
  uint32_t fenced;      /* lanes that executed a fence */
  uint32_t fence[VG_LANES];             /* when */
  uint32_t groups, group[GROUPS_KEPT];  /* bulk groups committed, and when */
  uint32_t products, product[GROUPS_KEPT];      /* wgmma groups, likewise */
  uint32_t proxy;       /* the last fence.proxy.async of a lane */
} WarpOrder;

/* One phase of a barrier of the block. */
typedef struct BarrierOrder {
  Clock *clock;         /* of those who arrived and did not wait */
  uint32_t expected, site, arrivals, mixed, bad_count;
} BarrierOrder;

typedef struct BlockOrder {
  uint32_t start, floor;
  uint32_t learned;     /* a warp has acquired something since the last barrier of all */
  uint32_t fenced;      /* some thread has executed a fence */
  WarpOrder *warps;
  BarrierOrder barrier[VG_BARRIERS];
  Shadow shared;
} BlockOrder;

typedef struct Object { uint64_t at; Clock *clock; } Object;
typedef struct HeapBlock { uint64_t at, bytes; uint32_t site, live, block[3], thread[3], warp, lane; } HeapBlock;

typedef struct Check {
  VgWorker *worker;
  uint32_t checks;
  uint32_t warps;       /* of a block */
  uint32_t agents;      /* of a block: its warps, PSEUDO copy engines, a matrix unit for each warp */
  uint32_t slots;       /* resident blocks */
  uint32_t events;      /* the last one */
  uint32_t set;         /* number of the resident set, from 1 */
  Event *log;
  uint32_t *last;       /* each site's last event */
  uint32_t *places;     /* block numbers of all sets */
  uint32_t places_room;
  BlockOrder *blocks;
  Shadow *rows;         /* of the allocation table */
  uint64_t shadow_bytes;
  Object *objects;      /* hash table by address */
  uint32_t object_count, object_all;    /* object_all: released to objects that found no room */
  uint64_t engine[PSEUDO];      /* mbarriers that have a copy engine of their own */
  uint32_t engines;
  Clock *cluster, *scratch;
  uint8_t *written;     /* local memory: one bit a byte, lane after lane, warp after warp */
  uint64_t written_lane;        /* bytes of a lane's bits */
  uint64_t heap_before; /* bytes of the device heap that earlier launches used */
  HeapBlock *heap;
  uint32_t heap_count, heap_room;
} Check;

static inline Check *check_of(const VgWarp *w) { return w->worker->check; }
static inline BlockOrder *block_order(const VgWarp *w) { return &check_of(w)->blocks[w->block->resident]; }
static inline WarpOrder *warp_order(const VgWarp *w) { return &block_order(w)->warps[w->index]; }

/* The event of this access by the warp, or by a copy engine. */
uint32_t order_event(VgWarp *w, uint32_t site, uint32_t agent);
/* Forget everything: events begin anew, and all that was touched counts as ordered. */
void order_wrap(Check *c);
uint32_t order_engine(Check *c, const VgWarp *w, uint64_t barrier);
void order_engine_done(VgWarp *w, uint32_t agent, uint64_t barrier, uint32_t event);

typedef enum Order { UNORDERED, ORDERED, SAME_WARP, SAME_WARP_TOGETHER } Order;
/* The last proxy fence of the thread that made this event, and of this warp. */
int order_proxied(VgWarp *w, uint32_t mark);
/* Does what `mark` says happen before what lane `lane` does now? */
Order order_of(VgWarp *w, uint32_t lane, uint32_t mark);

/* Acquire and release at an address, with what fences and flags say. */
void order_acquire(VgWarp *w, uint32_t lanes, uint64_t at);
void order_release(VgWarp *w, uint32_t lanes, uint64_t at, int fenced_only);

/* Record a problem; `other` is a mark, or 0. */
typedef struct Report {
  uint32_t kind, severity, site, deed, lane, lanes, space, bytes, hint, other, other_deed;
  uint64_t address, limit;
  uint32_t waits, other_site, other_warp, other_lane;   /* barriers: where others wait */
} Report;
void check_report(VgWarp *w, const Report *r);

/* A block starts: its threads know nothing of others yet. */
void order_start(Check *c, VgBlock *b, BlockOrder *o);
void order_close(Check *c);
/* Forget reads and writes of all shadows, but that they were. */
void shadow_wrap(Check *c);
void *check_room(Check *c, uint64_t bytes);

#endif
