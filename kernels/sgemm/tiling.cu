// tiling: a tile of C per block, a part of it per warp, a patch of it per thread.
//
// Where wingedge_sgemm starts. A block of 8 warps computes a 128 x 128 tile of C and walks along k in
// steps of 16; a warp has a 64 x 32 part of the tile, a thread 8 x 8 elements of that. All accesses
// to global memory are 128 bits wide, and each word read from shared memory serves 8 multiply-adds.
//
//     block tile, 128 x 128                warp's part, 64 x 32
//     +------+------+------+------+        +----+----+----+----+
//     |  w0  |  w1  |  w2  |  w3  |        | t0 | t1 | t2 | t3 |  cell: 8 x 8
//     |      |      |      |      |        +----+----+----+----+
//     +------+------+------+------+        | t4 | t5 | t6 | t7 |
//     |  w4  |  w5  |  w6  |  w7  |        | .. |    |    |    |
//     |      |      |      |      |        | 28 | 29 | 30 | 31 |
//     +------+------+------+------+        +----+----+----+----+
//
// What holds it back is the tile of A, which lies as A does. The words that a warp reads of it at
// one p are in 8 rows, 8 x 16 words apart, so they are all in one bank: an 8-way conflict.
//
//     a_tile        p ->
//     row  0        t0  .. t3             bank of [row][p] = (row * 16 + p) % 32
//     row  8        t4  .. t7                              = p for all 8 rows
//     ...
//     row 56        t28 .. t31
//
// Template:  BM, BN, BK: the block's tile; a thread has 8 x 8 elements of C; ORDER: of its
//            multiply-adds (include/outer_product.cuh).
// Launch:    BM * BN / 64 threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  m, n, k multiples of BM, BN, BK; lda, ldb, ldc multiples of 4; A, B, C 16-byte
//            aligned.
// Source:    wingedge_sgemm, section 2, sgemm_tiling.
// Run:       make try KERNEL=sgemm_tiling

#include "include/epilogue.cuh"
#include "include/outer_product.cuh"

template <int BM, int BN, int BK, Order ORDER>
__global__ void __launch_bounds__(BM * BN / 64)
sgemm_tiling(int m, int n, int k, float alpha, const float* A, int lda, const float* B, int ldb,
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

    __shared__ alignas(16) float a_tile[BM][BK];
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
            float* to = &a_tile[load_a_row + i * A_ROWS][load_a_col];
            *reinterpret_cast<float4*>(to) = a_fetched[i];
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
            for (int i = 0; i < TM; ++i) {
                a[i] = a_tile[row + i][p];
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
