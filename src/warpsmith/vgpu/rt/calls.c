/* Calls: frames, results, function pointers, and the system functions a kernel may call.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A call description (o->more) is: target op, frame bytes, local bytes, number of parameters,
 * {from offset in the caller, to offset in the callee, bytes}…, number of results,
 * {from offset in the callee, to offset in the caller, bytes}…; a parameter of `bytes` per lane
 * takes 32 * bytes of the frame, lane after lane.
 */
#include <stdio.h>
#include <stdlib.h>
#include "check.h"

enum { TARGET, FRAME_BYTES, LOCAL_BYTES, PARAMETERS, HEAD };

static const VgFrame *frame(const char *regs) { return (const VgFrame *)regs; }

static void copy_lanes(char *to, const char *from, uint32_t bytes, uint32_t mask) {
  for (uint32_t l = 0; l < VG_LANES; l++)
    if (mask >> l & 1) memcpy(to + l * bytes, from + l * bytes, bytes);
}

static char *frames_end(const VgWarp *w) {
  char *end = w->regs + frame(w->regs)->bytes;
  for (uint32_t i = 0; i < w->groups; i++) {
    char *other = w->group[i].regs + frame(w->group[i].regs)->bytes;
    if (other > end) end = other;
  }
  return end;
}

static uint64_t locals_end(const VgWarp *w) {
  uint64_t end = frame(w->regs)->local + frame(w->regs)->local_bytes;
  for (uint32_t i = 0; i < w->groups; i++) {
    const VgFrame *f = frame(w->group[i].regs);
    if (f->local + f->local_bytes > end) end = f->local + f->local_bytes;
  }
  return (end + 15) / 16 * 16;
}

static const VgOp *enter_call(const VgOp *o, VgWarp *w, const uint32_t *call, uint32_t lanes) {
  char *callee = w->stack + (frames_end(w) - w->stack + 63) / 64 * 64;
  uint64_t local = locals_end(w);
  if (callee + call[FRAME_BYTES] > w->stack_end || local + call[LOCAL_BYTES] > w->local_stride) {
    vg_fault(w, VG_FAULT_STACK_OVERFLOW, o->site, lanes);
    return NULL;
  }
  uint32_t others = w->mask & ~lanes;
  if (others) w->group[w->groups++] = (VgGroup){o + 1, w->regs, others, w->depth, VG_READY, 0, ++w->ages};
  *(VgFrame *)callee = (VgFrame){o + 1, w->regs, call, call[FRAME_BYTES], local, call[LOCAL_BYTES], {0}};
  const uint32_t *p = call + HEAD;
  for (uint32_t i = 0; i < call[PARAMETERS]; i++, p += 3) copy_lanes(callee + p[1], w->regs + p[0], p[2], lanes);
  if (vg_checking(w)) vg_check_frame(w, lanes, local, call[LOCAL_BYTES]);
  w->mask = lanes, w->regs = callee, w->depth++;
  vg_order(w);
  return w->ops + call[TARGET];
}

const VgOp *vg_op_call(const VgOp *o, VgWarp *w) {
  uint32_t lanes = vg_active(o, w);
  if (!lanes) return o + 1;
  if (--w->breath == 0 && vg_budget(w, o)) return NULL;
  return enter_call(o, w, o->more, lanes);
}

/* call through a pointer: a[0] the 64-bit addresses; o->more: count, {function address low, high,
 * offset of its call description in o->more}…. Lanes with equal addresses go together. */
const VgOp *vg_op_call_pointer(const VgOp *o, VgWarp *w) {
  uint32_t lanes = vg_active(o, w), same = 0;
  if (!lanes) return o + 1;
  const uint64_t *address = (const uint64_t *)(w->regs + o->a[0]);
  uint64_t wanted = address[__builtin_ctz(lanes)];
  for (uint32_t l = 0; l < VG_LANES; l++)
    if ((lanes >> l & 1) && address[l] == wanted) same |= 1u << l;
  if (lanes & ~same) {   /* the rest come back to this op */
    w->group[w->groups++] = (VgGroup){o, w->regs, lanes & ~same, w->depth, VG_READY, 0, ++w->ages};
    w->mask &= ~(lanes & ~same);
  }
  const uint32_t *entry = o->more + 1;
  for (uint32_t i = 0; i < o->more[0]; i++, entry += 3)
    if ((entry[0] | (uint64_t)entry[1] << 32) == wanted) return enter_call(o, w, o->more + entry[2], same);
  vg_fault(w, VG_FAULT_ILLEGAL_ACCESS, o->site, same);
  return NULL;
}

const VgOp *vg_op_ret(const VgOp *o, VgWarp *w) {
  uint32_t lanes = vg_active(o, w), others = w->mask & ~lanes;
  if (!lanes) return o + 1;
  const VgFrame f = *frame(w->regs);
  if (others) w->group[w->groups++] = (VgGroup){o + 1, w->regs, others, w->depth, VG_READY, 0, ++w->ages};
  const uint32_t *p = f.call + HEAD + 3 * f.call[PARAMETERS];
  for (uint32_t i = *p++; i; i--, p += 3) copy_lanes(f.caller + p[1], w->regs + p[0], p[2], lanes);
  w->mask = lanes, w->regs = f.caller, w->depth--;
  vg_order(w);
  return f.return_op;
}

/* -------------------------------------------------------------------------- system functions
 * o->a[i] is the frame offset of parameter i (8 bytes a lane unless said), a[7] of the result.
 */

static uint64_t parameter(const VgOp *o, const VgWarp *w, int i, int l, uint32_t bytes) {
  uint64_t value = 0;
  memcpy(&value, w->regs + o->a[i] + (uint32_t)l * bytes, bytes);
  return value;
}

void vg_print(VgWorker *k, const char *text, uint64_t bytes) {
  if (k->printed_bytes + bytes + 1 > k->printed_room) {
    uint64_t wanted = 2 * (k->printed_bytes + bytes + 4096);
    char *more = realloc(k->printed, wanted);
    if (!more) return;
    k->printed = more, k->printed_room = wanted;
  }
  memcpy(k->printed + k->printed_bytes, text, bytes);
  k->printed_bytes += bytes;
  k->printed[k->printed_bytes] = 0;
}

static const char *field(const char *at, uint32_t bytes, uint64_t *used) {
  *used = (*used + bytes - 1) / bytes * bytes;
  const char *p = at + *used;
  *used += bytes;
  return p;
}

/* One conversion of a format, `spec` from '%' to its letter; returns characters written. */
static int convert(char *out, size_t room_left, char *spec, size_t length, const char *buffer, uint64_t *used) {
  char letter = spec[length - 1];
  if (strchr("eEfFgGaA", letter)) {
    double v;
    memcpy(&v, field(buffer, 8, used), 8);
    return snprintf(out, room_left, spec, v);
  }
  if (letter == 's') {
    const char *s;
    memcpy(&s, field(buffer, 8, used), 8);
    return snprintf(out, room_left, spec, s ? s : "(null)");
  }
  if (letter == 'p' || strchr(spec, 'l') || strchr(spec, 'z') || strchr(spec, 'j')) {
    long long v;
    memcpy(&v, field(buffer, 8, used), 8);
    return letter == 'p' ? snprintf(out, room_left, spec, (void *)(uintptr_t)v) : snprintf(out, room_left, spec, v);
  }
  int v;
  memcpy(&v, field(buffer, 4, used), 4);
  return snprintf(out, room_left, spec, v);
}

/* The conversion at p with each `*` replaced by its argument; returns its length. */
static size_t filled(char *spec, size_t room_left, const char *p, size_t n, const char *buffer, uint64_t *used) {
  size_t length = 0;
  for (size_t i = 0; i < n && length + 12 < room_left; i++) {
    if (p[i] != '*') { spec[length++] = p[i]; continue; }
    int value;
    memcpy(&value, field(buffer, 4, used), 4);
    length += (size_t)snprintf(spec + length, room_left - length, "%d", value);
  }
  spec[length] = 0;
  return length;
}

static int print_one(VgWorker *k, const char *format, const char *buffer) {
  char out[1024], spec[64];
  uint64_t used = 0;
  int conversions = 0;
  for (const char *p = format; *p;) {
    if (*p != '%') {
      const char *end = strchr(p, '%');
      size_t n = end ? (size_t)(end - p) : strlen(p);
      vg_print(k, p, n), p += n;
      continue;
    }
    size_t n = 1 + strspn(p + 1, "-+ #0123456789.*hljztL");
    if (p[n] == '%' || !p[n] || n + 2 > sizeof spec) {
      vg_print(k, "%", 1), p += p[n] ? n + 1 : n;
      continue;
    }
    size_t length = filled(spec, sizeof spec, p, n + 1, buffer, &used);
    int written = convert(out, sizeof out, spec, length, buffer, &used);
    if (written > 0) vg_print(k, out, written < (int)sizeof out ? (uint64_t)written : sizeof out - 1);
    conversions++, p += n + 1;
  }
  return conversions;
}

const VgOp *vg_op_vprintf(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  for (int l = 0; l < VG_LANES; l++) {
    if (!(mask >> l & 1)) continue;
    const char *format = (const char *)(uintptr_t)parameter(o, w, 0, l, 8);
    const char *buffer = (const char *)(uintptr_t)parameter(o, w, 1, l, 8);
    int32_t n = print_one(w->worker, format, buffer);
    if (o->a[7] != VG_SINK) memcpy(w->regs + o->a[7] + 4 * l, &n, 4);
  }
  return o + 1;
}

/* __assertfail(message, file, line (4 bytes), function, char size) */
const VgOp *vg_op_assertfail(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  if (!mask) return o + 1;
  int l = __builtin_ctz(mask);
  const char *message = (const char *)(uintptr_t)parameter(o, w, 0, l, 8);
  const char *file = (const char *)(uintptr_t)parameter(o, w, 1, l, 8);
  const char *function = (const char *)(uintptr_t)parameter(o, w, 3, l, 8);
  if (vg_fault(w, VG_FAULT_ASSERT, o->site, mask))
    snprintf(w->worker->fault.text, sizeof w->worker->fault.text, "%s:%u: %s: Assertion `%s' failed",
             file ? file : "?", (uint32_t)parameter(o, w, 2, l, 4), function ? function : "?", message ? message : "?");
  return NULL;
}
