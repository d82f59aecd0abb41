// x + tanh(x · scale), four elements a thread with 16-byte loads
// reference: residual_tanh.py   host: model_new.py
// run: warpsmith check examples/kernelbench_form/residual_tanh.py examples/kernelbench_form/model_new.py

__device__ float one(float x, float scale) { return x + tanhf(x * scale); }

// count elements and features columns, both in units of four
extern "C" __global__ void residual_tanh(
    const float4* x, const float4* scale, float4* out, int count, int features) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float4 v = x[i], s = scale[i % features];
    out[i] = make_float4(one(v.x, s.x), one(v.y, s.y), one(v.z, s.z), one(v.w, s.w));
}
