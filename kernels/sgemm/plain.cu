// plain: a small tile a block, for problems that are thin or short.
//
// The one idea it adds to `t128x256x8_cpasync`: there one block of 256 threads fills a multiprocessor, and a product of
// 6512 x 234 has 51 tiles, for 132 multiprocessors. Here a tile is small, and several blocks share a multiprocessor: one
// multiplies while another waits for its first bytes or stores its last. Unlike those of `splitk`, a block computes one
// tile, all of k, and agrees with no other. The GPU gives the next tile to whichever multiprocessor is free.
//
//     global memory ------------------> shared memory --> fragments --> sums --> shared memory --> global memory
//              STAGES - 1 steps ahead,  a ring            two sets,              whole rows of C
//              BK of k a step           of STAGES         one p ahead
//
// - The first step has what k leaves over BK, and the others go down from there: only the first asks where k ends. What
//   is eight or less takes half a step.
// - Copies of A are of 4 bytes, and transpose it on the way: 16 k of 2 rows a warp, on 32 banks. Rows of 32 bytes, as 8 k
//   are, would take twice as long, for each lies in a line of its own.
// - Copies of B are of 4, 8 or 16 bytes, as it is aligned.
// - Rows of A beyond the last are read from the last, and what becomes of them is not stored. Columns of B beyond the
//   last are zero.
// - Where a copy comes from is a 32-bit distance from a place that all threads share, which moves from step to step.
//
// Template:  BM, BN, BK: the block's tile; STAGES: of the ring; TM, TN: a thread's sums; BLOCKS: of a multiprocessor;
//            SLICES: 1. With more, a cluster of so many blocks computes a tile (plain_slices.cu).
// Launch:    BM BN / (TM TN) threads (1-D); grid x over tiles of n, y over tiles of m. Dynamic shared memory: STAGES
//            times (BM + 4 + BN) BK floats.
// Requires:  nothing; any m, n, k and leading dimension whose tile lies within 2^32 words.
// Run:       make try KERNEL=sgemm_plain_64x128

#include "include/cluster_rows.cuh"
#include "include/ptx.cuh"
#include "include/split_k.cuh"
#include "include/tile_scheduler.cuh"
#include "include/warp_tile.cuh"

template <int N>
struct Words {
    static constexpr int value = N;
};

// How many lanes copy neighbouring places of a row of B, WIDTH words each: a power of two.
template <int BN, int WIDTH>
struct Across {
    static constexpr int copies = BN / WIDTH, lanes = copies % 32 == 0 ? 32 : copies & -copies;
};

// The number of words, 1, 2 or 4, that `count` is a multiple of.
__device__ __forceinline__ int aligned_words(uint64_t count) { return count % 4 == 0 ? 4 : count % 2 == 0 ? 2 : 1; }

// work(Words<width>) for a width of 1, 2 or 4.
template <typename Work>
__device__ __forceinline__ void for_width(int width, Work work) {
    if (width == 4) {
        work(Words<4>());
    } else if (width == 2) {
        work(Words<2>());
    } else {
        work(Words<1>());
    }
}

// Copies so many words past the registers; zeros, and nothing is read, where not `inside`.
template <int WIDTH>
__device__ __forceinline__ void copy_words(uint32_t to_shared, const float* from, bool inside) {
    if constexpr (WIDTH == 4) {
        copy_16(to_shared, from, inside);
    } else if constexpr (WIDTH == 2) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
                     :
                     : "r"(to_shared), "l"(from), "r"(inside ? 8 : 0)
                     : "memory");
    } else {
        ptx::cp_async_4(to_shared, from, inside);
    }
}

__device__ __forceinline__ void swap(float& a, float& b) {
    const float other = a;
    a = b, b = other;
}

// plain_slices.cu defines it: a kernel whose cluster is one block would still be launched as clusters.
#ifndef IN_CLUSTERS
#define IN_CLUSTERS
#endif

template <int BM, int BN, int BK, int STAGES, int TM, int TN, int BLOCKS, int SLICES>
__global__ void IN_CLUSTERS __launch_bounds__(BM* BN / (TM * TN), BLOCKS)
sgemm_plain(int m, int n, int k, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
            int ldc) {
    constexpr int THREADS = BM * BN / (TM * TN);
    constexpr int LANES_N = 8, LANES_M = 32 / LANES_N;
    constexpr int WM = TM * LANES_M, WN = TN * LANES_N;
    constexpr int A_LD = BM + 4, A_BYTES = BK * A_LD * 4, STAGE_BYTES = A_BYTES + BK * BN * 4;
    static_assert(BM % WM == 0 && BN % WN == 0 && (BK == 8 || BK == 16) && THREADS % 32 == 0);

    // Strips are for many tiles; telling them takes divisions.
    const TileCoord own = {static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x)};
    const TileCoord tile = gridDim.x <= 8 ? own : block_tile<8>();
    const int tile_row = tile.m * BM, tile_col = tile.n * BN;
    if (alpha == 0.0f) {
        if (SLICES == 1 || blockIdx.z == 0) scale_c<BM, BN>(tile_row, tile_col, m, n, beta, C, ldc);
        return;
    }
    if constexpr (SLICES > 1) {  // from here on, A, B and k are those of this slice
        const int steps = (k + BK - 1) / BK, slice = blockIdx.z;
        const int before = steps * slice / SLICES * BK;
        k = min(steps * (slice + 1) / SLICES * BK, k) - before;
        A += before;
        B += static_cast<int64_t>(before) * ldb;
    }

    extern __shared__ float memory[];
    const uint32_t shared = ptx::shared_address(memory);

    // What this thread copies of A: a word of one row in every ROWS_A. Words that lie 8 k apart would meet in a bank. So
    // in the second eight of k, a row's place is that of the row two further, or two before.
    constexpr int ROWS_A = THREADS / BK, PASSES_A = BM / ROWS_A;
    static_assert(BM % ROWS_A == 0 && THREADS % BK == 0);
    const int a_row = threadIdx.x / BK, a_col = threadIdx.x % BK;
    const uint32_t a_store = shared + (a_col * A_LD + (a_row ^ a_col / 8 * 2)) * 4;
    unsigned a_at[PASSES_A];
#pragma unroll
    for (int i = 0; i < PASSES_A; ++i) {
        a_at[i] = static_cast<unsigned>(min(a_row + i * ROWS_A, m - 1 - tile_row)) * lda + a_col;
    }

    // And of B: of one row in every THREADS / Across::lanes, as many words at a time as all of B is aligned to.
    const int aligned = min(aligned_words(ldb | n), aligned_words(reinterpret_cast<uintptr_t>(B) / 4));
    constexpr int MOST_ROWS = BK * Across<BN, 1>::lanes / THREADS, MOST_WORDS = BN / Across<BN, 1>::lanes;
    int b_row, b_col, rows_apart, words_apart;
    auto place_b = [&](auto words) {
        constexpr int WIDTH = decltype(words)::value, LANES = Across<BN, WIDTH>::lanes;
        b_row = threadIdx.x / LANES, b_col = threadIdx.x % LANES * WIDTH;
        rows_apart = THREADS / LANES, words_apart = LANES * WIDTH;
    };
    for_width(aligned, place_b);
    const uint32_t b_store = shared + A_BYTES + (b_row * BN + b_col) * 4;
    unsigned b_at[MOST_ROWS];
    bool inside[MOST_WORDS];
#pragma unroll
    for (int i = 0; i < MOST_ROWS; ++i) b_at[i] = (b_row + i * rows_apart) * ldb + b_col;
#pragma unroll
    for (int j = 0; j < MOST_WORDS; ++j) inside[j] = tile_col + b_col + j * words_apart < n;

    // The first step has what is left of k, and in its last eight where that is eight or less.
    const int last = (k - 1) / BK * BK;
    int skip = (BK - (k - last)) / 8 * 8;
    A += static_cast<int64_t>(tile_row) * lda + last - skip;
    B += static_cast<int64_t>(last - skip) * ldb + tile_col;
    // From global to the stage at `to`, the k that `count`; then down to the next step's.
    auto copy = [&](uint32_t to, auto counts) {
#pragma unroll
        for (int i = 0; i < PASSES_A; ++i) {
            ptx::cp_async_4(a_store + to + i * ROWS_A * 4, A + a_at[i], counts(a_col));
        }
        auto copy_b = [&](auto words) {
            constexpr int WIDTH = decltype(words)::value, LANES = Across<BN, WIDTH>::lanes, ROWS = THREADS / LANES;
#pragma unroll
            for (int i = 0; i < (BK + ROWS - 1) / ROWS; ++i) {
                if (BK % ROWS != 0 && b_row + i * ROWS >= BK) continue;
                const bool row_counts = counts(b_row + i * ROWS);
#pragma unroll
                for (int j = 0; j < BN / (LANES * WIDTH); ++j) {
                    copy_words<WIDTH>(b_store + to + (i * ROWS * BN + j * LANES * WIDTH) * 4,
                                      B + b_at[i] + j * LANES * WIDTH, inside[j] && row_counts);
                }
            }
        };
        for_width(aligned, copy_b);
        A -= BK;
        B -= static_cast<int64_t>(BK) * ldb;
    };
    auto next = [](uint32_t stage) { return stage == (STAGES - 1) * STAGE_BYTES ? 0 : stage + STAGE_BYTES; };

    // The upper left corner of the warp's tile, and what this thread reads of it.
    const int warp = threadIdx.x / 32;
    const int warp_row = warp / (BN / WN) * WM, warp_col = warp % (BN / WN) * WN;
    const Lane<LANES_N> lane;
    const uint32_t a_load = shared + (warp_row + lane.row * 4) * 4;
    const uint32_t b_load = shared + A_BYTES + (warp_col + lane.col * 4) * 4;
    float a[2][TM], b[2][TN], sum[TM][TN] = {};
    auto load = [&](uint32_t stage, int p, int set) {
        load_fragment<LANES_M * 4>(a[set], a_load + stage + p * A_LD * 4);
        if (p / 8 % 2 == 1) {
#pragma unroll
            for (int i = 0; i < TM; i += i % 4 == 1 ? 3 : 1) swap(a[set][i], a[set][i + 2]);
        }
        load_fragment<LANES_N * 4>(b[set], b_load + stage + p * BN * 4);
    };

    int copies = last / BK;  // steps that are not copied yet
    copy(0, [&](int p) { return skip <= p && p < skip + k - last; });
    A += skip;
    B += static_cast<int64_t>(skip) * ldb;
    ptx::cp_async_commit();
    uint32_t here = 0, there = STAGE_BYTES;
#pragma unroll 1
    for (int step = 1; step < STAGES - 1; ++step, --copies, there = next(there)) {
        if (copies > 0) copy(there, [](int) { return true; });
        ptx::cp_async_commit();
    }
    ptx::cp_async_wait<STAGES - 2>();
    __syncthreads();
    if (skip > 0) {
        load(here, BK - 8, 0);
    } else {
        load(here, 0, 0);
    }
#pragma unroll 1
    for (int left = last / BK; left >= 0; --left, --copies, there = next(there)) {
        if (copies > 0) copy(there, [](int) { return true; });
        ptx::cp_async_commit();
        const uint32_t following = next(here);
#pragma unroll
        for (int q = 0; q < BK; q += 8) {
            if (q + 8 < BK && skip > 0) continue;
#pragma unroll
            for (int p = q; p < q + 8; ++p) {
                if (p < BK - 1) {
                    load(here, p + 1, (p + 1) % 2);
                } else {
                    ptx::cp_async_wait<STAGES - 2>();
                    __syncthreads();  // the next tiles are complete, and nobody needs these any more
                    if (left > 0) load(following, 0, 0);
                }
                add_outer_product<Order::snake>(sum, a[p % 2], b[p % 2]);
            }
        }
        skip = 0;
        here = following;
    }

    // All reads of tiles were before the last barrier, and sums take their place.
    if constexpr (SLICES > 1) {
        constexpr int SUMS_LD = BN + 4;
        static_assert(BM * SUMS_LD * 4 <= STAGES * STAGE_BYTES);
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            const int row = warp_row + (i / 4 * LANES_M + lane.row) * 4 + i % 4;
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                const float* four = &sum[i][j];
                ptx::store_shared_4(shared + (row * SUMS_LD + warp_col + j * LANES_N + lane.col * 4) * 4,
                                    make_float4(four[0], four[1], four[2], four[3]));
            }
        }
        return store_rows_of_cluster<SLICES, THREADS / 32, BM, BN, SUMS_LD>(shared, blockIdx.z, tile_row, tile_col, m,
                                                                            n, alpha, beta, C, ldc);
    }

    // Four rows of each patch at a time through shared memory: then neighbouring lanes have neighbouring columns.
    constexpr int LD = WN + 4, LINES = LANES_M * 4;
    static_assert(THREADS / 32 * LINES * LD <= STAGES * STAGE_BYTES / 4);
    const uint32_t scratch = shared + warp * LINES * LD * 4;
    const int col = tile_col + warp_col + threadIdx.x % 32;
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
        // Four lines at a time: all loads of them before the first store.
        const int row = tile_row + warp_row + part * LANES_M;
        float* c = &C[static_cast<int64_t>(row) * ldc + col];
#pragma unroll 1
        for (int line = 0; line < LINES; line += 4, c += 4 * static_cast<int64_t>(ldc)) {
            float words[4][(WN + 31) / 32];
            auto for_each = [&](auto work) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
#pragma unroll
                    for (int j = 0; j < WN; j += 32) {
                        const bool ours = WN % 32 == 0 || j + threadIdx.x % 32 < WN;
                        const bool in_c = row + line + i < m && col + j < n && ours;
                        if (in_c) work(words[i][j / 32], i, j);
                    }
                }
            };
            for_each([&](float& word, int i, int j) {
                word = ptx::load_shared(scratch + ((line + i) * LD + j + threadIdx.x % 32) * 4);
            });
            if (beta != 0.0f) {
                for_each([&](float& word, int i, int j) { word += beta * c[i * static_cast<int64_t>(ldc) + j]; });
            }
            for_each([&](float& word, int i, int j) { c[i * static_cast<int64_t>(ldc) + j] = word; });
        }
        __syncwarp();
    }
}
