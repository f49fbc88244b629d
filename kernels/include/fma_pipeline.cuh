// A pipeline of tiles from TMA (include/tile_pipeline.cuh) to FMAs: a block of 256 threads multiplies them from shared
// memory, 8 x 16 sums a thread.
//
//     matrix A --TMA--> tile of A, K-major --its threads--> transposed tile, M-major --> fragments --> sums
//     matrix B --TMA--> tile of B, N-major --------------------------------------------> fragments --> sums
//                       STAGES of them                      two buffers                  two sets, one p ahead
//
// - TMA copies rows as they are. A thread needs neighbours along m, not along k, so the block transposes the next tile
//   of A while it multiplies the present one: eight 128-bit accesses a thread for every 32 steps p. Neither the loads,
//   from a tile with the 128-byte swizzle, nor the stores of a quarter-warp have bank conflicts.
// - The block synchronizes once per tile, when the next tile of A has been transposed and all threads have read this
//   one.
// - A warp is 8 x 4 lanes, assigned so that the lanes of no pair (i, i ^ 1) or (i, i ^ 2) read the same four words of A
//   or of B. The hardware would merge the loads of such pairs, which saves bandwidth but blocks the issue of FMAs
//   (docs/hardware.md).
#pragma once

#include <cstdint>

#include "include/epilogue.cuh"
#include "include/ptx.cuh"
#include "include/tile_pipeline.cuh"

// FLIP: the order of the rows in a thread's outer product, r ^ FLIP for r = 0 .. 7. The result does not depend on it,
// but the registers that ptxas chooses do, and where it puts the loads.
template <int BM, int BN, int BK, int STAGES, int FLIP>
struct FmaPipeline : TilePipeline<float, BM, BN, BK, STAGES> {
    using Base = TilePipeline<float, BM, BN, BK, STAGES>;
    static constexpr int THREADS = 256, TM = 8, TN = 16, LANES_M = 8, LANES_N = 4;
    static constexpr int WM = TM * LANES_M, WN = TN * LANES_N;  // a warp's part of the tile
    static constexpr int UNROLLED = 8;                          // steps p in the loop body
    static_assert(BM / WM * (BN / WN) * 32 == THREADS && BM * BK / 16 == THREADS, "a thread transposes 4 x 4 words");

    uint32_t transposed;         // two tiles of A
    int warp_row, warp_col;      // the first row and column of the warp's tile
    int lane_row, lane_col;      // this lane's position among the warp's 8 x 4
    uint32_t from_row, to_row;   // offsets of the 4 x 4 words that this thread transposes, before and after

    // In dynamic shared memory from `memory` on: the transposed tiles, then the pipeline.
    __device__ __forceinline__ explicit FmaPipeline(uint8_t* memory)
        : Base(memory + 2 * Base::A_BYTES), transposed(Base(memory).tiles) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        warp_row = warp / (BN / WN) * WM;
        warp_col = warp % (BN / WN) * WN;
        lane_row = lane % 8;
        lane_col = lane / 8 ^ lane % 4;
        const int row = lane * 4, chunk = lane % 8 ^ warp;  // of four rows, and of four columns
        from_row = row * BK * 4 + (chunk ^ row % 8) * 16;
        to_row = chunk * 4 * BM * 4 + row * 4;
    }

    // Called by one thread; the block synchronizes before anyone uses the barriers. A stage needs no `empty` barrier.
    __device__ __forceinline__ void init_barriers() const {
        for (int stage = 0; stage < STAGES; ++stage) mbarrier::init(this->full(stage), 1);
        mbarrier::fence_init();
    }

    // Called by one thread: the tile of A from row `row` and that of B from column `col`, at `k0`. A box is a tile.
    __device__ __forceinline__ void load(int stage, const CUtensorMap& map_a, const CUtensorMap& map_b, int row, int col,
                                         int k0) const {
        mbarrier::arrive_expect_tx(this->full(stage), Base::STAGE_BYTES);
        tma::load(this->a(stage), map_a, row, k0, this->full(stage));
        tma::load(this->b(stage), map_b, k0, col, this->full(stage));
    }

    __device__ __forceinline__ void transpose(int stage, int to) const {
        const uint32_t from = this->a(stage) + from_row;
        float4 row[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) row[r] = ptx::load_shared_4((from ^ (r * 16)) + r * BK * 4);
        const uint32_t column = transposed + to * Base::A_BYTES + to_row;
        ptx::store_shared_4(column, make_float4(row[0].x, row[1].x, row[2].x, row[3].x));
        ptx::store_shared_4(column + BM * 4, make_float4(row[0].y, row[1].y, row[2].y, row[3].y));
        ptx::store_shared_4(column + BM * 8, make_float4(row[0].z, row[1].z, row[2].z, row[3].z));
        ptx::store_shared_4(column + BM * 12, make_float4(row[0].w, row[1].w, row[2].w, row[3].w));
    }

    // sum += A * B over `steps` steps of BK, at least one, from `state` on. Thread 0 calls `load_step(stage, step)`,
    // which requests the tiles of that step. The block synchronizes before the next call.
    template <typename LoadStep>
    __device__ __forceinline__ void mainloop(float (&sum)[TM][TN], PipelineState<STAGES>& state, int steps,
                                                 LoadStep load_step) const {
        constexpr int PARTS = BK / UNROLLED;
        float a[2][TM], b[2][TN];
        auto load = [&](int set, uint32_t a_at, uint32_t b_at) {
#pragma unroll
            for (int i = 0; i < TM; i += 4) {
                *reinterpret_cast<float4*>(&a[set][i]) = ptx::load_shared_4(a_at + i * LANES_M * 4);
            }
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                *reinterpret_cast<float4*>(&b[set][j]) = ptx::load_shared_4(b_at + j * LANES_N * 4);
            }
        };
        auto first_a = [&](int tile) { return transposed + tile * Base::A_BYTES + (warp_row + lane_row * 4) * 4; };
        auto first_b = [&](int stage) { return this->b(stage) + (warp_col + lane_col * 4) * 4; };

        if (threadIdx.x == 0) {
            PipelineState<STAGES> to = state;
            for (int step = 0; step < min(STAGES, steps); ++step, to.advance()) load_step(to.stage, step);
        }
        mbarrier::wait(this->full(state.stage), state.phase);
        int tile = 0;
        transpose(state.stage, tile);
        __syncthreads();
        uint32_t a_at = first_a(tile), b_at = first_b(state.stage);
        load(0, a_at, b_at);

        int step = 0, part = 0;
        int previous = state.stage;  // the stage of the previous step
#pragma unroll 1
        for (int left = steps * PARTS; left > 0; --left) {
            uint32_t a_next = a_at + UNROLLED * BM * 4, b_next = b_at + UNROLLED * BN * 4;
            const bool last = ++part == PARTS;  // part of this step
            if (last) {
                if (threadIdx.x == 0 && step > 0 && step - 1 + STAGES < steps) load_step(previous, step - 1 + STAGES);
                previous = state.stage;
                state.advance();
                ++step, part = 0;
                a_next = a_at, b_next = b_at;  // after the very last part: any valid address
                if (left > 1) {
                    tile ^= 1;
                    mbarrier::wait(this->full(state.stage), state.phase);
                    transpose(state.stage, tile);
                    a_next = first_a(tile), b_next = first_b(state.stage);
                }
            }
#pragma unroll
            for (int p = 0; p < UNROLLED; ++p) {
                if (p < UNROLLED - 1) {
                    load((p + 1) % 2, a_at + (p + 1) * BM * 4, b_at + (p + 1) * BN * 4);
                } else {
                    if (last) __syncthreads();
                    load((p + 1) % 2, a_next, b_next);
                }
#pragma unroll
                for (int r = 0; r < TM; ++r) {  // along a row and back along the next, so that `a` stays
                    const int i = r ^ FLIP;
#pragma unroll
                    for (int c = 0; c < TN; ++c) {
                        const int j = r % 2 ? TN - 1 - c : c;
                        sum[i][j] += a[p % 2][i] * b[p % 2][j];
                    }
                }
            }
            a_at = a_next, b_at = b_next;
        }
    }

    // C = alpha * sum + beta * C for the tile at (row, col) of m x n.
    __device__ __forceinline__ void store(const float (&sum)[TM][TN], int row, int col, int m, int n, float alpha,
                                          float beta, float* C, int ldc) const {
        row += warp_row + lane_row * 4;
        col += warp_col + lane_col * 4;
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            const int c_row = row + i / 4 * 4 * LANES_M + i % 4;
            if (c_row >= m) continue;
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                const int c_col = col + j * LANES_N;
                float* c = &C[static_cast<int64_t>(c_row) * ldc + c_col];
                if (c_col + 3 < n) {
                    update_c4(c, alpha, &sum[i][j], beta);
                } else {
#pragma unroll
                    for (int h = 0; h < 3; ++h) {
                        if (c_col + h < n) update_c(&c[h], alpha, sum[i][j + h], beta);
                    }
                }
            }
        }
    }
};
