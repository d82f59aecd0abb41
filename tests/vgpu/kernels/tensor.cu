// Tensor cores from CUDA C++: 1 nvcuda::wmma of every type · 2 ldmatrix, mma, stmatrix by hand
// reference: numpy products in test_launch_tensor.py
#include <mma.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
using namespace nvcuda;

// C = A B + C, one warp a tile; A row-major, B column-major
template <typename In, typename Frag, typename Out, int M, int N, int K>
__device__ void multiply(const In* a, const In* b, Out* c, int n, int k) {
    wmma::fragment<wmma::matrix_a, M, N, K, Frag, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, M, N, K, Frag, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, M, N, K, Out> sum;
    int row = blockIdx.y * M, column = blockIdx.x * N;
    wmma::load_matrix_sync(sum, c + row * n + column, n, wmma::mem_row_major);
    for (int i = 0; i < k; i += K) {
        wmma::load_matrix_sync(left, a + row * k + i, k);
        wmma::load_matrix_sync(right, b + column * k + i, k);
        wmma::mma_sync(sum, left, right, sum);
    }
    for (int i = 0; i < sum.num_elements; i++) sum.x[i] = sum.x[i] + sum.x[i];
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

#define KERNEL(NAME, IN, FRAG, OUT, M, N, K)                                                       \
    extern "C" __global__ void NAME(const IN* a, const IN* b, OUT* c, int n, int k) {              \
        multiply<IN, FRAG, OUT, M, N, K>(a, b, c, n, k);                                           \
    }
KERNEL(wmma_f16, half, half, float, 16, 16, 16)
KERNEL(wmma_f16_sums, half, half, half, 16, 16, 16)
KERNEL(wmma_tall, half, half, float, 32, 8, 16)
KERNEL(wmma_bf16, __nv_bfloat16, __nv_bfloat16, float, 16, 16, 16)
KERNEL(wmma_wide_bf16, __nv_bfloat16, __nv_bfloat16, float, 8, 32, 16)
KERNEL(wmma_tf32, float, wmma::precision::tf32, float, 16, 16, 8)
KERNEL(wmma_s8, signed char, signed char, int, 16, 16, 16)
KERNEL(wmma_f64, double, double, double, 8, 8, 4)

// One warp, 16 x 8 x 16 halves: D = A B through shared memory, and the transpose of its first 8 rows.
extern "C" __global__ void by_hand(const half* a, const half* b, half* d, half* turned) {
    __shared__ alignas(16) half left[16 * 16], right[16 * 8], out[16 * 8];
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) left[i] = a[i];
    for (int i = lane; i < 128; i += 32) right[i] = b[i];
    __syncwarp();
    unsigned x[4], y[2], z[2] = {0, 0}, t;
    unsigned at = __cvta_generic_to_shared(left + lane % 16 * 16 + lane / 16 * 8);
    unsigned bt = __cvta_generic_to_shared(right + lane % 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(y[0]), "=r"(y[1]) : "r"(bt));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
                 : "+r"(z[0]), "+r"(z[1])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(t) : "r"(z[0]));
    reinterpret_cast<unsigned*>(turned)[lane] = t;
    unsigned ot = __cvta_generic_to_shared(out + lane % 16 * 8);
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1,%2};" :: "r"(ot), "r"(z[0]), "r"(z[1]));
    __syncwarp();
    for (int i = lane; i < 128; i += 32) d[i] = out[i];
}
