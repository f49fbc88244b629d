// wgmma_cluster: two SMs share each load of B.
//
// The one idea it adds to `wgmma_persistent`: clusters with multicast. There two blocks with tiles one below the other
// load the same tile of B, each from L2. Here they form a cluster: each requests half of the tile, and TMA writes the
// half to both blocks. Per step an SM then reads 128 x 64 elements of A and 32 x 256 of B from L2, instead of 64 x 256
// of B.
//
//     block 0   A rows 0..127     B rows 0..31 of the step ----+---> both
//     block 1   A rows 128..255   B rows 32..63 of the step ---+---> both
//
// Roles:     consumers (warp groups 0 .. BM / 64 - 1, 64 rows each); producer (the last warp group, one thread of it).
// Pipeline:  full[STAGES]: 1 arrival, the own producer's, and the bytes of a stage, which both producers load.
//            empty[STAGES]: an arrival per consumer of both blocks: a stage may be overwritten once neither block reads
//            it, so each consumer arrives in both blocks.
// Timeline:  producer    wait empty, load A and half of B | ... | producer tail
//            consumer    wait full, wgmma, release in both blocks | ... | epilogue | next tile
//
// The producer tail waits until all stages have been released: a block must not exit while the other one still writes
// to its shared memory.
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the pipeline; STRIP: tile columns of
//            a strip (include/tile_scheduler.cuh).
// Launch:    2 BM + 128 threads (1-D); clusters of two blocks in x, any number of them; dynamic shared memory: the
//            pipeline (include/tile_pipeline.cuh).
// Requires:  as wgmma_tma, but boxes of B have 32 rows.
// Run:       make try KERNEL=hgemm_wgmma_cluster_bf16

#include "include/fragments.cuh"
#include "include/tile_pipeline.cuh"
#include "include/tile_scheduler.cuh"
#include "include/warpgroup.cuh"

template <typename T, int BM, int BN, int BK, int STAGES, int STRIP>
__global__ void __cluster_dims__(2) __launch_bounds__(2 * BM + 128, 1)
hgemm_wgmma_cluster(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                    const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc) {
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
    const TilePipeline<T, BM, BN, BK, STAGES> pipeline(memory);
    if (threadIdx.x == 0) {
        tma::prefetch_descriptor(tma_a);
        tma::prefetch_descriptor(tma_b);
        pipeline.init_barriers(2 * CONSUMERS);
    }
    cluster::arrive_relaxed();
    cluster::wait();

    const int group = threadIdx.x / wgmma::THREADS;
    const int thread = threadIdx.x % wgmma::THREADS;
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
            store_fragments(sum[0], row + group * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
        });
    }
}
