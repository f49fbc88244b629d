// A ring of tiles that TMA brings (include/tile_ring.cuh), for FMAs: a block of 256 threads multiplies them from shared
// memory, 8 x 16 sums a thread.
//
//     matrix A --TMA--> tile of A, rows along k --its threads--> the same, rows along m ---> fragments --> sums
//     matrix B --TMA--> tile of B, rows along n -------------------------------------------> fragments --> sums
//                       STAGES of them                           two of them                 two sets, one p ahead
//
// - TMA copies rows as they are. A thread wants neighbours along m, not along k, so the block transposes each tile of A
//   while it multiplies the one before: eight 128-bit accesses a thread for 32 steps p. Of a quarter-warp no two meet in
//   a bank, neither loading (the tile is swizzled over 128 bytes) nor storing.
// - The block meets once a tile: then the next tile of A is transposed, and everybody has read this one.
// - Lanes 8 x 4, so that of no pair (i, i ^ 1) or (i, i ^ 2) both want the same four words, of A or of B. Loads of such
//   pairs would be merged. That saves bandwidth, but keeps FMAs from being issued (docs/kernels.md).
#pragma once

#include <cstdint>

#include "include/epilogue.cuh"
#include "include/ptx.cuh"
#include "include/tile_ring.cuh"

// FLIP: in which order rows of the thread's sums take their turn, r ^ FLIP for r = 0 .. 7. It changes nothing of the
// result. But it changes which registers ptxas takes, and where it puts the loads.
template <int BM, int BN, int BK, int STAGES, int FLIP>
struct FmaRing : TileRing<float, BM, BN, BK, STAGES> {
    using Ring = TileRing<float, BM, BN, BK, STAGES>;
    static constexpr int THREADS = 256, TM = 8, TN = 16, LANES_M = 8, LANES_N = 4;
    static constexpr int WM = TM * LANES_M, WN = TN * LANES_N;  // a warp's part of the tile
    static constexpr int UNROLLED = 8;                          // steps p in the body of the loop
    static_assert(BM / WM * (BN / WN) * 32 == THREADS && BM * BK / 16 == THREADS, "4 x 4 words to transpose a thread");

    uint32_t transposed;         // two tiles of A
    int warp_row, warp_col;      // the warp's first row and column in the tile
    int lane_row, lane_col;      // which of its 8 x 4 lanes
    uint32_t from_row, to_row;   // what this thread transposes: where it lies, and where it goes

    // In dynamic shared memory that begins at `memory`: the transposed tiles, the ring behind them.
    __device__ __forceinline__ explicit FmaRing(uint8_t* memory)
        : Ring(memory + 2 * Ring::A_BYTES), transposed(Ring(memory).tiles) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        warp_row = warp / (BN / WN) * WM;
        warp_col = warp % (BN / WN) * WN;
        lane_row = lane % 8;
        lane_col = lane / 8 ^ lane % 4;
        const int row = lane * 4, piece = lane % 8 ^ warp;  // four rows, four columns
        from_row = row * BK * 4 + (piece ^ row % 8) * 16;
        to_row = piece * 4 * BM * 4 + row * 4;
    }

    // By one thread, before anybody uses the barriers; the block meets afterwards.
    __device__ __forceinline__ void make_barriers() const {
        for (int stage = 0; stage < STAGES; ++stage) tma::init(this->full(stage), 1);
        tma::fence_init();
    }

    // By one thread: the tiles of A from row `row` and of B from column `col`, at `k0`. A box is a tile.
    __device__ __forceinline__ void load(int stage, const CUtensorMap& map_a, const CUtensorMap& map_b, int row, int col,
                                         int k0) const {
        tma::expect(this->full(stage), Ring::STAGE_BYTES);
        tma::load(this->a(stage), map_a, row, k0, this->full(stage));
        tma::load(this->b(stage), map_b, k0, col, this->full(stage));
    }

    __device__ __forceinline__ void transpose(int stage, int to) const {
        const uint32_t from = this->a(stage) + from_row;
        float4 row[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) row[r] = ptx::load_shared_4((from ^ (r * 16)) + r * BK * 4);
        const uint32_t column = transposed + to * Ring::A_BYTES + to_row;
        ptx::store_shared_4(column, make_float4(row[0].x, row[1].x, row[2].x, row[3].x));
        ptx::store_shared_4(column + BM * 4, make_float4(row[0].y, row[1].y, row[2].y, row[3].y));
        ptx::store_shared_4(column + BM * 8, make_float4(row[0].z, row[1].z, row[2].z, row[3].z));
        ptx::store_shared_4(column + BM * 12, make_float4(row[0].w, row[1].w, row[2].w, row[3].w));
    }

    // sum += A * B over so many steps of BK, at least one, from `place` on. `bring(stage, step)`, by thread 0: ask for the
    // tiles of that step. The block meets before it comes here again.
    template <typename Bring>
    __device__ __forceinline__ void multiply_all(float (&sum)[TM][TN], RingPlace<STAGES>& place, int steps,
                                                 Bring bring) const {
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
        auto first_a = [&](int tile) { return transposed + tile * Ring::A_BYTES + (warp_row + lane_row * 4) * 4; };
        auto first_b = [&](int stage) { return this->b(stage) + (warp_col + lane_col * 4) * 4; };

        if (threadIdx.x == 0) {
            RingPlace<STAGES> to = place;
            for (int step = 0; step < min(STAGES, steps); ++step, to.advance()) bring(to.stage, step);
        }
        tma::wait(this->full(place.stage), place.parity);
        int tile = 0;
        transpose(place.stage, tile);
        __syncthreads();
        uint32_t a_at = first_a(tile), b_at = first_b(place.stage);
        load(0, a_at, b_at);

        int step = 0, part = 0;
        int free = place.stage;  // the stage of the step before
#pragma unroll 1
        for (int left = steps * PARTS; left > 0; --left) {
            uint32_t a_next = a_at + UNROLLED * BM * 4, b_next = b_at + UNROLLED * BN * 4;
            const bool last = ++part == PARTS;  // of this step
            if (last) {
                if (threadIdx.x == 0 && step > 0 && step - 1 + STAGES < steps) bring(free, step - 1 + STAGES);
                free = place.stage;
                place.advance();
                ++step, part = 0;
                a_next = a_at, b_next = b_at;  // after the last of all: what is there
                if (left > 1) {
                    tile ^= 1;
                    tma::wait(this->full(place.stage), place.parity);
                    transpose(place.stage, tile);
                    a_next = first_a(tile), b_next = first_b(place.stage);
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
                for (int r = 0; r < TM; ++r) {  // along a row and back along the next: `a` stays
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
