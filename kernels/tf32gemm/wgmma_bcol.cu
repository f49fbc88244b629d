// wgmma_bcol: a column-major B, and a tile per warp group.
//
// The one idea it adds to `wgmma`: with a column-major B both tiles are K-major, as wgmma requires for TF32. It reads
// both where TMA has put them, without a detour through registers, and the kernel becomes that of
// hgemm/wgmma_pingpong.cu with its B column-major: clusters of two that share the tile of B, stream-K, and mainloops that alternate with
// epilogues. A pair of sums is 8 bytes of C and four lanes have a whole sector, so the epilogue stores straight from
// the fragments.
//
// Roles, pipeline, timeline: as hgemm/wgmma_pingpong.cu.
//
// With INTERVAL > 0 no cluster runs ahead of the others (include/cluster_progress.cuh).
//
// Template:  BM, BN, BK: a tile; STAGES: of the pipeline; STRIP: tile columns of a strip (include/tile_scheduler.cuh);
//            INTERVAL: steps over k between two looks at the progress of the others, 0: none; FIXUP, WAYS: see
//            include/stream_k.cuh.
// Launch:    384 threads (1-D); clusters of two blocks in x, no more blocks than are resident at the same time; dynamic
//            shared memory: the pipeline and two mbarriers. Workspace: BM x BN floats a block; flags: 4 bytes a block, and
//            16 before them if INTERVAL > 0; zero before the first launch, and zero again after each.
// Requires:  lda, ldb (from column to column), ldc multiples of 4; A, B, C 16-byte aligned; sm_90a. Boxes: BM x BK of
//            A, BN / 2 x BK of B's columns, swizzled over 128 bytes.
// Run:       make try KERNEL=tf32gemm_wgmma_bcol

#include "include/cluster_progress.cuh"
#include "include/fragments.cuh"
#include "include/stream_k.cuh"
#include "include/tile_pipeline_k_major.cuh"
#include "include/tile_scheduler.cuh"
#include "include/warpgroup.cuh"

template <int BM, int BN, int BK, int STAGES, int STRIP, int INTERVAL, int FIXUP, int WAYS>
__global__ void __cluster_dims__(2) __launch_bounds__(384, 1)
tf32gemm_wgmma_bcol(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                    const __grid_constant__ CUtensorMap tma_b, float beta, float* C, int ldc, void* workspace,
                    void* flags) {
    constexpr int CONSUMERS = 2;
    constexpr int HEIGHT = BM / wgmma::ROWS;  // of a tile
    const int rank = cluster::rank();
    const int pairs_m = (m + 2 * BM - 1) / (2 * BM);  // a cluster computes two tiles, one below the other
    const int tiles_n = (n + BN - 1) / BN;
    const int steps = (k + BK - 1) / BK;
    const StreamKScheduler<FIXUP, WAYS> scheduler(gridDim.x / 2, blockIdx.x / 2, pairs_m * tiles_n, steps);
    auto for_each_work_unit = [&](auto work) {  // work(row, column, tile, first step, the step after the last)
        scheduler.for_each([&](int tile, int first, int last) {
            const TileCoord pair = tile_coord<STRIP>(tile, pairs_m, tiles_n);
            work((2 * pair.m + rank) * BM, pair.n * BN, tile, first, last);
        });
    };
    if (alpha == 0.0f) {
        return for_each_work_unit([&](int row, int col, int, int first, int) {
            if (first == 0) scale_c<BM, BN>(row, col, m, n, beta, C, ldc);
        });
    }

    extern __shared__ uint8_t memory[];
    const TilePipelineKMajor<float, BM, BN, BK, STAGES> pipeline(memory);
    const int group = threadIdx.x / wgmma::THREADS;
    const int thread = threadIdx.x % wgmma::THREADS;
    auto order_barrier = [&](int group) { return pipeline.end() + 8 * group; };
    if (threadIdx.x == 0) {
        tma::prefetch_descriptor(tma_a);
        tma::prefetch_descriptor(tma_b);
        pipeline.init_barriers(2);  // a stage is read by one consumer in each block
        for (int g = 0; g < CONSUMERS; ++g) mbarrier::init(order_barrier(g), 1);
        mbarrier::fence_init();
    }
    cluster::arrive_relaxed();
    cluster::wait();

    PipelineState<STAGES> state;
    if (group == CONSUMERS) {
        warpgroup::reg_dealloc<40>();
        if (thread == 0) {
            const ClusterProgress progress{static_cast<unsigned*>(flags), gridDim.x / 2};
            int interval = 0;
            int full_waves = scheduler.whole_tiles / (gridDim.x / 2);  // that are left, in which every cluster has a tile
            for_each_work_unit([&](int row, int col, int, int first, int last) {
                for (int step = first; step < last; ++step, state.advance()) {
                    if constexpr (INTERVAL > 0) {
                        if (rank == 0 && full_waves > 0 && step % INTERVAL == 0) progress.advance(interval++);
                    }
                    mbarrier::wait(pipeline.empty(state.stage), state.phase ^ 1);
                    pipeline.load_multicast_b(state.stage, tma_a, tma_b, row, col, step * BK, rank);
                }
                --full_waves;
            });
            if (INTERVAL > 0 && rank == 0) progress.end();
            pipeline.producer_tail(state);
        }
    } else {
        warpgroup::reg_alloc<232>();
        const PartialSums<1, HEIGHT * BN / 2> partial{static_cast<float4*>(workspace),
                                                      static_cast<unsigned*>(flags) + (INTERVAL > 0 ? 4 : 0)};
        auto release = [&](int stage) {
            if (thread < 2) mbarrier::arrive_remote(pipeline.empty(stage), thread);
        };
        int unit = 0;
        for_each_work_unit([&](int row, int col, int tile, int first, int last) {
            const int round = unit / CONSUMERS;
            if (unit++ % CONSUMERS != group) return state.advance(last - first);
            mbarrier::wait(order_barrier(group), group == 0 ? round + 1 & 1 : round & 1);  // group 0 enters first
            float sum[HEIGHT][BN / 2];
            pipeline.mainloop(sum, state, 0, last - first, release, [&] {
                if (thread == 0) mbarrier::arrive(order_barrier(1 - group));
            });
            if (first > 0) return partial.store(sum, 0, 1 + group);
            if (last < steps) {
                scheduler.for_each_peer(tile, [&](int peer) { partial.reduce(sum, 2 * peer + rank, 0, 1 + group); });
            }
#pragma unroll
            for (int h = 0; h < HEIGHT; ++h) {
                store_fragments(sum[h], row + h * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
            }
        });
    }
}
