// Threads of a block that touch shared memory unordered. Both parties' lines are marked.
// SPDX-License-Identifier: Apache-2.0

// run: 1 256 x=f32[256] out=f32[256]
extern "C" __global__ void reverse_without_barrier(const float* x, float* out) {
  __shared__ float tile[256];
  tile[threadIdx.x] = x[threadIdx.x];  // expect: race
  MEND(__syncthreads();)
  out[threadIdx.x] = tile[255 - threadIdx.x];  // expect: race
}

// run: 1 256 x=f32[256] out=f32[1]
extern "C" __global__ void tree_reduction_without_barrier(const float* x, float* out) {
  __shared__ float sums[256];
  int i = threadIdx.x;
  sums[i] = x[i];
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (i < half) sums[i] += sums[i + half];  // expect: race
    MEND(__syncthreads();)
  }
  __syncthreads();
  if (i == 0) out[0] = sums[0];
}

// run: 1 128 x=f32[128] out=f32[128]
extern "C" __global__ void scan_without_second_barrier(const float* x, float* out) {
  __shared__ float sums[128];
  int i = threadIdx.x;
  sums[i] = x[i];
  __syncthreads();
  for (int step = 1; step < 128; step *= 2) {
    float v = i >= step ? sums[i - step] : 0;  // expect: race
    MEND(__syncthreads();)
    sums[i] += v;  // expect: race
    __syncthreads();
  }
  out[i] = sums[i];
}

// run: 2,2 16,16 a=f32[32,32] b=f32[32,32] c=f32[32,32] n=32
extern "C" __global__ void matmul_no_barrier_after_load(const float* a, const float* b, float* c, int n) {
  __shared__ float ta[16][16], tb[16][16];
  int x = threadIdx.x, y = threadIdx.y;
  float sum = 0;
  for (int t = 0; t < n; t += 16) {
    ta[y][x] = a[(blockIdx.y * 16 + y) * n + t + x];  // expect: race
    tb[y][x] = b[(t + y) * n + blockIdx.x * 16 + x];  // expect: race
    MEND(__syncthreads();)
    for (int k = 0; k < 16; ++k) sum += ta[y][k] * tb[k][x];  // expect: race
    __syncthreads();
  }
  c[(blockIdx.y * 16 + y) * n + blockIdx.x * 16 + x] = sum;
}

// run: 2,2 16,16 a=f32[32,32] b=f32[32,32] c=f32[32,32] n=32
extern "C" __global__ void matmul_no_barrier_before_next_tile(const float* a, const float* b, float* c, int n) {
  __shared__ float ta[16][16], tb[16][16];
  int x = threadIdx.x, y = threadIdx.y;
  float sum = 0;
  for (int t = 0; t < n; t += 16) {
    ta[y][x] = a[(blockIdx.y * 16 + y) * n + t + x];  // expect: race
    tb[y][x] = b[(t + y) * n + blockIdx.x * 16 + x];  // expect: race
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += ta[y][k] * tb[k][x];  // expect: race
    MEND(__syncthreads();)
  }
  c[(blockIdx.y * 16 + y) * n + blockIdx.x * 16 + x] = sum;
}

// run: 1 32,8 x=f32[32,32] out=f32[32,32]
extern "C" __global__ void transpose_without_barrier(const float* x, float* out) {
  __shared__ float tile[32][33];
  for (int j = threadIdx.y; j < 32; j += 8)
    tile[j][threadIdx.x] = x[j * 32 + threadIdx.x];  // expect: race
  MEND(__syncthreads();)
  for (int j = threadIdx.y; j < 32; j += 8)
    out[j * 32 + threadIdx.x] = tile[threadIdx.x][j];  // expect: race
}

// run: 1 128 x=rand(16):i32[128] out=zero:i32[16]
extern "C" __global__ void histogram_without_atomics(const int* x, int* out) {
  __shared__ int bins[16];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  BAD(bins[x[threadIdx.x]] += 1;) MEND(atomicAdd(&bins[x[threadIdx.x]], 1);)  // expect: race
  __syncthreads();
  if (threadIdx.x < 16) out[threadIdx.x] = bins[threadIdx.x];
}

// run: 1 128 x=rand(16):i32[128] out=zero:i32[16]
extern "C" __global__ void histogram_zeroed_late(const int* x, int* out) {
  __shared__ int bins[128];
  bins[threadIdx.x] = 0;  // expect: race
  MEND(__syncthreads();)
  atomicAdd(&bins[x[threadIdx.x]], 1);  // expect: race
  __syncthreads();
  if (threadIdx.x < 16) out[threadIdx.x] = bins[threadIdx.x];
}

// run: 1 128 x=rand(16):i32[128] out=zero:i32[16]
extern "C" __global__ void histogram_read_early(const int* x, int* out) {
  __shared__ int bins[16];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&bins[x[threadIdx.x]], 1);  // expect: race
  MEND(__syncthreads();)
  if (threadIdx.x < 16) out[threadIdx.x] = bins[threadIdx.x];  // expect: race
}

// run: 1 64 x=f32[256] out=f32[64]
extern "C" __global__ void double_buffer_written_too_early(const float* x, float* out) {
  __shared__ float buffer[2][64];
  int i = threadIdx.x;
  float sum = 0;
  buffer[0][i] = x[i];
  __syncthreads();
  for (int t = 0; t < 4; ++t) {
    int now = t & 1;
    if (t < 3) buffer[BAD(now) MEND(now ^ 1)][i] = x[(t + 1) * 64 + i];  // expect: race
    sum += buffer[now][63 - i];  // expect: race
    __syncthreads();
  }
  out[i] = sum;
}

// run: 1 64 x=f32[256] out=f32[64]
extern "C" __global__ void double_buffer_without_barrier(const float* x, float* out) {
  __shared__ float buffer[2][64];
  int i = threadIdx.x;
  float sum = 0;
  buffer[0][i] = x[i];
  __syncthreads();
  for (int t = 0; t < 4; ++t) {
    int now = t & 1;
    sum += buffer[now][63 - i];  // expect: race
    if (t < 3) buffer[now ^ 1][i] = x[(t + 1) * 64 + i];  // expect: race
    MEND(__syncthreads();)
  }
  out[i] = sum;
}

// run: 1 128 x=f32[128] out=f32[128]
extern "C" __global__ void broadcast_before_it_is_there(const float* x, float* out) {
  __shared__ float pivot;
  if (threadIdx.x == 0) pivot = x[0];  // expect: race
  MEND(__syncthreads();)
  out[threadIdx.x] = x[threadIdx.x] / (pivot + 1);  // expect: race
}

// run: 1 128 x=f32[256] out=f32[256]
extern "C" __global__ void broadcast_slot_reused(const float* x, float* out) {
  __shared__ float pivot;
  for (int r = 0; r < 2; ++r) {
    if (threadIdx.x == 0) pivot = x[r * 128];  // expect: race
    __syncthreads();
    out[r * 128 + threadIdx.x] = x[r * 128 + threadIdx.x] - pivot;  // expect: race
    MEND(__syncthreads();)
  }
}

__device__ float block_sum(float v, float* slots) {
  for (int step = 16; step; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = v;  // expect: race in block_sum_called_twice
  __syncthreads();
  float total = 0;
  for (int w = 0; w < blockDim.x / 32; ++w) total += slots[w];  // expect: race in block_sum_called_twice
  return total;
}

// run: 1 128 x=f32[128] out=f32[128]
extern "C" __global__ void block_sum_called_twice(const float* x, float* out) {
  __shared__ float slots[32];
  float mean = block_sum(x[threadIdx.x], slots) / 128;
  MEND(__syncthreads();)
  float d = x[threadIdx.x] - mean;
  float variance = block_sum(d * d, slots) / 128;
  out[threadIdx.x] = d * rsqrtf(variance + 1e-5f);
}

// run: 1 128 x=f32[128] out=f32[1]
extern "C" __global__ void all_threads_accumulate(const float* x, float* out) {
  __shared__ float total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  BAD(total += x[threadIdx.x];) MEND(atomicAdd(&total, x[threadIdx.x]);)  // expect: race
  __syncthreads();
  if (threadIdx.x == 0) out[0] = total;
}

// run: 1 128 x=f32[128] out=i32[1]
extern "C" __global__ void last_index_wins(const float* x, int* out) {
  __shared__ int where;
  if (threadIdx.x == 0) where = -1;
  __syncthreads();
  if (x[threadIdx.x] > 2) {
    BAD(where = threadIdx.x;) MEND(atomicMax(&where, (int)threadIdx.x);)  // expect: race
  }
  __syncthreads();
  if (threadIdx.x == 0) out[0] = where;
}

// run: 1 128 x=f32[128] out=f32[128]
extern "C" __global__ void in_place_shift(const float* x, float* out) {
  __shared__ float line[129];
  int i = threadIdx.x;
  line[i] = x[i];
  if (i == 0) line[128] = 0;
  __syncthreads();
  BAD(line[i] = line[i + 1];)  // expect: race
  MEND(float next = line[i + 1]; __syncthreads(); line[i] = next;)
  __syncthreads();
  out[i] = line[i];
}

// run: 1 128 x=f32[128] out=f32[128]
extern "C" __global__ void odd_even_sort_without_barrier(const float* x, float* out) {
  __shared__ float keys[128];
  int i = threadIdx.x;
  keys[i] = x[127 - i];
  __syncthreads();
  for (int round = 0; round < 4; ++round) {
    int left = 2 * i + (round & 1);
    if (left + 1 < 128) {
      float a = keys[left], b = keys[left + 1];  // expect: race
      keys[left] = fminf(a, b);  // expect: race
      keys[left + 1] = fmaxf(a, b);  // expect: race
    }
    MEND(__syncthreads();)
  }
  __syncthreads();
  out[i] = keys[i];
}

// run: 1 128 x=f32[128] out=f32[128]
extern "C" __global__ void barrier_of_half_the_block(const float* x, float* out) {
  __shared__ float tile[128];
  tile[threadIdx.x] = x[threadIdx.x];  // expect: race
  BAD(asm volatile("bar.sync %0, 64;" :: "r"(threadIdx.x / 64 + 1) : "memory");)
  MEND(__syncthreads();)
  out[threadIdx.x] = tile[127 - threadIdx.x];  // expect: race
}

// run: 1 64 x=f32[128] out=f32[64]
extern "C" __global__ void producer_does_not_wait_for_empty(const float* x, float* out) {
  __shared__ float slot[32];
  int lane = threadIdx.x % 32;
  float sum = 0;
  for (int t = 0; t < 4; ++t) {
    if (threadIdx.x < 32) {
      MEND(if (t) asm volatile("bar.sync 2, 64;" ::: "memory");)
      slot[lane] = x[t * 32 + lane];
      asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
      asm volatile("bar.sync 1, 64;" ::: "memory");  // expect: deadlock
      sum += slot[31 - lane];
      MEND(if (t < 3) asm volatile("bar.arrive 2, 64;" ::: "memory");)
    }
  }
  if (threadIdx.x >= 32) out[lane] = sum;
}

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void fence_taken_for_a_barrier(const float* x, float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];  // expect: race
  BAD(__threadfence_block();) MEND(__syncthreads();)
  out[threadIdx.x] = tile[63 - threadIdx.x];  // expect: race
}

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void syncwarp_taken_for_a_barrier(const float* x, float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];  // expect: race
  BAD(__syncwarp();) MEND(__syncthreads();)
  out[threadIdx.x] = tile[63 - threadIdx.x];  // expect: race
}

// run: 1 128 x=f32[128] out=f32[64]
extern "C" __global__ void overlapping_carve_up(const float* x, float* out) {
  __shared__ float pool[256];
  float* mine = pool;
  float* theirs = pool + BAD(63) MEND(64);
  if (threadIdx.x < 64) mine[threadIdx.x] = x[threadIdx.x];  // expect: race
  else theirs[threadIdx.x - 64] = -x[threadIdx.x];  // expect: race
  __syncthreads();
  if (threadIdx.x < 64) out[threadIdx.x] = mine[threadIdx.x] + theirs[threadIdx.x];
}

// run: 1 64 x=u8[64] out=i32[16]
extern "C" __global__ void bytes_of_one_word(const unsigned char* x, int* out) {
  __shared__ unsigned words[16];
  int i = threadIdx.x;
  if (i < 16) words[i] = 0;
  __syncthreads();
  BAD(words[i % 16] |= (unsigned)x[i] << (8 * (i / 16));)  // expect: race
  MEND(atomicOr(&words[i % 16], (unsigned)x[i] << (8 * (i / 16)));)
  __syncthreads();
  if (i < 16) out[i] = words[i];
}

// run: 1 96 x=f32[96] out=f32[96]
extern "C" __global__ void softmax_maximum_overwritten(const float* x, float* out) {
  __shared__ float slots[3];
  __shared__ float shared_value;
  int warp = threadIdx.x / 32;
  float v = x[threadIdx.x], most = v;
  for (int step = 16; step; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
  if (threadIdx.x % 32 == 0) slots[warp] = most;
  __syncthreads();
  most = fmaxf(slots[0], fmaxf(slots[1], slots[2]));  // expect: race
  float e = expf(v - most), total = e;
  for (int step = 16; step; step /= 2) total += __shfl_xor_sync(~0u, total, step);
  MEND(__syncthreads();)
  if (threadIdx.x % 32 == 0) slots[warp] = total;  // expect: race
  __syncthreads();
  if (threadIdx.x == 0) shared_value = slots[0] + slots[1] + slots[2];
  __syncthreads();
  out[threadIdx.x] = e / shared_value;
}
