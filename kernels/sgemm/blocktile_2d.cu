// blocktile_2d: a thread computes a patch of TM x TN elements of C.
//
// The one idea: reuse in both directions. For each p a thread reads TM words of A and TN words of B
// into registers and forms their outer product: TM * TN multiply-adds for TM + TN reads, where
// `blocktile_1d` needs TM + 1 reads for TM.
//
//                   BN
//              +----------+  BK          THREADS = (BM / TM) * (BN / TN), so a tile of A or B
//              |   bbbb   |              is now larger than the block: it is copied in several
//              +----------+              passes, whole rows at a time.
//         BK   +----------+
//        +--+  |          |
//        |a |  |   cccc   |  \ TM
//    BM  |a |  |   cccc   |  /
//        |  |  |    TN    |
//        +--+  +----------+
//
// Two proposals of the profiling worklog are values here, and no part of the rung: MIN_BLOCKS holds the registers to
// what so many blocks an SM leave each thread, and STAGED sends C through shared memory.
//
// Template:  BM, BN, BK: the block's tile; TM, TN: a thread's patch of C; MIN_BLOCKS: how many blocks
//            shall fit on an SM, 0 for no wish; STAGED: C in whole rows (include/store_stage.cuh).
// Launch:    (BM / TM) * (BN / TN) threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  m, n, k multiples of BM, BN, BK.
// Source:    boehm_sgemm, Kernel 5; the values: the profiling worklog, Head-to-Head Summary and Key Takeaways.

#include "include/epilogue.cuh"
#include "include/store_stage.cuh"

template <int BM, int BN, int BK, int TM, int TN, int MIN_BLOCKS, bool STAGED>
__global__ void __launch_bounds__(BM * BN / (TM * TN), MIN_BLOCKS)
sgemm_blocktile_2d(int m, int n, int k, float alpha, const float* A, int lda, const float* B,
                   int ldb, float beta, float* C, int ldc) {
    if (alpha == 0.0f) k = 0;  // BLAS reads neither A nor B then

    constexpr int THREADS = BM * BN / (TM * TN);
    constexpr int A_ROWS = THREADS / BK;  // rows of the tile of A copied in one pass
    constexpr int B_ROWS = THREADS / BN;
    static_assert(THREADS % BK == 0 && THREADS % BN == 0, "a pass copies whole rows");
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "the last pass is a full one");

    __shared__ alignas(16) float a_tile[BM][BK];  // aligned, so that ptxas may merge neighbours' reads
    __shared__ alignas(16) float b_tile[BK][BN];

    // The words that this thread copies (in the first pass).
    const unsigned load_a_row = threadIdx.x / BK;
    const unsigned load_a_col = threadIdx.x % BK;
    const unsigned load_b_row = threadIdx.x / BN;
    const unsigned load_b_col = threadIdx.x % BN;

    // The upper left corner of its patch in the tile of C.
    const int row = threadIdx.x / (BN / TN) * TM;
    const int col = threadIdx.x % (BN / TN) * TN;

    // From here on A, B and C are the block's own.
    A += blockIdx.y * BM * lda;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * ldc + blockIdx.x * BN;

    float sum[TM][TN] = {};
    float a[TM], b[TN];
    for (int k0 = 0; k0 < k; k0 += BK) {
        for (int i = 0; i < BM; i += A_ROWS) {
            a_tile[load_a_row + i][load_a_col] = A[(load_a_row + i) * lda + load_a_col];
        }
        for (int i = 0; i < BK; i += B_ROWS) {
            b_tile[load_b_row + i][load_b_col] = B[(load_b_row + i) * ldb + load_b_col];
        }
        A += BK;
        B += BK * ldb;
        __syncthreads();

        for (int p = 0; p < BK; ++p) {
            for (int i = 0; i < TM; ++i) a[i] = a_tile[row + i][p];
            for (int j = 0; j < TN; ++j) b[j] = b_tile[p][col + j];
            for (int i = 0; i < TM; ++i) {
                for (int j = 0; j < TN; ++j) {
                    sum[i][j] += a[i] * b[j];
                }
            }
        }
        __syncthreads();
    }

    if constexpr (STAGED) {
        store_staged<BM, BN, false>(sum, alpha, beta, C, ldc);
    } else {
        for (int i = 0; i < TM; ++i) {
            for (int j = 0; j < TN; ++j) {
                update_c(&C[(row + i) * ldc + col + j], alpha, sum[i][j], beta);
            }
        }
    }
}
