// wgmma_ws: one warp group loads, the others multiply.
//
// The one idea it adds to `wgmma_tma`: warp specialization. There the whole block synchronizes after each step before
// the next tiles can be requested, so the tensor cores wait for the slowest warp. Here a dedicated producer warp group
// runs ahead as far as there are empty stages, and the consumers wait for nothing but tiles.
//
// Roles:     consumers (warp groups 0 .. BM / 64 - 1, 64 rows each); producer (the last warp group, one thread of it).
// Pipeline:  full[STAGES]: 1 arrival, the producer's, and the bytes of a stage. empty[STAGES]: an arrival per consumer.
// Timeline:  producer    wait empty 0, load 0 | wait empty 1, load 1 | wait empty 2, ...
//            consumer              wait full 0, wgmma 0 | wait full 1, wgmma 1, wait for wgmma 0, release 0 | ...
//
// The producer needs few registers and the consumers many, for a consumer keeps one wgmma group in flight while it
// releases the previous stage. All threads of a block start with the same number; setmaxnreg moves registers from the
// producer to the consumers. With BN = 256 (`wgmma_256`) 128 of a consumer's registers are accumulators, and a byte
// read from shared memory feeds twice the FLOP that it does with 128.
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the pipeline.
// Launch:    2 BM + 128 threads (1-D); grid x over tiles of n, y over tiles of m; dynamic shared memory: the pipeline
//            (include/tile_pipeline.cuh).
// Requires:  as wgmma_tma.
// Run:       make try KERNEL=hgemm_wgmma_ws_bf16

#include "include/fragments.cuh"
#include "include/tile_pipeline.cuh"
#include "include/tile_scheduler.cuh"
#include "include/warpgroup.cuh"

template <typename T, int BM, int BN, int BK, int STAGES>
__global__ void __launch_bounds__(2 * BM + 128, 1)
hgemm_wgmma_ws(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
               const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc) {
    constexpr int CONSUMERS = BM / wgmma::ROWS;
    const TileCoord tile = block_tile();
    const int row = tile.m * BM;
    const int col = tile.n * BN;
    if (alpha == 0.0f) return scale_c<BM, BN>(row, col, m, n, beta, C, ldc);

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
        for (int step = 0; step < steps; ++step, state.advance()) {
            mbarrier::wait(pipeline.empty(state.stage), state.phase ^ 1);  // completes at once in the first round
            pipeline.load(state.stage, tma_a, tma_b, row, col, step * BK);
        }
    } else {
        warpgroup::reg_alloc<232>();
        auto release = [&](int stage) {
            if (leader) mbarrier::arrive(pipeline.empty(stage));
        };
        float sum[1][BN / 2];
        pipeline.mainloop(sum, state, group, steps, release);
        store_fragments(sum[0], row + group * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
    }
}
