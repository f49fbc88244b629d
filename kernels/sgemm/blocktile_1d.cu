// blocktile_1d: a thread computes a column of TM elements of C.
//
// The one idea: in `smem_tile` each multiply-add costs two reads of shared memory. Here a thread
// keeps TM sums in registers, and one word of B serves all of them. The tiles of A and B become
// narrow (BK) so that a block can be large.
//
//                 BN
//              +------+  BK            thread = one column of TM elements:
//              |  b   |                   b is read once, and used TM times;
//              +------+                   the lanes of a warp share the words of A
//         BK   +------+                   and take consecutive words of B.
//        +--+  |      |
//        |a |  |  c   |  \ TM
//    BM  |a |  |  c   |  /
//        |  |  |      |
//        +--+  +------+
//
// Template:  BM, BN, BK: the block's tile; TM: elements of C a thread.
// Launch:    BM * BN / TM threads (1-D), which must equal BM * BK and BK * BN, for each thread
//            copies one word of A and one of B; grid x over tiles of n, y over tiles of m.
// Requires:  m, n, k multiples of BM, BN, BK.
// Source:    boehm_sgemm, Kernel 4.
// Run:       make try KERNEL=sgemm_blocktile_1d

#include "include/epilogue.cuh"

template <int BM, int BN, int BK, int TM>
__global__ void __launch_bounds__(BM * BN / TM)
sgemm_blocktile_1d(int m, int n, int k, float alpha, const float* A, int lda, const float* B,
                   int ldb, float beta, float* C, int ldc) {
    if (alpha == 0.0f) k = 0;  // BLAS reads neither A nor B then

    constexpr int THREADS = BM * BN / TM;
    static_assert(THREADS == BM * BK && THREADS == BK * BN, "one word of each tile a thread");

    __shared__ float a_tile[BM][BK];
    __shared__ float b_tile[BK][BN];

    // The words that this thread copies. (Unsigned, or nvcc 13.0 takes 49 registers instead of 39,
    // and two blocks instead of three fit an SM.)
    const unsigned load_a_row = threadIdx.x / BK;
    const unsigned load_a_col = threadIdx.x % BK;
    const unsigned load_b_row = threadIdx.x / BN;
    const unsigned load_b_col = threadIdx.x % BN;

    // The elements of the tile of C that it computes: rows row .. row + TM - 1 of one column.
    const int row = threadIdx.x / BN * TM;
    const int col = threadIdx.x % BN;

    // From here on A, B and C are the block's own.
    A += blockIdx.y * BM * lda;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * ldc + blockIdx.x * BN;

    float sum[TM] = {};
    for (int k0 = 0; k0 < k; k0 += BK) {
        a_tile[load_a_row][load_a_col] = A[load_a_row * lda + load_a_col];
        b_tile[load_b_row][load_b_col] = B[load_b_row * ldb + load_b_col];
        A += BK;
        B += BK * ldb;
        __syncthreads();

        for (int p = 0; p < BK; ++p) {
            const float b = b_tile[p][col];
            for (int i = 0; i < TM; ++i) {
                sum[i] += a_tile[row + i][p] * b;
            }
        }
        __syncthreads();
    }

    for (int i = 0; i < TM; ++i) {
        update_c(&C[(row + i) * ldc + col], alpha, sum[i], beta);
    }
}
