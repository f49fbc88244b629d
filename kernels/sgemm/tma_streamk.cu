// tma_streamk: the last tiles are divided among all blocks.
//
// The one idea it adds to `tma`: stream-K, as in hgemm's wgmma_streamk (include/stream_k.cuh). At n = 4096 the 512
// tiles keep 132 SMs busy for 3.9 waves, which take as long as four. Here the 116 tiles of the last wave are divided by
// their steps over k, an equal range for each block.
//
// A block leaves its partial sums for another one four words a store, which takes four neighbouring registers, the
// first a multiple of four. The groups of four begin at an odd sum: beginning at the first, each sum would lie in the
// same register bank as the word of B that it is multiplied by, for the loads of B have the same alignment.
//
// Roles, pipeline: as tma.
// Timeline:  as tma, per work unit; then store partial sums, or add the peers' and run the epilogue (wgmma_streamk).
//
// Template:  as tma; FIXUP, WAYS: see include/stream_k.cuh.
// Launch:    as tma, no more blocks than are resident at the same time. Workspace: BM x BN floats a block; flags: two a
//            block, zero before the first launch, and zero again after each.
// Requires:  as tma.
// Run:       make try KERNEL=sgemm_tma_streamk

#include "include/fma_pipeline.cuh"
#include "include/stream_k.cuh"
#include "include/tile_scheduler.cuh"

template <int BM, int BN, int BK, int STAGES, int STRIP, int FLIP, int FIXUP, int WAYS>
__global__ void __launch_bounds__(256, 1)
sgemm_tma_streamk(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                  const __grid_constant__ CUtensorMap tma_b, float beta, float* C, int ldc, void* workspace,
                  void* flags) {
    const int tiles_m = (m + BM - 1) / BM;
    const int tiles_n = (n + BN - 1) / BN;
    const int steps = (k + BK - 1) / BK;
    const StreamKScheduler<FIXUP, WAYS> scheduler(gridDim.x, blockIdx.x, tiles_m * tiles_n, steps);
    auto for_each_work_unit = [&](auto work) {  // work(row, column, tile, first step, the step after the last)
        scheduler.for_each([&](int tile, int first, int last) {
            const TileCoord at = tile_coord<STRIP>(tile, tiles_m, tiles_n);
            work(at.m * BM, at.n * BN, tile, first, last);
        });
    };
    if (alpha == 0.0f) {
        return for_each_work_unit([&](int row, int col, int, int first, int) {
            if (first == 0) scale_c<BM, BN>(row, col, m, n, beta, C, ldc);
        });
    }

    extern __shared__ uint8_t memory[];
    using Pipeline = FmaPipeline<BM, BN, BK, STAGES, FLIP>;
    constexpr int GROUPS = Pipeline::THREADS / wgmma::THREADS, SUMS = Pipeline::TM * Pipeline::TN;
    const PartialSums<GROUPS, SUMS, 1> partial{static_cast<float4*>(workspace), static_cast<unsigned*>(flags)};
    const int group = threadIdx.x / wgmma::THREADS;
    const Pipeline pipeline(memory);
    if (threadIdx.x == 0) pipeline.init_barriers();

    PipelineState<STAGES> state;
    for_each_work_unit([&](int row, int col, int tile, int first, int last) {
        __syncthreads();  // the barriers are initialized; later: all tiles have been read
        float sum[Pipeline::TM][Pipeline::TN] = {};
        pipeline.mainloop(sum, state, last - first, [&](int stage, int step) {
            pipeline.load(stage, tma_a, tma_b, row, col, (first + step) * BK);
        });
        if (first > 0) return partial.store(sum, group, 1 + group);
        if (last < steps) {
            scheduler.for_each_peer(tile, [&](int block) { partial.reduce(sum, block, group, 1 + group); });
        }
        pipeline.store(sum, row, col, m, n, alpha, beta, C, ldc);
    });
}
