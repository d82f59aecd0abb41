/* Order of events between threads: barriers, fences, what is released and acquired.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>

#include "order.h"

/* --------------------------------------------------------------------------------- clocks */

static uint32_t times_count(const Check *c) { return c->slots * c->agents; }

static Clock *new_clock(const Check *c) {
  Clock *clock = calloc(1, sizeof *clock + times_count(c) * sizeof clock->times[0]);
  if (clock) clock->set = c->set;
  return clock;
}

static void clear(const Check *c, Clock *clock) {
  memset(clock, 0, sizeof *clock + times_count(c) * sizeof clock->times[0]);
  clock->set = c->set;
}

static void forget_old(Clock *clock) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < clock->count; i++)
    if (clock->entry[i].time > clock->all) clock->entry[left++] = clock->entry[i];
  clock->count = left;
}

/* A full list gives up its oldest entry. */
static void make_room(Clock *clock) {
  uint32_t oldest = 0;
  for (uint32_t i = 1; i < clock->count; i++)
    if (clock->entry[i].time < clock->entry[oldest].time) oldest = i;
  if (clock->entry[oldest].time > clock->all) clock->all = clock->entry[oldest].time;
  forget_old(clock);
}

static void learn(Clock *clock, Entry e) {
  if (!e.time || e.time <= clock->all || !e.lanes) return;
  for (uint32_t i = 0; i < clock->count; i++) {
    Entry *old = &clock->entry[i];
    if (old->block != e.block || old->agent != e.agent) continue;
    if (old->time == e.time) { old->lanes |= e.lanes; return; }
    if (old->time > e.time && !(e.lanes & ~old->lanes)) return;
    if (old->time < e.time && !(old->lanes & ~e.lanes)) { *old = e; return; }
  }
  if (clock->count == ENTRIES) make_room(clock);
  if (e.time > clock->all) clock->entry[clock->count++] = e;
}

/* Times speak of resident blocks: when those have ended, keep what was known of them as entries. */
static void refresh(const Check *c, Clock *clock) {
  if (clock->set == c->set) return;
  const uint32_t *places = c->places + (uint64_t)clock->set * c->slots;
  uint32_t warps = c->warps;
  for (uint32_t s = 0; s < c->slots; s++) {
    uint32_t *times = clock->times + s * c->agents, least = UINT32_MAX;
    for (uint32_t i = 0; i < warps; i++) least = times[i] < least ? times[i] : least;
    learn(clock, (Entry){places[s], ANY_AGENT, VG_FULL, least});
    for (uint32_t i = 0; i < c->agents; i++)
      if (times[i] > least || i >= warps) learn(clock, (Entry){places[s], i, VG_FULL, times[i]});
  }
  memset(clock->times, 0, times_count(c) * sizeof clock->times[0]);
  clock->set = c->set;
}

static void join(const Check *c, Clock *into, Clock *from) {
  refresh(c, into), refresh(c, from);
  for (uint32_t i = 0; i < times_count(c); i++)
    into->times[i] = from->times[i] > into->times[i] ? from->times[i] : into->times[i];
  if (from->all > into->all) into->all = from->all, forget_old(into);
  for (uint32_t i = 0; i < from->count; i++) learn(into, from->entry[i]);
}

static int knows(const Check *c, Clock *clock, uint32_t block, uint32_t slot, uint32_t agent,
                 uint32_t lane, uint32_t time) {
  refresh(c, clock);
  if (time <= clock->all) return 1;
  if (slot < c->slots && clock->times[slot * c->agents + agent] >= time) return 1;
  for (uint32_t i = 0; i < clock->count; i++) {
    const Entry *e = &clock->entry[i];
    if (e->time < time || e->block != block || !(e->lanes >> lane & 1)) continue;
    if (e->agent == agent || (e->agent == ANY_AGENT && agent < c->warps)) return 1;
  }
  return 0;
}

/* --------------------------------------------------------------------------------- events */

uint32_t order_event(VgWarp *w, uint32_t site, uint32_t agent) {
  Check *c = check_of(w);
  BlockOrder *b = block_order(w);
  uint32_t old = c->last[site], after = b->floor;
  if (agent < w->block->warp_count) {
    const WarpOrder *o = &b->warps[agent];
    after = o->released > after ? o->released : after;
    if (old > after && c->log[old].agent == agent && c->log[old].block == w->block->number) return old;
  }
  if (c->events + 1 >= EVENTS) order_wrap(c);
  uint32_t e = ++c->events;
  c->log[e] = (Event){w->block->number, agent, site};
  return c->last[site] = e;
}

void order_wrap(Check *c) {
  shadow_wrap(c);
  memset(c->last, 0, (c->worker->launch->site_count + 1) * sizeof c->last[0]);
  c->events = EVENT_FIRST;
  for (uint32_t s = 0; s < c->slots; s++) {
    BlockOrder *b = &c->blocks[s];
    b->start = b->floor = EVENT_FIRST;
    for (uint32_t i = 0; i < c->warps; i++) {
      WarpOrder *o = &b->warps[i];
      o->full = o->together = o->released = o->groups = o->products = o->proxy = 0;
      memset(o->fence, 0, sizeof o->fence);
      clear(c, o->known);
      while (o->extras) free(o->extra[--o->extras].clock);
    }
    for (uint32_t i = 0; i < VG_BARRIERS; i++)
      if (b->barrier[i].clock) clear(c, b->barrier[i].clock);
  }
  for (uint32_t i = 0; c->objects && i < OBJECTS; i++)
    if (c->objects[i].clock) clear(c, c->objects[i].clock);
  if (c->cluster) clear(c, c->cluster);
  c->object_all = 0;
}

/* Copies that complete on one mbarrier have an engine of their own, while there are some left; the
 * last engine is that of bulk groups. */
uint32_t order_engine(Check *c, const VgWarp *w, uint64_t barrier) {
  (void)w;
  uint32_t first = c->warps;
  if (!barrier) return first + PSEUDO - 1;
  for (uint32_t i = 0; i < c->engines; i++)
    if (c->engine[i] == barrier) return first + i;
  if (c->engines == PSEUDO - 1) return first + (uint32_t)(barrier >> 3) % (PSEUDO - 1);
  c->engine[c->engines] = barrier;
  return first + c->engines++;
}

/* ------------------------------------------------------------------------------ the question */

static uint32_t slot_of(const Check *c, uint32_t block) {
  uint32_t s = 0;
  while (s < c->slots && c->worker->resident[s].number != block) s++;
  return s;
}

static Order within_warp(VgWarp *w, const WarpOrder *o, uint32_t lane, uint32_t other, uint32_t time) {
  Check *c = check_of(w);
  if (lane == other || time <= o->full) return ORDERED;
  if (knows(c, o->known, w->block->number, w->block->resident, w->index, other, time)) return ORDERED;
  for (uint32_t i = 0; i < o->extras; i++)
    if ((o->extra[i].lanes >> lane & 1) &&
        knows(c, o->extra[i].clock, w->block->number, w->block->resident, w->index, other, time))
      return ORDERED;
  int both = (o->together_lanes >> lane & 1) && (o->together_lanes >> other & 1);
  return both && time <= o->together ? SAME_WARP_TOGETHER : SAME_WARP;
}

Order order_of(VgWarp *w, uint32_t lane, uint32_t mark) {
  Check *c = check_of(w);
  uint32_t time = mark >> MARK_SHIFT, other = mark & MARK_LANE;
  if (time < EVENT_FIRST) return ORDERED;
  const Event *e = &c->log[time];
  const BlockOrder *b = block_order(w);
  WarpOrder *o = warp_order(w);
  int mine = e->block == w->block->number, engine = e->agent >= c->warps;
  if (mine && !engine && time <= b->floor) return ORDERED;
  if (mine && e->agent == w->index) return within_warp(w, o, lane, other, time);
  uint32_t slot = mine ? w->block->resident : slot_of(c, e->block);
  if (knows(c, o->known, e->block, slot, e->agent, other, time)) return ORDERED;
  for (uint32_t i = 0; i < o->extras; i++)
    if ((o->extra[i].lanes >> lane & 1) &&
        knows(c, o->extra[i].clock, e->block, slot, e->agent, other, time))
      return ORDERED;
  return UNORDERED;
}

/* ------------------------------------------------------------------ release and acquire */

/* Put what these lanes know, and what they did up to `time`, into a clock. */
static void give(VgWarp *w, uint32_t lanes, Clock *to, uint32_t time) {
  Check *c = check_of(w);
  const BlockOrder *b = block_order(w);
  WarpOrder *o = warp_order(w);
  uint32_t at = w->block->resident * c->agents;
  join(c, to, o->known);
  for (uint32_t i = 0; i < w->block->warp_count; i++)
    if (to->times[at + i] < b->floor) to->times[at + i] = b->floor;
  uint32_t *own = &to->times[at + w->index], whole = !(w->live & ~lanes);
  if (*own < o->full) *own = o->full;
  if (whole && *own < time) *own = time;
  if (!whole) learn(to, (Entry){w->block->number, w->index, lanes, time});
  for (uint32_t i = 0; i < o->extras; i++)
    if (o->extra[i].lanes & lanes) join(c, to, o->extra[i].clock);
}

static void spread(VgWarp *w, WarpOrder *o, uint32_t i) {
  Check *c = check_of(w);
  if (w->live & ~o->extra[i].lanes) return;
  join(c, o->known, o->extra[i].clock);
  free(o->extra[i].clock);
  o->extra[i] = o->extra[--o->extras];
}

/* These lanes know from now on what the clock knows. */
static void take(VgWarp *w, uint32_t lanes, Clock *from) {
  Check *c = check_of(w);
  WarpOrder *o = warp_order(w);
  block_order(w)->learned = 1;
  if (!(w->live & ~lanes)) {
    join(c, o->known, from);
    uint32_t own = from->times[w->block->resident * c->agents + w->index];
    if (own > o->full) o->full = own;
    return;
  }
  uint32_t i = 0;
  while (i < o->extras && o->extra[i].lanes != lanes) i++;
  if (i == o->extras && o->extras == EXTRAS) {   /* too many: let the whole warp know */
    join(c, o->known, from);
    return;
  }
  if (i == o->extras) {
    o->extra[i] = (Extra){lanes, new_clock(c)};
    if (!o->extra[i].clock) return;
    o->extras++;
  }
  join(c, o->extra[i].clock, from);
}

static Object *object_at(Check *c, uint64_t at, int make) {
  if (!c->objects && (!make || !(c->objects = calloc(OBJECTS, sizeof *c->objects)))) return NULL;
  uint64_t h = (at >> 2) * 0x9e3779b97f4a7c15u >> 40;
  for (uint32_t i = 0; i < 64; i++, h++) {
    Object *o = &c->objects[h % OBJECTS];
    if (o->clock && o->at == at) return o;
    if (o->clock) continue;
    if (!make || !(o->clock = new_clock(c))) return NULL;
    o->at = at, c->object_count++;
    return o;
  }
  return NULL;
}

void order_acquire(VgWarp *w, uint32_t lanes, uint64_t at) {
  Check *c = check_of(w);
  Object *o = object_at(c, at, 0);
  if (o) take(w, lanes, o->clock);
  if (!o && c->object_all) {
    clear(c, c->scratch);
    c->scratch->all = c->object_all;
    take(w, lanes, c->scratch);
  }
}

/* fenced_only: what counts is the lane's last fence, or one that another thread of the block made. */
void order_release(VgWarp *w, uint32_t lanes, uint64_t at, int fenced_only) {
  Check *c = check_of(w);
  WarpOrder *o = warp_order(w);
  if (fenced_only && !(o->fenced & lanes) && !block_order(w)->fenced) return;
  Object *object = object_at(c, at, 1);
  if (!object) {
    c->object_all = c->events;
    o->released = c->events;
    return;
  }
  if (!fenced_only) {
    give(w, lanes, object->clock, c->events);
  } else VG_EACH(l, lanes) {
    give(w, 1u << l, object->clock, o->fenced >> l & 1 ? o->fence[l] : 0);
  }
  o->released = c->events;
}

void vg_check_arrive(VgWarp *w, uint32_t lanes, uint64_t at) { order_release(w, lanes, at, 0); }
void vg_check_wait(VgWarp *w, uint32_t lanes, uint64_t at) { order_acquire(w, lanes, at); }

void vg_check_fence(VgWarp *w, uint32_t lanes) {
  Check *c = check_of(w);
  WarpOrder *o = warp_order(w);
  o->fenced |= lanes, o->released = c->events, block_order(w)->fenced = 1;
  VG_EACH(l, lanes) o->fence[l] = c->events;
}

/* -------------------------------------------------------------------------- copy engines */

/* Who acquires the mbarrier from now on knows of the engine's event. */
void order_engine_done(VgWarp *w, uint32_t agent, uint64_t barrier, uint32_t event) {
  Check *c = check_of(w);
  if (!barrier) return;
  Object *o = object_at(c, barrier, 1);
  if (!o) {
    c->object_all = c->events;
    return;
  }
  refresh(c, o->clock);
  uint32_t *time = &o->clock->times[w->block->resident * c->agents + agent];
  if (*time < event) *time = event;
}

void vg_check_bulk_commit(VgWarp *w, uint32_t lanes) {
  WarpOrder *o = warp_order(w);
  (void)lanes;
  o->group[o->groups++ % GROUPS_KEPT] = check_of(w)->events;
}

void vg_check_bulk_wait(VgWarp *w, uint32_t lanes, uint32_t pending) {
  Check *c = check_of(w);
  WarpOrder *o = warp_order(w);
  if (pending >= o->groups || pending >= GROUPS_KEPT) return;
  clear(c, c->scratch);
  c->scratch->times[w->block->resident * c->agents + c->warps + PSEUDO - 1] =
      o->group[(o->groups - 1 - pending) % GROUPS_KEPT];
  take(w, lanes, c->scratch);
}

/* wgmma reads shared memory until its group has been waited for. */
void vg_check_product_commit(VgWarp *w) {
  WarpOrder *o = warp_order(w);
  o->product[o->products++ % GROUPS_KEPT] = check_of(w)->events;
}

void vg_check_product_wait(VgWarp *w, uint32_t pending) {
  Check *c = check_of(w);
  WarpOrder *o = warp_order(w);
  if (pending >= o->products || pending >= GROUPS_KEPT) return;
  refresh(c, o->known);
  uint32_t *time = &o->known->times[w->block->resident * c->agents + c->warps + PSEUDO + w->index];
  uint32_t done = o->product[(o->products - 1 - pending) % GROUPS_KEPT];
  if (*time < done) *time = done;
  o->released = c->events, block_order(w)->learned = 1;
}

void vg_check_proxy_fence(VgWarp *w) {
  Check *c = check_of(w);
  warp_order(w)->proxy = warp_order(w)->released = c->events;
}

int order_proxied(VgWarp *w, uint32_t mark) {
  Check *c = check_of(w);
  uint32_t time = mark >> MARK_SHIFT;
  const Event *e = &c->log[time];
  if (time < EVENT_FIRST || e->agent >= c->warps || warp_order(w)->proxy >= time) return 1;
  uint32_t slot = slot_of(c, e->block);
  return slot == c->slots || c->blocks[slot].warps[e->agent].proxy >= time;
}

/* ------------------------------------------------------------------------ within a warp */

static void sync_lanes(VgWarp *w, uint32_t lanes) {
  Check *c = check_of(w);
  WarpOrder *o = warp_order(w);
  o->released = c->events;
  for (uint32_t i = o->extras; i-- > 0;) {
    if (!(o->extra[i].lanes & lanes)) continue;
    o->extra[i].lanes |= lanes;
    spread(w, o, i);
  }
  if (!(w->live & ~lanes)) {
    o->full = c->events;
    return;
  }
  clear(c, c->scratch);
  learn(c->scratch, (Entry){w->block->number, w->index, lanes, c->events});
  take(w, lanes, c->scratch);
}

void vg_check_warp_sync(VgWarp *w, uint32_t lanes, const uint32_t *members) {
  while (lanes) {   /* lanes that name the same members go together */
    uint32_t named = members[__builtin_ctz(lanes)], same = 0;
    VG_EACH(l, lanes) same |= (uint32_t)(members[l] == named) << l;
    sync_lanes(w, same);
    lanes &= ~same;
  }
}

void vg_check_together(VgWarp *w, uint32_t lanes) {
  WarpOrder *o = warp_order(w);
  o->together = o->released = check_of(w)->events, o->together_lanes = lanes;
}

/* ------------------------------------------------------------------------------ barriers */

static void arrived_alone(VgWarp *w, BarrierOrder *bar) {
  Check *c = check_of(w);
  if (!bar->clock && !(bar->clock = new_clock(c))) return;
  give(w, w->mask, bar->clock, c->events);
  warp_order(w)->released = c->events;
}

typedef struct Waiter { const VgWarp *w; const VgOp *at; uint32_t lanes; } Waiter;

static void barrier_problem(VgWarp *w, const VgOp *o, uint32_t kind, uint32_t severity, uint32_t hint,
                            uint32_t lanes, const Waiter *other) {
  if (!(check_of(w)->checks & VG_CHECK_BARRIERS) || !lanes) return;
  Report r = {.kind = kind, .severity = severity, .site = o->site, .hint = hint, .lanes = lanes,
              .lane = (uint32_t)__builtin_ctz(lanes)};
  if (other) {
    r.waits = 1, r.other_site = other->at->site, r.other_warp = other->w->index;
    r.other_lane = (uint32_t)__builtin_ctz(other->lanes);
  }
  check_report(w, &r);
}

enum { PART_OF_WARP = 1, OTHER_PLACE, COUNT_NOT_WARPS, COUNTS_DIFFER, TOO_MANY, EXITED };

void vg_check_bar_arrive(const VgOp *o, VgWarp *w, uint32_t id, uint32_t expected, int waits) {
  BarrierOrder *bar = &block_order(w)->barrier[id];
  if (expected % VG_LANES)
    barrier_problem(w, o, VG_FAULT_BARRIER_MISMATCH, VG_ERROR, COUNT_NOT_WARPS, w->mask, NULL);
  if (bar->arrivals && bar->expected != expected)
    barrier_problem(w, o, VG_FAULT_BARRIER_MISMATCH, VG_ERROR, COUNTS_DIFFER, w->mask, NULL);
  bar->expected = expected, bar->arrivals++;
  uint32_t arrived = w->block->barrier[id].arrived;
  if (expected && arrived > expected)
    barrier_problem(w, o, VG_FAULT_BARRIER_MISMATCH, VG_ERROR, TOO_MANY, w->mask, NULL);
  if (!waits) arrived_alone(w, bar);
}

/* The lanes of a warp that wait at the barrier: those at its lowest place, and the others. */
static uint32_t waiting(const VgWarp *w, uint32_t id, Waiter *first, Waiter *other) {
  *first = *other = (Waiter){w, NULL, 0};
  for (uint32_t g = 0; g < w->groups; g++) {
    const VgGroup *group = &w->group[g];
    if (group->state != VG_AT_BARRIER || group->barrier != id) continue;
    Waiter here = {w, group->op - 1, group->mask};
    if (first->at == here.at) first->lanes |= here.lanes;
    else if (!first->at || here.at < first->at) *other = *first, *first = here;
    else *other = here;
  }
  uint32_t lanes = 0;
  for (uint32_t g = 0; g < w->groups; g++)
    if (w->group[g].state == VG_AT_BARRIER && w->group[g].barrier == id) lanes |= w->group[g].mask;
  return lanes;
}

static uint32_t waiting_lanes(const VgWarp *w, uint32_t id) {
  Waiter first, other;
  return waiting(w, id, &first, &other);
}

/* Do all threads that live wait here, and did no one else arrive? */
static int everyone(VgBlock *b, uint32_t id, const BarrierOrder *bar) {
  uint32_t count = 0;
  if (bar->clock && (bar->clock->all || bar->clock->count)) return 0;
  for (uint32_t i = 0; i < b->warp_count; i++)
    count += (uint32_t)__builtin_popcount(waiting_lanes(&b->warps[i], id));
  return count == b->live_threads;
}

static void look_at(VgBlock *b, uint32_t id, uint32_t expected) {
  Waiter before = {0}, first, other;
  for (uint32_t i = 0; i < b->warp_count; i++) {
    VgWarp *w = &b->warps[i];
    uint32_t lanes = waiting(w, id, &first, &other);
    if (!lanes) continue;
    int aligned = first.at->flags & VG_ALIGNED;
    if (aligned && (other.at || (w->live & ~lanes)))
      barrier_problem(w, first.at, VG_FAULT_DIVERGENT_BARRIER, VG_ERROR, PART_OF_WARP, first.lanes,
                      other.at ? &other : NULL);
    uint32_t born = b->worker->launch->threads_per_block - i * VG_LANES;
    uint32_t whole = born >= VG_LANES ? VG_FULL : (1u << born) - 1;
    if (aligned && w->live != whole)
      barrier_problem(w, first.at, VG_FAULT_BARRIER_MISMATCH, VG_WARNING, EXITED, lanes, NULL);
    if (!id && !expected && aligned && before.at && before.at != first.at && !other.at)
      barrier_problem(w, first.at, VG_FAULT_BARRIER_MISMATCH, VG_WARNING, OTHER_PLACE, lanes, &before);
    if (!before.at) before = first;
  }
}

static void open_for_all(Check *c, VgBlock *b, BlockOrder *o) {
  o->floor = c->events;
  if (o->learned) {
    clear(c, c->scratch);
    for (uint32_t i = 0; i < b->warp_count; i++) {
      WarpOrder *order = &o->warps[i];
      join(c, c->scratch, order->known);
      while (order->extras) {
        join(c, c->scratch, order->extra[--order->extras].clock);
        free(order->extra[order->extras].clock);
      }
    }
    for (uint32_t i = 0; i < b->warp_count; i++) join(c, o->warps[i].known, c->scratch);
    o->learned = 0;
  }
}

static void open_for_some(Check *c, VgBlock *b, BlockOrder *o, BarrierOrder *bar, uint32_t id) {
  Clock *sum = new_clock(c);
  if (!sum) return;
  if (bar->clock) join(c, sum, bar->clock);
  for (uint32_t i = 0; i < b->warp_count; i++) {
    uint32_t lanes = waiting_lanes(&b->warps[i], id);
    if (lanes) give(&b->warps[i], lanes, sum, c->events), o->warps[i].released = c->events;
  }
  for (uint32_t i = 0; i < b->warp_count; i++) {
    uint32_t lanes = waiting_lanes(&b->warps[i], id);
    if (lanes) take(&b->warps[i], lanes, sum);
  }
  free(sum);
}

void vg_check_bar_open(VgBlock *b, uint32_t id) {
  Check *c = b->worker->check;
  BlockOrder *o = &c->blocks[b->resident];
  BarrierOrder *bar = &o->barrier[id];
  look_at(b, id, bar->expected);
  if (everyone(b, id, bar)) open_for_all(c, b, o);
  else open_for_some(c, b, o, bar, id);
  free(bar->clock);
  *bar = (BarrierOrder){0};
}

void vg_check_cluster_arrive(VgWarp *w, uint32_t lanes) {
  Check *c = check_of(w);
  if (!c->cluster && !(c->cluster = new_clock(c))) return;
  give(w, lanes, c->cluster, c->events);
  warp_order(w)->released = c->events;
}

void vg_check_cluster_wait(VgWarp *w, uint32_t lanes) {
  Check *c = check_of(w);
  if (c->cluster) take(w, lanes, c->cluster);
}

/* ----------------------------------------------------------------------------- life cycle */

void order_start(Check *c, VgBlock *b, BlockOrder *o) {
  o->learned = o->fenced = 0;
  for (uint32_t i = 0; i < VG_BARRIERS; i++) {
    free(o->barrier[i].clock);
    o->barrier[i] = (BarrierOrder){0};
  }
  for (uint32_t i = 0; i < b->warp_count; i++) {
    WarpOrder *w = &o->warps[i];
    Clock *known = w->known;
    while (w->extras) free(w->extra[--w->extras].clock);
    memset(w, 0, sizeof *w);
    w->known = known;
    clear(c, known);
  }
  if (b->resident == 0 && c->cluster) clear(c, c->cluster);
}

void order_close(Check *c) {
  for (uint32_t s = 0; c->blocks && s < c->slots; s++) {
    BlockOrder *b = &c->blocks[s];
    for (uint32_t i = 0; i < VG_BARRIERS; i++) free(b->barrier[i].clock);
    for (uint32_t i = 0; b->warps && i < c->warps; i++) {
      WarpOrder *w = &b->warps[i];
      while (w->extras) free(w->extra[--w->extras].clock);
      free(w->known);
    }
    free(b->warps);
  }
  for (uint32_t i = 0; c->objects && i < OBJECTS; i++) free(c->objects[i].clock);
  free(c->blocks), free(c->objects), free(c->cluster), free(c->scratch);
}

static int open_orders(Check *c) {
  const VgLaunch *L = c->worker->launch;
  c->blocks = calloc(c->slots, sizeof *c->blocks);
  for (uint32_t s = 0; c->blocks && s < c->slots; s++) {
    c->blocks[s].warps = calloc(L->warps_per_block, sizeof(WarpOrder));
    if (!c->blocks[s].warps) return 1;
    for (uint32_t i = 0; i < L->warps_per_block; i++)
      if (!(c->blocks[s].warps[i].known = new_clock(c))) return 1;
  }
  return !c->blocks || !(c->scratch = new_clock(c));
}

int vg_check_open(VgWorker *k) {
  const VgLaunch *L = k->launch;
  Check *c = k->check = calloc(1, sizeof *c);
  if (!c) return 1;
  c->heap_before = L->heap_used ? *L->heap_used : 0;
  c->worker = k, c->checks = L->checks, c->slots = L->resident_blocks;
  c->warps = L->warps_per_block, c->agents = 2 * c->warps + PSEUDO, c->events = EVENT_FIRST;
  c->log = check_room(NULL, EVENTS * sizeof *c->log);
  c->last = calloc(L->site_count + 1, sizeof *c->last);
  c->rows = calloc(L->table_count + 1, sizeof *c->rows);
  c->written_lane = (L->local_bytes + 7) / 8;
  if (c->written_lane && (c->checks & VG_CHECK_UNINITIALIZED))
    c->written = calloc(c->slots * L->warps_per_block * VG_LANES, c->written_lane);
  return !c->log || !c->last || !c->rows || open_orders(c);
}
