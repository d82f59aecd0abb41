// layer_norm: welford, sub, div, add, rsqrt, mul
// ladder: 1 naive: one thread a row · 2 one warp a row, shuffles ·
//   3 one block a row, shuffles and shared memory · 4 one block a row, 16-byte packs ·
//   5 the row kept in registers, read once ·
//   6 one warp keeps a row in registers: no shared memory, no barrier
// this file: rung 6, one warp keeps a row in registers: no shared memory, no barrier
// Rows: x.shape[1]*x.shape[0]; columns: 33.

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

// mean and sum of squared deviations in one pass (Welford 1962; merged as in Chan et al. 1979)
template <typename T>
struct Welford {
  T mean, m2, count;
  static __device__ Welford none() { return {T(0), T(0), T(0)}; }
  __device__ void add(T value) { merge({value, T(0), T(1)}); }
  template <int V>
  __device__ void add_pack(const T (&values)[V]) {
    T total = values[0], squares = T(0);
#pragma unroll
    for (int v = 1; v < V; ++v) total += values[v];
    const T middle = total * (T(1) / V);
#pragma unroll
    for (int v = 0; v < V; ++v) squares += (values[v] - middle) * (values[v] - middle);
    merge({middle, squares, T(V)});
  }
  __device__ void merge(const Welford& other) {
    const T together = count + other.count;
    const T delta = other.mean - mean;
    // Off by 2 units in the last place at most: that moves the mean by as little a part of delta.
    // For the first values it is 1 exactly, so that an offset common to all values stays whole.
    const T share = count == T(0) ? T(1) : __fdividef(other.count, together);
    mean += delta * share;
    m2 += other.m2 + delta * (delta * count * share);  // 0, not inf * 0, where count is 0
    count = together;
  }
  __device__ Welford from(int mask) const {
    return {__shfl_xor_sync(0xffffffffu, mean, mask), __shfl_xor_sync(0xffffffffu, m2, mask),
            __shfl_xor_sync(0xffffffffu, count, mask)};
  }
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
__device__ __forceinline__ void layer_norm_rows_streaming(const float* __restrict__ x,
    const float* __restrict__ norm_weight, const float* __restrict__ norm_bias,
    float* __restrict__ out, Index rows, Index cols) {
  const Index first = static_cast<Index>(blockIdx.x) * kRows + threadIdx.y;
  for (Index row = first; row < rows; row += static_cast<Index>(gridDim.x) * kRows) {
    Welford<float> var_mean_state = Welford<float>::none();
    for (Index col = threadIdx.x * V; col < cols; col += 32 * V) {
      const Pack<float, V> x_pack = load_pack<V>(x + row * cols + col);
      float var_mean_values[V];
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float x_value = x_pack.at[v];
        var_mean_values[v] = x_value;
      }
      var_mean_state.add_pack(var_mean_values);
    }
    var_mean_state = warp_total(var_mean_state);
    const Welford<float> var_mean = var_mean_state;
    const float var_mean_2 = var_mean.mean;
    const float var_mean_3 = var_mean.m2;
    const float var_mean_4 = var_mean_3 / 33.0f;
    const float add = var_mean_4 + 1e-05f;
    const float rsqrt_2 = rsqrtf(add);
    for (Index col = threadIdx.x * V; col < cols; col += 32 * V) {
      const Pack<float, V> x_pack = load_pack<V>(x + row * cols + col);
      const Pack<float, V> norm_weight_pack = load_pack<V>(norm_weight + col);
      const Pack<float, V> norm_bias_pack = load_pack<V>(norm_bias + col);
      Pack<float, V> out_pack;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float x_value = x_pack.at[v];
        const float sub = x_value - var_mean_2;
        const float mul_4 = sub * rsqrt_2;
        const float norm_weight_value = norm_weight_pack.at[v];
        const float mul_5 = mul_4 * norm_weight_value;
        const float norm_bias_value = norm_bias_pack.at[v];
        const float add_1 = mul_5 + norm_bias_value;
        out_pack.at[v] = add_1;
      }
      store_pack(out + row * cols + col, out_pack);
    }
  }
}

// The row is read into registers first: for cols <= kItems * 32 * V.
// kFull: for just as many, where no column needs a check.
template <typename Index, int V, bool kFull>
__device__ __forceinline__ void layer_norm_rows_kept(const float* __restrict__ x,
    const float* __restrict__ norm_weight, const float* __restrict__ norm_bias,
    float* __restrict__ out, Index rows, Index cols) {
  const Index first = static_cast<Index>(blockIdx.x) * kRows + threadIdx.y;
  for (Index row = first; row < rows; row += static_cast<Index>(gridDim.x) * kRows) {
    float x_kept[kItems * V];
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const Index col = (item * 32 + threadIdx.x) * V;
      if (!kFull && col >= cols) break;
      const Pack<float, V> x_pack = load_pack<V>(x + row * cols + col);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        x_kept[item * V + v] = x_pack.at[v];
      }
    }
    Sum<float> sum_state = Sum<float>::none();
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const Index col = (item * 32 + threadIdx.x) * V;
      if (!kFull && col >= cols) break;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float x_value = x_kept[item * V + v];
        sum_state.add(x_value);
      }
    }
    sum_state = warp_total(sum_state);
    const float sum = sum_state.total;
    const float mean = sum / 33.0f;
    Sum<float> m2_state = Sum<float>::none();
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const Index col = (item * 32 + threadIdx.x) * V;
      if (!kFull && col >= cols) break;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float x_value = x_kept[item * V + v];
        const float sub = x_value - mean;
        const float squared = sub * sub;
        m2_state.add(squared);
      }
    }
    m2_state = warp_total(m2_state);
    const float m2 = m2_state.total;
    const float var_mean = m2 / 33.0f;
    const float add = var_mean + 1e-05f;
    const float rsqrt_2 = rsqrtf(add);
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const Index col = (item * 32 + threadIdx.x) * V;
      if (!kFull && col >= cols) break;
      const Pack<float, V> norm_weight_pack = load_pack<V>(norm_weight + col);
      const Pack<float, V> norm_bias_pack = load_pack<V>(norm_bias + col);
      Pack<float, V> out_pack;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float x_value = x_kept[item * V + v];
        const float sub = x_value - mean;
        const float mul_4 = sub * rsqrt_2;
        const float norm_weight_value = norm_weight_pack.at[v];
        const float mul_5 = mul_4 * norm_weight_value;
        const float norm_bias_value = norm_bias_pack.at[v];
        const float add_1 = mul_5 + norm_bias_value;
        out_pack.at[v] = add_1;
      }
      store_pack(out + row * cols + col, out_pack);
    }
  }
}

template <typename Index>
__global__ void __launch_bounds__(128) layer_norm_rows(const float* __restrict__ x,
    const float* __restrict__ norm_weight, const float* __restrict__ norm_bias,
    float* __restrict__ out, Index rows, Index cols) {
  constexpr int V = 4;
  if (cols % V == 0 && aligned<V>(x) && aligned<V>(norm_weight) && aligned<V>(norm_bias) && aligned<V>(out)) {
    if (cols == kItems * 32 * V) {
      layer_norm_rows_kept<Index, V, true>(x, norm_weight, norm_bias, out, rows, cols);
    } else if (cols < kItems * 32 * V) {
      layer_norm_rows_kept<Index, V, false>(x, norm_weight, norm_bias, out, rows, cols);
    } else {
      layer_norm_rows_streaming<Index, V>(x, norm_weight, norm_bias, out, rows, cols);
    }
  } else {
    if (cols == kItems * 32) {
      layer_norm_rows_kept<Index, 1, true>(x, norm_weight, norm_bias, out, rows, cols);
    } else if (cols < kItems * 32) {
      layer_norm_rows_kept<Index, 1, false>(x, norm_weight, norm_bias, out, rows, cols);
    } else {
      layer_norm_rows_streaming<Index, 1>(x, norm_weight, norm_bias, out, rows, cols);
    }
  }
}
