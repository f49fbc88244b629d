// The epilogue through shared memory and TMA. Each warp stores its own 16 rows of a tile of C, 64 columns at a time,
// through two buffers in turn: it fills one while TMA reads the other. The last two stores overlap the mainloop of the
// next tile.
#pragma once

#include "include/fragments.cuh"
#include "include/tma.cuh"
#include "include/wgmma.cuh"

template <typename T, int BN>
struct TmaEpilogue {
    static constexpr int ROWS = wgmma::ROWS / 4;  // a warp's
    static constexpr int COLUMNS = wgmma::ROW_BYTES / sizeof(T);
    static constexpr int BUFFER_BYTES = ROWS * wgmma::ROW_BYTES;
    static constexpr int BYTES_PER_WARP = 2 * BUFFER_BYTES;

    uint32_t buffers;  // this warp's, aligned to 1024 bytes

    // Called by a warp group: C = alpha * sum + beta * C for its 64 rows from `row` and BN columns from `col`, within m
    // x n. The old C is read from global memory in pairs. `map_c`: boxes of ROWS x COLUMNS, swizzled over 128 bytes.
    __device__ __forceinline__ void store(const float (&sum)[BN / 2], const CUtensorMap& map_c, int row, int col, int m,
                                          int n, float alpha, float beta, T* C, int ldc) const {
        // TMA stores whole 16-byte chunks: the last chunk of a row would overwrite what follows the row with zeros.
        if (n % (16 / static_cast<int>(sizeof(T))) != 0) {
            return store_fragments(sum, row, col, m, n, alpha, beta, C, ldc);
        }
        row += threadIdx.x % wgmma::THREADS / 32 * ROWS;
        const bool leader = threadIdx.x % 32 == 0;
#pragma unroll
        for (int c = 0; c < BN; c += COLUMNS) {
            const uint32_t buffer = buffers + c / COLUMNS % 2 * BUFFER_BYTES;
            if (leader) tma::store_wait_read<1>();  // the last store but one has read this buffer
            __syncwarp();
            stage_fragments<T>(&sum[c / 2], buffer, row, col + c, m, n, alpha, beta, C, ldc);
            tma::fence_proxy_async();
            __syncwarp();
            if (leader) {
                if (row < m && col + c < n) tma::store(map_c, row, col + c, buffer);
                tma::store_commit();
            }
        }
    }

    // Called by the same warps before they exit: until TMA has read the buffers.
    __device__ __forceinline__ void wait() const {
        if (threadIdx.x % 32 == 0) tma::store_wait_read<0>();
    }
};
