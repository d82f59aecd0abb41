/* Checked and counted loads and stores of one warp.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A whole warp that touches one contiguous span of one allocation takes a short path: one range
 * test, one copy. Everything else is admitted lane by lane in vg_admit. Checks of order and of
 * initialized memory attach to vg_admit's end and to the short path in `span`, where the addresses
 * are known to be good and no data has moved.
 */
#include <stdlib.h>

#include "check.h"
#include "window.h"

/* Below this, an address that no allocation holds is called a null pointer plus an offset. */
#define NULL_REACH (16ull << 20)

/* ------------------------------------------------------------------------------ allocations */

const VgAllocation *vg_find(const VgLaunch *launch, uint64_t address) {
  uint32_t low = 0, high = launch->table_count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (launch->table[middle].end <= address) low = middle + 1;
    else high = middle;
  }
  return low < launch->table_count && launch->table[low].begin <= address ? &launch->table[low]
                                                                          : NULL;
}

/* Each site remembers the row it met last: x and y of x[i] + y[i] are two sites. */
static const VgAllocation NOWHERE = {0}, EVERYWHERE = {.begin = NULL_REACH, .end = UINT64_MAX >> 1};

static const VgAllocation **remember(VgWorker *worker) {
  uint64_t count = worker->launch->site_count ? worker->launch->site_count : 1;
  const VgAllocation **rows = malloc(count * sizeof *rows);
  const VgAllocation *first = worker->launch->table ? &NOWHERE : &EVERYWHERE;
  for (uint64_t i = 0; rows && i < count; i++) rows[i] = first;
  return worker->memory = rows;
}

static inline const VgAllocation **memory_of(VgWorker *worker) {
  const VgAllocation **rows = worker->memory;
  return __builtin_expect(!rows, 0) ? remember(worker) : rows;
}

const VgAllocation *vg_row(VgWorker *worker, uint32_t site) {
  const VgAllocation **rows = memory_of(worker);
  return rows ? rows[site] : &NOWHERE;
}

void vg_memory_close(VgWorker *worker) {
  free(worker->memory);
  worker->memory = NULL;
}

/* Is [first, first + bytes) in one allocation that allows the access? Remembers the row. */
static int reachable(VgWorker *worker, uint32_t site, uint64_t first, uint64_t bytes, int is_store) {
  const VgAllocation *row = vg_row(worker, site);
  if (!vg_inside(row, first, bytes)) row = worker->launch->table ? vg_find(worker->launch, first) : NULL;
  if (!row || !vg_inside(row, first, bytes) || (is_store && row->readonly)) return 0;
  if (worker->memory) ((const VgAllocation **)worker->memory)[site] = row;
  return 1;
}

/* ----------------------------------------------------------------------------------- faults */

static uint32_t verdict(const VgLaunch *launch, uint64_t address, const VgReach *r) {
  int near_null = address < NULL_REACH || address > UINT64_MAX - NULL_REACH;
  if (!launch->table) return near_null ? VG_FAULT_NULL_POINTER
                             : address & (r->width - 1) ? VG_FAULT_MISALIGNED : VG_FAULT_NONE;
  const VgAllocation *row = vg_find(launch, address);
  if (!row && near_null) return VG_FAULT_NULL_POINTER;
  if (address & (r->width - 1)) return VG_FAULT_MISALIGNED;
  if (!row || !vg_inside(row, address, r->width)) return VG_FAULT_OUT_OF_BOUNDS;
  return r->is_store && row->readonly ? VG_FAULT_READONLY_WRITE : VG_FAULT_NONE;
}

static uint32_t window_verdict(uint64_t offset, uint64_t limit, const VgReach *r) {
  if (offset & (r->width - 1)) return VG_FAULT_MISALIGNED;
  return limit < r->width || offset > limit - r->width ? VG_FAULT_OUT_OF_BOUNDS : VG_FAULT_NONE;
}

/* Report the lanes that fail like the lowest one that fails. `asked`: addresses or offsets;
 * limit: 0 for global memory, else the size of the window. Returns 0 if all lanes are good. */
static int blame(VgWarp *w, uint32_t site, const uint64_t *asked, uint64_t limit, const VgReach *r) {
  uint32_t kind = VG_FAULT_NONE, lanes = 0, lowest = 0;
  int windowed = r->space == VG_SHARED || r->space == VG_LOCAL;
  VG_EACH(l, r->mask) {
    uint32_t mine = windowed ? window_verdict(asked[l], limit, r)
                             : verdict(w->worker->launch, asked[l], r);
    if (mine && !kind) kind = mine, lowest = l;
    if (mine && mine == kind) lanes |= 1u << l;
  }
  if (!kind) return 0;
  if (vg_fault(w, kind, site, lanes)) {
    VgFault *f = &w->worker->fault;
    f->space = r->space, f->is_store = r->is_store, f->bytes = r->width;
    f->address = asked[lowest], f->limit = limit;
  }
  return 1;
}

/* ------------------------------------------------------------------------------- admission */

/* Do all lanes lie at base + [0, size - width], and how do their low bits look? An offset below
 * 2^63 is in range when `top - offset` does not borrow. */
typedef struct Fit { uint64_t outside, bits; } Fit;

static Fit fit(const uint64_t *at, uint32_t mask, uint64_t base, uint64_t top) {
  uint64_t outside = 0, bits = 0;
  if (mask == VG_FULL) {
    for (uint32_t l = 0; l < VG_LANES; l++) {
      uint64_t offset = at[l] - base;
      outside |= offset | (top - offset), bits |= at[l];
    }
    return (Fit){outside >> 63, bits};
  }
  for (uint32_t l = 0; l < VG_LANES; l++) {
    uint64_t on = 0 - (uint64_t)(mask >> l & 1), offset = (at[l] - base) & on;
    outside |= offset | (top - offset), bits |= at[l] & on;
  }
  return (Fit){outside >> 63, bits};
}

/* r->at holds offsets; turn them into addresses base + l * stride. */
static int admit_window(VgWarp *w, uint32_t site, VgReach *r, char *base, uint64_t stride,
                        uint64_t limit) {
  Fit f = fit(r->at, r->mask, 0, limit - r->width);
  int bad = limit < r->width || f.outside || (f.bits & (r->width - 1));
  if (bad && blame(w, site, r->at, limit, r)) return 1;
  uint64_t add = (uint64_t)(uintptr_t)base;
  for (uint32_t l = 0; l < VG_LANES; l++, add += stride) r->at[l] += add;
  return 0;
}

static int admit_global(VgWarp *w, uint32_t site, VgReach *r) {
  const VgAllocation *row = vg_row(w->worker, site);
  uint64_t size = row->end - row->begin;
  Fit f = fit(r->at, r->mask, row->begin, size - r->width);
  if (f.bits & (r->width - 1)) return blame(w, site, r->at, 0, r);
  if (size >= r->width && !f.outside && !(r->is_store && row->readonly)) return 0;
  VG_EACH(l, r->mask)
    if (!reachable(w->worker, site, r->at[l], r->width, r->is_store))
      return blame(w, site, r->at, 0, r);
  return 0;
}

int vg_admit(VgWarp *w, const VgAccess *a, const uint64_t *address, VgReach *r) {
  for (uint32_t l = 0; l < VG_LANES; l++) r->at[l] = address[l] + (uint64_t)a->offset;
  switch (r->space) {
    case VG_PARAM: return 0;
    case VG_SHARED:
      return admit_window(w, a->site, r, w->block->shared, 0, w->block->shared_bytes);
    case VG_LOCAL: return admit_window(w, a->site, r, w->local, w->local_stride, w->local_stride);
    default: return admit_global(w, a->site, r);
  }
}

int vg_admit_span(VgWarp *w, uint32_t site, uint32_t lanes, uint64_t first, uint64_t bytes, int is_store) {
  if (reachable(w->worker, site, first, bytes, is_store)) return 0;
  const VgAllocation *row = vg_find(w->worker->launch, first);
  int near_null = !row && (first < NULL_REACH || first > UINT64_MAX - NULL_REACH);
  uint32_t kind = near_null ? VG_FAULT_NULL_POINTER
                  : row && vg_inside(row, first, bytes) ? VG_FAULT_ILLEGAL_ACCESS : VG_FAULT_OUT_OF_BOUNDS;
  if (vg_fault(w, kind, site, lanes)) {
    VgFault *f = &w->worker->fault;
    f->space = VG_GLOBAL, f->is_store = (uint32_t)is_store, f->bytes = (uint32_t)bytes, f->address = first;
  }
  return 1;
}

/* ------------------------------------------------------------------------- generic addresses */

/* Which active lanes point into the block's shared memory, and which into their local memory. */
static void windows(const VgWarp *w, const VgAccess *a, const uint64_t *address, uint32_t mask,
                    uint32_t *shared, uint32_t *local) {
  uint64_t block = (uint64_t)(uintptr_t)w->block->shared, lane = (uint64_t)(uintptr_t)w->local;
  uint32_t in_shared = 0, in_local = 0;
  for (uint32_t l = 0; l < VG_LANES; l++) {
    uint64_t at = address[l] + (uint64_t)a->offset;
    in_shared |= (uint32_t)(at - block < w->block->shared_bytes) << l;
    in_local |= (uint32_t)(at - lane < VG_LANES * w->local_stride) << l;
  }
  *shared = in_shared & mask, *local = in_local & mask;
}

void vg_split(const VgWarp *w, const VgAccess *a, uint32_t mask, const uint64_t *address,
              VgParts *parts) {
  static const uint8_t space[3] = {VG_GLOBAL, VG_SHARED, VG_LOCAL};
  uint64_t base[3] = {0, (uint64_t)(uintptr_t)w->block->shared, (uint64_t)(uintptr_t)w->local};
  windows(w, a, address, mask, &parts->lanes[1], &parts->lanes[2]);
  parts->lanes[0] = mask & ~parts->lanes[1] & ~parts->lanes[2];
  for (int i = 0; i < 3; i++) {
    if (!parts->lanes[i]) continue;
    uint64_t stride = i == 2 ? w->local_stride : 0;
    parts->access[i] = *a, parts->access[i].space = space[i];
    for (uint32_t l = 0; l < VG_LANES; l++) parts->address[i][l] = address[l] - base[i] - l * stride;
  }
}

/* ------------------------------------------------------------------------------- the data */

typedef struct Wide { uint64_t low, high; } Wide;

#define FULL_OR_EACH(mask, l, body)                                                                \
  do {                                                                                             \
    if ((mask) == VG_FULL) { for (uint32_t l = 0; l < VG_LANES; l++) body }                        \
    else VG_EACH(l, mask) body                                                                     \
  } while (0)

#define GATHER(R, M)                                                                               \
  do {                                                                                             \
    R *d = to;                                                                                     \
    FULL_OR_EACH(mask, l, { d[l] = (R)*(const M *)(uintptr_t)(at[l] + skip); });                   \
  } while (0)

#define SCATTER(M, R)                                                                              \
  do {                                                                                             \
    const R *s = from;                                                                             \
    FULL_OR_EACH(mask, l, { *(M *)(uintptr_t)(at[l] + skip) = (M)s[l]; });                         \
  } while (0)

#define SHAPE(bytes, reg_bytes, is_signed) ((bytes) << 8 | (reg_bytes) << 1 | (is_signed))

/* Element at + skip of every active lane into the register `to`. */
static void gather(const VgAccess *a, uint32_t mask, const uint64_t *at, uint64_t skip, void *to) {
  switch (SHAPE(a->bytes, a->reg_bytes, !!a->is_signed)) {
    case SHAPE(1, 2, 0): GATHER(uint16_t, uint8_t); break;
    case SHAPE(1, 4, 0): GATHER(uint32_t, uint8_t); break;
    case SHAPE(1, 8, 0): GATHER(uint64_t, uint8_t); break;
    case SHAPE(1, 2, 1): GATHER(uint16_t, int8_t); break;
    case SHAPE(1, 4, 1): GATHER(uint32_t, int8_t); break;
    case SHAPE(1, 8, 1): GATHER(uint64_t, int8_t); break;
    case SHAPE(2, 2, 0): case SHAPE(2, 2, 1): GATHER(uint16_t, uint16_t); break;
    case SHAPE(2, 4, 0): GATHER(uint32_t, uint16_t); break;
    case SHAPE(2, 8, 0): GATHER(uint64_t, uint16_t); break;
    case SHAPE(2, 4, 1): GATHER(uint32_t, int16_t); break;
    case SHAPE(2, 8, 1): GATHER(uint64_t, int16_t); break;
    case SHAPE(4, 4, 0): case SHAPE(4, 4, 1): GATHER(uint32_t, uint32_t); break;
    case SHAPE(4, 8, 0): GATHER(uint64_t, uint32_t); break;
    case SHAPE(4, 8, 1): GATHER(uint64_t, int32_t); break;
    case SHAPE(8, 8, 0): case SHAPE(8, 8, 1): GATHER(uint64_t, uint64_t); break;
    default: FULL_OR_EACH(mask, l, { memcpy((char *)to + 16 * l, (void *)(uintptr_t)(at[l] + skip), 16); });
  }
}

static void scatter(const VgAccess *a, uint32_t mask, const uint64_t *at, uint64_t skip,
                    const void *from) {
  switch (SHAPE(a->bytes, a->reg_bytes, 0)) {
    case SHAPE(1, 2, 0): SCATTER(uint8_t, uint16_t); break;
    case SHAPE(1, 4, 0): SCATTER(uint8_t, uint32_t); break;
    case SHAPE(1, 8, 0): SCATTER(uint8_t, uint64_t); break;
    case SHAPE(2, 2, 0): SCATTER(uint16_t, uint16_t); break;
    case SHAPE(2, 4, 0): SCATTER(uint16_t, uint32_t); break;
    case SHAPE(2, 8, 0): SCATTER(uint16_t, uint64_t); break;
    case SHAPE(4, 4, 0): SCATTER(uint32_t, uint32_t); break;
    case SHAPE(4, 8, 0): SCATTER(uint32_t, uint64_t); break;
    case SHAPE(8, 8, 0): SCATTER(uint64_t, uint64_t); break;
    default: FULL_OR_EACH(mask, l, { memcpy((void *)(uintptr_t)(at[l] + skip), (const char *)from + 16 * l, 16); });
  }
}

/* ------------------------------------------------------------------------- the short path */

static inline int contiguous(const uint64_t *address, uint64_t width) {
  if (address[VG_LANES - 1] - address[0] != (VG_LANES - 1) * width) return 0;
  uint64_t want = address[0], wrong = 0;
  for (uint32_t l = 0; l < VG_LANES; l++, want += width) wrong |= address[l] ^ want;
  return !wrong;
}

/* The host address of a whole warp's contiguous, admitted span; 0 to take the long way. */
static inline int alike(const uint64_t *address) {
  if (address[VG_LANES - 1] != address[0]) return 0;
  uint64_t wrong = 0;
  for (uint32_t l = 0; l < VG_LANES; l++) wrong |= address[l] ^ address[0];
  return !wrong;
}

/* The host address of `bytes` admitted bytes at `first`, aligned to `width`; 0 for the long way. */
static inline uint64_t at_once(VgWarp *w, const VgAccess *a, uint64_t first, uint64_t bytes,
                               uint64_t width) {
  first += (uint64_t)a->offset;
  if (first & (width - 1)) return 0;
  if (a->space == VG_SHARED) {
    uint64_t room = w->block->shared_bytes;
    return room < bytes || first > room - bytes ? 0 : (uint64_t)(uintptr_t)w->block->shared + first;
  }
  if (a->space == VG_LOCAL || a->space == VG_PARAM) return 0;
  return vg_inside(vg_row(w->worker, a->site), first, bytes) ? first : 0;
}

/* A whole warp's contiguous span. */
static inline uint64_t span(VgWarp *w, const VgAccess *a, uint32_t mask, const uint64_t *address,
                            uint64_t width) {
  if (mask != VG_FULL || !contiguous(address, width)) return 0;
  return at_once(w, a, address[0], VG_LANES * width, width);
}

/* One address for a whole warp. */
static inline uint64_t broadcast(VgWarp *w, const VgAccess *a, uint32_t mask,
                                 const uint64_t *address, uint64_t width) {
  if (mask != VG_FULL || a->bytes != 4 || a->reg_bytes != 4) return 0;
  if (!alike(address)) return 0;
  return at_once(w, a, address[0], width, width);
}

static inline void count_span(VgWarp *w, const VgAccess *a, uint64_t first, uint64_t width,
                              int is_store) {
  if (!w->worker->launch->counting) return;
  if (a->space != VG_SHARED) {
    vg_count_span(w, a->site, vg_row(w->worker, a->site), first, VG_LANES * width, VG_LANES,
                  is_store);
    return;
  }
  VgSite *row = &w->worker->sites[a->site];
  uint64_t passes = width <= 4 ? 1 : width / 4;
  row->requests++, row->threads += VG_LANES, row->bytes += VG_LANES * width;
  row->wavefronts += passes, row->wavefronts_ideal += passes;
}

/* Vectors of 4-byte elements: the compiler shuffles what it knows the count of. */
#define UNZIP(N)                                                                                   \
  for (int i = 0; i < N; i++)                                                                      \
    if (to[i]) for (uint32_t l = 0; l < VG_LANES; l++) ((uint32_t *)to[i])[l] = from[N * l + i]

#define ZIP(N)                                                                                     \
  for (uint32_t l = 0; l < VG_LANES; l++)                                                          \
    for (int i = 0; i < N; i++) to[N * l + i] = ((const uint32_t *)from[i])[l]

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLES 1
#endif
#endif

#ifdef SHUFFLES
typedef uint32_t Four __attribute__((vector_size(16), aligned(4), may_alias));

/* Four rows of four become four columns. */
static inline void transpose(const Four in[4], Four out[4]) {
  Four a = __builtin_shufflevector(in[0], in[1], 0, 4, 1, 5);
  Four b = __builtin_shufflevector(in[2], in[3], 0, 4, 1, 5);
  Four c = __builtin_shufflevector(in[0], in[1], 2, 6, 3, 7);
  Four d = __builtin_shufflevector(in[2], in[3], 2, 6, 3, 7);
  out[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
  out[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
  out[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
  out[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

static void unzip4(const uint32_t *from, void *const *to) {
  uint32_t nowhere[VG_LANES], *column[4];
  for (int i = 0; i < 4; i++) column[i] = to[i] ? to[i] : nowhere;
  for (uint32_t l = 0; l < VG_LANES; l += 4) {
    Four out[4];
    transpose((const Four *)(from + 4 * l), out);
    for (int i = 0; i < 4; i++) *(Four *)(column[i] + l) = out[i];
  }
}

static void zip4(uint32_t *to, const void *const *from) {
  for (uint32_t l = 0; l < VG_LANES; l += 4) {
    Four in[4];
    for (int i = 0; i < 4; i++) in[i] = *(const Four *)((const uint32_t *)from[i] + l);
    transpose(in, (Four *)(to + 4 * l));
  }
}
#else
static void unzip4(const uint32_t *from, void *const *to) { UNZIP(4); }
static void zip4(uint32_t *to, const void *const *from) { ZIP(4); }
#endif

static int load_span(const VgAccess *a, const uint32_t *from, void *const *to) {
  if (a->count == 1 && a->bytes == a->reg_bytes) {
    if (!to[0]) return 1;
    if (a->bytes == 4) memcpy(to[0], from, 4 * VG_LANES);
    else memcpy(to[0], from, (size_t)a->bytes * VG_LANES);
    return 1;
  }
  if (a->bytes != 4 || a->reg_bytes != 4) return 0;
  if (a->count == 2) { UNZIP(2); return 1; }
  if (a->count == 4) { unzip4(from, to); return 1; }
  return 0;
}

static void splat(uint32_t value, uint32_t *to) {
  for (uint32_t l = 0; to && l < VG_LANES; l++) to[l] = value;
}

static int store_span(const VgAccess *a, uint32_t *to, const void *const *from) {
  if (a->count == 1 && a->bytes == a->reg_bytes) {
    if (a->bytes == 4) memcpy(to, from[0], 4 * VG_LANES);
    else memcpy(to, from[0], (size_t)a->bytes * VG_LANES);
    return 1;
  }
  if (a->bytes != 4 || a->reg_bytes != 4) return 0;
  if (a->count == 2) { ZIP(2); return 1; }
  if (a->count == 4) { zip4(to, from); return 1; }
  return 0;
}

/* ------------------------------------------------------------------------- loads and stores */

static VgReach reach_of(const VgAccess *a, uint32_t mask, int is_store) {
  VgReach r;
  r.mask = mask, r.width = (uint32_t)a->bytes * a->count, r.space = a->space;
  r.is_store = (uint8_t)is_store;
  return r;
}

static int load_part(VgWarp *w, const VgAccess *a, uint32_t mask, const uint64_t *address,
                     void *const *destination) {
  VgReach r = reach_of(a, mask, 0);
  if (vg_admit(w, a, address, &r)) return 1;
  if (w->worker->launch->counting) vg_count(w, a->site, &r);
  if (vg_checking(w)) vg_check_access(w, a->site, &r, VG_DID_READ, a->flags, NULL, NULL);
  for (uint32_t i = 0; i < a->count; i++)
    if (destination[i]) gather(a, mask, r.at, (uint64_t)i * a->bytes, destination[i]);
  return 0;
}

static int store_part(VgWarp *w, const VgAccess *a, uint32_t mask, const uint64_t *address,
                      void *const *source) {
  VgReach r = reach_of(a, mask, 1);
  if (vg_admit(w, a, address, &r)) return 1;
  if (w->worker->launch->counting) vg_count(w, a->site, &r);
  if (vg_checking(w)) vg_check_access(w, a->site, &r, VG_DID_WRITE, a->flags, a, (const void *const *)source);
  for (uint32_t i = 0; i < a->count; i++)
    scatter(a, mask, r.at, (uint64_t)i * a->bytes, source[i]);
  return 0;
}

typedef int (*Part)(VgWarp *w, const VgAccess *a, uint32_t mask, const uint64_t *address,
                    void *const *registers);

static int in_parts(VgWarp *w, const VgAccess *a, uint32_t mask, const uint64_t *address,
                    void *const *registers, Part part) {
  VgParts parts;
  if (a->space != VG_GENERIC) return part(w, a, mask, address, registers);
  vg_split(w, a, mask, address, &parts);
  for (int i = 0; i < 3; i++)
    if (parts.lanes[i] && part(w, &parts.access[i], parts.lanes[i], parts.address[i], registers))
      return 1;
  return 0;
}

/* ---------------------------------------------------------------------- repeated patterns */

/* Without a table, a generic address may be anything: the windows must be looked at first. */
static inline int repeats(const VgWarp *w, const VgAccess *a, uint32_t mask) {
  return mask == VG_FULL && a->space != VG_LOCAL && a->space != VG_PARAM &&
         (a->space != VG_GENERIC || w->worker->launch->table) && (a->bytes != 16 || a->count == 1);
}

/* The sanitizer looks at a whole warp's admitted access, lane 0 at `base`. */
static void check_repeated(VgWarp *w, const VgAccess *a, const VgPattern *p, uint64_t base,
                           const void *const *source) {
  VgReach r = reach_of(a, VG_FULL, source != NULL);
  for (uint32_t l = 0; l < VG_LANES; l++) r.at[l] = base + p->delta[l];
  if (r.space == VG_GENERIC) r.space = VG_GLOBAL;
  vg_check_access(w, a->site, &r, source ? VG_DID_WRITE : VG_DID_READ, a->flags, a, source);
}

/* Count a whole warp's admitted access, lane 0 at `base`. */
static inline void account(VgWarp *w, const VgAccess *a, VgPattern *p, uint64_t base, uint64_t width,
                           int is_store) {
  if (!w->worker->launch->counting) return;
  if (p->stride == width) {
    count_span(w, a, base, width, is_store);
    return;
  }
  if (p->stride == 0 && !is_store) {
    vg_count_broadcast(w, a->site, a->space, base, (uint32_t)width);
    return;
  }
  VgReach r = reach_of(a, VG_FULL, is_store);
  if (r.space != VG_SHARED || !p->counted)
    for (uint32_t l = 0; l < VG_LANES; l++) r.at[l] = base + p->delta[l];
  if (r.space == VG_GENERIC) r.space = VG_GLOBAL;   /* shared memory is in no row of the table */
  vg_count_pattern(w, a->site, &r, p, base);
}

static int load_repeated(VgWarp *w, const VgAccess *a, const uint64_t *address, void *const *to) {
  VgPattern *p = vg_pattern(w, a->site, address);
  uint64_t width = (uint64_t)a->bytes * a->count;
  uint64_t base = p ? vg_admitted(w, a, p, vg_row(w->worker, a->site), address[0], width, 0) : 0;
  if (!base || (p->stride == 0 && (a->bytes != 4 || a->reg_bytes != 4))) return 0;
  if (p->stride == width && !load_span(a, (const uint32_t *)(uintptr_t)base, to)) return 0;
  if (vg_checking(w)) check_repeated(w, a, p, base, NULL);
  account(w, a, p, base, width, 0);
  if (p->stride == width) return 1;
  if (p->stride && a->bytes == 4 && a->reg_bytes == 4 && vg_load_window(p, base, a->count, to)) return 1;
  for (uint32_t i = 0; i < a->count; i++) {
    if (!to[i]) continue;
    if (p->stride == 0) splat(((const uint32_t *)(uintptr_t)base)[i], to[i]);
    else gather(a, VG_FULL, p->delta, base + i * a->bytes, to[i]);
  }
  return 1;
}

static int store_repeated(VgWarp *w, const VgAccess *a, const uint64_t *address, const void *const *from) {
  VgPattern *p = vg_pattern(w, a->site, address);
  uint64_t width = (uint64_t)a->bytes * a->count;
  uint64_t base = p ? vg_admitted(w, a, p, vg_row(w->worker, a->site), address[0], width, 1) : 0;
  if (!base) return 0;
  if (vg_checking(w)) check_repeated(w, a, p, base, from);
  if (p->stride == width && !store_span(a, (uint32_t *)(uintptr_t)base, from)) return 0;
  account(w, a, p, base, width, 1);
  if (p->stride == width) return 1;
  for (uint32_t i = 0; i < a->count; i++) scatter(a, VG_FULL, p->delta, base + i * a->bytes, from[i]);
  return 1;
}

int vg_load(VgWarp *w, const VgAccess *a, uint32_t mask, const uint64_t *address,
            void *const *destination) {
  if (repeats(w, a, mask) && load_repeated(w, a, address, destination)) return 0;
  if (vg_checking(w)) return in_parts(w, a, mask, address, destination, load_part);
  uint64_t width = (uint64_t)a->bytes * a->count, first = span(w, a, mask, address, width);
  if (first && load_span(a, (const uint32_t *)(uintptr_t)first, destination)) {
    count_span(w, a, first, width, 0);
    return 0;
  }
  uint64_t one = broadcast(w, a, mask, address, width);
  if (!one) return in_parts(w, a, mask, address, destination, load_part);
  if (w->worker->launch->counting) vg_count_broadcast(w, a->site, a->space, one, (uint32_t)width);
  for (uint32_t i = 0; i < a->count; i++) splat(((const uint32_t *)(uintptr_t)one)[i], destination[i]);
  return 0;
}

int vg_store(VgWarp *w, const VgAccess *a, uint32_t mask, const uint64_t *address,
             const void *const *source) {
  if (repeats(w, a, mask) && store_repeated(w, a, address, source)) return 0;
  if (vg_checking(w)) return in_parts(w, a, mask, address, (void *const *)source, store_part);
  uint64_t width = (uint64_t)a->bytes * a->count, first = span(w, a, mask, address, width);
  if (!first || !store_span(a, (uint32_t *)(uintptr_t)first, source))
    return in_parts(w, a, mask, address, (void *const *)source, store_part);
  count_span(w, a, first, width, 1);
  return 0;
}
