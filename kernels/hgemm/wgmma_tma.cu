// wgmma_tma: one thread requests the tiles, and the Tensor Memory Accelerator copies them.
//
// The one idea it adds to `wgmma_smem`: TMA. There every thread computes addresses and bounds for its chunks of each
// tile and tracks its own copies. Here one thread names a box of the matrix; a unit of the SM copies and swizzles it
// and fills with zeros what lies beyond the edge. Whoever needs the tile waits on an mbarrier, which counts the bytes.
//
//     per step of 64 over k        wgmma_smem                    wgmma_tma
//     copies issued                2048, by 256 threads          3, by one thread
//     to wait for them             wait_group, __syncthreads     an mbarrier
//
// Roles:     thread 0 requests tiles; all warp groups multiply.
// Pipeline:  full[STAGES]: 1 arrival, thread 0's, and the bytes of a stage. The block's barrier takes the place of
//            `empty`.
// Timeline:  thread 0      load STAGES stages |                                                load |
//            all           wait full, wgmma, wait for it | __syncthreads (stage read by all) |  next step ...
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the pipeline.
// Launch:    2 BM threads (1-D), a warp group per 64 rows; grid x over tiles of n, y over tiles of m; dynamic shared
//            memory: the pipeline (include/tile_pipeline.cuh).
// Requires:  lda, ldb, ldc multiples of 8; A, B, C 16-byte aligned; sm_90a. Boxes: BM x BK of A, BK x 64 of B, swizzled
//            over 128 bytes.
// Run:       make try KERNEL=hgemm_wgmma_tma_bf16

#include "include/fragments.cuh"
#include "include/tile_pipeline.cuh"
#include "include/tile_scheduler.cuh"

template <typename T, int BM, int BN, int BK, int STAGES>
__global__ void __launch_bounds__(2 * BM)
hgemm_wgmma_tma(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc) {
    const TileCoord tile = block_tile();
    const int row = tile.m * BM;
    const int col = tile.n * BN;
    if (alpha == 0.0f) return scale_c<BM, BN>(row, col, m, n, beta, C, ldc);

    extern __shared__ uint8_t memory[];
    const TilePipeline<T, BM, BN, BK, STAGES> pipeline(memory);
    const bool leader = threadIdx.x == 0;
    const int steps = (k + BK - 1) / BK;
    if (leader) {
        pipeline.init_barriers(1);
        for (int step = 0; step < min(STAGES, steps); ++step) {
            pipeline.load(step, tma_a, tma_b, row, col, step * BK);
        }
    }
    __syncthreads();

    const int group = threadIdx.x / wgmma::THREADS;
    float sum[1][BN / 2];
    PipelineState<STAGES> state;
    for (int step = 0; step < steps; ++step, state.advance()) {
        mbarrier::wait(pipeline.full(state.stage), state.phase);
        pipeline.mma(sum, state.stage, group, step == 0);
        wgmma::wait<0>();
        __syncthreads();  // all warps have multiplied this stage
        const int next = step + STAGES;
        if (leader && next < steps) pipeline.load(state.stage, tma_a, tma_b, row, col, next * BK);
    }
    store_fragments(sum[0], row + group * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
}
