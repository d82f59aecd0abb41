// Kernels that reduce, scan, normalize and count.
// SPDX-License-Identifier: Apache-2.0

#include <cmath>

__device__ float warp_sum(float v) {
  for (int step = 16; step; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  return v;
}

__device__ float warp_max(float v) {
  for (int step = 16; step; step /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
  return v;
}

template <bool MAX>
__device__ float block_all(float v) {
  __shared__ float part[32];
  v = MAX ? warp_max(v) : warp_sum(v);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  int warps = blockDim.x / 32;
  v = threadIdx.x % 32 < warps ? part[threadIdx.x % 32] : (MAX ? -INFINITY : 0);
  return MAX ? warp_max(v) : warp_sum(v);
}

__global__ void k_sum_atomic(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(out, x[i]);
}

template <bool INTERLEAVED>
__global__ void k_sum_tree(const float* x, float* out, int n) {
  __shared__ float part[256];
  int t = threadIdx.x, i = blockIdx.x * 256 + t;
  part[t] = i < n ? x[i] : 0;
  __syncthreads();
  if (INTERLEAVED)
    for (int s = 1; s < 256; s *= 2) {
      int at = 2 * s * t;
      if (at < 256) part[at] += part[at + s];
      __syncthreads();
    }
  else
    for (int s = 128; s; s /= 2) {
      if (t < s) part[t] += part[t + s];
      __syncthreads();
    }
  if (t == 0) atomicAdd(out, part[0]);
}

__global__ void k_sum_shuffle(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = block_all<false>(i < n ? x[i] : 0);
  if (threadIdx.x == 0) atomicAdd(out, v);
}

__global__ void k_sum_grid(const float4* x, float* out, int n) {
  float v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float4 q = x[i];
    v += q.x + q.y + q.z + q.w;
  }
  v = block_all<false>(v);
  if (threadIdx.x == 0) atomicAdd(out, v);
}

__global__ void k_colsum(const float* x, float* out, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  float sum = 0;
  for (int r = 0; r < rows; r++) sum += x[(long long)r * cols + c];
  out[c] = sum;
}

template <int ROWS>
__global__ void k_colsum_split(const float* x, float* out, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
#pragma unroll 8
  for (int r = 0; r < ROWS; r++) sum += x[(long long)(blockIdx.y * ROWS + r) * cols + c];
  atomicAdd(out + c, sum);
}

__global__ void k_softmax_thread(const float* x, float* out, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  x += (long long)row * cols, out += (long long)row * cols;
  float m = -INFINITY, s = 0;
  for (int c = 0; c < cols; c++) m = fmaxf(m, x[c]);
  for (int c = 0; c < cols; c++) s += __expf(x[c] - m);
  for (int c = 0; c < cols; c++) out[c] = __expf(x[c] - m) / s;
}

__global__ void k_softmax_warp(const float* x, float* out, int rows, int cols) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  x += (long long)row * cols, out += (long long)row * cols;
  float m = -INFINITY, s = 0;
  for (int c = lane; c < cols; c += 32) m = fmaxf(m, x[c]);
  m = warp_max(m);
  for (int c = lane; c < cols; c += 32) s += __expf(x[c] - m);
  s = 1 / warp_sum(s);
  for (int c = lane; c < cols; c += 32) out[c] = __expf(x[c] - m) * s;
}

__global__ void k_softmax_block(const float* x, float* out, int rows, int cols) {
  x += (long long)blockIdx.x * cols, out += (long long)blockIdx.x * cols;
  float m = -INFINITY, s = 0;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) m = fmaxf(m, x[c]);
  m = block_all<true>(m);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) s += __expf(x[c] - m);
  s = 1 / block_all<false>(s);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) out[c] = __expf(x[c] - m) * s;
}

__global__ void k_softmax_shared(const float* x, float* out, int rows, int cols) {
  extern __shared__ float kept[];
  x += (long long)blockIdx.x * cols, out += (long long)blockIdx.x * cols;
  float m = -INFINITY, s = 0;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) m = fmaxf(m, kept[c] = x[c]);
  m = block_all<true>(m);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) s += kept[c] = __expf(kept[c] - m);
  s = 1 / block_all<false>(s);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) out[c] = kept[c] * s;
}

template <bool WARP, bool TWICE>
__global__ void k_norm(const float* x, const float* w, float* out, int rows, int cols) {
  int row = WARP ? blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32 : blockIdx.x;
  int first = WARP ? threadIdx.x % 32 : threadIdx.x, step = WARP ? 32 : blockDim.x;
  if (row >= rows) return;
  x += (long long)row * cols, out += (long long)row * cols;
  float s = 0, q = 0;
  for (int c = first; c < cols; c += step) {
    s += x[c];
    if (!TWICE) q += x[c] * x[c];
  }
  s = WARP ? warp_sum(s) : block_all<false>(s);
  float mean = s / cols;
  if (TWICE)
    for (int c = first; c < cols; c += step) q += (x[c] - mean) * (x[c] - mean);
  q = WARP ? warp_sum(q) : block_all<false>(q);
  float scale = rsqrtf((TWICE ? q / cols : q / cols - mean * mean) + 1e-5f);
  for (int c = first; c < cols; c += step) out[c] = (x[c] - mean) * scale * w[c];
}

// inclusive scans of segments of 1024
__global__ void k_scan_steps(const float* x, float* out, int n) {
  __shared__ float part[2][1024];
  int t = threadIdx.x, now = 0;
  part[0][t] = x[blockIdx.x * 1024 + t];
  __syncthreads();
  for (int s = 1; s < 1024; s *= 2, now ^= 1) {
    part[now ^ 1][t] = part[now][t] + (t >= s ? part[now][t - s] : 0);
    __syncthreads();
  }
  out[blockIdx.x * 1024 + t] = part[now][t];
}

template <int EACH>
__global__ void k_scan_warp(const float* x, float* out, int n) {
  __shared__ float total[32];
  int t = threadIdx.x, lane = t % 32, base = blockIdx.x * 1024 + t * EACH;
  float v[EACH];
  for (int k = 0; k < EACH; k++) v[k] = x[base + k] + (k ? v[k - 1] : 0);
  float sum = v[EACH - 1];
  for (int s = 1; s < 32; s *= 2) {
    float other = __shfl_up_sync(0xffffffffu, sum, s);
    if (lane >= s) sum += other;
  }
  if (lane == 31) total[t / 32] = sum;
  __syncthreads();
  float before = sum - v[EACH - 1];
  for (int k = 0; k < t / 32; k++) before += total[k];
  for (int k = 0; k < EACH; k++) out[base + k] = v[k] + before;
}

__global__ void k_hist_global(const int* x, int* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(out + (x[i] & 255), 1);
}

template <int COPIES>
__global__ void k_hist_shared(const int* x, int* out, int n) {
  __shared__ int bins[COPIES][256];
  for (int k = threadIdx.x; k < COPIES * 256; k += blockDim.x) bins[k / 256][k % 256] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&bins[threadIdx.x / 32 % COPIES][x[i] & 255], 1);
  __syncthreads();
  for (int k = threadIdx.x; k < 256; k += blockDim.x) {
    int sum = 0;
    for (int c = 0; c < COPIES; c++) sum += bins[c][k];
    if (sum) atomicAdd(out + k, sum);
  }
}

__global__ void k_spread(const float* x, float* out, int n, int cells) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(out + i % cells, x[i]);
}

__global__ void k_spread_old(const float* x, float* out, int n, int cells) {  // the old value is used
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && atomicAdd(out + i % cells, x[i]) == 12345.678f) out[cells] = 1;
}
