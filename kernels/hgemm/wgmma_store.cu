// wgmma_store: C leaves through shared memory and TMA.
//
// The one idea it adds to `wgmma_cluster`: the store. There each lane stores pairs of neighbours, half a sector
// of each row at a time, and its warp waits for its turn at the memory pipe. Here a warp writes 64 columns of
// its 16 rows to a buffer of its own by stmatrix, swizzled so that no banks collide, and one lane asks TMA to take
// them to C. With two buffers a warp fills one while the other leaves; the last two leave while the next tile is
// multiplied.
//
//     warp    fill 0 | fill 1 | wait 0 read, fill 0 | wait 1 read, fill 1 | multiply ...
//     TMA              store 0 | store 1 | ...
//
// Where beta is not zero, lanes read the old C from global memory as before, in pairs. TMA stores pieces of 16 bytes: where
// n is not a multiple of 8, the last of a row would reach beyond it, and lanes store as before.
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the ring; STRIP: tile
//            columns of a strip (include/tile_order.cuh).
// Launch:    as wgmma_cluster; dynamic shared memory: the ring and 2 BM rows of 128 bytes.
// Requires:  as wgmma_cluster; a box of C: 16 x 64, swizzled over 128 bytes.

#include "include/tile_order.cuh"
#include "include/tile_out.cuh"
#include "include/tile_ring.cuh"
#include "include/warpgroup.cuh"

template <typename T, int BM, int BN, int BK, int STAGES, int STRIP>
__global__ void __cluster_dims__(2) __launch_bounds__(2 * BM + 128, 1)
hgemm_wgmma_store(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                  const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc,
                  const __grid_constant__ CUtensorMap tma_c) {
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
            out.send(sum[0], tma_c, row + group * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
        });
        out.finish();
    }
}
