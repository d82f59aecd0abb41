// Scalars and short vectors with one set of operations, so that each expression is written once.

#if !defined(__GNUC__) && !defined(__clang__)
#error "this header needs GCC or Clang: it uses their vector types"
#endif
#define WARPSMITH_RESTRICT __restrict__
#define WARPSMITH_INLINE inline __attribute__((always_inline))

namespace detail {

template <class To, class From> WARPSMITH_INLINE To bits_as(From from) noexcept {
  static_assert(sizeof(To) == sizeof(From), "bits_as keeps the size");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

#if defined(__AVX512F__)
constexpr int bytes_of_vector = 64;
#else
constexpr int bytes_of_vector = 32;
#endif
constexpr int W = bytes_of_vector / int(sizeof(Scalar));
typedef Scalar Vec __attribute__((vector_size(bytes_of_vector)));
typedef Int IVec __attribute__((vector_size(bytes_of_vector)));
typedef int NVec __attribute__((vector_size(4 * W)));
#if defined(__AVX512F__)
typedef float F512 __attribute__((vector_size(64)));
typedef double D512 __attribute__((vector_size(64)));
#endif

WARPSMITH_INLINE Vec load(const Scalar *p) noexcept {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
WARPSMITH_INLINE void store(Scalar *p, Vec v) noexcept { std::memcpy(p, &v, sizeof v); }
// The first N lanes; a masked access, since a copy through memory waits for the store before it.
template <int N> WARPSMITH_INLINE Vec load_some(const Scalar *p) noexcept {
#if defined(__AVX512F__)
  if constexpr (N < W) {
    if constexpr (sizeof(Scalar) == 4) {
      return bits_as<Vec>(__builtin_ia32_loadups512_mask((const float *)p, F512{}, (unsigned short)((1u << N) - 1)));
    } else {
      return bits_as<Vec>(__builtin_ia32_loadupd512_mask((const double *)p, D512{}, (unsigned char)((1u << N) - 1)));
    }
  }
#endif
  Vec v = {};
  std::memcpy(&v, p, (N < W ? N : W) * sizeof(Scalar));
  return v;
}
template <int N> WARPSMITH_INLINE void store_some(Scalar *p, Vec v) noexcept {
#if defined(__AVX512F__)
  if constexpr (sizeof(Scalar) == 4) {
    __builtin_ia32_storeups512_mask((float *)p, bits_as<F512>(v), (unsigned short)((1u << N) - 1));
  } else {
    __builtin_ia32_storeupd512_mask((double *)p, bits_as<D512>(v), (unsigned char)((1u << N) - 1));
  }
#else
  std::memcpy(p, &v, N * sizeof(Scalar));
#endif
}
template <class T> WARPSMITH_INLINE T all(Scalar s) noexcept {
  if constexpr (sizeof(T) == sizeof(Scalar)) {
    return s;
  } else {
    return s - T{};
  }
}
template <class T, class F> WARPSMITH_INLINE T each(T x, F f) noexcept {
  if constexpr (sizeof(T) == sizeof(Scalar)) {
    return f(x);
  } else {
    for (int i = 0; i < W; ++i) x[i] = f(x[i]);
    return x;
  }
}
template <class T> struct Whole { typedef IVec type; };
template <> struct Whole<Scalar> { typedef Int type; };
WARPSMITH_INLINE Int whole(Scalar x) noexcept { return Int(x); }
WARPSMITH_INLINE IVec whole(Vec x) noexcept {
  return __builtin_convertvector(__builtin_convertvector(x, NVec), IVec);
}
WARPSMITH_INLINE Scalar number(Int n) noexcept { return Scalar(n); }
WARPSMITH_INLINE Vec number(IVec n) noexcept {
  return __builtin_convertvector(__builtin_convertvector(n, NVec), Vec);
}

// The larger and the smaller; a NaN on either side wins.
template <class T> WARPSMITH_INLINE T maximum(T a, T b) noexcept {
  return ((b >= a) | (b != b)) ? b : a;
}
template <class T> WARPSMITH_INLINE T minimum(T a, T b) noexcept {
  return ((b <= a) | (b != b)) ? b : a;
}

// 2^n for n that a number of this type has as exponent.
template <class T, class I> WARPSMITH_INLINE T power_of_two(I n) noexcept {
  constexpr int digits = sizeof(Scalar) == 4 ? 23 : 52, bias = sizeof(Scalar) == 4 ? 127 : 1023;
  return bits_as<T>(I((n + bias) << digits));
}

// e^x - 1 = 2^n (p(r) + 1) - 1 with x = n ln 2 + r, |r| <= ln 2 / 2 and p the Taylor polynomial of
// e^r - 1, whose remainder is below half a unit in the last place; with fast_math it is cut after
// r^5 (float, 2.4e-6 of the result) or r^9 (double, 7e-12).
template <class T> struct Split {
  T p, high, low; // e^r - 1 and two factors of 2^n
};
template <class T> WARPSMITH_INLINE Split<T> split(T x) noexcept {
  constexpr Scalar inverse = Scalar(1.4426950408889634074);
  constexpr Scalar ln2_high = sizeof(Scalar) == 4 ? Scalar(0.693359375) : Scalar(6.93147180369123816490e-01);
  constexpr Scalar ln2_low = sizeof(Scalar) == 4 ? Scalar(-2.12194440054690583e-4) : Scalar(1.90821492927058770002e-10);
  typedef typename Whole<T>::type I;
  const T half = x < 0 ? all<T>(Scalar(-0.5)) : all<T>(Scalar(0.5));
  const I n = whole(x * inverse + half);
  const T f = number(n);
  const T r = (x - f * ln2_high) - f * ln2_low;
  T p = all<T>(Scalar(0));
  if constexpr (sizeof(Scalar) == 8) {
    if constexpr (!fast_math) {
      p = p * r + Scalar(1.0 / 6227020800.0);
      p = p * r + Scalar(1.0 / 479001600.0);
      p = p * r + Scalar(1.0 / 39916800.0);
      p = p * r + Scalar(1.0 / 3628800.0);
    }
    p = p * r + Scalar(1.0 / 362880.0);
    p = p * r + Scalar(1.0 / 40320.0);
  }
  if constexpr (sizeof(Scalar) == 8 || !fast_math) {
    p = p * r + Scalar(1.0 / 5040.0);
    p = p * r + Scalar(1.0 / 720.0);
  }
  p = p * r + Scalar(1.0 / 120.0);
  p = p * r + Scalar(1.0 / 24.0);
  p = p * r + Scalar(1.0 / 6.0);
  p = p * r + Scalar(0.5);
  p = (p * r) * r + r;
  const I half_n = n >> 1;
  return {p, power_of_two<T>(half_n), power_of_two<T>(I(n - half_n))};
}

template <class T> WARPSMITH_INLINE T exp_(T x) noexcept {
  constexpr Scalar top = sizeof(Scalar) == 4 ? Scalar(88.72283905206835) : Scalar(709.782712893384);
  constexpr Scalar bottom = sizeof(Scalar) == 4 ? Scalar(-103.5) : Scalar(-745.5);
  const T high = all<T>(top), low = all<T>(bottom);
  const T inside = x > high ? high : (x < low ? low : x);
  const Split<T> s = split(inside);
  const T y = ((s.p + Scalar(1)) * s.high) * s.low;
  return x > high ? all<T>(std::numeric_limits<Scalar>::infinity()) : (x < low ? all<T>(Scalar(0)) : y);
}
// e^x - 1 for |x| up to some 80; larger x need the two factors one after another.
template <class T> WARPSMITH_INLINE T expm1_near(T x) noexcept {
  const Split<T> s = split(x);
  const T two = s.high * s.low;
  return s.p * two + (two - Scalar(1));
}
template <class T> WARPSMITH_INLINE T expm1_(T x) noexcept {
  const T high = all<T>(Scalar(40)), low = all<T>(Scalar(-40));
  const T y = expm1_near<T>(x > high ? high : (x < low ? low : x));
  return x > high ? exp_(x) : y;
}
template <class T> WARPSMITH_INLINE T tanh_(T x) noexcept {
  const T high = all<T>(Scalar(20)), low = all<T>(Scalar(-20));
  const T e = expm1_near<T>(T((x > high ? high : (x < low ? low : x)) * Scalar(2)));
  return e / (e + Scalar(2));
}
template <class T> WARPSMITH_INLINE T log_(T x) noexcept { return each(x, [](Scalar v) { return std::log(v); }); }
template <class T> WARPSMITH_INLINE T log1p_(T x) noexcept { return each(x, [](Scalar v) { return std::log1p(v); }); }
template <class T> WARPSMITH_INLINE T sqrt_(T x) noexcept { return each(x, [](Scalar v) { return std::sqrt(v); }); }
template <class T> WARPSMITH_INLINE T floor_(T x) noexcept { return each(x, [](Scalar v) { return std::floor(v); }); }
template <class T> WARPSMITH_INLINE T sin_(T x) noexcept { return each(x, [](Scalar v) { return std::sin(v); }); }
template <class T> WARPSMITH_INLINE T cos_(T x) noexcept { return each(x, [](Scalar v) { return std::cos(v); }); }
// Up to 1: x p(x^2) / q(x^2); from there 1 - e^(-x^2) p(x) / q(x), both fitted to 2e-13 of the result.
template <class T> WARPSMITH_INLINE T horner(T, Scalar c) noexcept { return all<T>(c); }
template <class T, class... C> WARPSMITH_INLINE T horner(T x, Scalar c, C... more) noexcept {
  return horner(x, more...) * x + c;
}
template <class T> WARPSMITH_INLINE T erf_(T x) noexcept {
  const T zero = all<T>(Scalar(0)), most = all<T>(Scalar(6));
  const T size = x < 0 ? T(-x) : x;
  const T a = size > most ? most : size;
  const T t = a * a;
  const T p = a * horner<T>(t, Scalar(1.1283791670955057), Scalar(0.14677725829394986), Scalar(0.04138955315113847),
                            Scalar(0.00152434773845252), Scalar(6.446722973319355e-05));
  const T q = horner<T>(t, Scalar(1), Scalar(0.4634112916764504), Scalar(0.09115096702579817),
                        Scalar(0.009202967974200789), Scalar(0.0004136663976735784));
  const T u = horner<T>(a, Scalar(0.9999968994869535), Scalar(1.3558518296690316), Scalar(0.8701801475514475),
                        Scalar(0.2971834854403373), Scalar(0.04238788368573349), Scalar(-0.0043666875470620824),
                        Scalar(-0.0022994200872629563));
  const T v = horner<T>(a, Scalar(1), Scalar(2.4842038668878934), Scalar(2.6734178703994353),
                        Scalar(1.5815545316432356), Scalar(0.5229138573273419), Scalar(0.07309005009643171),
                        Scalar(-0.007739637999662847), Scalar(-0.004075618223751962));
  const Split<T> s = split<T>(T(zero - t));
  const T e = (s.p + Scalar(1)) * (s.high * s.low);
  const T ratio = (a < 1 ? p : T(e * u)) / (a < 1 ? q : v);
  const T y = a < 1 ? ratio : T(Scalar(1) - ratio);
  return x < 0 ? T(-y) : y;
}
template <class T> WARPSMITH_INLINE T abs_(T x) noexcept { return each(x, [](Scalar v) { return std::fabs(v); }); }
template <class T> WARPSMITH_INLINE T pow_(T x, T y) noexcept {
  if constexpr (sizeof(T) == sizeof(Scalar)) {
    return std::pow(x, y);
  } else {
    for (int i = 0; i < W; ++i) x[i] = std::pow(x[i], y[i]);
    return x;
  }
}
WARPSMITH_INLINE Scalar row_of(const Scalar *p, Scalar row, std::ptrdiff_t stride, int rows) noexcept {
  const bool inside = row >= 0 && row < Scalar(rows);
  return inside ? p[std::ptrdiff_t(row) * stride] : std::numeric_limits<Scalar>::quiet_NaN();
}

} // namespace detail
