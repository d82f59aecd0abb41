// Kernels that read what nothing has written.
// SPDX-License-Identifier: Apache-2.0

// run: 1 64 x=f32[64] out=f32[64] n=50
extern "C" __global__ void tile_edge_not_filled(const float* x, float* out, int n) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  if (i < n) tile[i] = x[i];
  MEND(else tile[i] = 0;)
  __syncthreads();
  out[i] = tile[63 - i];  // expect: uninitialized
}

// run: 1 64 x=f32[64] out=f32[1] n=40
extern "C" __global__ void reduction_over_unfilled_slots(const float* x, float* out, int n) {
  __shared__ float sums[64];
  int i = threadIdx.x;
  BAD(if (i < n) sums[i] = x[i];) MEND(sums[i] = i < n ? x[i] : 0;)
  __syncthreads();
  for (int half = 32; half; half /= 2) {
    if (i < half) sums[i] += sums[i + half];  // expect: uninitialized
    __syncthreads();
  }
  if (i == 0) out[0] = sums[0];
}

// run: 1 64 x=rand(64):i32[64] out=i32[64]
extern "C" __global__ void shared_bins_not_zeroed(const int* x, int* out) {
  __shared__ int bins[64];
  MEND(bins[threadIdx.x] = 0; __syncthreads();)
  atomicAdd(&bins[x[threadIdx.x]], 1);  // expect: uninitialized
  __syncthreads();
  out[threadIdx.x] = bins[threadIdx.x];  // expect: uninitialized
}

// run: 1 128 x=f32[128] out=f32[1]
extern "C" __global__ void warp_sums_past_the_warps(const float* x, float* out) {
  __shared__ float sums[32];
  float v = x[threadIdx.x];
  for (int step = 16; step; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = MEND(threadIdx.x >= blockDim.x / 32 ? 0.0f :) sums[threadIdx.x];  // expect: uninitialized
    for (int step = 16; step; step /= 2) v += __shfl_xor_sync(~0u, v, step);
    if (threadIdx.x == 0) out[0] = v;
  }
}

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void halo_not_loaded(const float* x, float* out) {
  __shared__ float tile[66];
  int i = threadIdx.x;
  tile[i + 1] = x[i];
  if (i == 0) tile[0] = 0;
  MEND(if (i == 63) tile[65] = 0;)
  __syncthreads();
  out[i] = tile[i] + tile[i + 1] + tile[i + 2];  // expect: uninitialized
}

// run: 1 32 x=f32[32] out=f32[32] flag=0
extern "C" __global__ void flag_set_on_one_path(const float* x, float* out, int flag) {
  __shared__ int found;
  MEND(if (threadIdx.x == 0) found = 0; __syncthreads();)
  if (threadIdx.x == 0 && flag) found = flag;
  __syncthreads();
  out[threadIdx.x] = found + x[threadIdx.x];  // expect: uninitialized
}

// run: 1 32 picks=arange:i32[32] out=f32[32]
extern "C" __global__ void local_accumulators_not_zeroed(const int* picks, float* out) {
  float bins[16];
  MEND(for (int k = 0; k < 16; ++k) bins[(picks[k] * 3) & 15] = 0;)
  for (int k = 0; k < 4; ++k) bins[picks[k] & 15] = 1;
  out[threadIdx.x] = bins[picks[threadIdx.x] & 15];  // expect: uninitialized
}

// run: 1 32 picks=arange:i32[32] out=f32[32]
extern "C" __global__ void local_stack_read_past_top(const int* picks, float* out) {
  float stack[16];
  int top = 0;
  for (int k = 0; k < 5; ++k) stack[top++ & 15] = picks[k];
  int at = picks[threadIdx.x] & 15;
  out[threadIdx.x] = MEND(at >= top ? 0.0f :) stack[at];  // expect: uninitialized
}

// run: 1 64 x=f32[64] out=fresh:f32[64]
extern "C" __global__ void accumulates_into_fresh_output(const float* x, float* out) {
  int i = threadIdx.x;
  out[i] BAD(+=) MEND(=) x[i];  // expect: uninitialized
}

// run: 2 64 x=f32[128] out=fresh:f32[1] mended_out=zero:f32[1]
extern "C" __global__ void atomics_into_fresh_output(const float* x, float* out) {
  atomicAdd(out, x[blockIdx.x * 64 + threadIdx.x]);  // expect: uninitialized
}

// run: 1 64 x=f32[64] workspace=fresh:f32[128] out=f32[64]
extern "C" __global__ void workspace_half_written(const float* x, float* workspace, float* out) {
  int i = threadIdx.x;
  workspace[2 * i] = x[i];
  MEND(workspace[2 * i + 1] = 0;)
  out[i] = workspace[2 * i] + workspace[2 * i + 1];  // expect: uninitialized
}

// run: 1 32 out=i32[32]
extern "C" __global__ void fresh_heap_block_is_read(int* out) {
  int* mine = (int*)malloc(16);
  MEND(mine[1] = 7;)
  out[threadIdx.x] = mine[1];  // expect: uninitialized
  free(mine);
}

// run: 1 64 shared=512 x=f32[64] out=f32[64]
extern "C" __global__ void second_buffer_never_filled(const float* x, float* out) {
  extern __shared__ float buffers[];
  float* front = buffers;
  float* back = buffers + 64;
  front[threadIdx.x] = x[threadIdx.x];
  MEND(back[threadIdx.x] = 1;)
  __syncthreads();
  out[threadIdx.x] = front[63 - threadIdx.x] * back[63 - threadIdx.x];  // expect: uninitialized
}

// run: 1 32 x=u8[64] out=i32[32]
extern "C" __global__ void only_low_bytes_written(const unsigned char* x, int* out) {
  __shared__ int words[32];
  unsigned char* bytes = reinterpret_cast<unsigned char*>(&words[threadIdx.x]);
  bytes[0] = x[threadIdx.x];
  MEND(bytes[1] = 0; bytes[2] = 0; bytes[3] = 0;)
  out[threadIdx.x] = words[threadIdx.x];  // expect: uninitialized
}
