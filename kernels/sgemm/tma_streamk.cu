// tma_streamk: the last tiles are divided among all blocks.
//
// The one idea it adds to `tma`: stream-K, as in hgemm's wgmma_streamk (include/stream_k.cuh). At n = 4096 the 512 tiles
// keep 132 SMs busy for 3.9 rounds, which take as long as four. Here the 116 of the last round are divided by their steps
// over k, an equal stretch for each block.
//
// What a block leaves for another are its sums, four words a store. The four begin at an odd one: a store wants them in
// neighbouring registers, the first a multiple of four, as a load wants those of B. Beginning at the first, each sum would
// lie in the same bank as the word of B that is multiplied into it.
//
// Template:  as tma; FIXUP, WAYS: see include/stream_k.cuh.
// Launch:    as tma, not more blocks than run at a time. Workspace: BM x BN floats a block; flags: two a block, zero
//            before the first launch, and zero again after each.
// Requires:  as tma.

#include "include/fma_ring.cuh"
#include "include/stream_k.cuh"
#include "include/tile_order.cuh"

template <int BM, int BN, int BK, int STAGES, int STRIP, int FLIP, int FIXUP, int WAYS>
__global__ void __launch_bounds__(256, 1)
sgemm_tma_streamk(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                  const __grid_constant__ CUtensorMap tma_b, float beta, float* C, int ldc, void* workspace,
                  void* flags) {
    const int tiles_m = (m + BM - 1) / BM;
    const int tiles_n = (n + BN - 1) / BN;
    const int steps = (k + BK - 1) / BK;
    const Share<FIXUP, WAYS> share(gridDim.x, blockIdx.x, tiles_m * tiles_n, steps);
    auto for_each_part = [&](auto work) {  // work(row, column, tile, first step, the step after the last)
        share.for_each([&](int tile, int first, int last) {
            const TileAt at = tile_at<STRIP>(tile, tiles_m, tiles_n);
            work(at.m * BM, at.n * BN, tile, first, last);
        });
    };
    if (alpha == 0.0f) {
        return for_each_part([&](int row, int col, int, int first, int) {
            if (first == 0) scale_c<BM, BN>(row, col, m, n, beta, C, ldc);
        });
    }

    extern __shared__ uint8_t memory[];
    using Ring = FmaRing<BM, BN, BK, STAGES, FLIP>;
    constexpr int GROUPS = Ring::THREADS / wgmma::THREADS, SUMS = Ring::TM * Ring::TN;
    const PartialSums<GROUPS, SUMS, 1> partial{static_cast<float4*>(workspace), static_cast<unsigned*>(flags)};
    const int group = threadIdx.x / wgmma::THREADS;
    const Ring ring(memory);
    if (threadIdx.x == 0) ring.make_barriers();

    RingPlace<STAGES> place;
    for_each_part([&](int row, int col, int tile, int first, int last) {
        __syncthreads();  // the barriers are there; later: all tiles have been read
        float sum[Ring::TM][Ring::TN] = {};
        ring.multiply_all(sum, place, last - first, [&](int stage, int step) {
            ring.load(stage, tma_a, tma_b, row, col, (first + step) * BK);
        });
        if (first > 0) return partial.put(sum, group, 1 + group);
        if (last < steps) {
            share.for_others(tile, [&](int block) { partial.add(sum, block, group, 1 + group); });
        }
        ring.store(sum, row, col, m, n, alpha, beta, C, ldc);
    });
}
