// What only sm_90 has: clusters, distributed shared memory, bulk copies on mbarriers.
// run: pytest tests/vgpu/test_launch_hopper.py
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

extern "C" __global__ void __cluster_dims__(4, 1, 1) neighbors(int* out) {
  __shared__ int box[32];
  auto cluster = cg::this_cluster();
  box[threadIdx.x] = 100 * cluster.block_rank() + threadIdx.x;
  cluster.sync();
  int* other = cluster.map_shared_rank(box, (cluster.block_rank() + 1) % 4);
  out[blockIdx.x * 32 + threadIdx.x] = other[31 - threadIdx.x];
  cluster.sync();
  atomicAdd(cluster.map_shared_rank(&box[0], 0), 1);
  cluster.sync();
  if (cluster.block_rank() == 0 && threadIdx.x == 0) out[blockIdx.x * 32] = box[0];
}

__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__ void bulk(const float* in, float* out) {
  __shared__ alignas(128) float tile[256];
  __shared__ alignas(8) unsigned long long barrier;
  unsigned bar = shared_address(&barrier);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
  __syncthreads();
  for (int round = 0; round < 3; round++) {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(1024));
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                   ::"r"(shared_address(tile)), "l"(in + 256 * round), "r"(1024), "r"(bar) : "memory");
    }
    asm volatile("{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra DONE;\nbra WAIT;\nDONE:\n}"
                 ::"r"(bar), "r"(round & 1) : "memory");
    float v = tile[threadIdx.x];
    __syncthreads();
    tile[255 - threadIdx.x] = 2 * v;
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("fence.proxy.async.shared::cta;");
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                   ::"l"(out + 256 * round), "r"(shared_address(tile)), "r"(1024) : "memory");
      asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
    __syncthreads();
  }
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) mapped(int* out) {
  __shared__ int box[32];
  unsigned here = shared_address(&box[threadIdx.x]), there, rank, got;
  box[threadIdx.x] = 0;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank ^ 1));
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(10 * rank + threadIdx.x) : "memory");
  asm volatile("red.shared::cluster.add.u32 [%0], 1000;" ::"r"(there) : "memory");
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(got) : "r"(there) : "memory");
  out[blockIdx.x * 32 + threadIdx.x] = box[threadIdx.x] + 100000 * got;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

extern "C" __global__ void never_arrives(int* out) {
  __shared__ alignas(8) unsigned long long barrier;
  unsigned bar = shared_address(&barrier);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(bar));
  __syncthreads();
  if (threadIdx.x == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar));
  asm volatile("{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n@!done bra WAIT;\n}" ::"r"(bar) : "memory");
  out[threadIdx.x] = 1;
}
