/* Handlers of memory instructions: gather operands, then call the checked accesses of memory.c.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "check.h"

enum { MAX_VECTOR = 8 };

static inline char *operand(const VgOp *o, VgWarp *w, int i) {
  if (o->a[i] == VG_SINK) return NULL;
  return ((o->kinds >> i & 1) ? w->fixed : w->regs) + o->a[i];
}

/* Lane addresses; 32-bit ones are widened into w->address. */
static inline const uint64_t *addresses(const VgOp *o, VgWarp *w, uint32_t offset) {
  const char *p = ((o->flags & VG_ADDRESS_FIXED) ? w->fixed : w->regs) + offset;
  if (!(o->flags & VG_ADDRESS_32)) return (const uint64_t *)p;
  for (int l = 0; l < VG_LANES; l++) w->address[l] = ((const uint32_t *)p)[l];
  return w->address;
}

const VgOp *vg_op_load(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_mask(o, w);
  if (!mask) return o + 1;
  void *data[MAX_VECTOR];
  for (int i = 0; i < o->access->count; i++) data[i] = operand(o, w, i);
  return vg_load(w, o->access, mask, addresses(o, w, o->aux), data) ? NULL : o + 1;
}

const VgOp *vg_op_store(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_mask(o, w);
  if (!mask) return o + 1;
  const void *data[MAX_VECTOR];
  for (int i = 0; i < o->access->count; i++) data[i] = operand(o, w, i);
  return vg_store(w, o->access, mask, addresses(o, w, o->aux), data) ? NULL : o + 1;
}

/* A scalar atomic: a[0] result, a[1] operand, a[2] second operand of cas. */
const VgOp *vg_op_atomic(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_mask(o, w);
  if (!mask) return o + 1;
  void *old = operand(o, w, 0);
  const void *first = operand(o, w, 1), *second = operand(o, w, 2);
  return vg_atomic(w, o->access, mask, addresses(o, w, o->aux), old ? &old : NULL, &first, &second)
             ? NULL : o + 1;
}

/* A vector reduction or atomic: a[0 .. n-1] operands, a[4 .. 4+n-1] results (n <= 4). */
const VgOp *vg_op_atomic_vector(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_mask(o, w);
  if (!mask) return o + 1;
  void *old[4];
  const void *data[4];
  int any = 0;
  for (int i = 0; i < o->access->count && i < 4; i++) {
    data[i] = operand(o, w, i), old[i] = operand(o, w, 4 + i);
    any |= old[i] != NULL;
  }
  return vg_atomic(w, o->access, mask, addresses(o, w, o->aux), any ? old : NULL, data, NULL) ? NULL
                                                                                            : o + 1;
}

/* cp.async: a[0] shared address (flags say how wide), a[1] global address (64 bits), a[2] source
 * size, a[3] ignore-source. */
const VgOp *vg_op_async_copy(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  if (!mask) return o + 1;
  const uint64_t *shared = addresses(o, w, o->a[0]);
  uint64_t moved[VG_LANES];
  if (o->access->offset) {
    for (int l = 0; l < VG_LANES; l++) moved[l] = shared[l] + (uint64_t)o->access->offset;
    shared = moved;
  }
  VgAccess global = *o->access;
  const uint64_t *from = (const uint64_t *)operand(o, w, 1);
  uint64_t far[VG_LANES];
  if (o->aux) {
    for (int l = 0; l < VG_LANES; l++) far[l] = from[l] + (uint64_t)(int64_t)(int32_t)o->aux;
    from = far;
  }
  global.offset = 0;
  return vg_async_copy(w, &global, mask, shared, from, (const uint32_t *)operand(o, w, 2),
                       (const uint32_t *)operand(o, w, 3)) ? NULL : o + 1;
}

const VgOp *vg_op_async_commit(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  if (mask) vg_async_commit(w, mask);
  return o + 1;
}

const VgOp *vg_op_async_wait(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  if (!mask) return o + 1;
  if (o->imm == UINT32_MAX) vg_async_wait_all(w, mask);
  else vg_async_wait_group(w, mask, (uint32_t)o->imm);
  return w->worker->stop ? NULL : o + 1;
}

/* ----------------------------------------------------------------- parameters and other values */

static inline uint64_t extend(const char *p, uint32_t bytes, int is_signed) {
  uint64_t v = 0;
  memcpy(&v, p, bytes);   /* little-endian hosts only: build.py refuses others */
  uint32_t free_bits = 64 - 8 * bytes;
  return is_signed ? (uint64_t)((int64_t)(v << free_bits) >> free_bits) : v;
}

static void spread(void *lanes, uint32_t mask, uint32_t bytes, uint64_t value) {
  if (mask == VG_FULL && bytes == 8) {
    for (int l = 0; l < VG_LANES; l++) ((uint64_t *)lanes)[l] = value;
    return;
  }
  if (mask == VG_FULL && bytes == 4) {
    for (int l = 0; l < VG_LANES; l++) ((uint32_t *)lanes)[l] = (uint32_t)value;
    return;
  }
  for (int l = 0; l < VG_LANES; l++) {
    if (!(mask >> l & 1)) continue;
    if (bytes == 8) ((uint64_t *)lanes)[l] = value;
    else if (bytes == 4) ((uint32_t *)lanes)[l] = (uint32_t)value;
    else ((uint16_t *)lanes)[l] = (uint16_t)value;
  }
}

/* ld.param of the kernel's own parameters at a constant offset: the same for all lanes. */
const VgOp *vg_op_load_param(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  const VgAccess *a = o->access;
  for (int i = 0; i < a->count && mask; i++) {
    void *lanes = operand(o, w, i);
    const char *from = w->worker->launch->params + a->offset + i * a->bytes;
    if (lanes) spread(lanes, mask, a->reg_bytes, extend(from, a->bytes, a->is_signed));
  }
  return o + 1;
}

/* ld.param and st.param of a call's parameters, which lie in the frame: lane l's at aux + l * a[7]. */
const VgOp *vg_op_load_frame(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  const VgAccess *a = o->access;
  const char *base = w->regs + o->aux + a->offset;
  for (int i = 0; i < a->count && mask; i++) {
    void *lanes = operand(o, w, i);
    for (int l = 0; lanes && l < VG_LANES; l++)
      if (mask >> l & 1)
        spread(lanes, 1u << l, a->reg_bytes,
               extend(base + (uint64_t)l * o->a[7] + i * a->bytes, a->bytes, a->is_signed));
  }
  return o + 1;
}

const VgOp *vg_op_store_frame(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  const VgAccess *a = o->access;
  char *base = w->regs + o->aux + a->offset;
  for (int i = 0; i < a->count && mask; i++) {
    const char *lanes = operand(o, w, i);
    for (int l = 0; lanes && l < VG_LANES; l++)
      if (mask >> l & 1)
        memcpy(base + (uint64_t)l * o->a[7] + i * a->bytes, lanes + l * a->reg_bytes, a->bytes);
  }
  return o + 1;
}

/* a[0] (a[2] bytes a lane) = imm + a base: the kernel's parameters or the frame's part of local memory. */
enum { BASE_PARAMS, BASE_LOCAL_FRAME };

const VgOp *vg_op_address(const VgOp *o, VgWarp *w) {
  uint64_t base = o->a[1] == BASE_PARAMS ? (uint64_t)(uintptr_t)w->worker->launch->params
                                         : ((const VgFrame *)w->regs)->local;
  spread(w->regs + o->a[0], vg_active(o, w), o->a[2], base + o->imm);
  return o + 1;
}

/* cvta: a[0] destination, a[1] source, a[2] bytes of a lane, aux 1: to the space; imm: the space;
 * a[4]: added. */
const VgOp *vg_op_cvta(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  const char *from = operand(o, w, 1);
  char *to = operand(o, w, 0);
  for (int l = 0; l < VG_LANES; l++) {
    if (!(mask >> l & 1)) continue;
    uint64_t base = o->imm == VG_SHARED  ? (uint64_t)(uintptr_t)w->block->shared
                    : o->imm == VG_LOCAL ? (uint64_t)(uintptr_t)w->local + (uint64_t)l * w->local_stride
                                         : 0;
    uint64_t value = o->a[3] == 4 ? ((const uint32_t *)from)[l] : ((const uint64_t *)from)[l];
    value = (o->aux ? value - base : value + base) + (uint64_t)(int64_t)(int32_t)o->a[4];
    if (o->a[2] == 4) ((uint32_t *)to)[l] = (uint32_t)value;
    else ((uint64_t *)to)[l] = value;
  }
  return o + 1;
}

/* isspacep: a[0] predicate, a[1] generic address. */
const VgOp *vg_op_isspacep(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  const uint64_t *p = (const uint64_t *)operand(o, w, 1);
  uint32_t *d = (uint32_t *)operand(o, w, 0);
  uint64_t shared = (uint64_t)(uintptr_t)w->block->shared;
  for (int l = 0; l < VG_LANES; l++) {
    if (!(mask >> l & 1)) continue;
    uint64_t local = (uint64_t)(uintptr_t)w->local + (uint64_t)l * w->local_stride;
    uint64_t params = (uint64_t)(uintptr_t)w->worker->launch->params;
    int in_shared = p[l] - shared < w->block->shared_bytes, in_local = p[l] - local < w->local_stride;
    int in_param = p[l] - params < w->worker->launch->param_bytes;
    d[l] = o->imm == VG_SHARED  ? in_shared
           : o->imm == VG_LOCAL ? in_local
           : o->imm == VG_PARAM ? in_param
           : o->imm == VG_CONST ? 0
                                : !in_shared && !in_local;
  }
  return o + 1;
}

/* %clock, %clock64, %globaltimer: warp instructions executed up to here, one a nanosecond. aux: shift;
 * imm: instructions of the basic block that are counted already and come later. */
const VgOp *vg_op_clock(const VgOp *o, VgWarp *w) {
  spread(w->regs + o->a[0], vg_active(o, w), o->a[1], (w->worker->clock - o->imm) >> o->aux);
  return o + 1;
}

/* A collective's address lanes: base (by flags) + offset into w->address. */
const uint64_t *vg_lane_addresses(VgWarp *w, const char *lanes, uint32_t bits, int64_t offset) {
  for (int l = 0; l < VG_LANES; l++)
    w->address[l] = (bits == 32 ? ((const uint32_t *)lanes)[l] : ((const uint64_t *)lanes)[l]) +
                    (uint64_t)offset;
  return w->address;
}
