// autotuned: the tile that measured best on an H100.
//
// The one idea: take the tile from a sweep instead of by judgement. The kernel is `vectorized`; only
// its copies are written for any tile, because a sweep also meets tiles that `vectorized` cannot take:
// blocks with more threads than one tile has float4s, and rows longer than a pass. The float4s of a
// tile are numbered row by row, and thread t copies those numbered t, t + THREADS, t + 2 * THREADS,
// ...; where the last pass is not a full one, the threads beyond its end copy nothing.
//
//      tile of A, BK = 8, seen as float4s      THREADS = 8: three passes, the last one half full
//         0  1                                     0  1  2  3  4  5  6  7     t copies t,
//         2  3                                     8  9 10 11 12 13 14 15     t + 8, and
//         4  5                                    16 17 18 19  .  .  .  .     t + 16 where t < 4
//         ...
//
// The sweep is experiments/tuning/tile_autotune.yaml. What keeps a tile out of it, and why, is said
// in experiments/tuning/space.py. The sweep prints its winner, which stands in the catalogue as
// template values.
//
// Template:  BM, BN, BK: the block's tile; TM, TN: a thread's patch of C.
// Launch:    (BM / TM) * (BN / TN) threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  m, n, k multiples of BM, BN, BK; lda, ldb, ldc multiples of 4; A, B, C 16-byte
//            aligned.
// Source:    boehm_sgemm, Kernel 9 (Autotuning).
// Run:       make try KERNEL=sgemm_autotuned

#include "include/epilogue.cuh"

template <int BM, int BN, int BK, int TM, int TN>
__global__ void __launch_bounds__(BM * BN / (TM * TN))
sgemm_autotuned(int m, int n, int k, float alpha, const float* A, int lda, const float* B, int ldb,
                float beta, float* C, int ldc) {
    constexpr int THREADS = BM * BN / (TM * TN);
    constexpr int A_FLOAT4S = BM * BK / 4;
    constexpr int B_FLOAT4S = BK * BN / 4;
    static_assert(BM % TM == 0 && BN % TN == 0, "the patches cover the block's tile");
    static_assert(THREADS % 32 == 0 && THREADS <= 1024, "a block of whole warps");
    static_assert(BK % 4 == 0 && TM % 4 == 0 && TN % 4 == 0, "rows and patches made of float4");

    __shared__ alignas(16) float a_tile[BK][BM];  // transposed
    __shared__ alignas(16) float b_tile[BK][BN];

    // The upper left corner of its patch in the tile of C.
    const int row = threadIdx.x / (BN / TN) * TM;
    const int col = threadIdx.x % (BN / TN) * TN;

    if (alpha == 0.0f) return scale_c<BM, BN>(blockIdx.y * BM, blockIdx.x * BN, m, n, beta, C, ldc);

    // From here on A, B and C are the block's own.
    A += blockIdx.y * BM * lda;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * ldc + blockIdx.x * BN;

    float sum[TM][TN] = {};
    float a[TM], b[TN];
    for (int k0 = 0; k0 < k; k0 += BK) {
        for (int first = 0; first < A_FLOAT4S; first += THREADS) {
            const unsigned i = first + threadIdx.x;
            if (A_FLOAT4S % THREADS != 0 && i >= A_FLOAT4S) break;
            const unsigned load_row = i / (BK / 4);
            const unsigned load_col = i % (BK / 4) * 4;
            const float4 v = *reinterpret_cast<const float4*>(&A[load_row * lda + load_col]);
            a_tile[load_col + 0][load_row] = v.x;
            a_tile[load_col + 1][load_row] = v.y;
            a_tile[load_col + 2][load_row] = v.z;
            a_tile[load_col + 3][load_row] = v.w;
        }
        for (int first = 0; first < B_FLOAT4S; first += THREADS) {
            const unsigned i = first + threadIdx.x;
            if (B_FLOAT4S % THREADS != 0 && i >= B_FLOAT4S) break;
            const unsigned load_row = i / (BN / 4);
            const unsigned load_col = i % (BN / 4) * 4;
            const float4 v = *reinterpret_cast<const float4*>(&B[load_row * ldb + load_col]);
            *reinterpret_cast<float4*>(&b_tile[load_row][load_col]) = v;
        }
        A += BK;
        B += BK * ldb;
        __syncthreads();

        for (int p = 0; p < BK; ++p) {
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

    for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; j += 4) {
            update_c4(&C[(row + i) * ldc + col + j], alpha, &sum[i][j], beta);
        }
    }
}
