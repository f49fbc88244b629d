// The epilogue of a tile of any width: C = alpha * sum + beta * C through shared memory and TMA, a piece at a time.
//
// A warp group's sums are HEIGHT blocks of 64 of the first operand by WIDTH of the second. PIECE of the width is staged at
// a time, for all HEIGHT blocks, in rows of 64 columns of C with the 128-byte swizzle:
//
//     A is first: a row of C runs along the width            B is first: a row of C runs along the 64
//     each warp stores its 16 rows, 64 columns a box         the warp group stores PIECE rows, 64 columns a box
//
// Where A is first and WIDTH is no multiple of 64, what is left is stored from the registers; below 64, PIECE is 0. So is
// all of a tile where beta is not zero, and where rows of C end within 16 bytes, which TMA stores whole.
#pragma once

#include "include/fragments.cuh"
#include "include/tma.cuh"
#include "include/warpgroup.cuh"
#include "include/wgmma.cuh"

template <typename T, bool B_FIRST, int HEIGHT, int WIDTH, int PIECE>
struct TileEpilogue {
    static constexpr int COLUMNS = wgmma::ROW_BYTES / sizeof(T);
    static constexpr int WARP_ROWS = wgmma::ROWS / 4;
    static constexpr int STAGED = B_FIRST ? WIDTH : WIDTH / COLUMNS * COLUMNS;
    static constexpr int BYTES = HEIGHT * wgmma::ROWS * PIECE * sizeof(T);  // of a warp group
    static_assert(STAGED % (STAGED > 0 ? PIECE : 1) == 0, "whole pieces");

    uint32_t buffer;  // this warp group's, aligned to 1024 bytes
    int barrier;      // a named barrier of its own

    // Called by a warp group: its sums are those of C from (row, col) on, within m x n. `map_c`: boxes of 16 x 64, or of
    // PIECE x 64 if B is first, swizzled over 128 bytes.
    __device__ __forceinline__ void store(const float (&sum)[HEIGHT][WIDTH / 2], const CUtensorMap& map_c, int row,
                                          int col, int m, int n, float alpha, float beta, T* C, int ldc) const {
        const bool direct = beta != 0.0f || n % (16 / static_cast<int>(sizeof(T))) != 0;
        if constexpr (B_FIRST) {
            if (direct) return store_columns(sum, row, col, m, n, alpha, beta, C, ldc);
            const bool leader = threadIdx.x % wgmma::THREADS == 0;
#pragma unroll
            for (int first = 0; first < WIDTH; first += PIECE) {
                if (leader) tma::store_wait_read<0>();  // the last piece has left the buffer
                warpgroup::sync(barrier);
#pragma unroll
                for (int h = 0; h < HEIGHT; ++h) stage_columns(&sum[h][first / 2], box(h), alpha);
                tma::fence_proxy_async();
                warpgroup::sync(barrier);
                if (leader) {
#pragma unroll
                    for (int h = 0; h < HEIGHT; ++h) {
                        const int top = row + first, left = col + h * COLUMNS;
                        if (top < m && left < n) tma::store(map_c, top, left, box(h));
                    }
                    tma::store_commit();
                }
            }
        } else {
            if (direct) return store_rows<0>(sum, row, col, m, n, alpha, beta, C, ldc);
            const int warp = threadIdx.x % wgmma::THREADS / 32;
            auto box = [&](int h, int across) {
                return buffer + ((h * (PIECE / COLUMNS) + across) * 4 + warp) * WARP_ROWS * wgmma::ROW_BYTES;
            };
#pragma unroll
            for (int first = 0; first < STAGED; first += PIECE) {
                if (threadIdx.x % 32 == 0) tma::store_wait_read<0>();
                __syncwarp();
#pragma unroll
                for (int h = 0; h < HEIGHT; ++h) {
#pragma unroll
                    for (int c = 0; c < PIECE; c += COLUMNS) {
                        stage_fragments<T>(&sum[h][(first + c) / 2], box(h, c / COLUMNS), 0, 0, m, n, alpha, 0.0f, C, ldc);
                    }
                }
                tma::fence_proxy_async();
                __syncwarp();
                if (threadIdx.x % 32 == 0) {
#pragma unroll
                    for (int h = 0; h < HEIGHT; ++h) {
#pragma unroll
                        for (int c = 0; c < PIECE; c += COLUMNS) {
                            const int top = row + h * wgmma::ROWS + warp * WARP_ROWS, left = col + first + c;
                            if (top < m && left < n) tma::store(map_c, top, left, box(h, c / COLUMNS));
                        }
                    }
                    tma::store_commit();
                }
            }
            if constexpr (STAGED < WIDTH) store_rows<STAGED>(sum, row, col, m, n, alpha, 0.0f, C, ldc);
        }
    }

    // Called by the same threads before they exit: until TMA has read the buffers.
    __device__ __forceinline__ void wait() const {
        if (threadIdx.x % 32 == 0) tma::store_wait_read<0>();
    }

private:
    __device__ __forceinline__ uint32_t box(int h) const { return buffer + h * PIECE * wgmma::ROW_BYTES; }

    // alpha * sum of a warp's 16 columns of C and PIECE rows to a box. A fragment has neighbours of a column in one
    // register, which stmatrix turns into neighbours of a row: four blocks of 8 x 8 at a time, two where 8 rows are left.
    static __device__ __forceinline__ void stage_columns(const float* sum, uint32_t box, float alpha) {
        const int lane = threadIdx.x % 32, chunk = threadIdx.x / 32 % 4 * 2 + lane / 8 % 2;
#pragma unroll
        for (int rows = 0; rows < PIECE; rows += 16) {
            const bool two = rows + 8 < PIECE;
            uint32_t packed[4] = {};
#pragma unroll
            for (int i = 0; i < (two ? 4 : 2); ++i) {
                alignas(4) T pair[2];
                update_c2(pair, alpha, &sum[rows / 2 + 2 * i], 0.0f);
                packed[i] = *reinterpret_cast<const uint32_t*>(pair);
            }
            const uint32_t row = rows + lane % 8 + (two ? lane / 16 * 8 : 0);
            const uint32_t to = box + row * wgmma::ROW_BYTES + (chunk ^ lane % 8) * 16;
            if (two) {
                asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                             :
                             : "r"(to), "r"(packed[0]), "r"(packed[1]), "r"(packed[2]), "r"(packed[3])
                             : "memory");
            } else {
                asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
                             :
                             : "r"(to), "r"(packed[0]), "r"(packed[1])
                             : "memory");
            }
        }
    }

    // The sums from column FROM of the width on, pairs of a row of C, from the registers.
    template <int FROM>
    static __device__ __forceinline__ void store_rows(const float (&sum)[HEIGHT][WIDTH / 2], int row, int col, int m,
                                                      int n, float alpha, float beta, T* C, int ldc) {
#pragma unroll
        for (int h = 0; h < HEIGHT; ++h) {
            const auto& rest = reinterpret_cast<const float(&)[(WIDTH - FROM) / 2]>(sum[h][FROM / 2]);
            store_fragments(rest, row + h * wgmma::ROWS, col + FROM, m, n, alpha, beta, C, ldc);
        }
    }

    // The sums where B is first, element by element from the registers.
    static __device__ __forceinline__ void store_columns(const float (&sum)[HEIGHT][WIDTH / 2], int row, int col, int m,
                                                         int n, float alpha, float beta, T* C, int ldc) {
        row += threadIdx.x % 4 * 2;
        col += threadIdx.x % wgmma::THREADS / 32 * WARP_ROWS + threadIdx.x % 32 / 4;
        T* c = &C[static_cast<int64_t>(row) * ldc + col];
#pragma unroll
        for (int s = 0; s < WIDTH / 4; ++s) {  // two neighbouring rows of every eight
#pragma unroll
            for (int h = 0; h < HEIGHT; ++h) {
#pragma unroll
                for (int right = 0; right < 2; ++right) {
                    const int across = h * wgmma::ROWS + right * 8;
                    if (row < m && col + across < n) {
                        update_c(&c[across], alpha, sum[h][s / 2 * 4 + right * 2 + s % 2], beta);
                    }
                }
            }
            const int down = s % 2 == 0 ? 1 : 7;
            row += down;
            c += static_cast<int64_t>(down) * ldc;
        }
    }
};
