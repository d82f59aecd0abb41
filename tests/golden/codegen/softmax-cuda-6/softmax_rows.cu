// softmax: max, sub, exp, sum, div
// ladder: 1 naive: one thread a row · 2 one warp a row, shuffles ·
//   3 one block a row, shuffles and shared memory · 4 one block a row, 16-byte packs ·
//   5 the row kept in registers, read once ·
//   6 one warp keeps a row in registers: no shared memory, no barrier ·
//   7 online softmax: maximum and sum in one pass
// this file: rung 6, one warp keeps a row in registers: no shared memory, no barrier
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
  __device__ Sum from(int mask) const { return {static_cast<T>(__shfl_xor_sync(0xffffffffu, total,
      mask))}; }
};

// a maximum; NaN wins
template <typename T>
struct Maximum {
  T total;
  static __device__ Maximum none() { return { least<T>() }; }
  __device__ void add(T value) { total = nan_max(total, value); }
  __device__ void merge(const Maximum& other) { add(other.total); }
  __device__ Maximum from(int mask) const { return {static_cast<T>(__shfl_xor_sync(0xffffffffu,
      total, mask))}; }
};

// all 32 lanes' states merged, in every lane
template <typename State>
__device__ __forceinline__ State warp_total(State state) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) state.merge(state.from(mask));
  return state;
}

constexpr int kRows = 4;  // rows of a block, one warp each
constexpr int kItems = 1;  // packs of a row that a thread keeps

template <typename Index, int V>
__device__ __forceinline__ void softmax_rows_streaming(const float* __restrict__ inputs_0,
    float* __restrict__ out, Index rows, Index cols) {
  const Index first = static_cast<Index>(blockIdx.x) * kRows + threadIdx.y;
  for (Index row = first; row < rows; row += static_cast<Index>(gridDim.x) * kRows) {
    Maximum<float> amax_state = Maximum<float>::none();
    for (Index col = threadIdx.x * V; col < cols; col += 32 * V) {
      const Pack<float, V> inputs_0_pack = load_pack<V>(inputs_0 + row * cols + col);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float inputs_0_value = inputs_0_pack.at[v];
        amax_state.add(inputs_0_value);
      }
    }
    amax_state = warp_total(amax_state);
    const float amax = amax_state.total;
    Sum<float> sum_1_state = Sum<float>::none();
    for (Index col = threadIdx.x * V; col < cols; col += 32 * V) {
      const Pack<float, V> inputs_0_pack = load_pack<V>(inputs_0 + row * cols + col);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float inputs_0_value = inputs_0_pack.at[v];
        const float sub = inputs_0_value - amax;
        const float exp_2 = expf(sub);
        sum_1_state.add(exp_2);
      }
    }
    sum_1_state = warp_total(sum_1_state);
    const float sum_1 = sum_1_state.total;
    for (Index col = threadIdx.x * V; col < cols; col += 32 * V) {
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

// The row is read into registers first: for cols <= kItems * 32 * V.
// kFull: for just as many, where no column needs a check.
template <typename Index, int V, bool kFull>
__device__ __forceinline__ void softmax_rows_kept(const float* __restrict__ inputs_0,
    float* __restrict__ out, Index rows, Index cols) {
  const Index first = static_cast<Index>(blockIdx.x) * kRows + threadIdx.y;
  for (Index row = first; row < rows; row += static_cast<Index>(gridDim.x) * kRows) {
    float inputs_0_kept[kItems * V];
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const Index col = (item * 32 + threadIdx.x) * V;
      if (!kFull && col >= cols) break;
      const Pack<float, V> inputs_0_pack = load_pack<V>(inputs_0 + row * cols + col);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        inputs_0_kept[item * V + v] = inputs_0_pack.at[v];
      }
    }
    Maximum<float> amax_state = Maximum<float>::none();
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const Index col = (item * 32 + threadIdx.x) * V;
      if (!kFull && col >= cols) break;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float inputs_0_value = inputs_0_kept[item * V + v];
        amax_state.add(inputs_0_value);
      }
    }
    amax_state = warp_total(amax_state);
    const float amax = amax_state.total;
    Sum<float> sum_1_state = Sum<float>::none();
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const Index col = (item * 32 + threadIdx.x) * V;
      if (!kFull && col >= cols) break;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float inputs_0_value = inputs_0_kept[item * V + v];
        const float sub = inputs_0_value - amax;
        const float exp_2 = expf(sub);
        sum_1_state.add(exp_2);
      }
    }
    sum_1_state = warp_total(sum_1_state);
    const float sum_1 = sum_1_state.total;
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const Index col = (item * 32 + threadIdx.x) * V;
      if (!kFull && col >= cols) break;
      Pack<float, V> out_pack;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float inputs_0_value = inputs_0_kept[item * V + v];
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
__global__ void __launch_bounds__(128) softmax_rows(const float* __restrict__ inputs_0,
    float* __restrict__ out, Index rows, Index cols) {
  constexpr int V = 4;
  if (cols % V == 0 && aligned<V>(inputs_0) && aligned<V>(out)) {
    if (cols == kItems * 32 * V) {
      softmax_rows_kept<Index, V, true>(inputs_0, out, rows, cols);
    } else if (cols < kItems * 32 * V) {
      softmax_rows_kept<Index, V, false>(inputs_0, out, rows, cols);
    } else {
      softmax_rows_streaming<Index, V>(inputs_0, out, rows, cols);
    }
  } else {
    if (cols == kItems * 32) {
      softmax_rows_kept<Index, 1, true>(inputs_0, out, rows, cols);
    } else if (cols < kItems * 32) {
      softmax_rows_kept<Index, 1, false>(inputs_0, out, rows, cols);
    } else {
      softmax_rows_streaming<Index, 1>(inputs_0, out, rows, cols);
    }
  }
}
