// A chain of dense layers for a tile of S samples: the block keeps all activations in shared memory
// as [feature][sample], and each thread computes 8 outputs of 8 samples in registers.

namespace detail {

// Four neighbors at once; both pointers are multiples of 16 bytes for float, 32 for double.
WARPSMITH_INLINE void take4(const Scalar *p, Scalar (&v)[8], int at) {
#pragma unroll
  for (int i = 0; i < 4; ++i) v[at + i] = p[i];
}
#ifdef WARPSMITH_KERAS_FLOAT
WARPSMITH_INLINE void take4_aligned(const Scalar *p, Scalar (&v)[8], int at) {
  const float4 q = *reinterpret_cast<const float4 *>(p);
  v[at] = q.x, v[at + 1] = q.y, v[at + 2] = q.z, v[at + 3] = q.w;
}
WARPSMITH_INLINE void give4(Scalar *p, Scalar a, Scalar b, Scalar c, Scalar d) {
  *reinterpret_cast<float4 *>(p) = make_float4(a, b, c, d);
}
#else
WARPSMITH_INLINE void take4_aligned(const Scalar *p, Scalar (&v)[8], int at) { take4(p, v, at); }
WARPSMITH_INLINE void give4(Scalar *p, Scalar a, Scalar b, Scalar c, Scalar d) {
  p[0] = a, p[1] = b, p[2] = c, p[3] = d;
}
#endif

// out[o][s] = finish(sum over k of w[k][o] * in[k][s], o) for OUT of at least 8; w is padded to
// whole groups of 8. Samples of a thread: 4 in each half of the tile, so that neighbors in a warp
// read neighbors.
template <int S, int THREADS, int IN, int OUT, class Finish>
WARPSMITH_INLINE void wide(const Scalar *in, Scalar *out, const Scalar *w, Finish finish) {
  constexpr int PADDED = (OUT + 7) / 8 * 8, ACROSS = S / 8, TILES = ACROSS * (PADDED / 8);
  for (int tile = threadIdx.x; tile < TILES; tile += THREADS) {
    const int s = tile % ACROSS * 4, o = tile / ACROSS * 8;
    Scalar acc[8][8] = {};
#pragma unroll 4
    for (int k = 0; k < IN; ++k) {
      Scalar x[8], v[8];
      take4_aligned(in + k * S + s, x, 0);
      take4_aligned(in + k * S + S / 2 + s, x, 4);
      take4_aligned(w + k * PADDED + o, v, 0);
      take4_aligned(w + k * PADDED + o + 4, v, 4);
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) acc[i][j] += v[i] * x[j];
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (o + i >= OUT) break;
#pragma unroll
      for (int j = 0; j < 8; ++j) acc[i][j] = finish(acc[i][j], o + i);
      give4(out + (o + i) * S + s, acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
      give4(out + (o + i) * S + S / 2 + s, acc[i][4], acc[i][5], acc[i][6], acc[i][7]);
    }
  }
}

// The same for few outputs: a thread takes one sample and all of them.
template <int S, int THREADS, int IN, int OUT, class Finish>
WARPSMITH_INLINE void narrow(const Scalar *in, Scalar *out, const Scalar *w, Finish finish) {
  constexpr int PADDED = (OUT + 7) / 8 * 8;
  for (int s = threadIdx.x; s < S; s += THREADS) {
    Scalar acc[OUT] = {};
#pragma unroll 8
    for (int k = 0; k < IN; ++k) {
      const Scalar x = in[k * S + s];
#pragma unroll
      for (int o = 0; o < OUT; ++o) acc[o] += w[k * PADDED + o] * x;
    }
#pragma unroll
    for (int o = 0; o < OUT; ++o) out[o * S + s] = finish(acc[o], o);
  }
}

template <int S, int THREADS, int IN, int OUT, class Finish>
WARPSMITH_INLINE void layer(const Scalar *in, Scalar *out, const Scalar *w, Finish finish) {
  if constexpr (OUT >= 16) wide<S, THREADS, IN, OUT>(in, out, w, finish);
  else narrow<S, THREADS, IN, OUT>(in, out, w, finish);
  __syncthreads();
}

} // namespace detail
