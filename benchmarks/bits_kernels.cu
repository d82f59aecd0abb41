// Kernels whose every bit is defined: integer algorithms, and float ones of exact operations.
// Each takes (const T* in, T* out, int n) and writes n results; run by isa_bits.py.
// SPDX-License-Identifier: Apache-2.0
typedef unsigned u32;
typedef unsigned long long u64;
#define EACH int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
#define INTS(NAME, ...) extern "C" __global__ void NAME(const u32* in, u32* out, int n) { EACH u32 x = in[i], y = in[(i * 7 + 3) % n]; __VA_ARGS__ }
#define FLOATS(NAME, ...) extern "C" __global__ void NAME(const float* in, float* out, int n) { EACH float x = in[i], y = in[(i * 7 + 3) % n]; __VA_ARGS__ }
#define DOUBLES(NAME, ...) extern "C" __global__ void NAME(const double* in, double* out, int n) { EACH double x = in[i], y = in[(i * 7 + 3) % n]; __VA_ARGS__ }

INTS(i_murmur, for (int k = 0; k < 16; k++) { x ^= x >> 16; x *= 0x85ebca6bu; x ^= x >> 13; x *= 0xc2b2ae35u; x ^= x >> 16; x += y; } out[i] = x;)
INTS(i_xorshift, for (int k = 0; k < 40; k++) { x ^= x << 13; x ^= x >> 17; x ^= x << 5; y += x; } out[i] = y;)
INTS(i_crc32, u32 c = ~0u; for (int k = 0; k < 4; k++) { c ^= (x >> 8 * k) & 255; for (int b = 0; b < 8; b++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1; } out[i] = ~c;)
INTS(i_division, int a = (int)x, b = (int)y | 1; out[i] = a / b + a % b + x / ((y >> 7) | 1) + x % ((y >> 3) | 1);)
INTS(i_division64, u64 a = (u64)x * 0x9e3779b97f4a7c15ull, b = ((u64)y << 9) | 1; out[i] = (u32)(a / b ^ a % b ^ (u64)((long long)a / (long long)(b | 3)));)
INTS(i_division128, unsigned __int128 a = ((unsigned __int128)x << 96) | ((u64)y << 32) | x; u64 b = ((u64)y << 20) | 1; out[i] = (u32)(a / b) ^ (u32)(a % b);)
INTS(i_gcd, u32 a = x | 1, b = y; while (b) { u32 t = a % b; a = b; b = t; } out[i] = a;)
INTS(i_modpow, u64 r = 1, a = x % 65521, e = y & 1023; while (e) { if (e & 1) r = r * a % 65521; a = a * a % 65521; e >>= 1; } out[i] = (u32)r;)
INTS(i_popcounts, out[i] = __popc(x) + __clz(x) * 64 + __ffs(x) * 4096 + (__brev(x) ^ __byte_perm(x, y, 0x5140)) + __popcll(((u64)x << 32) | y);)
INTS(i_dots, int s = 0; s = __dp4a((int)x, (int)y, s); s = __dp2a_lo((int)x, (int)y, s); s = __dp2a_hi((int)x, (int)y, s); out[i] = s + __dp4a(x, y, 7u) + __sad((int)x, (int)y, 3u) + __mulhi((int)x, (int)y) + __umul24(x, y);)
INTS(i_simd, out[i] = __vadd4(x, y) ^ __vabsdiffs4(x, y) ^ __vmaxs2(x, y) ^ __vavgu4(x, y) ^ __vsubss4(x, y) ^ __vcmpgts2(x, y) ^ __vsadu4(x, y) ^ __vminu2(x, y);)
INTS(i_funnels, out[i] = __funnelshift_l(x, y, i) ^ __funnelshift_r(x, y, x) ^ __funnelshift_lc(x, y, y) ^ __funnelshift_rc(x, y, i);)
INTS(i_sha_round, u32 a = x, b = y, c = x ^ y, d = ~x, e = x + y, f = y - x, g = 7, h = i; for (int k = 0; k < 32; k++) {
  u32 s1 = __funnelshift_r(e, e, 6) ^ __funnelshift_r(e, e, 11) ^ __funnelshift_r(e, e, 25), ch = (e & f) ^ (~e & g);
  u32 t1 = h + s1 + ch + 0x428a2f98u + k, s0 = __funnelshift_r(a, a, 2) ^ __funnelshift_r(a, a, 13) ^ __funnelshift_r(a, a, 22);
  u32 t2 = s0 + ((a & b) ^ (a & c) ^ (b & c)); h = g; g = f; f = e; e = d + t1; d = c; c = b; b = a; a = t1 + t2; } out[i] = a ^ e;)
INTS(i_collatz, u32 v = (x & 0xffff) | 1, s = 0; while (v != 1 && s < 500) { v = v & 1 ? 3 * v + 1 : v >> 1; s++; } out[i] = s;)
INTS(i_fixed_point, int a = (int)x >> 8, b = (int)y >> 8; for (int k = 0; k < 20; k++) { a = (int)(((long long)a * b) >> 16) + k; b = b - (a >> 3); } out[i] = a ^ b;)
INTS(i_shuffles, u32 s = x; for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o); s ^= __ballot_sync(~0u, x & 1) + __reduce_add_sync(~0u, y) + __reduce_max_sync(~0u, (int)x) + __match_any_sync(~0u, x & 7); out[i] = s;)
extern "C" __global__ void i_scan(const u32* in, u32* out, int n) {
  __shared__ u32 s[256]; EACH int t = threadIdx.x; s[t] = in[i]; __syncthreads();
  for (int o = 1; o < 256; o *= 2) { u32 v = t >= o ? s[t - o] : 0; __syncthreads(); s[t] += v; __syncthreads(); }
  out[i] = s[t];
}
extern "C" __global__ void i_bitonic(const u32* in, u32* out, int n) {
  __shared__ u32 s[256]; EACH int t = threadIdx.x; s[t] = in[i]; __syncthreads();
  for (int k = 2; k <= 256; k *= 2) for (int j = k / 2; j; j /= 2) {
    int o = t ^ j; if (o > t) { bool up = !(t & k); u32 a = s[t], b = s[o]; if ((a > b) == up) s[t] = b, s[o] = a; } __syncthreads(); }
  out[i] = s[t];
}
extern "C" __global__ void i_histogram(const u32* in, u32* out, int n) { EACH atomicAdd(out + in[i] % n, 1u); }
extern "C" __global__ void i_life(const u32* in, u32* out, int n) { EACH u32 w = in[i], l = in[(i + n - 1) % n], r = in[(i + 1) % n], o = 0;
  for (int b = 0; b < 32; b++) { u32 m = __funnelshift_r(w, w, b + 31) & 7, a = __popc(m) + __popc(__funnelshift_r(l, l, b) & 3) + __popc(__funnelshift_r(r, r, b) & 3); o |= (u32)(a == 3) << b; } out[i] = o; }

FLOATS(f_saxpy, out[i] = 2.5f * x + y;)
FLOATS(f_horner, float r = 0; for (int k = 0; k < 12; k++) r = r * x + y; out[i] = r;)
FLOATS(f_kahan, float s = 0, c = 0; for (int k = 0; k < 64; k++) { float v = in[(i + k) % n] - c, t = s + v; c = (t - s) - v; s = t; } out[i] = s;)
FLOATS(f_two_sum, float s = __fadd_rn(x, y), b = __fadd_rn(s, -x), e = __fadd_rn(__fadd_rn(x, -__fadd_rn(s, -b)), __fadd_rn(y, -b)); out[i] = e + s;)
FLOATS(f_division, out[i] = x / y + sqrtf(fabsf(x)) + 1.0f / y;)
FLOATS(f_directed, out[i] = __fadd_ru(x, y) + __fmul_rd(x, y) + __fdiv_rz(x, y) + __fsqrt_ru(fabsf(x)) + __fmaf_rz(x, y, x) + __frcp_rd(y);)
FLOATS(f_rsqrt_newton, out[i] = __frsqrt_rn(fabsf(x) + 1e-3f);)
FLOATS(f_mandelbrot, float a = 0, b = 0; int k = 0; for (; k < 200 && a * a + b * b < 4; k++) { float t = a * a - b * b + x; b = 2 * a * b + y; a = t; } out[i] = k + a;)
FLOATS(f_nbody, float ax = 0; for (int k = 0; k < 32; k++) { float d = in[(i + k + 1) % n] - x, r = d * d + 0.01f; ax += d / (r * sqrtf(r)); } out[i] = ax;)
FLOATS(f_conversions, out[i] = (float)(int)(x * 1000) + (float)(unsigned)fabsf(y * 7) + rintf(x * 9) + floorf(y * 3) + (float)(long long)(x * 1e9f) + __uint_as_float(__float_as_uint(y) & ~7u) + truncf(x) + ceilf(y);)
FLOATS(f_minmax, out[i] = fminf(x, y) + fmaxf(x * y, x) + copysignf(x, y) + fabsf(y) + fmodf(x, 0.7f) + remainderf(y, 0.3f) + ldexpf(x, 3) + nextafterf(x, y);)
FLOATS(f_stencil, float s = x; for (int k = 0; k < 8; k++) s = 0.25f * in[(i + k + n - 1) % n] + 0.5f * s + 0.25f * in[(i + k + 1) % n]; out[i] = s;)
extern "C" __global__ void f_reduce(const float* in, float* out, int n) {
  __shared__ float s[256]; EACH int t = threadIdx.x; s[t] = in[i]; __syncthreads();
  for (int o = 128; o; o >>= 1) { if (t < o) s[t] += s[t + o]; __syncthreads(); }
  out[i] = s[0] + in[i];
}
extern "C" __global__ void f_matmul16(const float* in, float* out, int n) {
  __shared__ float a[16][17], b[16][17]; EACH int t = threadIdx.x, r = t / 16, c = t % 16; a[r][c] = in[i]; b[r][c] = in[(i + 5) % n]; __syncthreads();
  float s = 0; for (int k = 0; k < 16; k++) s += a[r][k] * b[k][c]; out[i] = s;
}
FLOATS(f_functions, out[i] = expf(x) + logf(fabsf(y)) + sinf(x) + powf(fabsf(x), 1.3f) + tanhf(y) + erff(x);)
FLOATS(f_fast_functions, out[i] = __expf(x) + __logf(fabsf(y)) + __sinf(x) + __fdividef(x, y) + rsqrtf(fabsf(x));)
DOUBLES(d_horner, double r = 0; for (int k = 0; k < 12; k++) r = r * x + y; out[i] = r;)
DOUBLES(d_division, out[i] = x / y + sqrt(fabs(x)) + 1.0 / y + fmod(x, 0.7);)
DOUBLES(d_directed, out[i] = __dadd_ru(x, y) + __dmul_rd(x, y) + __ddiv_rz(x, y) + __dsqrt_ru(fabs(x)) + __fma_rz(x, y, x);)
DOUBLES(d_exp_log, out[i] = exp(x) + log(fabs(y) + 0.1);)
DOUBLES(d_trig, out[i] = sin(x) + cos(y) + tanh(x) + atan2(x, y);)
DOUBLES(d_rsqrt, out[i] = rsqrt(fabs(x)) + cbrt(y) + pow(fabs(x), 1.3);)
DOUBLES(d_conversions, out[i] = (double)(long long)(x * 1e12) + (double)(unsigned)(fabs(y) * 1e6) + (double)(float)x + rint(y * 5) + __double2int_ru(x) + (double)__double2float_rd(y);)
