// at_tiling: the tile of A is transposed in shared memory.
//
// The one idea it adds to `tiling`: k is the slow index of the tile of A, too. The words that a
// thread wants at one p are then consecutive, so it reads four with one instruction, and those of
// a warp are in different banks.
//
//     global A            a_tile
//          p ->                row ->
//       r  xyzw             p  x . . .      thread's a[0 .. 7] = consecutive words of row p
//       o  . . .               y . . .
//       w  . . .               z . . .
//                              w . . .
//
// (nvcc 13.0 makes 128-bit reads of `tiling`'s, too: along p, for it unrolls that loop. So what
// this rung saves is not instructions but the 8-way conflict.)
//
// The price: the four words of a float4 go to four rows, a store each. A warp holds 8 rows x 16 k
// of A; the four lanes that have one row store to one bank, a 4-way conflict.
//
//     bank of [p][row] = (p * 128 + row) % 32
//     p =  0    0  1  2  3  4  5  6  7      one store of a warp: lane (row, p) for row = 0 .. 7
//     p =  4    0  1  2  3  4  5  6  7      and p = 0, 4, 8, 12; the banks 8 .. 31 are idle
//     p =  8    0  1  2  3  4  5  6  7
//     p = 12    0  1  2  3  4  5  6  7
//
// Template:  BM, BN, BK: the block's tile; a thread has 8 x 8 elements of C; ORDER: of its
//            multiply-adds (include/outer_product.cuh).
// Launch:    BM * BN / 64 threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  m, n, k multiples of BM, BN, BK; lda, ldb, ldc multiples of 4; A, B, C 16-byte
//            aligned.
// Source:    wingedge_sgemm, section 3, sgemm_at_tiling.
// Run:       make try KERNEL=sgemm_at_tiling

#include "include/epilogue.cuh"
#include "include/outer_product.cuh"

template <int BM, int BN, int BK, Order ORDER>
__global__ void __launch_bounds__(BM * BN / 64)
sgemm_at_tiling(int m, int n, int k, float alpha, const float* A, int lda, const float* B, int ldb,
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
    static_assert(BM % WM == 0 && BN % WN == 0, "the warps cover the block's tile");

    __shared__ alignas(16) float a_tile[BK][BM];  // transposed
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
    auto stage = [&] {
#pragma unroll
        for (int i = 0; i < A_PASSES; ++i) {
            const int to = load_a_row + i * A_ROWS;
            a_tile[load_a_col + 0][to] = a_fetched[i].x;
            a_tile[load_a_col + 1][to] = a_fetched[i].y;
            a_tile[load_a_col + 2][to] = a_fetched[i].z;
            a_tile[load_a_col + 3][to] = a_fetched[i].w;
        }
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
#pragma unroll
            for (int i = 0; i < TM; i += 4) {
                *reinterpret_cast<float4*>(&a[i]) =
                    *reinterpret_cast<const float4*>(&a_tile[p][row + i]);
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
        stage();
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
