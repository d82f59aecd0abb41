/* What the memory files share: a checked access of one warp, and how it is counted.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VGPU_REACH_H
#define VGPU_REACH_H

#include "vgpu.h"

/* A checked access: what it touches, lane by lane. */
typedef struct VgReach {
  _Alignas(64) uint64_t at[VG_LANES];    /* host addresses, valid where the mask is set */
  uint32_t mask;
  uint32_t width;           /* bytes of one lane: bytes * count, a power of two */
  uint8_t space;            /* VG_GENERIC is resolved */
  uint8_t is_store;
} VgReach;

#define VG_EACH(l, mask)                                                                           \
  for (uint32_t m_ = (mask), l; m_ && (l = (uint32_t)__builtin_ctz(m_), 1); m_ &= m_ - 1)

/* Resolve and check lane addresses. Nonzero after a fault. `r` needs mask, width, space, is_store. */
int vg_admit(VgWarp *w, const VgAccess *a, const uint64_t *address, VgReach *r);

/* A generic access as up to three accesses of one space each: global, shared, local. */
typedef struct VgParts {
  uint32_t lanes[3];
  VgAccess access[3];
  uint64_t address[3][VG_LANES];
} VgParts;
void vg_split(const VgWarp *w, const VgAccess *a, uint32_t mask, const uint64_t *address,
              VgParts *parts);

/* The row of the table that holds `address`, or NULL. */
const VgAllocation *vg_find(const VgLaunch *launch, uint64_t address);

/* The row that `site` met last; an empty row before that. */
const VgAllocation *vg_row(VgWorker *worker, uint32_t site);

/* Counting; called only when the launch counts. Shared reaches count by their offsets in the window. */
void vg_count(VgWarp *w, uint32_t site, const VgReach *r);
void vg_count_span(VgWarp *w, uint32_t site, const VgAllocation *row, uint64_t first, uint64_t bytes,
                   uint32_t lanes, int is_store);
void vg_count_broadcast(VgWarp *w, uint32_t site, uint8_t space, uint64_t address, uint32_t width);
void vg_count_atomic(VgWarp *w, uint32_t site, const VgReach *r);
void vg_count_shared(VgSite *row, const VgReach *r, uint32_t lanes_per_pass);

#endif
