// vectorized: every access that can be 128 bits wide is.
//
// The one idea: move four words with one instruction, from and to global memory and out of shared
// memory. For B and C that is only a cast. For A it needs a transpose: the TM words that a thread
// wants at one p lie in one column of the tile, so the tile is kept with k as its slow index, and
// the four words of a float4 from global memory go to four different rows.
//
//      global A           a_tile (transposed)
//        p ->               row ->
//      r  xyzw            p x . . .       thread's a[0..TM) = consecutive words of row p
//      o  . . .             y . . .
//      w  . . .             z . . .
//                           w . . .
//
// Proposals of two worklogs are values here, and no part of the rung: MIN_BLOCKS holds the registers to what so many
// blocks an SM leave each thread, STAGED sends C through shared memory, and A_PAD are words that nobody uses at the end
// of each row of a_tile. Two lanes of a warp hold the halves of one row of A (BK = 8), and store to rows p and p + 4 of
// the tile: 4 * 128 words apart unpadded, which is one bank, and a 2-way conflict.
//
//     bank of [p][row]       BM = 128     row 0 .. 15        BM + 4 = 132    row 0 .. 15
//         p = 0              0            0 .. 15            0               0 .. 15
//         p = 4              512 % 32     0 .. 15            528 % 32        16 .. 31
//
// 4 words, by which sgemm_cu pads its own tile of A, are a whole float4: every row still begins at a multiple of 16
// bytes, as the 128-bit reads want. 1 word, as the profiling worklog proposes, moves the second of these rows by 4 banks
// only, and leaves ptxas to read A word by word. b_tile is written by explicit 128-bit accesses, which must stay
// aligned, and without conflicts: it is not padded.
//
// Template:  BM, BN, BK: the block's tile; TM, TN: a thread's patch of C; MIN_BLOCKS: how many blocks
//            shall fit on an SM, 0 for no wish; STAGED: C in whole rows (include/store_stage.cuh);
//            A_PAD: unused words at the end of each row of a_tile.
// Launch:    (BM / TM) * (BN / TN) threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  m, n, k multiples of BM, BN, BK; lda, ldb, ldc multiples of 4; A, B, C 16-byte
//            aligned.
// Source:    boehm_sgemm, Kernel 6; the values: the profiling worklog, Head-to-Head Summary and Key
//            Takeaways, and sgemm_cu, section 5.1.
// Run:       make try KERNEL=sgemm_vectorized

#include "include/epilogue.cuh"
#include "include/store_stage.cuh"

template <int BM, int BN, int BK, int TM, int TN, int MIN_BLOCKS, bool STAGED, int A_PAD>
__global__ void __launch_bounds__(BM * BN / (TM * TN), MIN_BLOCKS)
sgemm_vectorized(int m, int n, int k, float alpha, const float* A, int lda, const float* B, int ldb,
                 float beta, float* C, int ldc) {
    if (alpha == 0.0f) k = 0;  // BLAS reads neither A nor B then

    constexpr int THREADS = BM * BN / (TM * TN);
    constexpr int A_ROWS = THREADS / (BK / 4);  // rows of the tile of A copied in one pass
    constexpr int B_ROWS = THREADS / (BN / 4);
    static_assert(THREADS % (BK / 4) == 0 && THREADS % (BN / 4) == 0, "a pass copies whole rows");
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "the last pass is a full one");
    static_assert(TM % 4 == 0 && TN % 4 == 0, "patches made of float4");

    __shared__ alignas(16) float a_tile[BK][BM + A_PAD];  // transposed
    __shared__ alignas(16) float b_tile[BK][BN];

    // The four words that this thread copies (in the first pass).
    const unsigned load_a_row = threadIdx.x / (BK / 4);
    const unsigned load_a_col = threadIdx.x % (BK / 4) * 4;
    const unsigned load_b_row = threadIdx.x / (BN / 4);
    const unsigned load_b_col = threadIdx.x % (BN / 4) * 4;

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
            const float4 v =
                *reinterpret_cast<const float4*>(&A[(load_a_row + i) * lda + load_a_col]);
            a_tile[load_a_col + 0][load_a_row + i] = v.x;
            a_tile[load_a_col + 1][load_a_row + i] = v.y;
            a_tile[load_a_col + 2][load_a_row + i] = v.z;
            a_tile[load_a_col + 3][load_a_row + i] = v.w;
        }
        for (int i = 0; i < BK; i += B_ROWS) {
            const float4 v =
                *reinterpret_cast<const float4*>(&B[(load_b_row + i) * ldb + load_b_col]);
            *reinterpret_cast<float4*>(&b_tile[load_b_row + i][load_b_col]) = v;
        }
        A += BK;
        B += BK * ldb;
        __syncthreads();

        for (int p = 0; p < BK; ++p) {
            // The words of A are consecutive now, like those of B: nvcc makes LDS.128 of both.
            for (int i = 0; i < TM; ++i) a[i] = a_tile[p][row + i];
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
        store_staged<BM, BN, true>(sum, alpha, beta, C, ldc);
    } else {
        for (int i = 0; i < TM; ++i) {
            for (int j = 0; j < TN; j += 4) {
                update_c4(&C[(row + i) * ldc + col + j], alpha, &sum[i][j], beta);
            }
        }
    }
}
