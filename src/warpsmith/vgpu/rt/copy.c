/* Copies that the hardware does on the side: cp.async and its groups, matrix rows.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A cp.async reads its source when it is issued and writes shared memory when it is waited for, the
 * latest moment the machine allows: a kernel that forgets the wait reads old data here.
 */
#include <stdlib.h>

#include "check.h"

typedef struct Copy {
  uint32_t mask;                 /* lanes that have not waited yet */
  uint32_t width;
  uint32_t site;
  uint32_t group[VG_LANES];      /* the lane's group, counted from 0 */
  uint64_t to[VG_LANES];         /* host addresses in shared memory */
  char data[VG_LANES][16];
} Copy;

typedef struct Pending {
  uint32_t committed[VG_LANES];  /* groups that each lane has closed */
  uint32_t count, room;
  Copy *copies;
} Pending;

static Copy *append(VgWarp *w) {
  Pending *p = w->async;
  if (!p) w->async = p = calloc(1, sizeof *p);
  if (!p) return NULL;
  if (p->count == p->room) {
    uint32_t room = p->room ? 2 * p->room : 16;
    Copy *more = realloc(p->copies, room * sizeof *more);
    if (!more) return NULL;
    p->copies = more, p->room = room;
  }
  return &p->copies[p->count++];
}

/* Lanes that read their source at all. */
static uint32_t readers(uint32_t mask, const uint32_t *source_bytes, const uint32_t *ignore) {
  VG_EACH(l, mask)
    if ((source_bytes && !source_bytes[l]) || (ignore && ignore[l])) mask &= ~(1u << l);
  return mask;
}

static void count_copy(VgWarp *w, uint32_t site, const VgReach *from, const VgReach *to) {
  VgSite *row = &w->worker->sites[site];
  uint64_t threads = row->threads; /* the handler counts them */
  if (from->mask) vg_count(w, site, from);
  else row->requests++;
  row->threads = threads;
  vg_count_shared(row, to, to->width <= 4 ? 32 : 128 / to->width);
}

int vg_async_copy(VgWarp *w, const VgAccess *a, uint32_t mask, const uint64_t *shared,
                  const uint64_t *global, const uint32_t *source_bytes,
                  const uint32_t *ignore_source) {
  uint32_t width = (uint32_t)a->bytes * a->count;
  VgAccess window = {.site = a->site, .space = VG_SHARED};
  VgReach to = {.mask = mask, .width = width, .space = VG_SHARED, .is_store = 1};
  VgReach from = {.mask = readers(mask, source_bytes, ignore_source), .width = width, .space = VG_GLOBAL};
  if (vg_admit(w, &window, shared, &to)) return 1;
  if (from.mask && vg_admit(w, a, global, &from)) return 1;
  if (w->worker->launch->counting) count_copy(w, a->site, &from, &to);
  Copy *copy = append(w);
  if (!copy) return vg_fault(w, VG_FAULT_ILLEGAL_ACCESS, a->site, mask), 1;
  copy->mask = mask, copy->width = width, copy->site = a->site;
  if (vg_checking(w)) {
    if (from.mask) vg_check_access(w, a->site, &from, VG_DID_READ, 0, NULL, NULL);
    vg_check_copy(w, a->site, &to);
  }
  memcpy(copy->group, ((Pending *)w->async)->committed, sizeof copy->group);
  memcpy(copy->to, to.at, sizeof copy->to);
  VG_EACH(l, mask) {
    uint32_t bytes = !(from.mask >> l & 1) ? 0 : source_bytes ? source_bytes[l] : width;
    if (bytes > width) bytes = width;
    memcpy(copy->data[l], (const void *)(uintptr_t)from.at[l], bytes);
    memset(copy->data[l] + bytes, 0, 16 - bytes);
  }
  return 0;
}

void vg_async_commit(VgWarp *w, uint32_t mask) {
  Pending *p = w->async;
  if (!p) w->async = p = calloc(1, sizeof *p);
  if (p) VG_EACH(l, mask) p->committed[l]++;
}

/* Write the lanes' copies of groups below last[l]; forget copies that all lanes have. */
static void land(VgWarp *w, Pending *p, uint32_t mask, const uint32_t *last) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < p->count; i++) {
    Copy *copy = &p->copies[i];
    VG_EACH(l, copy->mask & mask) {
      if (copy->group[l] >= last[l]) continue;
      memcpy((void *)(uintptr_t)copy->to[l], copy->data[l], copy->width);
      if (vg_checking(w)) vg_check_landed(w, copy->site, l, copy->to[l], copy->width);
      copy->mask &= ~(1u << l);
    }
    if (!copy->mask) continue;
    if (left != i) p->copies[left] = *copy;
    left++;
  }
  p->count = left;
}

void vg_async_wait_group(VgWarp *w, uint32_t mask, uint32_t pending) {
  Pending *p = w->async;
  if (!p) return;
  uint32_t last[VG_LANES];
  VG_EACH(l, mask) last[l] = p->committed[l] > pending ? p->committed[l] - pending : 0;
  land(w, p, mask, last);
}

void vg_async_wait_all(VgWarp *w, uint32_t mask) {
  uint32_t last[VG_LANES];
  VG_EACH(l, mask) last[l] = UINT32_MAX;
  if (w->async) land(w, w->async, mask, last);
}

void vg_async_reset(VgWarp *w) {
  Pending *p = w->async;
  if (p) free(p->copies);
  free(p);
  w->async = NULL;
}

int vg_shared_rows(VgWarp *w, uint32_t site, uint32_t lanes, const uint64_t *offset, uint32_t bytes,
                   int is_store) {
  VgAccess a = {.site = site, .space = VG_SHARED};
  VgReach r = {.mask = lanes, .width = bytes, .space = VG_SHARED, .is_store = (uint8_t)is_store};
  if (vg_admit(w, &a, offset, &r)) return 1;
  if (vg_checking(w) && !is_store) vg_check_access(w, site, &r, VG_DID_READ, 0, NULL, NULL);
  if (!w->worker->launch->counting) return 0;
  VgSite *row = &w->worker->sites[site];
  row->requests++, row->bytes += (uint64_t)__builtin_popcount(lanes) * bytes;
  vg_count_shared(row, &r, 8);
  return 0;
}
