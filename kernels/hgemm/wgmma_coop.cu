// wgmma_coop: cooperative tiles of any shape, whole or divided, with clusters kept in step.
//
// What it adds to `wgmma_streamk`: the shape of the tile and of the cluster are parameters, so that the longer operand is
// always the one that a cluster shares (include/cluster_pipeline.cuh). A 256 x 192 tile in a cluster of 1 x 2 asks L2 for
// 6.5 bytes per 1000 FLOP, where 128 x 256 in 2 x 1 asks for 7.8. Column-major B is a parameter, too. The epilogue works
// in batches (include/batched_epilogue.cuh), and what is not needed is not compiled: with FIXUP = 0 no divided tiles,
// with INTERVAL = 0 no bound on the drift of clusters (include/cluster_progress.cuh).
//
// Roles:     consumers (warp groups 0 and 1, half of the rows of a tile each); producer (warp group 2, one thread of it).
// Pipeline:  full[STAGES]: 1 arrival, the own producer's, and the bytes of a stage. empty[STAGES]: 2 arrivals from each
//            block that shares a tile of the stage with this one, itself included.
// Timeline:  producer    load tile 0 | load tile 1                | load tile 2 ...
//            consumers               | mainloop 0    | epilogue 0 | mainloop 1    | epilogue 1 ...
//
// Template:  T: __nv_bfloat16 or __half; COLUMN_MAJOR_B; BM, BN: the tile; STAGES: of the pipeline; CM, CN: blocks of a
//            cluster down and across; STRIP: cluster columns of a strip (include/tile_scheduler.cuh); BUFFERS: of C, for
//            each warp; INTERVAL: steps over k between two looks at the progress of the others, 0: none; FIXUP, WAYS: see
//            include/stream_k.cuh, FIXUP = 0: all tiles whole.
// Launch:    384 threads (1-D); clusters of CM x CN blocks in x, no more than are resident at the same time; dynamic
//            shared memory: the buffers of C, the pipeline and 1024 bytes to align it. Workspace: BM x BN floats a block;
//            flags: 16 bytes and 8 a block, zero before the first launch, and zero again after each.
// Requires:  lda, ldb, ldc multiples of 8; 16-byte aligned matrices. Boxes: BM / CN x 64 of A; BN / CM x 64 of B's
//            columns, or 64 / CM x 64 of its rows; 16 x 64 of C; swizzled over 128 bytes.
// Run:       make try KERNEL=hgemm_wgmma_coop_bf16

#include "include/batched_epilogue.cuh"
#include "include/cluster_pipeline.cuh"
#include "include/cluster_progress.cuh"
#include "include/tile_scheduler.cuh"
#include "include/warpgroup.cuh"
#include "include/work_scheduler.cuh"

template <typename T, bool COLUMN_MAJOR_B, int BM, int BN, int STAGES, int CM, int CN, int STRIP, int BUFFERS,
          int INTERVAL, int FIXUP, int WAYS>
__global__ void __cluster_dims__(CM * CN) __launch_bounds__(384, 1)
hgemm_wgmma_coop(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                 const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc,
                 const __grid_constant__ CUtensorMap tma_c, void* workspace, void* flags) {
    constexpr int CONSUMERS = 2;
    constexpr int HEIGHT = BM / CONSUMERS / wgmma::ROWS;  // of a consumer's part of the tile
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
    if (threadIdx.x == 0) {
        tma::prefetch_descriptor(tma_a);
        tma::prefetch_descriptor(tma_b);
        pipeline.init_barriers(CONSUMERS * Pipeline::READERS);
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
        for_each_work_unit([&](int row, int col, int tile, int first, int last) {
            float sum[HEIGHT][BN / 2];
            pipeline.mainloop_wide(sum, state, group, last - first, rank, [] {});
            if constexpr (FIXUP > 0) {
                const PartialSums<CONSUMERS, HEIGHT * BN / 2> partial{static_cast<float4*>(workspace),
                                                                      static_cast<unsigned*>(flags) + 4};
                if (first > 0) return partial.store(sum, group, 1 + group);
                if (last < steps) {
                    scheduler.for_each_peer(
                        tile, [&](int peer) { partial.reduce(sum, CM * CN * peer + rank, group, 1 + group); });
                }
            }
            epilogue.store(sum, tma_c, row + group * HEIGHT * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
        });
        epilogue.wait();
    }
}
