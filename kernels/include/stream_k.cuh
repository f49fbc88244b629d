// Stream-K: tiles divided among blocks by their steps over k (Osama et al., "Stream-K: Work-centric Parallel
// Decomposition for Dense Matrix-Matrix Multiplication on the GPU", 2023).
#pragma once

#include <cstdint>

#include "include/warpgroup.cuh"
#include "include/wgmma.cuh"

// What warp groups leave of a tile for each other: each thread its registers as they lie. GROUPS of a block leave some,
// SUMS a thread.
template <int GROUPS, int SUMS, int FIRST = 0>
struct PartialSums {
    float4* sums;     // GROUPS x 128 x SUMS floats a block
    unsigned* flags;  // GROUPS a block; zero before and after

    __device__ __forceinline__ float4* of(int block, int group) const {
        return sums + (block * GROUPS + group) * (wgmma::THREADS * SUMS / 4) + threadIdx.x % wgmma::THREADS;
    }

    // st.release: all that the warp group wrote before it met can be seen by whoever sees the flag.
    static __device__ __forceinline__ void raise(unsigned* flag) {
        asm volatile("st.release.gpu.u32 [%0], 1;" : : "l"(flag) : "memory");
    }

    // ld.acquire
    static __device__ __forceinline__ bool raised(const unsigned* flag) {
        unsigned value;
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
        return value != 0;
    }

    static __device__ __forceinline__ void lower(unsigned* flag) {
        asm volatile("st.relaxed.gpu.u32 [%0], 0;" : : "l"(flag) : "memory");
    }

    // By a warp group: leave its sums. It meets at named barrier `barrier`.
    template <int HEIGHT, int WIDTH>
    __device__ __forceinline__ void put(const float (&sum)[HEIGHT][WIDTH], int group, int barrier) const {
        static_assert(HEIGHT * WIDTH == SUMS, "all of them");
        float4* to = of(blockIdx.x, group);
#pragma unroll
        for (int i = 0; i < SUMS; i += 4) {
            auto s = [&](int j) { return sum[(i + FIRST + j) % SUMS / WIDTH][(i + FIRST + j) % WIDTH]; };
            __stcg(&to[i / 4 * wgmma::THREADS], make_float4(s(0), s(1), s(2), s(3)));
        }
        warpgroup::meet(barrier);
        if (threadIdx.x % wgmma::THREADS == 0) raise(&flags[blockIdx.x * GROUPS + group]);
    }

    // By a warp group: add what that of `block` has left, and lower its flag.
    template <int HEIGHT, int WIDTH>
    __device__ __forceinline__ void add(float (&sum)[HEIGHT][WIDTH], int block, int group, int barrier) const {
        if (threadIdx.x % wgmma::THREADS == 0) {
            unsigned* flag = &flags[block * GROUPS + group];
            while (!raised(flag)) {
            }
            lower(flag);
        }
        warpgroup::meet(barrier);
        const float4* from = of(block, group);
#pragma unroll
        for (int i = 0; i < SUMS; i += 4) {
            const float4 part = __ldcg(&from[i / 4 * wgmma::THREADS]);
            auto s = [&](int j) -> float& { return sum[(i + FIRST + j) % SUMS / WIDTH][(i + FIRST + j) % WIDTH]; };
            s(0) += part.x;
            s(1) += part.y;
            s(2) += part.z;
            s(3) += part.w;
        }
    }
};

// A cluster's share: whole tiles in turn, then a stretch of the steps over k of those that are left, which would not have
// filled all clusters. So that no tile has to be put together from many parts, at most WAYS clusters share one. Putting
// together costs about FIXUP steps' time: where dividing saves less, tiles stay whole.
template <int FIXUP, int WAYS>
struct Share {
    int clusters, mine;  // how many there are, and this one's number
    int tiles, steps;    // of the problem, and over k of each
    int whole, sharing;  // tiles that are not divided, and clusters that divide the others

    __device__ __forceinline__ Share(int clusters, int mine, int tiles, int steps)
        : clusters(clusters), mine(mine), tiles(tiles), steps(steps), whole(tiles), sharing(1) {
        const int left = tiles % clusters;
        // Each of them has a step: others would wait for what it leaves. FIXUP >= WAYS says that already.
        const int ways = FIXUP < WAYS ? min(WAYS, steps) : WAYS;
        const int most = min(clusters, ways * left);
        if (left > 0 && steps - left * steps / most > FIXUP) {
            whole = tiles - left;
            sharing = most;
        }
    }

    // Where the stretch of a cluster begins: a step, counted over all divided tiles, fewer than there are clusters.
    __device__ __forceinline__ int begin(int cluster) const {
        return (tiles - whole) * steps * min(cluster, sharing) / sharing;
    }

    // work(tile, first step, the step after the last)
    template <typename Work>
    __device__ __forceinline__ void for_each(Work work) const {
        const int end = begin(mine + 1);
        for (int next = mine, at = begin(mine); next < whole || at < end;) {
            int tile = next, first = 0, last = steps;
            if (next < whole) {
                next += clusters;
            } else {
                tile = whole + at / steps;
                first = at % steps;
                last = min(steps, first + end - at);
                at += last - first;
            }
            work(tile, first, last);
        }
    }

    // Of a tile that this cluster began and did not end, each that goes on: others(cluster).
    template <typename Others>
    __device__ __forceinline__ void for_others(int tile, Others others) const {
        const int end = (tile - whole + 1) * steps;
        for (int cluster = mine + 1; cluster < sharing && begin(cluster) < end; ++cluster) others(cluster);
    }
};
