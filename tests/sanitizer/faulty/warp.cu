// Lanes of one warp that pass values through memory and take lockstep for granted: warnings.
// SPDX-License-Identifier: Apache-2.0

// run: 1 32 x=f32[32] out=f32[32]
extern "C" __global__ void reverse_in_a_warp(const float* x, float* out) {
  __shared__ float tile[32];
  tile[threadIdx.x] = x[threadIdx.x];  // expect: missing-syncwarp
  MEND(__syncwarp();)
  out[threadIdx.x] = tile[31 - threadIdx.x];  // expect: missing-syncwarp
}

// run: 1 64 x=f32[64] out=f32[1]
extern "C" __global__ void unrolled_last_warp(const float* x, float* out) {
  __shared__ float slots[64];
  volatile float* s = slots;
  int i = threadIdx.x;
  s[i] = x[i];
  __syncthreads();
  if (i < 32) {
    for (int half = 32; half; half /= 2) {
      float v = s[i + half];  // expect: missing-syncwarp
      MEND(__syncwarp();)
      s[i] = s[i] + v;  // expect: missing-syncwarp
      MEND(__syncwarp();)
    }
  }
  if (i == 0) out[0] = s[0];
}

// run: 1 32 x=f32[32] out=f32[32]
extern "C" __global__ void lane_zero_writes_for_all(const float* x, float* out) {
  __shared__ float pivot;
  if (threadIdx.x == 0) pivot = x[0];  // expect: missing-syncwarp
  MEND(__syncwarp();)
  out[threadIdx.x] = x[threadIdx.x] - pivot;  // expect: missing-syncwarp
}

// run: 1 32 x=f32[32] out=f32[32]
extern "C" __global__ void warp_scan_in_shared(const float* x, float* out) {
  __shared__ float s[32];
  int i = threadIdx.x;
  s[i] = x[i];  // expect: missing-syncwarp
  MEND(__syncwarp();)
  for (int step = 1; step < 32; step *= 2) {
    float v = i >= step ? s[i - step] : 0;  // expect: missing-syncwarp
    MEND(__syncwarp();)
    s[i] = s[i] + v;  // expect: missing-syncwarp
    MEND(__syncwarp();)
  }
  out[i] = s[i];
}

// run: 1 32 data=f32[32] out=f32[32]
extern "C" __global__ void exchange_through_global(float* data, float* out) {
  data[threadIdx.x] += 1;  // expect: missing-syncwarp
  MEND(__syncwarp();)
  out[threadIdx.x] = data[threadIdx.x ^ 1];  // expect: missing-syncwarp
}

// run: 1 32 x=f32[64] out=f32[32]
extern "C" __global__ void warp_tile_reused(const float* x, float* out) {
  __shared__ float tile[32];
  float sum = 0;
  for (int r = 0; r < 2; ++r) {
    tile[threadIdx.x] = x[r * 32 + threadIdx.x];  // expect: missing-syncwarp
    __syncwarp();
    sum += tile[31 - threadIdx.x];  // expect: missing-syncwarp
    MEND(__syncwarp();)
  }
  out[threadIdx.x] = sum;
}
