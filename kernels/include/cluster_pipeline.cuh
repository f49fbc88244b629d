// The pipeline of include/tile_pipeline.cuh for clusters of CM x CN blocks and for either layout of B. The blocks in a
// row of the cluster need the same tile of A, those in a column the same tile of B. Each block loads its part of a
// shared tile, and multicast writes the part to all blocks that need it:
//
//     CM x CN = 2 x 1:  each block loads its own A and half of B        1 x 2:  half of A and its own B
//
// Sharing the longer of the two operands saves more: a 128 x 256 tile in a 2 x 1 cluster and a 256 x 128 tile in a 1 x 2
// cluster ask L2 for 7.8 bytes per 1000 FLOP, the other way round for 9.8.
#pragma once

#include "include/tile_pipeline.cuh"
#include "include/wgmma_wide.cuh"

template <typename T, bool COLUMN_MAJOR_B, int BM, int BN, int STAGES, int CM, int CN>
struct ClusterPipeline : TilePipeline<T, BM, BN, wgmma::ROW_BYTES / sizeof(T), STAGES> {
    static constexpr int BK = wgmma::ROW_BYTES / sizeof(T);
    using Base = TilePipeline<T, BM, BN, BK, STAGES>;
    using Base::Base;
    static constexpr int PART_OF_A = BM / CN;                          // rows of A that a block loads
    static constexpr int PART_OF_B = (COLUMN_MAJOR_B ? BN : BK) / CM;  // columns of B, or rows of each of its boxes
    static_assert(PART_OF_A % 8 == 0 && PART_OF_B % 8 == 0, "whole atoms");
    static constexpr int READERS = CM + CN - 1;  // blocks that must release a stage before this block may refill it

    static __device__ __forceinline__ int row_of(int rank) { return rank / CN; }
    static __device__ __forceinline__ int column_of(int rank) { return rank % CN; }

    // Called by one thread of each block's producer: this block's parts, for all blocks that need them. `map_a`: boxes of
    // PART_OF_A x BK; `map_b`: PART_OF_B x BK of the columns of B, or PART_OF_B x 64 of its rows.
    __device__ __forceinline__ void load_parts(int stage, const CUtensorMap& map_a, const CUtensorMap& map_b, int row,
                                               int col, int k0, int rank) const {
        const uint32_t full = this->full(stage);
        mbarrier::arrive_expect_tx(full, Base::STAGE_BYTES);
        auto load = [&](uint32_t to, const CUtensorMap& map, int first_row, int first_col, int sharing, uint16_t blocks) {
            if (sharing == 1) {
                tma::load(to, map, first_row, first_col, full);
            } else {
                tma::load_multicast(to, map, first_row, first_col, full, blocks);
            }
        };
        const uint16_t cluster_row = ((1 << CN) - 1) << row_of(rank) * CN;
        const uint16_t cluster_column = ((1 << CM * CN) - 1) / ((1 << CN) - 1) << column_of(rank);
        const int part_a = column_of(rank) * PART_OF_A, part_b = row_of(rank) * PART_OF_B;
        load(this->a(stage) + part_a * wgmma::ROW_BYTES, map_a, row + part_a, k0, CN, cluster_row);
        const uint32_t b = this->b(stage) + part_b * wgmma::ROW_BYTES;
        if constexpr (COLUMN_MAJOR_B) {
            load(b, map_b, col + part_b, k0, CM, cluster_column);
        } else {
#pragma unroll
            for (int c = 0; c < BN; c += Base::BOX) {
                load(b + c / Base::BOX * BK * wgmma::ROW_BYTES, map_b, k0 + part_b, col + c, CM, cluster_column);
            }
        }
    }

    // Called by a consumer that has read a stage: signals every block that loads for this one, itself included.
    __device__ __forceinline__ void release(int stage, int rank) const {
        const int block = threadIdx.x % wgmma::THREADS;
        if (block < CM * CN && (row_of(block) == row_of(rank) || column_of(block) == column_of(rank))) {
            mbarrier::arrive_remote(this->empty(stage), block);
        }
    }

    // As TilePipeline::mainloop. The loop is not unrolled: a launch on few tiles spends a good part of its time on
    // fetching instructions.
    template <int HEIGHT, typename Issued>
    __device__ __forceinline__ void mainloop_wide(float (&sum)[HEIGHT][BN / 2], PipelineState<STAGES>& state, int group,
                                                  int steps, int rank, Issued issued) const {
        int previous = 0;
#pragma unroll 1
        for (int step = 0; step < steps; ++step, state.advance()) {
            const int stage = state.stage;
            mbarrier::wait(this->full(stage), state.phase);
            wgmma::fence();
#pragma unroll
            for (int p = 0; p < BK; p += 16) {
                const uint64_t b = COLUMN_MAJOR_B ? wgmma::descriptor_k_major<T>(this->b(stage), p)
                                                  : wgmma::descriptor_mn_major<T, BK>(this->b(stage), p);
#pragma unroll
                for (int h = 0; h < HEIGHT; ++h) {
                    const uint32_t rows = this->a(stage) + (group * HEIGHT + h) * wgmma::ROWS * wgmma::ROW_BYTES;
                    wgmma::mma_wide<T, COLUMN_MAJOR_B>(sum[h], wgmma::descriptor_k_major<T>(rows, p), b,
                                                       step > 0 || p > 0);
                }
            }
            wgmma::commit();
            wgmma::wait<1>();  // for the previous step
            if (step > 0) release(previous, rank);
            previous = stage;
        }
        issued();
        wgmma::wait<0>();
        release(previous, rank);
    }
};
