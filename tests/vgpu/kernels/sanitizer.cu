// Kernels with one fault each and their correct twins, for the tests of the sanitizer.
// run: pytest tests/vgpu/test_sanitizer_races.py   A line that must be reported ends in "// FAULT kind".
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda/barrier>

namespace cg = cooperative_groups;
#define KERNEL extern "C" __global__ void

// ------------------------------------------------------------------ shared memory, block barriers

KERNEL reverse(const float* x, float* out) {
  __shared__ float s[256];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[255 - threadIdx.x];
}
KERNEL reverse_unsynced(const float* x, float* out) {
  __shared__ float s[256];
  s[threadIdx.x] = x[threadIdx.x];
  out[threadIdx.x] = s[255 - threadIdx.x];  // FAULT race
}
KERNEL rounds(const float* x, float* out) {
  __shared__ float s[256];
  float sum = 0;
  for (int i = 0; i < 4; i++) {
    s[threadIdx.x] = x[threadIdx.x] + i;
    __syncthreads();
    sum += s[(threadIdx.x + 64) % 256];
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}
KERNEL rounds_one_barrier(const float* x, float* out) {
  __shared__ float s[256];
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < 4; i++) {
    s[threadIdx.x] = x[threadIdx.x] + i;  // FAULT race
    __syncthreads();
    sum += s[(threadIdx.x + 64) % 256];
  }
  out[threadIdx.x] = sum;
}
KERNEL bytes_apart(const unsigned char* x, unsigned char* out) {
  __shared__ unsigned char s[256];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  s[threadIdx.x] += 1;
  __syncthreads();
  out[threadIdx.x] = s[255 - threadIdx.x];
}
KERNEL bytes_overlap(const unsigned char* x, unsigned char* out) {
  __shared__ __align__(4) unsigned char s[256];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 64) ((unsigned*)s)[threadIdx.x] += 1;
  out[threadIdx.x] = s[threadIdx.x];  // FAULT race
}
KERNEL same_value(int* out) {
  __shared__ int flag;
  flag = out[5];  // INFO race
  __syncthreads();
  out[threadIdx.x] = flag;
}
KERNEL other_values(int* out) {
  __shared__ int flag;
  flag = threadIdx.x;  // FAULT race
  __syncthreads();
  out[threadIdx.x] = flag;
}
KERNEL counter_read_early(int* out) {
  __shared__ int n;
  if (threadIdx.x == 0) n = 0;
  __syncthreads();
  atomicAdd(&n, 1);
  if (threadIdx.x == 0) out[0] = n;  // FAULT race
}
KERNEL counter(int* out) {
  __shared__ int n;
  if (threadIdx.x == 0) n = 0;
  __syncthreads();
  atomicAdd(&n, 1);
  __syncthreads();
  if (threadIdx.x == 0) out[0] = n;
}
KERNEL counter_not_ready(int* out) {
  __shared__ int n;
  if (threadIdx.x == 0) n = 0;
  atomicAdd(&n, 1);  // FAULT race
  __syncthreads();
  if (threadIdx.x == 0) out[0] = n;
}

// -------------------------------------------------------------------------------- lanes of a warp

KERNEL warp_sum(const float* x, float* out) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x], s[threadIdx.x + 32] = 0;
  __syncwarp();
  for (int d = 16; d; d /= 2) {
    float v = s[threadIdx.x] + s[threadIdx.x + d];
    __syncwarp();
    s[threadIdx.x] = v;
    __syncwarp();
  }
  if (threadIdx.x == 0) out[0] = s[0];
}
KERNEL warp_sum_unsynced(const float* x, float* out) {
  __shared__ volatile float s[64];
  float* t = (float*)s;
  t[threadIdx.x] = x[threadIdx.x], t[threadIdx.x + 32] = 0;
  __syncwarp();
#pragma unroll 1
  for (int d = 16; d; d /= 2) t[threadIdx.x] += t[threadIdx.x + d];  // WARNING missing-syncwarp
  if (threadIdx.x == 0) out[0] = t[0];
}
KERNEL leader_broadcast(const float* x, float* out) {
  __shared__ float s;
  if (threadIdx.x == 0) s = x[5];
  __syncwarp();
  out[threadIdx.x] = s;
}
KERNEL leader_unsynced(const float* x, float* out) {
  __shared__ float s;
  if (threadIdx.x == 0) s = x[5];
  out[threadIdx.x] = s;  // WARNING missing-syncwarp
}
KERNEL ordered_by_shuffle(const float* x, float* out) {
  __shared__ float s[32];
  s[threadIdx.x] = x[threadIdx.x];
  float v = __shfl_xor_sync(~0u, x[threadIdx.x], 1);
  out[threadIdx.x] = s[threadIdx.x ^ 1] + v;  // INFO missing-syncwarp
}
KERNEL tiles_of_16(const float* x, float* out) {
  __shared__ float s[32];
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  s[threadIdx.x] = x[threadIdx.x];
  tile.sync();
  out[threadIdx.x] = s[threadIdx.x ^ 3];
}
KERNEL across_tiles(const float* x, float* out) {
  __shared__ float s[32];
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  s[threadIdx.x] = x[threadIdx.x];
  tile.sync();
  out[threadIdx.x] = s[threadIdx.x ^ 16];  // WARNING missing-syncwarp
}

// ------------------------------------------------------------- named barriers, mbarriers, clusters

#define BAR_SYNC(id, n) asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory")
#define BAR_ARRIVE(id, n) asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n) : "memory")

template <int FULL, int EMPTY> __device__ void pipeline(const float* x, float* out, bool waits) {
  __shared__ float stage[2][64];
  int lane = threadIdx.x % 64;
  if (threadIdx.x < 64) {
    for (int i = 0; i < 6; i++) {
      if (i >= 2 && waits) BAR_SYNC(EMPTY + i % 2, 128);
      stage[i % 2][lane] = x[i * 64 + lane];
      BAR_ARRIVE(FULL + i % 2, 128);
    }
  } else {
    for (int i = 0; i < 6; i++) {
      BAR_SYNC(FULL + i % 2, 128);
      out[i * 64 + lane] = stage[i % 2][63 - lane];
      if (i < 4 && waits) BAR_ARRIVE(EMPTY + i % 2, 128);
    }
  }
}
KERNEL producer_consumer(const float* x, float* out) { pipeline<1, 3>(x, out, true); }

KERNEL half_barrier(const float* x, float* out) {
  __shared__ float s[128];
  s[threadIdx.x] = x[threadIdx.x];
  BAR_SYNC(1 + threadIdx.x / 64, 64);
  out[threadIdx.x] = s[threadIdx.x ^ 32];
}
KERNEL half_barrier_crossed(const float* x, float* out) {
  __shared__ float s[128];
  s[threadIdx.x] = x[threadIdx.x];
  BAR_SYNC(1 + threadIdx.x / 64, 64);
  out[threadIdx.x] = s[threadIdx.x ^ 64];  // FAULT race
}
KERNEL block_barrier_object(const float* x, float* out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ float s[128];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  for (int i = 0; i < 3; i++) {
    s[threadIdx.x] = x[threadIdx.x] + i;
    bar.arrive_and_wait();
    out[threadIdx.x] = s[127 - threadIdx.x];
    bar.arrive_and_wait();
  }
}
KERNEL barrier_object_not_ready(const float* x, float* out) {
  __shared__ alignas(8) unsigned long long bar;
  unsigned at = (unsigned)__cvta_generic_to_shared(&bar);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 128;" ::"r"(at));
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at));  // FAULT race
  out[threadIdx.x] = x[threadIdx.x];
}
KERNEL arrives_without_waiting(const float* x, float* out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ float s[128];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  s[threadIdx.x] = x[threadIdx.x];
  auto token = bar.arrive();
  out[threadIdx.x] = s[127 - threadIdx.x];  // FAULT race
  bar.wait(std::move(token));
}

// ------------------------------------------------------------------------- global memory, blocks

KERNEL last_block(const float* x, float* part, float* out, unsigned* done) {
  __shared__ bool last;
  float sum = 0;
  for (int i = threadIdx.x; i < 64; i += 32) sum += x[blockIdx.x * 64 + i];
  for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
  if (threadIdx.x == 0) {
    part[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(done, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0)
    for (int i = 0; i < gridDim.x; i++) out[0] += part[i];
}
KERNEL last_block_unfenced(const float* x, float* part, float* out, unsigned* done) {
  if (threadIdx.x == 0) {
    part[blockIdx.x] = x[blockIdx.x];
    if (atomicAdd(done, 1) == gridDim.x - 1)
      for (int i = 0; i < gridDim.x; i++) out[0] += part[i];  // FAULT race
  }
}
KERNEL same_element(const float* x, float* out) {
  out[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];  // FAULT race
}
KERNEL in_place_stencil(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x + 1;
  if (i < n - 1) x[i] = x[i - 1] + x[i + 1];  // FAULT race
}
KERNEL look_back(const float* x, float* out, float* sums, int* flags) {
  __shared__ float before;
  if (threadIdx.x == 0) {
    float mine = x[blockIdx.x], sum = 0;
    if (blockIdx.x) {
      while (((volatile int*)flags)[blockIdx.x - 1] == 0) {}
      __threadfence();
      sum = sums[blockIdx.x - 1];
    }
    sums[blockIdx.x] = sum + mine;
    __threadfence();
    ((volatile int*)flags)[blockIdx.x] = 1;
    before = sum;
  }
  __syncthreads();
  out[blockIdx.x * 32 + threadIdx.x] = before;
}
KERNEL released(const float* x, float* box, int* flag, float* out) {
  cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    box[0] = x[0];
    ready.store(1, cuda::std::memory_order_release);
  } else {
    while (ready.load(cuda::std::memory_order_acquire) == 0) {}
    out[blockIdx.x] = box[0];
  }
}
KERNEL relaxed(const float* x, float* box, int* flag, float* out) {
  cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    box[0] = x[0];
    ready.store(1, cuda::std::memory_order_relaxed);
  } else {
    while (ready.load(cuda::std::memory_order_relaxed) == 0) {}
    out[blockIdx.x] = box[0];  // FAULT race
  }
}
KERNEL locked(int* lock, int* counter) {
  for (bool done = false; !done;) {
    if (atomicCAS(lock, 0, 1) == 0) {
      *counter += 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}
KERNEL unlocked(int* counter) { *counter += 1; }  // FAULT race

KERNEL grid_wide(const float* x, float* mid, float* out) {
  auto grid = cg::this_grid();
  int i = grid.thread_rank(), n = grid.size();
  mid[i] = x[i];
  grid.sync();
  out[i] = mid[n - 1 - i];
}
KERNEL grid_wide_unsynced(const float* x, float* mid, float* out) {
  auto grid = cg::this_grid();
  int i = grid.thread_rank(), n = grid.size();
  mid[i] = x[i];
  __syncthreads();
  out[i] = mid[n - 1 - i];  // FAULT race
}

// -------------------------------------------------------------------------- uninitialized memory

KERNEL tail_not_filled(const float* x, float* out) {
  __shared__ float s[256];
  if (threadIdx.x < 200) s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];  // FAULT uninitialized
}
KERNEL tail_filled(const float* x, float* out) {
  __shared__ float s[256];
  s[threadIdx.x] = threadIdx.x < 200 ? x[threadIdx.x] : 0;
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}
KERNEL half_a_word(const unsigned short* x, unsigned* out) {
  __shared__ __align__(4) unsigned short s[64];
  s[2 * threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  out[threadIdx.x] = ((unsigned*)s)[threadIdx.x];  // FAULT uninitialized
}
KERNEL vector_of_three(const float* x, float* out) {
  __shared__ __align__(16) float s[128];
  for (int i = 0; i < 3; i++) s[4 * threadIdx.x + i] = x[threadIdx.x];
  __syncwarp();
  float4 v = ((float4*)s)[threadIdx.x];  // FAULT uninitialized
  out[threadIdx.x] = v.x + v.y + v.z + v.w;
}
KERNEL atomic_on_nothing(int* out) {
  __shared__ int bins[32];
  atomicAdd(&bins[threadIdx.x], 1);  // FAULT uninitialized
  __syncthreads();
  out[threadIdx.x] = bins[threadIdx.x];
}
KERNEL local_array(const int* which, int* out) {
  int kept[8];
  for (int i = 0; i < 4; i++) kept[i] = i * threadIdx.x;
  out[threadIdx.x] = kept[which[threadIdx.x]];  // FAULT uninitialized
}
KERNEL accumulates(const float* x, float* out) { out[threadIdx.x] += x[threadIdx.x]; }  // FAULT uninitialized

// ------------------------------------------------------------------------- asynchronous copies

__device__ void copy4(float* to, const float* from) {
  unsigned at = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}
KERNEL awaited(const float* x, float* out) {
  __shared__ float s[128];
  copy4(&s[threadIdx.x], x + threadIdx.x);
  asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  out[threadIdx.x] = s[127 - threadIdx.x];
}
KERNEL not_awaited(const float* x, float* out) {
  __shared__ float s[128];
  copy4(&s[threadIdx.x], x + threadIdx.x);
  asm volatile("cp.async.commit_group;" ::: "memory");
  __syncthreads();
  out[threadIdx.x] = s[127 - threadIdx.x];  // FAULT async-copy-not-awaited
}
KERNEL awaited_too_few(const float* x, float* out) {
  __shared__ float s[2][128];
  for (int i = 0; i < 2; i++) {
    copy4(&s[i][threadIdx.x], x + 128 * i + threadIdx.x);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  asm volatile("cp.async.wait_group 1;" ::: "memory");
  __syncthreads();
  out[threadIdx.x] = s[0][127 - threadIdx.x];
  out[threadIdx.x] += s[1][127 - threadIdx.x];  // FAULT async-copy-not-awaited
}
KERNEL awaited_without_barrier(const float* x, float* out) {
  __shared__ float s[128];
  copy4(&s[threadIdx.x], x + threadIdx.x);
  asm volatile("cp.async.wait_all;" ::: "memory");
  out[threadIdx.x] = s[127 - threadIdx.x];  // FAULT race
}
KERNEL overwritten(const float* x, float* out) {
  __shared__ float s[128];
  copy4(&s[threadIdx.x], x + threadIdx.x);
  s[threadIdx.x] = 1;  // FAULT async-copy-not-awaited
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}
KERNEL never_awaited(const float* x, float* out) {
  __shared__ float s[128];
  copy4(&s[threadIdx.x], x + threadIdx.x);
  out[threadIdx.x] = x[threadIdx.x];
}

// --------------------------------------------------------------------------------- barriers, heap

KERNEL barrier_in_branch(int* out) {
  if (threadIdx.x < 16) {
    asm volatile("bar.sync 0;");  // FAULT divergent-barrier
    out[threadIdx.x] = 1;
  } else {
    asm volatile("bar.sync 0;");
    out[threadIdx.x] = 2;
  }
}
KERNEL barrier_by_warp(int* out) {
  if (threadIdx.x < 32) {
    asm volatile("bar.sync 0;");
    out[threadIdx.x] = 1;
  } else {
    asm volatile("bar.sync 0;");  // WARNING barrier-mismatch
    out[threadIdx.x] = 2;
  }
}
KERNEL odd_count(int* out) {
  BAR_SYNC(1, 48);  // FAULT barrier-mismatch
  out[threadIdx.x] = 1;
}
KERNEL counts_differ(int* out) {
  if (threadIdx.x < 32) BAR_SYNC(1, 64);  // FAULT barrier-mismatch
  else BAR_SYNC(1, 96);  // FAULT barrier-mismatch
  out[threadIdx.x] = 1;
}
KERNEL leaves_before(int* out, int n) {
  if (threadIdx.x >= n) return;
  out[threadIdx.x] = 1;
  __syncthreads();  // WARNING barrier-mismatch
  out[threadIdx.x] += 1;
}
KERNEL heap_leaks(int* out) {
  int* p = (int*)malloc(16);  // WARNING leak
  *p = threadIdx.x, out[threadIdx.x] = *p;
  if (threadIdx.x % 2) free(p);
}
KERNEL heap_freed_twice(int* out) {
  int* p = (int*)malloc(16);
  *p = threadIdx.x, out[threadIdx.x] = *p;
  free(p);
  free(p);  // FAULT double-free
}
KERNEL heap_moved(int* out) {
  int* p = (int*)malloc(16);
  *p = threadIdx.x, out[threadIdx.x] = *p;
  int* moved = p + out[threadIdx.x + 32];
  free(moved);  // FAULT invalid-free
  free(p);
}
KERNEL heap_used_after(volatile int* out) {
  volatile int* p = (volatile int*)malloc(16);
  *p = threadIdx.x;
  free((void*)p);
  out[threadIdx.x] = *p;  // FAULT use-after-free
}
KERNEL heap_past_the_end(volatile int* out) {
  volatile int* p = (volatile int*)malloc(16);
  p[4] = threadIdx.x;  // FAULT out-of-bounds
  out[threadIdx.x] = 1;
  free((void*)p);
}
KERNEL heap_fine(int* out) {
  int* p = (int*)malloc(4 * (threadIdx.x + 1));
  for (int i = 0; i <= threadIdx.x; i++) p[i] = i;
  int sum = 0;
  for (int i = 0; i <= threadIdx.x; i++) sum += p[i];
  out[threadIdx.x] = sum;
  free(p);
}
