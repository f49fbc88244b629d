// wgmma_tma: one thread asks, and the Tensor Memory Accelerator copies.
//
// The one idea it adds to `wgmma_smem`: TMA. There each thread works out addresses and edges for its pieces
// of every tile, and keeps count of its copies. Here one thread names a box of the matrix, and a unit of the
// SM copies it, swizzles it, and fills up with zeros beyond the edge. Whoever needs the tile waits on a
// barrier in shared memory that counts the bytes.
//
//     per step of 64 over k        wgmma_smem              wgmma_tma
//     copies issued                2048, by 256 threads    3, by one
//     to know that they are there  wait_group, a barrier   an mbarrier each
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the ring.
// Launch:    2 BM threads (1-D), a warp group per 64 rows; grid x over tiles of n, y over tiles of m;
//            dynamic shared memory: the ring (include/tile_ring.cuh).
// Requires:  lda, ldb, ldc multiples of 8; A, B, C 16-byte aligned; sm_90a. Boxes: BM x BK of A, BK x 64 of B,
//            swizzled over 128 bytes.

#include "include/fragments.cuh"
#include "include/grid.cuh"
#include "include/tile_ring.cuh"

template <typename T, int BM, int BN, int BK, int STAGES>
__global__ void __launch_bounds__(2 * BM)
hgemm_wgmma_tma(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc) {
    const TilePlace tile = tile_in_strips();
    const int row = tile.m * BM;
    const int col = tile.n * BN;
    if (alpha == 0.0f) return scale_c<BM, BN>(row, col, m, n, beta, C, ldc);

    extern __shared__ uint8_t memory[];
    const TileRing<T, BM, BN, BK, STAGES> ring(memory);
    const bool leader = threadIdx.x == 0;
    const int steps = (k + BK - 1) / BK;
    if (leader) {
        ring.make_barriers(1);
        for (int step = 0; step < min(STAGES, steps); ++step) {
            ring.load(step, tma_a, tma_b, row, col, step * BK);
        }
    }
    __syncthreads();

    const int group = threadIdx.x / wgmma::THREADS;
    float sum[1][BN / 2];
    RingPlace<STAGES> place;
    for (int step = 0; step < steps; ++step, place.advance()) {
        tma::wait(ring.full(place.stage), place.parity);
        ring.multiply(sum, place.stage, group, step == 0);
        wgmma::wait<0>();
        __syncthreads();  // nobody multiplies this stage any more
        const int next = step + STAGES;
        if (leader && next < steps) ring.load(place.stage, tma_a, tma_b, row, col, next * BK);
    }
    store_fragments(sum[0], row + group * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
}
