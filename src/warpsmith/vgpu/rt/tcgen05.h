/* Tensor memory of a block (sm_100): 128 lanes of 512 columns of 32 bits, allocated by columns.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An address has the lane in bits 16-31 and the column in bits 0-15 (PTX ISA, tcgen05). Rows of a
 * product larger or smaller than 128 lie in lanes as lane_of in tcgen05_mma.c says. All instructions take
 * effect when they are issued. */
#ifndef VG_TCGEN05_H
#define VG_TCGEN05_H

#include "mma.h"

enum { VG_TENSOR_COMMITS = 32, VG_TENSOR_LANES = 128, VG_TENSOR_COLUMNS = 512, VG_TENSOR_LINE = VG_TENSOR_COLUMNS + 16 };

typedef struct VgPending { const VgBlock *by; uint32_t number; } VgPending; /* who touches a column */
typedef struct VgCommit { uint64_t barrier; uint32_t number; } VgCommit;

typedef struct VgTensor {
  uint32_t cell[VG_TENSOR_LANES][VG_TENSOR_LINE]; /* lines are not a power of two, for the caches */
  uint16_t owner[VG_TENSOR_COLUMNS];              /* first column of its allocation + 1, 0: free */
  uint32_t site;                                  /* of the last allocation */
  uint32_t relinquished;
  uint32_t refused;                               /* attempts since the last change */
  uint32_t issued, ended, commits;                /* asynchronous instructions of this block */
  VgPending written[2][VG_TENSOR_COLUMNS], read[2][VG_TENSOR_COLUMNS]; /* by half: lane / 16 % 2 */
  VgCommit commit[VG_TENSOR_COMMITS];
} VgTensor;

/* Record a fault (VgFaultKind) with a sentence; 1. */
int vg_tmem_fault(VgWarp *w, uint32_t kind, uint32_t site, uint32_t lanes, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Check `columns` columns from `column` on in a block's tensor memory; NULL after a fault. */
VgTensor *vg_tmem_reach(VgWarp *w, uint32_t site, uint32_t lanes, const VgBlock *b,
                          uint32_t column, uint32_t columns);
/* Both blocks of a pair (cta_group::2), or this block; 0 after a fault. */
uint32_t vg_tmem_pair(VgWarp *w, uint32_t site, uint32_t pair, VgBlock *blocks[2]);

/* tcgen05_order.c. A matrix of 64 rows lies in half of the lanes, 16 of every 32, and another one may
 * lie in the other half: `halves` has a bit for each. */
enum { VG_TMEM_LOWER = 1, VG_TMEM_UPPER = 2, VG_TMEM_BOTH = 3 };
/* The half of 16-lane rows that begin at a lane. */
static inline uint32_t vg_tmem_half(uint32_t lane) { return lane % 32 < 16 ? VG_TMEM_LOWER : VG_TMEM_UPPER; }
/* The number of an instruction that a block issues. */
uint32_t vg_tmem_issue(VgBlock *issuer);
/* The last one issued writes or reads columns. */
void vg_tmem_touch(VgTensor *t, const VgBlock *issuer, uint32_t halves, uint32_t column,
                   uint32_t columns, int writes);
void vg_tmem_committed(const VgBlock *issuer, uint64_t barrier);
/* Nonzero after a fault: an instruction may still write these columns (or read them, for a writer). */
int vg_tmem_settled(VgWarp *w, uint32_t site, uint32_t mask, const VgTensor *t, uint32_t halves,
                    uint32_t column, uint32_t columns, int writes);
void vg_tmem_forget(VgTensor *t);

#endif
