/* What the lanes of a warp do together: shuffles, votes, matrix loads and matrix products.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lane arrays as in vgpu.h. Lanes outside `mask` are not written; their values may be read where
 * PTX leaves the result undefined. `members` are lanes of member masks, NULL for the whole mask:
 * lanes that name the same mask form one group. Results may be NULL (a sink).
 */
#ifndef VG_COLLECTIVE_H
#define VG_COLLECTIVE_H

#include "vgpu.h"

typedef enum VgShuffle { VG_SHFL_UP, VG_SHFL_DOWN, VG_SHFL_BFLY, VG_SHFL_IDX } VgShuffle;
typedef enum VgVote { VG_VOTE_ALL, VG_VOTE_ANY, VG_VOTE_UNI, VG_VOTE_BALLOT } VgVote;
typedef enum VgRedux {
  VG_REDUX_ADD, VG_REDUX_MIN_U, VG_REDUX_MAX_U, VG_REDUX_MIN_S, VG_REDUX_MAX_S,
  VG_REDUX_AND, VG_REDUX_OR, VG_REDUX_XOR, VG_REDUX_MIN_F, VG_REDUX_MAX_F
} VgRedux;

void vg_shfl(VgShuffle mode, uint32_t mask, uint32_t *d, uint32_t *p, const uint32_t *a,
             const uint32_t *b, const uint32_t *c);
void vg_vote(VgVote kind, uint32_t mask, uint32_t *d, const uint32_t *a, const uint32_t *members);
void vg_match(int all, uint32_t bytes, uint32_t mask, uint32_t *d, uint32_t *p, const void *a,
              const uint32_t *members);
/* Float minima: flags VG_REDUX_ABS compares magnitudes, VG_REDUX_NAN lets a NaN win. */
enum { VG_REDUX_ABS = 1, VG_REDUX_NAN = 2 };
void vg_redux(VgRedux kind, uint32_t flags, uint32_t mask, uint32_t *d, const uint32_t *a,
              const uint32_t *members);
void vg_elect(uint32_t mask, uint32_t *d, uint32_t *p, const uint32_t *members);
void vg_fill(uint32_t mask, uint32_t *d, uint32_t value);

/* 8x8 matrices of 16-bit elements, one 16-byte row per lane address. `generic`: addresses are host
 * pointers, else shared offsets. Nonzero: a fault. */
int vg_ldmatrix(VgWarp *w, uint32_t site, uint32_t mask, uint32_t count, int transpose, int generic,
                uint32_t *const *d, const uint64_t *address);
int vg_stmatrix(VgWarp *w, uint32_t site, uint32_t mask, uint32_t count, int transpose, int generic,
                uint32_t *const *a, const uint64_t *address);
void vg_movmatrix(uint32_t mask, uint32_t *d, const uint32_t *a);

typedef enum VgElement {
  VG_E_F16, VG_E_BF16, VG_E_TF32, VG_E_E4M3, VG_E_E5M2, VG_E_S8, VG_E_U8, VG_E_S4, VG_E_U4, VG_E_B1,
  VG_E_F32, VG_E_S32, VG_E_F64, VG_E_E2M3, VG_E_E3M2, VG_E_E2M1
} VgElement;
enum { VG_MMA_SATURATE = 1, VG_MMA_AND = 2 };

typedef struct VgMma {
  uint16_t m, n, k;
  uint8_t a, b, c, d;   /* VgElement */
  uint8_t flags;
} VgMma;

/* mma.sync: D = A B + C. Fragments are arrays of 32-bit lane arrays (64-bit ones for f64). Products
 * are exact; sums of float types are f32, of f64 fused f64, of integers exact. */
void vg_mma(const VgMma *s, uint32_t mask, uint32_t *const *d, uint32_t *const *a,
            uint32_t *const *b, uint32_t *const *c);
void vg_mma_f64(const VgMma *s, uint32_t mask, uint64_t *const *d, uint64_t *const *a,
                uint64_t *const *b, uint64_t *const *c);

/* mma.sp: A is packed, and `meta` says where its elements belong. */
void vg_mma_sparse(const VgMma *s, uint32_t mask, uint32_t *const *d, uint32_t *const *a,
                   uint32_t *const *b, uint32_t *const *c, const uint32_t *meta, uint32_t selector);
/* m8n8k4 of f16, any layout of A and B. */
void vg_mma_volta(const VgMma *s, int a_column, int b_row, uint32_t mask, uint32_t *const *d,
                  uint32_t *const *a, uint32_t *const *b, uint32_t *const *c);

/* mma.sync with a kind: 32 bytes of depth. id_a and id_b: which byte of which lanes has the scales. */
typedef struct VgMmaScaled {
  uint8_t a, b;         /* VgElement */
  uint8_t packed;       /* 4-bit elements, 8 in a word */
  uint8_t f16;          /* of C and D */
  uint8_t block;        /* elements that share a scale; 0: no scales */
  uint8_t ue4m3;        /* scales; else ue8m0 */
} VgMmaScaled;
void vg_mma_scaled(const VgMmaScaled *s, uint32_t mask, uint32_t *const *d, uint32_t *const *a,
                   uint32_t *const *b, uint32_t *const *c, const uint32_t *scale_a,
                   uint16_t *const *id_a, const uint32_t *scale_b, uint16_t *const *id_b);

/* wgmma.mma_async of one warp: its 16 of the 64 rows. a is NULL when `a_descriptor` names A in
 * shared memory. Nonzero: a fault. */
typedef struct VgWgmma {
  VgMma shape;
  int8_t scale_a, scale_b;          /* 1 or -1 */
  uint8_t transpose_a, transpose_b; /* the operand is M- or N-major */
} VgWgmma;
int vg_wgmma(VgWarp *w, uint32_t site, const VgWgmma *s, uint32_t mask, uint32_t *const *d,
             uint32_t *const *a, const uint64_t *a_descriptor, const uint64_t *b_descriptor,
             const uint32_t *scale_d);

/* The same with a sparse A. */
int vg_wgmma_sparse(VgWarp *w, uint32_t site, const VgWgmma *s, uint32_t mask, uint32_t *const *d,
                    uint32_t *const *a, const uint64_t *a_descriptor, const uint64_t *b_descriptor,
                    const uint32_t *scale_d, const uint32_t *meta, uint32_t selector);

/* wmma of 4- and 1-bit elements (m8n8k32, m8n8k128). */
int vg_wmma_narrow_load(VgWarp *w, uint32_t site, uint32_t space, uint32_t element_bits, uint32_t mask,
                        uint32_t *d, const uint64_t *address, const uint32_t *stride);
void vg_wmma_narrow(const VgMma *s, uint32_t mask, uint32_t *const *d, const uint32_t *a,
                    const uint32_t *b, uint32_t *const *c);

/* wmma: fragments in a layout of our own, the same for every operation. */
typedef struct VgWmma {
  uint16_t rows, columns;           /* of this matrix */
  uint8_t element;                  /* VgElement as in memory */
  uint8_t column_major;
  uint8_t space;                    /* VgSpace */
  uint8_t registers;                /* of the fragment */
} VgWmma;
int vg_wmma_load(VgWarp *w, uint32_t site, const VgWmma *s, uint32_t mask, void *const *d,
                 const uint64_t *address, const uint32_t *stride);
int vg_wmma_store(VgWarp *w, uint32_t site, const VgWmma *s, uint32_t mask, void *const *a,
                  const uint64_t *address, const uint32_t *stride);
void vg_wmma_mma(const VgMma *s, const uint8_t registers[4], uint32_t mask, void *const *d,
                 void *const *a, void *const *b, void *const *c);

/* tcgen05, tensor memory (sm_100): tcgen05.c and tcgen05_mma.c. Addresses are the manual's: the lane in
 * bits 16-31, the column in bits 0-15. `pair`: cta_group::2. Nonzero: a fault. */
typedef enum VgTensorState { VG_TENSOR_DONE, VG_TENSOR_FULL, VG_TENSOR_FAULT } VgTensorState;
VgTensorState vg_tmem_alloc(VgWarp *w, uint32_t site, uint32_t space, const uint64_t *address,
                              uint32_t columns);
int vg_tmem_dealloc(VgWarp *w, uint32_t site, uint32_t address, uint32_t columns);
void vg_tmem_relinquish(VgWarp *w);

enum { VG_TENSOR_32X32B, VG_TENSOR_16X64B, VG_TENSOR_16X128B, VG_TENSOR_16X256B, VG_TENSOR_16X32BX2 };
typedef struct VgTensorShape {
  uint8_t shape, registers, packed; /* packed: two 16-bit columns in a register */
} VgTensorShape;
/* half: columns from the first to the second part of 16x32bx2. */
int vg_tmem_load(VgWarp *w, uint32_t site, const VgTensorShape *s, uint32_t mask, uint32_t address,
                   uint32_t half, uint32_t *const *d);
int vg_tmem_store(VgWarp *w, uint32_t site, const VgTensorShape *s, uint32_t mask, uint32_t address,
                    uint32_t half, uint32_t *const *a);
int vg_tmem_shift(VgWarp *w, uint32_t site, uint32_t lane, uint32_t pair, uint32_t address);

typedef struct VgTensorCopy {
  uint8_t pair, rows, chunks;       /* rows of `chunks` * 16 bytes; 4, 32 and 64 rows are spread */
  uint8_t halves_alternate;         /* 64 rows: the first 32 go to quarters 0 and 2, else 0 and 1 */
  uint8_t bits;                     /* of elements that become 8 bits wide; 0: none */
} VgTensorCopy;
int vg_tmem_copy(VgWarp *w, uint32_t site, const VgTensorCopy *s, uint32_t lane, uint32_t address,
                   uint64_t descriptor);

enum { VG_TENSOR_F16, VG_TENSOR_TF32, VG_TENSOR_F8, VG_TENSOR_I8, VG_TENSOR_F4 };
typedef struct VgTensorMma {
  uint8_t kind, pair, a_in_tensor;
  uint8_t block;                    /* elements that share a scale; 0: no scales */
  uint8_t stationary;               /* .ws */
} VgTensorMma;
typedef struct VgTensorOperands {
  uint32_t d, descriptor, enable, scale_d; /* D is scaled by 2^-scale_d */
  uint64_t a, b;                    /* descriptors; a may be an address */
  uint32_t scale_a, scale_b;        /* addresses */
  const uint32_t *disabled;         /* a bit for each lane, or NULL */
} VgTensorOperands;
int vg_tmem_mma(VgWarp *w, uint32_t site, const VgTensorMma *s, uint32_t lane,
                  const VgTensorOperands *o);
int vg_tmem_commit(VgWarp *w, uint32_t site, uint32_t lane, uint64_t barrier, int generic,
                     int multicast, uint32_t blocks);
/* clusterlaunchcontrol.try_cancel: 16 bytes to `at` (a host address), completed on `barrier`; `all`:
 * in every block of the cluster. Nonzero: a fault. */
int vg_try_cancel(VgWarp *w, uint32_t site, uint32_t lane, uint64_t at, uint64_t barrier, int all);
/* Swizzle bits of a matrix descriptor; 16 bytes of a block's shared memory. */
int vg_tmem_swizzle(VgWarp *w, uint32_t site, uint32_t lane, uint64_t descriptor, uint32_t *bits);
int vg_tmem_shared(VgWarp *w, uint32_t site, uint32_t lane, const VgBlock *b, uint64_t offset,
                   uint32_t used, void *out);

#endif
