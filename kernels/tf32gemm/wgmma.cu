// wgmma: TF32 by asynchronous tensor cores, fed by TMA.
//
// The one idea it adds to `bcf_dbf`: wgmma. For TF32 it takes K-major operands only; A is K-major in memory, B is not.
// So C is computed transposed: the first operand is 64 columns of B from registers, which may be gathered in any order,
// and the second is the tile of A in shared memory. The tensor core truncates the words to TF32, as in `bcf_dbf`.
//
// Roles:     consumers (warp groups 0 and 1, 64 columns of C each); producer (warp group 2, one thread of it).
// Pipeline:  full[STAGES]: 1 arrival, the producer's, and the bytes of a stage. empty[STAGES]: 8 arrivals, one from
//            each consumer warp.
// Timeline:  producer    wait empty, load A and B | ...
//            consumer    wait full, B to registers, wgmma | ..., wait for the previous wgmma, release | ... | epilogue
//
// With 256 rows of A, a word of B is read once and multiplied 256 times. The two consumers are not ordered: one of them
// has to read while the other one multiplies.
//
// A box of B is 32 columns, eight 16-byte chunks a row, and is shared by two warps. Lane l, with r = l / 4, has two
// neighbouring columns: half r / 2 % 2 of chunk 4 (r % 2) + r / 4, plus two in every other warp. Since row l % 4 is
// swizzled by its own number, the 16 lanes of a half-warp have no bank conflicts. In the epilogue four lanes have whole
// sectors of a row of C.
//
// Template:  BM, BN, BK: the block's tile; STAGES: of the pipeline; STRIP: tile columns of a strip
//            (include/tile_scheduler.cuh).
// Launch:    384 threads (1-D), a block per SM; dynamic shared memory: the pipeline (include/tile_pipeline.cuh).
// Requires:  lda, ldb, ldc multiples of 4; A, B, C 16-byte aligned; sm_90a. Boxes: BM x 32 of A, 32 x 32 of B, swizzled
//            over 128 bytes.
// Run:       make try KERNEL=tf32gemm_wgmma

#include "include/epilogue.cuh"
#include "include/tile_pipeline.cuh"
#include "include/tile_scheduler.cuh"
#include "include/warpgroup.cuh"
#include "include/wgmma_tf32_256.cuh"

template <int BM, int BN, int BK, int STAGES, int STRIP>
__global__ void __launch_bounds__(384, 1)
tf32gemm_wgmma(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
               const __grid_constant__ CUtensorMap tma_b, float beta, float* C, int ldc) {
    static_assert(BM == 256 && BN == 128 && BK == 32, "two groups with 64 columns each");
    constexpr int CONSUMERS = 2;
    constexpr int STEPS = BK / 8;  // instructions per step
    const int tiles_m = (m + BM - 1) / BM;
    const int tiles_n = (n + BN - 1) / BN;
    const int steps = (k + BK - 1) / BK;
    auto for_each_tile = [&](auto work) {  // work(row, column)
        for (int i = blockIdx.x; i < tiles_m * tiles_n; i += gridDim.x) {
            const TileCoord tile = tile_coord<STRIP>(i, tiles_m, tiles_n);
            work(tile.m * BM, tile.n * BN);
        }
    };
    if (alpha == 0.0f) {
        return for_each_tile([&](int row, int col) { scale_c<BM, BN>(row, col, m, n, beta, C, ldc); });
    }

    extern __shared__ uint8_t memory[];
    const TilePipeline<float, BM, BN, BK, STAGES> pipeline(memory);
    if (threadIdx.x == 0) pipeline.init_barriers(CONSUMERS * 4);  // one lane of each consumer warp releases a stage
    __syncthreads();

    const int group = threadIdx.x / wgmma::THREADS;
    const int thread = threadIdx.x % wgmma::THREADS;
    const int lane = thread % 32;
    PipelineState<STAGES> state;
    if (group == CONSUMERS) {
        warpgroup::reg_dealloc<40>();
        if (thread == 0) {
            for_each_tile([&](int row, int col) {
                for (int step = 0; step < steps; ++step, state.advance()) {
                    mbarrier::wait(pipeline.empty(state.stage), state.phase ^ 1);
                    pipeline.load(state.stage, tma_a, tma_b, row, col, step * BK);
                }
            });
        }
    } else {
        warpgroup::reg_alloc<232>();
        const int warp = threadIdx.x / 32;
        const int r = lane / 4;
        const int chunk = r % 2 * 4 + warp % 2 * 2 + r / 4;
        const int half = r / 2 % 2;
        const int in_tile = warp / 2 * 32 + chunk * 4 + half * 2;  // the first column
        const uint32_t from = (warp / 2 * BK + lane % 4) * wgmma::ROW_BYTES + (chunk ^ lane % 4) * 16 + half * 8;

        auto read = [&](uint32_t(&columns)[STEPS][4], int stage) {
#pragma unroll
            for (int p = 0; p < STEPS; ++p) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {  // in the next four rows the swizzle differs by four chunks
                    const uint32_t at = (pipeline.b(stage) + from) ^ (i * 64);
                    const float2 b = ptx::load_shared_2(at + (8 * p + 4 * i) * wgmma::ROW_BYTES);
                    columns[p][2 * i] = __float_as_uint(b.x);
                    columns[p][2 * i + 1] = __float_as_uint(b.y);
                }
            }
        };
        auto release = [&](int stage) {
            __syncwarp();
            if (lane == 0) mbarrier::arrive(pipeline.empty(stage));
        };

        for_each_tile([&](int row, int col) {
            float sum[BM / 2];
            uint32_t columns[2][STEPS][4];  // of this step, and of the previous one, which wgmma may still read
            int previous = 0;
            auto one_step = [&](uint32_t(&mine)[STEPS][4], int step) {
                mbarrier::wait(pipeline.full(state.stage), state.phase);
                read(mine, state.stage);
                wgmma::fence_operand(mine);
                wgmma::fence();
#pragma unroll
                for (int p = 0; p < STEPS; ++p) {
                    wgmma::mma_tf32(sum, mine[p], wgmma::descriptor_k_major<float>(pipeline.a(state.stage), 8 * p),
                                         step > 0 || p > 0);
                }
                wgmma::commit();
                wgmma::wait<1>();  // for the previous step
                if (step > 0) release(previous);
                previous = state.stage;
                state.advance();
            };
            int step = 0;
            for (; step + 1 < steps; step += 2) {
                one_step(columns[0], step);
                one_step(columns[1], step + 1);
            }
            if (step < steps) one_step(columns[0], step);
            wgmma::wait<0>();
            wgmma::fence_operand(sum);
            release(previous);

            const int c_col = col + in_tile;
#pragma unroll
            for (int i = 0; i < BM / 4; ++i) {
                const int c_row = row + i / 2 * 8 + lane % 4 * 2 + i % 2;
                const float pair[2] = {sum[i / 2 * 4 + i % 2], sum[i / 2 * 4 + 2 + i % 2]};
                if (c_row >= m) continue;
                float* c = &C[static_cast<int64_t>(c_row) * ldc + c_col];
                if (c_col + 1 < n) {
                    update_c2(c, alpha, pair, beta);
                } else if (c_col < n) {
                    update_c(c, alpha, pair[0], beta);
                }
            }
        });
    }
}
