// What the kernels of sgemm_cu do alike: the part of C that one warp computes.
//
// LANES_M x LANES_N lanes have TM x TN elements each, in patches of 4 x 4 that lie 4 * LANES_M rows
// and 4 * LANES_N columns apart. So the warp reads consecutive float4 of a row of the tiles:
//
//     columns   0     4     8            4*LANES_N
//     rows 0    l(0,0) l(0,1) l(0,2) ...  l(0,0) l(0,1) ...     l(i,j): the lane with row() = i,
//          4    l(1,0) l(1,1) l(1,2) ...  l(1,0) l(1,1) ...             col() = j
//          ..
//  4*LANES_M    l(0,0) l(0,1) ...
#pragma once

#include "include/epilogue.cuh"
#include "include/outer_product.cuh"
#include "include/ptx.cuh"

// Which of the warp's rows and columns of patches a lane has. Of a 128-bit load the two quarters of
// a half-warp are served together only if all pairs of lanes (i, i ^ 1), or all (i, i ^ 2), want the
// same address. Bit 0 of the lane counts along n and bit 1 along m, so that this holds for the loads
// of A by the first rule, and for those of B by the second. APART: it holds for neither, for lanes
// 8 x 4; a load that is served together keeps FMAs from being issued (docs/hardware.md).
template <int LANES_N, bool APART = false>
struct Lane {
    int row, col;

    __device__ Lane() {
        const int lane = threadIdx.x % 32;
        if constexpr (APART) {
            static_assert(LANES_N == 4);
            row = lane % 8;
            col = lane / 8 ^ lane % 4;
        } else {
            row = lane / 2 % 2 + lane / 4 / (LANES_N / 2) * 2;
            col = lane % 2 + lane / 4 % (LANES_N / 2) * 2;
        }
    }
};

// COUNT floats from shared memory, as float4 that lie STEP floats apart.
template <int STEP, int COUNT>
__device__ __forceinline__ void load_fragment(float (&fragment)[COUNT], uint32_t address) {
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        *reinterpret_cast<float4*>(&fragment[i]) = ptx::load_shared_4(address + i / 4 * STEP * 4);
    }
}

// Words from row to row of `store_tile`'s scratch: the eight lanes that store together, two rows x
// four columns of float4, hit all 32 banks.
template <int LANES_N, int TN>
constexpr int SCRATCH_LD = LANES_N * TN + 16;

// C = alpha * sum + beta * C for the warp's tile, whose first element is (row, col). At a time, each
// lane puts one of its rows into `scratch`, and the warp writes these LANES_M rows of C with
// neighbouring lanes on neighbouring columns: whole lines, where the sums lie four by four.
// `scratch`: shared memory for LANES_M rows of SCRATCH_LD floats that the warp has for itself.
template <int LANES_N, bool APART = false, int TM, int TN>
__device__ __forceinline__ void store_tile(const float (&sum)[TM][TN], uint32_t scratch, int row,
                                           int col, int m, int n, float alpha, float beta, float* C,
                                           int ldc) {
    constexpr int LANES_M = 32 / LANES_N;
    constexpr int LD = SCRATCH_LD<LANES_N, TN>;
    const Lane<LANES_N, APART> lane;
    const uint32_t write = scratch + (lane.row * LD + lane.col * 4) * 4;
    const uint32_t read = scratch + threadIdx.x % 32 * 4;
    col += threadIdx.x % 32;

#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            ptx::store_shared_4(write + j * LANES_N * 4,
                                make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]));
        }
        __syncwarp();
#pragma unroll 2
        for (int line = 0; line < LANES_M; ++line) {
            const int c_row = row + (i / 4 * LANES_M + line) * 4 + i % 4;
#pragma unroll
            for (int j = 0; j < TN * LANES_N; j += 32) {
                if (c_row < m && col + j < n) {
                    update_c(&C[static_cast<int64_t>(c_row) * ldc + col + j], alpha,
                             ptx::load_shared(read + (line * LD + j) * 4), beta);
                }
            }
        }
        __syncwarp();
    }
}

// The same without `scratch`: each lane writes its own elements, a word at a time.
//
//     columns       0    4    8  ..  28      one store of a warp, a word of each lane's patch: 4 rows,
//     row  0        x... x... x...  x...     8 words in each, every fourth. These lie in 16 sectors,
//          4        x... x... x...  x...     of which they fill a quarter; 32 neighbours lie in 4
//          8        x... x... x...  x...     (5 where a row is not aligned).
//         12        x... x... x...  x...
template <int LANES_N, int TM, int TN>
__device__ __forceinline__ void store_tile_directly(const float (&sum)[TM][TN], int row, int col,
                                                    int m, int n, float alpha, float beta, float* C,
                                                    int ldc) {
    constexpr int LANES_M = 32 / LANES_N;
    const Lane<LANES_N> lane;

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int c_row = row + (i / 4 * LANES_M + lane.row) * 4 + i % 4;
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int c_col = col + (j / 4 * LANES_N + lane.col) * 4 + j % 4;
            if (c_row < m && c_col < n) {
                update_c(&C[static_cast<int64_t>(c_row) * ldc + c_col], alpha, sum[i][j], beta);
            }
        }
    }
}
