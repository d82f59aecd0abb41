/* Atomics and reductions of one warp; lanes act in lane order.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "check.h"
#include "lane.h"

/* ------------------------------------------------------------------------------ arithmetic */

#define INTEGER(NAME, U, S)                                                                        \
  static U NAME(uint32_t op, int is_signed, U old, U x, U y) {                                     \
    int less = is_signed ? (S)x < (S)old : x < old;                                                \
    switch (op) {                                                                                  \
      case VG_ATOM_ADD: return (U)(old + x);                                                       \
      case VG_ATOM_MIN: return less ? x : old;                                                     \
      case VG_ATOM_MAX: return less ? old : x;                                                     \
      case VG_ATOM_AND: return old & x;                                                            \
      case VG_ATOM_OR: return old | x;                                                             \
      case VG_ATOM_XOR: return old ^ x;                                                            \
      case VG_ATOM_EXCH: return x;                                                                 \
      case VG_ATOM_CAS: return old == x ? y : old;                                                 \
      case VG_ATOM_INC: return old >= x ? 0 : (U)(old + 1);                                        \
      default: return old == 0 || old > x ? x : (U)(old - 1);                                      \
    }                                                                                              \
  }
INTEGER(integer16, uint16_t, int16_t)
INTEGER(integer32, uint32_t, int32_t)
INTEGER(integer64, uint64_t, int64_t)

static uint32_t half(uint32_t op, uint32_t old, uint32_t x) {
  if (op == VG_ATOM_MIN) return w_min_f16((u16)old, (u16)x);
  if (op == VG_ATOM_MAX) return w_max_f16((u16)old, (u16)x);
  return w_f2h(w_h2f(old) + w_h2f(x));
}

static uint32_t brain(uint32_t op, uint32_t old, uint32_t x) {
  if (op == VG_ATOM_MIN) return w_min_bf16((u16)old, (u16)x);
  if (op == VG_ATOM_MAX) return w_max_bf16((u16)old, (u16)x);
  return w_f2b(w_b2f(old) + w_b2f(x));
}

/* In global memory the GPU's f32 addition flushes subnormals; in shared memory it does not. */
static uint32_t single(uint32_t op, int flush, uint32_t old, uint32_t x) {
  if (op == VG_ATOM_MIN) return w_min_f32(old, x);
  if (op == VG_ATOM_MAX) return w_max_f32(old, x);
  if (!flush) return w_nan_f32(w_b32(w_f32(old) + w_f32(x)));
  return w_nan_f32(w_ftz_f32(w_b32(w_f32(w_ftz_f32(old)) + w_f32(w_ftz_f32(x)))));
}

/* The GPU's f64 addition in memory passes a NaN on as it is, a signaling one too. */
static uint64_t full(uint32_t op, uint64_t old, uint64_t x) {
  if (op == VG_ATOM_MIN) return w_min_f64(old, x);
  if (op == VG_ATOM_MAX) return w_max_f64(old, x);
  if (w_is_nan_f64(old) | w_is_nan_f64(x)) return w_is_nan_f64(old) ? old : x;
  return w_b64(w_f64(old) + w_f64(x));
}

static int bitwise(uint32_t op) { return op >= VG_ATOM_AND && op <= VG_ATOM_CAS; }

static uint16_t next16(const VgAccess *a, int global, uint16_t old, uint16_t x, uint16_t y) {
  (void)global;
  if (a->type == VG_F16 && !bitwise(a->atomic)) return (uint16_t)half(a->atomic, old, x);
  if (a->type == VG_BF16 && !bitwise(a->atomic)) return (uint16_t)brain(a->atomic, old, x);
  return integer16(a->atomic, a->type == VG_S16, old, x, y);
}

static uint32_t next32(const VgAccess *a, int global, uint32_t old, uint32_t x, uint32_t y) {
  uint32_t op = a->atomic;
  if (!bitwise(op)) switch (a->type) {
    case VG_F32: return single(op, global, old, x);
    case VG_F16X2: return half(op, old & 0xffff, x & 0xffff) | half(op, old >> 16, x >> 16) << 16;
    case VG_BF16X2: return brain(op, old & 0xffff, x & 0xffff) | brain(op, old >> 16, x >> 16) << 16;
    default: break;
  }
  return integer32(op, a->type == VG_S32, old, x, y);
}

static uint64_t next64(const VgAccess *a, int global, uint64_t old, uint64_t x, uint64_t y) {
  (void)global;
  if (a->type == VG_F64 && !bitwise(a->atomic)) return full(a->atomic, old, x);
  return integer64(a->atomic, a->type == VG_S64, old, x, y);
}

/* ------------------------------------------------------------------------------- the lanes */

#define ONE_LANE(BITS)                                                                             \
  static uint##BITS##_t step##BITS(const VgAccess *a, int global, int parallel, uint64_t at,       \
                                   uint##BITS##_t x, uint##BITS##_t y) {                           \
    uint##BITS##_t *place = (uint##BITS##_t *)(uintptr_t)at, old = *place, new;                    \
    if (!parallel) {                                                                               \
      *place = next##BITS(a, global, old, x, y);                                                   \
      return old;                                                                                  \
    }                                                                                              \
    do new = next##BITS(a, global, old, x, y);                                                     \
    while (!__atomic_compare_exchange_n(place, &old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)); \
    return old;                                                                                    \
  }
ONE_LANE(16)
ONE_LANE(32)
ONE_LANE(64)

/* Registers of b16 may be 2 or 4 bytes wide. */
static uint32_t narrow(const void *lanes, uint32_t reg_bytes, uint32_t l) {
  return reg_bytes == 2 ? ((const uint16_t *)lanes)[l] : ((const uint32_t *)lanes)[l];
}

static void keep_narrow(void *lanes, uint32_t reg_bytes, uint32_t l, uint32_t value) {
  if (reg_bytes == 2) ((uint16_t *)lanes)[l] = (uint16_t)value;
  else ((uint32_t *)lanes)[l] = value;
}

static void element16(const VgAccess *a, const VgReach *r, uint64_t skip, int parallel, void *old,
                      const void *x, const void *y) {
  VG_EACH(l, r->mask) {
    uint16_t other = y ? (uint16_t)narrow(y, a->reg_bytes, l) : 0;
    uint16_t was = step16(a, r->space == VG_GLOBAL, parallel, r->at[l] + skip,
                          (uint16_t)narrow(x, a->reg_bytes, l), other);
    if (old) keep_narrow(old, a->reg_bytes, l, was);
  }
}

#define ELEMENT(BITS)                                                                              \
  static void element##BITS(const VgAccess *a, const VgReach *r, uint64_t skip, int parallel,      \
                            void *old, const void *x, const void *y) {                             \
    const uint##BITS##_t *xs = x, *ys = y;                                                         \
    uint##BITS##_t *olds = old;                                                                    \
    VG_EACH(l, r->mask) {                                                                          \
      uint##BITS##_t was = step##BITS(a, r->space == VG_GLOBAL, parallel, r->at[l] + skip, xs[l],  \
                                      ys ? ys[l] : 0);                                             \
      if (olds) olds[l] = was;                                                                     \
    }                                                                                              \
  }
ELEMENT(32)
ELEMENT(64)

/* exch and cas of 16 bytes; a lock of our own, since every lane of every worker comes by here. */
static void element128(const VgAccess *a, const VgReach *r, uint64_t skip, int parallel, void *old,
                       const void *x, const void *y) {
  static volatile char lock;
  VG_EACH(l, r->mask) {
    char *place = (char *)(uintptr_t)(r->at[l] + skip), was[16];
    while (parallel && __atomic_test_and_set(&lock, __ATOMIC_ACQUIRE)) {}
    memcpy(was, place, 16);
    const char *mine = (const char *)x + 16 * l;
    if (a->atomic == VG_ATOM_EXCH) memcpy(place, mine, 16);
    else if (!memcmp(was, mine, 16)) memcpy(place, (const char *)y + 16 * l, 16);
    if (parallel) __atomic_clear(&lock, __ATOMIC_RELEASE);
    if (old) memcpy((char *)old + 16 * l, was, 16);
  }
}

static int atomic_part(VgWarp *w, const VgAccess *a, uint32_t mask, const uint64_t *address,
                       void *const *old, const void *const *x, const void *const *y) {
  VgReach r = {.mask = mask, .width = (uint32_t)a->bytes * a->count, .space = a->space, .is_store = 1};
  if (vg_admit(w, a, address, &r)) return 1;
  if (w->worker->launch->counting) vg_count_atomic(w, a->site, &r);
  if (vg_checking(w))
    vg_check_access(w, a->site, &r, a->atomic == VG_ATOM_EXCH ? VG_DID_WRITE : VG_DID_ATOMIC,
                    a->flags | VG_STRONG, NULL, NULL);
  int parallel = w->worker->launch->parallel && r.space == VG_GLOBAL;
  for (uint32_t i = 0; i < a->count; i++) {
    uint64_t skip = (uint64_t)i * a->bytes;
    void *kept = old ? old[i] : NULL;
    const void *other = y ? y[i] : NULL;
    switch (a->bytes) {
      case 2: element16(a, &r, skip, parallel, kept, x[i], other); break;
      case 4: element32(a, &r, skip, parallel, kept, x[i], other); break;
      case 8: element64(a, &r, skip, parallel, kept, x[i], other); break;
      default: element128(a, &r, skip, parallel, kept, x[i], other);
    }
  }
  return 0;
}

int vg_atomic(VgWarp *w, const VgAccess *a, uint32_t mask, const uint64_t *address,
              void *const *old, const void *const *operand, const void *const *operand2) {
  VgParts parts;
  if (a->space != VG_GENERIC) return atomic_part(w, a, mask, address, old, operand, operand2);
  vg_split(w, a, mask, address, &parts);
  for (int i = 0; i < 3; i++)
    if (parts.lanes[i] && atomic_part(w, &parts.access[i], parts.lanes[i], parts.address[i], old,
                                      operand, operand2))
      return 1;
  return 0;
}

/* Reductions of elements that lie in a row, for the copy engine; checked and counted by it. */
void vg_atomic_span(VgWarp *w, const VgAccess *a, uint64_t at, const char *values, uint64_t count) {
  int parallel = w->worker->launch->parallel && a->space == VG_GLOBAL, global = a->space == VG_GLOBAL;
  for (uint64_t i = 0; i < count; i++, at += a->bytes, values += a->bytes) {
    uint64_t value = 0;
    memcpy(&value, values, a->bytes);
    switch (a->bytes) {
      case 2: step16(a, global, parallel, at, (uint16_t)value, 0); break;
      case 4: step32(a, global, parallel, at, (uint32_t)value, 0); break;
      default: step64(a, global, parallel, at, value, 0);
    }
  }
}
