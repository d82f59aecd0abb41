// bias_gelu: add, gelu, mul
// ladder: 1 naive: one thread an element ·
//   2 grid stride: a persistent grid walks over the elements · 3 16-byte packs with a scalar tail
// this file: rung 3, 16-byte packs with a scalar tail
// Elements: inputs_0.shape[0]*inputs_0.shape[1].

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

// Elements row ... row + V - 1.
template <typename Index, int V>
__device__ __forceinline__ void bias_gelu_elements_pack(Index row,
    const float* __restrict__ inputs_0, const float* __restrict__ inputs_1, float* __restrict__ out,
    Index rows, Index row_size_1) {
  const Index row_1 = row % row_size_1;
  const Pack<float, V> inputs_0_pack = load_pack<V>(inputs_0 + row);
  const Pack<float, V> inputs_1_pack = load_pack<V>(inputs_1 + row_1);
  Pack<float, V> out_pack;
  #pragma unroll
  for (int v = 0; v < V; ++v) {
    const float inputs_0_value = inputs_0_pack.at[v];
    const float inputs_1_value = inputs_1_pack.at[v];
    const float add = inputs_0_value + inputs_1_value;
    const float gelu_2 = gelu(add);
    const float mul_4 = gelu_2 * 2.0f;
    out_pack.at[v] = mul_4;
  }
  store_pack(out + row, out_pack);
}

template <typename Index>
__global__ void __launch_bounds__(256) bias_gelu_elements(const float* __restrict__ inputs_0,
    const float* __restrict__ inputs_1, float* __restrict__ out, Index rows, Index row_size_1) {
  constexpr int V = 4;
  const Index thread = static_cast<Index>(blockIdx.x) * 256 + threadIdx.x;
  const Index threads = static_cast<Index>(gridDim.x) * 256;
  const bool packs = row_size_1 % V == 0 && aligned<V>(inputs_0) && aligned<V>(inputs_1) && aligned<V>(out);
  const Index packed = packs ? rows / V * V : 0;
  for (Index row = thread * V; row < packed; row += threads * V) {
    bias_gelu_elements_pack<Index, V>(row, inputs_0, inputs_1, out, rows, row_size_1);
  }
  for (Index row = packed + thread; row < rows; row += threads) {
    bias_gelu_elements_pack<Index, 1>(row, inputs_0, inputs_1, out, rows, row_size_1);
  }
}
