// linear_gelu: matmul, add, gelu
// ladder: 1 naive: one thread an output · 2 tiles in shared memory ·
//   3 several outputs a thread in registers, 16-byte loads
// this file: rung 1, naive: one thread an output
// Outputs: 36*x.shape[1]*x.shape[0]; inner: 20.

__device__ __forceinline__ float gelu(float x) {
  return 0.5f * x * (1.0f + erff(x * 0.7071067811865476f));
}

__device__ __forceinline__ double gelu(double x) {
  return 0.5 * x * (1.0 + erf(x * 0.7071067811865476));
}

template <typename Index>
__global__ void __launch_bounds__(256) linear_gelu_product(const float* __restrict__ x,
    const float* __restrict__ linear_weight, const float* __restrict__ linear_bias,
    float* __restrict__ out, Index batches, Index rows, Index cols, Index depth) {
  const Index element = static_cast<Index>(blockIdx.x) * 256 + threadIdx.x;
  if (element >= batches * rows * cols) return;
  const Index col = element % cols;
  const Index row = element / cols % rows;
  const Index batch = element / cols / rows;
  float total = 0;
  for (Index k = 0; k < depth; ++k) {
    const float left = static_cast<float>(x[row * depth + k]);
    const float right = static_cast<float>(linear_weight[col * depth + k]);
    total += left * right;
  }
  const float linear_bias_value = linear_bias[col];
  const float add_3 = total + linear_bias_value;
  const float gelu_2 = gelu(add_3);
  const float add_15 = gelu_2 + 1.0f;
  out[row * cols + col] = add_15;
}
