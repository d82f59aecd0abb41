/* Matrices in shared memory as wgmma and tcgen05 describe them: core matrices, strides, swizzles.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A descriptor gives, in units of 16 bytes, the start (bits 0-13), the leading offset (16-29) and
 * the stride offset (32-45). Core matrices are 8 rows of 16 bytes. The swizzle exchanges 16-byte
 * columns by the row number, on the shared offset. */
#ifndef VG_TILE_H
#define VG_TILE_H

#include <stdint.h>

typedef struct VgTile {
  uint64_t start, leading, stride;
  uint32_t line;        /* bytes of a swizzled row; 16 without swizzle */
  uint32_t swizzle;     /* how many address bits 4… are exchanged */
  uint32_t bytes;       /* of an element */
  uint32_t transposed;  /* M- or N-major: 8 rows of the other dimension lie in 16 bytes */
} VgTile;

static inline VgTile vg_tile(uint64_t descriptor, uint32_t swizzle, uint32_t bytes,
                             uint32_t transposed) {
  return (VgTile){.start = (descriptor & 0x3fff) << 4, .leading = (descriptor >> 16 & 0x3fff) << 4,
                  .stride = (descriptor >> 32 & 0x3fff) << 4, .line = 16u << swizzle,
                  .swizzle = swizzle, .bytes = bytes, .transposed = transposed};
}

static inline uint64_t vg_swizzled(const VgTile *t, uint64_t offset) {
  return offset ^ ((offset >> 7 & ((1u << t->swizzle) - 1)) << 4);
}

/* Offset of 16 bytes: 8 rows of one depth when transposed, else some depth of one row. */
static inline uint64_t vg_chunk(const VgTile *t, uint32_t row, uint32_t depth) {
  uint32_t per = 16 / t->bytes;
  uint64_t at = t->start;
  if (!t->transposed) {
    uint32_t column = depth / per;
    at += row / 8 * t->stride + row % 8 * t->line;
    return vg_swizzled(t, at + (t->swizzle ? column * 16 : column * t->leading));
  }
  uint32_t column = row / per, columns = t->line / 16;
  if (!t->swizzle) return at + column * t->stride + depth % 8 * 16 + depth / 8 * t->leading;
  at += column % columns * 16 + column / columns * t->leading;
  return vg_swizzled(t, at + depth % 8 * t->line + depth / 8 * t->stride);
}

#endif
