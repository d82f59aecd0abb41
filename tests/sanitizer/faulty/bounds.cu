// Kernels that touch memory that is not theirs. BAD(...) is the bug, MEND(...) its repair.
// SPDX-License-Identifier: Apache-2.0

// run: 4 256 a=f32[1000] b=f32[1000] out=f32[1000] n=1000
extern "C" __global__ void add_without_guard(const float* a, const float* b, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  MEND(if (i < n))
  out[i] = a[i] + b[i];  // expect: out-of-bounds
}

// run: 4 256 x=f32[1000] out=f32[1001] n=1000
extern "C" __global__ void guard_off_by_one(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (BAD(i <= n) MEND(i < n)) {
    out[i] = 2.0f * x[i];  // expect: out-of-bounds
  }
}

// run: 2 128 x=f32[256] out=f32[256] n=256
extern "C" __global__ void stencil_left_edge(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float left = MEND(i == 0 ? 0.0f :) x[i - 1];  // expect: out-of-bounds
  out[i] = left + x[i];
}

// run: 2 128 x=f32[256] out=f32[256] n=256
extern "C" __global__ void stencil_right_edge(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float right = MEND(i == n - 1 ? 0.0f :) x[i + 1];  // expect: out-of-bounds
  out[i] = right - x[i];
}

// run: 4,1 16,16 x=f32[16,64] out=f32[64,16] rows=16 cols=64
extern "C" __global__ void transpose_wrong_pitch(const float* x, float* out, int rows, int cols) {
  int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  out[c * BAD(cols) MEND(rows) + r] = x[r * cols + c];  // expect: out-of-bounds
}

// run: 2,2 16,16 a=f32[20,20] b=f32[20,20] c=f32[20,20] n=20
extern "C" __global__ void matmul_ragged_edge(const float* a, const float* b, float* c, int n) {
  int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    MEND(if (row < n && col < n))
    sum += a[row * n + k] * b[k * n + col];  // expect: out-of-bounds
  }
  if (row < n && col < n) c[row * n + col] = sum;
}

// run: 8 32 x=f32[8,32] out=f32[8] pitch=128
extern "C" __global__ void pitch_in_bytes(const float* x, float* out, int pitch) {
  int row = blockIdx.x;
  const float* line = BAD(x + row * pitch) MEND((const float*)((const char*)x + row * pitch));
  float v = line[threadIdx.x];  // expect: out-of-bounds
  for (int step = 16; step; step /= 2) v += __shfl_down_sync(~0u, v, step);
  if (threadIdx.x == 0) out[row] = v;
}

// run: 2 64 x=f32[500] out=f32[500] n=500
extern "C" __global__ void grid_stride_one_step_too_far(const float* x, float* out, int n) {
  int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n BAD(+stride); i += stride) {
    out[i] = x[i] * x[i];  // expect: out-of-bounds
  }
}

// run: 1 64 x=f32[60] index=arange:i32[64] out=f32[64] n=60
extern "C" __global__ void gather_unchecked(const float* x, const int* index, float* out, int n) {
  int j = index[threadIdx.x];
  out[threadIdx.x] = MEND(j >= n ? 0.0f :) x[j];  // expect: out-of-bounds
}

// run: 1 64 value=f32[64] index=arange:i32[64] out=f32[48] n=48
extern "C" __global__ void scatter_unchecked(const float* value, const int* index, float* out, int n) {
  int j = index[threadIdx.x];
  MEND(if (j < n))
  out[j] = value[threadIdx.x];  // expect: out-of-bounds
}

// run: 2 128 x=rand(300):i32[256] bins=zero:i32[256]
extern "C" __global__ void histogram_bin_past_end(const int* x, int* bins) {
  int v = x[blockIdx.x * blockDim.x + threadIdx.x];
  atomicAdd(&bins[MEND(v > 255 ? 255 :) v], 1);  // expect: out-of-bounds
}

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void unsigned_index_wraps(const float* x, float* out) {
  unsigned i = threadIdx.x;
  unsigned before = i - 1;
  out[i] = x[i] - MEND(i == 0 ? 0.0f :) x[before];  // expect: out-of-bounds
}

// run: 1 256 x=f32[1022] out=f32[1022] n=1022
extern "C" __global__ void vector_tail(const float* x, float* out, int n) {
  int i = threadIdx.x;
  MEND(if (4 * i + 3 < n)) {
    float4 v = reinterpret_cast<const float4*>(x)[i];  // expect: out-of-bounds
    out[4 * i] = v.x + v.y + v.z + v.w;
  }
}

struct Particle {
  float x, y, z, mass;
};

// run: 1 128 count=100 particles=f32[400] out=f32[128]
extern "C" __global__ void particles_past_count(int count, const Particle* particles, float* out) {
  MEND(if (threadIdx.x < count))
  out[threadIdx.x] = particles[threadIdx.x].mass;  // expect: out-of-bounds
}

// run: 4 32 x=f32[4,32] out=f32[4]
extern "C" __global__ void block_index_from_one(const float* x, float* out) {
  int row = blockIdx.x BAD(+1);
  float v = x[row * 32 + threadIdx.x];  // expect: out-of-bounds
  for (int step = 16; step; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  if (threadIdx.x == 0) out[blockIdx.x] = v;
}

// run: 1 32 rows=4 offsets=arange:i32[4] x=f32[64] out=f32[4]
extern "C" __global__ void csr_offsets_one_short(int rows, const int* offsets, const float* x, float* out) {
  int row = threadIdx.x;
  if (row >= rows BAD() MEND(-1)) return;
  float sum = 0;
  int end = offsets[row + 1];  // expect: out-of-bounds
  for (int j = offsets[row]; j < end && j < 64; ++j) sum += x[j];
  out[row] = sum;
}

// run: 1 32 heads=2 dim=32 q=f32[2,32] out=f32[2,32]
extern "C" __global__ void head_stride_doubled(int heads, int dim, const float* q, float* out) {
  for (int h = 0; h < heads; ++h) {
    const float* mine = q + h * dim BAD(*2);
    out[h * dim + threadIdx.x] = mine[threadIdx.x];  // expect: out-of-bounds
  }
}

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void through_wild_pointer(const float* x, float* out) {
  const float* p = BAD(x + (1ll << 40)) MEND(x);
  out[threadIdx.x] = p[threadIdx.x];  // expect: out-of-bounds
}

__device__ float lookup[64];

// run: 1 128 out=f32[128]
extern "C" __global__ void module_table_past_end(float* out) {
  int i = threadIdx.x;
  lookup[i & 63] = i & 63;
  __syncthreads();
  out[i] = lookup[i MEND(&63) BAD(+4096)];  // expect: out-of-bounds
}

__constant__ float coefficients[16];

// run: 1 32 x=f32[32] out=f32[32] n=16
extern "C" __global__ void constant_past_end(const float* x, float* out, int n) {
  float sum = 0;
  for (int k = 0; k < n BAD(+4096); ++k) {
    sum += coefficients[k] * x[threadIdx.x];  // expect: out-of-bounds
  }
  out[threadIdx.x] = sum;
}

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void shared_tile_shifted(const float* x, float* out) {
  __shared__ float tile[64 MEND(+1)];
  if (threadIdx.x == 0) tile[0] = 0;
  tile[threadIdx.x + 1] = x[threadIdx.x];  // expect: out-of-bounds
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}

// run: 1 64 shared=128 mended_shared=256 x=f32[64] out=f32[64]
extern "C" __global__ void dynamic_shared_too_small(const float* x, float* out) {
  extern __shared__ float scratch[];
  scratch[threadIdx.x] = x[threadIdx.x];  // expect: out-of-bounds
  __syncthreads();
  out[threadIdx.x] = scratch[63 - threadIdx.x];
}

// run: 1 64 x=f32[64] out=f32[64]
extern "C" __global__ void shared_before_start(const float* x, float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  int left = (int)threadIdx.x - 1;
  MEND(if (left < 0) left = 0;)
  out[threadIdx.x] = tile[left];  // expect: out-of-bounds
}

// run: 1 32,8 x=f32[32,32] out=f32[32,32]
extern "C" __global__ void shared_transpose_wrong_loop(const float* x, float* out) {
  __shared__ float tile[32][33];
  for (int j = threadIdx.y; j < 32 BAD(+8); j += 8) {
    tile[j][threadIdx.x] = x[(j & 31) * 32 + threadIdx.x];  // expect: out-of-bounds
  }
  __syncthreads();
  for (int j = threadIdx.y; j < 32; j += 8) out[j * 32 + threadIdx.x] = tile[threadIdx.x][j];
}

// run: 1 64 x=rand(80):i32[64] out=zero:i32[64]
extern "C" __global__ void shared_histogram_past_end(const int* x, int* out) {
  __shared__ int bins[64];
  bins[threadIdx.x] = 0;
  __syncthreads();
  int v = x[threadIdx.x];
  MEND(if (v < 64))
  atomicAdd(&bins[v], 1);  // expect: out-of-bounds
  __syncthreads();
  out[threadIdx.x] = bins[threadIdx.x];
}

// run: 1 32 picks=arange:i32[32] out=f32[32]
extern "C" __global__ void local_array_past_end(const int* picks, float* out) {
  float kept[8];
  for (int k = 0; k < 8; ++k) kept[(picks[k] * 3) & 7] = k;
  int j = picks[threadIdx.x] BAD(+64) MEND(&7);
  out[threadIdx.x] = kept[j];  // expect: out-of-bounds
}

// run: 1 32 picks=arange:i32[32] out=f32[32]
extern "C" __global__ void local_array_top_k_overflow(const int* picks, float* out) {
  float top[4];
  int held = 0;
  for (int k = 0; k < 32; ++k) {
    MEND(if (held < 4))
    top[held++] = picks[k];  // expect: out-of-bounds
  }
  float sum = 0;
  for (int k = 0; k < 4; ++k) sum += top[picks[k]];
  out[threadIdx.x] = sum;
}

// run: 1 64 x=null mended_x=f32[64] out=f32[64]
extern "C" __global__ void null_argument(const float* x, float* out) {
  out[threadIdx.x] = x[threadIdx.x];  // expect: null-pointer
}

// run: 1 64 x=f32[64] bias=null mended_bias=f32[64] out=f32[64]
extern "C" __global__ void optional_bias_not_tested(const float* x, const float* bias, float* out) {
  out[threadIdx.x] = x[threadIdx.x] + bias[threadIdx.x];  // expect: null-pointer
}

// run: 1 32 table=zero:i64[32] out=f32[32]
extern "C" __global__ void null_in_pointer_table(const float* const* table, float* out) {
  const float* p = table[threadIdx.x];
  out[threadIdx.x] = MEND(p == nullptr ? 0.0f :) p[0];  // expect: null-pointer
}

// run: 1 32 head=null mended_head=i32[64] out=i32[32]
extern "C" __global__ void null_store(int* head, int* out) {
  head[threadIdx.x] = 1;  // expect: null-pointer
  out[threadIdx.x] = head[threadIdx.x];
}

// run: 1 32 x=f32[256] out=f32[32]
extern "C" __global__ void misaligned_float4(const float* x, float* out) {
  const float4* rows = reinterpret_cast<const float4*>(x BAD(+1));
  float4 v = rows[threadIdx.x];  // expect: misaligned
  out[threadIdx.x] = v.x + v.w;
}

// run: 1 32 x=f32[256] out=f64[32]
extern "C" __global__ void misaligned_double(const float* x, double* out) {
  out[threadIdx.x] = *reinterpret_cast<const double*>(x + 2 * threadIdx.x BAD(+1));  // expect: misaligned
}

// run: 1 32 packet=u8[256] out=i32[32]
extern "C" __global__ void misaligned_header_field(const unsigned char* packet, int* out) {
  out[threadIdx.x] = *reinterpret_cast<const int*>(packet + 4 * threadIdx.x BAD(+3));  // expect: misaligned
}

// run: 1 32 x=f32[64] out=f32[32]
extern "C" __global__ void misaligned_shared_vector(const float* x, float* out) {
  __shared__ __align__(16) float tile[68];
  for (int i = threadIdx.x; i < 68; i += 32) tile[i] = x[i & 63];
  __syncthreads();
  float2 v = *reinterpret_cast<float2*>(&tile[2 * threadIdx.x BAD(+1)]);  // expect: misaligned
  out[threadIdx.x] = v.x * v.y;
}

// run: 1 32 counters=zero:i32[128]
extern "C" __global__ void misaligned_atomic(int* counters) {
  auto* wide = reinterpret_cast<unsigned long long*>(counters BAD(+1));
  atomicAdd(&wide[threadIdx.x], 1ull);  // expect: misaligned
}

// run: 1 32 x=u16[128] out=u32[32]
extern "C" __global__ void misaligned_half2(const unsigned short* x, unsigned* out) {
  const unsigned* pairs = reinterpret_cast<const unsigned*>(x BAD(+1));
  out[threadIdx.x] = pairs[threadIdx.x];  // expect: misaligned
}

// run: 1 32 out=f32[130]
extern "C" __global__ void misaligned_vector_store(float* out) {
  float4* rows = reinterpret_cast<float4*>(out BAD(+2));
  if (threadIdx.x < 31) rows[threadIdx.x] = make_float4(1, 2, 3, 4);  // expect: misaligned
}

// run: 1 32 rows=3 cols=33 x=f32[160] out=f32[32]
extern "C" __global__ void vector_rows_of_odd_length(int rows, int cols, const float* x, float* out) {
  float sum = 0;
  for (int r = 0; r < rows; ++r) {
    const float* line = x + r * BAD(cols) MEND((cols + 3) / 4 * 4);
    if (threadIdx.x < 8) {
      float4 v = reinterpret_cast<const float4*>(line)[threadIdx.x];  // expect: misaligned
      sum += v.x + v.y + v.z + v.w;
    }
  }
  out[threadIdx.x] = sum;
}

// run: 1 64 x=const:f32[64] out=f32[64]
extern "C" __global__ void input_is_written(const float* x, float* out) {
  float* scratch = BAD(const_cast<float*>(x)) MEND(out);
  scratch[threadIdx.x] = x[threadIdx.x] * 2;  // expect: readonly-write
}

// run: 1 64 counts=const:i32[64] out=i32[64]
extern "C" __global__ void input_is_counted_up(int* counts, int* out) {
  atomicAdd(BAD(&counts[threadIdx.x]) MEND(&out[threadIdx.x]), 1);  // expect: readonly-write
}

// run: 1 64 out=const:f32[64] mended_out=f32[64] x=f32[64]
extern "C" __global__ void arguments_swapped(float* out, const float* x) {
  out[threadIdx.x] = x[threadIdx.x];  // expect: readonly-write
}

// run: 1 64 weights=const:f32[64] grad=f32[64]
extern "C" __global__ void update_in_place(float* weights, float* grad) {
  MEND(grad[threadIdx.x] *= -0.1f;)
  BAD(weights[threadIdx.x] -= 0.1f * grad[threadIdx.x];)  // expect: readonly-write
}
