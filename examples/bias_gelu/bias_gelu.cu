// bias + GELU, forward. 1 one thread an element · 2 four elements a thread, 16-byte loads
// reference: task.py   run: warpsmith check examples/bias_gelu/task.py examples/bias_gelu/bias_gelu.cu
//
// Bound by memory: x once, out once, 8 bytes an element; the bias stays in L1. PyTorch's two operators
// move twice as much.
/* host.py
def run(inputs, state):
    x, bias = inputs
    rows, cols = x.shape
    out = torch.empty_like(x)
    if cols % 4 == 0:
        count = rows * cols // 4
        kernels["four_a_thread"][(count + 255) // 256, 256](x, bias, out, count, cols // 4)
    else:
        count = rows * cols
        kernels["one_a_thread"][(count + 255) // 256, 256](x, bias, out, count, cols)
    return out

def example():
    return [torch.randn(16, 40), torch.randn(40)]
*/

__device__ float gelu(float y) {
    constexpr float SQRT_HALF = 0.70710678118654752f;
    return 0.5f * y * (1.0f + erff(y * SQRT_HALF));
}

// 1
extern "C" __global__ void one_a_thread(
    const float* x, const float* bias, float* out, int count, int cols) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = gelu(x[i] + bias[i % cols]);
}

// 2: count and cols in units of four; rows of a multiple of four columns start on 16 bytes
extern "C" __global__ void four_a_thread(
    const float4* x, const float4* bias, float4* out, int count, int cols) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float4 v = x[i], b = bias[i % cols];
    out[i] = make_float4(gelu(v.x + b.x), gelu(v.y + b.y), gelu(v.z + b.z), gelu(v.w + b.w));
}
