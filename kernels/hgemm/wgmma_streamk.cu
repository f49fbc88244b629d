// wgmma_streamk: the last tiles are divided among all SMs.
//
// The one idea it adds to `wgmma_store`: stream-K (Osama et al., 2023). There 100 pairs of tiles on 66 clusters take as
// long as 132: in the second wave 32 clusters idle. Here the 34 pairs that are left after the first wave are divided by
// their steps over k. Each cluster gets an equal range of these steps, which may end in the middle of one tile and
// begin in the middle of another:
//
//     whole tiles      wave 0 | wave 1 | ... and then     tile  |  tile  |  tile
//     ranges                                            0    |    1    |    2   ...
//
// The cluster with the first steps of a tile owns it. Its peers leave their partial sums in the workspace, each
// thread's registers as they are, and set a flag; the owner adds them and runs the epilogue. A peer computes its part
// of the tile at the start of its range and the owner needs it at the end of its own, so that owners hardly wait.
//
// Dividing has a cost, about FIXUP steps: if it would gain less than that, tiles stay whole. And at most WAYS clusters
// share a tile, since its owner adds their sums one after the other.
//
// Roles:     consumers (warp groups 0 .. BM / 64 - 1, 64 rows each); producer (the last warp group, one thread of it).
// Pipeline:  as wgmma_cluster.
// Timeline:  producer    load work unit 0 | load work unit 1 | ... | producer tail
//            consumer    mainloop | store partial sums, set flag                              (a peer's unit)
//                        mainloop | wait for the peers' flags, add their sums | epilogue      (an owner's unit)
//                        mainloop | epilogue                                                  (a whole tile)
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the pipeline; STRIP: tile columns of
//            a strip (include/tile_scheduler.cuh); FIXUP, WAYS: see include/stream_k.cuh.
// Launch:    as wgmma_store, but no more blocks than are resident at the same time, for owners wait for their peers.
//            Workspace: BM x BN floats a block; flags: one per 64 rows for each block, zero before the first launch,
//            and zero again after each.
// Requires:  as wgmma_store.
// Run:       make try KERNEL=hgemm_wgmma_streamk_bf16

#include "include/stream_k.cuh"
#include "include/tile_pipeline.cuh"
#include "include/tile_scheduler.cuh"
#include "include/tma_epilogue.cuh"
#include "include/warpgroup.cuh"

template <typename T, int BM, int BN, int BK, int STAGES, int STRIP, int FIXUP, int WAYS>
__global__ void __cluster_dims__(2) __launch_bounds__(2 * BM + 128, 1)
hgemm_wgmma_streamk(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                    const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc,
                    const __grid_constant__ CUtensorMap tma_c, void* workspace, void* flags) {
    constexpr int CONSUMERS = BM / wgmma::ROWS;
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
    using Epilogue = TmaEpilogue<T, BN>;
    using Pipeline = TilePipeline<T, BM, BN, BK, STAGES>;
    const int group = threadIdx.x / wgmma::THREADS;
    const int thread = threadIdx.x % wgmma::THREADS;
    // The buffers of C come first in shared memory, then the pipeline.
    const Epilogue epilogue{Pipeline(memory).tiles + threadIdx.x / 32 * Epilogue::BYTES_PER_WARP};
    const Pipeline pipeline(memory + 4 * CONSUMERS * Epilogue::BYTES_PER_WARP);
    if (threadIdx.x == 0) {
        tma::prefetch_descriptor(tma_a);
        tma::prefetch_descriptor(tma_b);
        pipeline.init_barriers(2 * CONSUMERS);
    }
    cluster::arrive_relaxed();
    cluster::wait();

    PipelineState<STAGES> state;
    if (group == CONSUMERS) {
        warpgroup::reg_dealloc<40>();
        if (thread == 0) {
            for_each_work_unit([&](int row, int col, int, int first, int last) {
                for (int step = first; step < last; ++step, state.advance()) {
                    mbarrier::wait(pipeline.empty(state.stage), state.phase ^ 1);
                    pipeline.load_multicast_b(state.stage, tma_a, tma_b, row, col, step * BK, rank);
                }
            });
            pipeline.producer_tail(state);
        }
    } else {
        warpgroup::reg_alloc<232>();
        const PartialSums<CONSUMERS, BN / 2> partial{static_cast<float4*>(workspace), static_cast<unsigned*>(flags)};
        auto release = [&](int stage) {
            if (thread < 2) mbarrier::arrive_remote(pipeline.empty(stage), thread);
        };
        for_each_work_unit([&](int row, int col, int tile, int first, int last) {
            float sum[1][BN / 2];
            pipeline.mainloop(sum, state, group, last - first, release);
            if (first > 0) return partial.store(sum, group, 1 + group);
            if (last < steps) {
                scheduler.for_each_peer(tile, [&](int peer) { partial.reduce(sum, 2 * peer + rank, group, 1 + group); });
            }
            epilogue.store(sum[0], tma_c, row + group * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
        });
        epilogue.wait();
    }
}
