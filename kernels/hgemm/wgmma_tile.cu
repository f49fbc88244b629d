// wgmma_tile: a tile of any width, so that all tiles of a problem run at a time.
//
// What it adds to `wgmma_coop`: 256 x 192 and 128 x 256 leave half of a GPU idle on many problems. 2816 x 776 is 55 tiles
// of 256 x 192 or 110 of 128 x 192, and 132 of 128 x 136, one for each multiprocessor of an H100. wgmma multiplies 64 rows
// of its first operand by any multiple of 8 columns of its second. Here both are parameters, and so is which of A and B is
// first: with B_FIRST it computes C^T = B^T A^T, as `wgmma_transposed` does, and the narrow side lies along m.
//
//     A first: BM = 64, 128, 192, 256    BN any multiple of 8        B first: BN = 64 .. 256    BM any multiple of 8
//
//       +------ BN ------+                                             +-- 64 --+-- 64 --+
//       | consumer 0     | 64 HEIGHT rows                              | cons.  | cons.  | BM
//       +----------------+                                             | 0      | 1      |
//       | consumer 1     |                                             +--------+--------+
//       +----------------+
//
// With PINGPONG each consumer has a tile of its own, and one multiplies while the other stores, as in `wgmma_pingpong`.
//
// The blocks of a cluster of CM x CN share tiles of A along a row and tiles of B along a column, each block loading its
// part for all (include/operand_tile.cuh, which derives boxes and strides for every width).
//
// Few tiles leave multiprocessors idle. Then SLICES blocks of a cluster compute a tile together, each over its part of k. A
// block sends its sums of what another one stores straight to that one's inbox, and each stores an equal part of the
// width (include/slice_sums.cuh, st.async). The inbox serves one tile, so such a kernel has a block for each tile and
// slice; any other is persistent.
//
// Roles:     a producer warp group, one thread of it; CONSUMERS warp groups, an equal part of the first operand each, or
//            with PINGPONG two, every other tile each.
// Pipeline:  full[STAGES]: 1 arrival, the own producer's, and the bytes of a stage. empty[STAGES]: an arrival by each
//            consumer that reads the stage, of each block that shares a tile of it with this one, itself included.
//            turn[2] (PINGPONG): 1 arrival, the other consumer's, once it has issued the last wgmma of its tile.
//            come (SLICES > 1): 1 arrival at the start, and the bytes of all sums that other slices send.
// Timeline:  producer    load tile 0 | load tile 1                | load tile 2 ...
//            consumers               | mainloop 0    | epilogue 0 | mainloop 1    | epilogue 1 ...
//            SLICES > 1              | mainloop      | send sums | wait come | add | epilogue
//
// Template:  T: __nv_bfloat16 or __half; COLUMN_MAJOR_B; B_FIRST; PINGPONG; BM, BN: the tile; CONSUMERS: 1 to 3; STAGES:
//            of the pipeline; PIECE: of the second operand's width, stored at a time (include/tile_epilogue.cuh); CM, CN: blocks
//            of a cluster down and across; SLICES: of k; STRIP: cluster columns of a strip (include/tile_scheduler.cuh).
// Launch:    128 (CONSUMERS + 1) threads (1-D); clusters of CM x CN blocks in x and SLICES in z; dynamic shared memory: the
//            buffers of C, the pipeline, the inbox and 1024 bytes to align them.
// Requires:  lda, ldb, ldc multiples of 8; 16-byte aligned matrices; the width a multiple of 8 SLICES. Boxes: of A and B as
//            include/operand_tile.cuh says; of C 16 x 64, or PIECE x 64 if B is first; swizzled over 128 bytes.
// Run:       make try KERNEL=hgemm_wgmma_tile_bf16

#include "include/operand_tile.cuh"
#include "include/ptx.cuh"
#include "include/slice_sums.cuh"
#include "include/tile_epilogue.cuh"
#include "include/tile_scheduler.cuh"
#include "include/warpgroup.cuh"
#include "include/wgmma_of.cuh"

template <typename T, bool COLUMN_MAJOR_B, bool B_FIRST, bool PINGPONG, int BM, int BN, int CONSUMERS, int STAGES,
          int PIECE, int CM, int CN, int SLICES, int STRIP>
__global__ void __cluster_dims__(CM * CN, 1, SLICES) __launch_bounds__(128 * (CONSUMERS + 1), 1)
hgemm_wgmma_tile(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                 const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc,
                 const __grid_constant__ CUtensorMap tma_c) {
    using A = OperandTile<T, true, BM, CN>;
    using B = OperandTile<T, COLUMN_MAJOR_B, BN, CM>;
    constexpr int FIRST = B_FIRST ? BN : BM, WIDTH = B_FIRST ? BM : BN;
    constexpr int READERS = PINGPONG ? 1 : CONSUMERS;      // consumers that share a tile
    constexpr int HEIGHT = FIRST / READERS / wgmma::ROWS;  // blocks of 64 of a consumer
    constexpr int BLOCKS = CM * CN, STAGE_BYTES = A::BYTES + B::BYTES, BK = A::BK;  // blocks that load for each other
    constexpr int STORED = WIDTH / SLICES;                                          // of the width, by a slice
    static_assert(HEIGHT * READERS * wgmma::ROWS == FIRST && CONSUMERS <= 3, "equal parts of 64");
    static_assert(!PINGPONG || CONSUMERS == 2 && SLICES == 1, "two take turns");
    static_assert(STORED * SLICES == WIDTH && STORED % 8 == 0, "equal parts of 8");
    using Epilogue = TileEpilogue<T, B_FIRST, HEIGHT, STORED, PIECE>;
    using Sums = SliceSums<SLICES, CONSUMERS * wgmma::THREADS, WIDTH / 2>;

    const int slice = SLICES == 1 ? 0 : blockIdx.z;
    const int rank = blockIdx.x % BLOCKS, down = rank / CN, across = rank % CN;  // in the slice
    const int clusters = gridDim.x / BLOCKS;
    const int tiles_m = (m + CM * BM - 1) / (CM * BM);  // a cluster's tile is CM x CN tiles
    const int tiles_n = (n + CN * BN - 1) / (CN * BN);
    const int all_steps = (k + BK - 1) / BK;
    const int steps = all_steps * (slice + 1) / SLICES - all_steps * slice / SLICES;  // of this slice
    const int k_begin = all_steps * slice / SLICES * BK;
    auto for_each_tile = [&](auto work) {  // work(row, column)
        for (int tile = blockIdx.x / BLOCKS; tile < tiles_m * tiles_n; tile += clusters) {
            const TileCoord at = tile_coord<STRIP>(tile, tiles_m, tiles_n);
            work((CM * at.m + down) * BM, (CN * at.n + across) * BN);
        }
    };
    if (alpha == 0.0f) {
        if (slice > 0) return;
        return for_each_tile([&](int row, int col) { scale_c<BM, BN>(row, col, m, n, beta, C, ldc); });
    }

    extern __shared__ uint8_t memory[];
    const int group = threadIdx.x / wgmma::THREADS, thread = threadIdx.x % wgmma::THREADS;
    // The buffers of C come first in shared memory, then the stages, the inbox, the barriers.
    const uint32_t buffers = (ptx::shared_address(memory) + wgmma::ATOM_BYTES - 1u) & ~(wgmma::ATOM_BYTES - 1u);
    const uint32_t stages = buffers + CONSUMERS * Epilogue::BYTES;
    auto a_tile = [&](int stage) { return stages + stage * STAGE_BYTES; };
    auto b_tile = [&](int stage) { return a_tile(stage) + A::BYTES; };
    const uint32_t inbox = a_tile(STAGES);
    auto full = [&](int stage) { return inbox + HEIGHT * Sums::BYTES + stage * 8; };
    auto empty = [&](int stage) { return full(STAGES + stage); };
    auto turn = [&](int group) { return full(2 * STAGES + group); };
    const uint32_t come = full(2 * STAGES);

    constexpr int PRODUCER = CONSUMERS * wgmma::THREADS;  // its first thread
    if (threadIdx.x == PRODUCER) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier::init(full(stage), 1);
            mbarrier::init(empty(stage), (CM + CN - 1) * READERS);
        }
        for (int g = 0; PINGPONG && g < CONSUMERS; ++g) mbarrier::init(turn(g), 1);
        if constexpr (SLICES > 1) mbarrier::init(come, 1);
        mbarrier::fence_init();
        if constexpr (SLICES > 1) mbarrier::arrive_expect_tx(come, HEIGHT * Sums::BYTES);
    }
    __syncwarp();
    if constexpr (BLOCKS * SLICES > 1) cluster::arrive_relaxed();
    if constexpr (BLOCKS == 1) {  // consumers wait for the barriers; who made them goes on
        if (group < CONSUMERS) {
            asm volatile("bar.sync 4, %0;" : : "n"(PRODUCER + 32) : "memory");
        } else if (threadIdx.x < PRODUCER + 32) {
            asm volatile("bar.arrive 4, %0;" : : "n"(PRODUCER + 32) : "memory");
        }
    }
    if (threadIdx.x == PRODUCER) {
        tma::prefetch_descriptor(tma_a);
        tma::prefetch_descriptor(tma_b);
        tma::prefetch_descriptor(tma_c);
    }
    if constexpr (BLOCKS > 1) cluster::wait();

    PipelineState<STAGES> state;
    if (group == CONSUMERS) {
        if constexpr (CONSUMERS > 1) warpgroup::reg_dealloc<CONSUMERS == 2 ? 40 : 32>();
        if (thread == 0) {
            const uint16_t row_mask = ((1 << CN) - 1) << (slice * CM + down) * CN;
            const uint16_t column_mask = ((1 << BLOCKS) - 1) / ((1 << CN) - 1) << slice * BLOCKS + across;
            for_each_tile([&](int row, int col) {
#pragma unroll 1
                for (int step = 0; step < steps; ++step, state.advance()) {
                    const int stage = state.stage, from = k_begin + step * BK;
                    mbarrier::wait(empty(stage), state.phase ^ 1);
                    mbarrier::arrive_expect_tx(full(stage), STAGE_BYTES);
                    A::load(a_tile(stage), tma_a, row, from, across, full(stage), row_mask);
                    B::load(b_tile(stage), tma_b, col, from, down, full(stage), column_mask);
                }
            });
            if constexpr (BLOCKS > 1) {  // the others still write to this block's tiles and arrive at its barriers
                for (int i = 0; i < STAGES; ++i, state.advance()) mbarrier::wait(empty(state.stage), state.phase ^ 1);
            }
        }
        if constexpr (BLOCKS == 1 && SLICES > 1) {  // with the consumers, below
            __syncwarp();
            cluster::wait();
        }
        return;
    }

    if constexpr (CONSUMERS > 1) warpgroup::reg_alloc<CONSUMERS == 2 ? 232 : 160>();
    auto release = [&](int stage) {  // to all blocks that load for this one, itself included
        if constexpr (BLOCKS == 1) {
            if (thread == 0) mbarrier::arrive(empty(stage));
        } else if (thread < BLOCKS && (thread / CN == down || thread % CN == across)) {
            mbarrier::arrive_remote(empty(stage), slice * BLOCKS + thread);
        }
    };
    const Epilogue epilogue{buffers + group * Epilogue::BYTES, 1 + group};
    int count = 0;  // of tiles
    for_each_tile([&](int row, int col) {
        if constexpr (PINGPONG) {
            const int round = count / CONSUMERS;
            if (count++ % CONSUMERS != group) return state.advance(steps);
            mbarrier::wait(turn(group), group == 0 ? round + 1 & 1 : round & 1);  // group 0 enters first
        }
        const int part = PINGPONG ? 0 : group * HEIGHT * wgmma::ROWS;  // of the first operand, where this consumer's begins
        float sum[HEIGHT][WIDTH / 2];
        int previous = 0;
#pragma unroll 1
        for (int step = 0; step < steps; ++step, state.advance()) {
            const int stage = state.stage;
            mbarrier::wait(full(stage), state.phase);
            wgmma::fence();
#pragma unroll
            for (int p = 0; p < BK; p += 16) {
#pragma unroll
                for (int h = 0; h < HEIGHT; ++h) {
                    const int skip = part + h * wgmma::ROWS;
                    const uint64_t a = A::descriptor(a_tile(stage), B_FIRST ? 0 : skip, p);
                    const uint64_t b = B::descriptor(b_tile(stage), B_FIRST ? skip : 0, p);
                    constexpr bool FIRST_MN = B_FIRST && !COLUMN_MAJOR_B, SECOND_MN = !B_FIRST && !COLUMN_MAJOR_B;
                    wgmma::mma_of<T, FIRST_MN, SECOND_MN>(sum[h], B_FIRST ? b : a, B_FIRST ? a : b, step > 0 || p > 0);
                }
            }
            wgmma::commit();
            wgmma::wait<1>();  // for the previous step
            if (step > 0) release(previous);
            previous = stage;
        }
        if (PINGPONG && thread == 0) mbarrier::arrive(turn(1 - group));
        wgmma::wait<0>();
#pragma unroll
        for (int h = 0; h < HEIGHT; ++h) wgmma::fence_operand(sum[h]);
        if (SLICES == 1 || steps > 0) release(previous);
        if constexpr (SLICES == 1) {
            epilogue.store(sum, tma_c, B_FIRST ? row : row + part, B_FIRST ? col + part : col, m, n, alpha, beta, C, ldc);
        } else {
            if (steps == 0) {  // k has fewer steps than there are slices
#pragma unroll
                for (int i = 0; i < HEIGHT * WIDTH / 2; ++i) sum[i / (WIDTH / 2)][i % (WIDTH / 2)] = 0.0f;
            }
            if constexpr (BLOCKS == 1) cluster::wait();  // all blocks have made their barriers
            float total[HEIGHT][STORED / 2];             // of the part that this slice stores
            auto sums = [&](int h) { return Sums{inbox + h * Sums::BYTES + threadIdx.x * 16, slice}; };
#pragma unroll
            for (int h = 0; h < HEIGHT; ++h) {
                sums(h).send(sum[h], total[h], [&](uint32_t to, int s, float4 four) {
                    cluster::store_async_4(to, s * BLOCKS + rank, four, come);
                });
            }
            mbarrier::wait(come, 0);
#pragma unroll
            for (int h = 0; h < HEIGHT; ++h) sums(h).receive(total[h]);
            const int skip = slice * STORED;
            epilogue.store(total, tma_c, row + (B_FIRST ? skip : part), col + (B_FIRST ? part : skip), m, n, alpha, beta, C, ldc);
        }
    });
    epilogue.wait();
}
