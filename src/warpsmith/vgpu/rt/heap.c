/* malloc and free in kernels, and memory that a function takes on its stack.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The heap begins with a lock and lists of what was freed: one for each size up to 1 KiB, one for the
 * rest. A block has 16 bytes in front that say its size and whether it is in use. Under the sanitizer
 * nothing is used again, so that a use after free shows.
 */
#include <stdio.h>
#include "check.h"

enum { SMALL = 64, FIRST = 1024, HEADER = 16, REDZONE = 16 };
static const uint32_t IN_USE = 0x5eed5eed, FREED = 0xdeadf9ee;

typedef struct Block { uint32_t units, state; uint64_t next; } Block;   /* units of 16 bytes; next: offset */
typedef struct Heap { uint32_t lock, reserved; uint64_t small[SMALL + 1], large; } Heap;
_Static_assert(sizeof(Block) == HEADER && sizeof(Heap) <= FIRST, "the heap's own part");

static void lock(Heap *h) { while (__atomic_exchange_n(&h->lock, 1, __ATOMIC_ACQUIRE)) {} }
static void unlock(Heap *h) { __atomic_store_n(&h->lock, 0, __ATOMIC_RELEASE); }

/* A freed block of this size, or of up to a quarter more where it is large. */
static Block *reused(Heap *h, char *heap, uint32_t units) {
  uint64_t *link = units <= SMALL ? &h->small[units] : &h->large;
  for (; *link; link = &((Block *)(heap + *link))->next) {
    Block *b = (Block *)(heap + *link);
    if (b->units < units || b->units > units + units / 4) continue;
    *link = b->next;
    return b;
  }
  return NULL;
}

static char *taken(const VgLaunch *L, uint64_t bytes, int reuse) {
  if (!L->heap || bytes > L->heap_bytes) return NULL;
  Heap *h = (Heap *)L->heap;
  uint32_t units = (uint32_t)((bytes + 15) / 16);
  lock(h);
  Block *b = reuse ? reused(h, L->heap, units) : NULL;
  uint64_t at = *L->heap_used < FIRST ? FIRST : *L->heap_used, end = at + HEADER + 16ull * units;
  if (!b && end <= L->heap_bytes) {
    b = (Block *)(L->heap + at), b->units = units;
    *L->heap_used = end;
  }
  if (b) b->state = IN_USE, b->next = 0;
  unlock(h);
  return b ? (char *)b + HEADER : NULL;
}

/* 0, or what is wrong with giving back p. */
static const char *given_back(const VgLaunch *L, char *p, int reuse) {
  if (!p) return NULL;
  uint64_t offset = (uint64_t)(p - L->heap);
  if (!L->heap || offset < FIRST + HEADER || offset > *L->heap_used || offset % 16)
    return "it frees a pointer that malloc() did not give";
  Heap *h = (Heap *)L->heap;
  Block *b = (Block *)(p - HEADER);
  lock(h);
  uint32_t state = b->state;
  if (state == IN_USE) {
    b->state = FREED;
    uint64_t *list = b->units <= SMALL ? &h->small[b->units] : &h->large;
    if (reuse) b->next = *list, *list = offset - HEADER;
  }
  unlock(h);
  return state == IN_USE ? NULL : state == FREED ? "it frees what is free already" : "it frees a pointer that malloc() did not give";
}

static uint64_t parameter(const VgOp *o, const VgWarp *w, int l) {
  return ((const uint64_t *)(w->regs + o->a[0]))[l];
}

const VgOp *vg_op_malloc(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  int checking = vg_checking(w) != 0;
  for (int l = 0; l < VG_LANES; l++) {
    if (!(mask >> l & 1)) continue;
    uint64_t asked = parameter(o, w, l);   /* under the sanitizer one past the end is nobody's */
    char *p = taken(w->worker->launch, asked + (checking ? REDZONE : 0), !checking);
    if (o->a[7] != VG_SINK) memcpy(w->regs + o->a[7] + 8 * l, &p, 8);
    if (checking) vg_check_malloc(w, o->site, (uint32_t)l, p, asked);
  }
  return o + 1;
}

const VgOp *vg_op_free(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  int checking = vg_checking(w) != 0;
  for (int l = 0; l < VG_LANES && !w->worker->stop; l++) {
    if (!(mask >> l & 1)) continue;
    char *p = (char *)(uintptr_t)parameter(o, w, l);
    if (checking) vg_check_free(w, o->site, (uint32_t)l, p);
    if (w->worker->stop) break;
    const char *wrong = given_back(w->worker->launch, p, !checking);
    uint32_t kind = wrong && strstr(wrong, "already") ? VG_FAULT_DOUBLE_FREE : VG_FAULT_INVALID_FREE;
    if (wrong && !checking && vg_fault(w, kind, o->site, 1u << l))
      snprintf(w->worker->fault.text, sizeof w->worker->fault.text, "%s", wrong);
  }
  return w->worker->stop ? NULL : o + 1;
}

/* ------------------------------------------------------------------------------- the stack
 * alloca: a[0] result, a[1] bytes, a[2] alignment, a[3] bytes of a result's lane. All lanes of the
 * frame share one end, so that a lane never gets what another alloca of its own gave it.
 */

static uint64_t lane_value(const VgOp *o, const VgWarp *w, int i, int l) {
  const char *base = (o->kinds >> i & 1 ? w->fixed : w->regs) + o->a[i];
  return o->a[3] == 4 ? ((const uint32_t *)base)[l] : ((const uint64_t *)base)[l];
}

static void spread(const VgOp *o, VgWarp *w, uint32_t mask, uint64_t value) {
  for (int l = 0; l < VG_LANES; l++) {
    if (!(mask >> l & 1)) continue;
    if (o->a[3] == 4) ((uint32_t *)(w->regs + o->a[0]))[l] = (uint32_t)value;
    else ((uint64_t *)(w->regs + o->a[0]))[l] = value;
  }
}

const VgOp *vg_op_alloca(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  VgFrame *f = (VgFrame *)w->regs;
  uint64_t most = 0, align = o->a[2] < 16 ? 16 : o->a[2];
  for (int l = 0; l < VG_LANES; l++)
    if (mask >> l & 1 && lane_value(o, w, 1, l) > most) most = lane_value(o, w, 1, l);
  uint64_t begin = (f->local + f->local_bytes + align - 1) / align * align;
  if (most > w->local_stride || begin + most > w->local_stride) {
    vg_fault(w, VG_FAULT_STACK_OVERFLOW, o->site, mask);
    return NULL;
  }
  f->local_bytes = begin + most - f->local;
  if (mask && vg_checking(w)) vg_check_frame(w, mask, begin, most);
  spread(o, w, mask, begin);
  return o + 1;
}

const VgOp *vg_op_stacksave(const VgOp *o, VgWarp *w) {
  const VgFrame *f = (const VgFrame *)w->regs;
  spread(o, w, vg_active(o, w), f->local + f->local_bytes);
  return o + 1;
}

/* Gives back only where no other lanes of the frame run: they may have taken memory since. */
const VgOp *vg_op_stackrestore(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  if (!mask || mask != w->mask) return o + 1;
  for (uint32_t g = 0; g < w->groups; g++)
    if (w->group[g].regs == w->regs) return o + 1;
  VgFrame *f = (VgFrame *)w->regs;
  uint64_t end = 0;
  for (int l = 0; l < VG_LANES; l++)
    if (mask >> l & 1 && lane_value(o, w, 1, l) > end) end = lane_value(o, w, 1, l);
  if (end >= f->local && end <= f->local + f->local_bytes) f->local_bytes = end - f->local;
  return o + 1;
}
