// splitk: tiles of any size, divided along k among all blocks, on tensor cores.
//
// The one idea it adds to `wgmma_streamk`: blocks that share a tile add it up together (include/split_k.cuh, as in sgemm's
// splitk). There one block adds up what others have left, so that at most four pairs share a tile of 128 x 256, and a
// product of 512 x 512 keeps 16 pairs of 66 busy. Here tiles may be small, several blocks share a multiprocessor, and all
// of them share what there is.
//
// One warp brings tiles by TMA, a warp group per 64 rows multiplies them. Small tiles ask more of L2 for each product than
// large ones: 128 bytes a cycle for 64 x 64 where the tensor cores are never to wait, 48 for 128 x 256. They are for
// problems that larger ones leave multiprocessors idle on.
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the ring; BLOCKS: of a multiprocessor;
//            FIXUP, LEAST: see include/split_k.cuh.
// Launch:    2 BM + 32 threads (1-D), BLOCKS a multiprocessor: all run at a time; dynamic shared memory: BM / 64 times 16
//            KB for C, then the ring (include/tile_ring.cuh). Workspace: 2 BM BN floats a block; flags: 4 bytes a block,
//            zero before the first launch, and zero again after each.
// Requires:  lda, ldb, ldc multiples of 8; A, B, C 16-byte aligned; sm_90a. Boxes: BM x BK of A, BK x 64 of B, 16 x 64 of
//            C, swizzled over 128 bytes.

#include "include/fragments.cuh"
#include "include/split_k.cuh"
#include "include/tile_order.cuh"
#include "include/tile_out.cuh"
#include "include/tile_ring.cuh"

template <typename T, int BM, int BN, int BK, int STAGES, int BLOCKS, int FIXUP, int LEAST>
__global__ void __launch_bounds__(2 * BM + 32, BLOCKS)
hgemm_splitk(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
             const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc,
             const __grid_constant__ CUtensorMap tma_c, void* workspace, void* flags) {
    constexpr int CONSUMERS = BM / wgmma::ROWS, THREADS = CONSUMERS * wgmma::THREADS;
    const int tiles_m = (m + BM - 1) / BM, tiles_n = (n + BN - 1) / BN;
    const Division<FIXUP, LEAST> division(gridDim.x, tiles_m * tiles_n, (k + BK - 1) / BK);
    auto corner = [&](int tile) {
        const TileAt at = tile_at<8>(tile, tiles_m, tiles_n);
        return TileAt{at.m * BM, at.n * BN};
    };
    if (alpha == 0.0f) {
        return division.for_each(blockIdx.x, [&](int tile, int first, int) {
            if (first == 0) scale_c<BM, BN>(corner(tile).m, corner(tile).n, m, n, beta, C, ldc);
        });
    }

    extern __shared__ uint8_t memory[];
    using Out = TileOut<T, BN>;
    using Ring = TileRing<T, BM, BN, BK, STAGES>;
    const Out out{Ring(memory).tiles + threadIdx.x / 32 * Out::BYTES_PER_WARP};  // the buffers first, the ring behind them
    const Ring ring(memory + 4 * CONSUMERS * Out::BYTES_PER_WARP);
    if (threadIdx.x == THREADS) {
        tma::prefetch(tma_a);
        tma::prefetch(tma_b);
        ring.make_barriers(CONSUMERS);
    }
    __syncthreads();

    RingPlace<STAGES> place;
    if (threadIdx.x >= THREADS) {
        if (threadIdx.x > THREADS) return;
        division.for_each(blockIdx.x, [&](int tile, int first, int last) {
            const TileAt at = corner(tile);
            for (int step = first; step < last; ++step, place.advance()) {
                tma::wait(ring.empty(place.stage), place.parity ^ 1);
                ring.load(place.stage, tma_a, tma_b, at.m, at.n, step * BK);
            }
        });
        return;
    }

    const int group = threadIdx.x / wgmma::THREADS;
    const Parts<THREADS, BN / 2> parts{static_cast<float4*>(workspace), static_cast<unsigned*>(flags),
                                       static_cast<int>(threadIdx.x), 1};
    auto give_back = [&](int stage) {
        if (threadIdx.x % wgmma::THREADS == 0) tma::arrive(ring.empty(stage));
    };
    division.for_each(blockIdx.x, [&](int tile, int first, int last) {
        float sum[1][BN / 2];
        ring.multiply_all(sum, place, group, last - first, give_back);
        if (last - first < division.steps) return parts.put(sum[0], alpha, division.shared(tile - division.whole));
        const TileAt at = corner(tile);
        out.send(sum[0], tma_c, at.m + group * wgmma::ROWS, at.n, m, n, alpha, beta, C, ldc);
    });
    out.finish();
    division.for_each_shared(blockIdx.x, [&](const auto& tile) {
        const TileAt at = corner(division.whole + tile.number);
        parts.add_up(tile, [&](int four, int thread, const float4& sum) {  // two neighbours, and two more eight rows below
            const int row = at.m + thread / 32 * 16 + thread % 32 / 4, col = at.n + four * 8 + thread % 4 * 2;
            const float pairs[] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                T* c = &C[static_cast<int64_t>(row + 8 * h) * ldc + col];
                if (row + 8 * h >= m || col >= n) continue;
                if (col + 1 < n) {
                    update_c2(c, 1.0f, &pairs[2 * h], beta);
                } else {
                    update_c(c, 1.0f, pairs[2 * h], beta);
                }
            }
        });
    });
}
