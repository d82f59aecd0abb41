// softmax: max, sub, exp, sum, div
// ladder: 1 naive: one thread a row · 2 one warp a row, shuffles ·
//   3 one block a row, shuffles and shared memory · 4 one block a row, 16-byte packs ·
//   5 the row kept in registers, read once ·
//   6 one warp keeps a row in registers: no shared memory, no barrier ·
//   7 online softmax: maximum and sum in one pass
// this file: rung 7, online softmax: maximum and sum in one pass
// Rows: inputs_0.shape[0]; columns: inputs_0.shape[1].

// the larger one, or NaN if either is NaN
template <typename T>
__device__ __forceinline__ T nan_max(T a, T b) {
  return a > b || a != a ? a : b;
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

// a maximum, and the sum of exp(value - maximum) so far (Milakov and Gimelshein 2018)
template <typename T>
struct OnlineSoftmax {
  T maximum, total;
  static __device__ OnlineSoftmax none() { return {__int_as_float(0xff800000), T(0)}; }
  static __device__ T scale(T from, T to) { return from == to ? T(1) : expf(from - to); }
  __device__ void add(T value) {
    const T top = nan_max(maximum, value);
    const T share = value == __int_as_float(0xff800000) ? T(0) : expf(value - top);
    total = total * scale(maximum, top) + share;
    maximum = top;
  }
  __device__ void merge(const OnlineSoftmax& other) {
    const T top = nan_max(maximum, other.maximum);
    total = total * scale(maximum, top) + other.total * scale(other.maximum, top);
    maximum = top;
  }
  __device__ OnlineSoftmax from(int mask) const {
    return {__shfl_xor_sync(0xffffffffu, maximum, mask), __shfl_xor_sync(0xffffffffu, total, mask)};
  }
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

constexpr int kThreads = 256;

template <typename Index, int V>
__device__ __forceinline__ void softmax_rows_streaming(const float* __restrict__ inputs_0,
    float* __restrict__ out, Index rows, Index cols) {
  for (Index row = blockIdx.x; row < rows; row += gridDim.x) {
    OnlineSoftmax<float> softmax_state = OnlineSoftmax<float>::none();
    for (Index col = threadIdx.x * V; col < cols; col += kThreads * V) {
      const Pack<float, V> inputs_0_pack = load_pack<V>(inputs_0 + row * cols + col);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float inputs_0_value = inputs_0_pack.at[v];
        softmax_state.add(inputs_0_value);
      }
    }
    softmax_state = block_total<0>(softmax_state);
    __syncthreads();  // the slot is free for the next row's total
    const OnlineSoftmax<float> softmax = softmax_state;
    const float amax = softmax.maximum;
    const float sum_1 = softmax.total;
    for (Index col = threadIdx.x * V; col < cols; col += kThreads * V) {
      const Pack<float, V> inputs_0_pack = load_pack<V>(inputs_0 + row * cols + col);
      Pack<float, V> out_pack;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float inputs_0_value = inputs_0_pack.at[v];
        const float sub = inputs_0_value - amax;
        const float exp_2 = expf(sub);
        const float div_2 = exp_2 / sum_1;
        out_pack.at[v] = div_2;
      }
      store_pack(out + row * cols + col, out_pack);
    }
  }
}

template <typename Index>
__global__ void __launch_bounds__(256) softmax_rows(const float* __restrict__ inputs_0,
    float* __restrict__ out, Index rows, Index cols) {
  constexpr int V = 4;
  if (cols % V == 0 && aligned<V>(inputs_0) && aligned<V>(out)) {
    softmax_rows_streaming<Index, V>(inputs_0, out, rows, cols);
  } else {
    softmax_rows_streaming<Index, 1>(inputs_0, out, rows, cols);
  }
}
