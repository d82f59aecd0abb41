/* Bulk copies and tensor maps: what the copy engine is asked to do, and how it finds the rows.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_BULK_H
#define VG_BULK_H

#include "check.h"

/* A tensor map (CUtensorMap). The hardware's 128 bytes are not public; these are ours, written by
 * vgpu/tensormap.py and by tensormap.replace, which make the same bytes. Dimension 0 is innermost. */
typedef struct VgTensorMap {
  uint64_t address;
  uint64_t stride[4];   /* bytes from one index of dimensions 1 … 4 to the next */
  uint32_t size[5];     /* elements */
  uint32_t box[5];      /* elements of a tile, before element strides */
  uint8_t step[5];      /* element strides */
  uint8_t rank;
  uint8_t type;         /* VgTensorType: the codes of tensormap.replace */
  uint8_t interleave;   /* 0 none, 1 16 bytes, 2 32 bytes */
  uint8_t swizzle;      /* 0 none, 1 32, 2 64, 3 128 bytes */
  uint8_t fill;         /* 0 zeros, 1 NaN */
  uint8_t im2col;       /* 0: tiles */
  uint8_t atomicity;    /* of the swizzle; only 0, 16 bytes */
  int16_t lower[3], upper[3];   /* im2col: corners of the pixels' box, innermost first */
  uint16_t channels, pixels;    /* im2col: of one copy */
  uint16_t unused;
  uint32_t magic;       /* VG_MAP_MAGIC once anything was written */
  uint32_t reserved[3];
} VgTensorMap;

enum { VG_MAP_MAGIC = 0x50414d54 };     /* "TMAP" */

typedef enum VgTensorType {
  VG_T_U8, VG_T_U16, VG_T_U32, VG_T_S32, VG_T_U64, VG_T_S64, VG_T_F16, VG_T_F32, VG_T_F32_FTZ,
  VG_T_F64, VG_T_BF16, VG_T_TF32, VG_T_TF32_FTZ, VG_T_LAST
} VgTensorType;

/* How an instruction walks a map. */
typedef enum VgWalk { VG_TILE, VG_IM2COL, VG_GATHER4 } VgWalk;
typedef enum VgBulkKind { VG_BULK_COPY, VG_BULK_REDUCE, VG_BULK_PREFETCH, VG_BULK_VALUE } VgBulkKind;

/* One transfer that was issued and has not landed. */
typedef struct VgTransfer {
  VgWarp *warp;         /* who issued it */
  uint32_t site, lane;
  uint8_t kind;         /* VgBulkKind */
  uint8_t dimensions;   /* of the tensor; 0: a plain span */
  uint8_t walk;         /* VgWalk */
  uint8_t to_shared, from_shared;
  uint8_t atomic, type; /* VgAtomic, VgType of a reduction of spans and values */
  uint8_t telling;      /* only tell the sanitizer of the rows */
  uint8_t echo;         /* a multicast's further destinations: their reads are not counted again */
  uint64_t to, from;    /* host addresses; of a tensor: of its shared side */
  uint64_t bytes;
  uint64_t barrier;     /* host address, or 0: it belongs to a bulk group */
  uint32_t group;       /* of the lane */
  int32_t at[5];        /* coordinates */
  int32_t offset[3];    /* im2col offsets */
  uint16_t byte_mask;   /* cp_mask; 0xffff: all */
  char value[16];       /* VG_BULK_VALUE */
  VgTensorMap map;
} VgTransfer;

/* One operand of a bulk instruction: lanes at an offset, how to read them, what to add. */
typedef struct VgSlot { uint32_t at, how; int32_t add; } VgSlot;
enum { VG_SLOT_FIXED = 1, VG_SLOT_WIDE = 2, VG_SLOT_SHARED = 4, VG_SLOT_SHORT = 8 };

static inline uint64_t vg_slot(const VgWarp *w, const VgSlot *s, uint32_t lane) {
  if (s->at == VG_SINK) return 0;
  const char *p = ((s->how & VG_SLOT_FIXED) ? w->fixed : w->regs) + s->at;
  uint64_t value = (s->how & VG_SLOT_WIDE) ? ((const uint64_t *)p)[lane]
                   : (s->how & VG_SLOT_SHORT) ? ((const uint16_t *)p)[lane] : ((const uint32_t *)p)[lane];
  value += (uint64_t)(int64_t)s->add;
  return (s->how & VG_SLOT_SHARED) ? vg_cluster_address(w, value) : value;
}

uint32_t vg_tensor_bytes(uint32_t type);
/* Bytes of shared memory that the transfer fills or reads. */
uint64_t vg_tensor_box(const VgTransfer *t);
/* Whether the map and the shared address can be used; a fault says why not. */
int vg_tensor_check(const VgTransfer *t);
/* Move the box between shared and global memory, or only tell of it. Nonzero: a fault. */
int vg_tensor_move(const VgTransfer *t);

/* A fault with words; always returns 1. */
int vg_bulk_fault(const VgTransfer *t, uint32_t kind, const char *text);
/* Check [at, at + bytes) of global memory, and count it. Nonzero: a fault. */
int vg_bulk_global(const VgTransfer *t, uint64_t at, uint64_t bytes, int is_store);

#endif
