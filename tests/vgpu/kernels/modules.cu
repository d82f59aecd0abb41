// Language features of modules: vtables, tables of functions, addresses in initializers, structs by
// value, recursion, alloca, printf, clocks, barrier reductions, the device heap, jump tables.
// run: pytest tests/vgpu/test_modules.py
__device__ __forceinline__ void* taken(unsigned long long bytes) {   // NVRTC has no alloca()
  void* p;
  asm volatile("alloca.u64 %0, %1, 16;\n cvta.local.u64 %0, %0;" : "=l"(p) : "l"(bytes));
  return p;
}
struct Base { __device__ virtual float f(float x) const { return x; } __device__ virtual ~Base() {} };
struct A : Base { float k; __device__ A(float k) : k(k) {} __device__ float f(float x) const override { return k * x; } };
struct B : Base { __device__ float f(float x) const override { return x + 1; } };
struct Big { int v[6]; double d; };
__device__ __noinline__ Big make(Big a, int i) { a.v[i % 6] += i; a.d *= 2; return a; }
typedef int (*Op)(int, int);
__device__ int addi(int a, int b) { return a + b; }
__device__ int subi(int a, int b) { return a - b; }
__device__ int muli(int a, int b) { return a * b; }
__device__ Op table[3] = {addi, subi, muli};
__constant__ Op ctable[2] = {muli, addi};
__device__ int target[4] = {1, 2, 3, 4};
__device__ int* pointer = &target[2];
__constant__ const char* names[2] = {"alpha", "beta"};
extern "C" __global__ void virtuals(float* out, int n) {
  int i = threadIdx.x; if (i >= n) return;
  Base* b = i % 2 ? (Base*)new A(i) : (Base*)new B();
  out[i] = b->f(10.0f);
  delete b;
}
extern "C" __global__ void pointers(int* out) {
  int i = threadIdx.x;
  out[i] = table[i % 3](i, 5) + ctable[i % 2](i, 3) + *pointer + pointer[1];
}
extern "C" __global__ void structs(int* out, double* dout) {
  Big b; for (int k = 0; k < 6; k++) b.v[k] = k; b.d = threadIdx.x;
  b = make(b, threadIdx.x);
  int s = 0; for (int k = 0; k < 6; k++) s += b.v[k];
  out[threadIdx.x] = s; dout[threadIdx.x] = b.d;
}
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
extern "C" __global__ void recursion(int* out) { out[threadIdx.x] = fib(threadIdx.x % 12); }
extern "C" __global__ void allocas(int* out) {
  int n = threadIdx.x % 7 + 1;
  int* p = (int*)taken(n * sizeof(int));
  for (int i = 0; i < n; i++) p[i] = i * n;
  int s = 0; for (int i = 0; i < n; i++) s += p[i];
  out[threadIdx.x] = s;
}
extern "C" __global__ void print() {
  printf("%s %5d|%-6u|%x %o %c %%\n", names[threadIdx.x % 2], -7, 42u, 255, 8, 'q');
  printf("%f %10.3f %e %g %s %p %lld %llu %hhd %ld\n", 1.5, 3.14159, 1e10, 0.1, "str", (void*)16, -1ll, ~0ull, 300, 5l);
  printf("%*d|%.*f|%-*s|\n", 6, 42, 2, 2.71828, 8, "ab");
}
extern "C" __global__ void clocks(long long* out) {
  unsigned long long t0, t1; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t0));
  long long c = clock64(); for (int i = 0; i < 100; i++) __nanosleep(100);
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t1));
  out[0] = t1 - t0; out[1] = clock64() - c; out[2] = clock();
}
extern "C" __global__ void reduce(int* out, int* in) {
  int x = in[threadIdx.x];
  out[3 * threadIdx.x] = __syncthreads_count(x); out[3 * threadIdx.x + 1] = __syncthreads_and(x); out[3 * threadIdx.x + 2] = __syncthreads_or(x > 9);
}
extern "C" __global__ void heap(int* out, int n) {
  for (int k = 0; k < 200; k++) {
    int* p = (int*)malloc(10000 * sizeof(int)); if (!p) { out[threadIdx.x] = -1; return; }
    p[9999] = threadIdx.x; out[threadIdx.x] = p[9999]; free(p);
  }
}
__device__ int sw(int x) { switch (x) { case 0: return 5; case 1: return 17; case 2: return 3; case 3: return 99; case 4: return 1; case 5: return 1000; case 6: return 7; default: return -1; } }
extern "C" __global__ void switches(int* out) { out[threadIdx.x] = sw(threadIdx.x % 9); }
extern "C" __global__ void twice_freed(int) { void* p = malloc(16); free(p); free(p); }
extern "C" __global__ void never_allocated(int* out) { free(out); }
extern "C" __global__ void alloca_in_loop(int* out, int n) {
  int total = 0;
  for (int i = 0; i < n; i++) {
    int* p = (int*)taken((threadIdx.x % 3 + 1) * 64);
    p[0] = i; p[15] = threadIdx.x;
    total += p[0] + p[15];
  }
  out[threadIdx.x] = total;
}
