/* 128-bit registers, and clusterlaunchcontrol, which answers in one (sm_100).
 * SPDX-License-Identifier: Apache-2.0
 *
 * A .b128 register is two uint64_t for each lane. The answer to try_cancel is 16 bytes that PTX calls
 * opaque: here whether a cluster was taken, then the index of its first block. */
#include "collective.h"

static char *lanes(const VgOp *o, const VgWarp *w, int i) {
  return o->a[i] == VG_SINK ? NULL : ((o->kinds >> i & 1) ? w->fixed : w->regs) + o->a[i];
}

#define EACH(mask) for (int l = 0; l < VG_LANES; l++) if ((mask) >> l & 1)

/* a[0] = {a[1], …}: imm parts of aux bytes; one part of 16 bytes is a copy. */
const VgOp *vg_op_pack128(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w), bytes = o->aux;
  for (uint32_t part = 0; part < o->imm; part++)
    EACH(mask) memcpy(lanes(o, w, 0) + 16 * l + part * bytes, lanes(o, w, 1 + (int)part) + bytes * (uint32_t)l, bytes);
  return o + 1;
}

/* {a[1], …} = a[0] */
const VgOp *vg_op_unpack128(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w), bytes = o->aux;
  uint64_t from[2 * VG_LANES];
  memcpy(from, lanes(o, w, 0), sizeof from);
  for (uint32_t part = 0; part < o->imm; part++) {
    char *to = lanes(o, w, 1 + (int)part);
    if (to) EACH(mask) memcpy(to + bytes * (uint32_t)l, (char *)from + 16 * l + part * bytes, bytes);
  }
  return o + 1;
}

/* {a[1], …} = words imm, imm + 1, … of the answer in a[0]; aux: how many. */
const VgOp *vg_op_query_cancel(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  for (uint32_t i = 0; i < o->aux; i++) {
    uint32_t *to = (uint32_t *)lanes(o, w, 1 + (int)i);
    if (to) EACH(mask) to[l] = ((const uint32_t *)lanes(o, w, 0))[4 * l + (uint32_t)o->imm + i];
  }
  return o + 1;
}

static int answer(VgWarp *w, uint32_t site, uint32_t lane, const uint32_t words[4], uint64_t at,
                  uint64_t barrier) {
  uint32_t values[4][VG_LANES];
  uint64_t address[VG_LANES] = {0};
  const void *source[4];
  address[lane] = at;
  for (uint32_t i = 0; i < 4; i++) values[i][lane] = words[i], source[i] = values[i];
  VgAccess a = {.site = site, .space = VG_GENERIC, .bytes = 4, .count = 4, .reg_bytes = 4};
  return vg_store(w, &a, 1u << lane, address, source) || vg_mbarrier_complete(w, site, lane, barrier, 16);
}

int vg_try_cancel(VgWarp *w, uint32_t site, uint32_t lane, uint64_t at, uint64_t barrier, int all) {
  uint32_t words[4] = {0};
  words[0] = (uint32_t)vg_take_cluster(w->worker, words + 1);
  if (!all) return answer(w, site, lane, words, at, barrier);
  uint64_t base = (uint64_t)(uintptr_t)w->block->shared;
  const uint32_t *shape = w->worker->launch->cluster;
  for (uint64_t rank = 0; rank < (uint64_t)shape[0] * shape[1] * shape[2]; rank++) {
    uint64_t there = vg_cluster_address(w, (rank + 1) << 24);
    if (answer(w, site, lane, words, at - base + there, barrier - base + there)) return 1;
  }
  return 0;
}
