// 3xtf32_wgmma: three products of halves, by tensor cores that run on their own.
//
// The one idea it adds to 3xtf32_mma: wgmma, fed by TMA. wgmma multiplies numbers that lie along k only, as A's rows
// do, and B's do not. So C is computed transposed: the columns of B come first, from registers, which may have
// them in any order, and the tile of A second, from shared memory.
//
//     group 0, 1   multiply: columns of B to registers, split there; three products with the tile of A
//     group 2      thread 0 brings tiles; all of it makes of each tile of A a second one, of what TF32 cuts off
//
// The tensor core cuts off itself: big is the word as it came, small the rest, rounded to nearest.
//
// A thread's registers hold four neighbouring columns. Lane l reads piece (l / 4 % 2) * 4 + l / 8 of a row of 32
// columns, half of it for each of its two blocks of 64 columns, and every other pair of lanes the second half first:
// no two lanes of a half-warp meet in a bank, and it has 16 bytes of a row of C to store in the end, a warp whole
// lines of four rows.
//
// OUTSIDE: as in 3xtf32_mma, by so many products along k. With TURNS one group adds while the other multiplies; else
// nothing keeps both from multiplying, and then from adding, at a time.
//
// What differs from fp32: a product with Inf, or with a number of B that is Inf when rounded, is Inf or NaN; and
// numbers below 2^-115 lose digits of their small part.
//
// Template:  OUTSIDE: 16 or 32, or 0: sums stay in the tensor core; TURNS: as above; BM, BN, BK: the block's
//            tile; STAGES: of the ring; STRIP: tile columns of a strip (include/tile_order.cuh).
// Launch:    384 threads (1-D), a block an SM; dynamic shared memory: the ring (include/tile_ring.cuh) and STAGES
//            more tiles of A.
// Requires:  lda, ldb, ldc multiples of 4; A, B, C 16-byte aligned; sm_90a. Boxes: BM x 32 of A, 32 x 32 of B,
//            swizzled over 128 bytes.
// Source:    as 3xtf32_mma.

#include "include/epilogue.cuh"
#include "include/tile_order.cuh"
#include "include/tile_ring.cuh"
#include "include/turns.cuh"
#include "include/warpgroup.cuh"
#include "include/wgmma_tf32.cuh"

// What the tensor core reads of a number.
__device__ __forceinline__ float cut_off(uint32_t bits) { return __uint_as_float(bits & 0xFFFFE000); }

// The words of STEPS steps of 8 along k, of 64 columns of B. Half a unit of the 19 bits added, the tensor core cuts to
// the nearest; what is left has a sign of its own, and 12 bits at the most.
template <int STEPS>
struct Columns {
    uint32_t big[STEPS][4], small[STEPS][4];

    __device__ __forceinline__ void set(int p, int i, float x) {
        big[p][i] = __float_as_uint(x) + 0x1000;
        small[p][i] = __float_as_uint(x - cut_off(big[p][i]));
    }

    __device__ __forceinline__ void hold() {
        wgmma::hold(big);
        wgmma::hold(small);
    }
};

// Of a number of A, where big is the number as it is: what is cut off, 13 bits, rounded in the same way.
__device__ __forceinline__ float small_part(float x) {
    return __uint_as_float(__float_as_uint(x - cut_off(__float_as_uint(x))) + 0x1000);
}

template <int OUTSIDE, bool TURNS, int BM, int BN, int BK, int STAGES, int STRIP>
__global__ void __launch_bounds__(384, 1)
sgemm_3xtf32_wgmma(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                   const __grid_constant__ CUtensorMap tma_b, float beta, float* C, int ldc) {
    static_assert(BM == 128 && BN == 256 && BK == 32, "two groups with two blocks of 64 columns each");
    static_assert(OUTSIDE == 0 || OUTSIDE == 16 || OUTSIDE == 32, "whole steps of 8");
    constexpr int STEPS = OUTSIDE ? OUTSIDE / 8 : 4;  // of 8 along k, that are multiplied without a wait
    constexpr int CONSUMERS = 2;
    const int tiles_m = (m + BM - 1) / BM;
    const int tiles_n = (n + BN - 1) / BN;
    auto for_each_tile = [&](auto work) {
        for (int i = blockIdx.x; i < tiles_m * tiles_n; i += gridDim.x) {
            const TileAt tile = tile_at<STRIP>(i, tiles_m, tiles_n);
            work(tile.m * BM, tile.n * BN);
        }
    };
    if (alpha == 0.0f) {
        return for_each_tile([&](int row, int col) { scale_c<BM, BN>(row, col, m, n, beta, C, ldc); });
    }

    extern __shared__ uint8_t memory[];
    using Ring = TileRing<float, BM, BN, BK, STAGES>;
    const uint32_t small_tiles = Ring(memory).tiles;  // first, the ring behind them
    const Ring ring(memory + STAGES * Ring::A_BYTES);
    auto small_tile = [&](int stage) { return small_tiles + stage * Ring::A_BYTES; };
    auto split = [&](int stage) { return ring.end() + stage * 8; };  // a third barrier: the small tile is there
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) tma::init(split(stage), 4);  // by a lane of each warp, as `empty`
        ring.make_barriers(CONSUMERS * 4);
    }
    __syncthreads();

    const int group = threadIdx.x / wgmma::THREADS;
    const int thread = threadIdx.x % wgmma::THREADS;
    const int lane = thread % 32;
    const int steps = (k + BK - 1) / BK;
    RingPlace<STAGES> place;
    if (group == CONSUMERS) {
        warpgroup::keep_registers<40>();
        constexpr int AHEAD = STAGES - 2;  // steps from asking for tiles to splitting them
        static_assert(AHEAD > 0, "a stage to bring, one to split, one to multiply");
        RingPlace<STAGES> brought;
        auto bring = [&](int row, int col, int step) {
            tma::wait(ring.empty(brought.stage), brought.parity ^ 1);
            ring.load(brought.stage, tma_a, tma_b, row, col, step * BK);
            brought.advance();
        };
        for_each_tile([&](int row, int col) {
            if (thread == 0) {
                for (int step = 0; step < min(AHEAD, steps); ++step) bring(row, col, step);
            }
            for (int step = 0; step < steps; ++step, place.advance()) {
                if (thread == 0 && step + AHEAD < steps) bring(row, col, step + AHEAD);
                __syncwarp();
                tma::wait(ring.full(place.stage), place.parity);
#pragma unroll 4
                for (int byte = thread * 16; byte < Ring::A_BYTES; byte += wgmma::THREADS * 16) {
                    const float4 a = ptx::load_shared_4(ring.a(place.stage) + byte);
                    ptx::store_shared_4(small_tile(place.stage) + byte,
                                        make_float4(small_part(a.x), small_part(a.y), small_part(a.z), small_part(a.w)));
                }
                tma::fence_async();
                __syncwarp();
                if (lane == 0) tma::arrive(split(place.stage));
            }
        });
    } else {
        warpgroup::take_registers<232>();
        // Where its numbers lie in a tile of B: of the box of 32 columns that is its warp's, a piece of 16 bytes.
        const int piece = lane / 4 % 2 * 4 + lane / 8;
        const int first = lane / 8 % 2;  // the half of it that its first block has
        const int box = threadIdx.x / 32;
        const uint32_t from = box * BK * wgmma::ROW_BYTES + lane % 4 * wgmma::ROW_BYTES + (piece ^ lane % 4) * 16;

        auto read = [&](Columns<STEPS>& columns, int stage, int block, int k0) {
            const uint32_t at = (ring.b(stage) + from) ^ ((block ^ first) * 8);
#pragma unroll
            for (int p = 0; p < STEPS; ++p) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {  // four rows further, pieces have changed places by four
                    const float2 b = ptx::load_shared_2((at ^ (half * 64)) + (k0 + 8 * p + 4 * half) * wgmma::ROW_BYTES);
                    columns.set(p, 2 * half, b.x);
                    columns.set(p, 2 * half + 1, b.y);
                }
            }
        };
        auto multiply = [&](float(&sum)[64], const Columns<STEPS>& columns, int stage, int k0, bool from_zero) {
            auto a_big = [&](int p) { return wgmma::rows_along_k<float>(ring.a(stage), k0 + 8 * p); };
            auto a_small = [&](int p) { return wgmma::rows_along_k<float>(small_tile(stage), k0 + 8 * p); };
            wgmma::fence();
#pragma unroll
            for (int p = 0; p < STEPS; ++p) {
                wgmma::multiply_tf32(sum, columns.small[p], a_big(p), !from_zero || p > 0);
                wgmma::multiply_tf32(sum, columns.big[p], a_small(p), true);
            }
#pragma unroll
            for (int p = 0; p < STEPS; ++p) wgmma::multiply_tf32(sum, columns.big[p], a_big(p), true);
            wgmma::commit();
        };
        auto give_back = [&](int stage) {
            __syncwarp();  // all of it has read its numbers
            if (lane == 0) tma::arrive(ring.empty(stage));
        };

        auto add = [&](float(&sum)[64], const float(&inside)[64]) {
#pragma unroll
            for (int i = 0; i < 64; ++i) sum[i] += inside[i];
            wgmma::hold(sum);  // and does so here: its registers are needed
        };

        if (OUTSIDE && TURNS && group == 1) turns::pass(group);  // group 0 begins
        for_each_tile([&](int row, int col) {
            float sum[2][64];
            if constexpr (OUTSIDE) {
#pragma unroll
                for (int i = 0; i < 128; ++i) sum[i / 64][i % 64] = 0.0f;
                float inside[64] = {};
                Columns<STEPS> columns;
                for (int step = 0; step < steps; ++step, place.advance()) {
                    tma::wait(ring.full(place.stage), place.parity);
                    tma::wait(split(place.stage), place.parity);
#pragma unroll
                    for (int i = 0; i < 2 * BK / OUTSIDE; ++i) {
                        const int block = i % 2, k0 = i / 2 * OUTSIDE;
                        read(columns, place.stage, block, k0);
                        add(sum[block ^ 1], inside);  // while they are on their way
                        columns.hold();
                        if constexpr (TURNS) turns::take(group);
                        multiply(inside, columns, place.stage, k0, true);
                        if constexpr (TURNS) turns::pass(group);
                        wgmma::wait<0>();
                        wgmma::hold(inside);
                    }
                    give_back(place.stage);
                }
                add(sum[1], inside);
            } else {
                Columns<STEPS> columns[2];
                int before = 0;
                for (int step = 0; step < steps; ++step, place.advance()) {
                    tma::wait(ring.full(place.stage), place.parity);
                    tma::wait(split(place.stage), place.parity);
#pragma unroll
                    for (int block = 0; block < 2; ++block) {
                        read(columns[block], place.stage, block, 0);
                        columns[block].hold();
                        multiply(sum[block], columns[block], place.stage, 0, step == 0);
                        wgmma::wait<1>();  // the block before
                        if (block == 0 && step > 0) give_back(before);
                    }
                    before = place.stage;
                }
                wgmma::wait<0>();
                wgmma::hold(sum[0]);
                wgmma::hold(sum[1]);
                give_back(before);
            }

            const int c_col = col + box * 32 + piece * 4;
#pragma unroll
            for (int i = 0; i < 32; ++i) {
                const int c_row = row + i / 2 * 8 + lane % 4 * 2 + i % 2;
                const int at = i / 2 * 4 + i % 2;
                float result[4];
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    result[j] = first ? sum[1 - j / 2][at + j % 2 * 2] : sum[j / 2][at + j % 2 * 2];
                }
                if (c_row >= m) continue;
                float* c = &C[static_cast<int64_t>(c_row) * ldc + c_col];
                if (c_col + 3 < n) {
                    update_c4(c, alpha, result, beta);
                } else {
#pragma unroll
                    for (int j = 0; j < 3; ++j) {
                        if (c_col + j < n) update_c(&c[j], alpha, result[j], beta);
                    }
                }
            }
        });
        if (OUTSIDE && TURNS && group == 0) turns::take(group);  // the turn that is left
    }
}
