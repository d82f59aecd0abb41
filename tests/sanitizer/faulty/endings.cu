// Kernels that stop themselves, never stop, or fall off their stack.
// SPDX-License-Identifier: Apache-2.0
#include <cassert>

// run: 1 64 x=arange:i32[64] out=i32[64]
extern "C" __global__ void assertion_on_input(const int* x, int* out) {
  int v = x[threadIdx.x];
  assert(v < 60 MEND(+40));  // expect: assert
  out[threadIdx.x] = v;
}

// run: 2 32 x=arange:i32[64] out=i32[64] n=50
extern "C" __global__ void assertion_on_index(const int* x, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  MEND(if (i >= n) return;)
  assert(i < n && "index out of range");  // expect: assert
  out[i] = x[i];
}

// run: 1 64 x=arange:i32[64] out=i32[64]
extern "C" __global__ void trap_on_bad_value(const int* x, int* out) {
  if (x[threadIdx.x] == 40 MEND(+40)) {
    __trap();  // expect: trap
  }
  out[threadIdx.x] = x[threadIdx.x];
}

// run: 1 32 kind=arange:i32[32] out=i32[32]
extern "C" __global__ void trap_in_default_case(const int* kind, int* out) {
  switch (kind[threadIdx.x] MEND(&1)) {
    case 0: out[threadIdx.x] = 10; break;
    case 1: out[threadIdx.x] = 20; break;
    default: __trap();  // expect: trap
  }
}

// run: 1 32 max_instructions=200000 x=f32[32] out=f32[32]
extern "C" __global__ void newton_never_converges(const float* x, float* out) {
  float v = x[threadIdx.x] + 2, guess = 1;
  int steps = 0;
  while (fabsf(guess * guess - v) > BAD(-1.0f) MEND(1e-2f)) {  // expect: step-budget
    guess = 0.5f * (guess + v / guess);  // expect: step-budget
    MEND(if (++steps > 50) break;)
  }
  out[threadIdx.x] = guess;
}

// run: 1 32 max_instructions=200000 next=zero:i32[32] out=i32[32]
extern "C" __global__ void linked_list_with_a_cycle(const int* next, int* out) {
  int at = threadIdx.x, steps = 0;
  do {
    at = next[at];  // expect: step-budget
    ++steps;
  } while (at >= 0 MEND(&& steps < 8));  // expect: step-budget
  out[threadIdx.x] = steps;
}

// run: 1 32 max_instructions=200000 x=f32[64] out=f32[32] n=64
extern "C" __global__ void stride_of_zero(const float* x, float* out, int n) {
  int stride = n / BAD(100) MEND(16);
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += stride)  // expect: step-budget
    sum += ((volatile const float*)x)[i];  // expect: step-budget
  out[threadIdx.x] = sum;
}

__device__ __noinline__ int depth(int n, int* trail) {
  int kept[64];
  kept[n & 63] = n;
  trail[0] = kept[n & 63];
  if (n == 0) return 0;
  return depth(n - 1, trail) + kept[n & 63];  // expect: stack-overflow in recursion_without_end
}

// run: 1 32 trail=zero:i32[1] out=i32[32]
extern "C" __global__ void recursion_without_end(int* trail, int* out) {
  out[threadIdx.x] = depth(BAD(-1) MEND(threadIdx.x == 0 ? 2 : 0), MEND(threadIdx.x ? &out[threadIdx.x] :) trail);
}
