/* Run the groups of lanes of a warp: branches, reconvergence, barriers, waiting.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A warp runs one group of lanes at a time and parks the others. The group with the deepest call
 * and the lowest pc runs first, which reconverges branches and loops; a parked group joins when the
 * running one reaches its pc. In a loop that may wait for another thread (VG_SPIN) the group is
 * parked after `quantum` rounds and the oldest parked group runs, so that locks are released.
 */
#include <time.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif
#include "check.h"
#include "sched.h"

uint32_t vg_bits(const uint32_t *p) {
#ifdef __AVX512F__
  __m512i low = _mm512_loadu_si512(p), high = _mm512_loadu_si512(p + 16);
  return (uint32_t)_mm512_test_epi32_mask(low, low) |
         (uint32_t)_mm512_test_epi32_mask(high, high) << 16;
#else
  uint32_t bits = 0;
  for (int l = 0; l < VG_LANES; l++) bits |= (uint32_t)(p[l] != 0) << l;
  return bits;
#endif
}

double vg_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t vg_random(VgWorker *worker) {
  uint64_t x = worker->random;
  x ^= x << 13, x ^= x >> 7, x ^= x << 17;
  return worker->random = x;
}

/* ------------------------------------------------------------------------------------- faults */

void vg_thread_index(const VgWarp *w, uint32_t lane, uint32_t out[3]) {
  const uint32_t *n = w->worker->launch->block;
  uint32_t t = w->index * VG_LANES + lane;
  out[0] = t % n[0], out[1] = t / n[0] % n[1], out[2] = t / (n[0] * n[1]);
}

int vg_fault(VgWarp *w, uint32_t kind, uint32_t site, uint32_t lanes) {
  VgFault *f = &w->worker->fault;
  if (f->kind) return 0;
  memset(f, 0, sizeof *f);
  f->kind = kind, f->site = site, f->lanes = lanes, f->warp = w->index;
  f->lane = lanes ? (uint32_t)__builtin_ctz(lanes) : 0;
  memcpy(f->block, w->block->index, sizeof f->block);
  vg_thread_index(w, f->lane, f->thread);
  w->worker->stop = 1;
  return 1;
}

int vg_budget(VgWarp *w, const VgOp *o) {
  VgWorker *k = w->worker;
  if (k->stop) return 1;
  w->breath = VG_BREATH;
  if (k->instructions < k->launch->max_instructions &&
      vg_seconds() - k->started < k->launch->max_seconds)
    return 0;
  vg_fault(w, VG_FAULT_STEP_BUDGET, o->site, w->mask);
  return 1;
}

/* ------------------------------------------------------------------------------------- groups */

void vg_order(VgWarp *w) {
  const VgOp *lowest = (const VgOp *)UINTPTR_MAX;
  for (uint32_t i = 0; i < w->groups; i++) {
    const VgGroup *g = &w->group[i];
    if (g->state != VG_READY || g->depth < w->depth) continue;
    if (g->depth > w->depth || w->rotating) {
      lowest = NULL;
      break;
    }
    if (g->op < lowest) lowest = g->op;
  }
  w->lowest = lowest;
}

static void drop(VgWarp *w, uint32_t i) { w->group[i] = w->group[--w->groups]; }

void vg_store_group(VgWarp *w, const VgOp *o, uint32_t state, uint32_t barrier) {
  VgGroup *g = &w->group[w->groups++];
  *g = (VgGroup){o, w->regs, w->mask, w->depth, state, barrier, ++w->ages};
}

/* Whether g runs before `best`. */
static int before(const VgWarp *w, const VgGroup *g, const VgGroup *best) {
  if (w->rotating) return g->age < best->age;
  if (g->depth != best->depth) return g->depth > best->depth;
  return g->op < best->op;
}

const VgOp *vg_pick(VgWarp *w) {
  uint32_t best = w->groups, ready = 0;
  int random = w->worker->launch->schedule == 2;
  for (uint32_t i = 0; i < w->groups; i++) {
    if (w->group[i].state != VG_READY) continue;
    ready++;
    if (best == w->groups) best = i;
    else if (random ? vg_random(w->worker) % ready == 0 : before(w, &w->group[i], &w->group[best]))
      best = i;
  }
  if (best == w->groups) {
    w->status = w->live ? VG_BLOCKED : VG_DONE;
    w->mask = 0;
    return NULL;
  }
  VgGroup g = w->group[best];
  drop(w, best);
  w->mask = g.mask, w->regs = g.regs, w->depth = g.depth;
  w->quantum = VG_QUANTUM;
  for (uint32_t i = 0; i < w->groups;) {   /* groups at the same place are one group */
    const VgGroup *h = &w->group[i];
    if (h->state == VG_READY && h->op == g.op && h->regs == g.regs) w->mask |= h->mask, drop(w, i);
    else i++;
  }
  vg_order(w);
  return g.op;
}

const VgOp *vg_wait(const VgOp *o, VgWarp *w, uint32_t state, uint32_t barrier) {
  vg_store_group(w, o, state, barrier);
  w->rotating = 0;
  return vg_pick(w);
}

/* The running group reached a block where, or after which, a parked group waits. */
static const VgOp *regroup(const VgOp *o, VgWarp *w) {
  for (uint32_t i = 0; i < w->groups;) {
    const VgGroup *g = &w->group[i];
    if (g->state == VG_READY && g->op == o && g->regs == w->regs) w->mask |= g->mask, drop(w, i);
    else i++;
  }
  vg_order(w);
  if (w->rotating || o < w->lowest) return o;
  vg_store_group(w, o, VG_READY, 0);
  return vg_pick(w);
}

const VgOp *vg_join(const VgOp *o, VgWarp *w, uint32_t members) {
  for (uint32_t i = 0; i < w->groups;) {
    const VgGroup *g = &w->group[i];
    if (g->state != VG_AT_BARRIER && g->op == o && g->regs == w->regs) w->mask |= g->mask, drop(w, i);
    else i++;
  }
  vg_order(w);
  if (!(members & w->live & ~w->mask)) return o;
  if (w->early == o) {
    w->early = NULL;
    w->worker->early_collectives++;
    return o;
  }
  return vg_wait(o, w, VG_AT_JOIN, 0);
}

const VgOp *vg_park(const VgOp *o, VgWarp *w) {
  if (vg_budget(w, o)) return NULL;
  w->rotating = 0;
  for (uint32_t i = 0; i < w->groups; i++) w->rotating |= w->group[i].state == VG_READY;
  vg_store_group(w, o, VG_READY, 0);
  return NULL;
}

/* --------------------------------------------------------------------------- blocks and branches */

const VgOp *vg_op_enter(const VgOp *o, VgWarp *w) {
  if (__builtin_expect(o >= w->lowest, 0)) {
    const VgOp *next = regroup(o, w);
    if (next != o) return next;
  }
  VgWorker *k = w->worker;
  uint64_t threads = (uint64_t)__builtin_popcount(w->mask);
  k->blocks[o->aux].warps++;
  k->blocks[o->aux].threads += threads;
  k->instructions += o->imm * threads;
  k->clock += o->imm;
  return o + 1;
}

static const VgOp *jump(const VgOp *o, const VgOp *target, VgWarp *w) {
  if (target > o) return target;
  if ((o->flags & VG_SPIN) && --w->quantum <= 0) return vg_park(target, w);
  if (--w->breath == 0 && vg_budget(w, o)) return NULL;
  return target;
}

const VgOp *vg_op_bra(const VgOp *o, VgWarp *w) { return jump(o, w->ops + o->aux, w); }

const VgOp *vg_op_bra_if(const VgOp *o, VgWarp *w) {
  uint32_t taken = vg_active(o, w);
  if (taken == w->mask) return jump(o, w->ops + o->aux, w);
  if (!taken) return o + 1;
  w->worker->sites[o->site].divergent++;
  const VgOp *target = w->ops + o->aux;
  uint32_t stay = w->mask & ~taken;
  if (w->worker->launch->schedule == 2 && target > o) {   /* either side may go first */
    w->mask = taken, vg_store_group(w, target, VG_READY, 0);
    w->mask = stay, vg_store_group(w, o + 1, VG_READY, 0);
    return vg_pick(w);
  }
  w->mask = taken;
  if (target > o) {
    vg_store_group(w, target, VG_READY, 0);
    w->mask = stay;
    vg_order(w);
    return o + 1;
  }
  w->mask = stay;
  vg_store_group(w, o + 1, VG_READY, 0);
  w->mask = taken;
  vg_order(w);
  return jump(o, target, w);
}

const VgOp *vg_op_brx(const VgOp *o, VgWarp *w) {
  const uint32_t *targets = o->more;   /* count, targets … */
  const uint32_t *index = (const uint32_t *)(w->regs + o->a[0]);
  uint32_t rest = w->mask;
  while (rest) {
    uint32_t i = index[__builtin_ctz(rest)], same = 0;
    for (int l = 0; l < VG_LANES; l++)
      if ((rest >> l & 1) && index[l] == i) same |= 1u << l;
    rest &= ~same;
    w->mask = same;
    if (i >= targets[0]) {
      vg_fault(w, VG_FAULT_ILLEGAL_ACCESS, o->site, same);
      return NULL;
    }
    vg_store_group(w, w->ops + targets[1 + i], VG_READY, 0);
  }
  if (--w->breath == 0 && vg_budget(w, o)) return NULL;
  return vg_pick(w);
}

const VgOp *vg_op_exit(const VgOp *o, VgWarp *w) {
  uint32_t gone = vg_active(o, w);
  w->live &= ~gone;
  w->mask &= ~gone;
  w->block->live_threads -= (uint32_t)__builtin_popcount(gone);
  for (uint32_t i = 0; gone && i < w->groups; i++)   /* nobody waits for lanes that are gone */
    if (w->group[i].state == VG_AT_JOIN) w->group[i].state = VG_READY;
  if (gone) vg_release(w->block);
  if (gone && w->worker->cluster_arrived) vg_cluster_exit(w->worker);
  if (w->mask) return vg_order(w), o + 1;
  w->rotating = 0;
  return vg_pick(w);
}

const VgOp *vg_op_yield(const VgOp *o, VgWarp *w) { return vg_park(o + 1, w); }

/* nanosleep: a[0] nanoseconds. Warps sleep side by side, so each moves the clock by its part. */
const VgOp *vg_op_sleep(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w), warps = (w->block->live_threads + VG_LANES - 1) / VG_LANES;
  if (!mask) return o + 1;
  const uint32_t *time = (const uint32_t *)((o->kinds & 1 ? w->fixed : w->regs) + o->a[0]);
  w->worker->clock += time[__builtin_ctz(mask)] / (warps ? warps : 1);
  return vg_park(o + 1, w);
}

const VgOp *vg_op_nop(const VgOp *o, VgWarp *w) { (void)w; return o + 1; }

/* Fences need nothing where memory is sequentially consistent; the sanitizer wants to know of them. */
const VgOp *vg_op_fence(const VgOp *o, VgWarp *w) {
  uint32_t lanes = vg_active(o, w);
  if (lanes && vg_checking(w) && o->imm) vg_check_proxy_fence(w);
  else if (lanes && vg_checking(w)) vg_check_fence(w, lanes);
  return o + 1;
}

const VgOp *vg_op_trap(const VgOp *o, VgWarp *w) {
  uint32_t lanes = vg_active(o, w);
  if (!lanes) return o + 1;
  vg_fault(w, VG_FAULT_TRAP, o->site, lanes);
  return NULL;
}

const VgOp *vg_op_warp_sync(const VgOp *o, VgWarp *w) {
  uint32_t lanes = vg_active(o, w);
  if (!lanes) return o + 1;
  const char *base = (o->kinds & 1) ? w->fixed : w->regs;
  uint32_t members = ((const uint32_t *)(base + o->a[0]))[__builtin_ctz(lanes)];
  const VgOp *next = vg_join(o, w, members);
  if (next != o) return next;
  if (vg_checking(w)) vg_check_warp_sync(w, vg_mask(o, w), (const uint32_t *)(base + o->a[0]));
  return o + 1;
}

/* ----------------------------------------------------------------------------------- barriers */

static uint32_t scalar(const VgOp *o, const VgWarp *w, int i) {
  const char *base = (o->kinds >> i & 1) ? w->fixed : w->regs;
  return ((const uint32_t *)(base + o->a[i]))[w->mask ? __builtin_ctz(w->mask) : 0];
}

static void open_barrier(VgBlock *b, uint32_t id) {
  if (b->worker->check) vg_check_bar_open(b, id);
  const VgOp *first = NULL;
  for (uint32_t i = 0; i < b->warp_count; i++) {
    VgWarp *w = &b->warps[i];
    const VgOp *here = NULL;
    for (uint32_t g = 0; g < w->groups; g++) {
      VgGroup *group = &w->group[g];
      if (group->state != VG_AT_BARRIER || group->barrier != id) continue;
      group->state = VG_READY;
      w->status = VG_RUNNING;
      const VgOp *bar = group->op - 1;
      if (here && here != bar && (bar->flags & here->flags & VG_ALIGNED) && !b->worker->check)
        vg_fault(w, VG_FAULT_DIVERGENT_BARRIER, bar->site, group->mask);
      here = bar;
    }
    if (!first) first = here;
  }
  VgBarrier *bar = &b->barrier[id];
  bar->result = bar->accumulator;
  bar->arrived = 0, bar->expected = 0, bar->accumulator = 0;
}

static void try_open(VgBlock *b, uint32_t id) {
  VgBarrier *bar = &b->barrier[id];
  uint32_t expected = bar->expected ? bar->expected : b->live_threads;
  if (bar->arrived && bar->arrived >= expected) open_barrier(b, id);
}

void vg_release(VgBlock *block) {
  for (uint32_t id = 0; id < VG_BARRIERS; id++) try_open(block, id);
}

/* Count the running group in at barrier a[0], a[1] threads (0: all). Returns the barrier's number, or
 * VG_BARRIERS after a fault. */
static uint32_t arrive(const VgOp *o, VgWarp *w) {
  uint32_t id = scalar(o, w, 0), expected = scalar(o, w, 1);
  if (id >= VG_BARRIERS) {
    vg_fault(w, VG_FAULT_ILLEGAL_ACCESS, o->site, w->mask);
    return VG_BARRIERS;
  }
  VgBarrier *bar = &w->block->barrier[id];
  bar->expected = expected;
  bar->arrived += (uint32_t)__builtin_popcount(w->mask);
  if (expected && w->mask == w->live)   /* the hardware counts whole warps */
    bar->arrived += VG_LANES - (uint32_t)__builtin_popcount(w->mask);
  return id;
}

const VgOp *vg_op_bar_sync(const VgOp *o, VgWarp *w) {
  uint32_t active = vg_active(o, w);
  if (!active) return o + 1;
  if (active != w->mask) {   /* the guard splits the group: the others go on */
    uint32_t others = w->mask & ~active;
    w->mask = others;
    vg_store_group(w, o + 1, VG_READY, 0);
    w->mask = active;
    vg_order(w);
  }
  uint32_t id = arrive(o, w);
  if (id == VG_BARRIERS) return NULL;
  if (vg_checking(w)) vg_check_bar_arrive(o, w, id, w->block->barrier[id].expected, 1);
  vg_store_group(w, o + 1, VG_AT_BARRIER, id);
  w->rotating = 0;
  try_open(w->block, id);
  return vg_pick(w);
}

const VgOp *vg_op_bar_arrive(const VgOp *o, VgWarp *w) {
  uint32_t whole = w->mask, active = vg_active(o, w);
  if (!active) return o + 1;
  w->mask = active;
  uint32_t id = arrive(o, w);
  if (id != VG_BARRIERS && vg_checking(w))
    vg_check_bar_arrive(o, w, id, w->block->barrier[id].expected, 0);
  w->mask = whole;
  if (id == VG_BARRIERS) return NULL;
  try_open(w->block, id);
  return w->worker->stop ? NULL : o + 1;
}

/* bar.red in two ops: this one adds the predicate a[2] and waits, the next one reads the result.
 * imm: 0 and, 1 or, 2 popc. The accumulator of `and` counts false lanes. */
const VgOp *vg_op_bar_red(const VgOp *o, VgWarp *w) {
  uint32_t id = scalar(o, w, 0);
  const char *base = (o->kinds >> 2 & 1) ? w->fixed : w->regs;
  uint32_t bits = vg_bits((const uint32_t *)(base + o->a[2]));
  if (o->a[3]) bits = ~bits;
  if (id < VG_BARRIERS) {
    uint32_t counted = o->imm == 0 ? w->mask & ~bits : w->mask & bits;
    w->block->barrier[id].accumulator += (uint32_t)__builtin_popcount(counted);
  }
  return vg_op_bar_sync(o, w);
}

const VgOp *vg_op_bar_result(const VgOp *o, VgWarp *w) {
  uint32_t result = w->block->barrier[scalar(o, w, 0)].result;
  uint32_t value = o->imm == 0 ? result == 0 : o->imm == 1 ? result != 0 : result;
  uint32_t *d = (uint32_t *)(w->regs + o->a[2]);
  for (int l = 0; l < VG_LANES; l++)
    if (w->mask >> l & 1) d[l] = value;
  return o + 1;
}
