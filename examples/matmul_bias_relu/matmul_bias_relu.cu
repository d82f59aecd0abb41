// relu(x · weightᵀ + bias), float32. 1 one thread an output · 2 tiles of 64×64 in shared memory, 4×4
// outputs a thread
// reference: task.py   run: warpsmith check examples/matmul_bias_relu/task.py examples/matmul_bias_relu/matmul_bias_relu.cu
//
// x (M, K), weight (N, K), out (M, N), all row-major, N and K multiples of the tile. Rung 1 loads two
// floats for each multiply-add; rung 2 loads each float once per 64 of them. Bias and ReLU cost no
// trip through memory. Tensor cores would round to TF32: not what the task asks.
/* host.py
def run(inputs, state):
    (x,) = inputs
    weight, bias = state["linear.weight"], state["linear.bias"]
    (m, k), n = x.shape, len(weight)
    if n % 64 or k % 16:
        raise ValueError(f"{k} to {n} features: expected multiples of 16 and 64")
    out = torch.empty(m, n, device=x.device)
    kernels["tiled"][(n // 64, (m + 63) // 64), 256](x, weight, bias, out, m, n, k)
    return out

def rung_1(inputs, state):
    (x,) = inputs
    weight, bias = state["linear.weight"], state["linear.bias"]
    (m, k), n = x.shape, len(weight)
    out = torch.empty(m, n, device=x.device)
    kernels["one_a_thread"][((n + 31) // 32, (m + 7) // 8), (32, 8)](x, weight, bias, out, m, n, k)
    return out
*/

constexpr int TILE = 64, DEPTH = 16, EACH = 4;  // 16×16 threads, EACH×EACH outputs each
constexpr int PITCH = TILE + 4;  // 16-byte rows; the transposing stores hit different banks

// 1
extern "C" __global__ void one_a_thread(
    const float* x, const float* weight, const float* bias, float* out, int m, int n, int k) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || col >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += x[(size_t)row * k + i] * weight[(size_t)col * k + i];
    out[(size_t)row * n + col] = fmaxf(sum + bias[col], 0.0f);
}

// Copy TILE rows × DEPTH columns of a row-major matrix, transposed; rows past the end are zero.
// 256 threads take one float4 each.
__device__ void load_tile(
    float (*tile)[PITCH], const float* from, int first_row, int rows, int first_col, int width) {
    int row = threadIdx.x / (DEPTH / 4), col = threadIdx.x % (DEPTH / 4) * 4;
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (first_row + row < rows)
        v = *(const float4*)&from[(size_t)(first_row + row) * width + first_col + col];
    tile[col][row] = v.x;
    tile[col + 1][row] = v.y;
    tile[col + 2][row] = v.z;
    tile[col + 3][row] = v.w;
}

// 2
extern "C" __global__ void __launch_bounds__(256) tiled(
    const float* x, const float* weight, const float* bias, float* out, int m, int n, int k) {
    __shared__ __align__(16) float a[DEPTH][PITCH], b[DEPTH][PITCH];
    int first_row = blockIdx.y * TILE, first_col = blockIdx.x * TILE;
    int row = threadIdx.x / 16 * EACH, col = threadIdx.x % 16 * EACH;
    float sums[EACH][EACH] = {};

    for (int depth = 0; depth < k; depth += DEPTH) {
        load_tile(a, x, first_row, m, depth, k);
        load_tile(b, weight, first_col, n, depth, k);
        __syncthreads();
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            float4 rows4 = *(const float4*)&a[d][row], cols4 = *(const float4*)&b[d][col];
            float left[EACH] = {rows4.x, rows4.y, rows4.z, rows4.w};
            float right[EACH] = {cols4.x, cols4.y, cols4.z, cols4.w};
#pragma unroll
            for (int i = 0; i < EACH; ++i)
#pragma unroll
                for (int j = 0; j < EACH; ++j) sums[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }

    float4 shift = *(const float4*)&bias[first_col + col];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        if (first_row + row + i >= m) return;
        float4 v = make_float4(fmaxf(sums[i][0] + shift.x, 0.0f), fmaxf(sums[i][1] + shift.y, 0.0f),
                               fmaxf(sums[i][2] + shift.z, 0.0f), fmaxf(sums[i][3] + shift.w, 0.0f));
        *(float4*)&out[(size_t)(first_row + row + i) * n + first_col + col] = v;
    }
}
