/* Handlers of texture and surface instructions, and the table of what their handles stand for.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>
#include "texture.h"

/* ------------------------------------------------------------------------------- handles
 * A handle is a tag that no address has, the times its slot was given out, and the slot.
 */
enum { SLOTS = 1 << 16 };
static const uint64_t TAG = 0x7d00000000000000u;
static const VgTexture *slots[SLOTS];
static uint32_t uses[SLOTS];
static uint32_t next_slot;

uint64_t vg_texture_size(void) { return sizeof(VgTexture); }

uint64_t vg_texture_open(const VgTexture *texture) {
  for (uint32_t tries = 0; tries < SLOTS; tries++) {
    uint32_t slot = next_slot++ % SLOTS;
    if (slots[slot]) continue;
    slots[slot] = texture, uses[slot]++;
    return TAG | (uint64_t)(uses[slot] & 0xffffff) << 16 | slot;
  }
  return 0;
}

const VgTexture *vg_texture_of(uint64_t handle) {
  uint32_t slot = handle & (SLOTS - 1), use = handle >> 16 & 0xffffff;
  return handle >> 40 == TAG >> 40 && (uses[slot] & 0xffffff) == use ? slots[slot] : NULL;
}

void vg_texture_close(uint64_t handle) {
  if (vg_texture_of(handle)) slots[handle & (SLOTS - 1)] = NULL;
}

/* ------------------------------------------------------------------------------- operands */

static void *slot(const VgOp *o, const VgWarp *w, uint32_t i) {
  uint32_t offset = o->more[VG_FETCH_HEAD + i];
  if (offset == VG_SINK) return NULL;
  return (o->more[VG_FETCH_FIXED] >> i & 1 ? w->fixed : w->regs) + offset;
}

static int failed(VgWarp *w, const VgOp *o, int l, uint32_t kind, const char *text) {
  if (vg_fault(w, kind, o->site, 1u << l)) snprintf(w->worker->fault.text, sizeof w->worker->fault.text, "%s", text);
  return 1;
}

/* What a lane's handle stands for, NULL after a fault. A module's own `.texref` holds its handle. */
static const VgTexture *texture_at(const VgOp *o, VgWarp *w, int l, const uint64_t *handles, uint32_t is_store) {
  uint64_t handle = handles[l];
  if (o->kinds) memcpy(&handle, (const void *)(uintptr_t)handle, sizeof handle);
  const VgTexture *t = vg_texture_of(handle);
  uint32_t wanted = o->more[VG_FETCH_GEOMETRY];
  if (!t) {
    failed(w, o, l, VG_FAULT_ILLEGAL_ACCESS,
           o->kinds ? "it uses a texture reference that nothing was bound to (Module.bind)"
                    : "its handle is no texture or surface, or of one that was closed");
    return NULL;
  }
  int surface = is_store != 2, cube_as_layers = surface && wanted == VG_A2D && t->geometry >= VG_CUBE;
  if (wanted != VG_SLOTS && t->geometry != wanted && !cube_as_layers) {
    static const char *const name[] = {"1d", "2d", "3d", "a1d", "a2d", "cube", "acube"};
    char text[96];
    snprintf(text, sizeof text, "it fetches as %s from what is %s", name[wanted], name[t->geometry]);
    failed(w, o, l, VG_FAULT_ILLEGAL_ACCESS, text);
    return NULL;
  }
  if (surface ? !t->writable : !t->sampled) {
    failed(w, o, l, VG_FAULT_ILLEGAL_ACCESS, surface ? "the handle is a texture's, it needs a surface's"
                                                     : "the handle is a surface's, it needs a texture's");
    return NULL;
  }
  return t;
}

static void count(VgWarp *w, const VgOp *o, uint32_t mask, uint64_t bytes) {
  if (!w->worker->launch->counting) return;
  VgSite *site = &w->worker->sites[o->site];
  uint64_t lanes = (uint64_t)__builtin_popcount(mask);
  site->requests++, site->bytes += lanes * bytes;
  if (!(o->flags & VG_COUNTED)) site->threads += lanes;
}

/* ------------------------------------------------------------------------------- textures */

static void put(void *lanes, int l, uint32_t bytes, uint32_t value) {
  if (bytes == 2) ((uint16_t *)lanes)[l] = (uint16_t)value;
  else if (bytes == 8) ((uint64_t *)lanes)[l] = value;
  else ((uint32_t *)lanes)[l] = value;
}

/* Four channels, as the instruction's type has them, to the lanes of its results. */
static void give(const VgOp *o, VgWarp *w, int l, VgTexelValue v) {
  uint32_t type = o->more[VG_FETCH_TYPE], bytes = o->more[VG_FETCH_LANE_BYTES];
  uint32_t packed = type == VG_F16X2;
  for (uint32_t i = 0; i < o->more[VG_FETCH_COUNT]; i++) {
    void *lanes = slot(o, w, VG_S_DATA + i);
    if (!lanes) continue;
    uint32_t value = v.u[i];
    if (type == VG_F16) value = vg_float_to_half(v.f[i]);
    if (packed) value = vg_float_to_half(v.f[2 * i]) | (uint32_t)vg_float_to_half(v.f[2 * i + 1]) << 16;
    put(lanes, l, bytes, value);
  }
  uint32_t *resident = slot(o, w, VG_S_RESIDENT);
  if (resident) resident[l] = 1;
}

typedef struct Place {   /* of one lane's fetch */
  uint32_t layer;
  float at[3];
  int64_t texel[3];
  int32_t shift[3];
} Place;

static int layered(uint32_t geometry) { return geometry == VG_A1D || geometry == VG_A2D || geometry == VG_ACUBE; }

static Place place_of(const VgOp *o, const VgWarp *w, int l, const VgTexture *t) {
  Place p = {0};
  uint32_t geometry = t->geometry, first = layered(geometry), floats = o->more[VG_FETCH_FLOAT];
  for (uint32_t i = 0; i < 3; i++) {
    const uint32_t *lanes = i + first < 4 ? slot(o, w, VG_S_COORD + first + i) : NULL;
    const int32_t *shift = slot(o, w, VG_S_SHIFT + i);
    if (shift) p.shift[i] = shift[l];
    if (!lanes) continue;
    memcpy(&p.at[i], &lanes[l], 4);
    p.texel[i] = (int64_t)(int32_t)lanes[l] + p.shift[i];
  }
  if (first) {
    uint32_t layer = ((const uint32_t *)slot(o, w, VG_S_COORD))[l], layers = t->layers;
    p.layer = layer < layers ? layer : layers - 1;
  }
  if (geometry >= VG_CUBE && floats) {
    float face_at[2];
    p.layer = p.layer * 6 + vg_cube_face(p.at, face_at);
    p.at[0] = face_at[0], p.at[1] = face_at[1];
  }
  return p;
}

static float lane_float(const VgOp *o, const VgWarp *w, uint32_t i, int l) {
  const float *lanes = slot(o, w, i);
  return lanes ? lanes[l] : 0.0f;
}

/* The level of detail of gradients: how many texels the longer of both steps spans. */
static float level_of_gradients(const VgOp *o, const VgWarp *w, int l, const VgTexture *t) {
  const float size[3] = {t->level[0].width, t->level[0].height, t->level[0].depth};
  float length[2] = {0, 0};
  for (uint32_t step = 0; step < 2; step++)
    for (uint32_t i = 0; i < 3; i++) {
      float d = lane_float(o, w, VG_S_LOD + 3 * step + i, l) * (t->normalized ? size[i] : 1.0f);
      length[step] += d * d;
    }
  return 0.5f * log2f(fmaxf(length[0], length[1]));
}

/* Reading integers as f32 without read="normalized" would give their bits as a float. */
static int mistyped(const VgOp *o, const VgTexture *t) {
  uint32_t type = o->more[VG_FETCH_TYPE];
  int wants_float = type == VG_F32 || type == VG_F16 || type == VG_F16X2;
  return wants_float && t->format < VG_T_F16 && !t->scaled;
}

const VgOp *vg_op_tex(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w), mode = o->more[VG_FETCH_MODE], bytes = 0;
  const uint64_t *handles = slot(o, w, VG_S_HANDLE);
  for (int l = 0; l < VG_LANES && mask; l++) {
    if (!(mask >> l & 1)) continue;
    const VgTexture *t = texture_at(o, w, l, handles, 2);
    if (!t) return NULL;
    if (mistyped(o, t) && failed(w, o, l, VG_FAULT_ILLEGAL_ACCESS,
                                 "it reads floats from a texture of integers, which needs read=\"normalized\""))
      return NULL;
    Place p = place_of(o, w, l, t);
    float level = mode == VG_FETCH_LEVEL && o->more[VG_FETCH_FLOAT] ? lane_float(o, w, VG_S_LOD, l)
                  : mode == VG_FETCH_GRAD                            ? level_of_gradients(o, w, l, t)
                                                                     : 0.0f;
    const uint32_t *whole = mode == VG_FETCH_LEVEL ? slot(o, w, VG_S_LOD) : NULL;
    VgTexelValue v = mode == VG_FETCH_GATHER ? vg_gather(t, p.layer, p.at, p.shift, o->more[VG_FETCH_EXTRA])
                     : o->more[VG_FETCH_FLOAT] ? vg_sample(t, p.layer, p.at, p.shift, level)
                                               : vg_texel(t, p.layer, p.texel, whole ? whole[l] : 0);
    give(o, w, l, v);
    bytes = t->texel_bytes;
  }
  if (mask) count(w, o, mask, bytes);
  return o + 1;
}

/* txq and suq: EXTRA is the number of the query in vgpu/isa/texture.py. */
enum { Q_WIDTH, Q_HEIGHT, Q_DEPTH, Q_LAYERS, Q_LEVELS, Q_SAMPLES, Q_NORMALIZED, Q_FORCED, Q_FILTER, Q_ADDRESS_0,
       Q_ADDRESS_1, Q_ADDRESS_2, Q_TYPE, Q_ORDER, Q_LAYOUT };

static uint32_t answer(const VgTexture *t, uint32_t query, uint32_t level) {
  static const uint16_t order[] = {0, 0x10b0, 0x10b2, 0, 0x10b5};
  static const uint16_t plain[] = {0x10da, 0x10d7, 0x10db, 0x10d8, 0x10dc, 0x10d9, 0x10dd, 0x10de};
  static const uint16_t scaled[] = {0x10d2, 0x10d0, 0x10d3, 0x10d1};
  static const uint8_t address[] = {0, 1, 3, 4};
  const VgLevel *v = &t->level[level < t->levels ? level : t->levels - 1];
  switch (query) {
  case Q_WIDTH: return v->width;
  case Q_HEIGHT: return v->height;
  case Q_DEPTH: return v->depth;
  case Q_LAYERS: return t->layers;
  case Q_LEVELS: return t->levels;
  case Q_SAMPLES: return 1;
  case Q_NORMALIZED: return t->normalized != 0;
  case Q_FORCED: return 0;
  case Q_FILTER: return t->linear;
  case Q_TYPE: return t->scaled ? scaled[t->format] : plain[t->format];
  case Q_ORDER: return order[t->channels];
  case Q_LAYOUT: return 0;
  }
  return address[t->addressing[query - Q_ADDRESS_0]];
}

const VgOp *vg_op_texture_query(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  const uint64_t *handles = slot(o, w, VG_S_HANDLE);
  uint32_t *out = slot(o, w, VG_S_DATA);
  const uint32_t *level = slot(o, w, VG_S_LOD);
  for (int l = 0; l < VG_LANES; l++) {
    if (!(mask >> l & 1)) continue;
    const VgTexture *t = texture_at(o, w, l, handles, o->more[VG_FETCH_MODE]);
    if (!t) return NULL;
    if (out) out[l] = answer(t, o->more[VG_FETCH_EXTRA], level ? level[l] : 0);
  }
  return o + 1;
}

/* ------------------------------------------------------------------------------- surfaces */

/* Where a lane's access lies, NULL when it is outside and nothing is to be done; *bad after a fault. */
static char *surface_address(const VgOp *o, VgWarp *w, int l, const VgTexture *t, uint32_t bytes, int is_store,
                             int *bad) {
  uint32_t policy = o->more[VG_FETCH_MODE] & 3, formatted = o->more[VG_FETCH_MODE] & VG_SURFACE_FORMATTED;
  uint32_t first = layered(o->more[VG_FETCH_GEOMETRY]);
  const VgLevel *v = &t->level[0];
  int64_t unit = formatted ? t->texel_bytes : 1, layers = t->geometry >= VG_CUBE ? 6 * t->layers : t->layers;
  int64_t limit[4] = {(int64_t)v->width * t->texel_bytes - bytes, v->height - 1, v->depth - 1, layers - 1};
  int64_t at[4] = {0, 0, 0, 0};
  uint32_t dims = first ? (o->more[VG_FETCH_GEOMETRY] == VG_A1D ? 1 : 2) : t->geometry + 1;
  for (uint32_t i = 0; i < dims; i++) at[i] = (int32_t)((const uint32_t *)slot(o, w, VG_S_COORD + first + i))[l];
  if (first) at[3] = ((const uint32_t *)slot(o, w, VG_S_COORD))[l];
  at[0] *= unit;
  if (at[0] % bytes) {
    *bad = failed(w, o, l, VG_FAULT_MISALIGNED, "its byte coordinate is not a multiple of its size");
    w->worker->fault.bytes = bytes, w->worker->fault.is_store = (uint32_t)is_store, w->worker->fault.address = (uint64_t)at[0];
    return NULL;
  }
  for (int i = 0; i < 4; i++) {
    if (at[i] >= 0 && at[i] <= limit[i]) continue;
    if (policy == VG_SURFACE_ZERO) return NULL;
    if (policy == VG_SURFACE_CLAMP) {
      at[i] = at[i] < 0 ? 0 : i ? limit[i] : limit[i] / bytes * bytes;
      continue;
    }
    char text[200];
    snprintf(text, sizeof text, "%s %u bytes at x = %lld%s, y = %lld, z = %lld, layer %lld of a surface of %u × %u × %u texels"
             " (%u bytes each), %lld layers; usual cause: an index that is not checked, or an x that is not in bytes",
             is_store ? "writes" : "reads", bytes, (long long)(at[0] / unit), formatted ? "" : " bytes", (long long)at[1],
             (long long)at[2], (long long)at[3], v->width, v->height, v->depth, t->texel_bytes, (long long)layers);
    *bad = failed(w, o, l, VG_FAULT_OUT_OF_BOUNDS, text);
    return NULL;
  }
  return v->data + at[3] * (int64_t)v->layer + at[2] * (int64_t)v->slice + at[1] * (int64_t)v->row + at[0];
}

static uint32_t element_bytes(uint32_t type) {
  static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 4, 4, 8, 16};
  return bytes[type];
}

const VgOp *vg_op_surface_load(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w), n = o->more[VG_FETCH_COUNT], bytes = element_bytes(o->more[VG_FETCH_TYPE]);
  uint32_t lane_bytes = o->more[VG_FETCH_LANE_BYTES];
  const uint64_t *handles = slot(o, w, VG_S_HANDLE);
  for (int l = 0; l < VG_LANES; l++) {
    if (!(mask >> l & 1)) continue;
    const VgTexture *t = texture_at(o, w, l, handles, 0);
    int bad = 0;
    char *from = t ? surface_address(o, w, l, t, n * bytes, 0, &bad) : NULL;
    if (!t || bad) return NULL;
    for (uint32_t i = 0; i < n; i++) {
      char *lanes = slot(o, w, VG_S_DATA + i);
      uint64_t value = 0;
      if (from) memcpy(&value, from + i * bytes, bytes);
      if (lanes) memcpy(lanes + (uint32_t)l * lane_bytes, &value, lane_bytes);
    }
  }
  if (mask) count(w, o, mask, n * bytes);
  return o + 1;
}

/* One channel of sust.p from the register's 32 bits: f32, u32 or s32 by the surface's format. */
static void store_formatted(const VgTexture *t, char *to, int i, uint32_t value) {
  float f;
  memcpy(&f, &value, 4);
  switch (t->format) {
  case VG_T_U8: case VG_T_S8: to[i] = (char)value; break;
  case VG_T_U16: case VG_T_S16: ((uint16_t *)to)[i] = (uint16_t)value; break;
  case VG_T_F16: ((uint16_t *)to)[i] = vg_float_to_half(f); break;
  default: memcpy(to + 4 * i, &value, 4);
  }
}

const VgOp *vg_op_surface_store(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w), n = o->more[VG_FETCH_COUNT], bytes = element_bytes(o->more[VG_FETCH_TYPE]);
  uint32_t lane_bytes = o->more[VG_FETCH_LANE_BYTES], formatted = o->more[VG_FETCH_MODE] & VG_SURFACE_FORMATTED;
  const uint64_t *handles = slot(o, w, VG_S_HANDLE);
  for (int l = 0; l < VG_LANES; l++) {
    if (!(mask >> l & 1)) continue;
    const VgTexture *t = texture_at(o, w, l, handles, 1);
    int bad = 0;
    char *to = t ? surface_address(o, w, l, t, formatted ? t->texel_bytes : n * bytes, 1, &bad) : NULL;
    if (!t || bad) return NULL;
    for (uint32_t i = 0; i < n && to; i++) {
      const char *lanes = slot(o, w, VG_S_DATA + i);
      if (!lanes || (formatted && i >= t->channels)) continue;
      uint32_t value = 0;
      memcpy(&value, lanes + (uint32_t)l * lane_bytes, lane_bytes < 4 ? lane_bytes : 4);
      if (formatted) store_formatted(t, to, (int)i, value);
      else memcpy(to + i * bytes, lanes + (uint32_t)l * lane_bytes, bytes);
    }
  }
  if (mask) count(w, o, mask, n * bytes);
  return o + 1;
}

#define REDUCE(BITS, UNSIGNED, SIGNED)                                                                 \
  static void reduce_##BITS(void *at, uint64_t operand, uint32_t operation, int is_signed) {           \
    UNSIGNED *p = at, v = (UNSIGNED)operand, old = __atomic_load_n(p, __ATOMIC_RELAXED), wanted;       \
    do {                                                                                               \
      int less = is_signed ? (SIGNED)v < (SIGNED)old : v < old;                                        \
      wanted = operation == VG_ATOM_ADD   ? old + v                                                    \
               : operation == VG_ATOM_MIN ? (less ? v : old)                                           \
               : operation == VG_ATOM_MAX ? (less ? old : v)                                           \
               : operation == VG_ATOM_AND ? (old & v)                                                  \
                                          : (old | v);                                                 \
    } while (!__atomic_compare_exchange_n(p, &old, wanted, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));    \
  }
REDUCE(32, uint32_t, int32_t)
REDUCE(64, uint64_t, int64_t)

const VgOp *vg_op_surface_reduce(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w), type = o->more[VG_FETCH_TYPE], bytes = element_bytes(type);
  const uint64_t *handles = slot(o, w, VG_S_HANDLE);
  const char *lanes = slot(o, w, VG_S_DATA);
  for (int l = 0; l < VG_LANES; l++) {
    if (!(mask >> l & 1)) continue;
    const VgTexture *t = texture_at(o, w, l, handles, 1);
    int bad = 0;
    char *to = t ? surface_address(o, w, l, t, bytes, 1, &bad) : NULL;
    if (!t || bad) return NULL;
    if (!to) continue;
    uint64_t value = 0;
    memcpy(&value, lanes + (uint32_t)l * bytes, bytes);
    int is_signed = type == VG_S32 || type == VG_S64;
    if (bytes == 4) reduce_32(to, value, o->more[VG_FETCH_EXTRA], is_signed);
    else reduce_64(to, value, o->more[VG_FETCH_EXTRA], is_signed);
  }
  if (mask) count(w, o, mask, bytes);
  return o + 1;
}

/* istypep: aux 1 textures, 2 surfaces, 0 samplers (a texture's handle is its sampler's too). */
const VgOp *vg_op_istypep(const VgOp *o, VgWarp *w) {
  uint32_t mask = vg_active(o, w);
  const uint64_t *handles = slot(o, w, VG_S_HANDLE);
  uint32_t *out = slot(o, w, VG_S_DATA);
  for (int l = 0; l < VG_LANES && out; l++) {
    if (!(mask >> l & 1)) continue;
    const VgTexture *t = vg_texture_of(handles[l]);
    out[l] = t && (o->aux == 2 ? t->writable : t->sampled);
  }
  return o + 1;
}
