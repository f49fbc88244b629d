// C = alpha * sum + beta * C from the registers of a warp group (include/wgmma.cuh), within m x n.
#pragma once

#include <cstdint>

#include "include/epilogue.cuh"

// `sum`: N columns from `col` on, of 64 rows from `row` on. Pairs of neighbours share a store: C is 4-byte
// aligned and ldc even.
template <typename T, int REGISTERS>
__device__ __forceinline__ void store_fragments(const float (&sum)[REGISTERS], int row, int col, int m, int n,
                                                float alpha, float beta, T* C, int ldc) {
    const int thread = threadIdx.x % 128;
    row += thread / 32 * 16 + thread % 32 / 4;
    col += thread % 4 * 2;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        if (row + 8 * h >= m) break;
        T* c = &C[static_cast<int64_t>(row + 8 * h) * ldc + col];
#pragma unroll
        for (int j = 0; j < REGISTERS / 4; ++j) {
            const float* pair = &sum[4 * j + 2 * h];
            if (col + 8 * j + 1 < n) {
                update_c2(&c[8 * j], alpha, pair, beta);
            } else if (col + 8 * j < n) {
                update_c(&c[8 * j], alpha, pair[0], beta);
            }
        }
    }
}

// The same for 64 columns, of 16-bit elements, but into a buffer in shared memory: 64 rows of 128 bytes, piece p of row
// r at p ^ (r % 8), as a tensor map's 128-byte swizzle has it. A warp's stores meet all banks: eight rows, and four
// lanes side by side in a piece of each.
template <typename T>
__device__ __forceinline__ void stage_fragments(const float* sum, uint32_t buffer, int row, int col, int m, int n,
                                                float alpha, float beta, const T* C, int ldc) {
    static_assert(sizeof(T) == 2, "rows of 64 elements, 128 bytes");
    const int thread = threadIdx.x % 128;
    const int r = thread / 32 * 16 + thread % 32 / 4;
    col += thread % 4 * 2;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const bool inside = beta != 0.0f && row + r + 8 * h < m;
        const T* c = &C[static_cast<int64_t>(row + r + 8 * h) * ldc + col];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            alignas(4) T pair[2] = {};
            if (inside && col + 8 * j < n) pair[0] = c[8 * j];
            if (inside && col + 8 * j + 1 < n) pair[1] = c[8 * j + 1];
            update_c2(pair, alpha, &sum[4 * j + 2 * h], beta);
            const uint32_t to = buffer + (r + 8 * h) * 128 + (j ^ r % 8) * 16 + thread % 4 * 4;
            asm volatile("st.shared.u32 [%0], %1;"
                         :
                         : "r"(to), "r"(*reinterpret_cast<const uint32_t*>(pair))
                         : "memory");
        }
    }
}
