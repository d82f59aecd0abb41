/* mbarrier objects, and barriers and addresses of a cluster.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An mbarrier is 8 bytes of shared memory: bits 0-19 arrivals expected per phase, 20-39 arrivals
 * pending, 40-61 transaction bytes outstanding (signed), 63 parity of the current phase. (The
 * hardware's layout is not public; PTX calls it opaque.)
 */
#include "check.h"

enum { FIELD = 0xfffff };

typedef struct Barrier { uint64_t expected, pending, parity; int64_t bytes; } Barrier;

static Barrier unpack(uint64_t word) {
  return (Barrier){word & FIELD, word >> 20 & FIELD, word >> 63, (int64_t)(word << 2) >> 42};
}

static uint64_t pack(Barrier b) {
  return b.expected | b.pending << 20 | ((uint64_t)b.bytes & 0x3fffff) << 40 | b.parity << 63;
}

static uint64_t settled(Barrier b) {
  if (b.pending == 0 && b.bytes == 0) b.parity ^= 1, b.pending = b.expected;
  return pack(b);
}

/* The shared memory of a lane address, of this block or of one of its cluster; NULL after a fault. */
static char *shared_at(const VgOp *o, VgWarp *w, int lane, uint64_t address, uint64_t bytes) {
  int aligned = address % bytes == 0;
  for (uint32_t s = 0; s < w->worker->launch->resident_blocks; s++) {
    const VgBlock *b = &w->worker->resident[s];
    uint64_t offset = address - (uint64_t)(uintptr_t)b->shared;
    if (aligned && offset < b->shared_bytes && bytes <= b->shared_bytes - offset) return b->shared + offset;
  }
  if (vg_fault(w, aligned ? VG_FAULT_OUT_OF_BOUNDS : VG_FAULT_MISALIGNED, o->site, 1u << lane)) {
    VgFault *f = &w->worker->fault;
    f->space = VG_SHARED, f->bytes = (uint32_t)bytes, f->address = address - (uint64_t)(uintptr_t)w->block->shared;
    f->limit = w->block->shared_bytes, f->is_store = 1;
  }
  return NULL;
}

/* Host address of lane address operand `at` (aux: 0 generic, 1 shared offset, 2 shared::cluster). */
static uint64_t lane_address(const VgOp *o, VgWarp *w, int lane) {
  const char *p = ((o->flags & VG_ADDRESS_FIXED) ? w->fixed : w->regs) + o->a[0];
  uint64_t value = (o->flags & VG_ADDRESS_32) ? ((const uint32_t *)p)[lane] : ((const uint64_t *)p)[lane];
  value += (uint64_t)(int64_t)(int32_t)o->a[1];
  return o->aux ? vg_cluster_address(w, value) : value;
}

const VgBlock *vg_cluster_block(const VgWarp *w, uint64_t rank) {
  const uint32_t *shape = w->worker->launch->cluster;
  uint64_t size = (uint64_t)shape[0] * shape[1] * shape[2];
  if (rank >= size) return NULL;
  return &w->worker->resident[w->block->resident / size * size + rank];
}

uint64_t vg_cluster_address(const VgWarp *w, uint64_t value) {
  const VgBlock *b = value >> 24 ? vg_cluster_block(w, (value >> 24) - 1) : w->block;
  return b ? (uint64_t)(uintptr_t)b->shared + (value & 0xffffff)
           : (uint64_t)(uintptr_t)w->block->shared + value;
}

static const char *operand(const VgOp *o, const VgWarp *w, int i) {
  return o->a[i] == VG_SINK ? NULL : ((o->kinds >> i & 1) ? w->fixed : w->regs) + o->a[i];
}

/* imm: what to do with the barrier at a[0] + a[1]; a[2]: the result, a[3]: the operand. */
enum { INIT, INVAL, ARRIVE, ARRIVE_DROP, ARRIVE_EXPECT, DROP_EXPECT, EXPECT_TX, COMPLETE_TX,
       ASYNC_ARRIVE };

static uint64_t changed(uint64_t word, uint64_t what, uint64_t value) {
  Barrier b = unpack(word);
  switch (what) {
    case INIT: return value | value << 20;
    case INVAL: return 0;
    case ARRIVE_DROP: b.expected -= value; /* fall through */
    case ARRIVE: case ASYNC_ARRIVE: b.pending -= value; break;
    case DROP_EXPECT: b.expected -= 1; /* fall through */
    case ARRIVE_EXPECT: b.bytes += (int64_t)value, b.pending -= 1; break;
    case EXPECT_TX: b.bytes += (int64_t)value; return pack(b);
    case COMPLETE_TX: b.bytes -= (int64_t)value; break;
  }
  return settled(b);
}

/* Lanes that stopped at a barrier look again: one of them was made, unmade or ended a phase. */
void vg_barrier_wake(VgWarp *running) {
  VgWorker *k = running->worker;
  for (uint32_t s = 0; s < k->launch->resident_blocks; s++) {
    VgBlock *b = &k->resident[s];
    for (uint32_t i = 0; i < b->warp_count && !b->done; i++)
      for (uint32_t g = 0; g < b->warps[i].groups; g++) {
        if (b->warps[i].group[g].state != VG_AT_MBARRIER) continue;
        b->warps[i].group[g].state = VG_READY, b->warps[i].status = VG_RUNNING;
      }
  }
  vg_order(running);
}

/* Change the barrier at p. */
static void change(VgWarp *w, char *p, uint64_t what, uint64_t value) {
  uint64_t before, after;
  memcpy(&before, p, 8);
  after = changed(before, what, value);
  memcpy(p, &after, 8);
  if (what == INIT || what == INVAL || (before ^ after) >> 63) vg_barrier_wake(w);
}

int vg_mbarrier_arrive(VgWarp *w, uint32_t site, uint32_t lane, uint64_t address) {
  VgOp o = {.site = site};
  char *p = shared_at(&o, w, (int)lane, address, 8);
  if (p && vg_checking(w)) vg_check_arrive(w, 1u << lane, address);
  if (p) change(w, p, ARRIVE, 1);
  return !p;
}

int vg_mbarrier_complete(VgWarp *w, uint32_t site, uint32_t lane, uint64_t address, uint64_t bytes) {
  VgOp o = {.site = site};
  char *p = shared_at(&o, w, (int)lane, address, 8);
  if (p) change(w, p, COMPLETE_TX, bytes);
  return !p;
}

/* Tell the sanitizer what lanes do with their barriers: those with one barrier, together. */
static void tell(const VgOp *o, VgWarp *w, uint32_t mask) {
  VgReach r = {.width = 8, .space = VG_GLOBAL, .is_store = 1};
  int plain = o->imm == INIT || o->imm == INVAL;
  VG_EACH(l, mask) {
    r.at[l] = lane_address(o, w, (int)l);
    if (shared_at(o, w, (int)l, r.at[l], 8)) r.mask |= 1u << l;
  }
  for (uint32_t left = r.mask, same; left; left &= ~same) {
    same = 0;
    VG_EACH(l, left) same |= (uint32_t)(r.at[l] == r.at[__builtin_ctz(left)]) << l;
    VgReach part = r;
    part.mask = same;
    vg_check_access(w, o->site, &part, plain ? VG_DID_WRITE : VG_DID_ATOMIC,
                    plain ? 0 : VG_STRONG | VG_ALONE, NULL, NULL);
    if (!plain && o->imm != EXPECT_TX) vg_check_arrive(w, same, r.at[__builtin_ctz(left)]);
  }
}

void vg_barrier_complete(VgWarp *w, char *p, uint64_t bytes) { change(w, p, COMPLETE_TX, bytes); }

const VgOp *vg_op_mbarrier(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  uint64_t *result = (uint64_t *)operand(o, w, 2);
  const uint32_t *value = (const uint32_t *)operand(o, w, 3);
  if (mask && o->imm == ASYNC_ARRIVE) vg_async_wait_all(w, mask);
  if (mask && vg_checking(w)) tell(o, w, mask);
  for (int l = 0; l < VG_LANES && !w->worker->stop; l++) {
    if (!(mask >> l & 1)) continue;
    char *p = shared_at(o, w, l, lane_address(o, w, l), 8);
    if (!p) return NULL;
    uint64_t word;
    memcpy(&word, p, 8);
    if (result) result[l] = word;
    change(w, p, o->imm, value ? value[l] : 1);
  }
  return w->worker->stop ? NULL : o + 1;
}

/* test_wait, try_wait: a[2] the predicate, a[3] state (imm 0, uint64_t) or parity (imm 1). a[4]: its
 * loop does nothing else, so lanes stop here until a phase ends; what can never end is a deadlock. */
const VgOp *vg_op_mbarrier_test(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  uint32_t *done = (uint32_t *)operand(o, w, 2);
  const char *wanted = operand(o, w, 3);
  uint32_t any = 0;
  for (int l = 0; l < VG_LANES; l++) {
    if (!(mask >> l & 1)) continue;
    char *p = shared_at(o, w, l, lane_address(o, w, l), 8);
    if (!p) return NULL;
    uint64_t word;
    vg_bulk_land(w->worker, (uint64_t)(uintptr_t)p);
    memcpy(&word, p, 8);
    uint64_t parity = o->imm ? ((const uint32_t *)wanted)[l] & 1 : ((const uint64_t *)wanted)[l] >> 63;
    if (done) done[l] = word >> 63 != parity;
    if (word >> 63 != parity) vg_tmem_waited(w, (uint64_t)(uintptr_t)p);
    if (vg_checking(w) && word >> 63 != parity) vg_check_wait(w, 1u << l, (uint64_t)(uintptr_t)p);
    any |= word >> 63 != parity;
  }
  if (o->a[4] && mask && !any) return vg_wait(o, w, VG_AT_MBARRIER, 0);
  return o + 1;
}

const VgOp *vg_op_mbarrier_pending(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  const uint64_t *state = (const uint64_t *)operand(o, w, 1);
  uint32_t *d = (uint32_t *)operand(o, w, 0);
  for (int l = 0; l < VG_LANES; l++)
    if (mask >> l & 1) d[l] = (uint32_t)unpack(state[l]).pending;
  return o + 1;
}

/* -------------------------------------------------------------------------------------- cluster */

/* Lanes of shared::cluster offsets (a[1], plus imm) to host addresses (a[0]). */
const VgOp *vg_op_cluster_address(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_mask(o, w);
  const char *from = ((o->flags & VG_ADDRESS_FIXED) ? w->fixed : w->regs) + o->a[1];
  uint64_t *to = (uint64_t *)(w->regs + o->a[0]);
  for (int l = 0; l < VG_LANES; l++) {
    if (!(mask >> l & 1)) continue;
    uint64_t value = (o->flags & VG_ADDRESS_32) ? ((const uint32_t *)from)[l] : ((const uint64_t *)from)[l];
    to[l] = vg_cluster_address(w, value) + o->imm;
  }
  return o + 1;
}

/* mapa: a[0] the result, a[1] an address, a[2] the rank; imm 1: shared::cluster offsets, 0: generic;
 * aux: bytes of a lane. */
const VgOp *vg_op_mapa(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  const char *from = operand(o, w, 1);
  const uint32_t *rank = (const uint32_t *)operand(o, w, 2);
  char *to = (char *)operand(o, w, 0);
  for (int l = 0; l < VG_LANES; l++) {
    if (!(mask >> l & 1)) continue;
    uint64_t value = o->aux == 4 ? ((const uint32_t *)from)[l] : ((const uint64_t *)from)[l];
    const VgBlock *peer = vg_cluster_block(w, rank[l]);
    if (!peer) {
      vg_fault(w, VG_FAULT_ILLEGAL_ACCESS, o->site, 1u << l);
      return NULL;
    }
    uint64_t offset = o->imm ? value & 0xffffff : value - (uint64_t)(uintptr_t)w->block->shared;
    value = o->imm ? offset | (uint64_t)(rank[l] + 1) << 24
                   : (uint64_t)(uintptr_t)peer->shared + offset;
    if (o->aux == 4) ((uint32_t *)to)[l] = (uint32_t)value;
    else ((uint64_t *)to)[l] = value;
  }
  return o + 1;
}

/* getctarank: a[0] the rank of the block whose shared memory a[1] lies in; imm and aux as of mapa. */
const VgOp *vg_op_getctarank(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  const char *from = operand(o, w, 1);
  uint32_t *to = (uint32_t *)operand(o, w, 0);
  for (int l = 0; l < VG_LANES; l++) {
    if (!(mask >> l & 1)) continue;
    uint64_t value = o->aux == 4 ? ((const uint32_t *)from)[l] : ((const uint64_t *)from)[l], rank = 0;
    if (o->imm) value = vg_cluster_address(w, value);
    for (const VgBlock *b; (b = vg_cluster_block(w, rank)); rank++)
      if (value - (uint64_t)(uintptr_t)b->shared < b->shared_bytes) break;
    if (!vg_cluster_block(w, rank)) {
      vg_fault(w, VG_FAULT_ILLEGAL_ACCESS, o->site, 1u << l);
      return NULL;
    }
    to[l] = (uint32_t)rank;
  }
  return o + 1;
}

static void open_cluster(VgWorker *k) {
  uint64_t live = 0;
  for (uint32_t s = 0; s < k->launch->resident_blocks; s++)
    if (!k->resident[s].done) live += k->resident[s].live_threads;
  if (!k->cluster_arrived || k->cluster_arrived < live) return;
  k->cluster_arrived = 0, k->cluster_phase++;
  for (uint32_t s = 0; s < k->launch->resident_blocks; s++) {
    VgBlock *b = &k->resident[s];
    for (uint32_t i = 0; i < b->warp_count && !b->done; i++)
      for (uint32_t g = 0; g < b->warps[i].groups; g++) {
        VgGroup *group = &b->warps[i].group[g];
        if (group->state != VG_AT_BARRIER || group->barrier != VG_BARRIERS) continue;
        group->state = VG_READY, b->warps[i].status = VG_RUNNING;
        if (k->check) vg_check_cluster_wait(&b->warps[i], group->mask);
      }
  }
}

void vg_cluster_exit(VgWorker *worker) { open_cluster(worker); }

const VgOp *vg_op_cluster_arrive(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  if (!mask) return o + 1;
  if (vg_checking(w)) vg_check_cluster_arrive(w, mask);
  w->cluster_wanted = w->worker->cluster_phase + 1;
  w->worker->cluster_arrived += (uint64_t)__builtin_popcount(mask);
  open_cluster(w->worker);
  return o + 1;
}

const VgOp *vg_op_cluster_wait(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  if (!mask) return o + 1;
  if (w->worker->cluster_phase >= w->cluster_wanted) {
    if (vg_checking(w)) vg_check_cluster_wait(w, mask);
    return o + 1;
  }
  return vg_wait(o + 1, w, VG_AT_BARRIER, VG_BARRIERS);
}
