// wgmma_pingpong_wide: ping-pong that holds on a card with less L2.
//
// What it adds to `wgmma_pingpong`: less traffic. There, 128 x 128 tiles ask L2 for 11.7 bytes per 1000 FLOP, and clusters
// drift apart until they no longer find in L2 what another one has read: on an H100 it reads 68 GB from DRAM at n = 16384,
// where A and B have 1. Here a consumer's tile is 128 x 192, all that its registers hold, which asks for 9.1; and with
// INTERVAL > 0 no cluster runs ahead (include/cluster_progress.cuh), which takes three quarters of the DRAM reads away.
// Both layouts of B, the epilogue and the schedulers are those of `wgmma_coop`.
//
// Roles:     consumers (warp groups 0 and 1, a whole tile each); producer (warp group 2, one thread of it).
// Pipeline:  full[STAGES]: 1 arrival, the own producer's, and the bytes of a stage. empty[STAGES]: 1 arrival from each
//            block that shares a tile of the stage with this one, itself included. order_barrier[2]: 1 arrival, the other
//            consumer's, once it has issued the last wgmma of its tile.
// Timeline:  as wgmma_pingpong.
//
// Template:  as wgmma_coop.
// Launch:    as wgmma_coop, with two more mbarriers; flags: 16 bytes and 4 a block.
// Requires:  as wgmma_coop.
// Run:       make try KERNEL=hgemm_wgmma_pingpong_wide_bf16

#include "include/batched_epilogue.cuh"
#include "include/cluster_pipeline.cuh"
#include "include/cluster_progress.cuh"
#include "include/tile_scheduler.cuh"
#include "include/warpgroup.cuh"
#include "include/work_scheduler.cuh"

template <typename T, bool COLUMN_MAJOR_B, int BM, int BN, int STAGES, int CM, int CN, int STRIP, int BUFFERS,
          int INTERVAL, int FIXUP, int WAYS>
__global__ void __cluster_dims__(CM * CN) __launch_bounds__(384, 1)
hgemm_wgmma_pingpong_wide(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                          const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc,
                          const __grid_constant__ CUtensorMap tma_c, void* workspace, void* flags) {
    constexpr int CONSUMERS = 2;
    constexpr int HEIGHT = BM / wgmma::ROWS;  // of a tile
    using Epilogue = BatchedEpilogue<T, HEIGHT, BN, BUFFERS>;
    using Pipeline = ClusterPipeline<T, COLUMN_MAJOR_B, BM, BN, STAGES, CM, CN>;
    const int rank = cluster::rank();
    const int clusters = gridDim.x / (CM * CN);
    const int tiles_m = (m + CM * BM - 1) / (CM * BM);  // a cluster's tile is CM x CN tiles
    const int tiles_n = (n + CN * BN - 1) / (CN * BN);
    const int steps = (k + Pipeline::BK - 1) / Pipeline::BK;
    const WorkScheduler<FIXUP, WAYS> scheduler(clusters, blockIdx.x / (CM * CN), tiles_m * tiles_n, steps);
    auto for_each_work_unit = [&](auto work) {  // work(row, column, tile, first step, the step after the last)
        scheduler.for_each([&](int tile, int first, int last) {
            const TileCoord at = tile_coord<STRIP>(tile, tiles_m, tiles_n);
            const int tile_m = CM * at.m + Pipeline::row_of(rank), tile_n = CN * at.n + Pipeline::column_of(rank);
            work(tile_m * BM, tile_n * BN, tile, first, last);
        });
    };
    if (alpha == 0.0f) {
        return for_each_work_unit([&](int row, int col, int, int first, int) {
            if (first == 0) scale_c<BM, BN>(row, col, m, n, beta, C, ldc);
        });
    }

    extern __shared__ uint8_t memory[];
    const int group = threadIdx.x / wgmma::THREADS;
    const int thread = threadIdx.x % wgmma::THREADS;
    // The buffers of C come first in shared memory, then the pipeline.
    const Epilogue epilogue{Pipeline(memory).tiles + threadIdx.x / 32 * Epilogue::BYTES_PER_WARP};
    const Pipeline pipeline(memory + 4 * CONSUMERS * Epilogue::BYTES_PER_WARP);
    auto order_barrier = [&](int group) { return pipeline.end() + 8 * group; };
    if (threadIdx.x == 0) {
        tma::prefetch_descriptor(tma_a);
        tma::prefetch_descriptor(tma_b);
        pipeline.init_barriers(Pipeline::READERS);
        for (int g = 0; g < CONSUMERS; ++g) mbarrier::init(order_barrier(g), 1);
        mbarrier::fence_init();
    }
    cluster::arrive_relaxed();

    PipelineState<STAGES> state;
    if (group == CONSUMERS) {
        warpgroup::reg_dealloc<40>();
        cluster::wait();
        if (thread == 0) {
            const ClusterProgress progress{static_cast<unsigned*>(flags), static_cast<unsigned>(clusters)};
            int interval = 0;
            int full_waves = scheduler.whole_tiles / clusters;  // those that are left in which every cluster has a tile
            for_each_work_unit([&](int row, int col, int, int first, int last) {
#pragma unroll 1
                for (int step = first; step < last; ++step, state.advance()) {
                    if constexpr (INTERVAL > 0) {
                        if (rank == 0 && full_waves > 0 && step % INTERVAL == 0) progress.advance(interval++);
                    }
                    mbarrier::wait(pipeline.empty(state.stage), state.phase ^ 1);
                    pipeline.load_parts(state.stage, tma_a, tma_b, row, col, step * Pipeline::BK, rank);
                }
                --full_waves;
            });
            if (INTERVAL > 0 && rank == 0) progress.end();
            pipeline.producer_tail(state);
        }
    } else {
        warpgroup::reg_alloc<232>();
        cluster::wait();
        int unit = 0;
        for_each_work_unit([&](int row, int col, int tile, int first, int last) {
            const int round = unit / CONSUMERS;
            if (unit++ % CONSUMERS != group) return state.advance(last - first);
            mbarrier::wait(order_barrier(group), group == 0 ? round + 1 & 1 : round & 1);  // group 0 enters first
            float sum[HEIGHT][BN / 2];
            pipeline.mainloop_wide(sum, state, 0, last - first, rank, [&] {
                if (thread == 0) mbarrier::arrive(order_barrier(1 - group));
            });
            if constexpr (FIXUP > 0) {
                const PartialSums<1, HEIGHT * BN / 2> partial{static_cast<float4*>(workspace),
                                                              static_cast<unsigned*>(flags) + 4};
                if (first > 0) return partial.store(sum, 0, 1 + group);
                if (last < steps) {
                    scheduler.for_each_peer(tile,
                                            [&](int peer) { partial.reduce(sum, CM * CN * peer + rank, 0, 1 + group); });
                }
            }
            epilogue.store(sum, tma_c, row, col, m, n, alpha, beta, C, ldc);
        });
        epilogue.wait();
    }
}
