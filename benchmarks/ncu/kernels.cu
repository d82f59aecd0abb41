// Small kernels whose accesses are known by heart: what ncu and the virtual GPU are compared on.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp16.h>

typedef unsigned int u32;
#define I (blockIdx.x * blockDim.x + threadIdx.x)

extern "C" __global__ void k_vadd(const float* x, const float* y, float* out, int n) {
  int i = I;
  if (i < n) out[i] = x[i] + y[i];
}
extern "C" __global__ void k_vadd4(const float4* x, const float4* y, float4* out, int n) {
  int i = I;
  if (i >= n) return;
  float4 a = x[i], b = y[i];
  out[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
extern "C" __global__ void k_vadd2(const float2* x, const float2* y, float2* out, int n) {
  int i = I;
  if (i >= n) return;
  float2 a = x[i], b = y[i];
  out[i] = make_float2(a.x + b.x, a.y + b.y);
}
extern "C" __global__ void k_daxpy(double a, const double* x, double* y, int n) {
  int i = I;
  if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void k_half2(const __half2* x, const __half2* y, __half2* out, int n) {
  int i = I;
  if (i < n) out[i] = __hfma2(x[i], y[i], x[i]);
}
extern "C" __global__ void k_half(const __half* x, const __half* y, __half* out, int n) {
  int i = I;
  if (i < n) out[i] = __hfma(x[i], y[i], x[i]);
}
extern "C" __global__ void k_bytes(const unsigned char* x, unsigned char* out, int n) {
  int i = I;
  if (i < n) out[i] = x[i] ^ 85;
}
extern "C" __global__ void k_strided(const float* x, float* out, int n, int stride) {
  int i = I;
  if (i < n) out[i] = x[i * stride];
}
extern "C" __global__ void k_strided_store(const float* x, float* out, int n, int stride) {
  int i = I;
  if (i < n) out[i * stride] = x[i];
}
extern "C" __global__ void k_offset(const float* x, float* out, int n, int offset) {
  int i = I;
  if (i < n) out[i] = x[i + offset];
}
extern "C" __global__ void k_gather(const float* x, const int* at, float* out, int n) {
  int i = I;
  if (i < n) out[i] = x[at[i]];
}
extern "C" __global__ void k_gelu(const float* x, float* out, int n) {
  int i = I;
  if (i < n) { float v = x[i]; out[i] = 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v))); }
}
extern "C" __global__ void k_transpose_naive(const float* x, float* out, int n) {
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8) out[c * n + r + k] = x[(r + k) * n + c];
}
template <int PAD> __device__ void transpose(const float* x, float* out, int n) {
  __shared__ float tile[32][32 + PAD];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8) tile[threadIdx.y + k][threadIdx.x] = x[(r + k) * n + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8) out[(r + k) * n + c] = tile[threadIdx.x][threadIdx.y + k];
}
extern "C" __global__ void k_transpose_conflict(const float* x, float* out, int n) { transpose<0>(x, out, n); }
extern "C" __global__ void k_transpose_padded(const float* x, float* out, int n) { transpose<1>(x, out, n); }
extern "C" __global__ void k_reduce_interleaved(const float* x, float* out) {
  __shared__ float s[256];
  s[threadIdx.x] = x[I];
  __syncthreads();
  for (int d = 1; d < 256; d *= 2) {
    if (threadIdx.x % (2 * d) == 0) s[threadIdx.x] += s[threadIdx.x + d];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}
extern "C" __global__ void k_reduce_strided(const float* x, float* out) {
  __shared__ float s[256];
  s[threadIdx.x] = x[I];
  __syncthreads();
  for (int d = 1; d < 256; d *= 2) {
    int at = 2 * d * threadIdx.x;
    if (at < 256) s[at] += s[at + d];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}
extern "C" __global__ void k_reduce_shuffle(const float* x, float* out, int n) {
  __shared__ float s[8];
  float sum = 0;
  for (int i = I; i < n; i += gridDim.x * blockDim.x) sum += x[i];
  for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 8) {
    sum = s[threadIdx.x];
    for (int d = 4; d; d /= 2) sum += __shfl_down_sync(0xff, sum, d);
    if (threadIdx.x == 0) atomicAdd(out, sum);
  }
}
extern "C" __global__ void k_softmax(const float* x, float* out, int cols) {
  __shared__ float s[4];
  const float* row = x + (long)blockIdx.x * cols;
  float most = -1e30f, sum = 0;
  for (int i = threadIdx.x; i < cols; i += 128) most = fmaxf(most, row[i]);
  for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = most;
  __syncthreads();
  most = fmaxf(fmaxf(s[0], s[1]), fmaxf(s[2], s[3]));
  __syncthreads();
  for (int i = threadIdx.x; i < cols; i += 128) sum += __expf(row[i] - most);
  for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = s[0] + s[1] + s[2] + s[3];
  for (int i = threadIdx.x; i < cols; i += 128) out[(long)blockIdx.x * cols + i] = __expf(row[i] - most) / sum;
}
extern "C" __global__ void k_sgemm_naive(const float* a, const float* b, float* c, int n) {
  int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
  float sum = 0;
  for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + col];
  c[row * n + col] = sum;
}
extern "C" __global__ void k_sgemm_tiled(const float* a, const float* b, float* c, int n) {
  __shared__ float as[16][16], bs[16][16];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    as[ty][tx] = a[row * n + k + tx], bs[ty][tx] = b[(k + ty) * n + col];
    __syncthreads();
    for (int i = 0; i < 16; i++) sum += as[ty][i] * bs[i][tx];
    __syncthreads();
  }
  c[row * n + col] = sum;
}
// 64x64 of C by 256 threads, 4x4 each, K in steps of 16, 128-bit accesses
extern "C" __global__ void k_sgemm_register(const float* a, const float* b, float* c, int n) {
  __shared__ __align__(16) float as[16][64], bs[16][64];
  int t = threadIdx.x, tx = t % 16, ty = t / 16, row = blockIdx.y * 64, col = blockIdx.x * 64;
  float sum[4][4] = {};
  for (int k = 0; k < n; k += 16) {
    float4 va = *(const float4*)&a[(row + t / 4) * n + k + t % 4 * 4];
    for (int i = 0; i < 4; i++) as[t % 4 * 4 + i][t / 4] = (&va.x)[i];
    *(float4*)&bs[t / 16][t % 16 * 4] = *(const float4*)&b[(k + t / 16) * n + col + t % 16 * 4];
    __syncthreads();
    for (int i = 0; i < 16; i++) {
      float4 x = *(float4*)&as[i][ty * 4], y = *(float4*)&bs[i][tx * 4];
      for (int p = 0; p < 4; p++) for (int q = 0; q < 4; q++) sum[p][q] += (&x.x)[p] * (&y.x)[q];
    }
    __syncthreads();
  }
  for (int p = 0; p < 4; p++)
    *(float4*)&c[(row + ty * 4 + p) * n + col + tx * 4] = make_float4(sum[p][0], sum[p][1], sum[p][2], sum[p][3]);
}
extern "C" __global__ void k_hist_global(const int* x, int* bins, int n) {
  int i = I;
  if (i < n) atomicAdd(&bins[x[i]], 1);
}
extern "C" __global__ void k_hist_shared(const int* x, int* bins, int n) {
  __shared__ int mine[256];
  mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = I; i < n; i += gridDim.x * blockDim.x) atomicAdd(&mine[x[i]], 1);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}
extern "C" __global__ void k_append(const float* x, float* out, int* count, int n) {
  int i = I;
  if (i < n && x[i] > 0) out[atomicAdd(count, 1)] = x[i];
}
extern "C" __global__ void k_ticket(int* slots, int* out) { out[I] = atomicAdd(&slots[threadIdx.x], 1); }
extern "C" __global__ void k_atomic_float(const float* x, float* out) { atomicAdd(&out[threadIdx.x % 64], x[I]); }
extern "C" __global__ void k_stencil(const float* x, float* out, int n) {
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
  if (c < 1 || r < 1 || c > n - 2 || r > n - 2) return;
  const float* p = x + r * n + c;
  out[r * n + c] = 0.25f * (p[-1] + p[1] + p[-n] + p[n]) - p[0];
}
extern "C" __global__ void k_divergent(const int* x, int* out, int rounds) {
  int i = I, v = x[i];
  if (v & 1) for (int r = 0; r < rounds; r++) v = v * 1664525 + (v >> 3);
  else for (int r = 0; r < rounds / 2; r++) v = v * 22695477 ^ (v >> 5);
  out[i] = v;
}
extern "C" __global__ void k_local(const int* x, int* out, int n) {
  int table[32], i = I;
  for (int k = 0; k < 32; k++) table[k] = x[(i + k) % n];
  int sum = 0;
  for (int k = 0; k < 32; k++) sum = sum * 3 + table[(sum + k) & 31];
  out[i] = sum;
}
extern "C" __global__ void k_copy_async(const float4* x, float4* out) {
  __shared__ float4 tile[256];
  unsigned to = (unsigned)__cvta_generic_to_shared(&tile[threadIdx.x]);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(x + I));
  asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;");
  __syncthreads();
  out[I] = tile[255 - threadIdx.x];
}
extern "C" __global__ void k_copy_async4(const float* x, float* out) {
  __shared__ float tile[256];
  unsigned to = (unsigned)__cvta_generic_to_shared(&tile[threadIdx.x]);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(x + I));
  asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;");
  __syncthreads();
  out[I] = tile[255 - threadIdx.x];
}
// shared memory: thread t reads and writes word (t * stride + t / 32 * 0) of a window, W words at once
template <class T> __device__ void shared_pattern(T* out, const int* at) {
  __shared__ T s[1024];
  int t = threadIdx.x, mine = at[t % 32];
  T v; ((float*)&v)[0] = t;
  for (int i = 0; i < 8; i++) s[(mine + i) & 1023] = v;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 8; i++) { T g = s[(mine + i) & 1023]; for (u32 k = 0; k < sizeof(T) / 4; k++) sum += ((float*)&g)[k]; }
  ((float*)out)[I] = sum;
}
extern "C" __global__ void k_shared32(float* out, const int* at) { shared_pattern<float>(out, at); }
extern "C" __global__ void k_shared64(float2* out, const int* at) { shared_pattern<float2>(out, at); }
extern "C" __global__ void k_shared128(float4* out, const int* at) { shared_pattern<float4>(out, at); }
extern "C" __global__ void k_shared8(unsigned char* out, const int* at) {
  __shared__ unsigned char s[1024];
  int mine = at[threadIdx.x % 32];
  for (int i = 0; i < 8; i++) s[(mine + i) & 1023] = threadIdx.x;
  __syncthreads();
  int sum = 0;
  for (int i = 0; i < 8; i++) sum += s[(mine + i) & 1023];
  out[I] = sum;
}
// the caches: every block reads the first `n` floats `rounds` times
extern "C" __global__ void k_reread(const float* x, float* out, int n, int rounds) {
  float sum = 0;
  for (int r = 0; r < rounds; r++) for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
  out[I] = sum;
}
extern "C" __global__ void k_reread_cg(const float* x, float* out, int n, int rounds) {
  float sum = 0;
  for (int r = 0; r < rounds; r++) for (int i = threadIdx.x; i < n; i += blockDim.x) sum += __ldcg(x + i);
  out[I] = sum;
}
extern "C" __global__ void k_rewrite(float* x, int n, int rounds) {
  for (int r = 0; r < rounds; r++) for (int i = I; i < n; i += gridDim.x * blockDim.x) x[i] = r;
}
extern "C" __global__ void k_update(float* x, int n) {
  for (int i = I; i < n; i += gridDim.x * blockDim.x) x[i] = x[i] * 2 + 1;
}
// one 16x8 tile of C by each warp with tensor cores
extern "C" __global__ void k_mma(const __half* a, const __half* b, float* c, int n) {
  int lane = threadIdx.x % 32, row = blockIdx.y * 16, col = (blockIdx.x * 4 + threadIdx.x / 32) * 8;
  float d[4] = {};
  for (int k = 0; k < n; k += 16) {
    u32 ra[4], rb[2];
    for (int i = 0; i < 4; i++) ra[i] = *(const u32*)&a[(row + lane / 4 + i % 2 * 8) * n + k + lane % 4 * 2 + i / 2 * 8];
    for (int i = 0; i < 2; i++) rb[i] = *(const u32*)&b[(col + lane / 4) * n + k + lane % 4 * 2 + i * 8];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  }
  for (int i = 0; i < 4; i++) c[(row + lane / 4 + i / 2 * 8) * n + col + lane % 4 * 2 + i % 2] = d[i];
}
