// Barriers that part of the threads reach, that count wrongly, or that nobody completes.
// SPDX-License-Identifier: Apache-2.0

// run: 1 64 x=f32[64] out=f32[64] n=40
extern "C" __global__ void early_return_before_barrier(const float* x, float* out, int n) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  BAD(if (i >= n) return;)
  if (i < n) tile[i] = x[i];
  __syncthreads();  // expect: warning barrier-mismatch
  if (i < n) out[i] = tile[n - 1 - i];
}

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void barrier_in_odd_lanes(const float* x, float* out) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i] = x[i];
  BAD(if (i % 2)) {
    __syncthreads();  // expect: warning barrier-mismatch
  }
  MEND(out[i] = tile[63 - i];) BAD(out[i] = tile[i];)
}

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void barrier_in_both_branches(const float* x, float* out) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i] = x[i];
  if (BAD(i % 2) MEND(i < 64)) {
    out[i] = tile[i] + 1;
    __syncthreads();  // expect: divergent-barrier
  } else {
    out[i] = tile[i] + 2;
    __syncthreads();  // expect: divergent-barrier
  }
}

// run: 1 64 x=f32[64] out=f32[64] n=40
extern "C" __global__ void barrier_in_loop_of_uneven_length(const float* x, float* out, int n) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  float sum = 0;
  for (int k = 0; k < BAD(1 + i % 3) MEND(3); ++k) {
    tile[i] = x[i] + k;
    __syncthreads();  // expect: warning barrier-mismatch
    sum += tile[i];
  }
  out[i] = sum;
}

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void barrier_behind_data_test(const float* x, float* out) {
  int i = threadIdx.x;
  if (MEND(true ||) x[i] > 2) {
    __syncthreads();  // expect: warning barrier-mismatch
  }
  out[i] = x[i];
}

// run: 1 128 x=f32[128] out=f32[128]
extern "C" __global__ void barrier_for_half_the_warps(const float* x, float* out) {
  int i = threadIdx.x;
  out[i] = x[i];
  if (i < 64 MEND(+64)) {
    asm volatile("bar.sync 1, 128;" ::: "memory");  // expect: deadlock
  }
}

// run: 1 64 out=f32[64]
extern "C" __global__ void named_barrier_counts_a_missing_warp(float* out) {
  BAD(asm volatile("bar.sync 1, 96;" ::: "memory");)  // expect: deadlock
  MEND(asm volatile("bar.sync 1, 64;" ::: "memory");)
  out[threadIdx.x] = 1;
}

// run: 1 64 out=f32[64]
extern "C" __global__ void warps_wait_at_each_others_barrier(float* out) {
  if (threadIdx.x < 32) {
    asm volatile("bar.sync 1, 64;" ::: "memory");  // expect: deadlock
    out[threadIdx.x] = 1;
  } else {
    BAD(asm volatile("bar.sync 2, 64;" ::: "memory");)  // expect: deadlock
    MEND(asm volatile("bar.sync 1, 64;" ::: "memory");)
    out[threadIdx.x] = 2;
  }
}

// run: 1 64 out=f32[64]
extern "C" __global__ void two_barriers_in_opposite_order(float* out) {
  if (threadIdx.x < 32) {
    asm volatile("bar.sync 1, 64;" ::: "memory");  // expect: deadlock
    asm volatile("bar.sync 2, 64;" ::: "memory");
  } else {
    BAD(asm volatile("bar.sync 2, 64;" ::: "memory");)  // expect: deadlock
    asm volatile("bar.sync 1, 64;" ::: "memory");
    MEND(asm volatile("bar.sync 2, 64;" ::: "memory");)
  }
  out[threadIdx.x] = 1;
}

// run: 1 96 out=f32[96]
extern "C" __global__ void named_barrier_different_counts(float* out) {
  if (threadIdx.x < 32) {
    asm volatile("bar.arrive 1, 64;" ::: "memory");
  } else if (threadIdx.x < 64) {
    BAD(asm volatile("bar.sync 1, 96;" ::: "memory");)  // expect: barrier-mismatch
    MEND(asm volatile("bar.sync 1, 64;" ::: "memory");)
  } else {
    BAD(asm volatile("bar.sync 1, 96;" ::: "memory");)
  }
  out[threadIdx.x] = 1;
}

// run: 1 96 out=f32[96] count=80 mended_count=96
extern "C" __global__ void named_barrier_count_not_of_warps(float* out, int count) {
  asm volatile("bar.sync 1, %0;" :: "r"(count) : "memory");  // expect: barrier-mismatch
  out[threadIdx.x] = 1;
}

// run: 1 64 max_instructions=300000 out=f32[64] turn=zero:i32[1]
extern "C" __global__ void waits_for_a_store_that_never_comes(float* out, int* turn) {
  if (threadIdx.x == 32) {
    MEND(atomicExch(turn, 1);)
    out[0] = 1;
  }
  if (threadIdx.x == 0) {
    while (atomicAdd(turn, 0) == 0) {}  // expect: step-budget
    out[1] = 2;
  }
}

// run: 1 32 out=f32[32] lock=zero:i32[1] max_instructions=300000
extern "C" __global__ void lock_taken_and_not_released(float* out, int* lock) {
  for (int turn = 0; turn < 32; ++turn) {
    if (threadIdx.x == turn) {
      while (atomicCAS(lock, 0, 1) != 0) {}  // expect: step-budget
      __threadfence();
      out[0] += 1;
      __threadfence();
      MEND(atomicExch(lock, 0);)
    }
    __syncwarp();
  }
}

// run: 1 64 out=f32[64] locks=zero:i32[3] max_instructions=300000
extern "C" __global__ void two_locks_in_opposite_order(float* out, int* locks) {
  int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) {
    int first = BAD(warp) MEND(0);
    while (atomicCAS(&locks[first], 0, 1) != 0) {}
    BAD(atomicAdd(&locks[2], 1); while (atomicAdd(&locks[2], 0) < 2) {})
    while (atomicCAS(&locks[1 - first], 0, 1) != 0) {}  // expect: step-budget
    __threadfence();
    out[0] += 1;
    __threadfence();
    atomicExch(&locks[1 - first], 0);
    atomicExch(&locks[first], 0);
  }
}

// run: 4 32 out=f32[4] ready=zero:i32[1] max_instructions=300000 cooperative=1
extern "C" __global__ void block_waits_for_a_block_that_does_not_come(float* out, int* ready) {
  if (threadIdx.x == 0) {
    atomicAdd(ready, 1);
    while (atomicAdd(ready, 0) < gridDim.x BAD(+1)) {}  // expect: step-budget
    out[blockIdx.x] = 1;
  }
}

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void lanes_wait_for_lanes_that_wait_for_them(const float* x, float* out) {
  int lane = threadIdx.x % 32;
  if (lane < 16) {
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");  // expect: deadlock
    out[threadIdx.x] = x[threadIdx.x];
  } else {
    BAD(asm volatile("bar.sync 1, 64;" ::: "memory");)  // expect: deadlock
    MEND(asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");)
    out[threadIdx.x] = -x[threadIdx.x];
  }
}
