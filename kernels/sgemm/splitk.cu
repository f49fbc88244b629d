// splitk: tiles of any size, divided along k among all blocks.
//
// The one idea it adds to `t128x256x8_cpasync`: there a block computes a tile, and a product of 263 x 72 has three, for
// 132 multiprocessors. Here tiles are as small as the problem wants them, and where there are still too few, blocks share
// one: each multiplies a stretch of k, and all of them add up what they have (include/split_k.cuh).
//
//     m = 263, n = 72, k = 2975, tiles of 64 x 64:   10 tiles,  26 blocks each,  8 steps of 16 each
//
// Small tiles have less to do between two barriers. So the copies run STAGES - 1 steps ahead, and several blocks share a
// multiprocessor. Where few blocks fit, GROUPS of a block's threads multiply the same tile, each its part of every BK,
// and add up their sums in shared memory: as many warps for fewer parts that blocks exchange.
//
// - Copies are of 4 bytes, and transpose A on the way: 8 k of 4 rows a warp, on 32 banks. Of B they are of 16 bytes where
//   it lies on multiples of 16 in rows of multiples of 4.
// - Rows of A beyond the last are read from the last, columns of B likewise, and what becomes of them is not stored. Beyond
//   the end of k, both are zero.
//
// Template:  BM, BN, BK: the block's tile; STAGES: of the pipeline; TM, TN: a thread's sums; LANES_N: lanes of a warp along n
//            and APART, which lane has what (include/warp_tile.cuh); BLOCKS: of a multiprocessor; FIXUP, LEAST, PARTS:
//            see include/split_k.cuh; GROUPS: of threads.
// Launch:    GROUPS BM BN / (TM TN) threads (1-D), BLOCKS a multiprocessor: all run at a time; dynamic shared memory:
//            STAGES times (BM + 4 + BN) BK floats. Workspace: 2 BM BN floats a block; flags: 4 bytes a block, zero before the first
//            launch, and zero again after each.
// Requires:  nothing; any m, n, k and leading dimension.
// Run:       make try KERNEL=sgemm_splitk_128x256

#include "include/ptx.cuh"
#include "include/split_k.cuh"
#include "include/tile_scheduler.cuh"
#include "include/warp_tile.cuh"

template <int N>
struct Words {
    static constexpr int value = N;
};

__device__ constexpr int gcd(int a, int b) { return b == 0 ? a : gcd(b, a % b); }

// Adds up in the first of GROUPS groups of GROUP threads what each of them has summed. Called by the whole block.
template <int GROUPS, int GROUP, int SUMS>
__device__ __forceinline__ void add_groups(float (&sums)[SUMS], uint32_t shared, int group) {
    ptx::cp_async_wait<0>();
    __syncthreads();
    const uint32_t first = shared + threadIdx.x % GROUP * 16;
    if (group > 0) {
#pragma unroll
        for (int i = 0; i < SUMS; i += 4) {
            ptx::store_shared_4(first + ((group - 1) * SUMS / 4 + i / 4) * GROUP * 16,
                                make_float4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]));
        }
    }
    __syncthreads();
    if (group > 0) return;
#pragma unroll 1
    for (int other = 0; other < GROUPS - 1; ++other) {
#pragma unroll
        for (int i = 0; i < SUMS; i += 4) {
            const float4 more = ptx::load_shared_4(first + (other * SUMS / 4 + i / 4) * GROUP * 16);
            sums[i] += more.x, sums[i + 1] += more.y, sums[i + 2] += more.z, sums[i + 3] += more.w;
        }
    }
}

template <int BM, int BN, int BK, int STAGES, int TM, int TN, int LANES_N, bool APART, int BLOCKS, int FIXUP,
          int LEAST, int PARTS, int GROUPS>
__global__ void __launch_bounds__(GROUPS* BM* BN / (TM * TN), BLOCKS)
sgemm_splitk(int m, int n, int k, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
             int ldc, void* workspace, void* flags) {
    constexpr int GROUP = BM * BN / (TM * TN), THREADS = GROUPS * GROUP;  // threads
    constexpr int LANES_M = 32 / LANES_N;
    constexpr int WM = TM * LANES_M, WN = TN * LANES_N;
    constexpr int A_LD = BM + 4;
    constexpr int A_BYTES = BK * A_LD * 4, STAGE_BYTES = A_BYTES + BK * BN * 4;
    constexpr int ROWS_A = THREADS / 8, PASSES_A = (BM + ROWS_A - 1) / ROWS_A;  // rows of A that a pass copies, 8 k of each
    static_assert(BM % WM == 0 && BN % WN == 0 && BK % (8 * GROUPS) == 0);

    const int tiles_m = (m + BM - 1) / BM, tiles_n = (n + BN - 1) / BN;
    const Division<FIXUP, LEAST, PARTS> division(gridDim.x, tiles_m * tiles_n, (k + BK - 1) / BK);
    auto corner = [&](int tile) {
        const TileCoord at = tile_coord<8>(tile, tiles_m, tiles_n);
        return TileCoord{at.m * BM, at.n * BN};
    };
    if (alpha == 0.0f) {
        return division.for_each(blockIdx.x, [&](int tile, int first, int) {
            if (first == 0) scale_c<BM, BN>(corner(tile).m, corner(tile).n, m, n, beta, C, ldc);
        });
    }

    extern __shared__ float memory[];
    const uint32_t shared = ptx::shared_address(memory);
    const Parts<GROUP, TM * TN> parts{static_cast<float4*>(workspace), static_cast<unsigned*>(flags),
                                      static_cast<int>(threadIdx.x), GROUPS > 1};
    auto aligned = [](const void* matrix, int ld) { return ld % 4 == 0 && reinterpret_cast<uintptr_t>(matrix) % 16 == 0; };
    const bool wide_b = aligned(B, ldb) && n % 4 == 0, wide_c = aligned(C, ldc);

    // What this thread copies of A: one column of every eight, one row in every ROWS_A.
    const int a_row = threadIdx.x / 8, a_col = threadIdx.x % 8;
    const uint32_t a_store = shared + (a_col * A_LD + a_row) * 4;

    // The upper left corner of the warp's tile, and what this thread reads of it.
    const int group = GROUPS > 1 ? threadIdx.x / GROUP : 0, warp = threadIdx.x / 32 - group * (GROUP / 32);
    const int warp_row = warp / (BN / WN) * WM, warp_col = warp % (BN / WN) * WN;
    const Lane<LANES_N, APART> lane;
    const int group_k = group * (BK / GROUPS);  // the first k of each step that this group multiplies
    const uint32_t a_load = shared + (group_k * A_LD + warp_row + lane.row * 4) * 4;
    const uint32_t b_load = shared + A_BYTES + (group_k * BN + warp_col + lane.col * 4) * 4;

    division.for_each(blockIdx.x, [&](int tile, int first, int last) {
        const TileCoord at = corner(tile);
        unsigned a_at[PASSES_A];
#pragma unroll
        for (int i = 0; i < PASSES_A; ++i) a_at[i] = min(at.m + a_row + i * ROWS_A, m - 1) * lda + a_col;

        // B's tile from row k0 on, WIDTH words a copy.
        auto copy_b = [&](auto width, uint32_t stage, int k0) {
            constexpr int WIDTH = decltype(width)::value;
            constexpr int ACROSS = BN / WIDTH;  // copies of a row
            // So many passes of all threads copy so many whole rows. UNEVEN: a pass ends within a row.
            constexpr int PASSES = ACROSS / gcd(ACROSS, THREADS), ROWS = PASSES * THREADS / ACROSS;
            constexpr bool UNEVEN = ACROSS % THREADS != 0 && THREADS % ACROSS != 0;
            const int row = threadIdx.x / ACROSS, col = threadIdx.x % ACROSS * WIDTH;
            const uint32_t to = stage + A_BYTES + (row * BN + col) * 4;
            const float* from = B + static_cast<int64_t>(k0 + row) * ldb;
#pragma unroll
            for (int i = 0; i < BK; i += ROWS) {
#pragma unroll
                for (int j = 0; j < PASSES; ++j) {
                    // In an uneven pass, this thread's copy may lie in a row below its first.
                    const int below = UNEVEN ? (col + j * THREADS * WIDTH) / BN : 0;
                    if (BK % ROWS != 0 && row + i + below >= BK) continue;
                    const float* line = UNEVEN ? from + static_cast<int64_t>(below) * ldb : from;
                    const float* word = line + min(at.n + col + j * THREADS * WIDTH - below * BN, n - WIDTH);
                    const uint32_t there = to + (i * BN + j * THREADS * WIDTH) * 4;
                    if constexpr (WIDTH == 4) {
                        copy_16(there, word, k0 + row + i + below < k);
                    } else {
                        ptx::cp_async_4(there, word, k0 + row + i + below < k);
                    }
                }
                from += static_cast<int64_t>(ROWS) * ldb;
            }
        };
        // A step's tiles; nothing, but a group of copies of its own, after the last.
        auto copy = [&](int step, uint32_t stage) {
            const int k0 = step * BK;
            if (step < last) {
#pragma unroll
                for (int i = 0; i < PASSES_A; ++i) {
                    if (BM % ROWS_A != 0 && a_row + i * ROWS_A >= BM) continue;
                    const float* columns = A + k0 + a_at[i];
#pragma unroll
                    for (int j = 0; j < BK; j += 8) {
                        ptx::cp_async_4(a_store + stage + (j * A_LD + i * ROWS_A) * 4, columns + j, k0 + a_col + j < k);
                    }
                }
                if (wide_b) {
                    copy_b(Words<4>(), shared + stage, k0);
                } else {
                    copy_b(Words<1>(), shared + stage, k0);
                }
            }
            ptx::cp_async_commit();
        };

        float a[2][TM], b[2][TN], sums[TM * TN] = {};
        auto& sum = reinterpret_cast<float(&)[TM][TN]>(sums);
        auto load = [&](uint32_t stage, int p, int set) {
            load_fragment<LANES_M * 4>(a[set], a_load + stage + p * A_LD * 4);
            load_fragment<LANES_N * 4>(b[set], b_load + stage + p * BN * 4);
        };
        auto next = [](uint32_t stage) { return stage + STAGE_BYTES == STAGES * STAGE_BYTES ? 0 : stage + STAGE_BYTES; };

        // The copies are written once, and half of the multiply-adds twice: the less code, the sooner it is there.
        __syncthreads();  // what the tile before has left in shared memory has been read
        uint32_t here = 0, there = 0;
#pragma unroll 1
        for (int step = first + 1 - STAGES; step < last; ++step, there = next(there)) {
            copy(step + STAGES - 1, there);
            if (step < first) {
                if (step < first - 1) continue;
                ptx::cp_async_wait<STAGES - 2>();
                __syncthreads();
                load(here, 0, 0);
                continue;
            }
            const uint32_t following = next(here);
#pragma unroll 1
            for (int q = 0; q < BK / GROUPS; q += 8) {
#pragma unroll
                for (int p = 0; p < 8; ++p) {
                    if (p < 7) {
                        load(here, q + p + 1, (p + 1) % 2);
                    } else if (q + 8 < BK / GROUPS) {
                        load(here, q + 8, 0);
                    } else {
                        ptx::cp_async_wait<STAGES - 2>();
                        __syncthreads();  // the next tiles are complete, and nobody needs these any more
                        if (step + 1 < last) load(following, 0, 0);
                    }
                    add_outer_product<Order::snake>(sum, a[p % 2], b[p % 2]);
                }
            }
            here = following;
        }
        if constexpr (GROUPS > 1) add_groups<GROUPS, GROUP>(sums, shared, group);
        if (last - first < division.steps) {
            if (group == 0) parts.put(sums, alpha, division.shared(tile - division.whole));
            return;
        }

        // Four rows of each patch at a time through shared memory: then neighbouring lanes have neighbouring columns.
        constexpr int LD = WN + 4, LINES = LANES_M * 4;
        static_assert(GROUP / 32 * LINES * LD * 4 <= STAGES * STAGE_BYTES);
        static_assert((GROUPS - 1) * BM * BN * 4 <= STAGES * STAGE_BYTES);
        ptx::cp_async_wait<0>();
        __syncthreads();
        if (group > 0) return;
        const uint32_t scratch = shared + warp * LINES * LD * 4;
#pragma unroll
        for (int part = 0; part < TM; part += 4) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < TN; j += 4) {
                    const float* four = &sum[part + i][j];
                    ptx::store_shared_4(scratch + ((lane.row * 4 + i) * LD + j * LANES_N + lane.col * 4) * 4,
                                        make_float4(alpha * four[0], alpha * four[1], alpha * four[2], alpha * four[3]));
                }
            }
            __syncwarp();
            const int row = at.m + warp_row + part * LANES_M, col = at.n + warp_col + threadIdx.x % 32;
            float* c = &C[static_cast<int64_t>(row) * ldc + col];
#pragma unroll 2
            for (int line = 0; line < min(LINES, m - row); ++line, c += ldc) {
#pragma unroll
                for (int j = 0; j < WN; j += 32) {
                    if (WN % 32 != 0 && j + threadIdx.x % 32 >= WN) continue;
                    const float product = ptx::load_shared(scratch + (line * LD + j + threadIdx.x % 32) * 4);
                    if (col + j < n) update_c(&c[j], 1.0f, product, beta);
                }
            }
            __syncwarp();
        }
    });
    if (group > 0) return;
    division.for_each_shared(blockIdx.x, [&](const auto& shared_tile) {
        const TileCoord at = corner(division.whole + shared_tile.number);
        parts.add_up(shared_tile, [&](int four, int thread, const float4& sum) {
            const int l = thread % 32;  // its place in the warp's tile, as include/warp_tile.cuh has it
            const int lane_row = APART ? l % 8 : l / 2 % 2 + l / 4 / (LANES_N / 2) * 2;
            const int lane_col = APART ? l / 8 ^ l % 4 : l % 2 + l / 4 % (LANES_N / 2) * 2;
            const int i = four * 4 / TN, j = four * 4 % TN;
            const int row = at.m + thread / 32 / (BN / WN) * WM + (i / 4 * LANES_M + lane_row) * 4 + i % 4;
            const int col = at.n + thread / 32 % (BN / WN) * WN + (j / 4 * LANES_N + lane_col) * 4;
            if (row < m) update_row(&C[static_cast<int64_t>(row) * ldc + col], sum, n - col, wide_c, beta);
        });
    });
}
