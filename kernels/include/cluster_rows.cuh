// The sum of what SLICES blocks of a cluster, each over its part of k, have computed of one tile. Every block leaves
// its sums in its own shared memory. Then it adds up an equal part of the tile's rows, which it reads from all of them
// through distributed shared memory:
//
//     slice 0   all its sums --> shared memory   | sync |   rows  0 .. 20 of 0 + 1 + 2   arrive   to C | wait |
//     slice 1   all its sums --> shared memory   | sync |   rows 21 .. 41 of 0 + 1 + 2   arrive   to C | wait |
//     slice 2   all its sums --> shared memory   | sync |   rows 42 .. 63 of 0 + 1 + 2   arrive   to C | wait |
//
// In include/slice_sums.cuh a block sends its sums to an inbox of the block that adds them. That memory must be free
// before all blocks have finished; here the sums take the place of tiles that this block needs no more.
//
// Slices are added in their order, so that the same problem gives the same bits.
#pragma once

#include "include/warpgroup.cuh"

namespace cluster {

// barrier.cluster.arrive: what this thread has read or written is done before others pass their `wait`.
__device__ __forceinline__ void arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }

// mapa.shared::cluster: where this shared address of another block of the cluster is.
__device__ __forceinline__ uint32_t address_in(uint32_t address, int block) {
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
    return there;
}

// ld.shared::cluster: a float at such an address.
__device__ __forceinline__ float load(uint32_t there) {
    float v;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there) : "memory");
    return v;
}

}  // namespace cluster

// A block of WARPS warps has its BM x BN sums at `tile` in shared memory, LD words from row to row; so has every block
// of the cluster, at the same address. All threads of all blocks call this. WARPS rows at a time, a warp stores
// C = alpha * sum + beta * C for a row, neighbouring lanes neighbouring columns. tile_row, tile_col: the tile's in C.
template <int SLICES, int WARPS, int BM, int BN, int LD>
__device__ __forceinline__ void store_rows_of_cluster(uint32_t tile, int slice, int tile_row, int tile_col, int m,
                                                      int n, float alpha, float beta, float* C, int ldc) {
    static_assert(BN % 32 == 0);
    constexpr int ROWS = ((BM + SLICES - 1) / SLICES + WARPS - 1) / WARPS;
    const int first = BM * slice / SLICES + threadIdx.x / 32, end = min(BM * (slice + 1) / SLICES, m - tile_row);
    const int lane = threadIdx.x % 32, columns = n - tile_col - lane;
    float sum[ROWS][BN / 32] = {};
    auto for_each = [&](auto work) {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
#pragma unroll
            for (int j = 0; j < BN / 32; ++j) {
                if (first + i * WARPS < end && j * 32 < columns) work(sum[i][j], i, j);
            }
        }
    };
    cluster::sync();  // the sums of all blocks are there
#pragma unroll
    for (int s = 0; s < SLICES; ++s) {
        const uint32_t there = cluster::address_in(tile + (first * LD + lane) * 4, s);
        for_each([&](float& sum, int i, int j) { sum += cluster::load(there + (i * WARPS * LD + j * 32) * 4); });
    }
    __syncwarp();
    cluster::arrive();
    float* c = &C[static_cast<int64_t>(tile_row + first) * ldc + tile_col + lane];
    for_each([&](float& sum, int, int) { sum *= alpha; });
    if (beta != 0.0f) {
        for_each([&](float& sum, int i, int j) { sum += beta * c[i * WARPS * static_cast<int64_t>(ldc) + j * 32]; });
    }
    for_each([&](float& sum, int i, int j) { c[i * WARPS * static_cast<int64_t>(ldc) + j * 32] = sum; });
    __syncwarp();
    cluster::wait();  // no block ends while others read its sums
}
