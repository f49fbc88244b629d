// coalesced: the warp lies along a row of C.
//
// The one idea: swap the two index expressions of `naive`. Neighbouring threads now take
// neighbouring COLUMNS of C, so a warp reads 128 consecutive bytes of B and writes 128 consecutive
// bytes of C (four full sectors each), and shares one word of A. Nothing else changes.
//
//      B   . . bbbb .         one warp, one step p of the dot product
//          A          C
//          . . . .    . . . .       a: A[row][p], one word for the whole warp
//          a . . .    . cccc        b: B[p][col...], 4 sectors
//          . . . .    . . . .       c: C[row][col...], 4 sectors
//
// Template:  BLOCK: a thread block covers BLOCK x BLOCK elements of C.
// Launch:    BLOCK * BLOCK threads (1-D); grid x over rows of C, y over columns.
// Requires:  nothing; any m, n, k and leading dimension.
// Source:    boehm_sgemm, Kernel 2.
// Run:       make try KERNEL=sgemm_coalesced

#include "include/epilogue.cuh"

template <int BLOCK>
__global__ void sgemm_coalesced(int m, int n, int k, float alpha, const float* A, int lda,
                                const float* B, int ldb, float beta, float* C, int ldc) {
    if (alpha == 0.0f) k = 0;  // BLAS reads neither A nor B then

    // The fast thread index runs along the columns.
    const int row = blockIdx.x * BLOCK + threadIdx.x / BLOCK;
    const int col = blockIdx.y * BLOCK + threadIdx.x % BLOCK;
    if (row >= m || col >= n) return;

    float sum = 0.0f;
    for (int p = 0; p < k; ++p) {
        sum += A[row * lda + p] * B[p * ldb + col];
    }
    update_c(&C[row * ldc + col], alpha, sum, beta);
}
