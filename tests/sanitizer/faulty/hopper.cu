// mbarriers, clusters, distributed shared memory and bulk copies that go wrong.
// SPDX-License-Identifier: Apache-2.0
// arch: sm_90a
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
typedef unsigned long long u64;

__device__ unsigned smem(const void* p) { return __cvta_generic_to_shared(p); }
__device__ void init(u64* b, int n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(smem(b)), "r"(n) : "memory");
}
__device__ void arrive(u64* b) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" :: "r"(smem(b)) : "memory");
}
__device__ void expect(u64* b, int bytes) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" :: "r"(smem(b)), "r"(bytes) : "memory");
}
__device__ void await(u64* b, int phase) {
  asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" :: "r"(smem(b)), "r"(phase) : "memory");  // expect: deadlock in arrival_count_too_large, transaction_count_too_large, barrier_phase_ahead, barrier_phase_behind
}
__device__ void bulk(void* to, const void* from, int bytes, u64* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(smem(to)), "l"(from), "r"(bytes), "r"(smem(b)) : "memory");  // expect: out-of-bounds in bulk_copy_past_the_end
}

// run: 1 64 out=f32[64]
extern "C" __global__ void arrival_count_too_large(float* out) {
  __shared__ u64 done;
  if (threadIdx.x == 0) init(&done, BAD(65) MEND(64));
  __syncthreads();
  arrive(&done);
  await(&done, 0);
  out[threadIdx.x] = 1;
}

// run: 1 128 x=f32[128] out=f32[128]
extern "C" __global__ void barrier_phase_behind(const float* x, float* out) {
  __shared__ u64 full;
  __shared__ float tile[128];
  int i = threadIdx.x;
  if (i == 0) init(&full, 128);
  __syncthreads();
  for (int t = 0; t < 2; ++t) {
    tile[i] = x[i] + t;  // expect: race
    arrive(&full);
    await(&full, BAD(0) MEND(t));
    out[i] = tile[127 - i];  // expect: race
    if (t == 0) __syncthreads();
  }
}

// run: 1 64 out=f32[64]
extern "C" __global__ void barrier_phase_ahead(float* out) {
  __shared__ u64 done;
  if (threadIdx.x == 0) init(&done, 64);
  __syncthreads();
  arrive(&done);
  await(&done, 0);
  BAD(await(&done, 1);)
  out[threadIdx.x] = 1;
}

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void bulk_copy_not_awaited(const float* x, float* out) {
  __shared__ __align__(128) float tile[64];
  __shared__ u64 full;
  if (threadIdx.x == 0) {
    init(&full, 1);
    expect(&full, 256);
    bulk(tile, x, 256, &full);
  }
  __syncthreads();
  MEND(await(&full, 0);)
  out[threadIdx.x] = tile[63 - threadIdx.x];  // expect: async-copy-not-awaited
}

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void transaction_count_too_large(const float* x, float* out) {
  __shared__ __align__(128) float tile[64];
  __shared__ u64 full;
  if (threadIdx.x == 0) {
    init(&full, 1);
    expect(&full, BAD(512) MEND(256));
    bulk(tile, x, 256, &full);
  }
  __syncthreads();
  await(&full, 0);
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

// run: 1 64 x=f32[60] out=f32[64] mended_x=f32[64]
extern "C" __global__ void bulk_copy_past_the_end(const float* x, float* out) {
  __shared__ __align__(128) float tile[64];
  __shared__ u64 full;
  if (threadIdx.x == 0) {
    init(&full, 1);
    expect(&full, 256);
    bulk(tile, x, 256, &full);
  }
  __syncthreads();
  await(&full, 0);
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

// run: 1 64 x=f32[128] out=f32[64]
extern "C" __global__ void bulk_copy_parity_inverted(const float* x, float* out) {
  __shared__ __align__(128) float tile[2][64];
  __shared__ u64 full;
  if (threadIdx.x == 0) init(&full, 1);
  __syncthreads();
  float sum = 0;
  for (int t = 0; t < 2; ++t) {
    if (threadIdx.x == 0) {
      expect(&full, 256);
      bulk(tile[t], x + t * 64, 256, &full);
    }
    __syncthreads();
    await(&full, BAD(t ^ 1) MEND(t));
    sum += tile[t][63 - threadIdx.x];  // expect: async-copy-not-awaited
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}

// run: 2 64 x=f32[128] out=f32[128]
extern "C" __global__ void __cluster_dims__(2) neighbour_read_before_cluster_sync(const float* x, float* out) {
  __shared__ float tile[64];
  auto cluster = cg::this_cluster();
  int rank = cluster.block_rank();
  tile[threadIdx.x] = x[rank * 64 + threadIdx.x];  // expect: race
  BAD(__syncthreads();) MEND(cluster.sync();)
  const float* other = cluster.map_shared_rank(tile, rank ^ 1);
  out[rank * 64 + threadIdx.x] = other[63 - threadIdx.x];  // expect: race
  cluster.sync();
}

// run: 2 64 x=f32[128] out=f32[128]
extern "C" __global__ void __cluster_dims__(2) partial_sums_pushed_without_sync(const float* x, float* out) {
  __shared__ float slots[2];
  auto cluster = cg::this_cluster();
  int rank = cluster.block_rank();
  float v = x[rank * 64 + threadIdx.x];
  cluster.sync();
  if (threadIdx.x == 0) {
    cluster.map_shared_rank(slots, 0)[rank] = v;  // expect: race
    cluster.map_shared_rank(slots, 1)[rank] = v;  // expect: race
  }
  BAD(__syncthreads();) MEND(cluster.sync();)
  out[rank * 64 + threadIdx.x] = slots[0] + slots[1];  // expect: race
  cluster.sync();
}

// run: 2 64 x=f32[128] out=f32[128]
extern "C" __global__ void __cluster_dims__(2) cluster_barrier_by_one_block(const float* x, float* out) {
  auto cluster = cg::this_cluster();
  int rank = cluster.block_rank();
  out[rank * 64 + threadIdx.x] = x[rank * 64 + threadIdx.x];
  if (rank == 0 MEND(|| rank == 1)) {
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");  // expect: deadlock
  } else {
    asm volatile("bar.sync 1, 128;" ::: "memory");  // expect: deadlock
  }
}
