// C by way of shared memory, where each thread has a patch of neighbouring elements.
//
// A thread's patch is TM rows of TN columns, and the threads of a block lie BN / TN side by side. Stored
// from registers, a warp writes pieces of rows. Here row i of every patch goes to shared memory first,
// BM / TM rows of the tile of C at a time, and from there neighbouring threads write neighbouring
// elements: whole rows of BN, all of every sector.
#pragma once

#include "include/epilogue.cuh"

// C = alpha * sum + beta * C for the block's tile, whose first element `C` points at. `WIDE`: four
// elements a store; then C is 16-byte aligned and ldc a multiple of 4.
template <int BM, int BN, bool WIDE, int TM, int TN>
__device__ __forceinline__ void store_staged(const float (&sum)[TM][TN], float alpha, float beta,
                                             float* C, int ldc) {
    constexpr int THREADS = BM / TM * (BN / TN);
    constexpr int WORDS = WIDE ? 4 : 1;
    static_assert(BM / TM * BN % (THREADS * WORDS) == 0, "the last pass is a full one");
    __shared__ alignas(16) float rows[BM / TM][BN];

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        float* to = &rows[threadIdx.x / (BN / TN)][threadIdx.x % (BN / TN) * TN];
        for (int j = 0; j < TN; ++j) to[j] = sum[i][j];
        __syncthreads();
        for (int first = 0; first < BM / TM * BN; first += THREADS * WORDS) {
            const int word = first + threadIdx.x * WORDS;
            const float* from = &rows[word / BN][word % BN];
            float* c = &C[(word / BN * TM + i) * ldc + word % BN];
            if constexpr (WIDE) {
                update_c4(c, alpha, from, beta);
            } else {
                update_c(c, alpha, *from, beta);
            }
        }
        if (i < TM - 1) __syncthreads();  // the rows are stored and give way to the next
    }
}
