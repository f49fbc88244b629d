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
// Proposals of the profiling worklog are values here, and no part of the rung: MIN_BLOCKS holds the registers to
// what so many blocks an SM leave each thread, STAGED sends C through shared memory, and A_PAD and B_PAD are words that
// nobody uses at the end of each row of a tile.
//
// A_PAD is meant against bank conflicts. A warp has two rows of patches, so it reads two words of A at one p, TM rows
// apart: 8 * 8 words unpadded, which is one bank. Copying a tile, it stores four such rows at once: 32 words in a run
// unpadded, and with three gaps padded, so that three of them fall on banks that others use.
//
//     bank of [row][p]       BK = 8     p          BK + 1 = 9    p
//         row 0              0          + p        0             + p
//         row 8              64 % 32    = 0        72 % 32       = 8
//
// B_PAD moves no word of a read to another bank, for all lanes of a warp read one row. But rows are no longer aligned
// to 16 bytes, and ptxas cannot merge a thread's reads along the row into 128-bit ones.
//
// Template:  BM, BN, BK: the block's tile; TM, TN: a thread's patch of C; MIN_BLOCKS: how many blocks
//            shall fit on an SM, 0 for no wish; STAGED: C in whole rows (include/store_stage.cuh);
//            A_PAD, B_PAD: unused words at the end of each row of a_tile and of b_tile.
// Launch:    (BM / TM) * (BN / TN) threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  m, n, k multiples of BM, BN, BK.
// Source:    boehm_sgemm, Kernel 5; the values: the profiling worklog, Memory Workload Analysis, Head-to-Head Summary
//            and Key Takeaways.
// Run:       make try KERNEL=sgemm_blocktile_2d

#include "include/epilogue.cuh"
#include "include/store_stage.cuh"

template <int BM, int BN, int BK, int TM, int TN, int MIN_BLOCKS, bool STAGED, int A_PAD, int B_PAD>
__global__ void __launch_bounds__(BM * BN / (TM * TN), MIN_BLOCKS)
sgemm_blocktile_2d(int m, int n, int k, float alpha, const float* A, int lda, const float* B,
                   int ldb, float beta, float* C, int ldc) {
    if (alpha == 0.0f) k = 0;  // BLAS reads neither A nor B then

    constexpr int THREADS = BM * BN / (TM * TN);
    constexpr int A_ROWS = THREADS / BK;  // rows of the tile of A copied in one pass
    constexpr int B_ROWS = THREADS / BN;
    static_assert(THREADS % BK == 0 && THREADS % BN == 0, "a pass copies whole rows");
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "the last pass is a full one");

    __shared__ alignas(16) float a_tile[BM][BK + A_PAD];  // aligned, so that ptxas may merge neighbours' reads
    __shared__ alignas(16) float b_tile[BK][BN + B_PAD];

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
