/* Textures and surfaces: what the host describes, and how a fetch's operands are laid out.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_TEXTURE_H
#define VG_TEXTURE_H

#include "vgpu.h"

/* Orders mirrored by vgpu/textures.py and vgpu/isa/texture.py. */
typedef enum VgGeometry { VG_1D, VG_2D, VG_3D, VG_A1D, VG_A2D, VG_CUBE, VG_ACUBE } VgGeometry;
typedef enum VgTexel { VG_T_U8, VG_T_S8, VG_T_U16, VG_T_S16, VG_T_U32, VG_T_S32, VG_T_F16, VG_T_F32 } VgTexel;
typedef enum VgAddressing { VG_WRAP, VG_MIRROR, VG_CLAMP, VG_BORDER } VgAddressing;

enum { VG_LEVELS = 16 };

typedef struct VgLevel {
  char *data;
  uint32_t width, height, depth, reserved;   /* in texels; 1 where the geometry has no such axis */
  uint64_t row, slice, layer;                /* bytes from one to the next; a cube's faces are layers */
} VgLevel;

typedef struct VgTexture {
  uint32_t geometry, format, channels, texel_bytes;
  uint32_t addressing[3], linear;
  uint32_t normalized;  /* coordinates */
  uint32_t scaled;      /* integers are read as floats of [0, 1] or [-1, 1] */
  uint32_t srgb, mip_linear;
  uint32_t levels, layers, sampled, writable;
  float border[4];
  float bias, least_level, most_level, reserved;
  VgLevel level[VG_LEVELS];
} VgTexture;

/* o->more of a fetch: these words, then the offset of each operand (VG_SINK: none). */
enum { VG_FETCH_GEOMETRY, VG_FETCH_TYPE, VG_FETCH_FLOAT, VG_FETCH_MODE, VG_FETCH_EXTRA, VG_FETCH_COUNT,
       VG_FETCH_LANE_BYTES, VG_FETCH_FIXED, VG_FETCH_HEAD };
enum { VG_S_HANDLE, VG_S_DATA, VG_S_COORD = VG_S_DATA + 4, VG_S_LOD = VG_S_COORD + 4,
       VG_S_SHIFT = VG_S_LOD + 6, VG_S_RESIDENT = VG_S_SHIFT + 3, VG_SLOTS };
typedef enum VgFetchMode { VG_FETCH_PLAIN, VG_FETCH_LEVEL, VG_FETCH_GRAD, VG_FETCH_GATHER } VgFetchMode;
typedef enum VgSurfaceMode { VG_SURFACE_TRAP, VG_SURFACE_CLAMP, VG_SURFACE_ZERO, VG_SURFACE_FORMATTED = 4 } VgSurfaceMode;

/* Make a description known to kernels and give its handle, 0 when there is no room for one more. The
 * description must live until vg_texture_close. Not for several threads at once. */
uint64_t vg_texture_open(const VgTexture *texture);
void vg_texture_close(uint64_t handle);
uint64_t vg_texture_size(void);
/* The description behind a handle, NULL when there is none (any more). */
const VgTexture *vg_texture_of(uint64_t handle);

/* One filtered fetch: coordinates in the order of PTX without the layer; `level` is a level of detail. */
typedef union VgTexelValue { float f[4]; uint32_t u[4]; } VgTexelValue;
VgTexelValue vg_sample(const VgTexture *t, uint32_t layer, const float at[3], const int32_t shift[3],
                       float level);
VgTexelValue vg_texel(const VgTexture *t, uint32_t layer, const int64_t at[3], uint32_t level);
VgTexelValue vg_gather(const VgTexture *t, uint32_t layer, const float at[3], const int32_t shift[3],
                       uint32_t component);
/* The face (0 to 5) that a direction meets, and where: at[0], at[1] in [0, 1]. */
uint32_t vg_cube_face(const float direction[3], float at[2]);
float vg_half_to_float(uint16_t h);
uint16_t vg_float_to_half(float x);

#endif
