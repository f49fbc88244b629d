// wgmma_streamk: the last tiles are divided among all.
//
// The one idea it adds to `wgmma_store`: stream-K (Osama et al., 2023). There 100 pairs of tiles on 66 clusters take as
// long as 132: in the second round 32 clusters have nothing to do. Here the 34 that are left after the first round are
// divided by their steps over k, not by their number. Each cluster takes an equal stretch, which ends in the middle of
// one tile or begins in the middle of another:
//
//     whole tiles      round 0 | round 1 | ... and then     tile  |  tile  |  tile
//     stretches                                           0    |    1    |    2   ...
//
// Who begins a tile finishes it: it adds what the others have summed up of it, which they leave in the workspace, each
// thread's registers as they lie, under a flag. They had it at the start of their stretch, and hardly anyone waits. All
// blocks must run at a time, for they wait for each other.
//
// Dividing costs time too, about FIXUP steps' worth: less than that to gain, and tiles stay whole. And at most WAYS
// clusters share a tile, for who finishes it adds one part after the other.
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the ring; STRIP: tile columns of a
//            strip (include/tile_order.cuh); FIXUP, WAYS: see above.
// Launch:    as wgmma_store, not more blocks than run at a time. Workspace: BM x BN floats a block; flags: one per 64
//            rows for each block, zero before the first launch, and zero again after each.
// Requires:  as wgmma_store.

#include "include/stream_k.cuh"
#include "include/tile_order.cuh"
#include "include/tile_out.cuh"
#include "include/tile_ring.cuh"
#include "include/warpgroup.cuh"

template <typename T, int BM, int BN, int BK, int STAGES, int STRIP, int FIXUP, int WAYS>
__global__ void __cluster_dims__(2) __launch_bounds__(2 * BM + 128, 1)
hgemm_wgmma_streamk(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                    const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc,
                    const __grid_constant__ CUtensorMap tma_c, void* workspace, void* flags) {
    constexpr int CONSUMERS = BM / wgmma::ROWS;
    const int rank = cluster::rank();
    const int pairs_m = (m + 2 * BM - 1) / (2 * BM);  // a cluster computes two tiles, one below the other
    const int tiles_n = (n + BN - 1) / BN;
    const int steps = (k + BK - 1) / BK;
    const Share<FIXUP, WAYS> share(gridDim.x / 2, blockIdx.x / 2, pairs_m * tiles_n, steps);
    auto for_each_part = [&](auto work) {  // work(row, column, tile, first step, the step after the last)
        share.for_each([&](int tile, int first, int last) {
            const TileAt pair = tile_at<STRIP>(tile, pairs_m, tiles_n);
            work((2 * pair.m + rank) * BM, pair.n * BN, tile, first, last);
        });
    };
    if (alpha == 0.0f) {
        return for_each_part([&](int row, int col, int, int first, int) {
            if (first == 0) scale_c<BM, BN>(row, col, m, n, beta, C, ldc);
        });
    }

    extern __shared__ uint8_t memory[];
    using Out = TileOut<T, BN>;
    using Ring = TileRing<T, BM, BN, BK, STAGES>;
    const int group = threadIdx.x / wgmma::THREADS;
    const int thread = threadIdx.x % wgmma::THREADS;
    const Out out{Ring(memory).tiles + threadIdx.x / 32 * Out::BYTES_PER_WARP};  // the buffers first, the ring behind them
    const Ring ring(memory + 4 * CONSUMERS * Out::BYTES_PER_WARP);
    if (threadIdx.x == 0) {
        tma::prefetch(tma_a);
        tma::prefetch(tma_b);
        ring.make_barriers(2 * CONSUMERS);
    }
    cluster::meet_relaxed();

    RingPlace<STAGES> place;
    if (group == CONSUMERS) {
        warpgroup::keep_registers<40>();
        if (thread == 0) {
            for_each_part([&](int row, int col, int, int first, int last) {
                for (int step = first; step < last; ++step, place.advance()) {
                    tma::wait(ring.empty(place.stage), place.parity ^ 1);
                    ring.load_shared_b(place.stage, tma_a, tma_b, row, col, step * BK, rank);
                }
            });
            ring.drain(place);
        }
    } else {
        warpgroup::take_registers<232>();
        const PartialSums<CONSUMERS, BN / 2> partial{static_cast<float4*>(workspace), static_cast<unsigned*>(flags)};
        auto give_back = [&](int stage) {
            if (thread < 2) tma::arrive_in(ring.empty(stage), thread);
        };
        for_each_part([&](int row, int col, int tile, int first, int last) {
            float sum[1][BN / 2];
            ring.multiply_all(sum, place, group, last - first, give_back);
            if (first > 0) return partial.put(sum, group, 1 + group);
            if (last < steps) {
                share.for_others(tile, [&](int cluster) { partial.add(sum, 2 * cluster + rank, group, 1 + group); });
            }
            out.send(sum[0], tma_c, row + group * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
        });
        out.finish();
    }
}
