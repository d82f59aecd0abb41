// row sums by a tree in shared memory, with a barrier missing: see README.md
// reference: task.py   run: warpsmith check examples/racy/task.py examples/racy/row_sum.cu
/* host.py
def run(inputs, state):
    (x,) = inputs
    out = torch.empty(len(x), device=x.device)
    kernel[len(x), 256](x, out, x.shape[1])
    return out

def example():
    return [torch.randn(4, 256)]
*/

extern "C" __global__ void row_sum(const float* x, float* out, int cols) {
    __shared__ float sums[256];
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += x[(size_t)blockIdx.x * cols + c];
    sums[threadIdx.x] = sum;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        // missing: __syncthreads(), so that the other half has been written
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = sums[0];
}
