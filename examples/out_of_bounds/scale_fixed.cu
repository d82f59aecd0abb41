// 2 x + 1: scale.cu with its guard right
// reference: task.py   run: warpsmith check examples/out_of_bounds/task.py examples/out_of_bounds/scale_fixed.cu
/* host.py
def run(inputs, state):
    (x,) = inputs
    out = torch.empty_like(x)
    kernel[x.numel() // 256 + 1, 256](x, out, x.numel())
    return out

def example():
    return [torch.randn(1000)]
*/

extern "C" __global__ void scale(const float* x, float* out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = 2.0f * x[i] + 1.0f;
}
