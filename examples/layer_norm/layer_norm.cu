// layer norm of rows of 1024, forward. 1 one warp a row, the row in registers · 2 one block a row, one
// float4 a thread
// reference: task.py   run: warpsmith check examples/layer_norm/task.py examples/layer_norm/layer_norm.cu
//
// Both read x once from memory, with 16-byte loads: 8 bytes an element. Rung 1 has no barrier, rung 2
// eight times as many warps, to have more loads on their way at once. The mean is taken before the
// deviations are squared, since E[x²] - E[x]² cancels.
/* host.py
def run(inputs, state):
    (x,) = inputs
    if x.shape[1] != 1024:
        raise ValueError(f"rows of {x.shape[1]}: this kernel is for rows of 1024")
    out = torch.empty_like(x)
    weights = state["norm.weight"], state["norm.bias"]
    kernels["block_a_row"][len(x), 256](x, *weights, out)
    return out

def rung_1(inputs, state):
    (x,) = inputs
    out = torch.empty_like(x)
    weights = state["norm.weight"], state["norm.bias"]
    kernels["warp_a_row"][(len(x) + 3) // 4, 128](x, *weights, out, len(x))
    return out
*/

constexpr int WARP = 32, COLS = 1024;
constexpr unsigned ALL = 0xffffffffu;
constexpr float EPS = 1e-5f;

__device__ float warp_sum(float value) {
    for (int step = WARP / 2; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    return value;
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

// 1: lane l holds the float4 columns l, l + 32, …, eight of them
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

// Every thread gets the sum over the block. `sums` is for this call alone.
__device__ float block_sum(float value, float* sums) {
    value = warp_sum(value);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = value;
    __syncthreads();
    float total = 0.0f;
    for (int w = 0; w < 256 / WARP; ++w) total += sums[w];
    return total;
}

// 2: thread t holds float4 column t; the weights are on their way while the sums are made
extern "C" __global__ void __launch_bounds__(256)
block_a_row(const float4* x, const float4* weight, const float4* bias, float4* out) {
    __shared__ float sums[2][256 / WARP];
    size_t at = (size_t)blockIdx.x * (COLS / 4) + threadIdx.x;
    float4 held = x[at], w = weight[threadIdx.x], b = bias[threadIdx.x];
    held = minus(held, block_sum(sum_of(held), sums[0]) / COLS);
    float variance = block_sum(sum_of(times(held, held)), sums[1]) / COLS;
    out[at] = affine(held, rsqrtf(variance + EPS), w, b);
}
