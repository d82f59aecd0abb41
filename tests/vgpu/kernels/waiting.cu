// Kernels whose threads wait for each other.
// run: pytest tests/vgpu/test_progress.py

extern "C" __global__ void producer_consumer(int* out, volatile int* flags, volatile int* box) {
  int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    for (int i = 0; i < 8; i++) {
      while (flags[0] != i) {}
      box[lane] = 10 * i + lane;
      __threadfence();
      __syncwarp();
      if (lane == 0) flags[1] = i + 1;
    }
  } else {
    int sum = 0;
    for (int i = 0; i < 8; i++) {
      while (flags[1] != i + 1) {}
      sum += box[lane];
      __threadfence();
      __syncwarp();
      if (lane == 0) flags[0] = i + 1;
    }
    out[lane] = sum;
  }
}

extern "C" __global__ void look_back(const int* values, int* out, volatile int* state) {
  if (threadIdx.x) return;
  int b = blockIdx.x, before = 0;
  if (b) {
    while (state[2 * (b - 1)] == 0) {}
    before = state[2 * (b - 1) + 1];
  }
  out[b] = before + values[b];
  state[2 * b + 1] = before + values[b];
  __threadfence();
  state[2 * b] = 1;
}

extern "C" __global__ void grid_barrier(int* out, int* count) {
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(&count[0], blockIdx.x);
    __threadfence();
    atomicAdd(&count[1], 1);
    while (atomicAdd(&count[1], 0) < (int)gridDim.x) {}
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = *(volatile int*)count;
}

extern "C" __global__ void lane_relay(int* out, volatile int* turn) {
  while (*turn != threadIdx.x) {}
  out[threadIdx.x] = *turn;
  *turn = threadIdx.x + 1;
}

extern "C" __global__ void traps(int n) { if (threadIdx.x == n) __trap(); }

__device__ __noinline__ int dig(int* out, int depth) {
  out[threadIdx.x] = depth;
  return depth < 0 ? 0 : dig(out, depth + 1) + dig(out, depth + 2);
}

extern "C" __global__ void bottomless(int* out) { out[threadIdx.x] += dig(out, 0); }

extern "C" __global__ void leave_then_shuffle(int* out, int n) {
  int lane = threadIdx.x;
  if (lane >= n) { __nanosleep(10); return; }
  int sum = lane;
  for (int d = 16; d; d >>= 1) {
    int other = __shfl_down_sync(~0u, sum, d);
    if (lane + d < n) sum += other;
  }
  out[lane] = __shfl_sync(~0u, sum, 0);
}
