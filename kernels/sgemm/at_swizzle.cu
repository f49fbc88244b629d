// at_swizzle: the transposed tile of A is stored without bank conflicts.
//
// The one idea it adds to `at_tiling`: column r of tile row p is kept at column r ^ (p / 4 * 8).
// The four lanes of a warp that have one r differ in p / 4, so they hit four different groups of 8
// banks, and the 8 rows of A fill each group. p / 4 * 8 leaves bits 0-2 of r alone, so that the
// eight words from r (a multiple of 8) stay together, as the 128-bit reads want.
//
//     bank of lane (r, p / 4)    p/4=0   0  1  2  3  4  5  6  7      (unswizzled, all four
//     for r = 0 .. 7             p/4=1   8  9 10 11 12 13 14 15       would be 0 .. 7)
//                                p/4=2  16 17 18 19 20 21 22 23
//                                p/4=3  24 25 26 27 28 29 30 31
//
// Template:  BM, BN, BK: the block's tile; a thread has 8 x 8 elements of C; ORDER: of its
//            multiply-adds (include/outer_product.cuh); STORE_B: false stores B's first tile only,
//            which is wrong, for experiments/studies/inter_warp_conflicts alone.
// Launch:    BM * BN / 64 threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  m, n, k multiples of BM, BN, BK; lda, ldb, ldc multiples of 4; A, B, C 16-byte
//            aligned.
// Source:    wingedge_sgemm, section 4, sgemm_at_bcf_swizzling.
// Run:       make try KERNEL=sgemm_at_swizzle

#include "include/epilogue.cuh"
#include "include/outer_product.cuh"

template <int BM, int BN, int BK, Order ORDER, bool STORE_B = true>
__global__ void __launch_bounds__(BM * BN / 64)
sgemm_at_swizzle(int m, int n, int k, float alpha, const float* A, int lda, const float* B, int ldb,
                 float beta, float* C, int ldc) {
    if (alpha == 0.0f) k = 0;  // BLAS reads neither A nor B then

    constexpr int TM = 8, TN = 8;
    constexpr int WM = 64, WN = 32;
    constexpr int THREADS = BM * BN / (TM * TN);
    constexpr int A_ROWS = THREADS / (BK / 4);  // rows of the tile of A copied in one pass
    constexpr int B_ROWS = THREADS / (BN / 4);
    constexpr int A_PASSES = BM / A_ROWS;
    constexpr int B_PASSES = BK / B_ROWS;
    static_assert(THREADS % (BK / 4) == 0 && THREADS % (BN / 4) == 0, "a pass copies whole rows");
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "the last pass is a full one");
    static_assert(BK == 16, "the swizzle is made for four groups of four k");
    static_assert(BM % 32 == 0, "a swizzled column stays in its group of 32");
    static_assert(BM % WM == 0 && BN % WN == 0, "the warps cover the block's tile");

    __shared__ alignas(16) float a_tile[BK][BM];  // transposed and swizzled
    __shared__ alignas(16) float b_tile[BK][BN];

    // The four words that this thread copies (in the first pass).
    const int load_a_row = threadIdx.x / (BK / 4);
    const int load_a_col = threadIdx.x % (BK / 4) * 4;
    const int load_b_row = threadIdx.x / (BN / 4);
    const int load_b_col = threadIdx.x % (BN / 4) * 4;

    // The upper left corner of its patch.
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int row = warp / (BN / WN) * WM + lane / (WN / TN) * TM;
    const int col = warp % (BN / WN) * WN + lane % (WN / TN) * TN;

    A += (blockIdx.y * BM + load_a_row) * lda + load_a_col;
    B += load_b_row * ldb + blockIdx.x * BN + load_b_col;
    C += (blockIdx.y * BM + row) * ldc + blockIdx.x * BN + col;

    // The three stages of a step. First: from global memory to registers.
    float4 a_fetched[A_PASSES], b_fetched[B_PASSES];
    auto fetch = [&] {
#pragma unroll
        for (int i = 0; i < A_PASSES; ++i) {
            a_fetched[i] = *reinterpret_cast<const float4*>(&A[i * A_ROWS * lda]);
        }
#pragma unroll
        for (int i = 0; i < B_PASSES; ++i) {
            b_fetched[i] = *reinterpret_cast<const float4*>(&B[i * B_ROWS * ldb]);
        }
        A += BK;
        B += BK * ldb;
    };

    // Second: from registers to shared memory.
    auto stage = [&](bool store_b) {
#pragma unroll
        for (int i = 0; i < A_PASSES; ++i) {
            const int swizzled = (load_a_row + i * A_ROWS) ^ (load_a_col / 4 * 8);
            a_tile[load_a_col + 0][swizzled] = a_fetched[i].x;
            a_tile[load_a_col + 1][swizzled] = a_fetched[i].y;
            a_tile[load_a_col + 2][swizzled] = a_fetched[i].z;
            a_tile[load_a_col + 3][swizzled] = a_fetched[i].w;
        }
        if (!store_b) return;
#pragma unroll
        for (int i = 0; i < B_PASSES; ++i) {
            float* to = &b_tile[load_b_row + i * B_ROWS][load_b_col];
            *reinterpret_cast<float4*>(to) = b_fetched[i];
        }
    };

    // Third: BK outer products.
    float sum[TM][TN] = {};
    auto multiply = [&] {
#pragma unroll
        for (int p = 0; p < BK; ++p) {
            float a[TM], b[TN];
            const int swizzled = row ^ (p / 4 * 8);
#pragma unroll
            for (int i = 0; i < TM; i += 4) {
                *reinterpret_cast<float4*>(&a[i]) =
                    *reinterpret_cast<const float4*>(&a_tile[p][swizzled + i]);
            }
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                *reinterpret_cast<float4*>(&b[j]) =
                    *reinterpret_cast<const float4*>(&b_tile[p][col + j]);
            }
            add_outer_product<ORDER>(sum, a, b);
        }
    };

    for (int k0 = 0; k0 < k; k0 += BK) {
        fetch();
        stage(STORE_B || k0 == 0);
        __syncthreads();  // the tiles are complete
        multiply();
        __syncthreads();  // nobody needs the tiles any more
    }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            update_c4(&C[i * ldc + j], alpha, &sum[i][j], beta);
        }
    }
}
