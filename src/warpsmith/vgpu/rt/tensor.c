/* Tensor maps: the rows of a box in global memory, and where they lie in shared memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A box lies densely in shared memory, dimension 0 innermost. The swizzle exchanges 16-byte columns:
 * bits 4 … 6 (128 bytes), 4 … 5 (64) or 4 (32) of the shared offset with the bits from 7 on
 * (PTX ISA, Tensors: swizzling modes). Elements outside the tensor are filled when read and left
 * alone when written.
 */
#include <stdio.h>

#include "bulk.h"
#include "lane.h"

enum { MAX_ROW = 256 * 8, SHARED_MOST = 256 << 10 };

static const uint8_t TYPE_BYTES[VG_T_LAST] = {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4};

uint32_t vg_tensor_bytes(uint32_t type) { return type < VG_T_LAST ? TYPE_BYTES[type] : 0; }

static uint32_t extent(const VgTransfer *t, uint32_t i) {
  const VgTensorMap *m = &t->map;
  if (t->walk == VG_GATHER4 && i == 1) return 4;
  return i == 0 ? m->box[0] : (m->box[i] + m->step[i] - 1) / m->step[i];
}

static uint64_t row_bytes(const VgTransfer *t) {
  const VgTensorMap *m = &t->map;
  return (t->walk == VG_IM2COL ? m->channels : m->box[0]) * (uint64_t)vg_tensor_bytes(m->type);
}

uint64_t vg_tensor_box(const VgTransfer *t) {
  uint64_t bytes = row_bytes(t);
  if (t->walk == VG_IM2COL) return bytes * t->map.pixels;
  for (uint32_t i = 1; i < t->map.rank; i++) bytes *= extent(t, i);
  return bytes;
}

/* ------------------------------------------------------------------------------------ checks */

static int bad(const VgTransfer *t, const char *text) {
  return vg_bulk_fault(t, VG_FAULT_ILLEGAL_ACCESS, text);
}

static int check_shape(const VgTransfer *t) {
  const VgTensorMap *m = &t->map;
  char text[200];
  uint32_t wanted = t->walk == VG_GATHER4 ? 2 : t->dimensions;
  if (m->rank != wanted) {
    snprintf(text, sizeof text, "the tensor map has %u dimensions, the instruction names %u", m->rank, wanted);
    return bad(t, text);
  }
  if (m->im2col != (t->walk == VG_IM2COL))
    return bad(t, m->im2col ? "the tensor map is one for im2col, the instruction copies tiles"
                            : "the tensor map is one for tiles, the instruction is im2col");
  for (uint32_t i = 0; i < m->rank; i++) {
    if (!m->im2col && m->box[i] - 1 >= 256) {
      snprintf(text, sizeof text, "the tensor map's box has %u elements in dimension %u, allowed are 1 to 256", m->box[i], i);
      return bad(t, text);
    }
    if (m->step[i] - 1u >= 8) {
      snprintf(text, sizeof text, "the tensor map's element stride is %u in dimension %u, allowed are 1 to 8", m->step[i], i);
      return bad(t, text);
    }
    if (i && m->stride[i - 1] % 16) {
      snprintf(text, sizeof text, "the tensor map's stride of dimension %u is %llu bytes, not a multiple of 16", i,
               (unsigned long long)m->stride[i - 1]);
      return bad(t, text);
    }
  }
  if (m->im2col && (m->channels - 1u >= 256 || m->pixels - 1u >= 1024))
    return bad(t, "the tensor map's channels are not 1 to 256, or its pixels not 1 to 1024");
  return 0;
}

static int check_row(const VgTransfer *t) {
  const VgTensorMap *m = &t->map;
  char text[200];
  uint64_t row = row_bytes(t), span = 16ull << m->swizzle;
  if (row % 16) {
    snprintf(text, sizeof text, "a row of the tensor map's box has %llu bytes, not a multiple of 16", (unsigned long long)row);
    return bad(t, text);
  }
  if (m->swizzle && row > span) {
    snprintf(text, sizeof text, "a row of the tensor map's box has %llu bytes, more than the %llu of its swizzle",
             (unsigned long long)row, (unsigned long long)span);
    return bad(t, text);
  }
  return 0;
}

static int misaligned(const VgTransfer *t, uint64_t at, uint64_t bytes, uint32_t space) {
  VgFault *f = &t->warp->worker->fault;
  if (!vg_fault(t->warp, VG_FAULT_MISALIGNED, t->site, 1u << t->lane)) return 1;
  f->space = space, f->bytes = (uint32_t)bytes, f->address = at, f->is_store = space == VG_SHARED && t->to_shared;
  f->limit = t->warp->block->shared_bytes;
  return 1;
}

static int check_reduction(const VgTransfer *t) {
  static const char *const names[] = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"};
  static const uint16_t integers = 1 << VG_T_U32 | 1 << VG_T_S32 | 1 << VG_T_U64 | 1 << VG_T_S64;
  static const uint16_t halves = 1 << VG_T_F16 | 1 << VG_T_BF16;
  static const uint16_t floats = 1 << VG_T_F32 | 1 << VG_T_F32_FTZ | 1 << VG_T_F64;
  uint16_t allowed = integers;
  if (t->atomic == VG_ATOM_ADD) allowed |= halves | floats;
  if (t->atomic == VG_ATOM_MIN || t->atomic == VG_ATOM_MAX) allowed |= halves;
  if (t->atomic == VG_ATOM_INC || t->atomic == VG_ATOM_DEC) allowed = 1 << VG_T_U32;
  if (allowed >> t->map.type & 1) return 0;
  char text[120];
  snprintf(text, sizeof text, "the tensor map's element type %u has no reduction '.%s'", t->map.type, names[t->atomic]);
  return bad(t, text);
}

int vg_tensor_check(const VgTransfer *t) {
  const VgTensorMap *m = &t->map;
  if (m->magic != VG_MAP_MAGIC)
    return bad(t, "the address names no tensor map: nothing encoded one there");
  if (m->type >= VG_T_LAST) return bad(t, "the tensor map's element type is one of sm_100");
  if (m->interleave) return bad(t, "the tensor map is interleaved, which the virtual GPU does not have");
  if (m->swizzle > 3 || m->atomicity) return bad(t, "the tensor map's swizzle is none of 0, 32, 64 and 128 bytes");
  if (check_shape(t) || check_row(t) || (t->kind == VG_BULK_REDUCE && check_reduction(t))) return 1;
  if (vg_tensor_box(t) > SHARED_MOST) return bad(t, "the tensor map's box is larger than any shared memory");
  if (m->address % 16) return misaligned(t, m->address, 16, VG_GLOBAL);
  uint64_t shared = t->to_shared ? t->to : t->from;
  if (t->kind != VG_BULK_PREFETCH && shared % 128)
    return misaligned(t, shared - (uint64_t)(uintptr_t)t->warp->block->shared, 128, VG_SHARED);
  return 0;
}

/* ------------------------------------------------------------------------------------ elements */

static void fill_row(const VgTensorMap *m, char *row, uint64_t bytes) {
  static const uint8_t is_float[VG_T_LAST] = {[VG_T_F16] = 1, [VG_T_F32] = 1, [VG_T_F32_FTZ] = 1, [VG_T_F64] = 1,
                                              [VG_T_BF16] = 1, [VG_T_TF32] = 1, [VG_T_TF32_FTZ] = 1};
  uint32_t width = vg_tensor_bytes(m->type);
  memset(row, m->fill && is_float[m->type] ? 0xff : 0, bytes);
  if (m->fill && is_float[m->type]) /* the canonical NaN: all ones but the sign */
    for (uint64_t i = width - 1; i < bytes; i += width) row[i] = 0x7f;
}

static void flush_row(const VgTensorMap *m, char *row, uint64_t bytes) {
  if (m->type != VG_T_F32_FTZ && m->type != VG_T_TF32_FTZ) return;
  uint32_t *words = (uint32_t *)row;
  for (uint64_t i = 0; i < bytes / 4; i++) words[i] = w_ftz_f32(words[i]);
}

static uint64_t swizzled(const VgTensorMap *m, uint64_t offset) {
  return offset ^ ((offset >> 7 & ((1u << m->swizzle) - 1)) << 4);
}

/* The shared memory behind t and the offset of its window. */
typedef struct Window { char *base; uint64_t offset; } Window;

static Window window(const VgTransfer *t) {
  uint64_t at = t->to_shared ? t->to : t->from;
  const VgWorker *k = t->warp->worker;
  for (uint32_t i = 0; i < k->launch->resident_blocks; i++) {
    const VgBlock *b = &k->resident[i];
    uint64_t offset = at - (uint64_t)(uintptr_t)b->shared;
    if (offset < b->shared_bytes) return (Window){b->shared, offset};
  }
  return (Window){NULL, 0};
}

static void exchange(const VgTransfer *t, Window s, uint64_t offset, char *row, uint64_t bytes) {
  if (!t->map.swizzle) {
    char *at = s.base + s.offset + offset;
    if (t->to_shared) memcpy(at, row, bytes);
    else memcpy(row, at, bytes);
    return;
  }
  for (uint64_t i = 0; i < bytes; i += 16) {
    char *at = s.base + swizzled(&t->map, s.offset + offset + i);
    if (t->to_shared) memcpy(at, row + i, 16);
    else memcpy(row + i, at, 16);
  }
}

/* ---------------------------------------------------------------------------------------- rows */

static VgAccess reduction(const VgTransfer *t) {
  static const uint8_t types[VG_T_LAST] = {VG_U8, VG_U16, VG_U32, VG_S32, VG_U64, VG_S64, VG_F16,
                                           VG_F32, VG_F32, VG_F64, VG_BF16, VG_F32, VG_F32};
  return (VgAccess){.site = t->site, .space = VG_GLOBAL, .atomic = t->atomic, .type = types[t->map.type],
                    .bytes = (uint8_t)vg_tensor_bytes(t->map.type)};
}

/* One row at coordinates `at`; `inside`: all but dimension 0 lie in the tensor. */
static int move_row(const VgTransfer *t, Window s, uint64_t offset, const int64_t *at, int inside) {
  const VgTensorMap *m = &t->map;
  _Alignas(16) char row[MAX_ROW];
  int64_t width = vg_tensor_bytes(m->type), count = (int64_t)row_bytes(t) / width;
  int64_t first = at[0] < 0 ? -at[0] : 0, last = (int64_t)m->size[0] - at[0];
  last = last > count ? count : last;
  uint64_t global = m->address + (uint64_t)((at[0] + first) * width), bytes = (uint64_t)((last - first) * width);
  for (uint32_t i = 1; i < m->rank; i++) global += (uint64_t)at[i] * m->stride[i - 1];
  int touches = inside && first < last;
  if (touches && vg_bulk_global(t, global, bytes, !t->to_shared && t->kind != VG_BULK_PREFETCH)) return 1;
  if (t->telling && touches) {
    uint32_t deed = t->to_shared ? VG_DID_READ : t->kind == VG_BULK_REDUCE ? VG_DID_ATOMIC : VG_DID_COPY;
    vg_check_bulk(t->warp, t->site, t->lane, global, bytes, deed, t->barrier);
  }
  if (t->telling || t->kind == VG_BULK_PREFETCH) return 0;
  if (t->to_shared) {
    fill_row(m, row, (uint64_t)(count * width));
    if (touches) memcpy(row + first * width, (const void *)(uintptr_t)global, bytes);
    flush_row(m, row, (uint64_t)(count * width));
    exchange(t, s, offset, row, (uint64_t)(count * width));
    return 0;
  }
  if (!touches) return 0;
  exchange(t, s, offset, row, (uint64_t)(count * width));
  if (t->kind != VG_BULK_REDUCE) {
    memcpy((void *)(uintptr_t)global, row + first * width, bytes);
    return 0;
  }
  VgAccess a = reduction(t);
  vg_atomic_span(t->warp, &a, global, row + first * width, (uint64_t)(last - first));
  return 0;
}

static int inside(const VgTensorMap *m, const int64_t *at) {
  for (uint32_t i = 1; i < m->rank; i++)
    if (at[i] < 0 || at[i] >= (int64_t)m->size[i]) return 0;
  return 1;
}

static int move_tile(const VgTransfer *t, Window s) {
  const VgTensorMap *m = &t->map;
  uint32_t index[5] = {0};
  uint64_t row = row_bytes(t), rows = vg_tensor_box(t) / row;
  for (uint64_t r = 0; r < rows; r++) {
    int64_t at[5] = {t->at[0]};
    for (uint32_t i = 1; i < m->rank; i++) at[i] = (int64_t)t->at[i] + (int64_t)index[i] * m->step[i];
    if (t->walk == VG_GATHER4) at[1] = t->at[1 + r];
    if (move_row(t, s, r * row, at, inside(m, at))) return 1;
    for (uint32_t i = 1; i < m->rank && ++index[i] == extent(t, i); i++) index[i] = 0;
  }
  return 0;
}

/* Pixels from the given one on, W first, inside a box that the corners bound; the offsets move what
 * is read and not where the walk turns (PTX ISA, Tensors: im2col mode). */
static int move_pixels(const VgTransfer *t, Window s) {
  const VgTensorMap *m = &t->map;
  uint64_t row = row_bytes(t);
  int64_t at[5];
  for (uint32_t i = 0; i < 5; i++) at[i] = t->at[i];
  for (uint64_t p = 0; p < m->pixels; p++) {
    int64_t read[5];
    for (uint32_t i = 0; i < 5; i++) read[i] = at[i] + (i && i + 1 < m->rank ? t->offset[i - 1] : 0);
    if (move_row(t, s, p * row, read, inside(m, read))) return 1;
    for (uint32_t i = 1; i < m->rank; i++) {
      at[i] += m->step[i];
      if (i + 1 == m->rank || at[i] <= (int64_t)m->size[i] - 1 + m->upper[i - 1]) break;
      at[i] = m->lower[i - 1];
    }
  }
  return 0;
}

int vg_tensor_move(const VgTransfer *t) {
  Window s = {NULL, 0};
  if (t->kind != VG_BULK_PREFETCH) s = window(t);
  return t->walk == VG_IM2COL ? move_pixels(t, s) : move_tile(t, s);
}
