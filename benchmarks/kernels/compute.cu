// Kernels that compute: matrix products, bodies, polynomials, hashes, chases, shared memory.
// SPDX-License-Identifier: Apache-2.0

__global__ void k_gemm_naive(const float* a, const float* b, float* c, int n) {
  int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + col];
  c[row * n + col] = sum;
}

template <int T>
__global__ void k_gemm_tile(const float* a, const float* b, float* c, int n) {
  __shared__ float p[T][T], q[T][T];
  int x = threadIdx.x, y = threadIdx.y, col = blockIdx.x * T + x, row = blockIdx.y * T + y;
  float sum = 0;
  for (int k = 0; k < n; k += T) {
    p[y][x] = a[row * n + k + x], q[y][x] = b[(k + y) * n + col];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < T; i++) sum += p[y][i] * q[i][x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}

template <int B, int K, int R>  // tile B x B, depth K, R x R results a thread
__global__ void __launch_bounds__((B / R) * (B / R)) k_gemm_block(const float* a, const float* b, float* c, int n) {
  constexpr int THREADS = (B / R) * (B / R);
  __shared__ float p[K][B + 4], q[K][B];
  int t = threadIdx.x, x = t % (B / R), y = t / (B / R);
  const float* pa = a + blockIdx.y * B * n;
  const float* pb = b + blockIdx.x * B;
  float sum[R][R] = {};
  for (int k = 0; k < n; k += K) {
#pragma unroll
    for (int i = t; i < B * K; i += THREADS) {
      p[i % K][i / K] = pa[i / K * n + k + i % K];
      q[i / B][i % B] = pb[(k + i / B) * n + i % B];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < K; i++) {
      float u[R], v[R];
#pragma unroll
      for (int r = 0; r < R; r++) u[r] = p[i][y * R + r];
#pragma unroll
      for (int r = 0; r < R; r++) v[r] = q[i][x + r * (B / R)];
#pragma unroll
      for (int r = 0; r < R; r++)
#pragma unroll
        for (int s = 0; s < R; s++) sum[r][s] += u[r] * v[s];
    }
    __syncthreads();
  }
  for (int r = 0; r < R; r++)
    for (int s = 0; s < R; s++) c[(blockIdx.y * B + y * R + r) * n + blockIdx.x * B + x + s * (B / R)] = sum[r][s];
}

__device__ void fetch(float* to, const float* from) {
  unsigned at = __cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from));
}

__global__ void __launch_bounds__(256) k_gemm_async(const float* a, const float* b, float* c, int n) {
  __shared__ alignas(16) float p[2][64][20], q[2][16][64];
  int t = threadIdx.x, x = t % 16, y = t / 16;
  auto load = [&](int k, int s) {
    fetch(&p[s][t / 4][t % 4 * 4], a + (blockIdx.y * 64 + t / 4) * n + k + t % 4 * 4);
    fetch(&q[s][t / 16][t % 16 * 4], b + (k + t / 16) * n + blockIdx.x * 64 + t % 16 * 4);
    asm volatile("cp.async.commit_group;");
  };
  float sum[4][4] = {};
  load(0, 0);
  for (int k = 0, s = 0; k < n; k += 16, s ^= 1) {
    if (k + 16 < n) {
      load(k + 16, s ^ 1);
      asm volatile("cp.async.wait_group 1;");
    } else
      asm volatile("cp.async.wait_group 0;");
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; i++) {
      float4 v = *(float4*)&q[s][i][x * 4];
#pragma unroll
      for (int r = 0; r < 4; r++) {
        float u = p[s][y * 4 + r][i];
        sum[r][0] += u * v.x, sum[r][1] += u * v.y, sum[r][2] += u * v.z, sum[r][3] += u * v.w;
      }
    }
    __syncthreads();
  }
  for (int r = 0; r < 4; r++)
    *(float4*)(c + (blockIdx.y * 64 + y * 4 + r) * n + blockIdx.x * 64 + x * 4) =
        make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
}

__device__ void pull(float4 me, float4 other, float3& f) {
  float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
  float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), s = other.w * inverse * inverse * inverse;
  f.x += dx * s, f.y += dy * s, f.z += dz * s;
}

__global__ void k_bodies(const float4* x, float4* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float3 f = {};
  for (int k = 0; k < n; k++) pull(x[i], x[k], f);
  out[i] = make_float4(f.x, f.y, f.z, 0);
}

template <int EACH>
__global__ void k_bodies_shared(const float4* x, float4* out, int n) {
  __shared__ float4 tile[128];
  int i = blockIdx.x * 128 * EACH + threadIdx.x;
  float3 f[EACH] = {};
  float4 me[EACH];
  for (int e = 0; e < EACH; e++) me[e] = x[i + e * 128];
  for (int k = 0; k < n; k += 128) {
    tile[threadIdx.x] = x[k + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < 128; j++)
#pragma unroll
      for (int e = 0; e < EACH; e++) pull(me[e], tile[j], f[e]);
    __syncthreads();
  }
  for (int e = 0; e < EACH; e++) out[i + e * 128] = make_float4(f[e].x, f[e].y, f[e].z, 0);
}

template <typename T, int EACH>  // degree `degree` by Horner, EACH chains a thread
__global__ void k_poly(const T* x, T* out, int n, int degree) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
  T v[EACH], s[EACH];
#pragma unroll
  for (int e = 0; e < EACH; e++) v[e] = x[i + e * step], s[e] = 0;
#pragma unroll 8
  for (int k = 0; k < degree; k++)
#pragma unroll
    for (int e = 0; e < EACH; e++) s[e] = s[e] * v[e] + T(0.5);
#pragma unroll
  for (int e = 0; e < EACH; e++) out[i + e * step] = s[e];
}

template <int EACH>
__global__ void k_hash(const int* x, int* out, int n, int rounds) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
  unsigned v[EACH];
#pragma unroll
  for (int e = 0; e < EACH; e++) v[e] = x[i + e * step];
#pragma unroll 4
  for (int k = 0; k < rounds; k++)
#pragma unroll
    for (int e = 0; e < EACH; e++) v[e] ^= v[e] << 13, v[e] ^= v[e] >> 17, v[e] ^= v[e] << 5;
#pragma unroll
  for (int e = 0; e < EACH; e++) out[i + e * step] = v[e];
}

template <int WHAT>
__global__ void k_special(const float* x, float* out, int n, int rounds) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
#pragma unroll 4
  for (int k = 0; k < rounds; k++) {
    if (WHAT == 0) v = __sinf(v);
    if (WHAT == 1) v = sinf(v);
    if (WHAT == 2) v = __expf(-v);
    if (WHAT == 3) v = sqrtf(v + 1.0f);
    if (WHAT == 4) v = 1.0f / (v + 1.0f);
  }
  out[i] = v;
}

__global__ void k_diverge(const float* x, float* out, int n, int ways, int rounds) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
  for (int w = 0; w < ways; w++)
    if (threadIdx.x % ways == w)
      for (int k = 0; k < rounds; k++) v = v * 0.99f + w;
  out[i] = v;
}

__global__ void k_uneven(const float* x, float* out, int n, int rounds) {  // the last block works longest
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
  for (int k = 0; k < rounds * (int)(blockIdx.x % 8 + 1); k++) v = v * 0.99f + 1;
  out[i] = v;
}

__global__ void k_chase(const int* next, int* out, int steps) {
  int at = threadIdx.x;
  for (int k = 0; k < steps; k++) at = next[at];
  out[threadIdx.x] = at;
}

__global__ void k_banks(const float* x, float* out, int n, int stride, int rounds) {
  __shared__ float room[8192];
  int t = threadIdx.x;
  for (int k = t; k < 8192; k += blockDim.x) room[k] = x[k];
  __syncthreads();
  float sum = 0;
  int at = t * stride;
#pragma unroll 8
  for (int k = 0; k < rounds; k++) sum += room[(at + k * 32) & 8191];
  out[blockIdx.x * blockDim.x + t] = sum;
}

__global__ void k_barriers(const float* x, float* out, int n, int rounds) {
  __shared__ float room[1024];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  float v = x[i];
  for (int k = 0; k < rounds; k++) {
    room[t] = v;
    __syncthreads();
    v += 0.5f * room[(t + 1) % blockDim.x];
    __syncthreads();
  }
  out[i] = v;
}
