/* What the scheduler's two files share: sched.c moves groups of lanes, blocks.c blocks and warps.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VGPU_SCHED_H
#define VGPU_SCHED_H

#include "vgpu.h"

enum {
  VG_QUANTUM = 16,    /* rounds of a waiting loop: measured on spin locks, 1024 is 100 times slower */
  VG_BREATH = 16384   /* back edges between looks at the budgets */
};

double vg_seconds(void);
uint64_t vg_random(VgWorker *worker);
/* threadIdx of a lane. */
void vg_thread_index(const VgWarp *w, uint32_t lane, uint32_t out[3]);
/* Park the running group at `o`; it stays the running one until another is picked. */
void vg_store_group(VgWarp *w, const VgOp *o, uint32_t state, uint32_t barrier);

#endif
