// The pipeline of include/tile_pipeline.cuh for a column-major B. Both tiles are then K-major, which wgmma reads for
// any element width without transposing: a tile of B is BN rows along k like those of A, and arrives as one box.
#pragma once

#include <type_traits>

#include "include/tile_pipeline.cuh"

namespace wgmma {

// wgmma.mma_async: sum += A * B, or sum = A * B if not `add`; fp32 sums. Both operands are K-major tiles in shared
// memory (wgmma::descriptor_k_major). An instruction takes 32 bytes of k: 16 elements of 16 bits, or 8 fp32 words of
// which it reads the upper 19 bits (TF32).
#define WGMMA_K_MAJOR(SHAPE, TYPE, END)                                                    \
    asm volatile("{.reg .pred add; setp.ne.b32 add, %66, 0;"                               \
                 "wgmma.mma_async.sync.aligned." SHAPE ".f32." TYPE "." TYPE               \
                 " {" WGMMA_REGISTERS_TO_128 "}, %64, %65, add, 1, 1" END ";}"             \
                 : WGMMA_SUMS_TO_128                                                       \
                 : "l"(a), "l"(b), "r"(static_cast<int>(add))                              \
                 : "memory")

template <typename T>
__device__ __forceinline__ void mma_k_major(float (&sum)[64], uint64_t a, uint64_t b, bool add) {
    if constexpr (__is_same(T, float)) {
        WGMMA_K_MAJOR("m64n128k8", "tf32", "");
    } else if constexpr (__is_same(T, __half)) {
        WGMMA_K_MAJOR("m64n128k16", "f16", ", 0, 0");
    } else {
        WGMMA_K_MAJOR("m64n128k16", "bf16", ", 0, 0");
    }
}

#undef WGMMA_K_MAJOR

}  // namespace wgmma

template <typename T, int BM, int BN, int BK, int STAGES>
struct TilePipelineKMajor : TilePipeline<T, BM, BN, BK, STAGES> {
    using Base = TilePipeline<T, BM, BN, BK, STAGES>;
    using Base::Base;
    static_assert(BN == 128, "one wgmma covers the width of the tile");

    // As TilePipeline::load_multicast_b, but each block loads half the columns of the tile of B for both. `map_b` has
    // boxes of BN / 2 rows, which run along k.
    __device__ __forceinline__ void load_multicast_b(int stage, const CUtensorMap& map_a, const CUtensorMap& map_b,
                                                     int row, int col, int k0, int rank) const {
        mbarrier::arrive_expect_tx(this->full(stage), Base::STAGE_BYTES);
        tma::load(this->a(stage), map_a, row, k0, this->full(stage));
        const int half = rank * (BN / 2);
        tma::load_multicast(this->b(stage) + half * wgmma::ROW_BYTES, map_b, col + half, k0, this->full(stage), 0b11);
    }

    // As TilePipeline::mainloop.
    template <int HEIGHT, typename Release, typename Issued>
    __device__ __forceinline__ void mainloop(float (&sum)[HEIGHT][BN / 2], PipelineState<STAGES>& state, int group,
                                             int steps, Release release, Issued issued) const {
        constexpr int K = 32 / sizeof(T);  // per instruction
        int previous = 0;
        for (int step = 0; step < steps; ++step, state.advance()) {
            const int stage = state.stage;
            mbarrier::wait(this->full(stage), state.phase);
            wgmma::fence();
#pragma unroll
            for (int p = 0; p < BK; p += K) {
#pragma unroll
                for (int h = 0; h < HEIGHT; ++h) {
                    const uint32_t rows = this->a(stage) + (group * HEIGHT + h) * wgmma::ROWS * wgmma::ROW_BYTES;
                    wgmma::mma_k_major<T>(sum[h], wgmma::descriptor_k_major<T>(rows, p),
                                          wgmma::descriptor_k_major<T>(this->b(stage), p), step > 0 || p > 0);
                }
            }
            wgmma::commit();
            wgmma::wait<1>();  // for the previous step
            if (step > 0) release(previous);
            previous = stage;
        }
        issued();
        wgmma::wait<0>();
        release(previous);
    }
};

// The pipeline for either layout of B.
template <bool COLUMN_MAJOR_B, typename T, int BM, int BN, int BK, int STAGES>
using TilePipelineFor = std::conditional_t<COLUMN_MAJOR_B, TilePipelineKMajor<T, BM, BN, BK, STAGES>,
                                           TilePipeline<T, BM, BN, BK, STAGES>>;
