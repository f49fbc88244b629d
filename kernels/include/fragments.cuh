// The epilogue from the accumulator fragments of a warp group (include/wgmma.cuh): C = alpha * sum + beta * C, within m
// x n.
#pragma once

#include <cstdint>

#include "include/epilogue.cuh"

// Stores the fragments of 64 rows from `row` and 2 * REGISTERS columns from `col` straight to global memory. Two
// neighbours share a store, for which C is 4-byte aligned and ldc even.
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

// Stages a warp's 16 rows from `row` and 64 columns from `col`, of 16-bit elements, in a buffer in shared memory, for
// TMA to store. The buffer is aligned to 1024 bytes and has rows of 128 bytes with the 128-byte swizzle: chunk c of row
// r lies at c ^ (r % 8). stmatrix stores four chunks of eight rows at a time, without bank conflicts.
template <typename T>
__device__ __forceinline__ void stage_fragments(const float* sum, uint32_t buffer, int row, int col, int m, int n,
                                                float alpha, float beta, const T* C, int ldc) {
    static_assert(sizeof(T) == 2, "rows of 64 elements, 128 bytes");
    const int lane = threadIdx.x % 32;
    const int to_row = lane % 16;  // the row whose address this lane provides
    row += lane / 4;
    col += lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
        uint32_t packed[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {  // two blocks of eight rows for each of two blocks of eight columns
            const int h = i % 2, chunk = j + i / 2;
            alignas(4) T pair[2] = {};
            if (beta != 0.0f && row + 8 * h < m) {
                const T* c = &C[static_cast<int64_t>(row + 8 * h) * ldc + col + 8 * chunk];
                if (col + 8 * chunk < n) pair[0] = c[0];
                if (col + 8 * chunk + 1 < n) pair[1] = c[1];
            }
            update_c2(pair, alpha, &sum[4 * chunk + 2 * h], beta);
            packed[i] = *reinterpret_cast<const uint32_t*>(pair);
        }
        const uint32_t to = buffer + to_row * 128 + ((j + lane / 16) ^ lane % 8) * 16;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     :
                     : "r"(to), "r"(packed[0]), "r"(packed[1]), "r"(packed[2]), "r"(packed[3])
                     : "memory");
    }
}
