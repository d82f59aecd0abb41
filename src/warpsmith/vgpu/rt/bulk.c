/* The copy engine: bulk copies, tensor copies and remote stores, from issue to landing.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A transfer is noted when it is issued and lands, reading its source then, at the latest moment the
 * machine allows: when a thread tests the mbarrier that it completes on, when its thread waits for
 * its bulk group, or when its block ends. A kernel that forgets the wait sees old data here.
 * (`wait_group.read` lets a group land as well; the hardware may still be writing then.)
 */
#include <stdlib.h>

#include "bulk.h"

typedef struct Queue {
  uint32_t count, room;
  VgTransfer *transfers;
} Queue;

/* VgOp.more of a bulk instruction: filled by isa/bulk.py. */
typedef struct Form {
  uint32_t kind, dimensions, walk, atomic, type;
  uint32_t to_shared, from_shared;
  uint32_t value_bytes;         /* of one element of a stored value */
  VgSlot to, from, bytes, barrier, multicast, byte_mask;
  VgSlot at[5], offset[3];        /* values of VG_BULK_VALUE lie in at[0 … 3] */
} Form;

/* ------------------------------------------------------------------------------------- faults */

int vg_bulk_fault(const VgTransfer *t, uint32_t kind, const char *text) {
  if (vg_fault(t->warp, kind, t->site, 1u << t->lane)) {
    VgFault *f = &t->warp->worker->fault;
    strncpy(f->text, text, sizeof f->text - 1);
  }
  return 1;
}

int vg_bulk_global(const VgTransfer *t, uint64_t at, uint64_t bytes, int is_store) {
  VgWarp *w = t->warp;
  if (vg_admit_span(w, t->site, 1u << t->lane, at, bytes, is_store)) return 1;
  if (!w->worker->launch->counting || t->telling || (t->echo && !is_store)) return 0;
  VgSite *row = &w->worker->sites[t->site];
  uint64_t requests = row->requests, threads = row->threads; /* counted when issued */
  vg_count_span(w, t->site, vg_row(w->worker, t->site), at, bytes, 0, is_store);
  row->requests = requests, row->threads = threads;
  return 0;
}

static int bad_end(const VgTransfer *t, uint32_t kind, uint64_t at, uint64_t bytes, int shared, int is_store) {
  if (!vg_fault(t->warp, kind, t->site, 1u << t->lane)) return 1;
  VgFault *f = &t->warp->worker->fault;
  f->space = shared ? VG_SHARED : VG_GLOBAL, f->bytes = (uint32_t)bytes, f->is_store = (uint32_t)is_store;
  f->address = shared ? at - (uint64_t)(uintptr_t)t->warp->block->shared : at;
  f->limit = shared ? t->warp->block->shared_bytes : 0;
  return 1;
}

/* The resident block whose shared memory holds [at, at + bytes), or NULL. */
static const VgBlock *owner(const VgWorker *worker, uint64_t at, uint64_t bytes) {
  for (uint32_t i = 0; i < worker->launch->resident_blocks; i++) {
    const VgBlock *b = &worker->resident[i];
    uint64_t offset = at - (uint64_t)(uintptr_t)b->shared;
    if (offset < b->shared_bytes && bytes <= b->shared_bytes - offset) return b;
  }
  return NULL;
}

static int check_shared(const VgTransfer *t, uint64_t at, uint64_t bytes, uint64_t alignment, int is_store) {
  if (at % alignment) return bad_end(t, VG_FAULT_MISALIGNED, at, alignment, 1, is_store);
  if (bytes && !owner(t->warp->worker, at, bytes))
    return bad_end(t, VG_FAULT_OUT_OF_BOUNDS, at, bytes, 1, is_store);
  return 0;
}

/* What can be known when the transfer is issued; global ends are checked when it lands. */
static int check(const VgTransfer *t) {
  if (t->barrier && check_shared(t, t->barrier, 8, 8, 1)) return 1;
  if (t->dimensions) {
    if (vg_tensor_check(t)) return 1;
    if (t->kind == VG_BULK_PREFETCH) return 0;
    return check_shared(t, t->to_shared ? t->to : t->from, t->bytes, 128, t->to_shared);
  }
  uint64_t alignment = t->kind == VG_BULK_VALUE ? t->bytes : 16;
  if (t->kind != VG_BULK_VALUE && t->bytes % 16)
    return vg_bulk_fault(t, VG_FAULT_MISALIGNED, "the size of a bulk copy is not a multiple of 16 bytes");
  if (t->to_shared && check_shared(t, t->to, t->bytes, alignment, 1)) return 1;
  if (t->from_shared && check_shared(t, t->from, t->bytes, alignment, 0)) return 1;
  if (!t->to_shared && t->kind != VG_BULK_PREFETCH && t->to % alignment)
    return bad_end(t, VG_FAULT_MISALIGNED, t->to, alignment, 0, 1);
  if (!t->from_shared && t->kind != VG_BULK_VALUE && t->from % alignment)
    return bad_end(t, VG_FAULT_MISALIGNED, t->from, alignment, 0, 0);
  return 0;
}

/* ------------------------------------------------------------------------------------- landing */

static void masked_copy(char *to, const char *from, uint64_t bytes, uint32_t mask) {
  if (mask == 0xffff) memmove(to, from, bytes);
  else for (uint64_t i = 0; i < bytes; i++)
    if (mask >> i % 16 & 1) to[i] = from[i];
}

static int move_span(const VgTransfer *t) {
  if (!t->bytes) return 0;
  if (!t->from_shared && vg_bulk_global(t, t->from, t->bytes, 0)) return 1;
  if (t->kind == VG_BULK_PREFETCH) return 0;
  if (!t->to_shared && vg_bulk_global(t, t->to, t->bytes, 1)) return 1;
  const char *from = (const char *)(uintptr_t)t->from;
  if (t->kind == VG_BULK_COPY) {
    masked_copy((char *)(uintptr_t)t->to, from, t->bytes, t->byte_mask);
    return 0;
  }
  static const uint8_t width[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 4, 4, 8, 16};
  VgAccess a = {.site = t->site, .space = t->to_shared ? VG_SHARED : VG_GLOBAL, .atomic = t->atomic,
                .type = t->type, .bytes = width[t->type]};
  vg_atomic_span(t->warp, &a, t->to, from, t->bytes / a.bytes);
  return 0;
}

static int move_value(const VgTransfer *t) {
  static const uint8_t width[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 4, 4, 8, 16};
  if (t->atomic == 0xff) {
    memcpy((void *)(uintptr_t)t->to, t->value, t->bytes);
    return 0;
  }
  VgAccess a = {.site = t->site, .space = VG_SHARED, .atomic = t->atomic, .type = t->type,
                .bytes = width[t->type]};
  vg_atomic_span(t->warp, &a, t->to, t->value, t->bytes / a.bytes);
  return 0;
}

static void land(const VgTransfer *t) {
  if (t->warp->worker->stop) return;
  int failed = t->dimensions ? vg_tensor_move(t) : t->kind == VG_BULK_VALUE ? move_value(t) : move_span(t);
  if (failed || !t->barrier) return;
  vg_barrier_complete(t->warp, (char *)(uintptr_t)t->barrier, t->bytes);
}

/* Land the transfers that `wanted` picks, in the order of issue. */
static void land_where(VgWorker *k, int (*wanted)(const VgTransfer *, const void *), const void *key) {
  Queue *q = k->bulk;
  if (!q || !q->count) return;
  uint32_t left = 0;
  for (uint32_t i = 0; i < q->count; i++) {
    if (wanted(&q->transfers[i], key)) land(&q->transfers[i]);
    else if (left++ != i) q->transfers[left - 1] = q->transfers[i];
  }
  q->count = left;
}

static int on_barrier(const VgTransfer *t, const void *key) { return t->barrier == *(const uint64_t *)key; }

void vg_bulk_land(VgWorker *k, uint64_t barrier) { land_where(k, on_barrier, &barrier); }

/* Issued by the block, or completing in its shared memory. */
static int of_block(const VgTransfer *t, const void *key) {
  const VgBlock *b = key;
  return t->warp->block == b || t->barrier - (uint64_t)(uintptr_t)b->shared < b->shared_bytes;
}

void vg_bulk_end(VgBlock *b) { land_where(b->worker, of_block, b); }

void vg_bulk_close(VgWorker *k) {
  Queue *q = k->bulk;
  if (q) free(q->transfers);
  free(q);
  k->bulk = NULL;
}

typedef struct Mine { const VgWarp *warp; uint32_t lane, last; } Mine;

static int in_groups(const VgTransfer *t, const void *key) {
  const Mine *m = key;
  return !t->barrier && t->warp == m->warp && t->lane == m->lane && t->group < m->last;
}

const VgOp *vg_op_bulk_commit(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  VG_EACH(l, mask) w->bulk_groups[l]++;
  if (mask && vg_checking(w)) vg_check_bulk_commit(w, mask);
  return o + 1;
}

/* imm: how many of the newest groups may still be pending. */
const VgOp *vg_op_bulk_wait(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  VG_EACH(l, mask) {
    uint32_t closed = w->bulk_groups[l];
    Mine mine = {w, l, closed > o->imm ? closed - (uint32_t)o->imm : 0};
    land_where(w->worker, in_groups, &mine);
  }
  if (mask && vg_checking(w)) vg_check_bulk_wait(w, mask, (uint32_t)o->imm);
  return w->worker->stop ? NULL : o + 1;
}

/* ------------------------------------------------------------------------------------- issue */

static int append(const VgTransfer *t) {
  VgWorker *k = t->warp->worker;
  Queue *q = k->bulk;
  if (!q) k->bulk = q = calloc(1, sizeof *q);
  if (q && q->count == q->room) {
    uint32_t room = q->room ? 2 * q->room : 16;
    VgTransfer *more = realloc(q->transfers, room * sizeof *more);
    if (more) q->transfers = more, q->room = room;
    else q = NULL;
  }
  if (!q) return vg_bulk_fault(t, VG_FAULT_ILLEGAL_ACCESS, "the host has no memory left for bulk copies");
  q->transfers[q->count++] = *t;
  return 0;
}

/* The map's bytes are read when the instruction is issued. */
static int read_map(VgTransfer *t, uint64_t at) {
  if (at % 64) return bad_end(t, VG_FAULT_MISALIGNED, at, 64, 0, 0);
  if (!owner(t->warp->worker, at, sizeof t->map) &&
      vg_admit_span(t->warp, t->site, 1u << t->lane, at, sizeof t->map, 0))
    return 1;
  memcpy(&t->map, (const void *)(uintptr_t)at, sizeof t->map);
  return 0;
}

/* A map made on the device may lack fields. */
static int measurable(const VgTensorMap *m) {
  if (m->magic != VG_MAP_MAGIC || m->rank - 1u >= 5) return 0;
  for (uint32_t i = 0; i < m->rank; i++)
    if (!m->step[i]) return 0;
  return 1;
}

static int describe(const Form *f, VgTransfer *t) {
  VgWarp *w = t->warp;
  t->to = vg_slot(w, &f->to, t->lane), t->from = vg_slot(w, &f->from, t->lane);
  t->bytes = vg_slot(w, &f->bytes, t->lane);
  t->barrier = f->barrier.at == VG_SINK ? 0 : vg_slot(w, &f->barrier, t->lane);
  t->byte_mask = f->byte_mask.at == VG_SINK ? 0xffff : (uint16_t)vg_slot(w, &f->byte_mask, t->lane);
  if (f->kind == VG_BULK_VALUE) {
    for (uint32_t i = 0; i < t->bytes / f->value_bytes; i++) {
      uint64_t value = vg_slot(w, &f->at[i], t->lane);
      memcpy(t->value + i * f->value_bytes, &value, f->value_bytes);
    }
    return 0;
  }
  if (!f->dimensions) return 0;
  if (read_map(t, f->to_shared || f->kind == VG_BULK_PREFETCH ? t->from : t->to)) return 1;
  for (int i = 0; i < 5; i++) t->at[i] = (int32_t)vg_slot(w, &f->at[i], t->lane);
  for (int i = 0; i < 3; i++) t->offset[i] = (int32_t)(uint16_t)vg_slot(w, &f->offset[i], t->lane);
  t->bytes = measurable(&t->map) ? vg_tensor_box(t) : 0; /* vg_tensor_check says what is wrong with others */
  return 0;
}

/* The same copy by another lane of the same instruction, which writes the same values. */
static int repeats(const VgTransfer *t, const VgTransfer *other) {
  return other->warp && t->kind == VG_BULK_COPY && !t->barrier && t->to == other->to && t->from == other->from &&
         t->bytes == other->bytes && !memcmp(t->at, other->at, sizeof t->at) &&
         t->map.address == other->map.address;
}

/* Tell the sanitizer of what the transfer will touch. */
static int tell(const VgTransfer *t) {
  VgWarp *w = t->warp;
  uint32_t deed = t->kind == VG_BULK_REDUCE || (t->kind == VG_BULK_VALUE && t->atomic != 0xff) ? VG_DID_ATOMIC
                                                                                              : VG_DID_COPY;
  if (!vg_checking(w) || t->kind == VG_BULK_PREFETCH || !t->bytes) return 0;
  if (t->dimensions) {
    VgTransfer rows = *t;
    rows.telling = 1;
    if (!t->echo && vg_tensor_move(&rows)) return 1;
    vg_check_bulk(w, t->site, t->lane, t->to_shared ? t->to : t->from, t->bytes,
                  t->to_shared ? VG_DID_COPY : VG_DID_READ, t->barrier);
    return w->worker->stop;
  }
  if (t->kind != VG_BULK_VALUE && !t->echo)
    vg_check_bulk(w, t->site, t->lane, t->from, t->bytes, VG_DID_READ, t->barrier);
  vg_check_bulk(w, t->site, t->lane, t->to, t->bytes, deed, t->barrier);
  return w->worker->stop;
}

/* The same place in each destination block, and its barrier there. */
static int multicast(const VgTransfer *t, uint32_t blocks) {
  const VgBlock *to = owner(t->warp->worker, t->to, 1), *barrier = owner(t->warp->worker, t->barrier, 8);
  int echo = 0;
  if (!to || !barrier) return bad_end(t, VG_FAULT_OUT_OF_BOUNDS, t->to, 1, 1, 1);
  for (uint32_t rank = 0; rank < 16; rank++) {
    if (!(blocks >> rank & 1)) continue;
    const VgBlock *b = vg_cluster_block(t->warp, rank);
    if (!b) return vg_bulk_fault(t, VG_FAULT_ILLEGAL_ACCESS, "the multicast mask names a block that the cluster does not have");
    VgTransfer copy = *t;
    copy.to += (uint64_t)(b->shared - to->shared);
    copy.barrier += (uint64_t)(b->shared - barrier->shared);
    copy.echo = (uint8_t)echo, echo = 1;
    if (tell(&copy) || append(&copy)) return 1;
  }
  return 0;
}

static void count_issue(const VgTransfer *t, uint32_t copies) {
  VgSite *row = &t->warp->worker->sites[t->site];
  row->requests++;
  if (t->kind == VG_BULK_PREFETCH) return;
  uint64_t lines = (t->bytes + 127) / 128 * copies;
  row->wavefronts += lines, row->wavefronts_ideal += lines;
}

const VgOp *vg_op_bulk(const VgOp *o, VgWarp *w) {
  const Form *f = (const Form *)o->more;
  uint32_t mask = vg_active(o, w);
  VgTransfer first = {0};
  VG_EACH(l, mask) {
    VgTransfer t = {.warp = w, .site = o->site, .lane = l, .kind = (uint8_t)f->kind, .walk = (uint8_t)f->walk,
                    .dimensions = (uint8_t)f->dimensions, .to_shared = (uint8_t)f->to_shared,
                    .from_shared = (uint8_t)f->from_shared, .atomic = (uint8_t)f->atomic,
                    .type = (uint8_t)f->type, .group = w->bulk_groups[l]};
    if (describe(f, &t) || check(&t)) return NULL;
    uint32_t blocks = f->multicast.at == VG_SINK ? 0 : (uint32_t)vg_slot(w, &f->multicast, l) & 0xffff;
    if (w->worker->launch->counting) count_issue(&t, blocks ? (uint32_t)__builtin_popcount(blocks) : 1);
    if (f->multicast.at != VG_SINK) {
      if (multicast(&t, blocks)) return NULL;
    } else if (t.kind == VG_BULK_PREFETCH) {
      land(&t);
    } else if ((!repeats(&t, &first) && tell(&t)) || append(&t)) {
      return NULL;
    }
    if (!first.warp) first = t;
  }
  if (mask) vg_barrier_wake(w);
  return w->worker->stop ? NULL : o + 1;
}
