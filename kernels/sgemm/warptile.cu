// warptile: a level of tiling between the block and the thread.
//
// The one idea: give each warp one compact WM x WN part of the block's tile, instead of whatever
// its 32 threads happen to cover. The part is computed as WMITER x WNITER subtiles; in each subtile
// the 32 lanes form a small grid of TM x TN patches. The lanes of a warp then share most of the
// words that they read from shared memory, and a thread has WMITER * WNITER patches, whose outer
// products share their operands: with the sizes drawn here (128, 128, 16, 64, 64, 4, 8, 4) 128
// multiply-adds for 24 words of shared memory, where `vectorized` has 64 for 16.
//
//     block tile, 128 x 128     warp tile, 64 x 64            subtile, 64 x 16
//     +--------+--------+       +----+----+----+----+         +----+----+----+----+
//     | warp 0 | warp 1 |       |    |    |    |    |         | t0 | t1 | t2 | t3 |  cell: TM x TN
//     +--------+--------+       | 0  | 1  | 2  | 3  |         | t4 | t5 | t6 | t7 |
//     | warp 2 | warp 3 |       |    |    |    |    |         | .. |    |    |    |
//     +--------+--------+       +----+----+----+----+         | 28 | 29 | 30 | 31 |
//                               WMITER = 1, WNITER = 4        +----+----+----+----+
//
// Template:  BM, BN, BK: the block's tile; WM, WN: a warp's part of it; WNITER: subtiles along n
//            (along m they follow); TM, TN: a thread's patch in a subtile; THREADS.
// Launch:    THREADS threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  m, n, k multiples of BM, BN, BK; lda, ldb, ldc multiples of 4; A, B, C 16-byte
//            aligned.
// Source:    boehm_sgemm, Kernel 10.
// Run:       make try KERNEL=sgemm_warptile

#include "include/epilogue.cuh"

template <int BM, int BN, int BK, int WM, int WN, int WNITER, int TM, int TN, int THREADS>
__global__ void __launch_bounds__(THREADS)
sgemm_warptile(int m, int n, int k, float alpha, const float* A, int lda, const float* B, int ldb,
               float beta, float* C, int ldc) {
    if (alpha == 0.0f) k = 0;  // BLAS reads neither A nor B then

    constexpr int WMITER = WM * WN / (32 * TM * TN * WNITER);
    constexpr int SUB_M = WM / WMITER;
    constexpr int SUB_N = WN / WNITER;
    static_assert(BM / WM * (BN / WN) * 32 == THREADS, "the warps cover the block's tile");
    static_assert(SUB_M / TM * (SUB_N / TN) == 32, "the lanes cover a subtile");
    constexpr int A_ROWS = THREADS / (BK / 4);  // rows of the tile of A copied in one pass
    constexpr int B_ROWS = THREADS / (BN / 4);
    static_assert(THREADS % (BK / 4) == 0 && THREADS % (BN / 4) == 0, "a pass copies whole rows");
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "the last pass is a full one");
    static_assert(TM % 4 == 0 && TN % 4 == 0, "patches made of float4");

    __shared__ alignas(16) float a_tile[BK][BM];  // transposed
    __shared__ alignas(16) float b_tile[BK][BN];

    // The four words that this thread copies (in the first pass).
    const unsigned load_a_row = threadIdx.x / (BK / 4);
    const unsigned load_a_col = threadIdx.x % (BK / 4) * 4;
    const unsigned load_b_row = threadIdx.x / (BN / 4);
    const unsigned load_b_col = threadIdx.x % (BN / 4) * 4;

    // The upper left corner of its patch in the warp's first subtile.
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int row = warp / (BN / WN) * WM + lane / (SUB_N / TN) * TM;
    const int col = warp % (BN / WN) * WN + lane % (SUB_N / TN) * TN;

    // From here on A, B and C are the block's own.
    A += blockIdx.y * BM * lda;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * ldc + blockIdx.x * BN;

    float sum[WMITER][WNITER][TM][TN] = {};
    float a[WMITER][TM], b[WNITER][TN];
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
            #pragma unroll
            for (int si = 0; si < WMITER; ++si) {
                for (int i = 0; i < TM; ++i) a[si][i] = a_tile[p][row + si * SUB_M + i];
            }
            #pragma unroll
            for (int sj = 0; sj < WNITER; ++sj) {
                for (int j = 0; j < TN; ++j) b[sj][j] = b_tile[p][col + sj * SUB_N + j];
            }
            #pragma unroll
            for (int si = 0; si < WMITER; ++si) {
                #pragma unroll
                for (int sj = 0; sj < WNITER; ++sj) {
                    for (int i = 0; i < TM; ++i) {
                        for (int j = 0; j < TN; ++j) {
                            sum[si][sj][i][j] += a[si][i] * b[sj][j];
                        }
                    }
                }
            }
        }
        __syncthreads();
    }

    #pragma unroll
    for (int si = 0; si < WMITER; ++si) {
        #pragma unroll
        for (int sj = 0; sj < WNITER; ++sj) {
            for (int i = 0; i < TM; ++i) {
                for (int j = 0; j < TN; j += 4) {
                    update_c4(&C[(row + si * SUB_M + i) * ldc + col + sj * SUB_N + j], alpha,
                              &sum[si][sj][i][j], beta);
                }
            }
        }
    }
}
