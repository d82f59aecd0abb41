/* ldmatrix, stmatrix and movmatrix: 8x8 matrices of 16-bit elements across a warp.
 * SPDX-License-Identifier: Apache-2.0
 *
 * In a fragment lane l holds elements (l / 4, 2 (l % 4)) and the next one of the row, so that the
 * 32 lanes of a register are the matrix in row-major order. */
#include "check.h"
#include "collective.h"

#define LANES for (uint32_t l = 0; l < VG_LANES; l++)

typedef union Matrix {
  uint32_t lanes[VG_LANES];
  uint16_t at[8][8];
} Matrix;

static void transpose(Matrix *m) {
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < i; j++) {
      uint16_t x = m->at[i][j];
      m->at[i][j] = m->at[j][i], m->at[j][i] = x;
    }
}

static void put(uint32_t mask, uint32_t *d, const Matrix *m) {
  if (!d) return;
  LANES d[l] = mask >> l & 1 ? m->lanes[l] : d[l];
}

/* Check the rows of `count` matrices and make shared offsets of their addresses. */
static int rows(VgWarp *w, uint32_t site, uint32_t count, int generic, int is_store,
                const uint64_t *address, uint64_t *offset) {
  uint32_t lanes = count == 4 ? VG_FULL : (1u << count * 8) - 1;
  LANES offset[l] = generic ? address[l] - (uint64_t)(uintptr_t)w->block->shared : address[l];
  return vg_shared_rows(w, site, lanes, offset, 16, is_store);
}

int vg_ldmatrix(VgWarp *w, uint32_t site, uint32_t mask, uint32_t count, int transposed, int generic,
                uint32_t *const *d, const uint64_t *address) {
  uint64_t offset[VG_LANES];
  Matrix m[4];
  if (rows(w, site, count, generic, 0, address, offset)) return 1;
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t r = 0; r < 8; r++) memcpy(m[i].at[r], w->block->shared + offset[8 * i + r], 16);
  for (uint32_t i = 0; i < count; i++) {
    if (transposed) transpose(&m[i]);
    put(mask, d[i], &m[i]);
  }
  return 0;
}

/* Row l of the matrices is what the lane stores whose address it has. */
static void check_rows(VgWarp *w, uint32_t site, uint32_t count, const uint64_t *offset, const Matrix *m) {
  VgAccess a = {.site = site, .space = VG_SHARED, .bytes = 16, .count = 1, .reg_bytes = 16};
  VgReach r = {.mask = count == 4 ? VG_FULL : (1u << count * 8) - 1, .width = 16, .space = VG_SHARED,
               .is_store = 1};
  const void *source = m;
  LANES r.at[l] = (uint64_t)(uintptr_t)w->block->shared + offset[l];
  vg_check_access(w, site, &r, VG_DID_WRITE, 0, &a, &source);
}

int vg_stmatrix(VgWarp *w, uint32_t site, uint32_t mask, uint32_t count, int transposed, int generic,
                uint32_t *const *a, const uint64_t *address) {
  uint64_t offset[VG_LANES];
  Matrix m[4];
  (void)mask;
  if (rows(w, site, count, generic, 1, address, offset)) return 1;
  for (uint32_t i = 0; i < count; i++) {
    memcpy(m[i].lanes, a[i], sizeof m[i].lanes);
    if (transposed) transpose(&m[i]);
  }
  if (vg_checking(w)) check_rows(w, site, count, offset, m);
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t r = 0; r < 8; r++) memcpy(w->block->shared + offset[8 * i + r], m[i].at[r], 16);
  return w->worker->stop;
}

void vg_movmatrix(uint32_t mask, uint32_t *d, const uint32_t *a) {
  Matrix m;
  memcpy(m.lanes, a, sizeof m.lanes);
  transpose(&m);
  put(mask, d, &m);
}
