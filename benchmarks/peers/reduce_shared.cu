// Sums of 128 threads through shared memory, as Numba's simulator can run it too.
// run: benchmarks/vgpu_speed.py   the same in Numba: benchmarks/peers/numba_simulated.py
extern "C" __global__ void reduce_shared(const float* a, float* out, int n) {
  __shared__ float sums[128];
  int t = threadIdx.x;
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) sum += a[i];
  sums[t] = sum;
  __syncthreads();
  for (int d = 64; d; d >>= 1) {
    if (t < d) sums[t] += sums[t + d];
    __syncthreads();
  }
  if (t == 0) atomicAdd(out, sums[0]);
}
