// layer norm of rows of 1024, forward. 1 one block a row, sums in shared memory · 2 one warp a row, the
// row in registers
// reference: task.py   run: warpsmith check examples/layer_norm/task.py examples/layer_norm/layer_norm.cu
//
// Both read x once from memory: 8 bytes an element. Rung 2 has no barrier and 16-byte loads. The mean
// is taken before the deviations are squared, since E[x²] - E[x]² cancels.
/* host.py
def run(inputs, state):
    (x,) = inputs
    if x.shape[1] != 1024:
        raise ValueError(f"rows of {x.shape[1]}: this kernel is for rows of 1024")
    out = torch.empty_like(x)
    weights = state["norm.weight"], state["norm.bias"]
    kernels["warp_a_row"][(len(x) + 3) // 4, 128](x, *weights, out, len(x))
    return out

def rung_1(inputs, state):
    (x,) = inputs
    out = torch.empty_like(x)
    kernels["block_a_row"][len(x), 256](x, state["norm.weight"], state["norm.bias"], out)
    return out
*/

constexpr int WARP = 32, COLS = 1024;
constexpr unsigned ALL = 0xffffffffu;
constexpr float EPS = 1e-5f;

__device__ float warp_sum(float value) {
    for (int step = WARP / 2; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    return value;
}

// Every thread gets the sum over the block. `sums` may be used again at once.
__device__ float block_sum(float value, float* sums) {
    value = warp_sum(value);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = value;
    __syncthreads();
    float total = 0.0f;
    for (int w = 0; w < blockDim.x / WARP; ++w) total += sums[w];
    __syncthreads();
    return total;
}

// 1: four columns a thread
extern "C" __global__ void __launch_bounds__(256)
block_a_row(const float* x, const float* weight, const float* bias, float* out) {
    __shared__ float sums[WARP];
    constexpr int HELD = COLS / 256;
    x += (size_t)blockIdx.x * COLS;
    out += (size_t)blockIdx.x * COLS;
    float held[HELD], sum = 0.0f, squares = 0.0f;
    for (int i = 0; i < HELD; ++i) sum += held[i] = x[threadIdx.x + i * 256];
    float mean = block_sum(sum, sums) / COLS;
    for (int i = 0; i < HELD; ++i) squares += (held[i] - mean) * (held[i] - mean);
    float scale = rsqrtf(block_sum(squares, sums) / COLS + EPS);
    for (int i = 0; i < HELD; ++i) {
        int c = threadIdx.x + i * 256;
        out[c] = (held[i] - mean) * scale * weight[c] + bias[c];
    }
}

__device__ float sum_of(float4 v) { return (v.x + v.y) + (v.z + v.w); }

__device__ float4 minus(float4 v, float m) {
    return make_float4(v.x - m, v.y - m, v.z - m, v.w - m);
}

__device__ float4 times(float4 a, float4 b) {
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

__device__ float4 affine(float4 v, float scale, float4 w, float4 b) {
    return make_float4(v.x * scale * w.x + b.x, v.y * scale * w.y + b.y, v.z * scale * w.z + b.z,
                       v.w * scale * w.w + b.w);
}

// 2: lane l holds the float4 columns l, l + 32, …, eight of them
extern "C" __global__ void __launch_bounds__(128)
warp_a_row(const float4* x, const float4* weight, const float4* bias, float4* out, int rows) {
    constexpr int HELD = COLS / 4 / WARP;
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
    if (row >= rows) return;  // whole warps leave: the shuffles below stay complete
    x += (size_t)row * (COLS / 4);
    out += (size_t)row * (COLS / 4);

    float4 held[HELD];
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; ++i) sum += sum_of(held[i] = x[lane + i * WARP]);
    float mean = warp_sum(sum) / COLS;
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        held[i] = minus(held[i], mean);
        squares += sum_of(times(held[i], held[i]));
    }
    float scale = rsqrtf(warp_sum(squares) / COLS + EPS);
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        int c = lane + i * WARP;
        out[c] = affine(held[i], scale, weight[c], bias[c]);
    }
}
