// permute: mul
// ladder: 1 naive: one thread an element ·
//   2 grid stride: a persistent grid walks over the elements ·
//   3 transposed operands through padded tiles in shared memory
// this file: rung 3, transposed operands through padded tiles in shared memory
// Elements: inputs_0.shape[0]*inputs_0.shape[1]*inputs_0.shape[2].

constexpr int kTile = 32;
constexpr int kDepth = 8;  // threads down a tile: each takes kTile / kDepth elements

template <typename Index>
__global__ void __launch_bounds__(kTile * kDepth) permute_elements(const float* __restrict__ inputs_0,
    float* __restrict__ out, Index rows, Index row_size_1, Index row_size_2) {
  __shared__ float inputs_0_tile[kTile][kTile + 1];  // padded: columns fall into different banks
  const Index tiles_down = (row_size_1 + kTile - 1) / kTile;
  const Index tiles_across = (row_size_2 + kTile - 1) / kTile;
  const Index corner_across = blockIdx.x % tiles_across * kTile;
  const Index corner_down = blockIdx.x / tiles_across % tiles_down * kTile;
  const Index outer = blockIdx.x / tiles_across / tiles_down;
  const Index row_0 = outer;
#pragma unroll
  for (int down = 0; down < kTile; down += kDepth) {
    const Index row_1 = corner_down + threadIdx.x;
    const Index row_2 = corner_across + threadIdx.y + down;
    if (row_1 < row_size_1 && row_2 < row_size_2) {
      inputs_0_tile[threadIdx.y + down][threadIdx.x] = inputs_0[row_0 * row_size_2 * row_size_1 + row_2 * row_size_1 + row_1];
    }
  }
  __syncthreads();
#pragma unroll
  for (int down = 0; down < kTile; down += kDepth) {
    const Index row_1 = corner_down + threadIdx.y + down;
    const Index row_2 = corner_across + threadIdx.x;
    if (row_1 < row_size_1 && row_2 < row_size_2) {
      const float inputs_0_value = inputs_0_tile[threadIdx.x][threadIdx.y + down];
      const float mul_10 = inputs_0_value * 2.0f;
      out[row_0 * row_size_1 * row_size_2 + row_1 * row_size_2 + row_2] = mul_10;
    }
  }
}
