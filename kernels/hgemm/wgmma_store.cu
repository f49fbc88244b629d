// wgmma_store: C leaves through shared memory and TMA.
//
// The one idea it adds to `wgmma_cluster`: the store. There each lane stores pairs of neighbours, half a sector
// of each row at a time, and its warp waits for its turn at the memory pipe. Here a consumer group writes 64
// columns of its 64 rows to a buffer of its own, swizzled so that no banks collide, and one thread asks TMA to
// take them to C, edges and all. With two buffers a group fills one while the other leaves; the last two leave
// while the next tile is multiplied.
//
//     group    fill 0 | fill 1 | wait 0 read, fill 0 | wait 1 read, fill 1 | multiply ...
//     TMA               store 0 | store 1 | ...
//
// Where beta is not zero, lanes read the old C from global memory as before, in pairs.
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the ring; STRIP: tile
//            columns of a strip (include/tile_order.cuh).
// Launch:    as wgmma_cluster; dynamic shared memory: the ring and 2 BM rows of 128 bytes.
// Requires:  as wgmma_tma; a box of C: 64 x 64, swizzled over 128 bytes.

#include "include/fragments.cuh"
#include "include/tile_order.cuh"
#include "include/tile_ring.cuh"
#include "include/warpgroup.cuh"

template <typename T, int BM, int BN, int BK, int STAGES, int STRIP>
__global__ void __cluster_dims__(2) __launch_bounds__(2 * BM + 128, 1)
hgemm_wgmma_store(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                  const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc,
                  const __grid_constant__ CUtensorMap tma_c) {
    constexpr int CONSUMERS = BM / wgmma::ROWS;
    constexpr int OUT_BYTES = wgmma::ROWS * wgmma::ROW_BYTES;  // of a buffer on its way to C
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
    const uint32_t out = Ring(memory).tiles;  // the buffers first, the ring behind them
    const Ring ring(memory + 2 * CONSUMERS * OUT_BYTES);
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

            row += group * wgmma::ROWS;
#pragma unroll
            for (int c = 0; c < BN; c += Ring::BOX) {
                const uint32_t buffer = out + (2 * group + c / Ring::BOX % 2) * OUT_BYTES;
                if (thread == 0) tma::wait_stores_read<1>();  // the store of two pieces ago has left this buffer
                warpgroup::meet(1 + group);
                stage_fragments<T>(&sum[c / 2], buffer, row, col + c, m, n, alpha, beta, C, ldc);
                tma::fence_async();
                warpgroup::meet(1 + group);
                if (thread == 0) {
                    if (row < m && col + c < n) tma::store(tma_c, row, col + c, buffer);
                    tma::commit_stores();
                }
            }
        });
        if (thread == 0) tma::wait_stores();
    }
    __syncwarp();
    cluster::meet();
}
