// sum of all, mean of columns. Chunks of rows first, then the chunks: no atomics, equal bits every time
// reference: task.py   run: warpsmith check examples/reduction/task.py examples/reduction/reduction.cu
//
// Bound by memory: x once, 4 bytes an element. PyTorch's two operators read it twice. A warp reads 32
// neighboring columns of a row; partial sums, one a chunk and column, are 1/CHUNK of x.
/* host.py
CHUNK = 32  # rows

def run(inputs, state):
    (x,) = inputs
    rows, cols = x.shape
    chunks, groups = (rows + CHUNK - 1) // CHUNK, (cols + 127) // 128
    partial = torch.empty(chunks, cols, device=x.device)
    group_sums = torch.empty(groups, device=x.device)
    total, mean = torch.empty((), device=x.device), torch.empty(cols, device=x.device)
    kernels["sum_chunks"][(groups, chunks), 128](x, partial, rows, cols, CHUNK)
    kernels["sum_columns"][groups, 128](partial, mean, group_sums, chunks, rows, cols)
    kernels["sum_groups"][1, 32](group_sums, total, groups)
    return total, mean

def example():
    return [torch.randn(100, 40)]
*/

constexpr int WARP = 32;
constexpr unsigned ALL = 0xffffffffu;

__device__ float warp_sum(float value) {
    for (int step = WARP / 2; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    return value;
}

// partial[chunk][col]: a thread walks down one column of one chunk
extern "C" __global__ void sum_chunks(
    const float* x, float* partial, int rows, int cols, int chunk_rows) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.y * chunk_rows;
    if (col >= cols) return;
    int last = min(first + chunk_rows, rows);
    float sum = 0.0f;
    for (int row = first; row < last; ++row) sum += x[(size_t)row * cols + col];
    partial[(size_t)blockIdx.y * cols + col] = sum;
}

// mean[col] of the chunks, and the sum of this block's 128 columns
extern "C" __global__ void __launch_bounds__(128) sum_columns(
    const float* partial, float* mean, float* group_sums, int chunks, int rows, int cols) {
    __shared__ float sums[4];
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    if (col < cols) {
        for (int chunk = 0; chunk < chunks; ++chunk) sum += partial[(size_t)chunk * cols + col];
        mean[col] = sum / rows;
    }
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = sum;
    __syncthreads();
    if (threadIdx.x == 0) group_sums[blockIdx.x] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// one warp: at most 64 groups
extern "C" __global__ void sum_groups(const float* group_sums, float* total, int groups) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < groups; i += WARP) sum += group_sums[i];
    sum = warp_sum(sum);
    if (threadIdx.x == 0) *total = sum;
}
