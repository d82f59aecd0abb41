/* Run blocks: groups of lanes within a warp, warps within a block, blocks within a worker.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A warp runs one group of lanes at a time and parks the others. The group with the deepest call
 * and the lowest pc runs first, which reconverges branches and loops; a parked group joins when the
 * running one reaches its pc. In a loop that may wait for another thread (VG_SPIN) the group is
 * parked after `quantum` rounds and the oldest parked group runs, so that locks are released.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif
#include "vgpu.h"

enum { QUANTUM = 16, BREATH = 16384 };   /* 16: measured on spin locks; 1024 is 100 times slower */

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

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t next_random(VgWorker *worker) {
  uint64_t x = worker->random;
  x ^= x << 13, x ^= x >> 7, x ^= x << 17;
  return worker->random = x;
}

/* ------------------------------------------------------------------------------------- faults */

static void thread_index(const VgWarp *w, uint32_t lane, uint32_t out[3]) {
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
  thread_index(w, f->lane, f->thread);
  w->worker->stop = 1;
  return 1;
}

int vg_budget(VgWarp *w, const VgOp *o) {
  VgWorker *k = w->worker;
  if (k->stop) return 1;
  w->breath = BREATH;
  if (k->instructions < k->launch->max_instructions &&
      seconds() - k->started < k->launch->max_seconds)
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

static void store(VgWarp *w, const VgOp *o, uint32_t state, uint32_t barrier) {
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
    else if (random ? next_random(w->worker) % ready == 0 : before(w, &w->group[i], &w->group[best]))
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
  w->quantum = QUANTUM;
  for (uint32_t i = 0; i < w->groups;) {   /* groups at the same place are one group */
    const VgGroup *h = &w->group[i];
    if (h->state == VG_READY && h->op == g.op && h->regs == g.regs) w->mask |= h->mask, drop(w, i);
    else i++;
  }
  vg_order(w);
  return g.op;
}

const VgOp *vg_wait(const VgOp *o, VgWarp *w, uint32_t state, uint32_t barrier) {
  store(w, o, state, barrier);
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
  store(w, o, VG_READY, 0);
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
  store(w, o, VG_READY, 0);
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
  w->mask = taken;
  if (target > o) {
    store(w, target, VG_READY, 0);
    w->mask = stay;
    vg_order(w);
    return o + 1;
  }
  w->mask = stay;
  store(w, o + 1, VG_READY, 0);
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
    store(w, w->ops + targets[1 + i], VG_READY, 0);
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

const VgOp *vg_op_nop(const VgOp *o, VgWarp *w) { (void)w; return o + 1; }

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
  return next == o ? o + 1 : next;
}

/* ----------------------------------------------------------------------------------- barriers */

static uint32_t scalar(const VgOp *o, const VgWarp *w, int i) {
  const char *base = (o->kinds >> i & 1) ? w->fixed : w->regs;
  return ((const uint32_t *)(base + o->a[i]))[w->mask ? __builtin_ctz(w->mask) : 0];
}

static void open_barrier(VgBlock *b, uint32_t id) {
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
      if (here && here != bar && (bar->flags & here->flags & VG_ALIGNED))
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
    store(w, o + 1, VG_READY, 0);
    w->mask = active;
    vg_order(w);
  }
  uint32_t id = arrive(o, w);
  if (id == VG_BARRIERS) return NULL;
  store(w, o + 1, VG_AT_BARRIER, id);
  w->rotating = 0;
  try_open(w->block, id);
  return vg_pick(w);
}

const VgOp *vg_op_bar_arrive(const VgOp *o, VgWarp *w) {
  uint32_t whole = w->mask, active = vg_active(o, w);
  if (!active) return o + 1;
  w->mask = active;
  uint32_t id = arrive(o, w);
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

/* ------------------------------------------------------------------------- blocks of a launch */

static void fill(VgWarp *w, int special, uint32_t value) {
  uint32_t offset = w->worker->launch->special[special];
  if (offset == VG_SINK) return;
  uint32_t *lanes = (uint32_t *)(w->fixed + offset);
  for (int l = 0; l < VG_LANES; l++) lanes[l] = value;
}

static void lanes_of(VgWarp *w) {
  const VgLaunch *L = w->worker->launch;
  for (uint32_t l = 0; l < VG_LANES; l++) {
    uint32_t t[3];
    thread_index(w, l, t);
    uint32_t value[VG_SPECIALS] = {0};
    for (int i = 0; i < 3; i++) value[VG_TID_X + i] = t[i];
    value[VG_LANEID] = l, value[VG_LANEMASK_EQ] = 1u << l;
    value[VG_LANEMASK_LT] = (1u << l) - 1, value[VG_LANEMASK_LE] = (2u << l) - 1;
    value[VG_LANEMASK_GE] = ~((1u << l) - 1), value[VG_LANEMASK_GT] = ~((2u << l) - 1);
    static const uint8_t by_lane[] = {VG_TID_X, VG_TID_Y, VG_TID_Z, VG_LANEID, VG_LANEMASK_EQ,
                                      VG_LANEMASK_LE, VG_LANEMASK_LT, VG_LANEMASK_GE, VG_LANEMASK_GT};
    for (size_t i = 0; i < sizeof by_lane; i++)
      if (L->special[by_lane[i]] != VG_SINK)
        ((uint32_t *)(w->fixed + L->special[by_lane[i]]))[l] = value[by_lane[i]];
  }
}

static void constants_of(VgWarp *w) {
  const VgLaunch *L = w->worker->launch;
  memcpy(w->fixed, L->fixed_image, L->fixed_bytes);
  lanes_of(w);
  for (int i = 0; i < 3; i++) {
    fill(w, VG_NTID_X + i, L->block[i]);
    fill(w, VG_NCTAID_X + i, L->grid[i]);
    fill(w, VG_NCLUSTERID_X + i, L->grid[i] / L->cluster[i]);
    fill(w, VG_CLUSTER_NCTAID_X + i, L->cluster[i]);
  }
  uint64_t workspace = (uint64_t)(uintptr_t)L->grid_workspace;
  fill(w, VG_ENVREG1, (uint32_t)(workspace >> 32)), fill(w, VG_ENVREG2, (uint32_t)workspace);
  uint32_t ranks = L->cluster[0] * L->cluster[1] * L->cluster[2];
  fill(w, VG_WARPID, w->index), fill(w, VG_NWARPID, L->warps_per_block), fill(w, VG_NSMID, 132);
  fill(w, VG_CLUSTER_NCTARANK, ranks), fill(w, VG_IS_EXPLICIT_CLUSTER, ranks > 1);
  fill(w, VG_TOTAL_SMEM_SIZE, (uint32_t)L->shared_bytes);
  fill(w, VG_AGGR_SMEM_SIZE, (uint32_t)L->shared_bytes);
  fill(w, VG_DYNAMIC_SMEM_SIZE, (uint32_t)L->dynamic_shared_bytes), fill(w, VG_GRIDID, 1);
}

static void position_of(VgWarp *w) {
  const VgLaunch *L = w->worker->launch;
  const VgBlock *b = w->block;
  uint32_t rank = 0, scale = 1;
  for (int i = 0; i < 3; i++) {
    uint32_t inside = b->index[i] % L->cluster[i];
    fill(w, VG_CTAID_X + i, b->index[i]);
    fill(w, VG_CLUSTERID_X + i, b->index[i] / L->cluster[i]);
    fill(w, VG_CLUSTER_CTAID_X + i, inside);
    rank += inside * scale, scale *= L->cluster[i];
  }
  fill(w, VG_CLUSTER_CTARANK, rank);
  fill(w, VG_SMID, b->number % 132);
}

static void start_warp(VgWarp *w) {
  const VgLaunch *L = w->worker->launch;
  uint32_t first = w->index * VG_LANES, lanes = L->threads_per_block - first;
  w->live = lanes >= VG_LANES ? VG_FULL : (1u << lanes) - 1;
  w->regs = w->stack, w->ops = L->ops, w->depth = 0, w->groups = 0, w->rotating = 0, w->early = NULL;
  w->breath = BREATH, w->status = VG_RUNNING, w->mask = w->live;
  VgFrame *frame = (VgFrame *)w->regs;
  *frame = (VgFrame){.bytes = L->frame_bytes, .local_bytes = L->frame_local_bytes};
  position_of(w);
  store(w, L->ops, VG_READY, 0);
}

/* Linear block number -> index, clusters kept together. */
static void place(VgBlock *b, uint64_t number) {
  const VgLaunch *L = b->worker->launch;
  uint64_t ranks = (uint64_t)L->cluster[0] * L->cluster[1] * L->cluster[2];
  uint64_t cluster = number / ranks, rank = number % ranks;
  for (int i = 0; i < 3; i++) {
    uint64_t across = L->grid[i] / L->cluster[i];
    b->index[i] = (uint32_t)(cluster % across * L->cluster[i] + rank % L->cluster[i]);
    cluster /= across, rank /= L->cluster[i];
  }
  b->number = b->index[0] + L->grid[0] * (b->index[1] + L->grid[1] * b->index[2]);
}

static uint64_t gcd(uint64_t a, uint64_t b) { return b ? gcd(b, a % b) : a; }

/* Sets of resident blocks in the schedule's order: as numbered, reversed, or by a coprime stride. */
static uint64_t shuffled(const VgWorker *k, uint64_t number) {
  uint64_t slots = k->launch->resident_blocks, sets = (k->last_block - k->first_block) / slots;
  uint64_t set = (number - k->first_block) / slots, inside = (number - k->first_block) % slots;
  if (k->launch->schedule == 1) set = sets - 1 - set;
  if (k->launch->schedule == 2) {
    uint64_t stride = k->launch->seed % sets * 2 + 1;
    while (gcd(stride, sets) != 1) stride++;
    set = (set * stride + k->launch->seed) % sets;
  }
  return k->first_block + set * slots + inside;
}

static void start_block(VgBlock *b, uint64_t number) {
  const VgLaunch *L = b->worker->launch;
  number = shuffled(b->worker, number);
  place(b, number);
  memset(b->barrier, 0, sizeof b->barrier);
  memset(b->shared, 0xff, b->shared_bytes);   /* NaN: what was never written must show */
  b->live_threads = L->threads_per_block, b->done = 0;
  for (uint32_t i = 0; i < b->warp_count; i++) start_warp(&b->warps[i]);
}

static void end_block(VgBlock *b) {
  for (uint32_t i = 0; i < b->warp_count; i++)
    if (b->warps[i].async) vg_async_reset(&b->warps[i]);
  b->done = 1;
}

static void run_warp(VgWarp *w) {
  const VgOp *o = vg_pick(w);
  while (o) o = o->run(o, w);
}

static VgWarp *nth_warp(VgBlock *b, uint32_t i, uint32_t first) {
  uint32_t schedule = b->worker->launch->schedule;
  if (schedule == 1) i = b->warp_count - 1 - i;
  if (schedule == 2) i = (i + first) % b->warp_count;
  return &b->warps[i];
}

/* Run every warp that can; 1 when any could. */
static int run_round(VgBlock *b) {
  int progress = 0;
  uint32_t first = b->worker->launch->schedule == 2 ? (uint32_t)next_random(b->worker) : 0;
  for (uint32_t i = 0; i < b->warp_count && !b->worker->stop; i++) {
    VgWarp *w = nth_warp(b, i, first % b->warp_count);
    if (w->status != VG_RUNNING) continue;
    run_warp(w);
    progress = 1;
  }
  return progress;
}

/* All wait. Let a collective whose members are elsewhere run with the lanes it has. */
static int run_early(VgBlock *b) {
  for (uint32_t i = 0; i < b->warp_count; i++) {
    VgWarp *w = &b->warps[i];
    for (uint32_t g = 0; g < w->groups; g++) {
      if (w->group[g].state != VG_AT_JOIN) continue;
      w->group[g].state = VG_READY;
      w->early = w->group[g].op;
      w->status = VG_RUNNING;
      return 1;
    }
  }
  return 0;
}

static void report_deadlock(VgBlock *b) {
  static const char *const state[] = {"ready", "barrier", "collective"};
  VgWarp *stuck = NULL;
  char text[sizeof b->worker->fault.text] = "";
  size_t used = 0;
  uint32_t site = 0, lanes = 0;
  for (uint32_t i = 0; i < b->warp_count; i++) {
    VgWarp *w = &b->warps[i];
    for (uint32_t g = 0; g < w->groups; g++) {
      const VgGroup *p = &w->group[g];
      const VgOp *at = p->state == VG_AT_BARRIER ? p->op - 1 : p->op;
      if (!stuck) stuck = w, site = at->site, lanes = p->mask;
      if (used + 64 < sizeof text)
        used += (size_t)snprintf(text + used, sizeof text - used, "%u:%u:%s:%u:%u\n", w->index, at->site,
                         state[p->state], p->barrier, (uint32_t)__builtin_popcount(p->mask));
    }
  }
  if (stuck && vg_fault(stuck, VG_FAULT_DEADLOCK, site, lanes))
    memcpy(b->worker->fault.text, text, sizeof text);
}

int vg_worker_run(VgWorker *k) {
  uint64_t next = k->first_block;
  uint32_t slots = k->launch->resident_blocks;
  k->started = seconds();
  while (!k->stop) {
    int running = 0, progress = 0;
    for (uint32_t s = 0; s < slots; s++) running |= !k->resident[s].done;
    if (!running) {   /* a whole set (one block, a cluster, the grid) starts together */
      if (next >= k->last_block) break;
      if (next % 256 == 255 && vg_budget(&k->resident[0].warps[0], k->launch->ops)) break;
      for (uint32_t s = 0; s < slots && next < k->last_block; s++) start_block(&k->resident[s], next++);
      k->cluster_arrived = 0;
    }
    for (uint32_t s = 0; s < slots && !k->stop; s++) {
      VgBlock *b = &k->resident[s];
      if (b->done) continue;
      do progress |= run_round(b);
      while (slots == 1 && b->live_threads && !k->stop && run_round(b));
      if (!b->live_threads) end_block(b), progress = 1;
    }
    if (progress || k->stop) continue;
    for (uint32_t s = 0; s < slots && !progress; s++) progress = !k->resident[s].done && run_early(&k->resident[s]);
    for (uint32_t s = 0; s < slots && !progress; s++)
      if (!k->resident[s].done) report_deadlock(&k->resident[s]);
  }
  for (uint32_t s = 0; s < slots; s++)
    if (!k->resident[s].done) end_block(&k->resident[s]);
  return (int)k->fault.kind;
}

/* ------------------------------------------------------------------------------ worker storage */

static void *room(uint64_t bytes) {
  void *p = NULL;
  uint64_t rounded = (bytes + 1023) / 1024 * 1024 + 1024;
  if (posix_memalign(&p, 1024, rounded)) return NULL;
  return memset(p, 0, rounded);
}

/* Zeroed like room(), but only what is touched costs time: for stacks, which are large and mostly idle. */
static char *lazy_room(uint64_t bytes, void **whole) {
  *whole = calloc(1, bytes + 2048);
  return *whole ? (char *)(((uintptr_t)*whole + 1023) / 1024 * 1024) : NULL;
}

static int open_warp(VgWarp *w, VgBlock *b, uint32_t index) {
  const VgLaunch *L = b->worker->launch;
  w->block = b, w->worker = b->worker, w->index = index;
  w->local_stride = L->local_bytes;
  w->stack = lazy_room(L->stack_bytes, &w->stack_whole);
  w->fixed = room(L->fixed_bytes);
  w->local = lazy_room(L->local_bytes * VG_LANES, &w->local_whole);
  if (!w->stack || !w->fixed || !w->local) return 1;
  w->stack_end = w->stack + L->stack_bytes;
  constants_of(w);
  return 0;
}

static int open_block(VgBlock *b, VgWorker *k, uint32_t slot) {
  b->worker = k, b->resident = slot, b->done = 1;
  b->warp_count = k->launch->warps_per_block, b->shared_bytes = k->launch->shared_bytes;
  b->shared = k->cluster_shared ? k->cluster_shared + slot * k->cluster_stride : room(b->shared_bytes);
  b->warps = room(b->warp_count * sizeof *b->warps);
  if (!b->shared || !b->warps) return 1;
  for (uint32_t i = 0; i < b->warp_count; i++)
    if (open_warp(&b->warps[i], b, i)) return 1;
  return 0;
}

int vg_worker_open(VgWorker *k) {
  k->random = k->launch->seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du;
  k->resident = calloc(k->launch->resident_blocks, sizeof *k->resident);
  if (!k->resident) return 1;
  for (uint32_t s = 0; s < k->launch->resident_blocks; s++)
    if (open_block(&k->resident[s], k, s)) return 1;
  return 0;
}

void vg_worker_close(VgWorker *k) {
  for (uint32_t s = 0; k->resident && s < k->launch->resident_blocks; s++) {
    VgBlock *b = &k->resident[s];
    for (uint32_t i = 0; b->warps && i < b->warp_count; i++) {
      free(b->warps[i].stack_whole), free(b->warps[i].fixed), free(b->warps[i].local_whole);
    }
    free(b->warps);
    if (!k->cluster_shared) free(b->shared);
  }
  free(k->resident), free(k->printed), free(k->patterns);
  k->resident = NULL, k->printed = NULL, k->patterns = NULL;
  vg_memory_close(k);
}

void vg_sizes(uint64_t sizes[8]) {
  const uint64_t all[8] = {sizeof(VgOp), sizeof(VgAccess), sizeof(VgAllocation), sizeof(VgSite),
                           sizeof(VgBlockCount), sizeof(VgFault), sizeof(VgLaunch), sizeof(VgWorker)};
  memcpy(sizes, all, sizeof all);
}
