// tma: tiles by TMA, FMAs all the time.
//
// The one idea it adds to `t128x256x8_cpasync`, with its lanes apart: the Tensor Memory Accelerator brings the tiles. One
// thread asks for a whole tile; there twelve copies a thread and their addresses took 4% of the issue slots. Tiles are
// four times as long along k, so the block meets a quarter as often. What A costs is a transpose, which TMA does not do
// (include/fma_ring.cuh).
//
// All is done by the same 256 threads. A warp of its own for TMA would cost registers, 168 instead of 255 a thread. And
// with setmaxnreg, which moves them, ptxas no longer takes care in which bank a register lies: 58% of the FMAs then read
// two new ones of the same bank, instead of 10%.
//
// Template:  BM, BN, BK: the block's tile; STAGES: of the ring; STRIP: tile columns of a strip (include/tile_order.cuh);
//            FLIP: the order of the sums' rows (include/fma_ring.cuh).
// Launch:    256 threads (1-D), a block an SM; dynamic shared memory: the ring and two more tiles of A.
// Requires:  lda, ldb, ldc multiples of 4; A, B, C 16-byte aligned; sm_90a. Boxes: BM x BK of A, swizzled over 128 bytes,
//            BK x BN of B.

#include "include/fma_ring.cuh"
#include "include/tile_order.cuh"

template <int BM, int BN, int BK, int STAGES, int STRIP, int FLIP>
__global__ void __launch_bounds__(256, 1)
sgemm_tma(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
          const __grid_constant__ CUtensorMap tma_b, float beta, float* C, int ldc) {
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
    using Ring = FmaRing<BM, BN, BK, STAGES, FLIP>;
    const Ring ring(memory);
    if (threadIdx.x == 0) ring.make_barriers();

    RingPlace<STAGES> place;
    for_each_tile([&](int row, int col) {
        __syncthreads();  // the barriers are there; later: all tiles have been read
        float sum[Ring::TM][Ring::TN] = {};
        ring.multiply_all(sum, place, (k + BK - 1) / BK, [&](int stage, int step) {
            ring.load(stage, tma_a, tma_b, row, col, step * BK);
        });
        ring.store(sum, row, col, m, n, alpha, beta, C, ldc);
    });
}
