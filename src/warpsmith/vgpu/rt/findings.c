/* Findings of the sanitizer: one row for each distinct problem, and how often it was seen.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "order.h"

static void index_of(const VgLaunch *L, uint32_t number, uint32_t out[3]) {
  out[0] = number % L->grid[0], out[1] = number / L->grid[0] % L->grid[1];
  out[2] = number / (L->grid[0] * L->grid[1]);
}

static void thread_of(const VgLaunch *L, uint32_t thread, uint32_t out[3]) {
  out[0] = thread % L->block[0], out[1] = thread / L->block[0] % L->block[1];
  out[2] = thread / (L->block[0] * L->block[1]);
}

/* The thread behind a mark. A copy engine has none of its own: its lane issued the copy. */
static VgParty party_of(const Check *c, uint32_t mark, uint32_t deed) {
  const VgLaunch *L = c->worker->launch;
  const Event *e = &c->log[mark >> MARK_SHIFT];
  VgParty p = {.site = e->site, .deed = deed, .lane = mark & MARK_LANE};
  uint32_t unit = c->warps + PSEUDO;   /* the first warp's matrix unit */
  p.warp = e->agent < c->warps ? e->agent : e->agent >= unit ? e->agent - unit : 0;
  if (mark & MARK_ASYNC && deed != VG_DID_READ) p.deed = VG_DID_COPY;
  else if (mark & MARK_ATOMIC) p.deed = deed == VG_DID_READ ? VG_DID_READ : VG_DID_ATOMIC;
  index_of(L, e->block, p.block);
  thread_of(L, p.warp * VG_LANES + p.lane, p.thread);
  return p;
}

static VgFinding *row_of(VgWorker *k, const VgFinding *f) {
  for (uint32_t i = 0; i < k->finding_count; i++) {
    VgFinding *g = &k->findings[i];
    if (g->kind == f->kind && g->severity == f->severity && g->who.site == f->who.site &&
        g->other.site == f->other.site && g->other.deed == f->other.deed && g->space == f->space)
      return g;
  }
  return NULL;
}

static void keep(VgWorker *k, const VgFinding *f) {
  VgFinding *old = row_of(k, f);
  if (old) {
    old->count += f->count;
    return;
  }
  uint32_t alike = 0, info = f->severity == VG_INFO;   /* information does not end a launch */
  for (uint32_t i = 0; i < k->finding_count; i++) alike += (k->findings[i].severity == VG_INFO) == info;
  if (alike >= k->launch->max_findings) return;
  k->findings[k->finding_count++] = *f;
  if (!info && alike + 1 == k->launch->max_findings) k->stop = 1;
}

void check_report(VgWarp *w, const Report *r) {
  Check *c = check_of(w);
  uint32_t lanes = r->lanes ? r->lanes : 1u << r->lane;
  VgFinding f = {.kind = r->kind, .severity = r->severity, .space = r->space, .bytes = r->bytes,
                 .lanes = lanes, .hint = r->hint, .address = r->address, .limit = r->limit,
                 .count = (uint64_t)__builtin_popcount(lanes)};
  f.who = (VgParty){.site = r->site, .deed = r->deed, .warp = w->index, .lane = r->lane};
  memcpy(f.who.block, w->block->index, sizeof f.who.block);
  thread_of(w->worker->launch, w->index * VG_LANES + r->lane, f.who.thread);
  if (r->other >> MARK_SHIFT >= EVENT_FIRST) f.other = party_of(c, r->other, r->other_deed);
  if (r->waits) {
    f.other = (VgParty){.site = r->other_site, .deed = VG_DID_WAIT, .warp = r->other_warp, .lane = r->other_lane};
    memcpy(f.other.block, w->block->index, sizeof f.other.block);
    thread_of(c->worker->launch, r->other_warp * VG_LANES + r->other_lane, f.other.thread);
  }
  keep(c->worker, &f);
}
