// One thread takes a few samples through the network; what every generated function uses.

#define WARPSMITH_INLINE __device__ __forceinline__

namespace detail {

constexpr int W = 1;
using Vec = Scalar;

// Working memory of one thread: element i of all threads of a block lie side by side.
struct Strided {
  Scalar *p;
  int stride;
  WARPSMITH_INLINE Scalar &operator[](int i) const { return p[i * stride]; }
  WARPSMITH_INLINE Strided operator+(int i) const { return {p + i * stride, stride}; }
};

template <class P> WARPSMITH_INLINE Scalar load(P p) { return p[0]; }
template <class P> WARPSMITH_INLINE void store(P p, Scalar v) { p[0] = v; }
template <int N, class P> WARPSMITH_INLINE Scalar load_some(P p) { return p[0]; }
template <int N, class P> WARPSMITH_INLINE void store_some(P p, Scalar v) { p[0] = v; }
template <class T> WARPSMITH_INLINE T all(Scalar s) { return s; }
WARPSMITH_INLINE Scalar infinity() { return Scalar(__int_as_float(0x7f800000)); }
WARPSMITH_INLINE Scalar not_a_number() { return Scalar(__int_as_float(0x7fffffff)); }

// The larger and the smaller; a NaN on either side wins.
template <class T> WARPSMITH_INLINE T maximum(T a, T b) { return b >= a || b != b ? b : a; }
template <class T> WARPSMITH_INLINE T minimum(T a, T b) { return b <= a || b != b ? b : a; }
template <class T> WARPSMITH_INLINE T exp_(T x) { return exp(x); }
template <class T> WARPSMITH_INLINE T expm1_(T x) { return expm1(x); }
template <class T> WARPSMITH_INLINE T tanh_(T x) { return tanh(x); }
template <class T> WARPSMITH_INLINE T log_(T x) { return log(x); }
template <class T> WARPSMITH_INLINE T log1p_(T x) { return log1p(x); }
template <class T> WARPSMITH_INLINE T sqrt_(T x) { return sqrt(x); }
template <class T> WARPSMITH_INLINE T floor_(T x) { return floor(x); }
template <class T> WARPSMITH_INLINE T sin_(T x) { return sin(x); }
template <class T> WARPSMITH_INLINE T cos_(T x) { return cos(x); }
template <class T> WARPSMITH_INLINE T erf_(T x) { return erf(x); }
template <class T> WARPSMITH_INLINE T abs_(T x) { return fabs(x); }
template <class T> WARPSMITH_INLINE T pow_(T x, T y) { return pow(x, y); }
template <class P> WARPSMITH_INLINE Scalar row_of(P p, Scalar row, int stride, int rows) {
  const bool inside = row >= 0 && row < Scalar(rows);
  return inside ? p[int(row) * stride] : not_a_number();
}

} // namespace detail
