// wgmma_store: the epilogue goes through shared memory and TMA.
//
// The one idea it adds to `wgmma_cluster`: the epilogue. There each lane stores pairs of neighbours straight from its
// fragments, half a sector of each row at a time, and its warp stalls on the memory pipe. Here a warp writes 64 columns
// of its 16 rows to a buffer of its own by stmatrix, swizzled against bank conflicts, and one lane issues a TMA store
// of the buffer. With two buffers a warp fills one while TMA reads the other; the last two stores overlap the mainloop
// of the next tile.
//
// Roles:     consumers (warp groups 0 .. BM / 64 - 1, 64 rows each); producer (the last warp group, one thread of it).
// Pipeline:  as wgmma_cluster. The buffers of C belong to one warp each; it waits for TMA by bulk groups, without
//            barriers.
// Timeline:  producer    load tile 0                    | load tile 1                               | ...
//            consumer    mainloop 0 | epilogue 0        | mainloop 1                                | ...
//              its warps              fill 0, store 0 | fill 1, store 1 | wait 0 read, fill 0, store 0 | ...
//
// If beta is not zero, lanes read the old C from global memory in pairs. TMA stores 16-byte chunks: if n is not a
// multiple of 8, the last chunk of a row would reach beyond the row, and lanes store from their fragments as in
// `wgmma_cluster`.
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the pipeline; STRIP: tile columns of
//            a strip (include/tile_scheduler.cuh).
// Launch:    as wgmma_cluster; dynamic shared memory: the pipeline and 2 BM rows of 128 bytes.
// Requires:  as wgmma_cluster; a box of C: 16 x 64, swizzled over 128 bytes.
// Run:       make try KERNEL=hgemm_wgmma_store_bf16

#include "include/tile_pipeline.cuh"
#include "include/tile_scheduler.cuh"
#include "include/tma_epilogue.cuh"
#include "include/warpgroup.cuh"

template <typename T, int BM, int BN, int BK, int STAGES, int STRIP>
__global__ void __cluster_dims__(2) __launch_bounds__(2 * BM + 128, 1)
hgemm_wgmma_store(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                  const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc,
                  const __grid_constant__ CUtensorMap tma_c) {
    constexpr int CONSUMERS = BM / wgmma::ROWS;
    const int rank = cluster::rank();
    const int pairs_m = (m + 2 * BM - 1) / (2 * BM);  // a cluster computes two tiles, one below the other
    const int tiles_n = (n + BN - 1) / BN;
    auto for_each_tile = [&](auto work) {  // work(row, column)
        for (int i = blockIdx.x / 2; i < pairs_m * tiles_n; i += gridDim.x / 2) {
            const TileCoord pair = tile_coord<STRIP>(i, pairs_m, tiles_n);
            work((2 * pair.m + rank) * BM, pair.n * BN);
        }
    };
    if (alpha == 0.0f) {
        return for_each_tile([&](int row, int col) { scale_c<BM, BN>(row, col, m, n, beta, C, ldc); });
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

    const int steps = (k + BK - 1) / BK;
    PipelineState<STAGES> state;
    if (group == CONSUMERS) {
        warpgroup::reg_dealloc<40>();
        if (thread == 0) {
            for_each_tile([&](int row, int col) {
                for (int step = 0; step < steps; ++step, state.advance()) {
                    mbarrier::wait(pipeline.empty(state.stage), state.phase ^ 1);
                    pipeline.load_multicast_b(state.stage, tma_a, tma_b, row, col, step * BK, rank);
                }
            });
            pipeline.producer_tail(state);
        }
    } else {
        warpgroup::reg_alloc<232>();
        auto release = [&](int stage) {
            if (thread < 2) mbarrier::arrive_remote(pipeline.empty(stage), thread);
        };
        for_each_tile([&](int row, int col) {
            float sum[1][BN / 2];
            pipeline.mainloop(sum, state, group, steps, release);
            epilogue.store(sum[0], tma_c, row + group * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
        });
        epilogue.wait();
    }
}
