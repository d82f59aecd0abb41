// 2 x + 1 with the guard off by one: see README.md
// reference: task.py   run: warpsmith check examples/out_of_bounds/task.py examples/out_of_bounds/scale.cu
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
    if (i <= count) out[i] = 2.0f * x[i] + 1.0f;  // should be i < count
}
