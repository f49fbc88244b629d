// splitk: large tiles, divided along k among all clusters, on tensor cores.
//
// The one idea it adds to `wgmma_streamk`: clusters that share a tile add it up together (include/split_k.cuh, as in
// sgemm's splitk). There one cluster adds up what others have left, so that at most four share a tile; here all of them
// share what there is. `wgmma_transposed` divides tiles within a cluster, which costs less and reaches eight blocks.
//
// One warp brings tiles by TMA, a warp group per 64 rows multiplies them. The two blocks of a cluster have tiles one below
// the other and share that of B.
//
// A product of some microseconds waits for its own code, which comes from DRAM as its matrices do. So there is little of
// it: old elements of C, where they count, go another way than through shared memory.
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the pipeline; FIXUP, LEAST: see
//            include/split_k.cuh.
// Launch:    2 BM + 32 threads (1-D), clusters of two blocks, one block a multiprocessor: all run at a time; dynamic
//            shared memory: BN / 64 times BM rows of 128 bytes for C, then the pipeline (include/tile_pipeline.cuh).
//            Workspace: 2 BM BN floats a block; flags: 4 bytes a block, zero before the first launch, and zero again after
//            each.
// Requires:  lda, ldb, ldc multiples of 8; A, B, C 16-byte aligned; sm_90a. Boxes: BM x BK of A, BK / 2 x 64 of B,
//            16 x 64 of C, swizzled over 128 bytes.

#include "include/fragments.cuh"
#include "include/split_k.cuh"
#include "include/tile_scheduler.cuh"
#include "include/tile_pipeline.cuh"
#include "include/warpgroup.cuh"

// alpha * sum for 64 columns of a warp's 16 rows to a buffer in shared memory, as include/fragments.cuh has it.
template <typename T>
__device__ __forceinline__ void stage_scaled(const float* sum, uint32_t buffer, float alpha) {
    const int lane = threadIdx.x % 32;
    const uint32_t to = buffer + lane % 16 * 128;
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
        uint32_t packed[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float* pair = &sum[4 * (j + i / 2) + 2 * (i % 2)];
            alignas(4) T two[2];
            update_c2(two, alpha, pair, 0.0f);
            packed[i] = *reinterpret_cast<const uint32_t*>(two);
        }
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     :
                     : "r"(to + ((j + lane / 16) ^ lane % 8) * 16), "r"(packed[0]), "r"(packed[1]), "r"(packed[2]),
                       "r"(packed[3])
                     : "memory");
    }
}

template <typename T, int BM, int BN, int BK, int STAGES, int FIXUP, int LEAST>
__global__ void __cluster_dims__(2) __launch_bounds__(2 * BM + 32, 1)
hgemm_splitk(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
             const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc,
             const __grid_constant__ CUtensorMap tma_c, void* workspace, void* flags) {
    constexpr int RANKS = 2;  // blocks of a cluster
    constexpr int CONSUMERS = BM / wgmma::ROWS, THREADS = CONSUMERS * wgmma::THREADS;
    using Pipeline = TilePipeline<T, BM, BN, BK, STAGES>;
    using Shares = Parts<THREADS, BN / 2, RANKS>;
    const int rows_m = (m + RANKS * BM - 1) / (RANKS * BM), tiles_n = (n + BN - 1) / BN;
    const Division<FIXUP, LEAST> division(gridDim.x / RANKS, rows_m * tiles_n, (k + BK - 1) / BK);
    auto corner = [&](int tile) {
        const TileCoord at = tile_coord<8>(tile, rows_m, tiles_n);
        return TileCoord{(at.m * RANKS + Shares::rank()) * BM, at.n * BN};
    };
    if (alpha == 0.0f) {
        return division.for_each(Shares::mine(), [&](int tile, int first, int) {
            if (first == 0) scale_c<BM, BN>(corner(tile).m, corner(tile).n, m, n, beta, C, ldc);
        });
    }

    extern __shared__ uint8_t memory[];
    const uint32_t staged = Pipeline(memory).tiles;  // C first, the pipeline behind it
    const Pipeline pipeline(memory + BM * BN * sizeof(T));
    if (threadIdx.x == THREADS) {
        tma::prefetch_descriptor(tma_a);
        tma::prefetch_descriptor(tma_b);
        tma::prefetch_descriptor(tma_c);
        pipeline.init_barriers(RANKS * CONSUMERS);
    }
    cluster::arrive_relaxed();
    cluster::wait();

    PipelineState<STAGES> state;
    if (threadIdx.x >= THREADS) {
        if (threadIdx.x > THREADS) return;
        division.for_each(Shares::mine(), [&](int tile, int first, int last) {
            const TileCoord at = corner(tile);
            for (int step = first; step < last; ++step, state.advance()) {
                mbarrier::wait(pipeline.empty(state.stage), state.phase ^ 1);
                pipeline.load_multicast_b(state.stage, tma_a, tma_b, at.m, at.n, step * BK, Shares::rank());
            }
        });
        pipeline.producer_tail(state);
        return;
    }

    const int group = threadIdx.x / wgmma::THREADS, warp_row = threadIdx.x / 32 * 16;
    const Shares parts{static_cast<float4*>(workspace), static_cast<unsigned*>(flags), static_cast<int>(threadIdx.x), 1};
    auto release = [&](int stage) {
        if (threadIdx.x % wgmma::THREADS < RANKS) mbarrier::arrive_remote(pipeline.empty(stage), threadIdx.x % wgmma::THREADS);
    };
    division.for_each(Shares::mine(), [&](int tile, int first, int last) {
        float sum[1][BN / 2];
        pipeline.mainloop(sum, state, group, last - first, release);
        if (last - first < division.steps) return parts.put(sum[0], alpha, division.shared(tile - division.whole));
        const TileCoord at = corner(tile);
        // TMA stores whole pieces of 16 bytes, the last one of a row too, with zeros beyond the edge.
        if (beta != 0.0f || n % 8 != 0) {
            return store_fragments(sum[0], at.m + group * wgmma::ROWS, at.n, m, n, alpha, beta, C, ldc);
        }
        const bool leader = threadIdx.x % 32 == 0;
        if (leader) tma::store_wait_read<0>();  // the tile before has left shared memory
        __syncwarp();
        const uint32_t buffer = staged + warp_row * BN * sizeof(T);
#pragma unroll
        for (int c = 0; c < BN / 64; ++c) stage_scaled<T>(&sum[0][c * 32], buffer + c * 16 * 128, alpha);
        tma::fence_proxy_async();
        __syncwarp();
        if (leader) {
            for (int c = 0; c < BN / 64 && at.n + c * 64 < n && at.m + warp_row < m; ++c) {
                tma::store(tma_c, at.m + warp_row, at.n + c * 64, buffer + c * 16 * 128);
            }
            tma::store_commit();
        }
    });
    if (threadIdx.x % 32 == 0) tma::store_wait_read<0>();
    division.for_each_shared(Shares::mine(), [&](const auto& tile) {
        const TileCoord at = corner(division.whole + tile.number);
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
