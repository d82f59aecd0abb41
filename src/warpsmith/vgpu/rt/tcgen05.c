/* tcgen05.alloc, dealloc, ld, st, cp, shift and commit: tensor memory and how it is filled.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "check.h"
#include "tcgen05.h"
#include "tile.h"

enum { PATIENCE = 1 << 14 }; /* attempts to allocate with nothing freed between them */

int vg_tmem_fault(VgWarp *w, uint32_t kind, uint32_t site, uint32_t lanes, const char *format, ...) {
  if (!vg_fault(w, kind, site, lanes)) return 1;
  va_list values;
  va_start(values, format);
  vsnprintf(w->worker->fault.text, sizeof w->worker->fault.text, format, values);
  va_end(values);
  return 1;
}

VgTensor *vg_tmem_reach(VgWarp *w, uint32_t site, uint32_t lanes, const VgBlock *b,
                          uint32_t column, uint32_t columns) {
  VgTensor *t = b->tensor;
  uint32_t end = column + columns;
  for (uint32_t c = column; c < end; c++) {
    if (t && c < VG_TENSOR_COLUMNS && t->owner[c]) continue;
    vg_tmem_fault(w, VG_FAULT_ILLEGAL_ACCESS, site, lanes, "column %u of tensor memory (columns %u to %u are touched) is %s", c,
                    column, end - 1, c < VG_TENSOR_COLUMNS ? "not allocated" : "past its 512 columns");
    return NULL;
  }
  return t;
}

uint32_t vg_tmem_pair(VgWarp *w, uint32_t site, uint32_t pair, VgBlock *blocks[2]) {
  VgWorker *k = w->worker;
  blocks[0] = w->block;
  if (!pair) return 1;
  uint32_t first = w->block->resident & ~1u;
  if (first + 1 >= k->launch->resident_blocks) {
    vg_tmem_fault(w, VG_FAULT_ILLEGAL_ACCESS, site, w->mask, "cta_group::2 needs a cluster of at least two blocks");
    return 0;
  }
  blocks[0] = &k->resident[first], blocks[1] = &k->resident[first + 1];
  return 2;
}

/* --------------------------------------------------------------------------------- allocation */

static VgTensor *tensor_of(VgBlock *b) {
  if (!b->tensor) b->tensor = calloc(1, sizeof(VgTensor));
  return b->tensor;
}

void vg_tmem_start(VgBlock *b) {
  VgTensor *t = b->tensor;
  if (!t) return;
  memset(t->owner, 0, sizeof t->owner);
  t->relinquished = t->refused = 0;
  vg_tmem_forget(t);
}

void vg_tmem_end(VgBlock *b) {
  const VgTensor *t = b->tensor;
  for (uint32_t c = 0; t && c < VG_TENSOR_COLUMNS; c++) {
    if (!t->owner[c]) continue;
    vg_tmem_fault(&b->warps[0], VG_FAULT_LEAK, t->site, 1,
                    "the block ends with column %u of tensor memory allocated: a tcgen05.dealloc is missing", c);
    return;
  }
}

/* First of `columns` free ones, a multiple of 32; 512 when there are none. */
static uint32_t first_free(const VgTensor *t, uint32_t columns) {
  for (uint32_t first = 0; first + columns <= VG_TENSOR_COLUMNS; first += 32) {
    uint32_t c = 0;
    while (c < columns && !t->owner[first + c]) c++;
    if (c == columns) return first;
  }
  return VG_TENSOR_COLUMNS;
}

static int bad_size(VgWarp *w, uint32_t site, uint32_t columns) {
  if (columns >= 32 && columns <= VG_TENSOR_COLUMNS && !(columns & (columns - 1))) return 0;
  return vg_tmem_fault(w, VG_FAULT_ILLEGAL_ACCESS, site, w->mask, "%u columns: expected a power of two from 32 to 512", columns);
}

VgTensorState vg_tmem_alloc(VgWarp *w, uint32_t site, uint32_t space, const uint64_t *address,
                              uint32_t columns) {
  VgTensor *t = tensor_of(w->block);
  if (!t || bad_size(w, site, columns)) return VG_TENSOR_FAULT;
  if (t->relinquished) {
    vg_tmem_fault(w, VG_FAULT_ILLEGAL_ACCESS, site, w->mask, "tcgen05.alloc after tcgen05.relinquish_alloc_permit");
    return VG_TENSOR_FAULT;
  }
  uint32_t first = first_free(t, columns), value[VG_LANES];
  if (first == VG_TENSOR_COLUMNS) {
    if (++t->refused < PATIENCE) return VG_TENSOR_FULL;
    vg_tmem_fault(w, VG_FAULT_ILLEGAL_ACCESS, site, w->mask, "%u columns are never free: tensor memory has 512 and nobody frees any", columns);
    return VG_TENSOR_FAULT;
  }
  for (uint32_t l = 0; l < VG_LANES; l++) value[l] = first;
  const void *source[1] = {value};
  VgAccess a = {.site = site, .space = (uint8_t)space, .bytes = 4, .count = 1, .reg_bytes = 4};
  if (vg_store(w, &a, w->mask & -w->mask, address, source)) return VG_TENSOR_FAULT;
  t->refused = 0, t->site = site;
  for (uint32_t c = first; c < first + columns; c++) {
    t->owner[c] = (uint16_t)(first + 1);
    for (uint32_t l = 0; l < VG_TENSOR_LANES; l++) t->cell[l][c] = 0xffffffffu; /* NaN */
  }
  return VG_TENSOR_DONE;
}

int vg_tmem_dealloc(VgWarp *w, uint32_t site, uint32_t address, uint32_t columns) {
  VgTensor *t = tensor_of(w->block);
  uint32_t first = address & 0xffff;
  if (!t || bad_size(w, site, columns)) return 1;
  for (uint32_t c = 0; c <= columns && first + c < VG_TENSOR_COLUMNS; c++)
    if ((t->owner[first + c] == first + 1) != (c < columns))
      return vg_tmem_fault(w, VG_FAULT_ILLEGAL_ACCESS, site, w->mask,
                             "columns %u to %u are not one allocation of tensor memory", first, first + columns - 1);
  if (first + columns > VG_TENSOR_COLUMNS)
    return vg_tmem_fault(w, VG_FAULT_ILLEGAL_ACCESS, site, w->mask, "columns %u to %u are past tensor memory", first, first + columns - 1);
  if (vg_tmem_settled(w, site, w->mask, t, VG_TMEM_BOTH, first, columns, 1)) return 1;
  memset(t->owner + first, 0, columns * sizeof *t->owner);
  t->refused = 0;
  return 0;
}

void vg_tmem_relinquish(VgWarp *w) {
  VgTensor *t = tensor_of(w->block);
  if (t) t->relinquished = 1;
}

/* ------------------------------------------------------------------------------- ld, st, shift */

/* Row and column of register j of lane l. */
static void cell_of(const VgTensorShape *s, uint32_t half, uint32_t l, uint32_t j, uint32_t *row,
                    uint32_t *column) {
  switch (s->shape) {
  case VG_TENSOR_32X32B: *row = l, *column = j; break;
  case VG_TENSOR_16X64B: *row = l / 4 + l / 2 % 2 * 8, *column = 2 * j + l % 2; break;
  case VG_TENSOR_16X128B: *row = l / 4 + j % 2 * 8, *column = j / 2 * 4 + l % 4; break;
  case VG_TENSOR_16X256B: *row = l / 4 + j / 2 % 2 * 8, *column = j / 4 * 8 + l % 4 * 2 + j % 2; break;
  default: *row = l % 16, *column = j; break;
  }
  *column <<= s->packed;
  if (s->shape == VG_TENSOR_16X32BX2) *column += l / 16 * half;
}

/* The warp's lanes of tensor memory at an address, checked; NULL after a fault. */
static VgTensor *quarter(VgWarp *w, uint32_t site, uint32_t mask, const VgTensorShape *s,
                         uint32_t address, uint32_t half, int writes) {
  static const uint8_t columns[] = {1, 2, 2, 2, 1}; /* for each register of a lane */
  uint32_t lane = address >> 16, width = (uint32_t)s->registers * columns[s->shape] << s->packed;
  uint32_t inside = lane % 32, tall = s->shape == VG_TENSOR_32X32B;
  if (lane / 32 != w->index % 4 || (inside && (tall || inside != 16))) {
    vg_tmem_fault(w, VG_FAULT_ILLEGAL_ACCESS, site, mask, "warp %u reaches lane %u of tensor memory: it may use lanes %u to %u, from %s", w->index,
                    lane, w->index % 4 * 32, w->index % 4 * 32 + 31, tall ? "the first" : "the first or the 17th");
    return NULL;
  }
  uint32_t halves = tall ? VG_TMEM_BOTH : vg_tmem_half(inside);
  for (uint32_t part = 0; part <= (s->shape == VG_TENSOR_16X32BX2); part++) {
    uint32_t column = (address & 0xffff) + part * half;
    const VgTensor *t = vg_tmem_reach(w, site, mask, w->block, column, width);
    if (!t || vg_tmem_settled(w, site, mask, t, halves, column, width, writes)) return NULL;
  }
  return w->block->tensor;
}

int vg_tmem_load(VgWarp *w, uint32_t site, const VgTensorShape *s, uint32_t mask, uint32_t address,
                   uint32_t half, uint32_t *const *d) {
  const VgTensor *t = quarter(w, site, mask, s, address, half, 0);
  if (!t) return 1;
  for (uint32_t j = 0; j < s->registers; j++)
    for (uint32_t l = 0; l < VG_LANES; l++) {
      uint32_t row, column;
      if (!(mask >> l & 1) || !d[j]) continue;
      cell_of(s, half, l, j, &row, &column);
      const uint32_t *from = &t->cell[(address >> 16) + row][(address & 0xffff) + column];
      d[j][l] = s->packed ? (from[0] & 0xffff) | from[1] << 16 : from[0];
    }
  return 0;
}

int vg_tmem_store(VgWarp *w, uint32_t site, const VgTensorShape *s, uint32_t mask, uint32_t address,
                    uint32_t half, uint32_t *const *a) {
  VgTensor *t = quarter(w, site, mask, s, address, half, 1);
  if (!t) return 1;
  for (uint32_t j = 0; j < s->registers; j++)
    for (uint32_t l = 0; l < VG_LANES; l++) {
      uint32_t row, column;
      if (!(mask >> l & 1)) continue;
      cell_of(s, half, l, j, &row, &column);
      uint32_t *to = &t->cell[(address >> 16) + row][(address & 0xffff) + column];
      if (s->packed) to[0] = a[j][l] & 0xffff, to[1] = a[j][l] >> 16;
      else to[0] = a[j][l];
    }
  return 0;
}

/* All rows but the last move to the next lane, 32 bytes of each. */
int vg_tmem_shift(VgWarp *w, uint32_t site, uint32_t lane, uint32_t pair, uint32_t address) {
  VgBlock *blocks[2];
  uint32_t count = vg_tmem_pair(w, site, pair, blocks), first = address >> 16;
  if (!count) return 1;
  if (first % 32 || first >= VG_TENSOR_LANES)
    return vg_tmem_fault(w, VG_FAULT_ILLEGAL_ACCESS, site, 1u << lane, "lane %u of tensor memory is no multiple of 32", first);
  vg_tmem_issue(w->block);
  for (uint32_t i = 0; i < count; i++) {
    VgTensor *t = vg_tmem_reach(w, site, 1u << lane, blocks[i], address & 0xffff, 8);
    if (!t) return 1;
    vg_tmem_touch(t, w->block, VG_TMEM_BOTH, address & 0xffff, 8, 1);
    for (uint32_t row = VG_TENSOR_LANES - 1; row > first; row--)
      memcpy(&t->cell[row][address & 0xffff], &t->cell[row - 1][address & 0xffff], 32);
  }
  return 0;
}

/* ------------------------------------------------------------------------------------------- cp */

/* 16 bytes of 4- or 6-bit elements become 16 elements of 8 bits. */
static void widen(uint32_t bits, uint8_t chunk[16]) {
  uint8_t wide[16];
  for (uint32_t i = 0; i < 16; i++) {
    uint32_t at = i * bits, pair = chunk[at / 8] | (uint32_t)chunk[at / 8 + 1] << 8;
    uint32_t value = pair >> at % 8 & ((1u << bits) - 1);
    wide[i] = (uint8_t)(bits == 4 ? value << 2 : value);
  }
  memcpy(chunk, wide, 16);
}

/* Rows to the lanes of every quarter that gets them. */
static void put_chunk(const VgTensorCopy *s, VgTensor *t, uint32_t row, uint32_t column,
                      const uint8_t chunk[16]) {
  if (s->rows == 4) memcpy(&t->cell[32 * row][column], chunk, 16);
  if (s->rows == 128) memcpy(&t->cell[row][column], chunk, 16);
  for (uint32_t q = 0; q < 4; q++) {
    uint32_t half = s->halves_alternate ? q % 2 : q / 2;
    if (s->rows == 32 || (s->rows == 64 && row / 32 == half))
      memcpy(&t->cell[32 * q + row % 32][column], chunk, 16);
  }
}

int vg_tmem_copy(VgWarp *w, uint32_t site, const VgTensorCopy *s, uint32_t lane, uint32_t address,
                   uint64_t descriptor) {
  VgBlock *blocks[2];
  uint32_t count = vg_tmem_pair(w, site, s->pair, blocks), column = address & 0xffff, swizzle;
  if (!count || vg_tmem_swizzle(w, site, lane, descriptor, &swizzle)) return 1;
  VgTile tile = vg_tile(descriptor, swizzle, 1, 0);
  vg_tmem_issue(w->block);
  for (uint32_t i = 0; i < count; i++) {
    VgTensor *t = vg_tmem_reach(w, site, 1u << lane, blocks[i], column, s->chunks * 4u);
    if (!t) return 1;
    vg_tmem_touch(t, w->block, VG_TMEM_BOTH, column, s->chunks * 4u, 1);
    for (uint32_t row = 0; row < s->rows; row++)
      for (uint32_t c = 0; c < s->chunks; c++) {
        uint8_t chunk[17] = {0};
        if (vg_tmem_shared(w, site, lane, blocks[i], vg_chunk(&tile, row, 16 * c), 16, chunk)) return 1;
        if (s->bits) widen(s->bits, chunk);
        put_chunk(s, t, row, column + 4 * c, chunk);
      }
  }
  return 0;
}

int vg_tmem_swizzle(VgWarp *w, uint32_t site, uint32_t lane, uint64_t descriptor, uint32_t *bits) {
  static const int8_t swizzles[8] = {0, -1, 3, -1, 2, -1, 1, -1};
  int found = swizzles[descriptor >> 61];
  *bits = (uint32_t)found;
  if (found >= 0) return 0;
  return vg_tmem_fault(w, VG_FAULT_ILLEGAL_ACCESS, site, 1u << lane, "the matrix descriptor %#llx has swizzle mode %u, which the virtual GPU does not have",
                         (unsigned long long)descriptor, (uint32_t)(descriptor >> 61));
}

int vg_tmem_shared(VgWarp *w, uint32_t site, uint32_t lane, const VgBlock *b, uint64_t offset, uint32_t used,
                   void *out) {
  if (offset + 16 <= b->shared_bytes) {
    if (vg_checking(w)) vg_check_operand(w, site, lane, (uint64_t)(uintptr_t)b->shared + offset, used);
    return memcpy(out, b->shared + offset, 16), 0;
  }
  if (vg_fault(w, VG_FAULT_OUT_OF_BOUNDS, site, 1u << lane)) {
    VgFault *f = &w->worker->fault;
    f->space = VG_SHARED, f->bytes = 16, f->address = offset, f->limit = b->shared_bytes;
  }
  return 1;
}

/* --------------------------------------------------------------------------------------- commit */

static int arrive(VgWarp *w, uint32_t site, uint32_t lane, uint64_t barrier) {
  vg_tmem_committed(w->block, barrier);
  return vg_mbarrier_arrive(w, site, lane, barrier);
}

int vg_tmem_commit(VgWarp *w, uint32_t site, uint32_t lane, uint64_t barrier, int generic,
                     int multicast, uint32_t blocks) {
  if (!(barrier >> 32)) generic = 0; /* Triton 3.6 widens a shared address and names no state space */
  if (!multicast)
    return arrive(w, site, lane, generic ? barrier : vg_cluster_address(w, barrier));
  uint64_t offset = generic ? barrier - (uint64_t)(uintptr_t)w->block->shared : barrier & 0xffffff;
  for (uint64_t rank = 0; rank < 16; rank++) {
    if (!(blocks >> rank & 1)) continue;
    if (rank >= w->worker->launch->resident_blocks)
      return vg_tmem_fault(w, VG_FAULT_ILLEGAL_ACCESS, site, 1u << lane, "the multicast mask %#x names block %u, which the cluster has not", blocks,
                             (uint32_t)rank);
    if (arrive(w, site, lane, vg_cluster_address(w, offset | (rank + 1) << 24))) return 1;
  }
  return 0;
}
