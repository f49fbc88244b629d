// at_swizzle_dbf_rw: copy the next tiles while multiplying the present ones.
//
// The one idea it adds to `at_swizzle_rw`: two buffers. The next step's words are asked for from
// global memory before the present step is multiplied, wait in registers while it is, and go to the
// other buffer after it. Nobody reads that buffer meanwhile, so one barrier a step is enough.
//
// Timeline:  all         fetch 0, stage 0 | fetch 1   multiply 0   stage 1 | fetch 2   multiply 1   stage 2 | ...
//            buffer      0                |           0            1       |           1            0
//
// The words that wait take 16 registers. The text keeps the whole below 128, for with more only one block
// fits on an SM; here MIN_BLOCKS = 2 asks for that. nvcc 13.0 would keep to it by itself, with neither
// bounds (127) nor a number of blocks (126); with a bound of one block it takes 138, and for three,
// 80 of them, it must spill.
//
// Template:  BM, BN, BK: the block's tile; a thread has 8 x 8 elements of C; ORDER: of its
//            multiply-adds; MIN_BLOCKS: how many blocks shall fit on an SM.
// Launch:    BM * BN / 64 threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  m, n, k multiples of BM, BN, BK, and k not 0; lda, ldb, ldc multiples of 4; A, B, C
//            16-byte aligned.
// Source:    wingedge_sgemm, section 6, sgemm_at_bcf_swizzling_dbf_rw.
// Run:       make try KERNEL=sgemm_at_swizzle_dbf_rw

#include "include/epilogue.cuh"
#include "include/outer_product.cuh"

template <int BM, int BN, int BK, Order ORDER, int MIN_BLOCKS>
__global__ void __launch_bounds__(BM * BN / 64, MIN_BLOCKS)
sgemm_at_swizzle_dbf_rw(int m, int n, int k, float alpha, const float* A, int lda, const float* B,
                        int ldb, float beta, float* C, int ldc) {
    if (alpha == 0.0f) return scale_c<BM, BN>(blockIdx.y * BM, blockIdx.x * BN, m, n, beta, C, ldc);

    constexpr int TM = 8, TN = 8;
    constexpr int THREADS = BM * BN / (TM * TN);
    constexpr int A_ROWS = THREADS / (BK / 4);  // rows of the tile of A copied in one pass
    constexpr int B_ROWS = THREADS / (BN / 4);
    constexpr int A_PASSES = BM / A_ROWS;
    constexpr int B_PASSES = BK / B_ROWS;
    static_assert(THREADS % (BK / 4) == 0 && THREADS % (BN / 4) == 0, "a pass copies whole rows");
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "the last pass is a full one");
    static_assert(BK == 16, "the swizzle is made for four groups of four k");
    static_assert(BM % 32 == 0, "a swizzled column stays in its group of 32");

    __shared__ alignas(16) float a_tile[2][BK][BM];  // transposed and swizzled
    __shared__ alignas(16) float b_tile[2][BK][BN];

    // The four words that this thread copies (in the first pass).
    const int load_a_row = threadIdx.x / (BK / 4);
    const int load_a_col = threadIdx.x % (BK / 4) * 4;
    const int load_b_row = threadIdx.x / (BN / 4);
    const int load_b_col = threadIdx.x % (BN / 4) * 4;

    // The upper left corner of its patch, whose right half is BN / 2 further on.
    const int row = threadIdx.x / (BN / TN) * TM;
    const int col = threadIdx.x % (BN / TN) * 4;

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
    auto stage = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < A_PASSES; ++i) {
            const int swizzled = (load_a_row + i * A_ROWS) ^ (load_a_col / 4 * 8);
            a_tile[buffer][load_a_col + 0][swizzled] = a_fetched[i].x;
            a_tile[buffer][load_a_col + 1][swizzled] = a_fetched[i].y;
            a_tile[buffer][load_a_col + 2][swizzled] = a_fetched[i].z;
            a_tile[buffer][load_a_col + 3][swizzled] = a_fetched[i].w;
        }
#pragma unroll
        for (int i = 0; i < B_PASSES; ++i) {
            float* to = &b_tile[buffer][load_b_row + i * B_ROWS][load_b_col];
            *reinterpret_cast<float4*>(to) = b_fetched[i];
        }
    };

    // Third: BK outer products.
    float sum[TM][TN] = {};
    auto multiply = [&](int buffer) {
#pragma unroll
        for (int p = 0; p < BK; ++p) {
            float a[TM], b[TN];
            const int swizzled = row ^ (p / 4 * 8);
#pragma unroll
            for (int i = 0; i < TM; i += 4) {
                *reinterpret_cast<float4*>(&a[i]) =
                    *reinterpret_cast<const float4*>(&a_tile[buffer][p][swizzled + i]);
            }
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                *reinterpret_cast<float4*>(&b[j]) =
                    *reinterpret_cast<const float4*>(&b_tile[buffer][p][col + j / 4 * (BN / 2)]);
            }
            add_outer_product<ORDER>(sum, a, b);
        }
    };

    fetch();
    stage(0);
    __syncthreads();

    int buffer = 0;
    for (int k0 = BK; k0 < k; k0 += BK) {
        fetch();
        multiply(buffer);
        buffer ^= 1;
        stage(buffer);
        __syncthreads();  // the other buffer is complete, and nobody needs this one any more
    }
    multiply(buffer);

#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            update_c4(&C[i * ldc + j / 4 * (BN / 2)], alpha, &sum[i][j], beta);
        }
    }
}
