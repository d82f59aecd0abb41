// Kernels that the virtual GPU must run right: each is small, and one idea wide.
// run: pytest tests/vgpu/test_launch_cuda.py
#include <cuda_fp16.h>
#include <cuda_bf16.h>

extern "C" __global__ void vadd(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

extern "C" __global__ void grid_stride(const float* a, float* c, int n, float k) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    c[i] = k * a[i];
}

extern "C" __global__ void reduce(const float* a, float* out, int n) {
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += a[i];
  for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}

extern "C" __global__ void sgemm_tiled(const float* a, const float* b, float* c, int n) {
  __shared__ float as[16][16], bs[16][16];
  int x = threadIdx.x, y = threadIdx.y, col = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    as[y][x] = a[row * n + k + x];
    bs[y][x] = b[(k + y) * n + col];
    __syncthreads();
    for (int i = 0; i < 16; i++) sum += as[y][i] * bs[i][x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}

extern "C" __global__ void sgemm_register(const float* a, const float* b, float* c, int n) {
  __shared__ __align__(16) float as[16][64], bs[16][64];
  int t = threadIdx.x, tx = t % 16, ty = t / 16;
  float acc[4][4] = {};
  for (int k = 0; k < n; k += 16) {
    float4 av = *(const float4*)&a[(blockIdx.y * 64 + t / 4) * n + k + t % 4 * 4];
    as[t % 4 * 4 + 0][t / 4] = av.x, as[t % 4 * 4 + 1][t / 4] = av.y;
    as[t % 4 * 4 + 2][t / 4] = av.z, as[t % 4 * 4 + 3][t / 4] = av.w;
    *(float4*)&bs[ty][tx * 4] = *(const float4*)&b[(k + ty) * n + blockIdx.x * 64 + tx * 4];
    __syncthreads();
    for (int i = 0; i < 16; i++) {
      float4 x = *(float4*)&as[i][ty * 4], y = *(float4*)&bs[i][tx * 4];
      float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
      for (int p = 0; p < 4; p++)
        for (int q = 0; q < 4; q++) acc[p][q] += xs[p] * ys[q];
    }
    __syncthreads();
  }
  for (int p = 0; p < 4; p++)
    for (int q = 0; q < 4; q++)
      c[(blockIdx.y * 64 + ty * 4 + p) * n + blockIdx.x * 64 + tx * 4 + q] = acc[p][q];
}

extern "C" __global__ void softmax(const float* in, float* out, int cols) {
  extern __shared__ float scratch[];
  const float* row = in + blockIdx.x * cols;
  float most = -__int_as_float(0x7f800000), sum = 0;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) most = fmaxf(most, row[i]);
  scratch[threadIdx.x] = most;
  __syncthreads();
  for (int d = blockDim.x / 2; d; d /= 2) {
    if (threadIdx.x < d) scratch[threadIdx.x] = fmaxf(scratch[threadIdx.x], scratch[threadIdx.x + d]);
    __syncthreads();
  }
  most = scratch[0];
  __syncthreads();
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += expf(row[i] - most);
  scratch[threadIdx.x] = sum;
  __syncthreads();
  for (int d = blockDim.x / 2; d; d /= 2) {
    if (threadIdx.x < d) scratch[threadIdx.x] += scratch[threadIdx.x + d];
    __syncthreads();
  }
  for (int i = threadIdx.x; i < cols; i += blockDim.x) out[blockIdx.x * cols + i] = expf(row[i] - most) / scratch[0];
}

extern "C" __global__ void histogram(const int* in, int* out, int n) {
  __shared__ int bins[64];
  if (threadIdx.x < 64) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[in[i] & 63], 1);
  __syncthreads();
  if (threadIdx.x < 64) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

extern "C" __global__ void transpose_naive(const float* in, float* out, int n) {
  __shared__ float tile[32][32];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32;
  for (int i = threadIdx.y; i < 32; i += blockDim.y) tile[i][threadIdx.x] = in[(y + i) * n + x];
  __syncthreads();
  for (int i = threadIdx.y; i < 32; i += blockDim.y) out[(blockIdx.x * 32 + i) * n + y + threadIdx.x] = tile[threadIdx.x][i];
}

extern "C" __global__ void transpose_padded(const float* in, float* out, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32;
  for (int i = threadIdx.y; i < 32; i += blockDim.y) tile[i][threadIdx.x] = in[(y + i) * n + x];
  __syncthreads();
  for (int i = threadIdx.y; i < 32; i += blockDim.y) out[(blockIdx.x * 32 + i) * n + y + threadIdx.x] = tile[threadIdx.x][i];
}

extern "C" __global__ void spin_lock(int* lock, int* counter, int rounds) {
  for (int i = 0; i < rounds; i++) {
    while (atomicCAS(lock, 0, 1)) {}
    __threadfence();
    *(volatile int*)counter = *(volatile int*)counter + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
}

extern "C" __global__ void try_lock(int* lock, int* counter) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      *(volatile int*)counter = *(volatile int*)counter + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

extern "C" __global__ void collatz(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long v = in[i];
  int steps = 0;
  while (v != 1) {
    v = v & 1 ? 3 * v + 1 : v / 2;
    steps++;
  }
  out[i] = steps;
}

extern "C" __global__ void votes(const int* in, unsigned* out) {
  int lane = threadIdx.x, v = in[lane];
  out[lane] = __ballot_sync(~0u, v > 3);
  out[32 + lane] = __any_sync(~0u, v > 100) + 2 * __all_sync(~0u, v >= 0);
  out[64 + lane] = __match_any_sync(~0u, v);
  out[96 + lane] = __reduce_add_sync(~0u, v);
  out[128 + lane] = __reduce_max_sync(~0u, v);
  int pred;
  out[160 + lane] = __match_all_sync(~0u, v, &pred);
  out[192 + lane] = __shfl_up_sync(~0u, v, 3);
  out[224 + lane] = __shfl_down_sync(~0u, v, 5, 16);
  out[256 + lane] = __activemask();
}

extern "C" __global__ void half_math(const __half2* a, const __half2* b, __half2* c, const __nv_bfloat16* d, __nv_bfloat16* e, int n) {
  int i = threadIdx.x;
  if (i < n) {
    c[i] = __hfma2(a[i], b[i], __float2half2_rn(0.5f));
    e[i] = __float2bfloat16(__bfloat162float(d[i]) * 1.5f) + d[i];
  }
}

__device__ __noinline__ int mix(int a, const int* table, int n) {
  int local[8];
  for (int i = 0; i < 8; i++) local[i] = table[(a + i) % n] + i;
  int sum = 0;
  for (int i = 0; i < 8; i++) sum += local[(a * 3 + i) & 7] * (i + 1);
  return sum;
}

extern "C" __global__ void calls(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] & 1 ? mix(in[i], in, n) : -mix(in[i] + 1, in, n);
}

__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

extern "C" __global__ void recursion(int* out) { out[threadIdx.x] = fib(threadIdx.x % 12); }

typedef int (*Function)(int);
__device__ int twice(int x) { return 2 * x; }
__device__ int square(int x) { return x * x; }
__device__ Function table[2] = {twice, square};

extern "C" __global__ void pointers(int* out) { out[threadIdx.x] = table[threadIdx.x & 1](threadIdx.x); }

extern "C" __global__ void float_math(const float* in, float* out, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  float x = in[i];
  out[i] = sinf(x), out[n + i] = expf(x), out[2 * n + i] = logf(fabsf(x)), out[3 * n + i] = powf(fabsf(x), 1.3f);
  out[4 * n + i] = tanhf(x), out[5 * n + i] = sqrtf(fabsf(x)), out[6 * n + i] = 1.0f / x, out[7 * n + i] = erff(x);
  out[8 * n + i] = rsqrtf(fabsf(x)), out[9 * n + i] = cosf(x * 100000.0f), out[10 * n + i] = fmodf(x, 0.7f);
}

extern "C" __global__ void double_math(const double* in, double* out, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  double x = in[i];
  out[i] = sin(x), out[n + i] = exp(x / 1e6), out[2 * n + i] = x / 3.0, out[3 * n + i] = sqrt(fabs(x)), out[4 * n + i] = log(fabs(x));
}

extern "C" __global__ void integers(const int* in, long long* out, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  int x = in[i], y = in[(i + 7) % n];
  out[i] = y ? x / y : -1, out[n + i] = y ? x % y : -1, out[2 * n + i] = (long long)x * y;
  out[3 * n + i] = __popc(x) + 100 * __clz(y) + 10000 * __ffs(x), out[4 * n + i] = __brev(x), out[5 * n + i] = __byte_perm(x, y, 0x5140);
  out[6 * n + i] = __funnelshift_l(x, y, i), out[7 * n + i] = (unsigned long long)(unsigned)x / ((unsigned)y | 1u);
  out[8 * n + i] = __mulhi(x, y), out[9 * n + i] = min(x, y) + (long long)max(x, y), out[10 * n + i] = __sad(x, y, 5u);
}

extern "C" __global__ void hello(int n) {
  if (threadIdx.x < 2) printf("thread %d of %d: %5.2f %s %lld%%\n", threadIdx.x, n, 1.5 * threadIdx.x, "ok", 1LL << 40);
}

extern "C" __global__ void asserts(int n) { assert(threadIdx.x < n); }

extern "C" __global__ void divergent_barrier(int* out) {
  if (threadIdx.x < 16) { __syncthreads(); out[threadIdx.x] = 1; }
  else { out[threadIdx.x] = 3; __syncthreads(); out[threadIdx.x] = 2; }
}

extern "C" __global__ void deadlock(int* out) {
  if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");
  else asm volatile("bar.sync 2, 64;");
  out[threadIdx.x] = 1;
}

extern "C" __global__ void forever(volatile int* flag) { while (!*flag) {} }
extern "C" __global__ void forever_busy(int* out) { int x = 1; while (x) x = x * 3 | 1; *out = x; }

extern "C" __global__ void named_barriers(int* out) {
  __shared__ int box[64];
  if (threadIdx.x < 32) {
    for (int i = 0; i < 4; i++) {
      box[threadIdx.x] = i * 100 + threadIdx.x;
      asm volatile("bar.arrive 1, 64;" ::: "memory");
      asm volatile("bar.sync 2, 64;" ::: "memory");
    }
  } else {
    int sum = 0;
    for (int i = 0; i < 4; i++) {
      asm volatile("bar.sync 1, 64;" ::: "memory");
      sum += box[(threadIdx.x + 1) & 31];
      asm volatile("bar.arrive 2, 64;" ::: "memory");
    }
    out[threadIdx.x - 32] = sum;
  }
}

extern "C" __global__ void barrier_votes(int* out) {
  int t = threadIdx.x;
  out[t] = __syncthreads_count(t % 3 == 0), out[blockDim.x + t] = __syncthreads_and(t >= 0), out[2 * blockDim.x + t] = __syncthreads_or(t == 5);
}

__constant__ float weights[4] = {1.f, 2.f, 4.f, 8.f};
__device__ int visits = 3;
extern "C" __global__ void constants(float* out) {
  out[threadIdx.x] = weights[threadIdx.x & 3];
  atomicAdd(&visits, 1);
}

struct Pair { int a; double b; short c; };
extern "C" __global__ void structs(Pair p, double* out, float k) { out[threadIdx.x] = p.a + p.b * threadIdx.x + p.c + k; }

extern "C" __global__ void switches(const int* in, int* out, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  switch (in[i]) {
    case 0: out[i] = i; break;
    case 1: out[i] = i * i; break;
    case 2: out[i] = -i; break;
    case 3: out[i] = i << 3; break;
    case 4: out[i] = in[0]; break;
    case 5: out[i] = i % 7; break;
    default: out[i] = 99;
  }
}

extern "C" __global__ void clocks(long long* out) {
  long long start = clock64();
  __nanosleep(100);
  out[threadIdx.x] = clock64() - start;
}

extern "C" __global__ void out_of_bounds(float* a, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i <= n) a[i] = 1; }

extern "C" __global__ void heap(int* out) {
  int* p = (int*)malloc(16);
  p[0] = threadIdx.x, p[1] = 5;
  out[threadIdx.x] = p[0] + p[1];
  free(p);
}
