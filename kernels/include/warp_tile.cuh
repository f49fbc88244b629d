// What the kernels of worklog C do alike: the part of C that one warp computes.
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
#include "include/ptx.cuh"

// Which of the warp's rows and columns of patches a lane has. Of a 128-bit load the two quarters of
// a half-warp are served together only if all pairs of lanes (i, i ^ 1), or all (i, i ^ 2), want the
// same address. Bit 0 of the lane counts along n and bit 1 along m, so that this holds for the loads
// of A by the first rule, and for those of B by the second.
template <int LANES_N>
struct Lane {
    int row, col;

    __device__ Lane() {
        const int lane = threadIdx.x % 32;
        row = lane / 2 % 2 + lane / 4 / (LANES_N / 2) * 2;
        col = lane % 2 + lane / 4 % (LANES_N / 2) * 2;
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

// sum += a * b^T. The result does not depend on the order, the speed does. A multiply-add takes two
// issue cycles where two of the registers that it reads are both even or both odd; what the
// instruction before read as the same operand is not read again. Down a column b stays, and with the
// next column going up, `a` stays where b changes: each multiply-add needs two new registers, and
// nvcc mostly finds one even and one odd. Row by row, or down every column, it finds fewer.
template <int TM, int TN>
__device__ __forceinline__ void add_outer_product(float (&sum)[TM][TN], const float (&a)[TM],
                                                  const float (&b)[TN]) {
#pragma unroll
    for (int j = 0; j < TN; ++j) {
#pragma unroll
        for (int step = 0; step < TM; ++step) {
            const int i = j % 2 ? TM - 1 - step : step;
            sum[i][j] += a[i] * b[j];
        }
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
template <int LANES_N, int TM, int TN>
__device__ __forceinline__ void store_tile(const float (&sum)[TM][TN], uint32_t scratch, int row,
                                           int col, int m, int n, float alpha, float beta, float* C,
                                           int ldc) {
    constexpr int LANES_M = 32 / LANES_N;
    constexpr int LD = SCRATCH_LD<LANES_N, TN>;
    const Lane<LANES_N> lane;
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
