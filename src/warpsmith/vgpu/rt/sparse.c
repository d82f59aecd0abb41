/* Structured sparsity: where the elements of a packed row belong, by the metadata of a quad's lanes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A chunk of a row has four bits: two indices of two bits. 16- and 8-bit elements: two of four. 4-bit:
 * two pairs of four pairs. tf32: one of two, as 0b0100 or 0b1110. A row has 16, 32 or 64 bits:
 *   16- and 32-bit elements: a lane holds 16 bits of row g below 16 bits of row g + 8; the selector
 *   names the lane (16 bits a row) or the pair of lanes (32 bits a row) of quad g;
 *   8- and 4-bit elements: a lane holds 32 bits of one row, even lanes of row g, odd ones of row g + 8;
 *   the selector names the pair of lanes where a row has 32 bits.
 * (PTX ISA, Sparse matrix storage; metadata figures of mma.sp.)
 */
#include "mma.h"

static uint32_t chunk_elements(VgElement e) {
  uint32_t bits = vg_element_bits(e);
  return bits == 32 ? 2 : bits == 4 ? 8 : 4;
}

static uint32_t nibble(VgElement e, uint32_t chunks, const uint32_t *meta, uint32_t selector,
                       uint32_t row, uint32_t c) {
  uint32_t quad = row % 8 * 4, high = row / 8;
  if (vg_element_bits(e) >= 16) {
    uint32_t lane = chunks == 4 ? selector : 2 * selector + c / 4;
    return meta[quad + lane] >> (16 * high + 4 * (c % 4)) & 15;
  }
  uint32_t lane = chunks == 8 ? 2 * selector + high : high + 2 * (c / 8);
  return meta[quad + lane] >> 4 * (c % 8) & 15;
}

void vg_expand(VgElement e, uint32_t k, const uint32_t *meta, uint32_t selector,
               const uint32_t *packed, uint32_t ld_packed, uint32_t *out, uint32_t ld) {
  uint32_t width = chunk_elements(e), chunks = k / width;
  for (uint32_t row = 0; row < 16; row++, packed += ld_packed, out += ld) {
    memset(out, 0, k * sizeof *out);
    for (uint32_t c = 0; c < chunks; c++) {
      uint32_t n = nibble(e, chunks, meta, selector, row, c), first = n & 3, second = n >> 2;
      const uint32_t *from = packed + c * width / 2;
      uint32_t *to = out + c * width;
      switch (width) {
        case 2: to[first >> 1] = from[0]; break;
        case 4: to[first] = from[0], to[second] = from[1]; break;
        default:
          to[2 * first] = from[0], to[2 * first + 1] = from[1];
          to[2 * second] = from[2], to[2 * second + 1] = from[3];
      }
    }
  }
}
