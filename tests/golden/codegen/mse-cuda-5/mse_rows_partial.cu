// mse: sub, square, sum, div
// ladder: 1 naive: one thread a row · 2 one warp a row, shuffles ·
//   3 one block a row, shuffles and shared memory · 4 one block a row, 16-byte packs ·
//   5 two stages: chunks of a row, then a merge in fixed order
// this file: rung 5, two stages: chunks of a row, then a merge in fixed order
// Rows: 1; columns: inputs_0.shape[0]*inputs_0.shape[1].

// a sum
template <typename T>
struct Sum {
  T total;
  static __device__ Sum none() { return { T(0) }; }
  __device__ void add(T value) { total = total + value; }
  __device__ void merge(const Sum& other) { add(other.total); }
  __device__ Sum from(int mask) const { return {static_cast<T>(__shfl_xor_sync(0xffffffffu, total,
      mask))}; }
};

// all 32 lanes' states merged, in every lane
template <typename State>
__device__ __forceinline__ State warp_total(State state) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) state.merge(state.from(mask));
  return state;
}

// all threads' states merged, in every thread. The totals of a row have slots of their own: the
// barrier of one keeps the slot of another until the next row.
template <int kSlot, typename State>
__device__ __forceinline__ State block_total(State state) {
  __shared__ State of_warp[8];
  state = warp_total(state);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = state;
  __syncthreads();
  state = of_warp[threadIdx.x % 8];
#pragma unroll
  for (int mask = 4; mask > 0; mask /= 2) state.merge(state.from(mask));
  return state;
}

constexpr int kChunk = 4096;  // columns that one block reduces

// Stage 1: each block reduces one chunk of the columns of one row.
template <typename Index>
__global__ void __launch_bounds__(256) mse_rows_partial(const float* __restrict__ inputs_0,
    const float* __restrict__ inputs_1, float* __restrict__ out, Index rows, Index cols,
    unsigned char* scratch) {
  const Index splits = cols > 0 ? (cols - 1) / kChunk + 1 : 1;
  unsigned char* free = scratch;
  Sum<float>* mean_state_parts = reinterpret_cast<Sum<float>*>(free);
  const Index chunk = blockIdx.x % splits;
  const Index row = blockIdx.x / splits;
  Sum<float> mean_state = Sum<float>::none();
  const Index begin = chunk * kChunk;
  const Index end = cols - begin < kChunk ? cols : begin + kChunk;
  for (Index col = begin + threadIdx.x; col < end; col += 256) {
    const float inputs_0_value = inputs_0[col];
    const float inputs_1_value = inputs_1[col];
    const float sub = inputs_0_value - inputs_1_value;
    const float pow_1 = sub * sub;
    mean_state.add(pow_1);
  }
  mean_state = block_total<0>(mean_state);
  if (threadIdx.x == 0) {
    mean_state_parts[row * splits + chunk] = mean_state;
  }
}

// Stage 2: one warp merges the chunks of a row, always in the same order.
template <typename Index>
__global__ void __launch_bounds__(128) mse_rows_merge(const float* __restrict__ inputs_0,
    const float* __restrict__ inputs_1, float* __restrict__ out, Index rows, Index cols,
    unsigned char* scratch) {
  const Index splits = cols > 0 ? (cols - 1) / kChunk + 1 : 1;
  unsigned char* free = scratch;
  Sum<float>* mean_state_parts = reinterpret_cast<Sum<float>*>(free);
  const Index row = static_cast<Index>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  Sum<float> mean_state = Sum<float>::none();
  for (Index chunk = threadIdx.x; chunk < splits; chunk += 32) {
    mean_state.merge(mean_state_parts[row * splits + chunk]);
  }
  mean_state = warp_total(mean_state);
  const float mean = mean_state.total;
  const float mean_2 = mean / static_cast<float>(cols);
  if (threadIdx.x == 0) {
    out[0] = mean_2;
  }
}
