// half_matmul: matmul
// ladder: 1 naive: one thread an output · 2 tiles in shared memory ·
//   3 several outputs a thread in registers, 16-byte loads ·
//   4 tensor cores (mma.sync), float32 accumulation
// this file: rung 4, tensor cores (mma.sync), float32 accumulation
// Outputs: inputs_0.shape[0]*inputs_1.shape[1]; inner: inputs_0.shape[1].
#include <cuda_fp16.h>

// V neighbors, moved by one access where the address allows it
template <typename T, int V>
struct alignas(sizeof(T) * V) Pack {
  T at[V];
};

template <int V, typename T>
__device__ __forceinline__ Pack<T, V> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, V>*>(from);
}

template <int V, typename T>
__device__ __forceinline__ void store_pack(T* to, const Pack<T, V>& pack) {
  *reinterpret_cast<Pack<T, V>*>(to) = pack;
}

template <int V, typename T>
__device__ __forceinline__ bool aligned(const T* pointer) {
  return reinterpret_cast<unsigned long long>(pointer) % (sizeof(T) * V) == 0;
}

constexpr int kTileRows = 128;  // outputs of a block
constexpr int kTileCols = 128;
constexpr int kDepth = 32;  // terms per step, a multiple of 16
constexpr int kWarpsAcross = 2;
constexpr int kThreads = 32 * 2 * kWarpsAcross;
constexpr int kWarpRows = kTileRows / 2;  // outputs of a warp
constexpr int kWarpCols = kTileCols / kWarpsAcross;
constexpr int kPack = 8;  // elements in 16 bytes

// totals += left (16x16) * right (16x8), on a tensor core with float32 accumulation
__device__ __forceinline__ void multiply_add(float (&totals)[4], const unsigned (&left)[4],
    const unsigned (&right)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
"{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(totals[0]), "+f"(totals[1]), "+f"(totals[2]), "+f"(totals[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}

// two neighbors in shared memory as one register
__device__ __forceinline__ unsigned pair(const __half* from) {
  return *reinterpret_cast<const unsigned*>(from);
}

template <typename Index>
__global__ void __launch_bounds__(kThreads) half_matmul_product(const __half* __restrict__ inputs_0,
    const __half* __restrict__ inputs_1, __half* __restrict__ out, Index batches, Index rows,
    Index cols, Index depth) {
  // rows padded by 16 bytes: the eight rows that a fragment reads fall into different banks
  __shared__ alignas(16) __half left_tile[kTileRows][kDepth + 8];
  __shared__ alignas(16) __half right_tile[kTileCols][kDepth + 8];
  const Index tiles_down = (rows + kTileRows - 1) / kTileRows;
  const Index tiles_across = (cols + kTileCols - 1) / kTileCols;
  const Index first_row = blockIdx.x / tiles_across % tiles_down * kTileRows;
  const Index first_col = blockIdx.x % tiles_across * kTileCols;
  const Index batch = blockIdx.x / tiles_across / tiles_down;
  const int warp = threadIdx.x / 32;
  const int warp_row = warp / kWarpsAcross * kWarpRows;
  const int warp_col = warp % kWarpsAcross * kWarpCols;
  const int group = threadIdx.x % 32 / 4;  // of four lanes: a row of a fragment
  const int twice = threadIdx.x % 4 * 2;   // the first of a lane's two columns
  const bool left_tile_packs = aligned<kPack>(inputs_0 + 0) && (depth) % kPack == 0;
  const bool right_tile_packs = aligned<kPack>(inputs_1 + 0) && (cols) % kPack == 0;
  float totals[kWarpRows / 16][kWarpCols / 8][4] = {};
  for (Index start = 0; start < depth; start += kDepth) {
    for (int piece = threadIdx.x; piece < kTileRows * kDepth / kPack; piece += kThreads) {
      const int far_in = piece / (kDepth / kPack);
      const int k_in = piece % (kDepth / kPack) * kPack;
      const Index row = first_row + far_in;
      const Index k = start + k_in;
      const __half* from = inputs_0 + 0 + row * depth + k;
      if (row < rows && k + kPack <= depth && left_tile_packs) {
        const Pack<__half, kPack> pack = load_pack<kPack>(from);
#pragma unroll
        for (int v = 0; v < kPack; ++v) left_tile[far_in][k_in + v] = pack.at[v];
      } else {
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          const bool inside = row < rows && k + v < depth;
          left_tile[far_in][k_in + v] = inside ? from[v] : static_cast<__half>(0.0f);
        }
      }
    }
    for (int piece = threadIdx.x; piece < kTileCols * kDepth / kPack; piece += kThreads) {
      const int far_in = piece % (kTileCols / kPack) * kPack;
      const int k_in = piece / (kTileCols / kPack);
      const Index col = first_col + far_in;
      const Index k = start + k_in;
      const __half* from = inputs_1 + 0 + k * cols + col;
      if (k < depth && col + kPack <= cols && right_tile_packs) {
        const Pack<__half, kPack> pack = load_pack<kPack>(from);
#pragma unroll
        for (int v = 0; v < kPack; ++v) right_tile[far_in + v][k_in] = pack.at[v];
      } else {
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          const bool inside = k < depth && col + v < cols;
          right_tile[far_in + v][k_in] = inside ? from[v] : static_cast<__half>(0.0f);
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
      unsigned lefts[kWarpRows / 16][4], rights[kWarpCols / 8][2];
#pragma unroll
      for (int i = 0; i < kWarpRows / 16; ++i) {
        const int at = warp_row + i * 16 + group;
        lefts[i][0] = pair(&left_tile[at][k + twice]);
        lefts[i][1] = pair(&left_tile[at + 8][k + twice]);
        lefts[i][2] = pair(&left_tile[at][k + twice + 8]);
        lefts[i][3] = pair(&left_tile[at + 8][k + twice + 8]);
      }
#pragma unroll
      for (int j = 0; j < kWarpCols / 8; ++j) {
        const int at = warp_col + j * 8 + group;
        rights[j][0] = pair(&right_tile[at][k + twice]);
        rights[j][1] = pair(&right_tile[at][k + twice + 8]);
      }
#pragma unroll
      for (int i = 0; i < kWarpRows / 16; ++i) {
#pragma unroll
        for (int j = 0; j < kWarpCols / 8; ++j) multiply_add(totals[i][j], lefts[i], rights[j]);
      }
    }
    __syncthreads();  // both tiles are free for the next step
  }
#pragma unroll
  for (int i = 0; i < kWarpRows / 16; ++i) {
#pragma unroll
    for (int j = 0; j < kWarpCols / 8; ++j) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const Index row = first_row + warp_row + i * 16 + group + part / 2 * 8;
        const Index col = first_col + warp_col + j * 8 + twice + part % 2;
        if (row < rows && col < cols) {
          const float total = totals[i][j][part];
          out[row * cols + col] = static_cast<__half>(total);
        }
      }
    }
  }
}
