// The way of a tile of C from registers through shared memory to TMA. Each warp sends its 16 rows on its own, 64 columns
// at a time, through two buffers in turn: one fills while the other leaves. The last two leave while the next tile is
// multiplied.
#pragma once

#include "include/fragments.cuh"
#include "include/tma.cuh"
#include "include/wgmma.cuh"

template <typename T, int BN>
struct TileOut {
    static constexpr int ROWS = wgmma::ROWS / 4;  // of a warp
    static constexpr int COLUMNS = wgmma::ROW_BYTES / sizeof(T);
    static constexpr int BUFFER_BYTES = ROWS * wgmma::ROW_BYTES;
    static constexpr int BYTES_PER_WARP = 2 * BUFFER_BYTES;

    uint32_t buffers;  // of this warp, aligned to 1024 bytes

    // By a warp group: C = alpha * sum + beta * C for its 64 rows from `row` and BN columns from `col`, within m x n. Old
    // elements of C are read from global memory, in pairs. `map_c`: boxes of ROWS x COLUMNS, swizzled over 128 bytes.
    __device__ __forceinline__ void send(const float (&sum)[BN / 2], const CUtensorMap& map_c, int row, int col, int m,
                                         int n, float alpha, float beta, T* C, int ldc) const {
        // TMA stores whole pieces of 16 bytes, the last one of a row too, with zeros beyond the edge.
        if (n % (16 / static_cast<int>(sizeof(T))) != 0) {
            return store_fragments(sum, row, col, m, n, alpha, beta, C, ldc);
        }
        row += threadIdx.x % wgmma::THREADS / 32 * ROWS;
        const bool leader = threadIdx.x % 32 == 0;
#pragma unroll
        for (int c = 0; c < BN; c += COLUMNS) {
            const uint32_t buffer = buffers + c / COLUMNS % 2 * BUFFER_BYTES;
            if (leader) tma::wait_stores_read<1>();  // the store of two pieces ago has left this buffer
            __syncwarp();
            stage_fragments<T>(&sum[c / 2], buffer, row, col + c, m, n, alpha, beta, C, ldc);
            tma::fence_async();
            __syncwarp();
            if (leader) {
                if (row < m && col + c < n) tma::store(map_c, row, col + c, buffer);
                tma::commit_stores();
            }
        }
    }

    // By the same, at the end: nothing is read from the buffers any more.
    __device__ __forceinline__ void finish() const {
        if (threadIdx.x % 32 == 0) tma::wait_stores_read<0>();
    }
};
