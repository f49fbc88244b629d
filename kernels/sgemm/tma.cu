// tma: TMA loads the tiles, and the threads issue FMAs.
//
// The one idea it adds to `t128x256x8_cpasync` with APART lanes: the Tensor Memory Accelerator. One thread requests a
// whole tile; there, twelve copies a thread and their addresses took 4% of the issue slots. Tiles are four times as
// long along k, so the block synchronizes a quarter as often. The price is a transpose of A, which TMA does not do
// (include/fma_pipeline.cuh).
//
// Roles:     none; the same 256 threads request tiles (thread 0), transpose A and multiply. A producer warp would cost
//            registers, 168 instead of 255 a thread. And with setmaxnreg, which moves registers, ptxas stops
//            considering register banks: 58% of the FMAs then read two new registers of the same bank, instead of 10%.
// Pipeline:  full[STAGES]: 1 arrival, thread 0's, and the bytes of a stage. The block's barrier takes the place of
//            `empty`.
// Timeline:  thread 0    load STAGES stages                | load
//            all         wait full 0, transpose 0 | FMAs 0 | wait full 1, transpose 1 | __syncthreads | FMAs 1 | ...
//
// Template:  BM, BN, BK: the block's tile; STAGES: of the pipeline; STRIP: tile columns of a strip
//            (include/tile_scheduler.cuh); FLIP: the order of the sums' rows (include/fma_pipeline.cuh).
// Launch:    256 threads (1-D), a block per SM; dynamic shared memory: the pipeline and two more tiles of A.
// Requires:  lda, ldb, ldc multiples of 4; A, B, C 16-byte aligned; sm_90a. Boxes: BM x BK of A, swizzled over 128
//            bytes, BK x BN of B.
// Run:       make try KERNEL=sgemm_tma

#include "include/fma_pipeline.cuh"
#include "include/tile_scheduler.cuh"

template <int BM, int BN, int BK, int STAGES, int STRIP, int FLIP>
__global__ void __launch_bounds__(256, 1)
sgemm_tma(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
          const __grid_constant__ CUtensorMap tma_b, float beta, float* C, int ldc) {
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
    using Pipeline = FmaPipeline<BM, BN, BK, STAGES, FLIP>;
    const Pipeline pipeline(memory);
    if (threadIdx.x == 0) pipeline.init_barriers();

    PipelineState<STAGES> state;
    for_each_tile([&](int row, int col) {
        __syncthreads();  // the barriers are initialized; later: all tiles have been read
        float sum[Pipeline::TM][Pipeline::TN] = {};
        pipeline.mainloop(sum, state, (k + BK - 1) / BK, [&](int stage, int step) {
            pipeline.load(stage, tma_a, tma_b, row, col, step * BK);
        });
        pipeline.store(sum, row, col, m, n, alpha, beta, C, ldc);
    });
}
