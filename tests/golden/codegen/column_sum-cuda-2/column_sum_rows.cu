// column_sum: sum
// ladder: 1 naive: one thread a row · 2 tile: neighboring rows side by side, several threads a row ·
//   3 two stages: chunks of a row, then a merge in fixed order
// this file: rung 2, tile: neighboring rows side by side, several threads a row
// Rows: inputs_0.shape[1]; columns: inputs_0.shape[0].

// a sum
template <typename T>
struct Sum {
  T total;
  static __device__ Sum none() { return { T(0) }; }
  __device__ void add(T value) { total = total + value; }
  __device__ void merge(const Sum& other) { add(other.total); }
};

// the states of all threads with the same threadIdx.x merged, in every thread
template <typename State>
__device__ __forceinline__ State tile_total(State state) {
  __shared__ State of_thread[8][32];
  of_thread[threadIdx.y][threadIdx.x] = state;
  __syncthreads();
#pragma unroll
  for (int half = 4; half > 0; half /= 2) {
    if (threadIdx.y < half) of_thread[threadIdx.y][threadIdx.x].merge(of_thread[threadIdx.y + half][threadIdx.x]);
    __syncthreads();
  }
  state = of_thread[0][threadIdx.x];
  __syncthreads();  // of_thread is free for the next total
  return state;
}

constexpr int kRows = 32;   // neighboring rows of a block
constexpr int kDepth = 8;  // threads that share a row

template <typename Index>
__global__ void __launch_bounds__(256) column_sum_rows(const float* __restrict__ inputs_0,
    float* __restrict__ out, Index rows, Index cols) {
  for (Index corner = static_cast<Index>(blockIdx.x) * kRows; corner < rows;
       corner += static_cast<Index>(gridDim.x) * kRows) {
    const bool active = corner + threadIdx.x < rows;
    const Index row = active ? corner + threadIdx.x : rows - 1;  // idle threads repeat the last row
    Sum<float> sum_1_state = Sum<float>::none();
    for (Index col = threadIdx.y; col < cols; col += kDepth) {
      const float inputs_0_value = inputs_0[row + col * rows];
      sum_1_state.add(inputs_0_value);
    }
    sum_1_state = tile_total(sum_1_state);
    const float sum_1 = sum_1_state.total;
    if (threadIdx.y == 0 && active) {
      out[row] = sum_1;
    }
  }
}
