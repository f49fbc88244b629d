// wgmma_ws: one warp group brings, the others multiply.
//
// The one idea it adds to `wgmma_tma`: warp specialization. There everybody meets after each step, so that
// the next tiles can be asked for, and the tensor cores wait for the slowest. Here a warp group of its own,
// the producer, runs ahead as far as the ring has room; the others, consumers, wait for nothing but tiles.
// A barrier for each stage and direction says that it is full, or empty again.
//
//     producer    wait empty 0, load 0 | wait empty 1, load 1 | wait empty 2, ...
//     consumers             wait full 0, multiply, empty 0 | wait full 1, multiply, empty 1 | ...
//
// The producer needs few registers and the consumers many: each consumer keeps one group of wgmma under way
// while it hands back the stage before. A block has as many for each thread when it starts; setmaxnreg moves
// them. With BN = 256, 128 of a consumer's registers are sums, and a byte of shared memory feeds twice the
// FLOP that it does with 128: wgmma_256.
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the ring.
// Launch:    2 BM + 128 threads (1-D): a consumer group per 64 rows, then the producer; grid x over tiles of n,
//            y over tiles of m; dynamic shared memory: the ring (include/tile_ring.cuh).
// Requires:  as wgmma_tma.

#include "include/fragments.cuh"
#include "include/grid.cuh"
#include "include/tile_ring.cuh"
#include "include/warpgroup.cuh"

template <typename T, int BM, int BN, int BK, int STAGES>
__global__ void __launch_bounds__(2 * BM + 128, 1)
hgemm_wgmma_ws(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
               const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc) {
    constexpr int CONSUMERS = BM / wgmma::ROWS;
    const TilePlace tile = tile_in_strips();
    const int row = tile.m * BM;
    const int col = tile.n * BN;
    if (alpha == 0.0f) return scale_c<BM, BN>(row, col, m, n, beta, C, ldc);

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
        for (int step = 0; step < steps; ++step, place.advance()) {
            tma::wait(ring.empty(place.stage), place.parity ^ 1);  // in the first round: of the phase before the first
            ring.load(place.stage, tma_a, tma_b, row, col, step * BK);
        }
    } else {
        warpgroup::take_registers<232>();
        auto give_back = [&](int stage) {
            if (leader) tma::arrive(ring.empty(stage));
        };
        float sum[1][BN / 2];
        ring.multiply_all(sum, place, group, steps, give_back);
        store_fragments(sum[0], row + group * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
    }
}
