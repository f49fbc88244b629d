// wgmma_bcol: B column by column, and a tile a warp group, in turns.
//
// The one idea it adds to `wgmma`: where B is column-major, its columns run along k, as wgmma wants TF32 numbers. Both
// tiles are multiplied where TMA put them, no number goes through registers, and the kernel is
// hgemm/wgmma_pingpong_bcol.cu: clusters of two that share the tile of B, stream-K, and a group that stores while the
// other multiplies. A pair of sums is 8 bytes of C and four lanes have a whole sector, so they store it themselves.
//
// Template:  BM, BN, BK: a tile; STAGES: of the ring; STRIP: tile columns of a strip (include/tile_order.cuh);
//            FIXUP, WAYS: see include/stream_k.cuh.
// Launch:    384 threads (1-D): two consumer groups, then the producer; clusters of two blocks in x, not more blocks than
//            run at a time; dynamic shared memory: the ring and two mbarriers. Workspace: BM x BN floats a block; flags:
//            one a block, zero before the first launch, and zero again after each.
// Requires:  lda, ldb (from column to column), ldc multiples of 4; A, B, C 16-byte aligned; sm_90a. Boxes: BM x BK of A,
//            BN / 2 x BK of B's columns, swizzled over 128 bytes.

#include "include/fragments.cuh"
#include "include/stream_k.cuh"
#include "include/tile_order.cuh"
#include "include/tile_ring_along_k.cuh"
#include "include/warpgroup.cuh"

template <int BM, int BN, int BK, int STAGES, int STRIP, int FIXUP, int WAYS>
__global__ void __cluster_dims__(2) __launch_bounds__(384, 1)
tf32gemm_wgmma_bcol(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                    const __grid_constant__ CUtensorMap tma_b, float beta, float* C, int ldc, void* workspace,
                    void* flags) {
    constexpr int CONSUMERS = 2;
    constexpr int HEIGHT = BM / wgmma::ROWS;  // of a tile
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
    const TileRingAlongK<float, BM, BN, BK, STAGES> ring(memory);
    const int group = threadIdx.x / wgmma::THREADS;
    const int thread = threadIdx.x % wgmma::THREADS;
    auto turn = [&](int group) { return ring.end() + 8 * group; };  // its mbarrier
    if (threadIdx.x == 0) {
        tma::prefetch(tma_a);
        tma::prefetch(tma_b);
        ring.make_barriers(2);  // one consumer in each block takes a stage
        for (int g = 0; g < CONSUMERS; ++g) tma::init(turn(g), 1);
        tma::fence_init();
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
        const PartialSums<1, HEIGHT * BN / 2> partial{static_cast<float4*>(workspace), static_cast<unsigned*>(flags)};
        auto give_back = [&](int stage) {
            if (thread < 2) tma::arrive_in(ring.empty(stage), thread);
        };
        int part = 0;
        for_each_part([&](int row, int col, int tile, int first, int last) {
            const int round = part / CONSUMERS;
            if (part++ % CONSUMERS != group) return place.skip(last - first);
            tma::wait(turn(group), group == 0 ? round + 1 & 1 : round & 1);  // the first part waits for nobody
            float sum[HEIGHT][BN / 2];
            ring.multiply_all(sum, place, last - first, give_back, [&] {
                if (thread == 0) tma::arrive(turn(1 - group));
            });
            if (first > 0) return partial.put(sum, 0, 1 + group);
            if (last < steps) {
                share.for_others(tile, [&](int cluster) { partial.add(sum, 2 * cluster + rank, 0, 1 + group); });
            }
#pragma unroll
            for (int h = 0; h < HEIGHT; ++h) {
                store_fragments(sum[h], row + h * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
            }
        });
    }
}
