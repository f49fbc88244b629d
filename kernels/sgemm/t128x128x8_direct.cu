// t128x128x8_direct: sums go from registers to C, with no rearrangement.
//
// The one idea it takes away from `t128x128x8`: the way to C through shared memory. All else is
// that kernel's own source; only the function that stores a warp's tile is another, so that the
// difference of the two is what the rearrangement gives. (The barrier before it stays, unneeded.)
//
//     columns       0    4    8  ..  28      a warp's store writes one word of each lane's patch:
//     row  0        x... x... x...  x...     4 rows, 8 words in each, every fourth. These lie in
//          4        x... x... x...  x...     16 sectors, of which it fills a quarter; 32
//          8        x... x... x...  x...     neighbours lie in 4 (5 where a row is not aligned).
//         12        x... x... x...  x...
//
// Template:  BM, BN, BK: the block's tile.
// Launch:    256 threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  nothing; any m, n, k and leading dimension.
// Source:    worklog C (seed 003), section 5.3, which stores C through shared memory to avoid this.

#include "include/warp_tile.cuh"

// C = alpha * sum + beta * C for the warp's tile, whose first element is (row, col): each lane its
// own elements, a word at a time. Called as `store_tile` is; `scratch` is not used.
template <int LANES_N, int TM, int TN>
__device__ __forceinline__ void store_tile_directly(const float (&sum)[TM][TN], uint32_t scratch,
                                                    int row, int col, int m, int n, float alpha,
                                                    float beta, float* C, int ldc) {
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

#define sgemm_t128x128x8 sgemm_t128x128x8_direct
#define store_tile store_tile_directly
#include "sgemm/t128x128x8.cu"
