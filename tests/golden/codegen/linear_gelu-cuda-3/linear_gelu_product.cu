// linear_gelu: matmul, add, gelu
// ladder: 1 naive: one thread an output · 2 tiles in shared memory ·
//   3 several outputs a thread in registers, 16-byte loads
// this file: rung 3, several outputs a thread in registers, 16-byte loads
// Outputs: 36*x.shape[1]*x.shape[0]; inner: 20.

__device__ __forceinline__ float gelu(float x) {
  return 0.5f * x * (1.0f + erff(x * 0.7071067811865476f));
}

__device__ __forceinline__ double gelu(double x) {
  return 0.5 * x * (1.0 + erf(x * 0.7071067811865476));
}

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

constexpr int kTileRows = 64;  // outputs of a block
constexpr int kTileCols = 64;
constexpr int kDepth = 8;  // terms per step
constexpr int kRows = 4;  // outputs of a thread
constexpr int kCols = 4;
constexpr int kThreads = kTileRows * kTileCols / (kRows * kCols);
constexpr int kPack = 4;  // elements in 16 bytes

template <typename Index>
__global__ void __launch_bounds__(kThreads) linear_gelu_product(const float* __restrict__ x,
    const float* __restrict__ linear_weight, const float* __restrict__ linear_bias,
    float* __restrict__ out, Index batches, Index rows, Index cols, Index depth) {
  // one more column than needed, so that transposed stores fall into different banks
  __shared__ float left_tile[kDepth][kTileRows + 4];
  __shared__ float right_tile[kDepth][kTileCols + 4];
  const Index tiles_down = (rows + kTileRows - 1) / kTileRows;
  const Index tiles_across = (cols + kTileCols - 1) / kTileCols;
  const Index first_row = blockIdx.x / tiles_across % tiles_down * kTileRows;
  const Index first_col = blockIdx.x % tiles_across * kTileCols;
  const Index batch = blockIdx.x / tiles_across / tiles_down;
  const int my_row = threadIdx.x / (kTileCols / kCols) * kRows;
  const int my_col = threadIdx.x % (kTileCols / kCols) * kCols;
  const bool left_tile_packs = aligned<kPack>(x + 0) && (depth) % kPack == 0;
  const bool right_tile_packs = aligned<kPack>(linear_weight + 0) && (depth) % kPack == 0;
  float totals[kRows][kCols] = {};
  for (Index start = 0; start < depth; start += kDepth) {
    for (int piece = threadIdx.x; piece < kTileRows * kDepth / kPack; piece += kThreads) {
      const int far_in = piece / (kDepth / kPack);
      const int k_in = piece % (kDepth / kPack) * kPack;
      const Index row = first_row + far_in;
      const Index k = start + k_in;
      const float* from = x + 0 + row * depth + k;
      if (row < rows && k + kPack <= depth && left_tile_packs) {
        const Pack<float, kPack> pack = load_pack<kPack>(from);
#pragma unroll
        for (int v = 0; v < kPack; ++v) left_tile[k_in + v][far_in] = pack.at[v];
      } else {
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          const bool inside = row < rows && k + v < depth;
          left_tile[k_in + v][far_in] = inside ? from[v] : static_cast<float>(0.0f);
        }
      }
    }
    for (int piece = threadIdx.x; piece < kTileCols * kDepth / kPack; piece += kThreads) {
      const int far_in = piece / (kDepth / kPack);
      const int k_in = piece % (kDepth / kPack) * kPack;
      const Index col = first_col + far_in;
      const Index k = start + k_in;
      const float* from = linear_weight + 0 + col * depth + k;
      if (col < cols && k + kPack <= depth && right_tile_packs) {
        const Pack<float, kPack> pack = load_pack<kPack>(from);
#pragma unroll
        for (int v = 0; v < kPack; ++v) right_tile[k_in + v][far_in] = pack.at[v];
      } else {
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          const bool inside = col < cols && k + v < depth;
          right_tile[k_in + v][far_in] = inside ? from[v] : static_cast<float>(0.0f);
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float left_values[kRows], right_values[kCols];
#pragma unroll
      for (int i = 0; i < kRows; ++i) left_values[i] = static_cast<float>(left_tile[k][my_row + i]);
#pragma unroll
      for (int j = 0; j < kCols; ++j) right_values[j] = static_cast<float>(right_tile[k][my_col + j]);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kCols; ++j) totals[i][j] += left_values[i] * right_values[j];
      }
    }
    __syncthreads();  // both tiles are free for the next step
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
      const Index row = first_row + my_row + i;
      const Index col = first_col + my_col + j;
      if (row < rows && col < cols) {
        const float total = totals[i][j];
        const float linear_bias_value = linear_bias[col];
        const float add_3 = total + linear_bias_value;
        const float gelu_2 = gelu(add_3);
        const float add_15 = gelu_2 + 1.0f;
        out[row * cols + col] = add_15;
      }
    }
  }
}
