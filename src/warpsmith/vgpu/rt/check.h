/* The sanitizer's hooks: what the runtime tells it when a launch runs with checks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every hook is for launches with checks only: call it behind `if (vg_checking(w))`. A hook may end
 * the launch (w->worker->stop is then set): look at it before going on. Addresses are host pointers.
 *
 * For copy engines (cp.async.bulk, tensor copies, multicast, red.async, st.async): the machine moves
 * data when the instruction is issued, but what it wrote belongs to nobody until it is awaited. Say
 * so by vg_check_bulk for each contiguous piece, before the data moves:
 *   - reads and writes of global and of shared memory alike, one call each;
 *   - `barrier`: host address of the mbarrier that the piece completes on (for multicast: the one in
 *     the destination's block); 0: it completes on the bulk groups of the issuing thread.
 * Whoever sees that mbarrier's phase end (vg_check_wait, called by test_wait and try_wait) or waits
 * for the group (vg_check_bulk_wait) may touch the piece; others are reported.
 */
#ifndef VGPU_CHECK_H
#define VGPU_CHECK_H

#include "reach.h"

static inline int vg_checking(const VgWarp *w) { return w->worker->check != NULL; }

/* ------------------------------------------------------------------------------ memory */

/* Bits of VgAccess.flags: how a load, store or atomic orders memory. VG_ALONE: it orders nothing. */
enum { VG_STRONG = 1, VG_ACQUIRE = 2, VG_RELEASE = 4, VG_ALONE = 8 };

/* An admitted access, before data moves. deed: VG_DID_READ, VG_DID_WRITE, VG_DID_ATOMIC; order: the
 * flags above; a and source: of a store whose values may be compared, else NULL. */
void vg_check_access(VgWarp *w, uint32_t site, const VgReach *r, uint32_t deed, uint32_t order,
                     const VgAccess *a, const void *const *source);
/* One piece of a copy engine; see above. deed: VG_DID_READ, VG_DID_COPY (a write), VG_DID_ATOMIC. */
void vg_check_bulk(VgWarp *w, uint32_t site, uint32_t lane, uint64_t at, uint64_t bytes,
                   uint32_t deed, uint64_t barrier);
/* cp.async.bulk.commit_group and wait_group of these lanes; pending as in wait_group. */
void vg_check_bulk_commit(VgWarp *w, uint32_t lanes);
void vg_check_bulk_wait(VgWarp *w, uint32_t lanes, uint32_t pending);
/* cp.async: the copy into `to` is issued; a lane's piece has landed. */
void vg_check_copy(VgWarp *w, uint32_t site, const VgReach *to);
void vg_check_landed(VgWarp *w, uint32_t site, uint32_t lane, uint64_t at, uint32_t bytes);
/* wgmma reads an operand: until wgmma.wait_group has seen its group end, nobody may write there. */
void vg_check_product(VgWarp *w, uint32_t site, uint64_t at, uint32_t bytes);
/* The matrix unit of tcgen05.mma reads 16 or so bytes of an operand for this lane. */
void vg_check_operand(VgWarp *w, uint32_t site, uint32_t lane, uint64_t at, uint32_t bytes);

/* ------------------------------------------------------------------------------- order */

/* Lanes release to, or acquire from, what is at this address: mbarrier arrive and a successful wait. */
void vg_check_arrive(VgWarp *w, uint32_t lanes, uint64_t at);
void vg_check_wait(VgWarp *w, uint32_t lanes, uint64_t at);
void vg_check_fence(VgWarp *w, uint32_t lanes);
void vg_check_proxy_fence(VgWarp *w);
/* bar.warp.sync of these lanes (members: of each lane), and other collectives of a warp. */
void vg_check_warp_sync(VgWarp *w, uint32_t lanes, const uint32_t *members);
/* The running group arrives at a barrier of the block, waiting or not; the barrier opens. */
void vg_check_bar_arrive(const VgOp *o, VgWarp *w, uint32_t id, uint32_t expected, int waits);
void vg_check_bar_open(VgBlock *b, uint32_t id);
void vg_check_cluster_arrive(VgWarp *w, uint32_t lanes);
void vg_check_cluster_wait(VgWarp *w, uint32_t lanes);

/* ---------------------------------------------------------------- blocks, calls, the heap */

int vg_check_open(VgWorker *k);                   /* nonzero: not enough memory */
void vg_check_close(VgWorker *k);
void vg_check_start(VgBlock *b);                  /* a block starts in its slot */
void vg_check_end(VgWorker *k);                   /* all blocks have ended: leaks */
void vg_check_frame(VgWarp *w, uint32_t lanes, uint64_t begin, uint64_t bytes);
void vg_check_malloc(VgWarp *w, uint32_t site, uint32_t lane, char *at, uint64_t bytes);
void vg_check_free(VgWarp *w, uint32_t site, uint32_t lane, char *at);

#endif
