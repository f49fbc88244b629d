// Stream-K: a tile scheduler that divides the last tiles among blocks along k (Osama et al., "Stream-K: Work-centric
// Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU", 2023).
//
// The unit of scheduling is a cluster; a kernel without clusters has clusters of one block. Full waves of tiles are
// computed data-parallel, a tile a cluster. The tiles of the last, partial wave are laid end to end along k, and every
// cluster gets an equal range of these steps. A range may end in the middle of a tile: the cluster that computes the
// first steps of a tile owns it, the others are its peers. A peer stores its partial sums to the workspace and sets a
// flag; the owner waits for the flags, adds the partial sums to its own (the fix-up), and runs the epilogue.
#pragma once

#include <cstdint>

#include "include/warpgroup.cuh"
#include "include/wgmma.cuh"

// The workspace: for each block GROUPS warp groups' partial sums, SUMS floats a thread in the order of its registers,
// rotated by FIRST, and GROUPS flags, which are zero before and after the kernel.
template <int GROUPS, int SUMS, int FIRST = 0>
struct PartialSums {
    float4* sums;     // GROUPS x 128 x SUMS floats a block
    unsigned* flags;  // GROUPS a block

    __device__ __forceinline__ float4* address(int block, int group) const {
        return sums + (block * GROUPS + group) * (wgmma::THREADS * SUMS / 4) + threadIdx.x % wgmma::THREADS;
    }

    // st.release: whoever sees the flag also sees all that the warp group wrote before its barrier.
    static __device__ __forceinline__ void set(unsigned* flag) {
        asm volatile("st.release.gpu.u32 [%0], 1;" : : "l"(flag) : "memory");
    }

    // ld.acquire.
    static __device__ __forceinline__ bool is_set(const unsigned* flag) {
        unsigned value;
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
        return value != 0;
    }

    static __device__ __forceinline__ void clear(unsigned* flag) {
        asm volatile("st.relaxed.gpu.u32 [%0], 0;" : : "l"(flag) : "memory");
    }

    // Called by a warp group of a peer: stores its partial sums. `barrier` is a named barrier of the warp group's own.
    template <int HEIGHT, int WIDTH>
    __device__ __forceinline__ void store(const float (&sum)[HEIGHT][WIDTH], int group, int barrier) const {
        static_assert(HEIGHT * WIDTH == SUMS, "all of them");
        float4* to = address(blockIdx.x, group);
#pragma unroll
        for (int i = 0; i < SUMS; i += 4) {
            auto s = [&](int j) { return sum[(i + FIRST + j) % SUMS / WIDTH][(i + FIRST + j) % WIDTH]; };
            __stcg(&to[i / 4 * wgmma::THREADS], make_float4(s(0), s(1), s(2), s(3)));
        }
        warpgroup::sync(barrier);
        if (threadIdx.x % wgmma::THREADS == 0) set(&flags[blockIdx.x * GROUPS + group]);
    }

    // Called by a warp group of the owner: waits for the partial sums of `block`, adds them, and clears the flag.
    template <int HEIGHT, int WIDTH>
    __device__ __forceinline__ void reduce(float (&sum)[HEIGHT][WIDTH], int block, int group, int barrier) const {
        if (threadIdx.x % wgmma::THREADS == 0) {
            unsigned* flag = &flags[block * GROUPS + group];
            while (!is_set(flag)) {
            }
            clear(flag);
        }
        warpgroup::sync(barrier);
        const float4* from = address(block, group);
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

// FIXUP: what a fix-up costs, in steps over k; where dividing saves less than that, tiles stay whole. WAYS: the most
// clusters that share a tile, for its owner adds their partial sums one after the other.
template <int FIXUP, int WAYS>
struct StreamKScheduler {
    int clusters, cluster;           // how many there are, and the index of this one
    int tiles, steps;                // of the problem, and of each tile over k
    int whole_tiles, peer_clusters;  // the tiles that are not divided, and the clusters that divide the others

    __device__ __forceinline__ StreamKScheduler(int clusters, int cluster, int tiles, int steps)
        : clusters(clusters), cluster(cluster), tiles(tiles), steps(steps), whole_tiles(tiles), peer_clusters(1) {
        const int left = tiles % clusters;
        // Every one of these clusters needs at least a step, since the owner waits for it. FIXUP >= WAYS implies that.
        const int ways = FIXUP < WAYS ? min(WAYS, steps) : WAYS;
        const int most = min(clusters, ways * left);
        if (left > 0 && steps - left * steps / most > FIXUP) {
            whole_tiles = tiles - left;
            peer_clusters = most;
        }
    }

    // The first step of a cluster's range, counted over all divided tiles, of which there are fewer than clusters.
    __device__ __forceinline__ int range_begin(int cluster) const {
        return (tiles - whole_tiles) * steps * min(cluster, peer_clusters) / peer_clusters;
    }

    // Calls work(tile, first step, the step after the last) for each work unit of this cluster.
    template <typename Work>
    __device__ __forceinline__ void for_each(Work work) const {
        const int end = range_begin(cluster + 1);
        for (int next = cluster, at = range_begin(cluster); next < whole_tiles || at < end;) {
            int tile = next, first = 0, last = steps;
            if (next < whole_tiles) {
                next += clusters;
            } else {
                tile = whole_tiles + at / steps;
                first = at % steps;
                last = min(steps, first + end - at);
                at += last - first;
            }
            work(tile, first, last);
        }
    }

    // Calls peer(cluster) for each peer of a tile that this cluster owns.
    template <typename Peer>
    __device__ __forceinline__ void for_each_peer(int tile, Peer peer) const {
        const int end = (tile - whole_tiles + 1) * steps;
        for (int c = cluster + 1; c < peer_clusters && range_begin(c) < end; ++c) peer(c);
    }
};
