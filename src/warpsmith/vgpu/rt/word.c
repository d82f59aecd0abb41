/* The commonest access, made short: a whole warp loads or stores one 32-bit word a lane, again as before.
 * SPDX-License-Identifier: Apache-2.0
 *
 * These handlers do nothing that vg_load and vg_store would not do: whatever is not a full warp, an
 * admitted repetition of the site's pattern, or needs counting or the sanitizer's eye, goes there.
 */
#include "check.h"
#include "window.h"

const VgOp *vg_op_load(const VgOp *o, VgWarp *w);
const VgOp *vg_op_store(const VgOp *o, VgWarp *w);

/* The running op's site's pattern when the fast way is open, and lane 0's host address. */
static inline VgPattern *repetition(const VgOp *o, VgWarp *w, int is_store, uint64_t *base) {
  const VgWorker *k = w->worker;
  if (w->mask != VG_FULL || k->check || k->launch->counting || !k->patterns || !k->memory) return NULL;
  const VgAccess *a = o->access;
  const uint64_t *address = (const uint64_t *)(((o->flags & VG_ADDRESS_FIXED) ? w->fixed : w->regs) + o->aux);
  VgPattern *p = (VgPattern *)k->patterns + a->site;
  if (!vg_same_pattern(p, address)) return NULL;
  *base = vg_admitted(w, a, p, ((const VgAllocation *const *)k->memory)[a->site], address[0], 4, is_store);
  return *base ? p : NULL;
}

const VgOp *vg_op_load_word(const VgOp *o, VgWarp *w) {
  uint64_t base;
  VgPattern *p = repetition(o, w, 0, &base);
  if (!p) return vg_op_load(o, w);
  uint32_t *to = (uint32_t *)(w->regs + o->a[0]);
  if (p->stride == 4) memcpy(to, (const void *)(uintptr_t)base, 4 * VG_LANES);
  else if (p->stride == 0) {
    uint32_t value = *(const uint32_t *)(uintptr_t)base;
    for (int l = 0; l < VG_LANES; l++) to[l] = value;
  } else if (!vg_load_word_window(p, base, to)) return vg_op_load(o, w);
  return o + 1;
}

const VgOp *vg_op_store_word(const VgOp *o, VgWarp *w) {
  uint64_t base;
  VgPattern *p = repetition(o, w, 1, &base);
  if (!p || p->stride != 4) return vg_op_store(o, w);
  const char *from = ((o->kinds & 1) ? w->fixed : w->regs) + o->a[0];
  memcpy((void *)(uintptr_t)base, from, 4 * VG_LANES);
  return o + 1;
}
