// naive: one thread computes one element of C, straight from global memory.
//
// The starting point. Neighbouring threads take neighbouring ROWS of C, which is what makes it
// slow: at each step of k the 32 lanes of a warp read 32 rows of A, lda floats apart, and each of
// these reads touches a 32-byte sector for 4 useful bytes. Their stores to C are as scattered.
//
//      B   . . b . .          one warp, one step p of the dot product
//          A                  C
//   lane 0 a . . . .   lane 0 c       a: A[row][p], 32 rows, 32 sectors
//   lane 1 a . . . .   lane 1 c       b: B[p][col], one word for the whole warp
//   lane 2 a . . . .   lane 2 c       c: C[row][col], 32 rows, 32 sectors
//
// Template:  BLOCK: a thread block covers BLOCK x BLOCK elements of C.
// Launch:    BLOCK * BLOCK threads (1-D); grid x over rows of C, y over columns.
// Requires:  nothing; any m, n, k and leading dimension.
// Source:    boehm_sgemm, Kernel 1.
// Run:       make try KERNEL=sgemm_naive

#include "include/epilogue.cuh"

template <int BLOCK>
__global__ void sgemm_naive(int m, int n, int k, float alpha, const float* A, int lda,
                            const float* B, int ldb, float beta, float* C, int ldc) {
    if (alpha == 0.0f) k = 0;  // BLAS reads neither A nor B then

    // The fast thread index runs down the rows.
    const int row = blockIdx.x * BLOCK + threadIdx.x % BLOCK;
    const int col = blockIdx.y * BLOCK + threadIdx.x / BLOCK;
    if (row >= m || col >= n) return;

    float sum = 0.0f;
    for (int p = 0; p < k; ++p) {
        sum += A[row * lda + p] * B[p * ldb + col];
    }
    update_c(&C[row * ldc + col], alpha, sum, beta);
}
