// wgmma_persistent: a block an SM, and tile after tile.
//
// The one idea it adds to `wgmma_256`: persistent blocks. There a block ends with its tile: while it stores C,
// and while the next block makes its barriers and fills its ring, the tensor cores of that SM have nothing to
// do, for only one block fits. Here as many blocks are launched as there are SMs, and each takes every such
// tile. The producer does not wait for the epilogue: it fills the ring for the next tile meanwhile.
//
//     producer    load tile 0          | load tile 1            | ...
//     consumers        multiply tile 0 | store 0 | multiply tile 1 | store 1
//
// All blocks run at a time, and they go through the tiles in strips: those that run together share their
// parts of A and B in L2.
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the ring; STRIP: tile
//            columns of a strip (include/tile_order.cuh).
// Launch:    2 BM + 128 threads (1-D): a consumer group per 64 rows, then the producer; any number of blocks
//            in x; dynamic shared memory: the ring (include/tile_ring.cuh).
// Requires:  as wgmma_tma.

#include "include/fragments.cuh"
#include "include/tile_order.cuh"
#include "include/tile_ring.cuh"
#include "include/warpgroup.cuh"

template <typename T, int BM, int BN, int BK, int STAGES, int STRIP>
__global__ void __launch_bounds__(2 * BM + 128, 1)
hgemm_wgmma_persistent(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                       const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc) {
    constexpr int CONSUMERS = BM / wgmma::ROWS;
    const int tiles_m = (m + BM - 1) / BM;
    const int tiles_n = (n + BN - 1) / BN;
    auto for_each_tile = [&](auto work) {
        for (int i = blockIdx.x; i < tiles_m * tiles_n; i += gridDim.x) {
            const TileAt tile = tile_at<STRIP>(i, tiles_m, tiles_n);
            work(tile.m * BM, tile.n * BN);
        }
    };
    if (alpha == 0.0f) {
        return for_each_tile([&](int row, int col) { scale_c<BM, BN>(row, col, m, n, beta, C, ldc); });
    }

    extern __shared__ uint8_t memory[];
    const TileRing<T, BM, BN, BK, STAGES> ring(memory);
    if (threadIdx.x == 0) ring.make_barriers(CONSUMERS);
    __syncthreads();

    const int group = threadIdx.x / wgmma::THREADS;
    const bool leader = threadIdx.x % wgmma::THREADS == 0;
    const int steps = (k + BK - 1) / BK;
    RingPlace<STAGES> place;
    if (group == CONSUMERS) {
        warpgroup::keep_registers<40>();
        if (!leader) return;
        for_each_tile([&](int row, int col) {
            for (int step = 0; step < steps; ++step, place.advance()) {
                tma::wait(ring.empty(place.stage), place.parity ^ 1);
                ring.load(place.stage, tma_a, tma_b, row, col, step * BK);
            }
        });
    } else {
        warpgroup::take_registers<232>();
        auto give_back = [&](int stage) {
            if (leader) tma::arrive(ring.empty(stage));
        };
        for_each_tile([&](int row, int col) {
            float sum[1][BN / 2];
            ring.multiply_all(sum, place, group, steps, give_back);
            store_fragments(sum[0], row + group * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
        });
    }
}
