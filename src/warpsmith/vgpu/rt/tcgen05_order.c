/* Which columns of tensor memory an asynchronous tcgen05 instruction may still touch.
 * SPDX-License-Identifier: Apache-2.0
 *
 * mma, cp and shift of one block end in the order of their issue. A commit names an mbarrier; whoever
 * has waited for it knows that all before the commit has ended. Until then tcgen05.ld must not read
 * what they write, nor tcgen05.st change what they read. */
#include "tcgen05.h"

uint32_t vg_tmem_issue(VgBlock *issuer) {
  VgTensor *t = issuer->tensor;
  return t ? ++t->issued : 0;
}

void vg_tmem_touch(VgTensor *t, const VgBlock *issuer, uint32_t halves, uint32_t column,
                   uint32_t columns, int writes) {
  const VgTensor *by = issuer->tensor;
  for (uint32_t half = 0; half < 2 && by; half++)
    for (uint32_t c = column; halves >> half & 1 && c < column + columns && c < VG_TENSOR_COLUMNS; c++)
      (writes ? t->written : t->read)[half][c] = (VgPending){issuer, by->issued};
}

void vg_tmem_committed(const VgBlock *issuer, uint64_t barrier) {
  VgTensor *t = issuer->tensor;
  if (!t) return;
  if (t->commits == VG_TENSOR_COMMITS) { /* forget the oldest: as if it had been waited for */
    if (t->commit[0].number > t->ended) t->ended = t->commit[0].number;
    memmove(t->commit, t->commit + 1, --t->commits * sizeof *t->commit);
  }
  t->commit[t->commits++] = (VgCommit){barrier, t->issued};
}

void vg_tmem_waited(const VgWarp *w, uint64_t barrier) {
  const uint32_t *shape = w->worker->launch->cluster;
  uint32_t size = shape[0] * shape[1] * shape[2], first = w->block->resident / size * size;
  for (uint32_t s = first; s < first + size && s < w->worker->launch->resident_blocks; s++) {
    VgTensor *t = w->worker->resident[s].tensor;
    for (uint32_t i = 0; t && i < t->commits;) {
      if (t->commit[i].barrier != barrier) {
        i++;
        continue;
      }
      if (t->commit[i].number > t->ended) t->ended = t->commit[i].number;
      t->commit[i] = t->commit[--t->commits];
    }
  }
}

static int running(const VgPending *p) {
  const VgTensor *by = p->by ? p->by->tensor : NULL;
  return by && p->number > by->ended;
}

int vg_tmem_settled(VgWarp *w, uint32_t site, uint32_t mask, const VgTensor *t, uint32_t halves,
                    uint32_t column, uint32_t columns, int writes) {
  for (uint32_t half = 0; half < 2; half++)
    for (uint32_t c = column; halves >> half & 1 && c < column + columns; c++) {
      int written = running(&t->written[half][c]);
      if (!written && !(writes && running(&t->read[half][c]))) continue;
      return vg_tmem_fault(w, VG_FAULT_ASYNC_COPY, site, mask,
                           "column %u of tensor memory is still %s by a tcgen05 instruction whose commit nobody has waited for",
                           c, written ? "written" : "read");
    }
  return 0;
}

void vg_tmem_forget(VgTensor *t) {
  memset(t->written, 0, sizeof t->written), memset(t->read, 0, sizeof t->read);
  t->issued = t->ended = t->commits = 0;
}
