// wgmma_transposed: C^T = B^T A^T, in clusters whose blocks share tiles of A, tiles of B, and sums.
//
// The one idea it adds to `wgmma_cluster`: the operands change places. wgmma multiplies 64 rows of its first operand by
// any multiple of 8 columns of its second. With A first, a tile of C has a multiple of 64 rows, and 600 rows by 7376
// columns are 195 tiles of 128 x 192: a second wave that leaves half of 132 multiprocessors idle. With B^T first, the 64
// lie along a row of C, and tiles have as few rows as fit: 600 rows are three tiles of 208. Neither matrix moves: row-major
// B is B^T stored by columns, row-major A is A^T stored by rows, and wgmma reads 16-bit operands of either kind. So it does
// where B is column-major, as weights of language models are kept.
//
// Blocks form clusters of CX x CY x SLICES:
//
//     CX neighbours along a row of C      need the same tile of A: each loads a part, multicast writes it to all
//     CY neighbours along a column        need the same tile of B, likewise
//     SLICES blocks                       compute the same tile, each over its part of k, and add their sums together
//
// Sums cross from block to block through distributed shared memory. include/split_k.cuh, whose blocks may lie anywhere,
// writes them to L2 and reads them back, which takes as long as 3 to 10 steps over k; here each block sends its sums of
// what another block stores straight to that block. They are added in an order that is fixed, so that the same problem
// gives the same bits.
//
// No barrier of the cluster stands before or after the sums. They go to an inbox of its own beside the stages, which is
// free from the start, and so a block sends when it has finished, whatever the others do. They go by st.async, whose
// bytes count on an mbarrier of the block that adds, and so that block waits for them alone. A cluster barrier that
// orders writes begins with MEMBAR.ALL.GPU, which waits for all outstanding accesses of its thread, and ends at the
// slowest block. Without the two, and with the first loads before the block's first barrier, a launch took 1.5 us less on
// an H100 with 128x128_k2, 2 us with 64x64_k2, 6.5 us with 64x64_k4 and 12.7 us with 64x64_k8. The inbox costs the
// widest tiles a stage or two.
//
// Roles:     one producer warp; a consumer warp group per 64 columns of the tile.
// Pipeline:  STAGES stages, each a tile of A (BM rows of 64 elements) and one of B (64 rows of BN elements)
//            full:  1 arrival by the producer and the bytes of both tiles, which come from all who share them
//            empty: an arrival by each consumer warp group of each block that this one loads for
//            come:  an arrival at the start, and the bytes of all sums that other slices send (SLICES > 1)
// Timeline:  producer  wait empty | announce the bytes | load this block's parts of A and B; next step of k
//            consumer  wait full | wgmma | wait for the wgmma of the step before | arrive at its empty; next step
//            then      send sums | wait come | add (SLICES > 1) | scale, round | stmatrix, transposed | TMA store
//
// Template:  T: __nv_bfloat16 or __half; COLUMN_MAJOR_B; BM, BN, BK: the block's tile; STAGES: of the pipeline; CX, CY, SLICES: the cluster;
//            BLOCKS: of a multiprocessor.
// Launch:    2 BN + 32 threads (1-D); grid x over tiles of n, y over tiles of m, z over slices, whole clusters of them;
//            dynamic shared memory: the stages, the inbox, their barriers, and 1024 bytes to align them.
// Requires:  lda, ldb, ldc multiples of 8; A, B, C 16-byte aligned; BM a multiple of CX and of 8 SLICES; sm_90a. Boxes:
//            BM / CX x 64 of A, 64 / CY x 64 of B's rows or columns, BM / SLICES x 64 of C, swizzled over 128 bytes.
// Run:       make try KERNEL=hgemm_transposed_64x64_bf16

#include "include/epilogue.cuh"
#include "include/mbarrier.cuh"
#include "include/ptx.cuh"
#include "include/slice_sums.cuh"
#include "include/tma.cuh"
#include "include/warpgroup.cuh"
#include "include/wgmma_transposed.cuh"

// alpha * sum of a warp's 16 columns of C and 2 * SUMS rows to shared memory, in rows of 64 columns with the 128-byte
// swizzle. A fragment has neighbours of a column in one register, which stmatrix turns into neighbours of a row.
template <typename T, int SUMS>
__device__ __forceinline__ void stage_transposed(const float (&sum)[SUMS], uint32_t buffer, float alpha) {
    const int lane = threadIdx.x % 32, chunk = threadIdx.x / 32 % 4 * 2 + lane / 8 % 2;  // 8 columns, whose address this is
#pragma unroll
    for (int j = 0; j < SUMS / 4; j += 2) {  // 16 rows, the last time perhaps 8
        uint32_t packed[4] = {};
#pragma unroll
        for (int i = 0; i < 4 && j + i / 2 < SUMS / 4; ++i) {  // two blocks of 8 columns for each of two blocks of 8 rows
            alignas(4) T pair[2];
            update_c2(pair, alpha, &sum[4 * (j + i / 2) + 2 * (i % 2)], 0.0f);
            packed[i] = *reinterpret_cast<const uint32_t*>(pair);
        }
        if (j + 1 < SUMS / 4) {
            const uint32_t to = buffer + ((j + lane / 16) * 8 + lane % 8) * wgmma::ROW_BYTES + (chunk ^ lane % 8) * 16;
            asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                         :
                         : "r"(to), "r"(packed[0]), "r"(packed[1]), "r"(packed[2]), "r"(packed[3])
                         : "memory");
        } else {
            const uint32_t to = buffer + (j * 8 + lane % 8) * wgmma::ROW_BYTES + (chunk ^ lane % 8) * 16;
            asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
                         :
                         : "r"(to), "r"(packed[0]), "r"(packed[1])
                         : "memory");
        }
    }
}

// C = alpha * sum + beta * C for a warp group's 64 columns from `col` and 2 * SUMS rows from `row`, element by element.
template <typename T, int SUMS>
__device__ __forceinline__ void store_transposed(const float (&sum)[SUMS], int row, int col, int m, int n, float alpha,
                                                 float beta, T* C, int ldc) {
    row += threadIdx.x % 4 * 2;
    col += threadIdx.x % wgmma::THREADS / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
        const int r = row + i / 4 * 8 + i % 2, c = col + i / 2 % 2 * 8;
        if (r < m && c < n) update_c(&C[static_cast<int64_t>(r) * ldc + c], alpha, sum[i], beta);
    }
}

template <typename T, bool COLUMN_MAJOR_B, int BM, int BN, int BK, int STAGES, int CX, int CY, int SLICES, int BLOCKS>
__global__ void __cluster_dims__(CX, CY, SLICES) __launch_bounds__(2 * BN + 32, BLOCKS)
hgemm_wgmma_transposed(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
                       const __grid_constant__ CUtensorMap tma_b, float beta, T* C, int ldc,
                       const __grid_constant__ CUtensorMap tma_c) {
    constexpr int CONSUMERS = BN / 64, THREADS = CONSUMERS * wgmma::THREADS, CLUSTER = CX * CY * SLICES;
    constexpr int A_BYTES = BM * BK * sizeof(T), BOX_BYTES = BK * wgmma::ROW_BYTES;  // a box: 64 columns of B
    constexpr int STAGE_BYTES = A_BYTES + CONSUMERS * BOX_BYTES;
    constexpr int PIECE = BM / SLICES;  // rows of the tile that a slice stores
    static_assert(BK * sizeof(T) == wgmma::ROW_BYTES && BM % CX == 0 && PIECE % 8 == 0, "whole parts");
    constexpr bool ALONE = CX * CY == 1 && SLICES > 1;  // no other block loads into this one's stages
    using Sums = SliceSums<SLICES, THREADS, BM / 2>;

    const int row = blockIdx.y * BM, col = blockIdx.x * BN;
    const int x = blockIdx.x % CX, y = blockIdx.y % CY, slice = blockIdx.z;
    if (alpha == 0.0f) {
        if (slice == 0) scale_c<BM, BN>(row, col, m, n, beta, C, ldc);
        return;
    }
    auto rank = [&](int x, int y, int slice) { return x + CX * (y + CY * slice); };  // of a block in its cluster
    const int steps = (k + BK - 1) / BK;
    const int first = steps * slice / SLICES, last = steps * (slice + 1) / SLICES;

    extern __shared__ uint8_t memory[];
    const uint32_t stages = (ptx::shared_address(memory) + wgmma::ATOM_BYTES - 1u) & ~(wgmma::ATOM_BYTES - 1u);
    auto a_tile = [&](int stage) { return stages + stage * STAGE_BYTES; };
    auto b_tile = [&](int stage) { return stages + stage * STAGE_BYTES + A_BYTES; };
    const uint32_t inbox = stages + STAGES * STAGE_BYTES;
    auto full = [&](int stage) { return inbox + Sums::BYTES + stage * 8; };
    auto empty = [&](int stage) { return full(STAGES + stage); };
    const uint32_t come = full(2 * STAGES);
    // This block's parts of A and B, from rows `part_a` and `part_b` of the tiles on, for the blocks in the masks.
    auto load = [&](int stage, int step, int part_a, int part_b, uint16_t share_a, uint16_t share_b) {
        mbarrier::arrive_expect_tx(full(stage), STAGE_BYTES);
        const uint32_t a = a_tile(stage) + part_a * wgmma::ROW_BYTES;
        if constexpr (CX == 1) {
            tma::load(a, tma_a, row, step * BK, full(stage));
        } else {
            tma::load_multicast(a, tma_a, row + part_a, step * BK, full(stage), share_a);
        }
#pragma unroll
        for (int c = 0; c < CONSUMERS; ++c) {
            const uint32_t b = b_tile(stage) + c * BOX_BYTES + part_b * wgmma::ROW_BYTES;
            const int across = COLUMN_MAJOR_B ? col + c * 64 + part_b : step * BK + part_b;  // rows of the box
            const int along = COLUMN_MAJOR_B ? step * BK : col + c * 64;
            if constexpr (CY == 1) {
                tma::load(b, tma_b, across, along, full(stage));
            } else {
                tma::load_multicast(b, tma_b, across, along, full(stage), share_b);
            }
        }
    };
    if (threadIdx.x == THREADS) {
        if constexpr (!ALONE) {
            tma::prefetch_descriptor(tma_a);
            tma::prefetch_descriptor(tma_b);
            tma::prefetch_descriptor(tma_c);
        }
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier::init(full(stage), 1);
            mbarrier::init(empty(stage), (CX + CY - 1) * CONSUMERS);
        }
        if constexpr (SLICES > 1) mbarrier::init(come, 1);
        mbarrier::fence_init();
        if constexpr (SLICES > 1) mbarrier::arrive_expect_tx(come, Sums::BYTES);
        if constexpr (ALONE) {  // the first loads wait for nothing
#pragma unroll 1
            for (int stage = 0; stage < STAGES && first + stage < last; ++stage) {
                load(stage, first + stage, 0, 0, 0, 0);
            }
            tma::prefetch_descriptor(tma_c);
        }
    }
    if constexpr (ALONE) {  // the other blocks' barriers matter only to who sends sums, below
        __syncwarp();
        cluster::arrive_relaxed();
        __syncthreads();
    } else if constexpr (CLUSTER > 1) {
        if constexpr (SLICES > 1) __syncwarp();
        cluster::arrive_relaxed();
        cluster::wait();
    } else {
        __syncthreads();
    }

    PipelineState<STAGES> state;
    if (threadIdx.x >= THREADS) {
        const uint16_t share_a = ((1 << CX) - 1) << rank(0, y, slice);
        const uint16_t share_b = ((1 << CX * CY) - 1) / ((1 << CX) - 1) << rank(x, 0, slice);
        const int part_a = BM / CX * x, part_b = BK / CY * y;
        for (int step = first; step < last && threadIdx.x == THREADS; ++step, state.advance()) {
            if (ALONE && step < first + STAGES) continue;  // loaded already
            mbarrier::wait(empty(state.stage), state.phase ^ 1);
            load(state.stage, step, part_a, part_b, share_a, share_b);
        }
        __syncwarp();
        if constexpr (ALONE) {  // with the consumers, below
            cluster::wait();
        } else if constexpr (CLUSTER > 1) {
            cluster::sync();
        }
        return;
    }

    const int group = threadIdx.x / wgmma::THREADS;
    auto release = [&](int stage) {  // to all blocks that load for this one, itself included
        const int thread = threadIdx.x % wgmma::THREADS;
        if constexpr (CX * CY == 1) {
            if (thread == 0) mbarrier::arrive(empty(stage));
        } else if (thread < CX * CY && (thread / CX == y || thread % CX == x)) {
            mbarrier::arrive_remote(empty(stage), rank(0, 0, slice) + thread);
        }
    };
    float sum[BM / 2];
    if (first < last) {
        int previous = 0;
#pragma unroll 1
        for (int step = first; step < last; ++step, state.advance()) {
            mbarrier::wait(full(state.stage), state.phase);
            wgmma::fence();
#pragma unroll
            for (int p = 0; p < BK; p += 16) {
                const uint32_t box = b_tile(state.stage) + group * BOX_BYTES;
                const uint64_t b = COLUMN_MAJOR_B ? wgmma::descriptor_k_major<T>(box, p)
                                                  : wgmma::descriptor_mn_major<T, BK>(box, p);
                const uint64_t a = wgmma::descriptor_k_major<T>(a_tile(state.stage), p);
                wgmma::mma_transposed<T, COLUMN_MAJOR_B>(sum, b, a, step > first || p > 0);
            }
            wgmma::commit();
            wgmma::wait<1>();  // for the previous step
            if (step > first) release(previous);
            previous = state.stage;
        }
        wgmma::wait<0>();
        wgmma::fence_operand(sum);
        release(previous);
    } else {  // k has fewer steps than there are slices
#pragma unroll
        for (int i = 0; i < BM / 2; ++i) sum[i] = 0.0f;
    }

    auto meet = [] { asm volatile("bar.sync 1, %0;" : : "n"(THREADS) : "memory"); };
    float total[PIECE / 2];  // of the rows that this slice stores
    if constexpr (SLICES == 1) {
        meet();  // all tiles have been read, and C may take their place
#pragma unroll
        for (int i = 0; i < PIECE / 2; ++i) total[i] = sum[i];
    } else {
        if constexpr (ALONE) cluster::wait();  // all blocks have made their barriers
        const Sums sums{inbox + threadIdx.x * 16, slice};
        sums.send(sum, total, [&](uint32_t to, int s, float4 four) {
            cluster::store_async_4(to, rank(x, y, s), four, come);
        });
        meet();  // as above
        mbarrier::wait(come, 0);
        sums.receive(total);
    }

    const int top = row + slice * PIECE, left = col + group * 64;
    // TMA stores whole pieces of 16 bytes, the last one of a row too, with zeros beyond the edge.
    if (beta != 0.0f || n % 8 != 0) {
        store_transposed(total, top, left, m, n, alpha, beta, C, ldc);
    } else {
        const uint32_t buffer = stages + group * PIECE * wgmma::ROW_BYTES;
        stage_transposed<T>(total, buffer, alpha);
        tma::fence_proxy_async();
        warpgroup::sync(2 + group);
        if (threadIdx.x % wgmma::THREADS == 0 && top < m && left < n) {
            tma::store(tma_c, top, left, buffer);
            tma::store_commit();
            tma::store_wait_read<0>();
        }
    }
    if constexpr (CX * CY > 1) cluster::sync();  // no block ends while others still arrive at its barriers
}
