// One kernel for each way to read or write a texture or surface; coordinates come as float arrays.
// reference: texture_oracle.py   run: pytest tests/vgpu/test_textures.py
#include <cuda_fp16.h>
typedef unsigned long long Handle;
#define THREAD int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return

extern "C" __global__ void fetch_1d(Handle t, const int* x, float4* out, int n) {
  THREAD; out[i] = tex1Dfetch<float4>(t, x[i]);
}
extern "C" __global__ void fetch_1d_int(Handle t, const int* x, int4* out, int n) {
  THREAD; out[i] = tex1Dfetch<int4>(t, x[i]);
}
extern "C" __global__ void sample_1d(Handle t, const float* x, float4* out, int n) {
  THREAD; out[i] = tex1D<float4>(t, x[i]);
}
extern "C" __global__ void sample_2d(Handle t, const float* x, const float* y, float4* out, int n) {
  THREAD; out[i] = tex2D<float4>(t, x[i], y[i]);
}
extern "C" __global__ void sample_2d_uint(Handle t, const float* x, const float* y, uint4* out, int n) {
  THREAD; out[i] = tex2D<uint4>(t, x[i], y[i]);
}
extern "C" __global__ void sample_2d_int(Handle t, const float* x, const float* y, int4* out, int n) {
  THREAD; out[i] = tex2D<int4>(t, x[i], y[i]);
}
extern "C" __global__ void sample_3d(Handle t, const float* x, const float* y, const float* z, float4* out, int n) {
  THREAD; out[i] = tex3D<float4>(t, x[i], y[i], z[i]);
}
extern "C" __global__ void sample_a1d(Handle t, const float* x, const int* layer, float4* out, int n) {
  THREAD; out[i] = tex1DLayered<float4>(t, x[i], layer[i]);
}
extern "C" __global__ void sample_a2d(Handle t, const float* x, const float* y, const int* layer, float4* out, int n) {
  THREAD; out[i] = tex2DLayered<float4>(t, x[i], y[i], layer[i]);
}
extern "C" __global__ void sample_cube(Handle t, const float* x, const float* y, const float* z, float4* out, int n) {
  THREAD; out[i] = texCubemap<float4>(t, x[i], y[i], z[i]);
}
extern "C" __global__ void sample_acube(Handle t, const float* x, const float* y, const float* z, const int* layer,
                                        float4* out, int n) {
  THREAD; out[i] = texCubemapLayered<float4>(t, x[i], y[i], z[i], layer[i]);
}
extern "C" __global__ void lod_2d(Handle t, const float* x, const float* y, const float* level, float4* out, int n) {
  THREAD; out[i] = tex2DLod<float4>(t, x[i], y[i], level[i]);
}
extern "C" __global__ void grad_2d(Handle t, const float* x, const float* y, const float2* dx, const float2* dy,
                                   float4* out, int n) {
  THREAD; out[i] = tex2DGrad<float4>(t, x[i], y[i], dx[i], dy[i]);
}
extern "C" __global__ void gather_2d(Handle t, const float* x, const float* y, float4* out, int n) {
  THREAD; out[i] = tex2Dgather<float4>(t, x[i], y[i], 1);
}
extern "C" __global__ void half_2d(Handle t, const float* x, const float* y, float* out, int n) {
  THREAD; unsigned short r, g, b, a;
  asm("tex.2d.v4.f16.f32 {%0,%1,%2,%3}, [%4, {%5,%6}];" : "=h"(r), "=h"(g), "=h"(b), "=h"(a) : "l"(t), "f"(x[i]), "f"(y[i]));
  out[i] = __half2float(__ushort_as_half(r)) + 2 * __half2float(__ushort_as_half(g));
}
extern "C" __global__ void shifted_2d(Handle t, const float* x, const float* y, float4* out, int n) {
  THREAD; float r, g, b, a;
  asm("tex.2d.v4.f32.f32 {%0,%1,%2,%3}, [%4, {%5,%6}], {2, -1};" : "=f"(r), "=f"(g), "=f"(b), "=f"(a) : "l"(t), "f"(x[i]), "f"(y[i]));
  out[i] = make_float4(r, g, b, a);
}
extern "C" __global__ void query(Handle t, int* out) {
  asm("txq.width.b32 %0, [%1];" : "=r"(out[0]) : "l"(t));
  asm("txq.height.b32 %0, [%1];" : "=r"(out[1]) : "l"(t));
  asm("txq.depth.b32 %0, [%1];" : "=r"(out[2]) : "l"(t));
  asm("txq.num_mipmap_levels.b32 %0, [%1];" : "=r"(out[3]) : "l"(t));
  asm("txq.normalized_coords.b32 %0, [%1];" : "=r"(out[4]) : "l"(t));
  asm("txq.channel_data_type.b32 %0, [%1];" : "=r"(out[5]) : "l"(t));
  asm("txq.channel_order.b32 %0, [%1];" : "=r"(out[6]) : "l"(t));
  asm("txq.level.width.b32 %0, [%1], 1;" : "=r"(out[7]) : "l"(t));
}
extern "C" __global__ void copy_surface(Handle from, Handle to, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  uchar4 v; surf2Dread(&v, from, x * 4, y);
  surf2Dwrite(make_uchar4(v.w, v.z, v.y, v.x), to, x * 4, y);
}
extern "C" __global__ void surface_1d(Handle s, float* out, int n) {
  THREAD; out[i] = surf1Dread<float>(s, i * 4); surf1Dwrite(out[i] * 2, s, i * 4);
}
extern "C" __global__ void surface_3d(Handle s, int w, int h, int d) {
  int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
  if (x < w && y < h && z < d) surf3Dwrite((short)(surf3Dread<short>(s, x * 2, y, z) + 100), s, x * 2, y, z);
}
extern "C" __global__ void surface_layers(Handle s, int w, int h) {
  int x = threadIdx.x, y = threadIdx.y, layer = blockIdx.x;
  if (x < w && y < h) surf2DLayeredwrite(make_float2(x + 10 * y, layer), s, x * 8, y, layer);
}
extern "C" __global__ void surface_outside(Handle s, const int* x, const int* y, float* clamp, float* zero, int n) {
  THREAD;
  clamp[i] = surf2Dread<float>(s, x[i] * 4, y[i], cudaBoundaryModeClamp);
  zero[i] = surf2Dread<float>(s, x[i] * 4, y[i], cudaBoundaryModeZero);
  surf2Dwrite(clamp[i] + 1000, s, x[i] * 4, y[i], cudaBoundaryModeZero);
}
extern "C" __global__ void surface_trap(Handle s, int x, int y) {
  if (threadIdx.x == 3) surf2Dwrite(1.0f, s, x, y);
}
extern "C" __global__ void surface_add(Handle s, int n) {
  THREAD;
  asm volatile("sured.b.add.2d.u32.trap [%0, {%1, %2}], %3;" :: "l"(s), "r"(4 * (i % 5)), "r"(0), "r"(i));
  asm volatile("sured.b.min.2d.s32.trap [%0, {%1, %2}], %3;" :: "l"(s), "r"(4 * (i % 5)), "r"(1), "r"(-i));
  asm volatile("sured.b.or.2d.b32.trap [%0, {%1, %2}], %3;" :: "l"(s), "r"(4 * (i % 5)), "r"(2), "r"(1 << i % 32));
}
extern "C" __global__ void surface_formatted(Handle s, int w) {
  int x = threadIdx.x;
  float v = x * 0.5f;
  if (x < w) asm volatile("sust.p.2d.v2.b32.trap [%0, {%1, %2}], {%3, %4};" :: "l"(s), "r"(x), "r"(1), "f"(v), "f"(-v));
}
