/* Run the warps of a block and the blocks of a worker: special registers, order, deadlock.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include "check.h"
#include "sched.h"

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
    vg_thread_index(w, l, t);
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
  w->breath = VG_BREATH, w->status = VG_RUNNING, w->mask = w->live;
  VgFrame *frame = (VgFrame *)w->regs;
  *frame = (VgFrame){.bytes = L->frame_bytes, .local_bytes = L->frame_local_bytes};
  memset(w->bulk_groups, 0, sizeof w->bulk_groups);
  position_of(w);
  vg_store_group(w, L->ops, VG_READY, 0);
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

int vg_take_cluster(VgWorker *k, uint32_t index[3]) {
  VgBlock b = {.worker = k};
  if (k->next_block >= k->last_block) return 0;
  place(&b, shuffled(k, k->next_block));
  memcpy(index, b.index, sizeof b.index);
  k->next_block += k->launch->resident_blocks;
  return 1;
}

static void start_block(VgBlock *b, uint64_t number) {
  const VgLaunch *L = b->worker->launch;
  number = shuffled(b->worker, number);
  place(b, number);
  memset(b->barrier, 0, sizeof b->barrier);
  memset(b->shared, 0xff, b->shared_bytes);   /* NaN: what was never written must show */
  vg_tmem_start(b);
  b->live_threads = L->threads_per_block, b->done = 0;
  for (uint32_t i = 0; i < b->warp_count; i++) start_warp(&b->warps[i]);
  if (b->worker->check) vg_check_start(b);
}

static void end_block(VgBlock *b) {
  vg_bulk_end(b);
  if (!b->worker->stop) vg_tmem_end(b);
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
  uint32_t first = b->worker->launch->schedule == 2 ? (uint32_t)vg_random(b->worker) : 0;
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
  static const char *const state[] = {"ready", "barrier", "collective", "mbarrier"};
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
  k->next_block = k->first_block;
  uint32_t slots = k->launch->resident_blocks;
  k->started = vg_seconds();
  while (!k->stop) {
    int running = 0, progress = 0;
    for (uint32_t s = 0; s < slots; s++) running |= !k->resident[s].done;
    if (!running) {   /* a whole set (one block, a cluster, the grid) starts together */
      if (k->next_block >= k->last_block) break;
      if (k->next_block % 256 == 255 && vg_budget(&k->resident[0].warps[0], k->launch->ops)) break;
      for (uint32_t s = 0; s < slots && k->next_block < k->last_block; s++)
        start_block(&k->resident[s], k->next_block++);
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
  if (k->check) vg_check_end(k);
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
  return k->launch->checks ? vg_check_open(k) : 0;
}

void vg_worker_close(VgWorker *k) {
  vg_check_close(k);
  for (uint32_t s = 0; k->resident && s < k->launch->resident_blocks; s++) {
    VgBlock *b = &k->resident[s];
    for (uint32_t i = 0; b->warps && i < b->warp_count; i++) {
      free(b->warps[i].stack_whole), free(b->warps[i].fixed), free(b->warps[i].local_whole);
    }
    free(b->warps), free(b->tensor);
    if (!k->cluster_shared) free(b->shared);
  }
  free(k->resident), free(k->printed), free(k->patterns);
  k->resident = NULL, k->printed = NULL, k->patterns = NULL;
  vg_memory_close(k), vg_bulk_close(k);
}

void vg_sizes(uint64_t sizes[9]) {
  const uint64_t all[9] = {sizeof(VgOp), sizeof(VgAccess), sizeof(VgAllocation), sizeof(VgSite),
                           sizeof(VgBlockCount), sizeof(VgFault), sizeof(VgLaunch), sizeof(VgWorker),
                           sizeof(VgFinding)};
  memcpy(sizes, all, sizeof all);
}
