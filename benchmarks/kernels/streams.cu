// Kernels that move memory: elementwise, strides, gathers, transposes, stencils, sparse products.
// SPDX-License-Identifier: Apache-2.0

#include <cuda_fp16.h>

template <typename V>
__global__ void k_add(const V* x, const V* y, V* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  V a = x[i], b = y[i];
  if constexpr (sizeof(V) == 4) a += b;
  if constexpr (sizeof(V) == 8) a.x += b.x, a.y += b.y;
  if constexpr (sizeof(V) == 16) a.x += b.x, a.y += b.y, a.z += b.z, a.w += b.w;
  out[i] = a;
}

__global__ void k_add_stride(const float* x, const float* y, float* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    out[i] = x[i] + y[i];
}

template <int WIDTH>
__global__ void k_hadd(const __half* x, const __half* y, __half* out, int n) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * WIDTH;
  if (i >= n) return;
  if constexpr (WIDTH == 1) out[i] = __hadd(x[i], y[i]);
  if constexpr (WIDTH == 2) *(__half2*)(out + i) = __hadd2(*(const __half2*)(x + i), *(const __half2*)(y + i));
  if constexpr (WIDTH == 8) {
    uint4 a = *(const uint4*)(x + i), b = *(const uint4*)(y + i), c;
    for (int k = 0; k < 4; k++) ((__half2*)&c)[k] = __hadd2(((__half2*)&a)[k], ((__half2*)&b)[k]);
    *(uint4*)(out + i) = c;
  }
}

__global__ void k_copy(const float4* x, float4* out, int n) {  // dynamic shared memory sets its occupancy
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i];
}

__global__ void k_strided(const float* x, float* out, int n, int stride) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[(long long)i * stride];
}

__global__ void k_gather(const float* x, const int* at, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[at[i]];
}

__global__ void k_scatter(const float* x, const int* at, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[at[i]] = x[i];
}

__global__ void k_rows(const float* table, const int* at, float* out, int rows, int cols) {
  int row = blockIdx.x;
  for (int c = threadIdx.x; c < cols; c += blockDim.x)
    out[row * cols + c] = table[(long long)at[row] * cols + c];
}

__global__ void k_rows_warp(const float* table, const int* at, float* out, int rows, int cols) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  const float4* from = (const float4*)(table + (long long)at[row] * cols);
  for (int c = threadIdx.x % 32; c < cols / 4; c += 32) ((float4*)(out + row * cols))[c] = from[c];
}

__global__ void k_rows_thread(const float* table, const int* at, float* out, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * cols) out[i] = table[(long long)at[i / cols] * cols + i % cols];
}

__global__ void k_transpose_read(const float* x, float* out, int n) {
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += blockDim.y) out[c * n + r + k] = x[(r + k) * n + c];
}

__global__ void k_transpose_write(const float* x, float* out, int n) {
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += blockDim.y) out[(r + k) * n + c] = x[c * n + r + k];
}

template <int PAD>
__global__ void k_transpose_tile(const float* x, float* out, int n) {
  __shared__ float tile[32][32 + PAD];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += blockDim.y) tile[threadIdx.y + k][threadIdx.x] = x[(r + k) * n + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += blockDim.y) out[(r + k) * n + c] = tile[threadIdx.x][threadIdx.y + k];
}

__device__ float five(float n, float s, float w, float e, float m) { return 0.2f * (n + s + w + e + m); }

__global__ void k_stencil2(const float* x, float* out, int n) {
  int c = blockIdx.x * blockDim.x + threadIdx.x + 1, r = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (c >= n - 1 || r >= n - 1) return;
  int i = r * n + c;
  out[i] = five(x[i - n], x[i + n], x[i - 1], x[i + 1], x[i]);
}

__global__ void k_stencil2_shared(const float* x, float* out, int n) {
  __shared__ float tile[18][34];
  int c0 = blockIdx.x * 32, r0 = blockIdx.y * 16, t = threadIdx.y * 32 + threadIdx.x;
  for (int k = t; k < 18 * 34; k += 512) {
    int r = r0 + k / 34, c = c0 + k % 34;
    tile[k / 34][k % 34] = r < n && c < n ? x[r * n + c] : 0;
  }
  __syncthreads();
  int a = threadIdx.y + 1, b = threadIdx.x + 1;
  if (c0 + b < n - 1 && r0 + a < n - 1)
    out[(r0 + a) * n + c0 + b] = five(tile[a - 1][b], tile[a + 1][b], tile[a][b - 1], tile[a][b + 1], tile[a][b]);
}

__global__ void k_stencil2_march(const float* x, float* out, int n) {
  int c = blockIdx.x * blockDim.x + threadIdx.x + 1, r = blockIdx.y * 16 + 1;
  if (c >= n - 1) return;
  float up = x[(r - 1) * n + c], mid = x[r * n + c];
  for (int end = min(r + 16, n - 1); r < end; r++) {
    float down = x[(r + 1) * n + c];
    out[r * n + c] = five(up, down, x[r * n + c - 1], x[r * n + c + 1], mid);
    up = mid, mid = down;
  }
}

__global__ void k_stencil3(const float* x, float* out, int n) {
  int c = blockIdx.x * blockDim.x + threadIdx.x + 1, r = blockIdx.y * blockDim.y + threadIdx.y + 1, z = blockIdx.z + 1;
  if (c >= n - 1 || r >= n - 1) return;
  int i = (z * n + r) * n + c;
  out[i] = x[i - n * n] + x[i + n * n] + x[i - n] + x[i + n] + x[i - 1] + x[i + 1] - 6 * x[i];
}

__global__ void k_stencil3_march(const float* x, float* out, int n) {
  int c = blockIdx.x * blockDim.x + threadIdx.x + 1, r = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (c >= n - 1 || r >= n - 1) return;
  int z = blockIdx.z * 16 + 1, end = min(z + 16, n - 1), i = (z * n + r) * n + c;
  float below = x[i - n * n], mid = x[i];
  for (; z < end; z++, i += n * n) {
    float above = x[i + n * n];
    out[i] = below + above + x[i - n] + x[i + n] + x[i - 1] + x[i + 1] - 6 * mid;
    below = mid, mid = above;
  }
}

template <int SHARED>
__global__ void k_conv5(const float* x, const float* w, float* out, int n) {
  __shared__ float tile[20][36];
  int c0 = blockIdx.x * 32, r0 = blockIdx.y * 16, c = c0 + threadIdx.x, r = r0 + threadIdx.y;
  if (SHARED) {
    for (int k = threadIdx.y * 32 + threadIdx.x; k < 720; k += 512) {
      int y = r0 + k / 36, z = c0 + k % 36;
      tile[k / 36][k % 36] = y < n && z < n ? x[y * n + z] : 0;
    }
    __syncthreads();
  }
  if (c >= n - 4 || r >= n - 4) return;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 25; i++)
    sum += w[i] * (SHARED ? tile[threadIdx.y + i / 5][threadIdx.x + i % 5] : x[(r + i / 5) * n + c + i % 5]);
  out[r * n + c] = sum;
}

__global__ void k_conv5_four(const float* x, const float* w, float* out, int n) {  // four rows a thread
  int c = blockIdx.x * 32 + threadIdx.x, r = (blockIdx.y * 4 + threadIdx.y) * 4;
  if (c >= n - 4 || r >= n - 4) return;
  float sum[4] = {};
#pragma unroll
  for (int y = 0; y < 8; y++)
#pragma unroll
    for (int z = 0; z < 5; z++) {
      float v = r + y < n ? x[(r + y) * n + c + z] : 0;
#pragma unroll
      for (int k = 0; k < 4; k++)
        if (y - k >= 0 && y - k < 5) sum[k] += v * w[(y - k) * 5 + z];
    }
  for (int k = 0; k < 4; k++)
    if (r + k < n - 4) out[(r + k) * n + c] = sum[k];
}

template <int LANES>
__global__ void k_spmv(const int* start, const int* column, const float* value, const float* x, float* y, int rows) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
  float sum = 0;
  if (row < rows)
    for (int k = start[row] + lane; k < start[row + 1]; k += LANES) sum += value[k] * x[column[k]];
#pragma unroll
  for (int step = LANES / 2; step; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (row < rows && lane == 0) y[row] = sum;
}

__global__ void k_gemv_thread(const float* a, const float* x, float* y, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (int c = 0; c < cols; c++) sum += a[(long long)row * cols + c] * x[c];
  y[row] = sum;
}

template <int VEC>
__global__ void k_gemv_warp(const float* a, const float* x, float* y, int rows, int cols) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float* from = a + (long long)row * cols;
  float sum = 0;
  if (VEC == 4)
    for (int c = lane; c < cols / 4; c += 32) {
      float4 p = ((const float4*)from)[c], q = ((const float4*)x)[c];
      sum += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
    }
  else
    for (int c = lane; c < cols; c += 32) sum += from[c] * x[c];
  for (int step = 16; step; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (lane == 0) y[row] = sum;
}
