// The pipeline from TMA to wgmma: a circular buffer of STAGES stages in shared memory. A stage holds the tiles of A and
// B for one step over k, in the layout that wgmma reads (include/wgmma.cuh), and has two mbarriers:
//
//     full[stage]     1 arrival, the producer's, which announces STAGE_BYTES; TMA reports them as they come
//     empty[stage]    `consumers` arrivals, one from each consumer that has finished with the stage
//
//     producer        wait empty[stage] (phase ^ 1), load -> full[stage]
//     consumer        wait full[stage] (phase), mma, release -> empty[stage]
//
// In the first round the producer waits for the phase before the first, which counts as complete: all stages are empty.
#pragma once

#include "include/ptx.cuh"
#include "include/tma.cuh"
#include "include/wgmma.cuh"

template <typename T, int BM, int BN, int BK, int STAGES>
struct TilePipeline {
    static constexpr int A_BYTES = BM * BK * sizeof(T);
    static constexpr int B_BYTES = BK * BN * sizeof(T);
    static constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
    static constexpr int BOX = wgmma::ROW_BYTES / sizeof(T);  // columns of a box of B
    static_assert(BK * sizeof(T) == wgmma::ROW_BYTES && BN % BOX == 0, "rows of 128 bytes");
    static_assert(BM % 8 == 0 && BK % 8 == 0, "whole atoms");

    uint32_t tiles;

    // In dynamic shared memory from `memory` on: up to 1024 bytes of alignment, the tiles, the barriers.
    __device__ __forceinline__ explicit TilePipeline(const void* memory)
        : tiles((ptx::shared_address(memory) + wgmma::ATOM_BYTES - 1u) & ~(wgmma::ATOM_BYTES - 1u)) {}

    __device__ __forceinline__ uint32_t a(int stage) const { return tiles + stage * STAGE_BYTES; }
    __device__ __forceinline__ uint32_t b(int stage) const { return a(stage) + A_BYTES; }
    __device__ __forceinline__ uint32_t full(int stage) const { return tiles + STAGES * STAGE_BYTES + stage * 8; }
    __device__ __forceinline__ uint32_t empty(int stage) const { return full(STAGES + stage); }
    __device__ __forceinline__ uint32_t end() const { return full(2 * STAGES); }

    // Called by one thread; the block, or the cluster, synchronizes before anyone uses the barriers.
    __device__ __forceinline__ void init_barriers(int consumers) const {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier::init(full(stage), 1);
            mbarrier::init(empty(stage), consumers);
        }
        mbarrier::fence_init();
    }

    // Called by one thread of the producer: the tile of A from row `row` and that of B from column `col`, at `k0`.
    __device__ __forceinline__ void load(int stage, const CUtensorMap& map_a, const CUtensorMap& map_b, int row,
                                         int col, int k0) const {
        mbarrier::arrive_expect_tx(full(stage), STAGE_BYTES);
        tma::load(a(stage), map_a, row, k0, full(stage));
#pragma unroll
        for (int c = 0; c < BN; c += BOX) {
            tma::load(b(stage) + c / BOX * BK * wgmma::ROW_BYTES, map_b, k0, col + c, full(stage));
        }
    }

    // The same in a cluster of two blocks whose tiles of C lie one below the other: each block loads its own tile of A,
    // and half the rows of the tile of B for both. `map_b` has boxes of BK / 2 rows.
    __device__ __forceinline__ void load_multicast_b(int stage, const CUtensorMap& map_a, const CUtensorMap& map_b,
                                                     int row, int col, int k0, int rank) const {
        mbarrier::arrive_expect_tx(full(stage), STAGE_BYTES);
        tma::load(a(stage), map_a, row, k0, full(stage));
        const int half = rank * (BK / 2);
#pragma unroll
        for (int c = 0; c < BN; c += BOX) {
            tma::load_multicast(b(stage) + (c / BOX * BK + half) * wgmma::ROW_BYTES, map_b, k0 + half, col + c,
                                full(stage), 0b11);
        }
    }

    // Called by the producer of a cluster's block after its last load: waits until all stages have been released. The
    // block must not exit before, for the other block still writes to its tiles and arrives on its barriers.
    __device__ __forceinline__ void producer_tail(PipelineState<STAGES>& state) const {
        for (int i = 0; i < STAGES; ++i, state.advance()) mbarrier::wait(empty(state.stage), state.phase ^ 1);
    }

    // Called by warp group `group` of those that share a tile, which owns HEIGHT * 64 of its rows: sum += A * B, or
    // sum = A * B if `first`. Issues one wgmma group and does not wait for it.
    template <int HEIGHT, int REGISTERS>
    __device__ __forceinline__ void mma(float (&sum)[HEIGHT][REGISTERS], int stage, int group, bool first) const {
        wgmma::fence();
#pragma unroll
        for (int p = 0; p < BK; p += 16) {
#pragma unroll
            for (int h = 0; h < HEIGHT; ++h) {
                const uint32_t rows = a(stage) + (group * HEIGHT + h) * wgmma::ROWS * wgmma::ROW_BYTES;
                wgmma::mma<T>(sum[h], wgmma::descriptor_k_major<T>(rows, p),
                              wgmma::descriptor_mn_major<T, BK>(b(stage), p), !first || p > 0);
            }
        }
        wgmma::commit();
    }

    // The consumer's mainloop: sum = A * B over `steps` steps, at least one. One wgmma group stays in flight while the
    // previous stage is released by `release(stage)`. `issued()` is called once the last group has been issued.
    template <int HEIGHT, int REGISTERS, typename Release, typename Issued>
    __device__ __forceinline__ void mainloop(float (&sum)[HEIGHT][REGISTERS], PipelineState<STAGES>& state, int group,
                                             int steps, Release release, Issued issued) const {
        int previous = 0;
        for (int step = 0; step < steps; ++step, state.advance()) {
            mbarrier::wait(full(state.stage), state.phase);
            mma(sum, state.stage, group, step == 0);
            wgmma::wait<1>();  // for the previous step
            if (step > 0) release(previous);
            previous = state.stage;
        }
        issued();
        wgmma::wait<0>();
        release(previous);
    }

    template <int HEIGHT, int REGISTERS, typename Release>
    __device__ __forceinline__ void mainloop(float (&sum)[HEIGHT][REGISTERS], PipelineState<STAGES>& state, int group,
                                             int steps, Release release) const {
        mainloop(sum, state, group, steps, release, [] {});
    }
};
