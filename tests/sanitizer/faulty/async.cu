// Asynchronous copies that are read, overwritten or left before they have arrived.
// SPDX-License-Identifier: Apache-2.0

__device__ void copy4(float* to, const float* from) {
  unsigned at = __cvta_generic_to_shared(to);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(from) : "memory");  // also: async-copy-not-awaited in double_buffer_wait_count_too_large
}
__device__ void copy16(float* to, const float* from) {
  unsigned at = __cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at), "l"(from) : "memory");  // expect: misaligned in misaligned_async_copy; out-of-bounds in async_copy_past_the_end
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
#define WAIT(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void copy_never_awaited(const float* x, float* out) {
  __shared__ float tile[64];
  copy4(&tile[threadIdx.x], &x[threadIdx.x]);
  commit();
  MEND(WAIT(0);)
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];  // expect: async-copy-not-awaited
}

// run: 1 64 x=f32[256] out=f32[64]
extern "C" __global__ void copy_vectors_never_awaited(const float* x, float* out) {
  __shared__ __align__(16) float tile[256];
  copy16(&tile[4 * threadIdx.x], &x[4 * threadIdx.x]);
  commit();
  MEND(WAIT(0);)
  __syncthreads();
  out[threadIdx.x] = tile[255 - threadIdx.x];  // expect: async-copy-not-awaited
}

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void waited_without_commit(const float* x, float* out) {
  __shared__ float tile[64];
  copy4(&tile[threadIdx.x], &x[threadIdx.x]);
  MEND(commit();)
  WAIT(0);
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];  // expect: async-copy-not-awaited
}

// run: 1 64 x=f32[256] out=f32[64]
extern "C" __global__ void double_buffer_wait_count_too_large(const float* x, float* out) {
  __shared__ float tile[2][64];
  int i = threadIdx.x;
  float sum = 0;
  copy4(&tile[0][i], &x[i]);
  commit();
  for (int t = 0; t < 4; ++t) {
    if (t < 3) copy4(&tile[(t + 1) & 1][i], &x[(t + 1) * 64 + i]);
    commit();
    WAIT(BAD(2) MEND(1));
    __syncthreads();
    sum += tile[t & 1][63 - i];  // expect: async-copy-not-awaited
    __syncthreads();
  }
  out[i] = sum;
}

// run: 1 64 x=f32[256] out=f32[64]
extern "C" __global__ void last_stage_not_drained(const float* x, float* out) {
  __shared__ float tile[4][64];
  int i = threadIdx.x;
  for (int s = 0; s < 4; ++s) {
    copy4(&tile[s][i], &x[s * 64 + i]);
    commit();
  }
  float sum = 0;
  WAIT(BAD(1) MEND(0));
  __syncthreads();
  for (int s = 0; s < 4; ++s) sum += tile[s][63 - i];  // expect: async-copy-not-awaited
  out[i] = sum;
}

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void barrier_before_the_wait(const float* x, float* out) {
  __shared__ float tile[64];
  copy4(&tile[threadIdx.x], &x[threadIdx.x]);
  commit();
  BAD(__syncthreads(); WAIT(0);)
  MEND(WAIT(0); __syncthreads();)
  out[threadIdx.x] = tile[63 - threadIdx.x];  // expect: async-copy-not-awaited; race
}

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void no_barrier_after_the_wait(const float* x, float* out) {
  __shared__ float tile[64];
  copy4(&tile[threadIdx.x], &x[threadIdx.x]);
  commit();
  WAIT(0);
  MEND(__syncthreads();)
  out[threadIdx.x] = tile[63 - threadIdx.x];  // expect: race
}

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void destination_written_under_way(const float* x, float* out) {
  __shared__ float tile[64];
  copy4(&tile[threadIdx.x], &x[threadIdx.x]);
  commit();
  MEND(WAIT(0);)
  tile[threadIdx.x] = 0;  // expect: async-copy-not-awaited
  WAIT(0);
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

// run: 1 64 x=f32[256] out=f32[64]
extern "C" __global__ void stage_overwritten_while_read(const float* x, float* out) {
  __shared__ float tile[2][64];
  int i = threadIdx.x;
  float sum = 0;
  copy4(&tile[0][i], &x[i]);
  commit();
  for (int t = 0; t < 4; ++t) {
    WAIT(0);
    __syncthreads();
    sum += tile[t & 1][63 - i];  // expect: race
    MEND(__syncthreads();)
    if (t < 3) copy4(&tile[BAD(t & 1) MEND((t + 1) & 1)][i], &x[(t + 1) * 64 + i]);
    commit();
  }
  out[i] = sum;
}

// run: 1 32 x=f32[256] out=f32[32]
extern "C" __global__ void misaligned_async_copy(const float* x, float* out) {
  __shared__ __align__(16) float tile[128];
  copy16(&tile[4 * threadIdx.x], &x[4 * threadIdx.x BAD(+1)]);
  commit();
  WAIT(0);
  __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];
}

// run: 1 32 x=f32[126] out=f32[32] mended_x=f32[128]
extern "C" __global__ void async_copy_past_the_end(const float* x, float* out) {
  __shared__ __align__(16) float tile[128];
  copy16(&tile[4 * threadIdx.x], &x[4 * threadIdx.x]);
  commit();
  WAIT(0);
  __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];
}
