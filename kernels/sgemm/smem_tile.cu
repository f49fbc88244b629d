// smem_tile: a block stages its inputs in shared memory, one square tile at a time.
//
// The one idea: the BLOCK x BLOCK elements of C that a block computes need only a band of A and a
// band of B, and every word of these is used BLOCK times. So the block walks along k in steps of
// BLOCK, copies one tile of each into shared memory (one word of each per thread), and takes its
// products from there.
//
//                    B  +--+            Global reads a block: 2 * BLOCK * k words, BLOCK times
//                       |##| step 1     fewer than `coalesced` asks for.
//                       +--+
//                       |  | step 2
//        A              +--+
//        +--+--+--      +--+
//        |##|  |  ...   |C |
//        +--+--+--      +--+
//      step 1  2
//
// Template:  BLOCK: side of the tiles of A, B and C.
// Launch:    BLOCK * BLOCK threads (1-D); grid x over rows of C, y over columns.
// Requires:  m, n, k multiples of BLOCK.
// Source:    boehm_sgemm, Kernel 3.
// Run:       make try KERNEL=sgemm_smem_tile

#include "include/epilogue.cuh"

template <int BLOCK>
__global__ void sgemm_smem_tile(int m, int n, int k, float alpha, const float* A, int lda,
                                const float* B, int ldb, float beta, float* C, int ldc) {
    if (alpha == 0.0f) k = 0;  // BLAS reads neither A nor B then

    __shared__ float a_tile[BLOCK][BLOCK];
    __shared__ float b_tile[BLOCK][BLOCK];

    // Place in the tile: of the element of C, and of the words of A and B that this thread copies.
    const int row = threadIdx.x / BLOCK;
    const int col = threadIdx.x % BLOCK;

    // From here on A, B and C are the block's own.
    A += blockIdx.x * BLOCK * lda;
    B += blockIdx.y * BLOCK;
    C += blockIdx.x * BLOCK * ldc + blockIdx.y * BLOCK;

    float sum = 0.0f;
    for (int k0 = 0; k0 < k; k0 += BLOCK) {
        a_tile[row][col] = A[row * lda + col];
        b_tile[row][col] = B[row * ldb + col];
        A += BLOCK;
        B += BLOCK * ldb;
        __syncthreads();  // the tiles are complete

        for (int p = 0; p < BLOCK; ++p) {
            sum += a_tile[row][p] * b_tile[p][col];
        }
        __syncthreads();  // nobody needs the tiles any more
    }
    update_c(&C[row * ldc + col], alpha, sum, beta);
}
