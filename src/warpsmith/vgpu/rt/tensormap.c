/* tensormap.replace and tensormap.cp_fenceproxy, and st.bulk.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bulk.h"

/* Host memory of `bytes` at `at`, in the block's shared memory or in an allocation; NULL: a fault. */
static char *reach(VgWarp *w, uint32_t site, uint32_t lane, uint64_t at, uint64_t bytes, int is_store) {
  uint64_t offset = at - (uint64_t)(uintptr_t)w->block->shared;
  int shared = offset < w->block->shared_bytes;
  if (shared && bytes <= w->block->shared_bytes - offset) return (char *)(uintptr_t)at;
  if (!shared) return vg_admit_span(w, site, 1u << lane, at, bytes, is_store) ? NULL : (char *)(uintptr_t)at;
  if (vg_fault(w, VG_FAULT_OUT_OF_BOUNDS, site, 1u << lane)) {
    VgFault *f = &w->worker->fault;
    f->space = VG_SHARED, f->bytes = (uint32_t)bytes, f->address = offset, f->limit = w->block->shared_bytes;
    f->is_store = (uint32_t)is_store;
  }
  return NULL;
}

static char *map_at(VgWarp *w, uint32_t site, uint32_t lane, uint64_t at, int is_store) {
  uint64_t offset = at - (uint64_t)(uintptr_t)w->block->shared;
  int shared = offset < w->block->shared_bytes;
  if (at % 64 == 0) return reach(w, site, lane, at, sizeof(VgTensorMap), is_store);
  if (vg_fault(w, VG_FAULT_MISALIGNED, site, 1u << lane)) {
    VgFault *f = &w->worker->fault;
    f->space = shared ? VG_SHARED : VG_GLOBAL, f->bytes = 64, f->address = shared ? offset : at;
    f->is_store = (uint32_t)is_store, f->limit = w->block->shared_bytes;
  }
  return NULL;
}

/* Order of isa/bulk.py's FIELDS. */
enum { ADDRESS, RANK, BOX, SIZE, STRIDE, STEP, TYPE, INTERLEAVE, SWIZZLE, ATOMICITY, FILL };

static uint8_t small(uint64_t value) { return value > 255 ? 255 : (uint8_t)value; }

static void replace(VgTensorMap *m, uint32_t field, uint32_t index, uint64_t value) {
  switch (field) {
    case ADDRESS: m->address = value; break;
    case RANK: m->rank = small(value + 1); break; /* the operand is one less than the rank */
    case BOX: m->box[index] = (uint32_t)value; break;
    case SIZE: m->size[index] = (uint32_t)value; break;
    case STRIDE: m->stride[index] = value; break;
    case STEP: m->step[index] = small(value); break;
    case TYPE: m->type = small(value); break;
    case INTERLEAVE: m->interleave = small(value); break;
    case SWIZZLE: m->swizzle = small(value); break;
    case ATOMICITY: m->atomicity = small(value); break;
    case FILL: m->fill = small(value); break;
  }
  m->magic = VG_MAP_MAGIC;
}

/* more: field, dimension, address, value. */
const VgOp *vg_op_tensormap_replace(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  const VgSlot *slots = (const VgSlot *)(o->more + 2);
  VG_EACH(l, mask) {
    char *p = map_at(w, o->site, l, vg_slot(w, &slots[0], l), 1);
    if (!p) return NULL;
    VgTensorMap map;
    memcpy(&map, p, sizeof map);
    replace(&map, o->more[0], o->more[1], vg_slot(w, &slots[1], l));
    memcpy(p, &map, sizeof map);
  }
  return o + 1;
}

/* more: destination in global memory, source in shared memory; the warp copies once. */
const VgOp *vg_op_tensormap_copy(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  const VgSlot *slots = (const VgSlot *)o->more;
  if (!mask) return o + 1;
  uint32_t lane = (uint32_t)__builtin_ctz(mask);
  const char *from = map_at(w, o->site, lane, vg_slot(w, &slots[1], lane), 0);
  char *to = from ? map_at(w, o->site, lane, vg_slot(w, &slots[0], lane), 1) : NULL;
  if (!to) return NULL;
  memcpy(to, from, sizeof(VgTensorMap));
  return o + 1;
}

/* st.bulk: a[0] + a[1] the address (aux 2: a shared offset), a[2] the bytes, a[3] whether they have
 * 64 bits. */
const VgOp *vg_op_bulk_fill(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  uint32_t how = ((o->flags & VG_ADDRESS_FIXED) ? VG_SLOT_FIXED : 0) | ((o->flags & VG_ADDRESS_32) ? 0 : VG_SLOT_WIDE);
  VgSlot at = {o->a[0], how | (o->aux ? VG_SLOT_SHARED : 0), (int32_t)o->a[1]};
  VgSlot size = {o->a[2], (o->kinds >> 2 & 1 ? VG_SLOT_FIXED : 0) | (o->a[3] ? VG_SLOT_WIDE : 0), 0};
  VG_EACH(l, mask) {
    uint64_t bytes = vg_slot(w, &size, l), to = vg_slot(w, &at, l);
    if (bytes % 8 || to % 8) {
      if (vg_fault(w, VG_FAULT_MISALIGNED, o->site, 1u << l)) {
        VgFault *f = &w->worker->fault;
        f->space = VG_SHARED, f->bytes = 8, f->is_store = 1;
        f->address = to - (uint64_t)(uintptr_t)w->block->shared, f->limit = w->block->shared_bytes;
      }
      return NULL;
    }
    char *p = reach(w, o->site, l, to, bytes, 1);
    if (!p) return NULL;
    memset(p, 0, bytes);
  }
  return o + 1;
}
