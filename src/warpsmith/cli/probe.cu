// doctor's probe: does a CUDA kernel compile and run here?
// reference: out[i] = 2 * x[i] + 1   cases: one block of 64   run: warpsmith doctor
/* host.py
def run(inputs, state):
    (x,) = inputs
    out = torch.empty_like(x)
    kernel[1, 64](x, out)
    return out
*/
extern "C" __global__ void probe(const float* x, float* out) {
    out[threadIdx.x] = 2.0f * x[threadIdx.x] + 1.0f;
}
