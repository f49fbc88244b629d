// wgmma_cluster: two SMs fetch B once.
//
// The one idea it adds to `wgmma_persistent`: clusters with multicast. There two blocks one below the other
// fetch the same tile of B, each from L2. Here they are a cluster: each fetches half of the tile and the copy
// arrives in both, so that per step an SM asks L2 for 128 x 64 elements of A and 64 x 128 of B, not 64 x 256.
//
//     block 0   A rows 0..127     B columns 0..127 ----+---> both
//     block 1   A rows 128..255   B columns 128..255 --+---> both
//
// A stage is empty only when the consumers of both blocks have done with it, so they tell both. No block may
// end while the other still writes to it: they meet once more at the end.
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the ring; STRIP: tile
//            columns of a strip (include/tile_order.cuh).
// Launch:    2 BM + 128 threads (1-D): a consumer group per 64 rows, then the producer; clusters of two blocks
//            in x, any number; dynamic shared memory: the ring (include/tile_ring.cuh).
// Requires:  as wgmma_tma.

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
    using Ring = TileRing<T, BM, BN, BK, STAGES>;
    const Ring ring(memory);
    if (threadIdx.x == 0) ring.make_barriers(2 * CONSUMERS);
    cluster::meet();

    const int group = threadIdx.x / wgmma::THREADS;
    const int thread = threadIdx.x % wgmma::THREADS;
    const int steps = (k + BK - 1) / BK;
    RingPlace<STAGES> place;
    if (group == CONSUMERS) {
        warpgroup::keep_registers<40>();
        if (thread == 0) {
            for_each_tile([&](int row, int col) {
                for (int step = 0; step < steps; ++step, place.advance()) {
                    const int stage = place.stage;
                    tma::wait(ring.empty(stage), place.parity ^ 1);
                    tma::expect(ring.full(stage), Ring::STAGE_BYTES);
                    tma::load(ring.a(stage), tma_a, row, step * BK, ring.full(stage));
#pragma unroll
                    for (int half = 0; half < BN / 2; half += Ring::BOX) {
                        const int c = rank * (BN / 2) + half;
                        tma::load_multicast(ring.b(stage) + c / Ring::BOX * BK * wgmma::ROW_BYTES, tma_b, step * BK,
                                            col + c, ring.full(stage), 0b11);
                    }
                }
            });
        }
    } else {
        warpgroup::take_registers<232>();
        auto give_back = [&](int stage) {
            if (thread < 2) tma::arrive_in(ring.empty(stage), thread);
        };
        for_each_tile([&](int row, int col) {
            float sum[BN / 2];
            int before = 0;
            for (int step = 0; step < steps; ++step, place.advance()) {
                tma::wait(ring.full(place.stage), place.parity);
                ring.multiply(sum, place.stage, group, step == 0);
                wgmma::wait<1>();  // the step before
                if (step > 0) give_back(before);
                before = place.stage;
            }
            wgmma::wait<0>();
            give_back(before);
            store_fragments(sum, row + group * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
        });
    }
    __syncwarp();
    cluster::meet();
}
