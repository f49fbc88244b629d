// wgmma_pingpong: while one warp group runs its epilogue, the other one multiplies.
//
// The one idea it adds to `wgmma_streamk`: a tile per warp group. There both consumers have half of the same 128 x 256
// tile, and the tensor cores idle while both run their epilogues. Here each has a 128 x 128 tile of its own, and their
// mainloops alternate: all the steps of one tile, then all the steps of the next.
//
// Roles:     consumers (warp groups 0 and 1, a whole tile each); producer (warp group 2, one thread of it).
// Pipeline:  full[STAGES]: 1 arrival, the own producer's, and the bytes of a stage. empty[STAGES]: 2 arrivals, for a
//            stage is read by one consumer in each block. order_barrier[2]: 1 arrival, the other consumer's, once it
//            has issued the last wgmma of its tile.
// Timeline:  producer    load tile 0 | load tile 1     | load tile 2     | ...
//            group 0     mainloop 0  | epilogue 0      | mainloop 2      | epilogue 2 ...
//            group 1                 | mainloop 1      | epilogue 1      | mainloop 3 ...
//
// The order barriers also keep the pipeline correct: without them a group could wait for a stage that the producer
// fills only several rounds later, and the parity of an mbarrier distinguishes a phase only from its
// neighbours.
//
// A byte from L2 feeds a third fewer FLOP than with 256 columns, but there are twice as many tiles, which fill a GPU
// more evenly.
//
// COLUMN_MAJOR_B: as many public kernels require, which multiply a matrix by the transpose of another. The tiles of A and
// B are then both K-major: wgmma transposes neither, and a tile of B is one box.
//
// Template:  T: __nv_bfloat16 or __half; COLUMN_MAJOR_B; BM, BN, BK: a tile; STAGES: of the pipeline; STRIP: tile columns of a strip
//            (include/tile_scheduler.cuh); FIXUP, WAYS: see include/stream_k.cuh.
// Launch:    384 threads (1-D); clusters of two blocks in x, no more blocks than are resident at the same time; dynamic
//            shared memory: the pipeline, two mbarriers and 32 KB for C. Workspace: BM x BN floats a block; flags: one
//            a block, zero before the first launch, and zero again after each.
// Requires:  as wgmma_streamk; if COLUMN_MAJOR_B, ldb from column to column of B, and boxes of BN / 2 x BK of its columns.
// Run:       make try KERNEL=hgemm_wgmma_pingpong_bf16

#include "include/stream_k.cuh"
#include "include/tile_pipeline_k_major.cuh"
#include "include/tile_scheduler.cuh"
#include "include/tma_epilogue.cuh"
#include "include/warpgroup.cuh"

template <typename T, bool COLUMN_MAJOR_B, int BM, int BN, int BK, int STAGES, int STRIP, int FIXUP, int WAYS>
__global__ void __cluster_dims__(2) __launch_bounds__(384, 1)
hgemm_wgmma_pingpong(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                    const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc,
                    const __grid_constant__ CUtensorMap tma_c, void* workspace, void* flags) {
    constexpr int CONSUMERS = 2;
    constexpr int HEIGHT = BM / wgmma::ROWS;  // of a tile
    const int rank = cluster::rank();
    const int pairs_m = (m + 2 * BM - 1) / (2 * BM);  // a cluster computes two tiles, one below the other
    const int tiles_n = (n + BN - 1) / BN;
    const int steps = (k + BK - 1) / BK;
    const StreamKScheduler<FIXUP, WAYS> scheduler(gridDim.x / 2, blockIdx.x / 2, pairs_m * tiles_n, steps);
    auto for_each_work_unit = [&](auto work) {  // work(row, column, tile, first step, the step after the last)
        scheduler.for_each([&](int tile, int first, int last) {
            const TileCoord pair = tile_coord<STRIP>(tile, pairs_m, tiles_n);
            work((2 * pair.m + rank) * BM, pair.n * BN, tile, first, last);
        });
    };
    if (alpha == 0.0f) {
        return for_each_work_unit([&](int row, int col, int, int first, int) {
            if (first == 0) scale_c<BM, BN>(row, col, m, n, beta, C, ldc);
        });
    }

    extern __shared__ uint8_t memory[];
    using Epilogue = TmaEpilogue<T, BN>;
    using Pipeline = TilePipelineFor<COLUMN_MAJOR_B, T, BM, BN, BK, STAGES>;
    const int group = threadIdx.x / wgmma::THREADS;
    const int thread = threadIdx.x % wgmma::THREADS;
    // The buffers of C come first in shared memory, then the pipeline.
    const Epilogue epilogue{Pipeline(memory).tiles + threadIdx.x / 32 * Epilogue::BYTES_PER_WARP};
    const Pipeline pipeline(memory + 4 * CONSUMERS * Epilogue::BYTES_PER_WARP);
    auto order_barrier = [&](int group) { return pipeline.end() + 8 * group; };
    if (threadIdx.x == 0) {
        tma::prefetch_descriptor(tma_a);
        tma::prefetch_descriptor(tma_b);
        pipeline.init_barriers(2);  // a stage is read by one consumer in each block
        for (int g = 0; g < CONSUMERS; ++g) mbarrier::init(order_barrier(g), 1);
        mbarrier::fence_init();
    }
    cluster::arrive_relaxed();
    cluster::wait();

    PipelineState<STAGES> state;
    if (group == CONSUMERS) {
        warpgroup::reg_dealloc<40>();
        if (thread == 0) {
            for_each_work_unit([&](int row, int col, int, int first, int last) {
                for (int step = first; step < last; ++step, state.advance()) {
                    mbarrier::wait(pipeline.empty(state.stage), state.phase ^ 1);
                    pipeline.load_multicast_b(state.stage, tma_a, tma_b, row, col, step * BK, rank);
                }
            });
            pipeline.producer_tail(state);
        }
    } else {
        warpgroup::reg_alloc<232>();
        const PartialSums<1, HEIGHT * BN / 2> partial{static_cast<float4*>(workspace), static_cast<unsigned*>(flags)};
        auto release = [&](int stage) {
            if (thread < 2) mbarrier::arrive_remote(pipeline.empty(stage), thread);
        };
        int unit = 0;
        for_each_work_unit([&](int row, int col, int tile, int first, int last) {
            const int round = unit / CONSUMERS;
            if (unit++ % CONSUMERS != group) return state.advance(last - first);
            mbarrier::wait(order_barrier(group), group == 0 ? round + 1 & 1 : round & 1);  // group 0 enters first
            float sum[HEIGHT][BN / 2];
            pipeline.mainloop(sum, state, 0, last - first, release, [&] {
                if (thread == 0) mbarrier::arrive(order_barrier(1 - group));
            });
            if (first > 0) return partial.store(sum, 0, 1 + group);
            if (last < steps) {
                scheduler.for_each_peer(tile, [&](int peer) { partial.reduce(sum, 2 * peer + rank, 0, 1 + group); });
            }
#pragma unroll
            for (int h = 0; h < HEIGHT; ++h) {
                epilogue.store(sum[h], tma_c, row + h * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
            }
        });
        epilogue.wait();
    }
}
