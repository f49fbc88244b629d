// The epilogue of include/tma_epilogue.cuh, in batches: a warp fills all of its buffers, then one fence and one commit
// hand them to TMA together, where a fence for each buffer held the warp up each time. Whether beta is zero is decided once
// for the tile and not for each pair of elements.
#pragma once

#include "include/fragments.cuh"
#include "include/tma.cuh"
#include "include/wgmma.cuh"

template <typename T, int HEIGHT, int BN, int BUFFERS>
struct BatchedEpilogue {
    static constexpr int ROWS = wgmma::ROWS / 4;  // a warp's, of each 64
    static constexpr int COLUMNS = wgmma::ROW_BYTES / sizeof(T);
    static constexpr int BUFFER_BYTES = ROWS * wgmma::ROW_BYTES;
    static constexpr int BYTES_PER_WARP = BUFFERS * BUFFER_BYTES;
    static constexpr int ACROSS = BN / COLUMNS;  // buffers for the width of the tile
    static_assert(HEIGHT * ACROSS % BUFFERS == 0, "whole batches");

    uint32_t buffers;  // this warp's, aligned to 1024 bytes

    // Called by a warp group: C = alpha * sum + beta * C for its HEIGHT * 64 rows from `row` and BN columns from `col`,
    // within m x n. The old C is read from global memory in pairs. `map_c`: boxes of ROWS x COLUMNS, swizzled over 128
    // bytes.
    __device__ __forceinline__ void store(const float (&sum)[HEIGHT][BN / 2], const CUtensorMap& map_c, int row, int col,
                                          int m, int n, float alpha, float beta, T* C, int ldc) const {
        // TMA stores whole 16-byte chunks: the last chunk of a row would overwrite what follows the row with zeros.
        if (n % (16 / static_cast<int>(sizeof(T))) != 0) {
#pragma unroll
            for (int h = 0; h < HEIGHT; ++h) {
                store_fragments(sum[h], row + h * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
            }
        } else if (beta == 0.0f) {
            store_batches(sum, map_c, row, col, m, n, [&](const float* pair, int, int) {
                return make_float2(alpha * pair[0], alpha * pair[1]);
            });
        } else {
            store_batches(sum, map_c, row, col, m, n, [&](const float* pair, int r, int c) {
                float2 old = {};
                if (r < m && c < n) {  // both of the pair, for n is even
                    const T* from = &C[static_cast<int64_t>(r) * ldc + c];
                    old = make_float2(static_cast<float>(from[0]), static_cast<float>(from[1]));
                }
                return make_float2(alpha * pair[0] + beta * old.x, alpha * pair[1] + beta * old.y);
            });
        }
    }

    // Called by the same warps before they exit: until TMA has read the buffers.
    __device__ __forceinline__ void wait() const {
        if (threadIdx.x % 32 == 0) tma::store_wait_read<0>();
    }

private:
    static __device__ __forceinline__ uint32_t packed(float2 pair) {
        if constexpr (__is_same(T, __half)) {
            const __half2 rounded = __float22half2_rn(pair);
            return *reinterpret_cast<const uint32_t*>(&rounded);
        } else {
            const __nv_bfloat162 rounded = __float22bfloat162_rn(pair);
            return *reinterpret_cast<const uint32_t*>(&rounded);
        }
    }

    // `result(pair of sums, row, column)` is a pair of the new C.
    template <typename Result>
    __device__ __forceinline__ void store_batches(const float (&sum)[HEIGHT][BN / 2], const CUtensorMap& map_c, int row,
                                                  int col, int m, int n, Result result) const {
        const int lane = threadIdx.x % 32;
        row += threadIdx.x % wgmma::THREADS / 32 * ROWS;
#pragma unroll
        for (int first = 0; first < HEIGHT * ACROSS; first += BUFFERS) {
            if (lane == 0) tma::store_wait_read<0>();  // the last batch has read the buffers
            __syncwarp();
#pragma unroll
            for (int b = 0; b < BUFFERS; ++b) {
                const int h = (first + b) / ACROSS, c = (first + b) % ACROSS * COLUMNS;
                const int top = row + h * wgmma::ROWS + lane / 4, left = col + c + lane % 4 * 2;
#pragma unroll
                for (int j = 0; j < COLUMNS / 8; j += 2) {
                    uint32_t registers[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {  // two matrices of eight rows, one above the other, then the next two
                        const int down = i % 2, chunk = j + i / 2;
                        const float* pair = &sum[h][c / 2 + 4 * chunk + 2 * down];
                        registers[i] = packed(result(pair, top + 8 * down, left + 8 * chunk));
                    }
                    const uint32_t to = buffers + b * BUFFER_BYTES + lane % 16 * wgmma::ROW_BYTES +
                                        ((j + lane / 16) ^ lane % 8) * 16;
                    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                                 :
                                 : "r"(to), "r"(registers[0]), "r"(registers[1]), "r"(registers[2]), "r"(registers[3])
                                 : "memory");
                }
            }
            tma::fence_proxy_async();
            __syncwarp();
            if (lane == 0) {
#pragma unroll
                for (int b = 0; b < BUFFERS; ++b) {
                    const int top = row + (first + b) / ACROSS * wgmma::ROWS;
                    const int left = col + (first + b) % ACROSS * COLUMNS;
                    if (top < m && left < n) tma::store(map_c, top, left, buffers + b * BUFFER_BYTES);
                }
                tma::store_commit();
            }
        }
    }
};
