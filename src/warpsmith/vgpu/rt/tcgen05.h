/* Tensor memory of a block (sm_100): 128 lanes of 512 columns of 32 bits, allocated by columns.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An address has the lane in bits 16-31 and the column in bits 0-15 (PTX ISA, tcgen05). Rows of a
 * product larger or smaller than 128 lie in lanes as lane_of in tcgen05_mma.c says. All instructions take
 * effect when they are issued. */
#ifndef VG_TCGEN05_H
#define VG_TCGEN05_H

#include "mma.h"

enum { VG_TENSOR_LANES = 128, VG_TENSOR_COLUMNS = 512, VG_TENSOR_LINE = VG_TENSOR_COLUMNS + 16 };

typedef struct VgTensor {
  uint32_t cell[VG_TENSOR_LANES][VG_TENSOR_LINE]; /* lines are not a power of two, for the caches */
  uint16_t owner[VG_TENSOR_COLUMNS];              /* first column of its allocation + 1, 0: free */
  uint32_t site;                                  /* of the last allocation */
  uint32_t relinquished;
  uint32_t refused;                               /* attempts since the last change */
} VgTensor;

/* Record a fault with a sentence; 1. */
int vg_tmem_fault(VgWarp *w, uint32_t site, uint32_t lanes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Check `columns` columns from `column` on in a block's tensor memory; NULL after a fault. */
VgTensor *vg_tmem_reach(VgWarp *w, uint32_t site, uint32_t lanes, const VgBlock *b,
                          uint32_t column, uint32_t columns);
/* Both blocks of a pair (cta_group::2), or this block; 0 after a fault. */
uint32_t vg_tmem_pair(VgWarp *w, uint32_t site, uint32_t pair, VgBlock *blocks[2]);

#endif
