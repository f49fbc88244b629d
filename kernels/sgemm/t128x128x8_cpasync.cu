// t128x128x8_cpasync: the tiles are filled by asynchronous copies.
//
// The one idea it adds to `t128x128x8`: cp.async moves the next tiles from global to shared memory
// by itself, with no registers on the way. `t128x256x8_cpasync` uses those registers for larger
// tiles; here the tile, the threads and the shared memory stay, so that the difference of the two
// is what the copies alone do.
//
//     global memory ----------> shared memory --> fragments --> sums
//              a step ahead,    two buffers       two sets, one
//              8 words each                       p ahead
//
// - A copy moves 4 bytes, so that it takes any alignment. A's words arrive one by one, not as
//   float4, so a thread has one in every 32 rows instead of four rows side by side: a warp copies
//   4 rows x 8 k, which rows of 128 + 4 words put on 32 banks.
// - Beyond the end of k, and right of B, a copy reads nothing and writes zeros.
//
// Template:  BM, BN, BK: the block's tile.
// Launch:    256 threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  nothing; any m, n, k and leading dimension.
// Source:    sgemm_cu, section 6, "Using cp.async in the 128x128x8 kernel alone".
// Run:       make try KERNEL=sgemm_t128x128x8_cpasync

#include "include/ptx.cuh"
#include "include/warp_tile.cuh"

template <int BM, int BN, int BK>
__global__ void __launch_bounds__(256, 2)
sgemm_t128x128x8_cpasync(int m, int n, int k, float alpha, const float* A, int lda, const float* B,
                         int ldb, float beta, float* C, int ldc) {
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

    // The words that this thread copies: one of A in every 32 rows, and of B in every 32 columns.
    const int load_a_row = threadIdx.x / BK;
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
        const int row = blockIdx.y * BM + load_a_row + i * 32;
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

    // The two stages of a step. First: from global to shared memory, where `counts(p)`.
    auto copy = [&](auto counts) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            ptx::cp_async_4(a_store + i * 32 * 4, A + a_at[i], counts(load_a_col));
            ptx::cp_async_4(b_store + i * 32 * 4, B + i * 32, counts(load_b_row) && b_inside[i]);
        }
        ptx::cp_async_commit();
    };
    // Second: to fragments, for the outer product of step p.
    float a[2][TM], b[2][TN];
    auto load = [&](int p) {
        load_fragment<LANES_M * 4>(a[p % 2], a_load + p * A_LD * 4);
        load_fragment<LANES_N * 4>(b[p % 2], b_load + p * BN * 4);
    };

    copy([&](int p) { return last + p < k; });
    ptx::cp_async_wait<0>();
    __syncthreads();
    load(0);

    float sum[TM][TN] = {};
    for (int k0 = 0; k0 < last; k0 += BK) {
        A -= BK;
        B = ptx::hold(B - b_step);
        a_store ^= SLOT, b_store ^= SLOT;
        copy([](int) { return true; });
#pragma unroll
        for (int p = 0; p < BK; ++p) {
            if (p == BK - 1) {
                a_load ^= SLOT, b_load ^= SLOT;
                ptx::cp_async_wait<0>();
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

    __syncthreads();  // the tiles give way to the sums
    const uint32_t scratch =
        shared + threadIdx.x / 32 * LANES_M * SCRATCH_LD<LANES_N, TN> * sizeof(float);
    store_tile<LANES_N>(sum, scratch, blockIdx.y * BM + warp_row, blockIdx.x * BN + warp_col, m, n,
                        alpha, beta, C, ldc);
}
