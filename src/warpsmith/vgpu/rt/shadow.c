/* Shadow memory: what the sanitizer remembers of each granule, and what it says to an access.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A granule is 4 bytes until an access is narrower; then the stretch gets a cell for every 2 or 1.
 * A cell has 16 bytes, so that shadow memory is 4 to 16 times what a kernel touches of tensors that
 * it may write. Cells appear when they are touched; beyond LIMIT bytes of them a tensor is not
 * checked, and counted in `unchecked`.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "order.h"

#define LIMIT (16ull << 30)   /* of address space, not of memory */
#define HUGE (2ull << 20)

/* What all lanes of an access share. */
typedef struct Look {
  VgWarp *w;
  Check *c;
  Shadow *s;
  const VgReach *r;
  uint32_t start, span;   /* events that the block's last barrier orders: start … start + span */
  uint32_t event, mark;   /* mark: without the lane */
  uint32_t site, deed, order;
  uint32_t agent;         /* whose event it is: the warp, or a copy engine */
  uint32_t space;
  const VgAccess *access; /* of a store with known values */
  const void *const *source;
} Look;

/* -------------------------------------------------------------------------------- storage */

void *check_room(Check *c, uint64_t bytes) {
  if (c && c->shadow_bytes + bytes > LIMIT) return NULL;
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
  if (bytes >= 2 * HUGE) madvise(p, bytes, MADV_HUGEPAGE);
#endif
  if (c) c->shadow_bytes += bytes;
  return p;
}

static uint64_t cells_of(const Shadow *s) { return (s->bytes >> s->shift) + 1; }

static int make_cells(Check *c, Shadow *s) {
  s->room = cells_of(s) * sizeof(Cell);
  s->cells = check_room(c, s->room);
  if (s->cells) return 0;
  s->off = 1, c->worker->unchecked++;
  return 1;
}

static void drop_cells(Check *c, Shadow *s) {
  if (!s->cells) return;
  munmap(s->cells, s->room);
  c->shadow_bytes -= s->room;
  s->cells = NULL;
}

/* Give every 1 << shift bytes a cell of their own. */
static void refine(Check *c, Shadow *s, uint32_t shift) {
  Shadow old = *s;
  s->shift = shift;
  if (make_cells(c, s)) {
    drop_cells(c, &old);
    return;
  }
  uint64_t count = old.bytes >> old.shift, each = 1ull << (old.shift - shift);
  for (uint64_t i = 0; i < count; i++) {
    const Cell *from = &old.cells[i];
    if (from->write | from->read)
      for (uint64_t k = 0; k < each; k++) s->cells[i * each + k] = *from;
  }
  drop_cells(c, &old);
}

static void set_marks(Shadow *s, uint64_t at, uint64_t bytes, uint32_t event) {
  uint64_t first = (at - s->begin) >> s->shift, end = (at + bytes - s->begin) >> s->shift;
  for (uint64_t i = first; i < end; i++) s->cells[i] = (Cell){.write = event << MARK_SHIFT};
}

/* The shadow of an allocation; it may be `off`. */
static Shadow *shadow_of(Check *c, const VgAllocation *row) {
  const VgLaunch *L = c->worker->launch;
  Shadow *s = &c->rows[row - L->table];
  if (s->begin) return s;
  uint64_t heap = (uint64_t)(uintptr_t)L->heap;
  *s = (Shadow){.begin = row->begin, .bytes = row->end - row->begin, .shift = 2};
  s->heap = L->heap_bytes && heap >= row->begin && heap < row->end;
  s->fresh = (uint8_t)(row->fresh && (c->checks & VG_CHECK_UNINITIALIZED)) || s->heap;
  s->off = !s->fresh && (row->readonly || !(c->checks & VG_CHECK_GLOBAL_RACES));
  if (s->off || make_cells(c, s)) return s;
  if (s->heap) set_marks(s, heap, c->heap_before, EVENT_KNOWN);
  return s;
}

/* The shadow of a host address: of a window of shared memory, or of an allocation; it may be `off`. */
static Shadow *any_shadow(VgWarp *w, uint32_t site, uint64_t at) {
  Check *c = check_of(w);
  for (uint32_t s = 0; s < c->slots; s++)
    if (at - c->blocks[s].shared.begin < c->blocks[s].shared.bytes)
      return &c->blocks[s].shared;
  if (!w->worker->launch->table) return NULL;
  const VgAllocation *row = vg_row(w->worker, site);
  if (at - row->begin >= row->end - row->begin) row = vg_find(w->worker->launch, at);
  return row ? shadow_of(c, row) : NULL;
}

static Shadow *find_shadow(VgWarp *w, uint32_t site, uint64_t at) {
  Shadow *s = any_shadow(w, site, at);
  return s && !s->off ? s : NULL;
}

/* --------------------------------------------------------------------------------- problems */

static void report(const Look *x, uint32_t lane, const Cell *cell, uint32_t kind, uint32_t severity,
                   uint32_t hint, uint32_t other, uint32_t other_deed) {
  uint64_t at = x->s->begin + ((uint64_t)(cell - x->s->cells) << x->s->shift);
  uint32_t bytes = x->r ? x->r->width : 16;
  if (x->r && x->deed != VG_DID_COPY) at = x->r->at[lane];
  Report r = {.kind = kind, .severity = severity, .site = x->site, .deed = x->deed, .lane = lane,
              .space = x->s->window ? VG_SHARED : VG_GLOBAL, .bytes = bytes, .hint = hint,
              .other = other, .other_deed = other_deed,
              .address = x->s->window ? at - x->s->begin : at, .limit = x->s->bytes};
  check_report(x->w, &r);
}

enum { SAME_INSTRUCTION = 1, BETWEEN_BLOCKS = 2, COLLECTIVE = 4, PARTIAL = 8, SAME_VALUE = 16, PROXY = 32 };

static int strong(const Look *x) { return x->deed == VG_DID_ATOMIC || (x->order & VG_STRONG); }

/* How bad is it that a strong access and a plain one meet? Outside of shared memory a plain load beside
 * an atomic is often meant: who reads an old value tries again, or does too much work. */
static uint32_t severity_of(const Look *x, uint32_t mark, uint32_t other_deed) {
  int other_strong = !!(mark & MARK_ATOMIC);
  if (strong(x) == other_strong || x->s->window) return VG_ERROR;
  if (x->deed == VG_DID_READ && other_strong) return VG_WARNING;
  if (other_deed == VG_DID_READ && !other_strong) return VG_INFO;
  return x->deed == VG_DID_READ || other_deed == VG_DID_READ ? VG_WARNING : VG_ERROR;
}

/* Is what lane `lane` stores what lies at `at` already? */
static int stores_same(const Look *x, uint32_t lane, const char *at) {
  const VgAccess *a = x->access;
  for (uint32_t i = 0; a && i < a->count; i++) {
    const char *value = (const char *)x->source[i] + (uint64_t)lane * a->reg_bytes;
    if (memcmp(value, at + i * a->bytes, a->bytes)) return 0;
  }
  return a && x->source;
}

static int same_value(const Look *x, uint32_t lane, uint32_t other) {
  const VgAccess *a = x->access;
  for (uint32_t i = 0; a && x->source && i < a->count; i++) {
    const char *lanes = x->source[i];
    if (memcmp(lanes + (uint64_t)lane * a->reg_bytes, lanes + (uint64_t)other * a->reg_bytes, a->bytes)) return 0;
  }
  return a && x->source;
}

/* Two lanes of one store write one place. */
static int met_now(const Look *x, uint32_t lane, uint32_t mark) {
  uint32_t other = mark & MARK_LANE;
  return x->deed == VG_DID_WRITE && x->r && mark >> MARK_SHIFT == x->event && other < lane &&
         (x->r->mask >> other & 1) && x->r->at[other] == x->r->at[lane];
}

static void met(const Look *x, uint32_t lane, const Cell *cell, uint32_t mark) {
  uint32_t severity = same_value(x, lane, mark & MARK_LANE) ? VG_INFO : VG_ERROR;
  report(x, lane, cell, VG_FAULT_RACE, severity, SAME_INSTRUCTION, mark, VG_DID_WRITE);
}

/* Two stores of one value: which comes last does not show. */
static int repeats_value(const Look *x, uint32_t lane, uint32_t other_deed) {
  return x->deed == VG_DID_WRITE && other_deed == VG_DID_WRITE && x->r && x->source &&
         stores_same(x, lane, (const char *)(uintptr_t)x->r->at[lane]);
}

static void in_warp(const Look *x, uint32_t lane, const Cell *cell, uint32_t mark, uint32_t other_deed,
                    Order found) {
  if (!(x->c->checks & VG_CHECK_WARP_SYNC)) return;
  int together = found == SAME_WARP_TOGETHER, same = repeats_value(x, lane, other_deed);
  uint32_t mild = together || same || severity_of(x, mark, other_deed) == VG_INFO;
  report(x, lane, cell, VG_FAULT_MISSING_SYNCWARP, mild ? VG_INFO : VG_WARNING,
         together ? COLLECTIVE : same ? SAME_VALUE : 0, mark, other_deed);
}

/* Compare this access with an earlier one. */
static void compare(const Look *x, uint32_t lane, const Cell *cell, uint32_t mark, uint32_t other_deed) {
  if (strong(x) && (mark & MARK_ATOMIC)) return;
  if (met_now(x, lane, mark)) {
    met(x, lane, cell, mark);
    return;
  }
  const Event *e = &x->c->log[mark >> MARK_SHIFT];
  uint32_t warps = x->c->warps;
  if ((mark & MARK_ASYNC) && e->agent < warps) {   /* cp.async that has not landed */
    if (x->c->checks & VG_CHECK_ASYNC)
      report(x, lane, cell, VG_FAULT_ASYNC_COPY, VG_ERROR, 0, mark, VG_DID_COPY);
    return;
  }
  Order found = order_of(x->w, lane, mark);
  if (found == ORDERED) return;
  if (mark & MARK_ASYNC) {
    if (x->c->checks & VG_CHECK_ASYNC)
      report(x, lane, cell, VG_FAULT_ASYNC_COPY, VG_ERROR, 0, mark,
             other_deed == VG_DID_READ ? VG_DID_READ : VG_DID_COPY);
    return;
  }
  if (found != UNORDERED) {
    in_warp(x, lane, cell, mark, other_deed, found);
    return;
  }
  if (!(x->c->checks & (x->s->window ? VG_CHECK_RACES : VG_CHECK_GLOBAL_RACES))) return;
  uint32_t hint = e->block != x->w->block->number ? BETWEEN_BLOCKS : 0;
  int same = repeats_value(x, lane, other_deed);
  report(x, lane, cell, VG_FAULT_RACE, same ? VG_INFO : severity_of(x, mark, other_deed),
         same ? hint | SAME_VALUE : hint, mark, other_deed);
}

/* Nothing has written this, or it is no longer there. 1: do not look further. */
static int special(const Look *x, uint32_t lane, const Cell *cell) {
  uint32_t event = cell->write >> MARK_SHIFT;
  if (event == EVENT_FREED) {
    report(x, lane, cell, VG_FAULT_USE_AFTER_FREE, VG_ERROR, 0, 0, 0);
    return 1;
  }
  if (event == EVENT_NONE && x->s->heap) {
    report(x, lane, cell, VG_FAULT_OUT_OF_BOUNDS, VG_ERROR, 0, 0, 0);
    return 1;
  }
  int reads = x->deed == VG_DID_READ || x->deed == VG_DID_ATOMIC;
  if (reads && x->s->fresh && (event == EVENT_NONE || event == EVENT_FRESH))
    if (x->c->checks & VG_CHECK_UNINITIALIZED)
      report(x, lane, cell, VG_FAULT_UNINITIALIZED, VG_ERROR, 0, 0, 0);
  return event < EVENT_FIRST;
}

/* ------------------------------------------------------------------------------ the cells */

/* The block's last barrier orders this mark, or there is none. */
static inline int settled(const Look *x, uint32_t mark) {
  return (mark >> MARK_SHIFT) - x->start <= x->span && !(mark & MARK_ASYNC);
}

static inline void look_at_write(const Look *x, Cell *cell, uint32_t lane) {
  uint32_t mark = cell->write;
  if (settled(x, mark)) return;
  if (mark >> MARK_SHIFT < EVENT_FIRST) {
    if (mark | x->s->fresh) special(x, lane, cell);
    return;
  }
  compare(x, lane, cell, mark, VG_DID_WRITE);
}

static void note_reader(const Look *x, Cell *cell, uint32_t lane) {
  uint32_t old = cell->read;
  const Event *e = &x->c->log[old >> MARK_SHIFT];
  if (e->agent != x->agent || e->block != x->w->block->number) {
    cell->other = old, cell->lanes = 0;
  } else if (old >> MARK_SHIFT <= warp_order(x->w)->full) {
    cell->lanes = 0;
  }
  cell->read = x->mark | lane, cell->lanes |= 1u << lane;
}

/* A plain write that atomics of other lanes came after. */
static inline void look_at_older(const Look *x, Cell *cell, uint32_t lane) {
  if (!cell->read && cell->other && !settled(x, cell->other)) compare(x, lane, cell, cell->other, VG_DID_WRITE);
}

static inline void read_cell(const Look *x, Cell *cell, uint32_t lane) {
  look_at_write(x, cell, lane);
  if (cell->other) look_at_older(x, cell, lane);
  uint32_t old = cell->read;
  if (old >> MARK_SHIFT == x->event) cell->lanes |= 1u << lane;
  else if (!old || settled(x, old)) cell->read = x->mark | lane, cell->other = 0, cell->lanes = 1u << lane;
  else note_reader(x, cell, lane);
}

/* Lanes of the warp that read last, this one's own reading apart. */
static void look_at_readers(const Look *x, Cell *cell, uint32_t lane) {
  uint32_t mark = cell->read;
  if (mark && !settled(x, mark)) {
    const Event *e = &x->c->log[mark >> MARK_SHIFT];
    int mine = e->agent == x->w->index && e->block == x->w->block->number;
    uint32_t lanes = mine ? cell->lanes & ~(1u << lane) : cell->lanes;
    if (lanes) {
      uint32_t other = lanes >> (mark & MARK_LANE) & 1 ? mark & MARK_LANE : (uint32_t)__builtin_ctz(lanes);
      compare(x, lane, cell, (mark & ~(uint32_t)MARK_LANE) | other, VG_DID_READ);
    }
  }
  if (cell->other && !settled(x, cell->other)) compare(x, lane, cell, cell->other, VG_DID_READ);
}

/* The plain write that an atomic must not hide from those who come later. */
static uint32_t older_write(const Look *x, const Cell *cell) {
  if (!strong(x) || settled(x, cell->write)) return 0;
  if (cell->write & MARK_ATOMIC) return cell->read ? 0 : cell->other;
  return cell->write >> MARK_SHIFT >= EVENT_FIRST ? cell->write : 0;
}

static inline void write_cell(const Look *x, Cell *cell, uint32_t lane) {
  look_at_write(x, cell, lane);
  if (cell->read) look_at_readers(x, cell, lane);
  else if (cell->other) look_at_older(x, cell, lane);
  *cell = (Cell){.write = x->mark | lane, .other = older_write(x, cell)};
}

static inline void touch(const Look *x, Cell *cell, uint64_t count, uint32_t lane) {
  if (x->deed == VG_DID_READ) for (uint64_t i = 0; i < count; i++) read_cell(x, cell + i, lane);
  else for (uint64_t i = 0; i < count; i++) write_cell(x, cell + i, lane);
}

/* ------------------------------------------------------------------------------- accesses */

static void look(Look *x, VgWarp *w, uint32_t site, uint32_t deed, uint32_t order, uint32_t agent) {
  Check *c = check_of(w);
  const BlockOrder *b = block_order(w);
  memset(x, 0, sizeof *x);
  x->w = w, x->c = c, x->site = site, x->deed = deed, x->order = order, x->agent = agent;
  x->event = order_event(w, site, agent), x->mark = x->event << MARK_SHIFT;
  if (strong(x)) x->mark |= MARK_ATOMIC;
  x->start = b->start, x->span = c->slots == 1 ? b->floor - b->start : 0;
}

static Shadow *narrow_enough(Check *c, Shadow *s, uint32_t width) {
  if (width < 1u << s->shift) refine(c, s, width == 1 ? 0 : 1);
  return s->off ? NULL : s;
}

static void access_shared(Look *x, const VgReach *r) {
  Shadow *s = &block_order(x->w)->shared;
  if (!s->cells || !(s = narrow_enough(x->c, s, r->width))) return;
  uint64_t count = r->width >> s->shift;
  x->s = s;
  Cell *cells = s->cells;
  uint64_t begin = s->begin;
  uint32_t shift = s->shift;
  if (count == 1 && x->deed == VG_DID_READ)
    VG_EACH(l, r->mask) read_cell(x, &cells[(r->at[l] - begin) >> shift], l);
  else VG_EACH(l, r->mask) touch(x, &s->cells[(r->at[l] - s->begin) >> s->shift], count, l);
}

/* The lanes in allocations that are looked at; s: the shadow of the first one. */
static uint32_t watched(VgWarp *w, uint32_t site, const VgReach *r, Shadow **s) {
  uint32_t lanes = 0;
  *s = NULL;
  VG_EACH(l, r->mask) {
    if (!*s || r->at[l] - (*s)->begin >= (*s)->bytes) *s = any_shadow(w, site, r->at[l]);
    lanes |= (uint32_t)(*s && !(*s)->off) << l;
  }
  if (lanes) *s = any_shadow(w, site, r->at[__builtin_ctz(lanes)]);
  return lanes;
}

static void access_global(Look *x, const VgReach *r, uint32_t lanes, Shadow *s) {
  VG_EACH(l, lanes) {
    if (r->at[l] - s->begin >= s->bytes) s = any_shadow(x->w, x->site, r->at[l]);
    if (!narrow_enough(x->c, s, r->width)) continue;
    x->s = s;
    touch(x, &s->cells[(r->at[l] - s->begin) >> s->shift], r->width >> s->shift, l);
  }
}

static void bits_of(VgWarp *w, const VgReach *r, uint32_t lane, uint8_t **bits, uint64_t *first) {
  Check *c = check_of(w);
  uint64_t row = (uint64_t)w->block->resident * w->block->warp_count + w->index;
  *bits = c->written + (row * VG_LANES + lane) * c->written_lane;
  *first = r->at[lane] - (uint64_t)(uintptr_t)w->local - lane * w->local_stride;
}

static void access_local(VgWarp *w, uint32_t site, const VgReach *r, uint32_t deed) {
  if (!check_of(w)->written) return;
  VG_EACH(l, r->mask) {
    uint8_t *bits;
    uint64_t first;
    uint32_t missing = 0;
    bits_of(w, r, l, &bits, &first);
    for (uint64_t i = first; i < first + r->width; i++) {
      missing += !(bits[i >> 3] >> (i & 7) & 1);
      if (deed != VG_DID_READ) bits[i >> 3] |= (uint8_t)(1u << (i & 7));
    }
    if (!missing || deed == VG_DID_WRITE) continue;
    int some = missing < r->width;   /* the padding of a structure is copied too */
    Report report = {.kind = VG_FAULT_UNINITIALIZED, .severity = some ? VG_INFO : VG_ERROR, .site = site,
                     .deed = deed, .lane = l, .space = VG_LOCAL, .bytes = r->width,
                     .hint = some ? PARTIAL : 0, .address = first, .limit = w->local_stride};
    check_report(w, &report);
  }
}

void vg_check_access(VgWarp *w, uint32_t site, const VgReach *r, uint32_t deed, uint32_t order,
                     const VgAccess *a, const void *const *source) {
  Look x;
  if (r->space == VG_CONST || r->space == VG_PARAM) return;
  if (r->space == VG_LOCAL) {
    access_local(w, site, r, deed);
    return;
  }
  int reads = deed != VG_DID_WRITE, sync = (deed == VG_DID_ATOMIC || order) && !(order & VG_ALONE);
  if (sync && reads) VG_EACH(l, r->mask) order_acquire(w, 1u << l, r->at[l]);
  Shadow *s = NULL;
  uint32_t lanes = r->space == VG_SHARED ? r->mask : watched(w, site, r, &s);
  if (lanes) {
    look(&x, w, site, deed, order, w->index);
    x.r = r, x.access = a, x.source = source;
    if (r->space == VG_SHARED) access_shared(&x, r);
    else access_global(&x, r, lanes, s);
  }
  if (sync && deed != VG_DID_READ)
    VG_EACH(l, r->mask) order_release(w, 1u << l, r->at[l], !(order & VG_RELEASE));
}

/* ---------------------------------------------------------------------- asynchronous copies */

void vg_check_copy(VgWarp *w, uint32_t site, const VgReach *to) {
  Look x;
  look(&x, w, site, VG_DID_COPY, 0, w->index);
  x.r = to, x.mark |= MARK_ASYNC;
  access_shared(&x, to);
}

void vg_check_landed(VgWarp *w, uint32_t site, uint32_t lane, uint64_t at, uint32_t bytes) {
  Shadow *s = find_shadow(w, site, at);
  if (!s) return;
  uint32_t mark = order_event(w, site, w->index) << MARK_SHIFT | lane;
  Cell *cell = &s->cells[(at - s->begin) >> s->shift];
  for (uint32_t i = 0; i < bytes >> s->shift; i++)
    if (cell[i].write & MARK_ASYNC) cell[i].write = mark;
}

/* The asynchronous proxy reads what threads have written with no fence.proxy.async since. */
static void look_at_proxy(const Look *x, const Cell *cell, uint32_t lane) {
  uint32_t mark = cell->write;
  if (!x->s->window || (mark & MARK_ASYNC) || order_proxied(x->w, mark)) return;
  if (x->c->checks & VG_CHECK_ASYNC)
    report(x, lane, cell, VG_FAULT_ASYNC_COPY, VG_WARNING, PROXY, mark, VG_DID_WRITE);
}

void vg_check_bulk(VgWarp *w, uint32_t site, uint32_t lane, uint64_t at, uint64_t bytes,
                   uint32_t deed, uint64_t barrier) {
  Check *c = check_of(w);
  Shadow *s = find_shadow(w, site, at);
  uint32_t agent = order_engine(c, w, barrier);
  Look x;
  if (!s || at + bytes > s->begin + s->bytes) return;
  look(&x, w, site, deed, 0, agent);
  x.s = s, x.mark |= MARK_ASYNC;
  Cell *cell = &s->cells[(at - s->begin) >> s->shift];
  for (uint64_t i = 0; deed == VG_DID_READ && i < bytes >> s->shift; i++) look_at_proxy(&x, &cell[i], lane);
  touch(&x, cell, bytes >> s->shift, lane);
  order_engine_done(w, agent, barrier, x.event);
}

static void operand(VgWarp *w, uint32_t site, uint32_t lane, uint64_t at, uint32_t bytes, uint32_t agent) {
  Shadow *s = find_shadow(w, site, at);
  Look x;
  if (!s) return;
  look(&x, w, site, VG_DID_READ, 0, agent);
  x.s = s;
  if (agent != w->index) x.mark |= MARK_ASYNC;
  Cell *cell = &s->cells[(at - s->begin) >> s->shift];
  for (uint32_t i = 0; i < bytes >> s->shift; i++) {
    look_at_proxy(&x, &cell[i], lane);
    read_cell(&x, &cell[i], lane);
  }
}

void vg_check_operand(VgWarp *w, uint32_t site, uint32_t lane, uint64_t at, uint32_t bytes) {
  operand(w, site, lane, at, bytes, w->index);
}

void vg_check_product(VgWarp *w, uint32_t site, uint64_t at, uint32_t bytes) {
  operand(w, site, 0, at, bytes, check_of(w)->warps + PSEUDO + w->index);
}

/* ------------------------------------------------------------------------------ the heap */

static HeapBlock *heap_block(Check *c, uint64_t at) {
  for (uint32_t i = c->heap_count; i-- > 0;)
    if (c->heap[i].at == at) return &c->heap[i];
  return NULL;
}

static Shadow *heap_shadow(VgWarp *w, uint64_t at) {
  const VgAllocation *row = w->worker->launch->table ? vg_find(w->worker->launch, at) : NULL;
  Shadow *s = row ? shadow_of(check_of(w), row) : NULL;
  return s && !s->off ? s : NULL;
}

void vg_check_malloc(VgWarp *w, uint32_t site, uint32_t lane, char *at, uint64_t bytes) {
  Check *c = check_of(w);
  if (!at || !bytes) return;
  if (c->heap_count == c->heap_room) {
    uint32_t room = c->heap_room ? 2 * c->heap_room : 64;
    HeapBlock *more = realloc(c->heap, room * sizeof *more);
    if (!more) return;
    c->heap = more, c->heap_room = room;
  }
  HeapBlock *b = &c->heap[c->heap_count++];
  *b = (HeapBlock){.at = (uint64_t)(uintptr_t)at, .bytes = bytes, .site = site, .live = 1,
                   .warp = w->index, .lane = lane};
  memcpy(b->block, w->block->index, sizeof b->block);
  uint32_t thread = w->index * VG_LANES + lane;
  const uint32_t *n = w->worker->launch->block;
  b->thread[0] = thread % n[0], b->thread[1] = thread / n[0] % n[1], b->thread[2] = thread / (n[0] * n[1]);
  Shadow *s = heap_shadow(w, b->at);
  if (s) set_marks(s, b->at, (bytes + 3) / 4 * 4, EVENT_FRESH);
}

void vg_check_free(VgWarp *w, uint32_t site, uint32_t lane, char *at) {
  Check *c = check_of(w);
  uint64_t address = (uint64_t)(uintptr_t)at;
  if (!at) return;
  HeapBlock *b = heap_block(c, address);
  uint64_t heap = (uint64_t)(uintptr_t)w->worker->launch->heap;
  if (!b && address - heap < c->heap_before) return;   /* of an earlier launch */
  if (b && b->live) {
    b->live = 0;
    Shadow *s = heap_shadow(w, address);
    if (s) set_marks(s, address, (b->bytes + 3) / 4 * 4, EVENT_FREED);
    return;
  }
  Report r = {.kind = b ? VG_FAULT_DOUBLE_FREE : VG_FAULT_INVALID_FREE, .site = site, .lane = lane,
              .space = VG_GLOBAL, .address = address, .limit = b ? b->bytes : 0};
  check_report(w, &r);
}

static void report_leaks(Check *c) {
  VgWarp *w = &c->worker->resident[0].warps[0];
  for (uint32_t i = 0; i < c->heap_count; i++) {
    const HeapBlock *b = &c->heap[i];
    if (!b->live) continue;
    uint32_t before = c->worker->finding_count;
    Report r = {.kind = VG_FAULT_LEAK, .severity = VG_WARNING, .site = b->site, .lane = b->lane,
                .space = VG_GLOBAL, .address = b->at, .limit = b->bytes};
    check_report(w, &r);
    if (c->worker->finding_count == before) continue;
    VgFinding *f = &c->worker->findings[before];
    f->who.warp = b->warp;
    memcpy(f->who.block, b->block, sizeof b->block), memcpy(f->who.thread, b->thread, sizeof b->thread);
  }
}

/* ----------------------------------------------------------------------------- life cycle */

void vg_check_start(VgBlock *b) {
  Check *c = b->worker->check;
  BlockOrder *o = &c->blocks[b->resident];
  if (b->resident == 0) {
    c->set++, c->engines = 0;
    if ((c->set + 1) * c->slots > c->places_room) {
      uint32_t room = 2 * (c->set + 1) * c->slots + 256;
      uint32_t *more = realloc(c->places, room * sizeof *more);
      if (more) c->places = more, c->places_room = room;
      else c->set--, c->worker->stop = 1;
    }
  }
  c->places[c->set * c->slots + b->resident] = b->number;
  o->start = o->floor = ++c->events;
  order_start(c, b, o);
  Shadow *s = &o->shared;
  if (!s->begin && b->shared_bytes) {
    *s = (Shadow){.begin = (uint64_t)(uintptr_t)b->shared, .bytes = b->shared_bytes, .shift = 2,
                  .window = 1};
    s->fresh = (c->checks & VG_CHECK_UNINITIALIZED) != 0;
    s->off = !(c->checks & (VG_CHECK_UNINITIALIZED | VG_CHECK_RACES | VG_CHECK_ASYNC | VG_CHECK_WARP_SYNC));
    if (!s->off) make_cells(c, s);
  }
  if (s->cells) memset(s->cells, 0, cells_of(s) * sizeof(Cell));
  uint64_t lanes = (uint64_t)b->warp_count * VG_LANES;
  if (c->written) memset(c->written + b->resident * lanes * c->written_lane, 0, lanes * c->written_lane);
}

void vg_check_frame(VgWarp *w, uint32_t lanes, uint64_t begin, uint64_t bytes) {
  Check *c = check_of(w);
  uint64_t row = (uint64_t)w->block->resident * w->block->warp_count + w->index;
  if (!c->written || !bytes) return;
  VG_EACH(l, lanes) {   /* frames are aligned to 16 bytes */
    uint8_t *bits = c->written + (row * VG_LANES + l) * c->written_lane;
    memset(bits + begin / 8, 0, (bytes + 7) / 8);
  }
}

void vg_check_end(VgWorker *k) {
  Check *c = k->check;
  if (!k->fault.kind && (c->checks & VG_CHECK_LEAKS)) report_leaks(c);
}

static void wrap_cells(Shadow *s) {
  for (uint64_t i = 0; s->cells && i < cells_of(s); i++) {
    Cell *cell = &s->cells[i];
    if (!(cell->write | cell->read)) continue;
    uint32_t event = cell->write >> MARK_SHIFT;
    uint32_t kept = event < EVENT_FIRST ? event : EVENT_KNOWN;
    if (cell->write & MARK_ASYNC) continue;   /* still under way */
    *cell = (Cell){.write = kept << MARK_SHIFT};
  }
}

void shadow_wrap(Check *c) {
  for (uint32_t i = 0; i < c->worker->launch->table_count; i++) wrap_cells(&c->rows[i]);
  for (uint32_t s = 0; s < c->slots; s++) wrap_cells(&c->blocks[s].shared);
}

void vg_check_close(VgWorker *k) {
  Check *c = k->check;
  if (!c) return;
  for (uint32_t i = 0; c->rows && i < k->launch->table_count; i++) drop_cells(c, &c->rows[i]);
  for (uint32_t s = 0; c->blocks && s < c->slots; s++) drop_cells(c, &c->blocks[s].shared);
  order_close(c);
  if (c->log) munmap(c->log, EVENTS * sizeof *c->log);
  free(c->last), free(c->rows), free(c->places), free(c->written), free(c->heap), free(c);
  k->check = NULL;
}
