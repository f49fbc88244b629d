// A plain GEMM with one fault at a time, for tests of the check: tests/test_gpu.py instantiates it once per fault.
//
// A block computes 64 x 64 elements of C, 4 x 4 a thread, from tiles of 64 x 16 and 16 x 64 in shared memory. The last
// warp is late with its part of the tiles, faulty or not: where a barrier is missing, the others read what was there
// before. Requires m, n multiples of 64 and k of 16; any leading dimension.

#include "include/epilogue.cuh"

enum Fault {
    NONE,
    DROPPED_PRODUCT,  // one product of one element
    DROPPED_STEP,     // the last 16 of k
    MISSING_BARRIER,  // between filling the tiles and reading them
    SWAPPED,          // two elements in each other's place
    WRONG_LD,         // rows of B taken to be ldc apart
    BETA_IGNORED,
    READS_C,  // computes 0 * C where beta = 0
    NOTHING_WRITTEN,
    ONE_NAN,
    WRITES_BEFORE,  // one element before C
    WRITES_BEHIND,  // one element behind the last row: between it and ldc, or behind C
    WRITES_INPUT,   // one element of A, by its own value with the sign changed
};

template <int FAULT>
__global__ void __launch_bounds__(256)
faulty_gemm(int m, int n, int k, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
            int ldc) {
    __shared__ float a_tile[64][16];
    __shared__ float b_tile[16][64];
    const int row = blockIdx.y * 64 + threadIdx.x / 16 * 4;
    const int col = blockIdx.x * 64 + threadIdx.x % 16 * 4;
    const bool first = row == 0 && col == 0;  // the thread that has C[0][0]
    const int stride_b = FAULT == WRONG_LD ? ldc : ldb;
    const int steps = alpha == 0.0f ? 0 : FAULT == DROPPED_STEP ? k - 16 : k;  // A and B are not read then

    float sum[4][4] = {};
    for (int k0 = 0; k0 < steps; k0 += 16) {
        if (threadIdx.x >= 224) __nanosleep(5000);
        for (int i = threadIdx.x; i < 64 * 16; i += 256) {
            a_tile[i / 16][i % 16] = A[(blockIdx.y * 64 + i / 16) * lda + k0 + i % 16];
            b_tile[i / 64][i % 64] = B[(k0 + i / 64) * stride_b + blockIdx.x * 64 + i % 64];
        }
        if (FAULT != MISSING_BARRIER) __syncthreads();
        for (int p = 0; p < 16; ++p) {
            for (int i = 0; i < 4; ++i) {
                for (int j = 0; j < 4; ++j) {
                    if (FAULT == DROPPED_PRODUCT && first && k0 + p == 5 && i + j == 0) continue;
                    sum[i][j] += a_tile[threadIdx.x / 16 * 4 + i][p] * b_tile[p][threadIdx.x % 16 * 4 + j];
                }
            }
        }
        __syncthreads();
    }

    if (FAULT == NOTHING_WRITTEN) return;
    if (FAULT == SWAPPED && first) {
        const float other = sum[0][0];
        sum[0][0] = sum[3][1];
        sum[3][1] = other;
    }
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
            float* c = &C[(row + i) * ldc + col + j];
            if (FAULT == READS_C) {
                *c = alpha * sum[i][j] + beta * *c;
            } else {
                update_c(c, alpha, sum[i][j], FAULT == BETA_IGNORED ? 0.0f : beta);
            }
        }
    }
    if (!first) return;
    if (FAULT == ONE_NAN) C[1] = __int_as_float(0x7fffffff);
    if (FAULT == WRITES_BEFORE) C[-1] = 0.0f;
    if (FAULT == WRITES_BEHIND) C[(m - 1) * ldc + n] = 0.0f;
    if (FAULT == WRITES_INPUT) const_cast<float*>(A)[0] = -A[0];
}
