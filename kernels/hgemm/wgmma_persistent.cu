// wgmma_persistent: a block per SM that computes tile after tile.
//
// The one idea it adds to `wgmma_256`: persistent blocks. There a block ends with its tile: while it stores C, and
// while the next block initializes its barriers and fills its pipeline, the tensor cores of that SM idle, for only one
// block fits. Here there are as many blocks as SMs, each of which computes many tiles. The producer does not wait for
// the epilogue, but fills the pipeline for the next tile in the meantime.
//
// Roles:     consumers (warp groups 0 .. BM / 64 - 1, 64 rows each); producer (the last warp group, one thread of it).
// Pipeline:  full[STAGES]: 1 arrival, the producer's, and the bytes of a stage. empty[STAGES]: an arrival per consumer.
//            The state runs on from tile to tile.
// Timeline:  producer    load tile 0          | load tile 1               | ...
//            consumer         mainloop tile 0 | epilogue 0 | mainloop tile 1 | epilogue 1
//
// The tile scheduler goes through the tiles in strips, so that blocks share their parts of A and B in L2.
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the pipeline; STRIP: tile columns of
//            a strip (include/tile_scheduler.cuh).
// Launch:    2 BM + 128 threads (1-D); any number of blocks in x; dynamic shared memory: the pipeline
//            (include/tile_pipeline.cuh).
// Requires:  as wgmma_tma.
// Run:       make try KERNEL=hgemm_wgmma_persistent_bf16

#include "include/fragments.cuh"
#include "include/tile_pipeline.cuh"
#include "include/tile_scheduler.cuh"
#include "include/warpgroup.cuh"

template <typename T, int BM, int BN, int BK, int STAGES, int STRIP>
__global__ void __launch_bounds__(2 * BM + 128, 1)
hgemm_wgmma_persistent(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                       const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc) {
    constexpr int CONSUMERS = BM / wgmma::ROWS;
    const int tiles_m = (m + BM - 1) / BM;
    const int tiles_n = (n + BN - 1) / BN;
    auto for_each_tile = [&](auto work) {  // work(row, column)
        for (int i = blockIdx.x; i < tiles_m * tiles_n; i += gridDim.x) {
            const TileCoord tile = tile_coord<STRIP>(i, tiles_m, tiles_n);
            work(tile.m * BM, tile.n * BN);
        }
    };
    if (alpha == 0.0f) {
        return for_each_tile([&](int row, int col) { scale_c<BM, BN>(row, col, m, n, beta, C, ldc); });
    }

    extern __shared__ uint8_t memory[];
    const TilePipeline<T, BM, BN, BK, STAGES> pipeline(memory);
    if (threadIdx.x == 0) pipeline.init_barriers(CONSUMERS);
    __syncthreads();

    const int group = threadIdx.x / wgmma::THREADS;
    const bool leader = threadIdx.x % wgmma::THREADS == 0;
    const int steps = (k + BK - 1) / BK;
    PipelineState<STAGES> state;
    if (group == CONSUMERS) {
        warpgroup::reg_dealloc<40>();
        if (!leader) return;
        for_each_tile([&](int row, int col) {
            for (int step = 0; step < steps; ++step, state.advance()) {
                mbarrier::wait(pipeline.empty(state.stage), state.phase ^ 1);
                pipeline.load(state.stage, tma_a, tma_b, row, col, step * BK);
            }
        });
    } else {
        warpgroup::reg_alloc<232>();
        auto release = [&](int stage) {
            if (leader) mbarrier::arrive(pipeline.empty(stage));
        };
        for_each_tile([&](int row, int col) {
            float sum[1][BN / 2];
            pipeline.mainloop(sum, state, group, steps, release);
            store_fragments(sum[0], row + group * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
        });
    }
}
