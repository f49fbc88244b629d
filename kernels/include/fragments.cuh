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

// The same for 64 columns, of 16-bit elements, but a warp's 16 rows of them go to a buffer in shared memory: rows of 128
// bytes, piece p of row r at p ^ (r % 8), as a tensor map's 128-byte swizzle has it. Aligned to 1024 bytes. `row`: the
// warp's first. stmatrix stores four pieces of eight rows at a time, and meets all banks.
template <typename T>
__device__ __forceinline__ void stage_fragments(const float* sum, uint32_t buffer, int row, int col, int m, int n,
                                                float alpha, float beta, const T* C, int ldc) {
    static_assert(sizeof(T) == 2, "rows of 64 elements, 128 bytes");
    const int lane = threadIdx.x % 32;
    const int to_row = lane % 16;  // of the row whose address this lane gives
    row += lane / 4;
    col += lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
        uint32_t packed[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {  // eight rows, then eight more; eight columns, then eight more
            const int h = i % 2, piece = j + i / 2;
            alignas(4) T pair[2] = {};
            if (beta != 0.0f && row + 8 * h < m) {
                const T* c = &C[static_cast<int64_t>(row + 8 * h) * ldc + col + 8 * piece];
                if (col + 8 * piece < n) pair[0] = c[0];
                if (col + 8 * piece + 1 < n) pair[1] = c[1];
            }
            update_c2(pair, alpha, &sum[4 * piece + 2 * h], beta);
            packed[i] = *reinterpret_cast<const uint32_t*>(pair);
        }
        const uint32_t to = buffer + to_row * 128 + ((j + lane / 16) ^ lane % 8) * 16;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     :
                     : "r"(to), "r"(packed[0]), "r"(packed[1]), "r"(packed[2]), "r"(packed[3])
                     : "memory");
    }
}
