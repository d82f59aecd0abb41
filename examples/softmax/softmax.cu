// softmax over rows, forward. 1 one thread a row · 2 one warp a row, the row in registers · 3 one block
// a row, the row in registers · 4 one block a row of any length, maximum and sum in one pass
// reference: task.py   run: warpsmith check examples/softmax/task.py examples/softmax/softmax.cu
//
// Every rung reads x once or more and writes out once; 8 bytes an element is the least. Rung 1 reads
// three times and its lanes walk down 32 rows at once, so each load touches 32 sectors.
/* host.py
def run(inputs, state):
    (x,) = inputs
    rows, cols = x.shape
    out = torch.empty_like(x)
    if cols <= 256:
        kernels["warp_a_row"][(rows + 3) // 4, 128](x, out, rows, cols)
    elif cols <= 4096:
        most = 1024 if cols <= 1024 else 4096
        kernels[f"block_a_row_of_{most}"][rows, 256](x, out, cols)
    else:
        kernels["block_a_long_row"][rows, 1024](x, out, cols)
    return out

def rung_1(inputs, state):
    (x,) = inputs
    rows, cols = x.shape
    out = torch.empty_like(x)
    kernels["thread_a_row"][(rows + 255) // 256, 256](x, out, rows, cols)
    return out

def example():
    return [torch.randn(64, 200)]
*/

constexpr int WARP = 32;
constexpr unsigned ALL = 0xffffffffu;
constexpr float LOWEST = -INFINITY;

__device__ float warp_max(float value) {
    for (int step = WARP / 2; step > 0; step /= 2)
        value = fmaxf(value, __shfl_xor_sync(ALL, value, step));
    return value;
}

__device__ float warp_sum(float value) {
    for (int step = WARP / 2; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    return value;
}

// 1: three passes over the row by one thread
extern "C" __global__ void thread_a_row(const float* x, float* out, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    x += (size_t)row * cols;
    out += (size_t)row * cols;
    float most = LOWEST, sum = 0.0f;
    for (int c = 0; c < cols; ++c) most = fmaxf(most, x[c]);
    for (int c = 0; c < cols; ++c) sum += expf(x[c] - most);
    for (int c = 0; c < cols; ++c) out[c] = expf(x[c] - most) / sum;
}

// 2: lane l holds columns l, l + 32, …; one read of x
extern "C" __global__ void __launch_bounds__(128)
warp_a_row(const float* x, float* out, int rows, int cols) {
    constexpr int HELD = 8;  // rows of up to 256
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
    if (row >= rows) return;  // whole warps leave: the shuffles below stay complete
    x += (size_t)row * cols;
    out += (size_t)row * cols;

    float held[HELD], most = LOWEST, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        int c = lane + i * WARP;
        held[i] = c < cols ? x[c] : LOWEST;
        most = fmaxf(most, held[i]);
    }
    most = warp_max(most);
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        held[i] = lane + i * WARP < cols ? expf(held[i] - most) : 0.0f;
        sum += held[i];
    }
    float scale = 1.0f / warp_sum(sum);
#pragma unroll
    for (int i = 0; i < HELD; ++i)
        if (lane + i * WARP < cols) out[lane + i * WARP] = held[i] * scale;
}

// 3: thread t holds columns t, t + 256, …, HELD of them; one read of x
template <int HELD> __device__ void hold_row(const float* x, float* out, int cols) {
    constexpr int THREADS = 256;
    __shared__ float mosts[THREADS / WARP], sums[THREADS / WARP];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    x += (size_t)blockIdx.x * cols;
    out += (size_t)blockIdx.x * cols;

    float held[HELD], most = LOWEST, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        int c = threadIdx.x + i * THREADS;
        held[i] = c < cols ? x[c] : LOWEST;
        most = fmaxf(most, held[i]);
    }
    most = warp_max(most);
    if (lane == 0) mosts[warp] = most;
    __syncthreads();
    for (float other : mosts) most = fmaxf(most, other);
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        held[i] = threadIdx.x + i * THREADS < cols ? expf(held[i] - most) : 0.0f;
        sum += held[i];
    }
    sum = warp_sum(sum);
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    sum = 0.0f;
    for (float part : sums) sum += part;
    float scale = 1.0f / sum;
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        int c = threadIdx.x + i * THREADS;
        if (c < cols) out[c] = held[i] * scale;
    }
}

extern "C" __global__ void __launch_bounds__(256)
block_a_row_of_1024(const float* x, float* out, int cols) {
    hold_row<4>(x, out, cols);
}

extern "C" __global__ void __launch_bounds__(256)
block_a_row_of_4096(const float* x, float* out, int cols) {
    hold_row<16>(x, out, cols);
}

// The maximum of some values and the sum of their exp(value - most). An empty one has sum 0.
struct Online {
    float most = LOWEST, sum = 0.0f;

    __device__ void merge(float other_most, float other_sum) {
        if (other_sum == 0.0f) return;
        float both = fmaxf(most, other_most);
        float mine = sum == 0.0f ? 0.0f : sum * expf(most - both);
        sum = mine + other_sum * expf(other_most - both);
        most = both;
    }
};

__device__ Online warp_merge(Online part) {
    for (int step = WARP / 2; step > 0; step /= 2)
        part.merge(__shfl_xor_sync(ALL, part.most, step), __shfl_xor_sync(ALL, part.sum, step));
    return part;
}

// 4: any length; two reads of x, the second mostly from L2
extern "C" __global__ void __launch_bounds__(1024)
block_a_long_row(const float* x, float* out, int cols) {
    __shared__ float mosts[WARP], sums[WARP];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    x += (size_t)blockIdx.x * cols;
    out += (size_t)blockIdx.x * cols;

    Online part;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) part.merge(x[c], 1.0f);
    part = warp_merge(part);
    if (lane == 0) {
        mosts[warp] = part.most;
        sums[warp] = part.sum;
    }
    __syncthreads();

    Online whole;
    for (int w = 0; w < warps; ++w) whole.merge(mosts[w], sums[w]);
    float scale = 1.0f / whole.sum;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) out[c] = expf(x[c] - whole.most) * scale;
}
