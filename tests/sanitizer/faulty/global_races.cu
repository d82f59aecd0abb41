// Threads and blocks that touch global memory unordered. Both parties' lines are marked.
// SPDX-License-Identifier: Apache-2.0

// run: 4 64 x=f32[256] out=zero:f32[1]
extern "C" __global__ void sum_without_atomic(const float* x, float* out) {
  BAD(*out += x[blockIdx.x * 64 + threadIdx.x];)  // expect: race
  MEND(atomicAdd(out, x[blockIdx.x * 64 + threadIdx.x]);)
}

// run: 4 64 x=rand(16):i32[256] bins=zero:i32[16]
extern "C" __global__ void global_histogram_without_atomic(const int* x, int* bins) {
  int v = x[blockIdx.x * 64 + threadIdx.x];
  BAD(bins[v] = bins[v] + 1;) MEND(atomicAdd(&bins[v], 1);)  // expect: race
}

// run: 4 32 data=f32[129]
extern "C" __global__ void in_place_stencil_between_blocks(float* data) {
  int i = blockIdx.x * 32 + threadIdx.x;
  float right = data[i + 1 BAD() MEND(-1)];  // expect: race
  data[i] = right * 0.5f;  // expect: race
}

// run: 4 64 x=f32[256] partial=zero:f32[4] out=zero:f32[1]
extern "C" __global__ void last_block_not_awaited(const float* x, float* partial, float* out) {
  float v = x[blockIdx.x * 64 + threadIdx.x];
  for (int step = 16; step; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = v;  // expect: race
    BAD(if (blockIdx.x == 3))
    MEND(if (blockIdx.x == 3) out[0] = v; if (false))
      out[0] = partial[0] + partial[1] + partial[2] + partial[3];  // expect: race
  }
}

__device__ unsigned arrived;

// run: 4 64 x=f32[256] partial=zero:f32[4] out=zero:f32[1]
extern "C" __global__ void ticket_without_fence(const float* x, float* partial, float* out) {
  __shared__ bool last;
  float v = x[blockIdx.x * 64 + threadIdx.x];
  for (int step = 16; step; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = v;  // expect: race
    MEND(__threadfence();)
    last = atomicAdd(&arrived, 1u) == gridDim.x - 1;
    MEND(__threadfence();)
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float total = 0;
    for (int b = 0; b < gridDim.x; ++b) total += partial[b];  // expect: race
    out[0] = total;
    arrived = 0;
  }
}

// run: 2 32 cooperative=1 flag=zero:i32[1] data=zero:f32[32] out=f32[32]
extern "C" __global__ void plain_flag_between_blocks(int* flag, float* data, float* out) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = threadIdx.x;  // expect: race
    MEND(__threadfence(); __syncwarp();)
    if (threadIdx.x == 0) BAD(*(volatile int*)flag = 1;) MEND(atomicExch(flag, 1);)  // expect: race
  } else {
    if (threadIdx.x == 0) while (BAD(*(volatile int*)flag == 0) MEND(atomicAdd(flag, 0) == 0)) {}  // expect: race
    MEND(__threadfence();)
    __syncwarp();
    out[threadIdx.x] = data[threadIdx.x];  // expect: race
  }
}

// run: 1 128 data=f32[128]
extern "C" __global__ void neighbour_in_global_without_barrier(float* data) {
  int i = threadIdx.x;
  float v = data[(i + 64) & 127];  // expect: race
  MEND(__syncthreads();)
  data[i] = v + 1;  // expect: race
}

// run: 1 128 x=f32[128] scratch=zero:f32[128] out=f32[128]
extern "C" __global__ void scratch_in_global_without_barrier(const float* x, float* scratch, float* out) {
  int i = threadIdx.x;
  scratch[i] = x[i];  // expect: race
  MEND(__syncthreads();)
  out[i] = scratch[127 - i];  // expect: race
}

// run: 4 32 x=f32[128] best=zero:f32[1]
extern "C" __global__ void running_maximum(const float* x, float* best) {
  float v = x[blockIdx.x * 32 + threadIdx.x] + blockIdx.x;
  for (int step = 16; step; step /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, step));
  if (threadIdx.x == 0) {
    BAD(if (v > *best) *best = v;)  // expect: race
    MEND(atomicMax((int*)best, __float_as_int(v));)
  }
}

// run: 4 64 out=i32[256]
extern "C" __global__ void overlapping_rows(int* out) {
  out[blockIdx.x * BAD(63) MEND(64) + threadIdx.x] = blockIdx.x;  // expect: race
}

// run: 3 32 permutation=rand(8):i32[96] out=zero:i32[8]
extern "C" __global__ void scatter_with_repeats(const int* permutation, int* out) {
  int i = blockIdx.x * 32 + threadIdx.x;
  BAD(out[permutation[i]] = i;) MEND(atomicMax(&out[permutation[i]], i);)  // expect: race
}

// run: 2 64 queue=zero:i32[128] tail=zero:i32[1]
extern "C" __global__ void queue_without_atomic_tail(int* queue, int* tail) {
  BAD(int at = *tail; *tail = at + 1;) MEND(int at = atomicAdd(tail, 1);)  // expect: race
  queue[at] = threadIdx.x;  // expect: race
}

__device__ int lock_word;

// run: 4 32 total=zero:f32[1]
extern "C" __global__ void lock_released_without_fence(float* total) {
  if (threadIdx.x == 0) {
    while (atomicCAS(&lock_word, 0, 1) != 0) {}
    MEND(__threadfence();)
    *total += blockIdx.x + 1.0f;  // expect: race
    MEND(__threadfence();)
    atomicExch(&lock_word, 0);
  }
}

// run: 4 32 total=zero:f32[1] locks=zero:i32[4]
extern "C" __global__ void each_block_its_own_lock(float* total, int* locks) {
  if (threadIdx.x == 0) {
    int* lock = &locks[BAD(blockIdx.x) MEND(0)];
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    *total += 1;  // expect: race
    __threadfence();
    atomicExch(lock, 0);
  }
}

// run: 4 64 x=f32[256] out=zero:f32[4]
extern "C" __global__ void neighbour_blocks_result(const float* x, float* out) {
  float v = x[blockIdx.x * 64 + threadIdx.x];
  if (threadIdx.x == 0) {
    out[blockIdx.x] = v;  // expect: race
    MEND(if (false))
    if (blockIdx.x > 0) out[blockIdx.x] += out[blockIdx.x - 1];  // expect: race
  }
}

__device__ float module_total;

// run: 4 32 x=f32[128]
extern "C" __global__ void module_global_accumulated(const float* x) {
  BAD(module_total += x[blockIdx.x * 32 + threadIdx.x];)  // expect: race
  MEND(atomicAdd(&module_total, x[blockIdx.x * 32 + threadIdx.x]);)
}

// run: 2 64 grad=zero:f32[64] value=f32[128]
extern "C" __global__ void split_k_without_atomic(float* grad, const float* value) {
  float v = value[blockIdx.x * 64 + threadIdx.x];
  BAD(grad[threadIdx.x] += v;) MEND(atomicAdd(&grad[threadIdx.x], v);)  // expect: race
}

// run: 2 64 counter=zero:i32[1] out=zero:i32[128]
extern "C" __global__ void block_scope_atomic_across_blocks(int* counter, int* out) {
  int at = BAD(atomicAdd_block(counter, 1)) MEND(atomicAdd(counter, 1));  // expect: race
  out[at & 127] = 1;  // expect: race
}
