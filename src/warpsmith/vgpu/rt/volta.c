/* mma.sync.m8n8k4 of f16: four products of 8 x 8 x 4, one for each pair of quads t and t + 4.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lanes 4 t … and 16 + 4 t … make product t; the second ones hold rows (columns of B) 4 … 7.
 */
#include "lane.h"
#include "mma.h"

static float half_at(uint32_t *const *regs, uint32_t lane, uint32_t i) {
  return w_h2f(regs[i / 2][lane] >> 16 * (i % 2) & 0xffff);
}

/* Rows (of A) or columns (of B) `line` in 0 … 7, depth in 0 … 3; `along`: a lane holds its line. */
static float operand(uint32_t *const *regs, uint32_t t, uint32_t line, uint32_t depth, int along) {
  uint32_t base = 4 * t + (line >= 4 ? 16 : 0);
  return along ? half_at(regs, base + line % 4, depth) : half_at(regs, base + depth, line % 4);
}

/* Lane and place of an accumulator: f16 holds a row of 8, f32 holds 2 x 2 blocks. */
static uint32_t place(int f16, uint32_t t, uint32_t row, uint32_t n, uint32_t *i) {
  uint32_t base = 4 * t + (row >= 4 ? 16 : 0), r = row % 4;
  if (f16) return *i = n, base + r;
  *i = (n & 4) | (r & 2) | (n & 1);
  return base + (r & 1) + (n & 2);
}

static float read_sum(VgElement e, uint32_t *const *c, uint32_t lane, uint32_t i) {
  return e == VG_E_F16 ? half_at(c, lane, i) : w_f32(c[i][lane]);
}

static void write_sum(VgElement e, uint32_t *const *d, uint32_t lane, uint32_t i, float x) {
  if (e != VG_E_F16) {
    d[i][lane] = w_b32(x);
    return;
  }
  uint32_t shift = 16 * (i % 2), *word = &d[i / 2][lane];
  *word = (*word & ~(0xffffu << shift)) | (uint32_t)w_f2h(x) << shift;
}

void vg_mma_volta(const VgMma *s, int a_column, int b_row, uint32_t mask, uint32_t *const *d,
                  uint32_t *const *a, uint32_t *const *b, uint32_t *const *c) {
  float sums[4][8][8];
  for (uint32_t t = 0; t < 4; t++)
    for (uint32_t row = 0; row < 8; row++)
      for (uint32_t n = 0; n < 8; n++) {
        uint32_t i, lane = place(s->c == VG_E_F16, t, row, n, &i);
        float sum = read_sum(s->c, c, lane, i);
        for (uint32_t k = 0; k < 4; k++)
          sum += operand(a, t, row, k, !a_column) * operand(b, t, n, k, !b_row);
        sums[t][row][n] = sum;
      }
  for (uint32_t t = 0; t < 4; t++)
    for (uint32_t row = 0; row < 8; row++)
      for (uint32_t n = 0; n < 8; n++) {
        uint32_t i, lane = place(s->d == VG_E_F16, t, row, n, &i);
        if (mask >> lane & 1) write_sum(s->d, d, lane, i, sums[t][row][n]);
      }
}
