// Kernels written with CUDA's own libraries: cub, cooperative groups, barriers, pipelines, wmma.
// run: pytest tests/vgpu/test_launch_libraries.py
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <mma.h>

namespace cg = cooperative_groups;

extern "C" __global__ void block_reduce(const float* in, float* out) {
  using Reduce = cub::BlockReduce<float, 128>;
  __shared__ typename Reduce::TempStorage storage;
  float sum = Reduce(storage).Sum(in[blockIdx.x * 128 + threadIdx.x]);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

extern "C" __global__ void block_scan(const int* in, int* out) {
  using Scan = cub::BlockScan<int, 128>;
  __shared__ typename Scan::TempStorage storage;
  int items[4];
  for (int i = 0; i < 4; i++) items[i] = in[threadIdx.x * 4 + i];
  Scan(storage).InclusiveSum(items, items);
  for (int i = 0; i < 4; i++) out[threadIdx.x * 4 + i] = items[i];
}

extern "C" __global__ void block_sort(const unsigned* in, unsigned* out) {
  using Sort = cub::BlockRadixSort<unsigned, 128, 4>;
  __shared__ typename Sort::TempStorage storage;
  unsigned keys[4];
  for (int i = 0; i < 4; i++) keys[i] = in[threadIdx.x * 4 + i];
  Sort(storage).Sort(keys);
  for (int i = 0; i < 4; i++) out[threadIdx.x * 4 + i] = keys[i];
}

extern "C" __global__ void groups(const int* in, int* out) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<16>(block);
  int v = in[block.thread_rank()];
  int sum = cg::reduce(tile, v, cg::plus<int>());
  int scan = cg::inclusive_scan(tile, v, cg::plus<int>());
  out[block.thread_rank()] = sum;
  out[block.size() + block.thread_rank()] = scan;
  if (v & 1) {
    auto odd = cg::coalesced_threads();
    out[2 * block.size() + block.thread_rank()] = odd.size() * 100 + odd.thread_rank();
  }
}

extern "C" __global__ void grid_sync(int* data, int* out) {
  auto grid = cg::this_grid();
  int i = grid.thread_rank();
  data[i] = i;
  grid.sync();
  out[i] = data[grid.size() - 1 - i];
  grid.sync();
  data[i] = out[i] + 1;
  grid.sync();
  out[i] += data[(i + 1) % grid.size()];
}

extern "C" __global__ void barrier_copy(const float* in, float* out) {
  __shared__ alignas(16) float tile[256];
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  auto block = cg::this_thread_block();
  if (block.thread_rank() == 0) init(&barrier, block.size());
  block.sync();
  for (int round = 0; round < 3; round++) {
    cuda::memcpy_async(block, tile, in + 256 * round, sizeof(tile), barrier);
    barrier.arrive_and_wait();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) out[256 * round + i] = tile[255 - i];
    barrier.arrive_and_wait();
  }
}

extern "C" __global__ void pipeline_copy(const float* in, float* out) {
  __shared__ alignas(16) float tile[2][128];
  auto pipe = cuda::make_pipeline();
  for (int step = 0; step < 5; step++) {
    if (step < 4) {
      pipe.producer_acquire();
      cuda::memcpy_async(&tile[step & 1][threadIdx.x], in + 128 * step + threadIdx.x, 4, pipe);
      pipe.producer_commit();
    }
    if (step) {
      if (step < 4) cuda::pipeline_consumer_wait_prior<1>(pipe); else cuda::pipeline_consumer_wait_prior<0>(pipe);
      out[128 * (step - 1) + threadIdx.x] = 2 * tile[(step - 1) & 1][threadIdx.x];
      pipe.consumer_release();
    }
  }
}

extern "C" __global__ void wmma_tile(const half* a, const half* b, float* c) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  for (int k = 0; k < 64; k += 16) {
    wmma::load_matrix_sync(fa, a + k, 64);
    wmma::load_matrix_sync(fb, b + k, 64);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

struct Shape { __device__ virtual float area(float x) const = 0; };
struct Square : Shape { __device__ float area(float x) const override { return x * x; } };
struct Disc : Shape { __device__ float area(float x) const override { return 3.0f * x * x; } };

extern "C" __global__ void virtuals(float* out) {
  Square square;
  Disc disc;
  const Shape* shape = threadIdx.x & 1 ? (const Shape*)&disc : (const Shape*)&square;
  out[threadIdx.x] = shape->area(threadIdx.x);
}
