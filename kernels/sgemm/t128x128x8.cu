// t128x128x8: the design of CUTLASS's SGEMM, for any problem.
//
// A block computes 128 x 128 elements of C in steps of 8 along k, a warp 32 x 64 of them, a thread
// 8 x 8 in four patches of 4 x 4. Everything that can wait is asked for early:
//
//     global memory --> registers --> shared memory --> fragments --> sums
//                 a step ahead,     two buffers     two sets, one
//                 8 words each                      p ahead
//
// - A is transposed on its way into shared memory. A thread fetches one column of four rows, so it
//   stores a float4; rows of 128 + 4 words put the eight lanes that store together on all 32 banks.
// - The two buffers lie SLOT bytes apart, a power of two: one XOR of an address changes over.
// - The sums go through shared memory to C, so that a warp writes whole lines. `t128x128x8_direct` has
//   this taken away and nothing else, to measure what it gives.
// - Any size: rows of A beyond the last are read from the last row, and never stored; columns of B
//   beyond the last are not read. What lies beyond the end of k counts, and must be zero in both.
//   So k runs backwards: only the first step can have such a rest, and the loop need not know.
//
// The text leaves open in what order a step's multiply-adds come; here it is the snake of
// include/outer_product.cuh, as in all of sgemm_cu's kernels.
//
// Template:  BM, BN, BK: the block's tile; REARRANGE: whether C goes through shared memory.
// Launch:    256 threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  nothing; any m, n, k and leading dimension.
// Source:    sgemm_cu, section 5; without the rearrangement, section 5.3.
// Run:       make try KERNEL=sgemm_t128x128x8

#include "include/ptx.cuh"
#include "include/warp_tile.cuh"

template <int BM, int BN, int BK, bool REARRANGE>
__global__ void __launch_bounds__(256, 2)
sgemm_t128x128x8(int m, int n, int k, float alpha, const float* A, int lda, const float* B, int ldb,
                 float beta, float* C, int ldc) {
    if (alpha == 0.0f) return scale_c<BM, BN>(blockIdx.y * BM, blockIdx.x * BN, m, n, beta, C, ldc);

    constexpr int TM = 8, TN = 8, LANES_M = 4, LANES_N = 8;
    constexpr int WM = TM * LANES_M, WN = TN * LANES_N;
    constexpr int A_LD = BM + 4;
    constexpr uint32_t SLOT = 16384, A_BYTES = BK * A_LD * sizeof(float);  // a slot has A, then B
    static_assert(BM == 128 && BN == 128 && BK == 8, "256 threads copy four words of each");
    // From sm_90 on a block's memory begins 1 KB into the window, whatever alignment is asked for.
    static_assert(A_BYTES + BK * BN * sizeof(float) + 1024 <= SLOT, "an XOR moves by one slot");

    __shared__ alignas(SLOT) float tiles[2 * SLOT / sizeof(float)];
    const uint32_t shared = ptx::shared_address(tiles);

    // The words that this thread copies: a column of four rows of A, and a word of B every 32.
    const int load_a_row = threadIdx.x / BK * 4;
    const int load_a_col = threadIdx.x % BK;
    const int load_b_row = threadIdx.x / 32;
    const int load_b_col = threadIdx.x % 32;
    uint32_t a_store = shared + (load_a_col * A_LD + load_a_row) * 4;
    uint32_t b_store = shared + A_BYTES + (load_b_row * BN + load_b_col) * 4;

    // `A` and `B` move from step to step, beginning with the last.
    const int last = (k - 1) / BK * BK;
    unsigned a_at[4];
    bool b_inside[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = blockIdx.y * BM + load_a_row + i;
        a_at[i] = min(row, m - 1) * lda + load_a_col;
        b_inside[i] = static_cast<int>(blockIdx.x * BN + load_b_col + i * 32) < n;
    }
    A += last;
    B += static_cast<int64_t>(last + load_b_row) * ldb + blockIdx.x * BN + load_b_col;
    const int64_t b_step = static_cast<int64_t>(BK) * ldb;

    // The upper left corner of the warp's tile, and what this thread reads for its own patches.
    const int warp_row = threadIdx.x / 32 / (BN / WN) * WM;
    const int warp_col = threadIdx.x / 32 % (BN / WN) * WN;
    const Lane<LANES_N> lane;
    uint32_t a_load = shared + (warp_row + lane.row * 4) * 4;
    uint32_t b_load = shared + A_BYTES + (warp_col + lane.col * 4) * 4;

    // The three stages of a step. First: from global memory to registers, where `counts(p)`.
    float a_next[4], b_next[4];
    auto fetch = [&](auto counts) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            a_next[i] = ptx::load_global(A + a_at[i], counts(load_a_col));
            b_next[i] = ptx::load_global(B + i * 32, counts(load_b_row) && b_inside[i]);
        }
    };
    // Second: from registers to shared memory.
    auto stage = [&] {
        ptx::store_shared_4(a_store, make_float4(a_next[0], a_next[1], a_next[2], a_next[3]));
#pragma unroll
        for (int i = 0; i < 4; ++i) ptx::store_shared(b_store + i * 32 * 4, b_next[i]);
    };
    // Third: to fragments, for the outer product of step p.
    float a[2][TM], b[2][TN];
    auto load = [&](int p) {
        load_fragment<LANES_M * 4>(a[p % 2], a_load + p * A_LD * 4);
        load_fragment<LANES_N * 4>(b[p % 2], b_load + p * BN * 4);
    };

    fetch([&](int p) { return last + p < k; });
    stage();
    __syncthreads();
    load(0);

    float sum[TM][TN] = {};
    for (int k0 = 0; k0 < last; k0 += BK) {
        A -= BK;
        B = ptx::hold(B - b_step);
        fetch([](int) { return true; });
#pragma unroll
        for (int p = 0; p < BK; ++p) {
            if (p == BK - 1) {
                a_store ^= SLOT, b_store ^= SLOT;
                a_load ^= SLOT, b_load ^= SLOT;
                stage();
                __syncthreads();  // the other tiles are complete, and nobody needs these any more
            }
            load((p + 1) % BK);
            add_outer_product<Order::snake>(sum, a[p % 2], b[p % 2]);
        }
    }
#pragma unroll
    for (int p = 0; p < BK; ++p) {
        if (p < BK - 1) load(p + 1);
        add_outer_product<Order::snake>(sum, a[p % 2], b[p % 2]);
    }

    const int c_row = blockIdx.y * BM + warp_row, c_col = blockIdx.x * BN + warp_col;
    if constexpr (REARRANGE) {
        __syncthreads();  // the tiles give way to the sums
        const uint32_t scratch =
            shared + threadIdx.x / 32 * LANES_M * SCRATCH_LD<LANES_N, TN> * sizeof(float);
        store_tile<LANES_N>(sum, scratch, c_row, c_col, m, n, alpha, beta, C, ldc);
    } else {
        store_tile_directly<LANES_N>(sum, c_row, c_col, m, n, alpha, beta, C, ldc);
    }
}
