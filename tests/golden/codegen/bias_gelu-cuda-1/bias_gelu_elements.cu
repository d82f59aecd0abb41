// bias_gelu: add, gelu, mul
// ladder: 1 naive: one thread an element ·
//   2 grid stride: a persistent grid walks over the elements · 3 16-byte packs with a scalar tail
// this file: rung 1, naive: one thread an element
// Elements: inputs_0.shape[0]*inputs_0.shape[1].

__device__ __forceinline__ float gelu(float x) {
  return 0.5f * x * (1.0f + erff(x * 0.7071067811865476f));
}

__device__ __forceinline__ double gelu(double x) {
  return 0.5 * x * (1.0 + erf(x * 0.7071067811865476));
}

template <typename Index>
__global__ void __launch_bounds__(256) bias_gelu_elements(const float* __restrict__ inputs_0,
    const float* __restrict__ inputs_1, float* __restrict__ out, Index rows, Index row_size_1) {
  const Index row = static_cast<Index>(blockIdx.x) * 256 + threadIdx.x;
  if (row >= rows) return;
  const Index row_1 = row % row_size_1;
  const float inputs_0_value = inputs_0[row];
  const float inputs_1_value = inputs_1[row_1];
  const float add = inputs_0_value + inputs_1_value;
  const float gelu_2 = gelu(add);
  const float mul_4 = gelu_2 * 2.0f;
  out[row] = mul_4;
}
