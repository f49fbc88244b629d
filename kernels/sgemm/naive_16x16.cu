// naive_16x16: one thread computes one element of C, a block 16 x 16 of them.
//
// Where wingedge_sgemm starts. A warp lies along the rows of C, as in `coalesced`, but a block is only 16
// columns wide, so a warp has two rows of 16: at each step it asks for two words of A and 64
// consecutive bytes of B, two sectors, where a warp along one row asks for one word and four.
//
//     lane   0  1  2 ..  15      row r        grid x runs over columns here, so that blocks that run
//           16 17 18 ..  31      row r + 1    together share rows of A
//
// Template:  BLOCK: a thread block covers BLOCK x BLOCK elements of C.
// Launch:    BLOCK * BLOCK threads (1-D); grid x over columns of C, y over rows.
// Requires:  nothing; any m, n, k and leading dimension.
// Source:    wingedge_sgemm, section 1, sgemm_naive.
// Run:       make try KERNEL=sgemm_naive_16x16

#include "include/epilogue.cuh"

template <int BLOCK>
__global__ void sgemm_naive_16x16(int m, int n, int k, float alpha, const float* A, int lda,
                                  const float* B, int ldb, float beta, float* C, int ldc) {
    if (alpha == 0.0f) k = 0;  // BLAS reads neither A nor B then

    const int row = blockIdx.y * BLOCK + threadIdx.x / BLOCK;
    const int col = blockIdx.x * BLOCK + threadIdx.x % BLOCK;
    if (row >= m || col >= n) return;

    float sum = 0.0f;
    for (int p = 0; p < k; ++p) {
        sum += A[row * lda + p] * B[p * ldb + col];
    }
    update_c(&C[row * ldc + col], alpha, sum, beta);
}
