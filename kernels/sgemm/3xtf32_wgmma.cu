// 3xtf32_wgmma: three products of split words, by asynchronous tensor cores.
//
// The one idea it adds to `3xtf32_mma`: wgmma, fed by TMA. For TF32 wgmma takes K-major operands only; A is K-major in
// memory, B is not. So C is computed transposed: the first operand is columns of B from registers, which may be
// gathered in any order, and the second is the tile of A in shared memory.
//
// The tensor core truncates a word to TF32 by itself: `big` is the word as it is, `small` the remainder, rounded to
// nearest.
//
// Roles:     consumers (warp groups 0 and 1, two blocks of 64 columns each): read columns of B into registers and split
//            them there; three products with the tile of A. Producer (warp group 2): thread 0 loads tiles; all its
//            threads compute from each tile of A a second tile, the small parts.
// Pipeline:  full[STAGES]: 1 arrival, thread 0's of the producer, and the bytes of a stage. split[STAGES]: 4 arrivals,
//            one from each producer warp, once the tile of small parts is written. empty[STAGES]: 8 arrivals, one from
//            each consumer warp.
// Timeline:  producer    load STAGES - 2 steps | load | wait full, write small parts, arrive split | load | ...
//            consumer    wait full and split, B to registers, wgmma | ... | release | ... | epilogue
//
// A thread's registers hold four neighbouring columns. Lane l reads chunk (l / 4 % 2) * 4 + l / 8 of a row of 32
// columns, one half of it for each of its two blocks of 64 columns, and every other pair of lanes reads the second half
// first: no two lanes of a half-warp have a bank conflict, and in the epilogue a lane stores 16 bytes of a row of C,
// and a warp whole lines of four rows.
//
// OUTSIDE: as in 3xtf32_mma, after so many products along k. With TURNS the two consumers alternate, and one adds while
// the other one multiplies; without, both may multiply, and then add, at the same time.
//
// SLICES: that many blocks of a cluster compute the same tile, each over its part of k, where tiles are fewer than
// multiprocessors. They add their sums together (include/slice_sums.cuh), and each stores its part of the rows.
//
// Differences from fp32: a product with Inf, or with a word of B that becomes Inf when rounded, is Inf or NaN; and
// numbers below 2^-115 lose digits of their small part.
//
// Template:  OUTSIDE: 16 or 32, or 0 to accumulate in the tensor core; TURNS: as above; BM, BN, BK: the block's tile;
//            STAGES: of the pipeline; STRIP: tile columns of a strip (include/tile_scheduler.cuh); SLICES: 1 to 8.
// Launch:    384 threads (1-D); a block per SM or, with slices, grid x over tiles of n, y over tiles of m, z over
//            slices; dynamic shared memory: the pipeline (include/tile_pipeline.cuh) and STAGES more tiles of A.
// Requires:  lda, ldb, ldc multiples of 4; A, B, C 16-byte aligned; sm_90a. Boxes: BM x 32 of A, 32 x 32 of B, swizzled
//            over 128 bytes.
// Source:    as 3xtf32_mma.
// Run:       make try KERNEL=sgemm_3xtf32_wgmma

#include "include/epilogue.cuh"
#include "include/ordered_barrier.cuh"
#include "include/slice_sums.cuh"
#include "include/tile_pipeline.cuh"
#include "include/tile_scheduler.cuh"
#include "include/warpgroup.cuh"
#include "include/wgmma_tf32.cuh"

// The part of a word that the tensor core reads.
__device__ __forceinline__ float truncated(uint32_t bits) { return __uint_as_float(bits & 0xFFFFE000); }

// The words of 64 columns of B for STEPS steps of 8 along k. With half a unit of the 19 bits added, truncation rounds
// to nearest; the remainder has a sign of its own and at most 12 bits.
template <int STEPS>
struct Columns {
    uint32_t big[STEPS][4], small[STEPS][4];

    __device__ __forceinline__ void set(int p, int i, float x) {
        big[p][i] = __float_as_uint(x) + 0x1000;
        small[p][i] = __float_as_uint(x - truncated(big[p][i]));
    }

    __device__ __forceinline__ void fence() {
        wgmma::fence_operand(big);
        wgmma::fence_operand(small);
    }
};

// The small part of a word of A, whose big part is the word itself: the 13 bits that truncation drops, rounded to TF32.
__device__ __forceinline__ float small_part(float x) {
    return __uint_as_float(__float_as_uint(x - truncated(__float_as_uint(x))) + 0x1000);
}

template <int OUTSIDE, bool TURNS, int BM, int BN, int BK, int STAGES, int STRIP, int SLICES>
__global__ void __cluster_dims__(1, 1, SLICES) __launch_bounds__(384, 1)
sgemm_3xtf32_wgmma(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                   const __grid_constant__ CUtensorMap tma_b, float beta, float* C, int ldc) {
    static_assert(BM == 128 && BN == 256 && BK == 32, "two groups with two blocks of 64 columns each");
    static_assert(OUTSIDE == 0 || OUTSIDE == 16 || OUTSIDE == 32, "whole steps of 8");
    static_assert(SLICES == 1 || OUTSIDE, "a slice may have no steps");
    constexpr int STEPS = OUTSIDE ? OUTSIDE / 8 : 4;  // of 8 along k that are multiplied without a wait
    constexpr int CONSUMERS = 2;
    const int tiles_m = (m + BM - 1) / BM;
    const int tiles_n = (n + BN - 1) / BN;
    auto for_each_tile = [&](auto work) {  // work(row, column)
        if constexpr (SLICES > 1) {
            work(blockIdx.y * BM, blockIdx.x * BN);
        } else {
            for (int i = blockIdx.x; i < tiles_m * tiles_n; i += gridDim.x) {
                const TileCoord tile = tile_coord<STRIP>(i, tiles_m, tiles_n);
                work(tile.m * BM, tile.n * BN);
            }
        }
    };
    const int slice = SLICES > 1 ? blockIdx.z : 0;
    if (alpha == 0.0f) {
        if (slice > 0) return;
        return for_each_tile([&](int row, int col) { scale_c<BM, BN>(row, col, m, n, beta, C, ldc); });
    }

    extern __shared__ uint8_t memory[];
    using Pipeline = TilePipeline<float, BM, BN, BK, STAGES>;
    const uint32_t small_tiles = Pipeline(memory).tiles;  // first, then the pipeline
    const Pipeline pipeline(memory + STAGES * Pipeline::A_BYTES);
    auto small_tile = [&](int stage) { return small_tiles + stage * Pipeline::A_BYTES; };
    auto split = [&](int stage) { return pipeline.end() + stage * 8; };  // a third barrier: small parts are written
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) mbarrier::init(split(stage), 4);  // a lane per producer warp
        pipeline.init_barriers(CONSUMERS * 4);
    }
    __syncthreads();

    const int group = threadIdx.x / wgmma::THREADS;
    const int thread = threadIdx.x % wgmma::THREADS;
    const int lane = thread % 32;
    const int all_steps = (k + BK - 1) / BK;
    const int first_step = all_steps * slice / SLICES, steps = all_steps * (slice + 1) / SLICES - first_step;
    PipelineState<STAGES> state;
    if (group == CONSUMERS) {
        warpgroup::reg_dealloc<40>();
        constexpr int AHEAD = STAGES - 2;  // steps from requesting tiles to splitting them
        static_assert(AHEAD > 0, "a stage to load, one to split, one to multiply");
        PipelineState<STAGES> load_state;
        auto load = [&](int row, int col, int step) {
            mbarrier::wait(pipeline.empty(load_state.stage), load_state.phase ^ 1);
            if constexpr (SLICES > 1) step += first_step;
            pipeline.load(load_state.stage, tma_a, tma_b, row, col, step * BK);
            load_state.advance();
        };
        for_each_tile([&](int row, int col) {
            if (thread == 0) {
                for (int step = 0; step < min(AHEAD, steps); ++step) load(row, col, step);
            }
            for (int step = 0; step < steps; ++step, state.advance()) {
                if (thread == 0 && step + AHEAD < steps) load(row, col, step + AHEAD);
                __syncwarp();
                mbarrier::wait(pipeline.full(state.stage), state.phase);
#pragma unroll 4
                for (int byte = thread * 16; byte < Pipeline::A_BYTES; byte += wgmma::THREADS * 16) {
                    const float4 a = ptx::load_shared_4(pipeline.a(state.stage) + byte);
                    ptx::store_shared_4(small_tile(state.stage) + byte,
                                        make_float4(small_part(a.x), small_part(a.y), small_part(a.z), small_part(a.w)));
                }
                tma::fence_proxy_async();
                __syncwarp();
                if (lane == 0) mbarrier::arrive(split(state.stage));
            }
        });
        if constexpr (SLICES > 1) {  // with the consumers, below
            __syncwarp();
            cluster::sync();
            cluster::sync();
        }
    } else {
        warpgroup::reg_alloc<232>();
        // Where its words lie in a tile of B: a 16-byte chunk in the box of 32 columns that belongs to its warp.
        const int chunk = lane / 4 % 2 * 4 + lane / 8;
        const int first = lane / 8 % 2;  // the half of the chunk that its first block has
        const int box = threadIdx.x / 32;
        const uint32_t from = box * BK * wgmma::ROW_BYTES + lane % 4 * wgmma::ROW_BYTES + (chunk ^ lane % 4) * 16;

        auto read = [&](Columns<STEPS>& columns, int stage, int block, int k0) {
            const uint32_t at = (pipeline.b(stage) + from) ^ ((block ^ first) * 8);
#pragma unroll
            for (int p = 0; p < STEPS; ++p) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {  // in the next four rows the swizzle differs by four chunks
                    const uint32_t row = (k0 + 8 * p + 4 * half) * wgmma::ROW_BYTES;
                    const float2 b = ptx::load_shared_2((at ^ (half * 64)) + row);
                    columns.set(p, 2 * half, b.x);
                    columns.set(p, 2 * half + 1, b.y);
                }
            }
        };
        auto multiply = [&](float(&sum)[64], const Columns<STEPS>& columns, int stage, int k0, bool from_zero) {
            auto a_big = [&](int p) { return wgmma::descriptor_k_major<float>(pipeline.a(stage), k0 + 8 * p); };
            auto a_small = [&](int p) { return wgmma::descriptor_k_major<float>(small_tile(stage), k0 + 8 * p); };
            wgmma::fence();
#pragma unroll
            for (int p = 0; p < STEPS; ++p) {
                wgmma::mma_tf32(sum, columns.small[p], a_big(p), !from_zero || p > 0);
                wgmma::mma_tf32(sum, columns.big[p], a_small(p), true);
            }
#pragma unroll
            for (int p = 0; p < STEPS; ++p) wgmma::mma_tf32(sum, columns.big[p], a_big(p), true);
            wgmma::commit();
        };
        auto release = [&](int stage) {
            __syncwarp();  // the whole warp has read its words
            if (lane == 0) mbarrier::arrive(pipeline.empty(stage));
        };

        auto add = [&](float(&sum)[64], const float(&partial)[64]) {
#pragma unroll
            for (int i = 0; i < 64; ++i) sum[i] += partial[i];
            wgmma::fence_operand(sum);  // here and not later: its registers are needed
        };

        if (OUTSIDE && TURNS && group == 1) ordered_barrier::arrive(group);  // group 0 begins
        for_each_tile([&](int row, int col) {
            float sum[2][64];
            if constexpr (OUTSIDE) {
#pragma unroll
                for (int i = 0; i < 128; ++i) sum[i / 64][i % 64] = 0.0f;
                float partial[64] = {};
                Columns<STEPS> columns;
                for (int step = 0; step < steps; ++step, state.advance()) {
                    mbarrier::wait(pipeline.full(state.stage), state.phase);
                    mbarrier::wait(split(state.stage), state.phase);
#pragma unroll
                    for (int i = 0; i < 2 * BK / OUTSIDE; ++i) {
                        const int block = i % 2, k0 = i / 2 * OUTSIDE;
                        read(columns, state.stage, block, k0);
                        add(sum[block ^ 1], partial);  // overlaps the loads
                        columns.fence();
                        if constexpr (TURNS) ordered_barrier::wait(group);
                        multiply(partial, columns, state.stage, k0, true);
                        if constexpr (TURNS) ordered_barrier::arrive(group);
                        wgmma::wait<0>();
                        wgmma::fence_operand(partial);
                    }
                    release(state.stage);
                }
                add(sum[1], partial);
            } else {
                Columns<STEPS> columns[2];
                int previous = 0;
                for (int step = 0; step < steps; ++step, state.advance()) {
                    mbarrier::wait(pipeline.full(state.stage), state.phase);
                    mbarrier::wait(split(state.stage), state.phase);
#pragma unroll
                    for (int block = 0; block < 2; ++block) {
                        read(columns[block], state.stage, block, 0);
                        columns[block].fence();
                        multiply(sum[block], columns[block], state.stage, 0, step == 0);
                        wgmma::wait<1>();  // for the previous block
                        if (block == 0 && step > 0) release(previous);
                    }
                    previous = state.stage;
                }
                wgmma::wait<0>();
                wgmma::fence_operand(sum[0]);
                wgmma::fence_operand(sum[1]);
                release(previous);
            }

            using Sums = SliceSums<SLICES, CONSUMERS * wgmma::THREADS, 64>;
            constexpr int ROWS = Sums::PIECE * 2;  // of the tile that a slice stores
            auto store = [&](const auto& total) {
                const int c_col = col + box * 32 + chunk * 4;
#pragma unroll
                for (int i = 0; i < ROWS / 4; ++i) {
                    const int c_row = row + slice * ROWS + i / 2 * 8 + lane % 4 * 2 + i % 2;
                    const int at = i / 2 * 4 + i % 2;
                    float result[4];
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        result[j] = first ? total[1 - j / 2][at + j % 2 * 2] : total[j / 2][at + j % 2 * 2];
                    }
                    if (c_row >= m || (SLICES * ROWS > BM && c_row >= row + BM)) continue;
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
            };
            if constexpr (SLICES == 1) {
                store(sum);
            } else {
                const uint32_t inbox = small_tiles + threadIdx.x * 16;  // all tiles have been read
                const Sums sums[2] = {{inbox, slice}, {inbox + Sums::BYTES, slice}};
                float total[2][Sums::PIECE];
                cluster::sync();
#pragma unroll
                for (int block = 0; block < 2; ++block) {
                    sums[block].send(sum[block], total[block], cluster::store_4);
                }
                cluster::sync();
#pragma unroll
                for (int block = 0; block < 2; ++block) sums[block].receive(total[block]);
                store(total);
            }
        });
        if (OUTSIDE && TURNS && group == 0) ordered_barrier::wait(group);  // the last arrival of group 1
    }
}
