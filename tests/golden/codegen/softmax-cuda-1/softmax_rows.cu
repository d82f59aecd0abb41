// softmax: max, sub, exp, sum, div
// ladder: 1 naive: one thread a row · 2 one warp a row, shuffles ·
//   3 one block a row, shuffles and shared memory · 4 one block a row, 16-byte packs ·
//   5 the row kept in registers, read once ·
//   6 one warp keeps a row in registers: no shared memory, no barrier ·
//   7 online softmax: maximum and sum in one pass
// this file: rung 1, naive: one thread a row
// Rows: inputs_0.shape[0]; columns: inputs_0.shape[1].

// the larger one, or NaN if either is NaN
template <typename T>
__device__ __forceinline__ T nan_max(T a, T b) {
  return a > b || a != a ? a : b;
}

// the least value of a type: below all others, or equal to the smallest
template <typename T>
__device__ __forceinline__ T least() {
  return static_cast<T>(1) << (8 * sizeof(T) - 1);
}
template <>
__device__ __forceinline__ float least<float>() {
  return __int_as_float(0xff800000);
}

// a sum
template <typename T>
struct Sum {
  T total;
  static __device__ Sum none() { return { T(0) }; }
  __device__ void add(T value) { total = total + value; }
  __device__ void merge(const Sum& other) { add(other.total); }
};

// a maximum; NaN wins
template <typename T>
struct Maximum {
  T total;
  static __device__ Maximum none() { return { least<T>() }; }
  __device__ void add(T value) { total = nan_max(total, value); }
  __device__ void merge(const Maximum& other) { add(other.total); }
};

constexpr int kThreads = 128;

template <typename Index>
__global__ void __launch_bounds__(128) softmax_rows(const float* __restrict__ inputs_0,
    float* __restrict__ out, Index rows, Index cols) {
  const Index first = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  for (Index row = first; row < rows; row += static_cast<Index>(gridDim.x) * kThreads) {
    Maximum<float> amax_state = Maximum<float>::none();
    for (Index col = 0; col < cols; ++col) {
      const float inputs_0_value = inputs_0[row * cols + col];
      amax_state.add(inputs_0_value);
    }
    const float amax = amax_state.total;
    Sum<float> sum_1_state = Sum<float>::none();
    for (Index col = 0; col < cols; ++col) {
      const float inputs_0_value = inputs_0[row * cols + col];
      const float sub = inputs_0_value - amax;
      const float exp_2 = expf(sub);
      sum_1_state.add(exp_2);
    }
    const float sum_1 = sum_1_state.total;
    for (Index col = 0; col < cols; ++col) {
      const float inputs_0_value = inputs_0[row * cols + col];
      const float sub = inputs_0_value - amax;
      const float exp_2 = expf(sub);
      const float div_2 = exp_2 / sum_1;
      out[row * cols + col] = div_2;
    }
  }
}
