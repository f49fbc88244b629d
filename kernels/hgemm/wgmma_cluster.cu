// wgmma_cluster: two SMs fetch B once.
//
// The one idea it adds to `wgmma_persistent`: clusters with multicast. There two blocks one below the other
// fetch the same tile of B, each from L2. Here they are a cluster: each fetches half of the tile and the copy
// arrives in both, so that per step an SM asks L2 for 128 x 64 elements of A and 64 x 128 of B, not 64 x 256.
//
//     block 0   A rows 0..127     B rows 0..31 of the step ----+---> both
//     block 1   A rows 128..255   B rows 32..63 of the step ---+---> both
//
// A stage is empty only when the consumers of both blocks have done with it, so they tell both. No block may
// end while the other still writes to it: the producer waits until all its stages have been handed back.
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the ring; STRIP: tile
//            columns of a strip (include/tile_order.cuh).
// Launch:    2 BM + 128 threads (1-D): a consumer group per 64 rows, then the producer; clusters of two blocks
//            in x, any number; dynamic shared memory: the ring (include/tile_ring.cuh).
// Requires:  as wgmma_tma, but boxes of B have 32 rows.

#include "include/fragments.cuh"
#include "include/tile_order.cuh"
#include "include/tile_ring.cuh"
#include "include/warpgroup.cuh"

template <typename T, int BM, int BN, int BK, int STAGES, int STRIP>
__global__ void __cluster_dims__(2) __launch_bounds__(2 * BM + 128, 1)
hgemm_wgmma_cluster(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                    const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc) {
    constexpr int CONSUMERS = BM / wgmma::ROWS;
    const int rank = cluster::rank();
    const int pairs_m = (m + 2 * BM - 1) / (2 * BM);  // a cluster computes two tiles, one below the other
    const int tiles_n = (n + BN - 1) / BN;
    auto for_each_tile = [&](auto work) {
        for (int i = blockIdx.x / 2; i < pairs_m * tiles_n; i += gridDim.x / 2) {
            const TileAt pair = tile_at<STRIP>(i, pairs_m, tiles_n);
            work((2 * pair.m + rank) * BM, pair.n * BN);
        }
    };
    if (alpha == 0.0f) {
        return for_each_tile([&](int row, int col) { scale_c<BM, BN>(row, col, m, n, beta, C, ldc); });
    }

    extern __shared__ uint8_t memory[];
    const TileRing<T, BM, BN, BK, STAGES> ring(memory);
    if (threadIdx.x == 0) {
        tma::prefetch(tma_a);
        tma::prefetch(tma_b);
        ring.make_barriers(2 * CONSUMERS);
    }
    cluster::meet_relaxed();

    const int group = threadIdx.x / wgmma::THREADS;
    const int thread = threadIdx.x % wgmma::THREADS;
    const int steps = (k + BK - 1) / BK;
    RingPlace<STAGES> place;
    if (group == CONSUMERS) {
        warpgroup::keep_registers<40>();
        if (thread == 0) {
            for_each_tile([&](int row, int col) {
                for (int step = 0; step < steps; ++step, place.advance()) {
                    tma::wait(ring.empty(place.stage), place.parity ^ 1);
                    ring.load_shared_b(place.stage, tma_a, tma_b, row, col, step * BK, rank);
                }
            });
            ring.drain(place);
        }
    } else {
        warpgroup::take_registers<232>();
        auto give_back = [&](int stage) {
            if (thread < 2) tma::arrive_in(ring.empty(stage), thread);
        };
        for_each_tile([&](int row, int col) {
            float sum[1][BN / 2];
            ring.multiply_all(sum, place, group, steps, give_back);
            store_fragments(sum[0], row + group * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
        });
    }
}
